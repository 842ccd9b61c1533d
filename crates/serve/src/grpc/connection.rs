//! One connection: opened, asked, watched, drained.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use h2::server::Connection as Http2;
use h2::{Ping, PingPong, Reason};
use registry_api::{Query, QueryError};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tonic::Status;
use tonic::service::Routes;

use super::piece::Piece;
use super::question::Method;
use super::quiet::{Quiet, Settings};
use super::room::{Pool, Room};
use super::wire::Wire;
use super::{call, foreign};
use crate::listen::{FIRST_BYTES, Peer, Socket};
use crate::live::Live;
use crate::server::{ServerLimits, Services};
use crate::slots::Slot;

/// How long a peer may take to say that it is still there.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of the headers of one call.
const HEADER_LIST_SIZE: u32 = 16 << 10;
/// Bytes of a request that a peer may send before they are taken in.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Calls that one connection may start before others get their turn.
const CALLS_AT_A_TIME: usize = 16;
/// Bytes of replies that it may make before.
const BYTES_AT_A_TIME: usize = 512 << 10;
/// How long a peer may hold room that others wait for without taking anything.
const IN_THE_WAY: Duration = Duration::from_secs(5);
/// No connection is looked at less often, or more.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_millis(10);
/// How long the rest may take to be written when a connection ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What all connections of a thread have in common.
pub(crate) struct Common {
    pub(crate) live: Arc<Live>,
    pub(crate) routes: Routes,
    pub(crate) limits: ServerLimits,
    pub(crate) services: Services,
    pub(crate) pool: Pool,
}

/// What all calls of a connection have in common.
pub(super) struct Shared {
    common: Rc<Common>,
    peer: Peer,
    room: Room,
    calls: Cell<usize>,
    /// Bytes of the replies that were made since others got their turn.
    made: Cell<usize>,
    /// When the last call ended.
    idle_since: Cell<Instant>,
}

impl Shared {
    pub(super) fn live(&self) -> &Arc<Live> {
        &self.common.live
    }

