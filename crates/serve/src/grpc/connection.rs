//! One connection: opened, serving, monitored, drained.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use catalog::query::{Query, QueryError};
use h2::server::Connection as Http2;
use h2::{Ping, PingPong, Reason};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tonic::Status;

use super::memory_budget::{MemoryBudget, MemoryPool};
use super::methods::Method;
use super::observe::Failures;
use super::piece::ReservedBytes;
use super::wire::Wire;
use super::{OtherServices, call, foreign};
use crate::caught::caught;
use crate::listen::{FIRST_BYTES_TIMEOUT, Peer, Socket};
use crate::live::LiveCatalog;
use crate::server::{ServerLimits, Services};
use crate::slots::{Slot, Usage};

/// Time limit for the reply to a keepalive ping.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of the headers of one call, in bytes.
const HEADER_LIST_SIZE: u32 = 16 << 10;
/// Flow-control windows: bytes that a peer may send before they are read.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Calls that one connection may start before others get their turn.
const CALLS_PER_TURN: usize = 16;
/// Bytes of replies that it may produce before others get their turn.
const BYTES_PER_TURN: usize = 512 << 10;
/// How long a peer may hold memory that others wait for without reading anything.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of checking a connection, at most and at least.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(5);
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// The call that connections beyond the limit can make.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// Time limit for writing the rest when a connection ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// State shared by all connections of a thread.
pub(crate) struct Common {
    pub(crate) live: Arc<LiveCatalog>,
    pub(crate) other_services: OtherServices,
    pub(crate) limits: ServerLimits,
    pub(crate) services: Services,
    pub(crate) pool: MemoryPool,
    pub(crate) failures: Failures,
}

/// State shared by all calls of a connection.
pub(super) struct Shared {
    common: Rc<Common>,
    peer: Peer,
    usage: Usage,
    memory: MemoryBudget,
    calls: Cell<usize>,
    /// Bytes of replies produced since others got their turn.
    produced: Cell<usize>,
    /// When the last call ended.
    idle_since: Cell<Instant>,
}

impl Shared {
    fn new(common: Rc<Common>, peer: Peer, usage: Usage, opened: Instant) -> Shared {
        let memory = MemoryBudget::new(common.pool.clone());
        let (calls, produced, idle_since) = (Cell::new(0), Cell::new(0), Cell::new(opened));
        Shared { common, peer, usage, memory, calls, produced, idle_since }
    }

    pub(super) fn live(&self) -> &Arc<LiveCatalog> {
        &self.common.live
    }

    pub(super) fn failures(&self) -> &Failures {
        &self.common.failures
    }

    pub(super) fn peer(&self) -> &str {
        &self.peer.0
    }

    pub(super) fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    pub(super) fn request_limit(&self) -> usize {
        self.common.limits.request_size
    }

    pub(super) fn produced(&self, bytes: usize) {
        self.produced.set(self.produced.get() + bytes);
    }

    pub(super) fn call_started(&self) {
        self.calls.set(self.calls.get() + 1);
        self.usage.set_busy();
    }

    pub(super) fn call_ended(&self) {
        self.calls.set(self.calls.get() - 1);
        if self.calls.get() == 0 {
            self.idle_since.set(Instant::now());
            self.usage.set_idle();
        }
    }

    /// Runs a query on a catalog; an error or a panic becomes the status of the call.
    pub(super) fn ask<T>(
        &self,
        catalog: &Arc<dyn Query>,
        query: impl FnOnce() -> Result<T, QueryError>,
    ) -> Result<T, Status> {
        caught(query)?.map_err(|error| self.status(error, catalog))
    }

    /// Query errors always have the code "unknown", as clients expect; they match on the text.
    pub(super) fn status(&self, error: QueryError, catalog: &Arc<dyn Query>) -> Status {
        match error {
            QueryError::Absent(text) => Status::unknown(text),
            QueryError::Damaged(text) => {
                tracing::error!(error = text, "cannot read an answer from the cache");
                self.live().found_damage(catalog);
                Status::data_loss(text)
            }
        }
    }
}

/// Serves a peer until either side ends the connection; beyond the limit of connections, only health checks.
pub(crate) async fn run(
    socket: Socket,
    peer: Peer,
    tls: Option<TlsAcceptor>,
    common: Rc<Common>,
    mut stopping: watch::Receiver<bool>,
    slot: &mut Slot,
    within_limit: bool,
) {
    // Opening has its own future, freed before the next one begins: most connections are silent most of the time.
    let opening = tokio::time::timeout(FIRST_BYTES_TIMEOUT, Box::pin(open(socket, tls, &common.limits)));
    let (http2, wire) = tokio::select! {
        opened = opening => match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return tracing::debug!(peer = peer.0, %error, "connection failed to open"),
            Err(_) => return,
        },
        _ = stopping.wait_for(|stopping| *stopping) => return,
        // The connection is evicted.
        _ = slot.evicted() => return,
    };
    let opened = Instant::now();
    let age = common.limits.max_age.map(|age| with_jitter(age, opened));
    let shared = Rc::new(Shared::new(common, peer, slot.usage().clone(), opened));
    let connection = Connection::new(http2, wire, shared, within_limit, opened, age);
    Box::pin(answer(connection, stopping, slot)).await;
}

