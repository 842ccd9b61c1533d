//! One call of the registry API, from its headers to its status.
//!
//! Most calls finish where they are accepted: the request is complete, and there is memory for the reply. Only a call
//! that must wait becomes a task.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use catalog::query::{Query, Rows};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tonic::{Code, Status};

use super::connection::Shared;
use super::gather::{BATCH, gather};
use super::memory_budget::{PendingCall, Turn};
use super::methods::{ListQuery, Method, MethodQuery, UnaryQuery};
use super::observe::{Call, STATUS};
use super::piece::{PREFIX, ReservedBytes};
use super::request::{self, Incoming};
use crate::buffer_pool;
use crate::caught::caught;

/// Chunks of a list that are sent before other calls get their turn.
const PIECES_PER_TURN: usize = 4;
/// The maximum length of an error message, in bytes; it may contain text from the caller.
const ERROR_TEXT: usize = 8 << 10;
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const OK: HeaderValue = HeaderValue::from_static("0");

/// A call whose request is being received.
struct Receiving {
    method: Method,
    headers: HeaderMap,
    incoming: Incoming,
    answering: Answering,
}

/// A call that is being answered.
struct Answering {
    shared: Rc<Shared>,
    call: Call,
    respond: SendResponse<ReservedBytes>,
}

/// The pending work of a call.
enum Pending {
    Nothing,
    Query(Box<QueuedQuery>),
    Reply(WaitingReply),
    Rows(WaitingRows),
}

/// A query that waits for its turn, behind queries whose replies still wait.
struct QueuedQuery {
    answering: Option<Answering>,
    one: Option<UnaryQuery>,
    catalog: Arc<dyn Query>,
    reply: Option<WaitingReply>,
}

/// A reply that did not fit into memory: it is computed again when it fits.
struct WaitingReply {
    sending: Sending,
    one: UnaryQuery,
    size: usize,
    _turn: Turn,
}

/// A list that is being sent.
struct WaitingRows {
    sending: Sending,
    rows: Rows,
}

/// A call whose response headers are sent.
struct Sending {
    shared: Rc<Shared>,
    call: Call,
    stream: SendStream<ReservedBytes>,
    catalog: Arc<dyn Query>,
}

/// Starts a call of `method`. Work that cannot finish at once continues as a task.
pub(super) fn start(
    shared: &Rc<Shared>,
    method: Method,
    request: Request<RecvStream>,
    respond: SendResponse<ReservedBytes>,
    context: &mut Context<'_>,
) {
    let call = Call::start(shared, &request);
    let answering = Answering { shared: Rc::clone(shared), call, respond };
    let (parts, stream) = request.into_parts();
    if let Err(status) = request::check_encoding(&parts.headers) {
        return answering.refuse(status);
    }
    let incoming = Incoming::new(stream, shared.request_limit());
    let mut receiving = Receiving { method, headers: parts.headers, incoming, answering };
    let timeout = request::timeout(&receiving.headers);
    let pending = match receiving.poll(context) {
        Poll::Ready(message) => receiving.answer(message),
        Poll::Pending => {
            if let Some(waiting) = receiving.answering.shared.memory().add_pending() {
                tokio::task::spawn_local(receiving.wait(waiting, timeout));
            } else {
                receiving.answering.refuse(too_many());
            }
            return;
        }
    };
    if matches!(pending, Pending::Nothing) {
        return;
    }
    match shared.memory().add_pending() {
        Some(waiting) => drop(tokio::task::spawn_local(finish(pending, waiting, timeout))),
        None => pending.refuse(too_many()),
    }
}

fn too_many() -> Status {
    Status::resource_exhausted("too many pending calls")
}

async fn finish(mut pending: Pending, _waiting: PendingCall, timeout: Option<Duration>) {
    let Some(timeout) = timeout else { return pending.send().await };
    if tokio::time::timeout(timeout, pending.send()).await.is_err() {
        pending.refuse(Status::deadline_exceeded("Timeout expired"));
    }
}

