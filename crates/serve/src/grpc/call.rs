//! One call of the registry API, from its headers to its status.
//!
//! Most calls are done where they are found: the request is there, and so is room for the reply. Only a call
//! that has to wait becomes a task.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use registry_api::{Query, Rows};
use tonic::{Code, Status};

use super::connection::Shared;
use super::gather::{GATHERED, gather};
use super::observe::{Call, STATUS};
use super::piece::{PREFIX, Piece};
use super::question::{Many, Method, One, Question};
use super::request::{self, Incoming};
use super::room::{Turn, Waiting};
use crate::spare;

/// Pieces of a list that are sent before others get their turn.
const PIECES_AT_A_TIME: usize = 4;
/// Bytes of the text of an error; nobody reads more, and it may hold what the caller sent.
const ERROR_TEXT: usize = 8 << 10;
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const OK: HeaderValue = HeaderValue::from_static("0");

/// A call that is being taken in.
struct Asking {
    method: Method,
    headers: HeaderMap,
    incoming: Incoming,
    answering: Answering,
}

/// A call that is being answered.
struct Answering {
    shared: Rc<Shared>,
    call: Call,
    respond: SendResponse<Piece>,
}

/// What is left to be done for a call.
enum Left {
    Nothing,
    Question(Box<LateQuestion>),
    Reply(LateReply),
    Rows(LateRows),
}

/// A question that others were asked before whose replies still wait.
struct LateQuestion {
    answering: Option<Answering>,
    one: Option<One>,
    catalog: Arc<dyn Query>,
    reply: Option<LateReply>,
}

/// A reply there was no room for: it is made again when there is.
struct LateReply {
    sending: Sending,
    one: One,
    size: usize,
    _turn: Turn,
}

/// A list that is being sent.
struct LateRows {
    sending: Sending,
    rows: Rows,
}

/// A call whose headers are sent.
struct Sending {
    shared: Rc<Shared>,
    call: Call,
    stream: SendStream<Piece>,
    catalog: Arc<dyn Query>,
}

/// Starts a call of `method`. What cannot be done at once goes on as a task.
pub(super) fn start(
    shared: &Rc<Shared>,
    method: Method,
    request: Request<RecvStream>,
    respond: SendResponse<Piece>,
    context: &mut Context<'_>,
) {
    let call = Call::start(shared, &request);
    let answering = Answering { shared: Rc::clone(shared), call, respond };
    let (parts, stream) = request.into_parts();
    if let Err(status) = request::check_encoding(&parts.headers) {
        return answering.refuse(status);
    }
    let incoming = Incoming::new(stream, shared.request_limit());
    let mut asking = Asking { method, headers: parts.headers, incoming, answering };
    let timeout = request::timeout(&asking.headers);
    let left = match asking.poll(context) {
        Poll::Ready(message) => asking.answer(message),
        Poll::Pending => {
            if let Some(waiting) = asking.answering.shared.room().wait() {
                tokio::task::spawn_local(asking.wait(waiting, timeout));
            } else {
                asking.answering.refuse(too_many());
            }
            return;
        }
    };
    if matches!(left, Left::Nothing) {
        return;
    }
    match shared.room().wait() {
        Some(waiting) => drop(tokio::task::spawn_local(finish(left, waiting, timeout))),
        None => left.refuse(too_many()),
    }
}

fn too_many() -> Status {
    Status::resource_exhausted("too many calls wait at a time")
}

async fn finish(mut left: Left, _waiting: Waiting, timeout: Option<Duration>) {
    let Some(timeout) = timeout else { return left.send().await };
    if tokio::time::timeout(timeout, left.send()).await.is_err() {
        left.refuse(Status::deadline_exceeded("Timeout expired"));
    }
}

impl Asking {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        self.incoming.poll(context, self.answering.shared.room())
    }

    async fn wait(mut self, waiting: Waiting, timeout: Option<Duration>) {
        let message = match timeout {
            None => poll_fn(|context| self.poll(context)).await,
            Some(timeout) => tokio::time::timeout(timeout, poll_fn(|context| self.poll(context)))
                .await
                .unwrap_or_else(|_| Err(Status::cancelled("Timeout expired"))),
        };
        finish(self.answer(message), waiting, timeout).await;
    }

    fn answer(self, message: Result<Bytes, Status>) -> Left {
        let question = message.and_then(|message| self.method.read(&self.headers, message));
        match question {
            Ok(question) => self.answering.answer(question),
            Err(status) => {
                self.answering.refuse(status);
                Left::Nothing
            }
        }
    }
}

impl Answering {
    /// Answers `question` as far as that can be done at once.
    fn answer(self, question: Question) -> Left {
        let Some(catalog) = self.shared.live().catalog() else {
            self.refuse(Status::unavailable("the catalog is still being loaded"));
            return Left::Nothing;
        };
        match question {
            Question::One(one) if self.shared.room().is_free() => self.answer_one(one, catalog, None),
            Question::One(one) => {
                Left::Question(Box::new(LateQuestion { answering: Some(self), one: Some(one), catalog, reply: None }))
            }
            Question::Many(many) => self.answer_many(&many, catalog),
        }
    }

