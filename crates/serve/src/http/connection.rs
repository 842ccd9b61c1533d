//! HTTP connections: accepted, answered, drained.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::console::Job;
use super::graphql::Query;
use super::wire::Wire;
use super::{Reply, Site};
use crate::caught::{caught, caught_in, log_panic};
use crate::listen::{self, Listener, Peer, Socket};
use crate::slots::{RESERVE, Slot, Slots};
use crate::tls::{Protocol, Tls};

/// Idle timeout of a connection.
const IDLE: Duration = Duration::from_secs(60);
/// Maximum size of a request head, and of the write buffer besides the current chunk.
const BUFFER: usize = 16 << 10;
/// The interval of releasing memory that pages have not used for a while.
const TIDY: Duration = Duration::from_secs(10);

/// Answers on `listener` until `stop` is ready, then drains the replies in flight.
///
/// # Errors
/// Fails when the socket can accept no further connections.
pub(crate) async fn serve(
    listener: Listener,
    tls: Option<Tls>,
    limit: usize,
    site: Site,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let site = Arc::new(site);
    let (slots, reserve) = (Slots::new(limit), Slots::new(RESERVE));
    let (ended, ending) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    let mut tidying = tokio::time::interval(TIDY);
    let mut follow = pin!(Site::follow(Arc::clone(&site.live), site.console.clone()));
    loop {
        let (socket, peer) = tokio::select! {
            accepted = listener.accept() => accepted?,
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                log_panic(ended);
                continue;
            }
            _ = tidying.tick() => {
                site.tidy();
                continue;
            }
            () = &mut follow => continue,
            () = &mut stop => break,
        };
        let metrics = &site.live.metrics;
        metrics.accepted.fetch_add(1, Relaxed);
        let Some((slot, within_limit)) = listen::acquire_slot(&slots, &reserve, &site.live).await else { continue };
        metrics.open.fetch_add(1, Relaxed);
        let connection =
            Connection { slot, within_limit, tls: tls.clone(), site: Arc::clone(&site), ending: ending.clone() };
        connections.spawn(connection.run(socket, peer));
    }
    drop(listener);
    let _ = ended.send(true);
    while let Some(ended) = connections.join_next().await {
        log_panic(ended);
    }
    Ok(())
}

/// A connection and its context.
struct Connection {
    slot: Slot,
    /// Whether it is within the limit; beyond it, only short replies are sent.
    within_limit: bool,
    tls: Option<Tls>,
    site: Arc<Site>,
    ending: watch::Receiver<bool>,
}

impl Connection {
    async fn run(mut self, socket: Socket, peer: Peer) {
        let socket = match &self.tls {
            None => Some(socket),
            Some(tls) => tokio::select! {
                secured = listen::secure(socket, &peer, tls.acceptor(Protocol::Http1)) => secured,
                _ = self.slot.evicted() => None,
                _ = self.ending.wait_for(|ending| *ending) => None,
            },
        };
        if let Some(socket) = socket {
            answer(&self.site, self.within_limit, socket, &mut self.slot, &mut self.ending).await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.site.live.metrics.open.fetch_sub(1, Relaxed);
    }
}

/// The work for a request.
enum Work {
    /// Pages are rendered on threads that may block.
    Page(Job),
    Query(Box<Query>),
    Done(Reply),
}

impl Work {
    /// Pages and queries are answered only on connections within the limit.
    fn of(site: &Site, request: Request<Incoming>, within_limit: bool) -> Work {
        if !within_limit {
            return Work::Done(site.answer(&request, within_limit));
        }
        if let Some(job) = site.job(&request) {
            return Work::Page(job);
        }
        match Query::target(site, &request) {
            Some(content) => Work::Query(Box::new(Query::new(site, content, request))),
            None => Work::Done(site.answer(&request, within_limit)),
        }
    }

    async fn run(self) -> Reply {
        match self {
            Work::Page(job) => job.run().await,
            Work::Query(query) => query.run().await,
            Work::Done(response) => response,
        }
    }
}

async fn answer(site: &Site, within_limit: bool, socket: Socket, slot: &mut Slot, ending: &mut watch::Receiver<bool>) {
    let usage = slot.usage().clone();
    let wire = TokioIo::new(Wire::new(socket, usage.clone()));
    let service = service_fn(|request| {
        usage.set_busy();
        let work = caught(|| Work::of(site, request, within_limit));
        let usage = usage.clone();
        async move {
            let answered = match work {
                Ok(work) => caught_in(work.run()).await,
                Err(panicked) => Err(panicked),
            };
            let mut response = answered.unwrap_or_else(|_| site.internal_error());
            if !within_limit {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| body.with_usage(usage)))
        }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .max_buf_size(BUFFER)
            .serve_connection(wire, service)
    );
    let mut announced = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "HTTP connection ended");
                }
                return;
            }
            _ = slot.evicted() => return,
            _ = ending.wait_for(|ending| *ending), if !announced => {
                announced = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
