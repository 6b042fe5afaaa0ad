//! A server that reads requests and does with each what a test says.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

pub const ALLOW: &str = r#"{"decision":"allow"}"#;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub head: String,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// What is done with a request.
#[derive(Clone, Debug)]
pub enum Action {
    /// These bytes are sent, and the connection goes on.
    Send(Vec<u8>),
    /// These bytes are sent, and the connection ends.
    Close(Vec<u8>),
    /// Nothing more happens.
    Hang,
    /// These bytes are sent at once; then these one at a time, every 10 ms, for ever.
    Drip(Vec<u8>, u8),
    /// These bytes are sent at once; then these again and again, as fast as they are taken.
    Flood(Vec<u8>, Vec<u8>),
}

/// The task ends with it.
pub struct Server {
    pub address: SocketAddr,
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers each request like this.
    pub async fn of(action: Action) -> Self {
        Self::with(None, move |_| action.clone()).await
    }

    /// Answers each request with 200 and this body.
    pub async fn answering(body: &str) -> Self {
        Self::of(Action::Send(ok(body))).await
    }

    pub async fn with(
        tls: Option<TlsAcceptor>,
        act: impl Fn(&Request) -> Action + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let connections = Arc::new(AtomicUsize::new(0));
        let (kept, count, act) = (Arc::clone(&requests), Arc::clone(&connections), Arc::new(act));
        let task = tokio::spawn(async move {
            // Dropped with this task, which ends all connections.
            let mut tasks = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let (kept, act, tls) = (Arc::clone(&kept), Arc::clone(&act), tls.clone());
                tasks.spawn(async move {
                    match tls {
                        None => serve(stream, &kept, &*act).await,
                        // What fails in the handshake is the client's to report.
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &kept, &*act).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { address, url: format!("{scheme}://{address}/evaluate"), requests, connections, task }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A response with a body of JSON.
pub fn ok(body: &str) -> Vec<u8> {
    response("200 OK", "content-type: application/json\r\n", body)
}

pub fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Until the client goes, or the server is to end the connection.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    requests: &Mutex<Vec<Request>>,
    act: &(dyn Fn(&Request) -> Action + Send + Sync),
) -> Option<()> {
    let mut buffer = Vec::new();
    loop {
        let request = read(&mut stream, &mut buffer).await?;
        requests.lock().unwrap().push(request.clone());
        match act(&request) {
            Action::Send(bytes) => stream.write_all(&bytes).await.ok()?,
            Action::Close(bytes) => {
                stream.write_all(&bytes).await.ok()?;
                return stream.shutdown().await.ok();
            }
            Action::Hang => std::future::pending().await,
            Action::Drip(first, byte) => {
                stream.write_all(&first).await.ok()?;
                loop {
                    stream.write_all(&[byte]).await.ok()?;
                    stream.flush().await.ok()?;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            Action::Flood(first, more) => {
                stream.write_all(&first).await.ok()?;
                loop {
                    stream.write_all(&more).await.ok()?;
                }
            }
        }
    }
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S, buffer: &mut Vec<u8>) -> Option<Request> {
    loop {
        let end = buffer.windows(4).position(|window| window == b"\r\n\r\n").map(|end| end + 4);
        if let Some(end) = end {
            let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
            let mut request = Request { head, body: String::new() };
            let length: usize = request.header("content-length").unwrap().parse().unwrap();
            if buffer.len() >= end + length {
                request.body = String::from_utf8(buffer[end..end + length].to_vec()).unwrap();
                buffer.drain(..end + length);
                return Some(request);
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
