//! Counts and logs calls.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::Frame;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tower::{Layer, Service};

use crate::listen::Peer;
use crate::live::Live;
use crate::metrics;

/// The trailer with the status of a call.
const STATUS: &str = "grpc-status";
const CANCELLED: usize = 1;
const UNKNOWN: usize = 2;

/// Lets every call be counted and logged.
#[derive(Clone)]
pub(crate) struct Observe {
    pub(crate) live: Arc<Live>,
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { live: Arc::clone(&self.live), inner }
    }
}

/// A service whose calls are counted and logged.
#[derive(Clone)]
pub(crate) struct Observed<S> {
    live: Arc<Live>,
    inner: S,
}

impl<S> Service<Request<Body>> for Observed<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let call = Call::start(&self.live, &request);
        let future = self.inner.call(request);
        Box::pin(async move {
            let mut call = call;
            let response = future.await?;
            // A call that fails at once has its status among the headers.
            if response.headers().contains_key(STATUS) {
                call.finish(response.headers());
            }
            Ok(response.map(|body| Body::new(ObservedBody { body, call })))
        })
    }
}

/// A call from its start to its end.
struct Call {
    live: Arc<Live>,
    path: String,
    method: usize,
    start: Instant,
    peer: Option<Peer>,
    finished: bool,
}

impl Call {
    fn start(live: &Arc<Live>, request: &Request<Body>) -> Call {
        let path = request.uri().path().trim_start_matches('/');
        let method = metrics::method(path);
        live.metrics.started(method);
        let peer = request.extensions().get::<Peer>().cloned();
        let path =
            if tracing::enabled!(tracing::Level::INFO) { path.chars().take(200).collect() } else { String::new() };
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!(grpc.call = path, headers = ?request.headers(), "started call");
        }
        Call { live: Arc::clone(live), path, method, start: Instant::now(), peer, finished: false }
    }

    fn finish(&mut self, trailers: &HeaderMap) {
        let status = Status::from_header_map(trailers);
        let code = status.as_ref().map_or(UNKNOWN, |status| status.code() as usize);
        self.finish_with(code, status.as_ref().map_or("", |status| status.message()));
    }

    fn finish_with(&mut self, code: usize, message: &str) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let took = self.start.elapsed();
        self.live.metrics.finished(self.method, code, took);
        let peer = self.peer.as_ref().map(|peer| peer.0.as_str()).unwrap_or_default();
        let (time_ms, code) = (took.as_secs_f64() * 1e3, (code, metrics::code_name(code)));
        match code.0 {
            0 | CANCELLED => {
                tracing::debug!(
                    grpc.call = self.path,
                    grpc.code = code.1,
                    grpc.time_ms = time_ms,
                    peer,
                    "finished call"
                );
            }
            _ => {
                tracing::info!(
                    grpc.call = self.path,
                    grpc.code = code.1,
                    grpc.error = message,
                    grpc.time_ms = time_ms,
                    peer,
                    "finished call"
                );
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // Whoever asked went away before the end.
        self.finish_with(CANCELLED, "");
    }
}

/// A body that tells when the call ends.
struct ObservedBody {
    body: Body,
    call: Call,
}

impl http_body::Body for ObservedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.call.finish(trailers);
                }
            }
            Poll::Ready(Some(Err(status))) => self.call.finish_with(status.code() as usize, status.message()),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
