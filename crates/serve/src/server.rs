//! The gRPC server: bound, ready, drained.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server as Transport;

use crate::grpc::{self, Observe};
use crate::listen::{self, Listener};
use crate::live::Live;
use crate::tls::{Tls, TlsFiles};

/// How much of everything a client may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections that are open at a time; further ones are closed at once.
    pub connections: usize,
    /// Calls that are answered at a time on one connection.
    pub streams: u32,
    /// Bytes of a request.
    pub request_size: usize,
    /// How often a silent connection is asked whether it is still there.
    pub keepalive: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits { connections: 4096, streams: 250, request_size: 4 << 20, keepalive: Duration::from_secs(30) }
    }
}

/// What a server offers besides the registry API, health and reflection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Services {
    /// Everything there is.
    All,
    /// Nothing: a database has no blobs of custom schemas.
    RegistryOnly,
}

/// How long a peer may take to say that it is still there.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Files that are needed for something else than connections.
const OTHER_FILES: usize = 64;
/// Bytes of the headers of one call.
const HEADER_LIST_SIZE: u32 = 16 << 10;

/// Answers on `listener` until `stop` is ready, then finishes the calls that are running.
///
/// # Errors
/// Fails when certificates cannot be used, or the server cannot run.
pub async fn serve(
    listener: Listener,
    live: Arc<Live>,
    tls: Option<TlsFiles>,
    limits: &ServerLimits,
    services: Services,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let tls = tls.map(Tls::start).transpose()?;
    let routes = grpc::routes(&live, limits.request_size, services).map_err(io::Error::other)?;
    let (sender, connections) = mpsc::channel(64);
    let connection_limit = room_for(limits.connections);
    let accepting = tokio::spawn(listen::accept_all(listener, tls, connection_limit, Arc::clone(&live), sender));
    let outcome = Transport::builder()
        .max_concurrent_streams(limits.streams)
        .http2_keepalive_interval(Some(limits.keepalive))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_max_header_list_size(HEADER_LIST_SIZE)
        .layer(Observe { live })
        .add_routes(routes)
        .serve_with_incoming_shutdown(ReceiverStream::new(connections), stop)
        .await;
    // Its socket is gone once this has ended.
    accepting.abort();
    let _ = accepting.await;
    outcome.map_err(io::Error::other)
}

/// Returns how many connections there can be, at most `wanted`: the system may allow fewer files.
fn room_for(wanted: usize) -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    let files = files.and_then(|files| files.parse::<usize>().ok()).unwrap_or(usize::MAX);
    wanted.min(files.saturating_sub(OTHER_FILES)).max(1)
}