/// Sets up TLS and HTTP/2.
async fn open(
    socket: Socket,
    tls: Option<TlsAcceptor>,
    limits: &ServerLimits,
) -> io::Result<(Http2<Wire, ReservedBytes>, Wire)> {
    let socket = match tls {
        None => socket,
        Some(acceptor) => Socket::Tls(Box::new(acceptor.accept(socket).await?)),
    };
    let wire = Wire::new(socket);
    let mut handshake = h2::server::Builder::new()
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(HEADER_LIST_SIZE)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(wire.clone());
    let http2 = poll_fn(|context| {
        let polled = Pin::new(&mut handshake).poll(context);
        match wire.poll_write_out(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => polled.map_err(io::Error::other),
        }
    });
    Ok((http2.await?, wire))
}

/// Answers calls.
async fn answer(mut connection: Connection, mut stopping: watch::Receiver<bool>, slot: &mut Slot) {
    let mut timer = std::pin::pin!(tokio::time::sleep_until(connection.next_check().into()));
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
            // An idle connection leaves its slot to another one. A peer that never called may not read our farewell.
            _ = slot.evicted() => {
                if !slot.usage().has_called() {
                    return;
                }
                connection.http2.graceful_shutdown();
                return connection.finish().await;
            }
            () = timer.as_mut() => {
                if !connection.check() {
                    connection.http2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                    return connection.finish().await;
                }
                timer.as_mut().reset(connection.next_check().into());
            }
        }
    }
}

struct Connection {
    http2: Http2<Wire, ReservedBytes>,
    wire: Wire,
    /// Whether it is within the limit of connections.
    within_limit: bool,
    shared: Rc<Shared>,
    pings: Option<PingPong>,
    /// When the pending keepalive ping was sent.
    ping_sent: Option<Instant>,
    opened: Instant,
    /// The maximum age, with jitter, so that clients do not reconnect all at once.
    age: Option<Duration>,
    /// When GOAWAY was sent because of its age.
    retired: Option<Instant>,
}

impl Connection {
    fn new(
        mut http2: Http2<Wire, ReservedBytes>,
        wire: Wire,
        shared: Rc<Shared>,
        within_limit: bool,
        opened: Instant,
        age: Option<Duration>,
    ) -> Connection {
        let pings = http2.ping_pong();
        Connection { http2, wire, within_limit, shared, pings, ping_sent: None, opened, age, retired: None }
    }

    /// Answers calls as they arrive; ready when the connection has ended.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.produced.set(0);
        for _ in 0..CALLS_PER_TURN {
            if self.shared.produced.get() > BYTES_PER_TURN {
                break;
            }
            match self.http2.poll_accept(context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let common = &self.shared.common;
                    match Method::of(request.uri().path(), common.services) {
                        _ if !self.within_limit && request.uri().path() != HEALTH_CHECK => {
                            foreign::refuse(
                                &self.shared,
                                &request,
                                respond,
                                Status::unavailable("too many connections"),
                            );
                            // The client finds a free slot with its next connection.
                            self.http2.graceful_shutdown();
                        }
                        Some(method) => call::start(&self.shared, method, request, respond, context),
                        None => foreign::start(&self.shared, common.other_services.clone(), request, respond),
                    }
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => {
                    if let Some(pings) = &mut self.pings
                        && self.ping_sent.is_some()
                        && pings.poll_pong(context).is_ready()
                    {
                        self.ping_sent = None;
                    }
                    return match self.wire.poll_write_out(context) {
                        Poll::Ready(Err(_)) => Poll::Ready(()),
                        _ => Poll::Pending,
                    };
                }
            }
        }
        context.waker().wake_by_ref();
        match self.wire.poll_write_out(context) {
            Poll::Ready(Err(_)) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// Returns when the connection must be checked next.
    fn next_check(&self) -> Instant {
        let limits = &self.shared.common.limits;
        let alive = match self.ping_sent {
            Some(ping_sent) => ping_sent + KEEPALIVE_TIMEOUT,
            None => self.wire.last_received() + limits.keepalive,
        };
        let now = Instant::now();
        let idle_since = if self.shared.calls.get() == 0 { self.shared.idle_since.get() } else { now };
        let idle = limits.max_idle.filter(|_| self.retired.is_none());
        let age = self.age.filter(|_| self.retired.is_none());
        let grace = self.retired.and_then(|retired| Some(retired + limits.max_age_grace?));
        let others = [idle.map(|idle| idle_since + idle), age.map(|age| self.opened + age), grace];
        others
            .into_iter()
            .flatten()
            .fold(alive.min(now + MAX_CHECK_INTERVAL), Instant::min)
            .max(now + MIN_CHECK_INTERVAL)
    }

    /// Checks keepalive, idle time, age and stalls; `false` means that the connection must be aborted.
    fn check(&mut self) -> bool {
        let (now, limits) = (Instant::now(), &self.shared.common.limits);
        if self.wire.last_received() + limits.keepalive <= now {
            match self.ping_sent {
                Some(ping_sent) if ping_sent + KEEPALIVE_TIMEOUT <= now => return false,
                Some(_) => {}
                None => {
                    let sent = self.pings.as_mut().is_some_and(|pings| pings.send_ping(Ping::opaque()).is_ok());
                    self.ping_sent = sent.then_some(now);
                }
            }
        } else {
            self.ping_sent = None;
        }
        if self.shared.memory.blocks_others() && self.wire.last_progress() + STALL_TIMEOUT <= now {
            tracing::info!(
                peer = self.shared.peer(),
                "peer does not read replies while others wait, closing its connection"
            );
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

    /// Writes the rest of a connection that is being shut down.
    async fn finish(&mut self) {
        let end = poll_fn(|context| self.poll(context));
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, end).await;
    }
}

/// Returns `age` with a jitter of up to a tenth.
fn with_jitter(age: Duration, opened: Instant) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let tenths = RandomState::new().hash_one(opened) % 201;
    age.mul_f64(0.9 + tenths as f64 / 1000.0)
}