    fn answer_one(self, one: One, catalog: Arc<dyn Query>, turn: Option<Turn>) -> Left {
        let message = match one.answer(&*catalog) {
            Ok(message) => message,
            Err(error) => {
                let status = self.shared.status(error, &catalog);
                self.refuse(status);
                return Left::Nothing;
            }
        };
        let Some(mut sending) = self.send_headers(catalog) else { return Left::Nothing };
        let size = message.len() + PREFIX;
        sending.shared.made(size);
        sending.stream.reserve_capacity(size);
        // With the window closed, or without room, the bytes would only lie around: the question is kept instead.
        if sending.stream.capacity() > 0
            && let Some(hold) = sending.shared.room().try_take(size)
        {
            sending.finish(Piece::message(message, hold));
            return Left::Nothing;
        }
        spare::give_back(message);
        let turn = turn.unwrap_or_else(|| sending.shared.room().try_turn());
        Left::Reply(LateReply { sending, one, size, _turn: turn })
    }

    fn answer_many(self, many: &Many, catalog: Arc<dyn Query>) -> Left {
        match many.answer(Arc::clone(&catalog)) {
            Ok(rows) => {
                let Some(sending) = self.send_headers(catalog) else { return Left::Nothing };
                Left::Rows(LateRows { sending, rows })
            }
            Err(error) => {
                let status = self.shared.status(error, &catalog);
                self.refuse(status);
                Left::Nothing
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

    /// Ends the call with nothing but a status.
    fn refuse(mut self, status: Status) {
        let status = shortened(status);
        self.call.finish_with(status.code() as usize, status.message());
        let response: Response<()> = status.into_http();
        let _ = self.respond.send_response(response, true);
    }
}

impl Left {
    async fn send(&mut self) {
        match self {
            Left::Nothing => {}
            Left::Question(question) => question.send().await,
            Left::Reply(reply) => reply.send().await,
            Left::Rows(rows) => rows.send().await,
        }
    }

    fn refuse(self, status: Status) {
        match self {
            Left::Nothing => {}
            Left::Question(question) => {
                let LateQuestion { answering, reply, .. } = *question;
                if let Some(answering) = answering {
                    answering.refuse(status);
                } else if let Some(LateReply { mut sending, .. }) = reply {
                    sending.fail(status);
                }
            }
            Left::Reply(LateReply { mut sending, .. }) | Left::Rows(LateRows { mut sending, .. }) => {
                sending.fail(status)
            }
        }
    }
}

impl LateQuestion {
    async fn send(&mut self) {
        let Some(answering) = &mut self.answering else { return };
        let turn = tokio::select! {
            turn = answering.shared.room().turn() => turn,
            _ = poll_fn(|context| answering.respond.poll_reset(context)) => return,
        };
        let (Some(answering), Some(one)) = (self.answering.take(), self.one.take()) else { return };
        if let Left::Reply(reply) = answering.answer_one(one, Arc::clone(&self.catalog), Some(turn)) {
            self.reply.insert(reply).send().await;
        }
    }
}

impl LateReply {
    async fn send(&mut self) {
        let LateReply { sending, one, size, .. } = self;
        sending.stream.reserve_capacity(*size);
        if sending.window().await.is_none() {
            return;
        }
        let hold = tokio::select! {
            hold = sending.shared.room().take(*size) => hold,
            _ = poll_fn(|context| sending.stream.poll_reset(context)) => return,
        };
        match one.answer(&*sending.catalog) {
            Ok(message) => sending.finish(Piece::message(message, hold)),
            Err(error) => {
                let status = sending.shared.status(error, &sending.catalog);
                sending.fail(status);
            }
        }
    }
}

impl LateRows {
    async fn send(&mut self) {
        let LateRows { sending, rows } = self;
        for sent in 1.. {
            sending.stream.reserve_capacity(GATHERED);
            if sending.window().await.is_none() {
                return;
            }
            let hold = tokio::select! {
                hold = sending.shared.room().take(GATHERED) => hold,
                _ = poll_fn(|context| sending.stream.poll_reset(context)) => return,
            };
            let mut gathered = spare::take(GATHERED);
            let end = gather(rows, &mut gathered);
            if !gathered.is_empty() && sending.stream.send_data(Piece::messages(gathered, hold), false).is_err() {
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
            if sent % PIECES_AT_A_TIME == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

impl Sending {
    /// Waits until the peer takes something; it may go away instead.
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

    fn finish(&mut self, piece: Piece) {
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

/// Cuts the text of an error that is too long.
fn shortened(status: Status) -> Status {
    let text = status.message();
    if text.len() <= ERROR_TEXT {
        return status;
    }
    Status::new(status.code(), format!("{}...", &text[..text.floor_char_boundary(ERROR_TEXT)]))
}