impl Receiving {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        self.incoming.poll(context, self.answering.shared.memory())
    }

    async fn wait(mut self, waiting: PendingCall, timeout: Option<Duration>) {
        let message = match timeout {
            None => poll_fn(|context| self.poll(context)).await,
            Some(timeout) => tokio::time::timeout(timeout, poll_fn(|context| self.poll(context)))
                .await
                .unwrap_or_else(|_| Err(Status::cancelled("Timeout expired"))),
        };
        finish(self.answer(message), waiting, timeout).await;
    }

    fn answer(self, message: Result<Bytes, Status>) -> Pending {
        let query = message.and_then(|message| caught(|| self.method.read(&self.headers, message))?);
        match query {
            Ok(query) => self.answering.answer(query),
            Err(status) => {
                self.answering.refuse(status);
                Pending::Nothing
            }
        }
    }
}

impl Answering {
    /// Answers `query` as far as possible without waiting.
    fn answer(self, query: MethodQuery) -> Pending {
        let Some(catalog) = self.shared.live().catalog() else {
            self.refuse(Status::unavailable("the catalog is still being loaded"));
            return Pending::Nothing;
        };
        match query {
            MethodQuery::One(one) if self.shared.memory().is_free() => self.answer_one(one, catalog, None),
            MethodQuery::One(one) => {
                Pending::Query(Box::new(QueuedQuery { answering: Some(self), one: Some(one), catalog, reply: None }))
            }
            MethodQuery::Many(many) => self.answer_many(&many, catalog),
        }
    }

    fn answer_one(self, one: UnaryQuery, catalog: Arc<dyn Query>, turn: Option<Turn>) -> Pending {
        let message = match self.shared.ask(&catalog, || one.answer(&*catalog)) {
            Ok(message) => message,
            Err(status) => {
                self.refuse(status);
                return Pending::Nothing;
            }
        };
        let Some(mut sending) = self.send_headers(catalog) else { return Pending::Nothing };
        let size = message.len() + PREFIX;
        sending.shared.produced(size);
        sending.stream.reserve_capacity(size);
        // With the window closed, or without memory, the reply would only be buffered: the query is kept instead.
        if sending.stream.capacity() > 0
            && let Some(hold) = sending.shared.memory().try_reserve(size)
        {
            sending.finish(ReservedBytes::message(message, hold));
            return Pending::Nothing;
        }
        buffer_pool::recycle(message);
        let turn = turn.unwrap_or_else(|| sending.shared.memory().try_turn());
        Pending::Reply(WaitingReply { sending, one, size, _turn: turn })
    }

    fn answer_many(self, many: &ListQuery, catalog: Arc<dyn Query>) -> Pending {
        match self.shared.ask(&catalog, || many.answer(Arc::clone(&catalog))) {
            Ok(rows) => {
                let Some(sending) = self.send_headers(catalog) else { return Pending::Nothing };
                Pending::Rows(WaitingRows { sending, rows })
            }
            Err(status) => {
                self.refuse(status);
                Pending::Nothing
            }
        }
    }

    fn send_headers(self, catalog: Arc<dyn Query>) -> Option<Sending> {
        let Answering { shared, call, mut respond } = self;
        let mut response = Response::new(());
        response.headers_mut().insert(http::header::CONTENT_TYPE, GRPC);
        let stream = respond.send_response(response, false).ok()?;
        Some(Sending { shared, call, stream, catalog })
    }

    /// Ends the call with a status and no message.
    fn refuse(mut self, status: Status) {
        let status = shortened(status);
        self.call.finish_with(status.code() as usize, status.message());
        let response: Response<()> = status.into_http();
        let _ = self.respond.send_response(response, true);
    }
}

impl Pending {
    async fn send(&mut self) {
        match self {
            Pending::Nothing => {}
            Pending::Query(query) => query.send().await,
            Pending::Reply(reply) => reply.send().await,
            Pending::Rows(rows) => rows.send().await,
        }
    }

