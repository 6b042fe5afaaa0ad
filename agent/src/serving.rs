//! HTTP/1.1 for whoever asks the agent: one request a connection, within bounds of size and time.

use std::{convert::Infallible, future::Future, time::Duration};

use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// How long a connection may take, from its first byte to its last.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Longest head, and what is read at once. Bytes; hyper takes no less.
pub const HEAD_BYTES: usize = 8 << 10;
/// After an error of a listener, such as too many open files, it rests so long.
pub const REST: Duration = Duration::from_millis(100);

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its request was answered.
    Answered,
    /// It was no HTTP, its head was too long, or whoever asked is gone.
    Unusable,
    /// It took too long.
    TimedOut,
}

/// Answers the one request of a connection.
pub async fn converse<S, F>(stream: S, respond: impl Fn(Request<Incoming>) -> F) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let response = respond(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HEAD_BYTES);
    match tokio::time::timeout(PATIENCE, http.serve_connection(TokioIo::new(stream), service)).await {
        Ok(Ok(())) => End::Answered,
        Ok(Err(_)) => End::Unusable,
        Err(_) => End::TimedOut,
    }
}