    pub(super) fn peer(&self) -> &str {
        &self.peer.0
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    pub(super) fn request_limit(&self) -> usize {
        self.common.limits.request_size
    }

    pub(super) fn made(&self, bytes: usize) {
        self.made.set(self.made.get() + bytes);
    }

    pub(super) fn call_started(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    pub(super) fn call_ended(&self) {
        self.calls.set(self.calls.get() - 1);
        if self.calls.get() == 0 {
            self.idle_since.set(Instant::now());
        }
    }

    /// Errors have always been of the code "unknown"; clients look at the text.
    pub(super) fn status(&self, error: QueryError, catalog: &Arc<dyn Query>) -> Status {
        match error {
            QueryError::Absent(text) => Status::unknown(text),
            QueryError::Damaged(text) => {
                tracing::error!(error = text, "answer could not be read");
                self.live().found_damage(catalog);
                Status::data_loss(text)
            }
        }
    }
}

/// Speaks with a peer until one of both ends it.
pub(crate) async fn run(
    socket: Socket,
    peer: Peer,
    tls: Option<TlsAcceptor>,
    common: Rc<Common>,
    mut stopping: watch::Receiver<bool>,
    slot: &mut Slot,
) {
    // Each part has memory of its own, which is free when the next one begins: most connections are silent for most of
    // the time.
    let opened = tokio::time::timeout(FIRST_BYTES, Box::pin(open(socket, tls, &common.limits)));
    let quiet = tokio::select! {
        opened = opened => match opened {
            Ok(Ok(quiet)) => quiet,
            Ok(Err(error)) => return tracing::debug!(peer = peer.0, %error, "connection did not open"),
            Err(_) => return,
        },
        _ = stopping.wait_for(|stopping| *stopping) => return,
        // Somebody else needs the place.
        _ = slot.left() => return,
    };
    slot.usage().work();
    let opened = Instant::now();
    let age = common.limits.max_age.map(|age| spread(age, opened));
    let ends = [common.limits.max_idle, age].into_iter().flatten().min().map(|end| opened + end);
    let called = Box::pin(wait_for_call(quiet, &common.limits, ends, &mut stopping)).await;
    if let Some(quiet) = called {
        Box::pin(answer(quiet, opened, age, peer, common, stopping)).await;
    }
}

/// Waits for the client's settings.
async fn open(socket: Socket, tls: Option<TlsAcceptor>, limits: &ServerLimits) -> io::Result<Quiet> {
    let socket = match tls {
        None => socket,
        Some(acceptor) => Socket::Tls(Box::new(acceptor.accept(socket).await?)),
    };
    let settings = Settings { streams: limits.streams, window: STREAM_WINDOW, header_list: HEADER_LIST_SIZE };
    let mut quiet = Quiet::new(socket, settings);
    poll_fn(|context| quiet.poll(context)).await?;
    Ok(quiet)
}

/// Waits until a peer calls, until it is time to part, or until it is gone: then nothing is left.
async fn wait_for_call(
    mut quiet: Quiet,
    limits: &ServerLimits,
    ends: Option<Instant>,
    stopping: &mut watch::Receiver<bool>,
) -> Option<Quiet> {
    let mut asked: Option<Instant> = None;
    loop {
        let look = match asked {
            Some(asked) => asked + KEEPALIVE_TIMEOUT,
            None => quiet.heard + limits.keepalive,
        };
        let look = ends.map_or(look, |ends| look.min(ends)).max(Instant::now() + SHORTEST);
        tokio::select! {
            heard = poll_fn(|context| quiet.poll(context)) => return heard.is_ok().then_some(quiet),
            _ = stopping.wait_for(|stopping| *stopping) => return Some(quiet),
            () = tokio::time::sleep_until(look.into()) => {}
        }
        let now = Instant::now();
        if ends.is_some_and(|ends| ends <= now) {
            return Some(quiet);
        }
        match asked {
            Some(at) if quiet.heard > at => asked = None,
            Some(at) if at + KEEPALIVE_TIMEOUT <= now => return None,
            None if quiet.heard + limits.keepalive <= now => {
                quiet.ping();
                asked = Some(now);
            }
            _ => {}
        }
    }
}

/// Answers calls.
async fn answer(
    quiet: Quiet,
    opened: Instant,
    age: Option<Duration>,
    peer: Peer,
    common: Rc<Common>,
    mut stopping: watch::Receiver<bool>,
) {
    let (http2, wire) = match begin(quiet, &common.limits).await {
        Ok(begun) => begun,
        Err(error) => return tracing::debug!(peer = peer.0, %error, "connection did not open"),
    };
    let mut connection = Connection::new(http2, wire, peer, common, opened, age);
    let mut timer = std::pin::pin!(tokio::time::sleep_until(connection.next_look().into()));
    let mut drained = *stopping.borrow_and_update();
    if drained {
        connection.http2.graceful_shutdown();
    }
    loop {
        tokio::select! {
            biased;
            () = poll_fn(|context| connection.poll(context)) => return,
            stop = stopping.changed(), if !drained => {
                if stop.is_err() {
                    return;
                }
                drained = true;
                connection.http2.graceful_shutdown();
            }
            () = timer.as_mut() => {
                if !connection.look() {
                    return connection.abort().await;
                }
                timer.as_mut().reset(connection.next_look().into());
            }
        }
    }
}

/// Makes what calls need.
async fn begin(quiet: Quiet, limits: &ServerLimits) -> io::Result<(Http2<Wire, Piece>, Wire)> {
    let wire = Wire::new(quiet);
    let mut handshake = h2::server::Builder::new()
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(HEADER_LIST_SIZE)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(wire.clone());
    let http2 = poll_fn(|context| {
        let polled = Pin::new(&mut handshake).poll(context);
        match wire.poll_empty(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => polled.map_err(io::Error::other),
        }
    });
    Ok((http2.await?, wire))
}

struct Connection {
    http2: Http2<Wire, Piece>,
    wire: Wire,
    shared: Rc<Shared>,
    pings: Option<PingPong>,
    /// When the peer was asked whether it is there, and did not say yet.
    asked: Option<Instant>,
    opened: Instant,
    /// How old it gets; spread a little, so that not all clients come back at once.
    age: Option<Duration>,
    /// When it got GOAWAY because of its age.
    retired: Option<Instant>,
}

impl Connection {
    fn new(
        mut http2: Http2<Wire, Piece>,
        wire: Wire,
        peer: Peer,
        common: Rc<Common>,
        opened: Instant,
        age: Option<Duration>,
    ) -> Connection {
        let room = Room::new(common.pool.clone());
        let shared = Rc::new(Shared {
            common,
            peer,
            room,
            calls: Cell::new(0),
            made: Cell::new(0),
            idle_since: Cell::new(opened),
        });
        let pings = http2.ping_pong();
        Connection { http2, wire, shared, pings, asked: None, opened, age, retired: None }
    }

    /// Answers calls as they come; ready when the connection has ended.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.made.set(0);
        for _ in 0..CALLS_AT_A_TIME {
            if self.shared.made.get() > BYTES_AT_A_TIME {
                break;
            }
            match self.http2.poll_accept(context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let common = &self.shared.common;
                    match Method::of(request.uri().path(), common.services) {
                        Some(method) => call::start(&self.shared, method, request, respond, context),
                        None => foreign::start(&self.shared, common.routes.clone(), request, respond),
                    }
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => {
                    if let Some(pings) = &mut self.pings
                        && self.asked.is_some()
                        && pings.poll_pong(context).is_ready()
                    {
                        self.asked = None;
                    }
                    return match self.wire.poll_empty(context) {
                        Poll::Ready(Err(_)) => Poll::Ready(()),
                        _ => Poll::Pending,
                    };
                }
            }
        }
        context.waker().wake_by_ref();
        match self.wire.poll_empty(context) {
            Poll::Ready(Err(_)) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// Returns when the connection has to be looked at next.
    fn next_look(&self) -> Instant {
        let limits = &self.shared.common.limits;
        let alive = match self.asked {
            Some(asked) => asked + KEEPALIVE_TIMEOUT,
            None => self.wire.heard() + limits.keepalive,
        };
        let now = Instant::now();
        let idle_since = if self.shared.calls.get() == 0 { self.shared.idle_since.get() } else { now };
        let idle = limits.max_idle.filter(|_| self.retired.is_none());
        let age = self.age.filter(|_| self.retired.is_none());
        let grace = self.retired.and_then(|retired| Some(retired + limits.max_age_grace?));
        let others = [idle.map(|idle| idle_since + idle), age.map(|age| self.opened + age), grace];
        others.into_iter().flatten().fold(alive.min(now + LOOK_EVERY), Instant::min).max(now + SHORTEST)
    }

    /// Sees whether the connection is still of use; `false` means that it is to be cut off.
    fn look(&mut self) -> bool {
        let (now, limits) = (Instant::now(), &self.shared.common.limits);
        if self.wire.heard() + limits.keepalive <= now {
            match self.asked {
                Some(asked) if asked + KEEPALIVE_TIMEOUT <= now => return false,
                Some(_) => {}
                None => {
                    let sent = self.pings.as_mut().is_some_and(|pings| pings.send_ping(Ping::opaque()).is_ok());
                    self.asked = sent.then_some(now);
                }
            }
        } else {
            self.asked = None;
        }
        if self.shared.room.is_in_the_way() && self.wire.stuck_since() + IN_THE_WAY <= now {
            tracing::info!(peer = self.shared.peer(), "peer takes no replies while others wait, connection is closed");
            return false;
        }
        let idle = self.shared.calls.get() == 0;
        let idle = idle && limits.max_idle.is_some_and(|most| self.shared.idle_since.get() + most <= now);
        let old = self.age.is_some_and(|age| self.opened + age <= now);
        match self.retired {
            None if idle || old => {
                self.retired = Some(now);
                self.http2.graceful_shutdown();
                true
            }
            Some(retired) => limits.max_age_grace.is_none_or(|grace| now < retired + grace),
            None => true,
        }
    }

    /// Ends the connection whatever is being said on it.
    async fn abort(&mut self) {
        self.http2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        let end = poll_fn(|context| self.poll(context));
        let _ = tokio::time::timeout(LAST_WORDS, end).await;
    }
}

/// Returns a duration within a tenth of `age`.
fn spread(age: Duration, opened: Instant) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let tenths = RandomState::new().hash_one(opened) % 201;
    age.mul_f64(0.9 + tenths as f64 / 1000.0)
}
