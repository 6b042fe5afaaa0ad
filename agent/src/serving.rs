//! HTTP/1.1 for whoever asks the agent: one request a connection, within bounds of size and time.

use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use hyper::{
    Request, Response,
    body::{Body, Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// How long a connection may take, from its first byte to its last; one with an answer that goes on, to the beginning of that.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Longest head, and what is read at once. Bytes; hyper takes no less.
pub const HEAD_BYTES: usize = 8 << 10;
/// After an error of a listener, such as too many open files, it rests so long.
pub const REST: Duration = Duration::from_millis(100);

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its request was answered, or whoever asked left an answer that goes on.
    Answered,
    /// It was no HTTP, its head was too long, or whoever asked is gone.
    Unusable,
    /// It took too long.
    TimedOut,
}

/// Answers the one request of a connection. An answer whose length is not known goes on for as long as it likes.
pub async fn converse<S, F, B>(stream: S, respond: impl Fn(Request<Incoming>) -> F) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let goes_on = &AtomicBool::new(false);
    let service = service_fn(|request| {
        let response = respond(request);
        async move {
            let response = response.await;
            goes_on.store(response.body().size_hint().exact().is_none(), Ordering::Relaxed);
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HEAD_BYTES);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::time::timeout(PATIENCE, connection.as_mut()).await;
    match ended {
        Ok(Ok(())) => End::Answered,
        _ if goes_on.load(Ordering::Relaxed) => {
            if ended.is_err() {
                // However it ends: that is how one leaves.
                let _ = connection.await;
            }
            End::Answered
        }
        Ok(Err(_)) => End::Unusable,
        Err(_) => End::TimedOut,
    }
}
