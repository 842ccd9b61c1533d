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
use crate::listen::{self, Listener, Peer, Socket};
use crate::slots::{Slot, Slots};
use crate::tls::{Protocol, Tls};

/// How long a connection may be open between two requests.
const IDLE: Duration = Duration::from_secs(60);
/// How many bytes of a request's head are read, and of a reply are held besides the chunk that is sent.
const BUFFER: usize = 16 << 10;
/// How often memory is given back that pages have not needed in a while.
const TIDY: Duration = Duration::from_secs(10);
/// Connections accepted beyond the limit: they get the state of the server, and nothing else.
pub(crate) const RESERVE: usize = 16;

/// Answers on `listener` until `stop` is ready, then finishes the replies that are being sent.
///
/// # Errors
/// Fails when the socket accepts no more.
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
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            _ = tidying.tick() => {
                site.tidy();
                continue;
            }
            () = &mut follow => continue,
            () = &mut stop => break,
        };
        let metrics = &site.live.metrics;
        metrics.accepted.fetch_add(1, Relaxed);
        let (slot, room) = match listen::take(&slots, &site.live).await {
            Some(slot) => (Some(slot), true),
            None => (listen::take(&reserve, &site.live).await, false),
        };
        let Some(slot) = slot else {
            metrics.turned_away.fetch_add(1, Relaxed);
            continue;
        };
        metrics.open.fetch_add(1, Relaxed);
        let connection = Connection { slot, room, tls: tls.clone(), site: Arc::clone(&site), ending: ending.clone() };
        connections.spawn(connection.run(socket, peer));
    }
    drop(listener);
    let _ = ended.send(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// A connection and what it needs.
struct Connection {
    slot: Slot,
    /// Whether there is room for one that takes its time.
    room: bool,
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
                _ = self.slot.left() => None,
                _ = self.ending.wait_for(|ending| *ending) => None,
            },
        };
        if let Some(socket) = socket {
            answer(&self.site, self.room, socket, &mut self.slot, &mut self.ending).await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.site.live.metrics.open.fetch_sub(1, Relaxed);
    }
}

/// What is to be done for a request.
enum Work {
    /// Pages are made on threads that may wait.
    Page(Job),
    Query(Box<Query>),
    Done(Reply),
}

impl Work {
    /// Pages and queries are answered only while there is room for those who take their time.
    fn of(site: &Site, request: Request<Incoming>, room: bool) -> Work {
        if !room {
            return Work::Done(site.answer(&request, room));
        }
        if let Some(job) = site.job(&request) {
            return Work::Page(job);
        }
        match Query::asked(site, &request) {
            Some(content) => Work::Query(Box::new(Query::new(site, content, request))),
            None => Work::Done(site.answer(&request, room)),
        }
    }
}

async fn answer(site: &Site, room: bool, socket: Socket, slot: &mut Slot, ending: &mut watch::Receiver<bool>) {
    let usage = slot.usage().clone();
    let wire = TokioIo::new(Wire::new(socket, usage.clone()));
    let service = service_fn(|request| {
        usage.work();
        let work = Work::of(site, request, room);
        let usage = usage.clone();
        async move {
            let mut response = match work {
                Work::Page(job) => job.run().await,
                Work::Query(query) => query.run().await,
                Work::Done(response) => response,
            };
            if !room {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| body.used_by(usage)))
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
            _ = slot.left() => return,
            _ = ending.wait_for(|ending| *ending), if !announced => {
                announced = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