    fn refuse(self, status: Status) {
        match self {
            Pending::Nothing => {}
            Pending::Query(query) => {
                let QueuedQuery { answering, reply, .. } = *query;
                if let Some(answering) = answering {
                    answering.refuse(status);
                } else if let Some(WaitingReply { mut sending, .. }) = reply {
                    sending.fail(status);
                }
            }
            Pending::Reply(WaitingReply { mut sending, .. }) | Pending::Rows(WaitingRows { mut sending, .. }) => {
                sending.fail(status)
            }
        }
    }
}

impl QueuedQuery {
    async fn send(&mut self) {
        let Some(answering) = &mut self.answering else { return };
        let turn = tokio::select! {
            turn = answering.shared.memory().turn() => turn,
            _ = poll_fn(|context| answering.respond.poll_reset(context)) => return,
        };
        let (Some(answering), Some(one)) = (self.answering.take(), self.one.take()) else { return };
        if let Pending::Reply(reply) = answering.answer_one(one, Arc::clone(&self.catalog), Some(turn)) {
            self.reply.insert(reply).send().await;
        }
    }
}

impl WaitingReply {
    async fn send(&mut self) {
        let WaitingReply { sending, one, size, .. } = self;
        sending.stream.reserve_capacity(*size);
        if sending.window().await.is_none() {
            return;
        }
        let hold = tokio::select! {
            hold = sending.shared.memory().reserve(*size) => hold,
            _ = poll_fn(|context| sending.stream.poll_reset(context)) => return,
        };
        match sending.shared.ask(&sending.catalog, || one.answer(&*sending.catalog)) {
            Ok(message) => sending.finish(ReservedBytes::message(message, hold)),
            Err(status) => sending.fail(status),
        }
    }
}

impl WaitingRows {
    async fn send(&mut self) {
        let WaitingRows { sending, rows } = self;
        for sent in 1.. {
            sending.stream.reserve_capacity(BATCH);
            if sending.window().await.is_none() {
                return;
            }
            let hold = tokio::select! {
                hold = sending.shared.memory().reserve(BATCH) => hold,
                _ = poll_fn(|context| sending.stream.poll_reset(context)) => return,
            };
            let mut batch = buffer_pool::buffer(BATCH);
            let end = match caught(|| gather(rows, &mut batch)) {
                Ok(end) => end,
                Err(panicked) => return sending.fail(panicked.into()),
            };
            if !batch.is_empty() && sending.stream.send_data(ReservedBytes::messages(batch, hold), false).is_err() {
                return;
            }
            match end {
                None => {}
                Some(Ok(())) => return sending.succeed(),
                Some(Err(error)) => {
                    let status = sending.shared.status(error, &sending.catalog);
                    return sending.fail(status);
                }
            }
            if sent % PIECES_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

impl Sending {
    /// Waits until the peer can receive data; `None` if it disconnects.
    async fn window(&mut self) -> Option<()> {
        poll_fn(|context| {
            loop {
                if self.stream.capacity() > 0 {
                    return Poll::Ready(Some(()));
                }
                match self.stream.poll_capacity(context) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(None),
                    Poll::Pending => {
                        return match self.stream.poll_reset(context) {
                            Poll::Ready(_) => Poll::Ready(None),
                            Poll::Pending => Poll::Pending,
                        };
                    }
                }
            }
        })
        .await
    }

    fn finish(&mut self, piece: ReservedBytes) {
        if self.stream.send_data(piece, false).is_ok() {
            self.succeed();
        }
    }

    fn succeed(&mut self) {
        let mut trailers = HeaderMap::with_capacity(1);
        trailers.insert(STATUS, OK);
        if self.stream.send_trailers(trailers).is_ok() {
            self.call.finish_with(Code::Ok as usize, "");
        }
    }

    fn fail(&mut self, status: Status) {
        let status = shortened(status);
        self.call.finish_with(status.code() as usize, status.message());
        let mut trailers = HeaderMap::new();
        if status.add_header(&mut trailers).is_ok() {
            let _ = self.stream.send_trailers(trailers);
        }
    }
}

/// Truncates a long error message.
fn shortened(status: Status) -> Status {
    let text = status.message();
    if text.len() <= ERROR_TEXT {
        return status;
    }
    Status::new(status.code(), format!("{}...", &text[..text.floor_char_boundary(ERROR_TEXT)]))
}
