//! The gRPC server: bound, ready, drained.
//!
//! One thread accepts connections and passes each to the worker thread with the fewest connections. A worker answers
//! its connections alone: no state of a call is shared between cores.

use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};

use crate::caught::log_panic;
use crate::grpc::OtherServices;
use crate::grpc::connection::{self, Common};
use crate::grpc::memory_budget::MemoryPool;
use crate::grpc::observe::Failures;
use crate::listen::{self, Listener, Peer, Socket};
use crate::live::LiveCatalog;
use crate::slots::{RESERVE, Slot, Slots};
use crate::tls::{Protocol, Tls};

/// Time limit for a connection of the reserve.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Maximum number of concurrent connections; a few further ones can check the health of the server.
    pub connections: usize,
    /// Maximum number of concurrent calls per connection.
    pub streams: u32,
    /// Maximum size of a request, in bytes.
    pub request_size: usize,
    /// Interval of keepalive pings on silent connections.
    pub keepalive: Duration,
    /// Maximum time without a call before a connection is closed; unlimited if unset.
    pub max_idle: Option<Duration>,
    /// Maximum age of a connection before the server asks the client to reconnect.
    pub max_age: Option<Duration>,
    /// Time limit for calls in flight after that.
    pub max_age_grace: Option<Duration>,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            connections: 4096,
            streams: 250,
            request_size: 4 << 20,
            keepalive: Duration::from_secs(30),
            max_idle: None,
            max_age: None,
            max_age_grace: None,
        }
    }
}

/// The optional gRPC services, besides the registry API, health and reflection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Services {
    /// All of them.
    All,
    /// None: a database has no blobs of custom schemas.
    RegistryOnly,
}

/// Answers on `listener` until `stop` is ready, then drains the calls in flight.
///
/// # Errors
/// Fails when the socket can accept no further connections, or a thread cannot start.
pub async fn serve(
    listener: Listener,
    live: Arc<LiveCatalog>,
    tls: Option<Tls>,
    limits: &ServerLimits,
    services: Services,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let other_services = OtherServices::new(&live, limits.request_size, services).map_err(io::Error::other)?;
    let pool = MemoryPool::new();
    let (stopped, stopping) = watch::channel(false);
    let (alive, mut ended) = mpsc::channel::<()>(1);
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let mut workers = Vec::with_capacity(count);
    for _ in 0..count {
        let (sender, accepted) = mpsc::unbounded_channel();

        let task = Task {
            accepted,
            tls: tls.clone(),
            live: Arc::clone(&live),
            other_services: other_services.clone(),
            limits: limits.clone(),
            services,
            pool: pool.clone(),
            stopping: stopping.clone(),
            alive: alive.clone(),
        };
        std::thread::Builder::new().name("grpc".into()).spawn(move || task.run())?;
        workers.push(Worker { sender, open: Arc::default() });
    }
    drop(alive);
    let mut stop = std::pin::pin!(stop);
    let (slots, reserve) = (Slots::new(limits.connections.max(1)), Slots::new(RESERVE));
    loop {
        let (socket, peer) = tokio::select! {
            accepted = listener.accept() => accepted?,
            () = &mut stop => break,
        };
        live.metrics.accepted.fetch_add(1, Relaxed);
        let Some((slot, within_limit)) = listen::acquire_slot(&slots, &reserve, &live).await else { continue };
        let Ok(socket) = Detached::of(socket) else { continue };
        let Some(worker) = workers.iter().min_by_key(|worker| worker.open.load(Relaxed)) else { break };
        live.metrics.open.fetch_add(1, Relaxed);
        worker.open.fetch_add(1, Relaxed);
        let counted = Counted { live: Arc::clone(&live), open: Arc::clone(&worker.open), slot, within_limit };
        if worker.sender.send(Accepted { socket, peer, counted }).is_err() {
            return Err(io::Error::other("a worker thread has ended"));
        }
    }
    // The socket closes before the calls in flight end.
    drop(listener);
    drop(workers);
    let _ = stopped.send(true);
    ended.recv().await;
    Ok(())
}

/// The acceptor's handle of a worker thread.
struct Worker {
    sender: mpsc::UnboundedSender<Accepted>,
    open: Arc<AtomicUsize>,
}

/// A connection on its way to a worker.
struct Accepted {
    socket: Detached,
    peer: Peer,
    counted: Counted,
}

/// Counts a connection while it is open.
struct Counted {
    live: Arc<LiveCatalog>,
    open: Arc<AtomicUsize>,
    slot: Slot,
    /// Whether it is within the limit; beyond it, only health checks are answered.
    within_limit: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Relaxed);
        self.live.metrics.open.fetch_sub(1, Relaxed);
    }
}

/// A socket that is not registered with any runtime.
enum Detached {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Detached {
    fn of(socket: Socket) -> io::Result<Detached> {
        match socket {
            Socket::Tcp(stream) => stream.into_std().map(Detached::Tcp),
            Socket::Unix(stream) => stream.into_std().map(Detached::Unix),
            Socket::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Registers the socket with the runtime of this thread.
    fn attach(self) -> io::Result<Socket> {
        match self {
            Detached::Tcp(stream) => tokio::net::TcpStream::from_std(stream).map(Socket::Tcp),
            Detached::Unix(stream) => tokio::net::UnixStream::from_std(stream).map(Socket::Unix),
        }
    }
}

/// The state of a worker thread.
struct Task {
    accepted: mpsc::UnboundedReceiver<Accepted>,
    tls: Option<Tls>,
    live: Arc<LiveCatalog>,
    other_services: OtherServices,
    limits: ServerLimits,
    services: Services,
    pool: MemoryPool,
    stopping: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
}

impl Task {
    fn run(self) {
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(LocalSet::new().run_until(self.answer())),
            Err(error) => tracing::error!(%error, "cannot start a worker thread"),
        }
    }

    async fn answer(self) {
        let Task { mut accepted, tls, live, other_services, limits, services, pool, stopping, alive } = self;
        let common = Rc::new(Common { live, other_services, limits, services, pool, failures: Failures::new() });
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                next = accepted.recv() => {
                    let Some(Accepted { socket, peer, mut counted }) = next else { break };
                    let Ok(socket) = socket.attach() else { continue };
                    let (common, stopping) = (Rc::clone(&common), stopping.clone());
                    let acceptor = tls.as_ref().map(|tls| tls.acceptor(Protocol::Http2));
                    connections.spawn_local(async move {
                        let within_limit = counted.within_limit;
                        let serving =
                            connection::run(socket, peer, acceptor, common, stopping, &mut counted.slot, within_limit);
                        match within_limit {
                            true => serving.await,
                            // Nobody holds the reserve.
                            false => drop(tokio::time::timeout(RESERVE_TIMEOUT, serving).await),
                        }
                    });
                }
                Some(ended) = connections.join_next(), if !connections.is_empty() => log_panic(ended),
            }
        }
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
        drop(alive);
    }
}
