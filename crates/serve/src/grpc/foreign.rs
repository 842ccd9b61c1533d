//! Calls of services other than the registry API: health, reflection, and unknown ones.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use http_body::{Body as _, Frame};
use tonic::Status;
use tonic::body::Body;

use super::OtherServices;
use super::connection::Shared;
use super::observe::{Call, STATUS};
use super::piece::ReservedBytes;
use super::request;
use crate::caught::{caught, caught_in};

/// Starts a call of another service, as a task.
pub(super) fn start(
    shared: &Rc<Shared>,
    services: OtherServices,
    request: Request<RecvStream>,
    respond: SendResponse<ReservedBytes>,
) {
    let call = Call::start(shared, &request);
    let timeout = request::timeout(request.headers());
    let Some(waiting) = shared.memory().add_pending() else {
        return end_with(call, respond, Status::resource_exhausted("too many pending calls"));
    };
    let shared = Rc::clone(shared);
    tokio::task::spawn_local(async move {
        answer(&shared, services, request, respond, call, timeout).await;
        drop(waiting);
    });
}

/// Refuses a call.
pub(super) fn refuse<B>(
    shared: &Rc<Shared>,
    request: &Request<B>,
    respond: SendResponse<ReservedBytes>,
    status: Status,
) {
    end_with(Call::start(shared, request), respond, status);
}

fn end_with(mut call: Call, mut respond: SendResponse<ReservedBytes>, status: Status) {
    call.finish_with(status.code() as usize, status.message());
    let _ = respond.send_response(status.into_http(), true);
}

async fn answer(
    shared: &Shared,
    mut services: OtherServices,
    request: Request<RecvStream>,
    mut respond: SendResponse<ReservedBytes>,
    mut call: Call,
    timeout: Option<Duration>,
) {
    let asked = services.call(request.map(|stream| Body::new(Incoming(stream))));
    let response = tokio::select! {
        response = caught_in(asked) => response.unwrap_or_else(|panicked| Status::from(panicked).into_http()),
        () = expired(timeout) => Status::cancelled("Timeout expired").into_http(),
        _ = poll_fn(|context| respond.poll_reset(context)) => return,
    };
    let (parts, mut body) = response.into_parts();
    if parts.headers.contains_key(STATUS) {
        call.finish(&parts.headers);
    }
    let end = body.is_end_stream();
    let Ok(mut stream) = respond.send_response(Response::from_parts(parts, ()), end) else { return };
    if end {
        return;
    }
    loop {
        let next = poll_fn(|context| match caught(|| Pin::new(&mut body).poll_frame(context)) {
            Ok(Poll::Ready(next)) => Poll::Ready(next.map(|frame| frame.map_err(|_| ()))),
            Ok(Poll::Pending) => stream.poll_reset(context).map(|_| Some(Err(()))),
            Err(panicked) => {
                let mut trailers = HeaderMap::new();
                let added = Status::from(panicked).add_header(&mut trailers);
                Poll::Ready(Some(added.map(|()| Frame::trailers(trailers)).map_err(|_| ())))
            }
        });
        match next.await {
            None => {
                let _ = stream.send_data(ReservedBytes::foreign(Bytes::new(), None), true);
                return;
            }
            Some(Err(())) => return,
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) => {
                    if send(shared, &mut stream, bytes).await.is_none() {
                        return;
                    }
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        call.finish(&trailers);
                        let _ = stream.send_trailers(trailers);
                    }
                    return;
                }
            },
        }
    }
}

/// Sends some bytes when the peer can receive them and there is memory for them.
async fn send(shared: &Shared, stream: &mut SendStream<ReservedBytes>, bytes: Bytes) -> Option<()> {
    let length = bytes.remaining();
    stream.reserve_capacity(length);
    poll_fn(|context| {
        loop {
            if length == 0 || stream.capacity() > 0 {
                return Poll::Ready(Some(()));
            }
            match ready!(stream.poll_capacity(context)) {
                Some(Ok(_)) => {}
                _ => return Poll::Ready(None),
            }
        }
    })
    .await?;
    let hold = shared.memory().reserve(length).await;
    stream.send_data(ReservedBytes::foreign(bytes, Some(hold)), false).ok()
}

async fn expired(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// The body of a request for another service.
struct Incoming(RecvStream);

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        match ready!(self.0.poll_data(context)) {
            Some(Ok(bytes)) => {
                let _ = self.0.flow_control().release_capacity(bytes.len());
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => {
                let trailers = ready!(self.0.poll_trailers(context));
                Poll::Ready(trailers.transpose().map(|trailers| trailers.map(Frame::trailers)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}
