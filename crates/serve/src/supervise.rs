//! Runs the listeners of a server, and stops them together.

use std::io;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

/// All listeners of a server. Dropping this ends them.
pub(crate) struct Listeners {
    running: JoinSet<(String, io::Result<()>)>,
    stopping: watch::Sender<bool>,
}

impl Default for Listeners {
    fn default() -> Listeners {
        Listeners { running: JoinSet::new(), stopping: watch::Sender::new(false) }
    }
}

impl Listeners {
    /// Resolves when the listeners should stop.
    pub(crate) fn stopping(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.subscribe();
        async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }

    /// Runs a listener.
    pub(crate) fn add(&mut self, name: String, listener: impl Future<Output = io::Result<()>> + Send + 'static) {
        self.running.spawn(async move { (name, listener.await) });
    }

    /// Waits until a listener ends before it was stopped, which is always an error.
    pub(crate) async fn broken(&mut self) -> io::Error {
        match self.running.join_next().await {
            None => std::future::pending().await,
            Some(Ok((name, Err(error)))) => io::Error::new(error.kind(), format!("{name}: {error}")),
            Some(Ok((name, Ok(())))) => io::Error::other(format!("{name}: ended unexpectedly")),
            Some(Err(error)) => io::Error::other(error),
        }
    }

    /// Stops every listener and lets calls in flight finish; returns whether all of them did in time.
    ///
    /// # Errors
    /// Fails when one of them fails.
    pub(crate) async fn drain(mut self, within: Duration) -> io::Result<bool> {
        let _ = self.stopping.send(true);
        let all = async {
            let mut outcome = Ok(());
            while let Some(ended) = self.running.join_next().await {
                let ended = ended.map_err(io::Error::other).and_then(|(_, ended)| ended);
                outcome = outcome.and(ended);
            }
            outcome
        };
        match tokio::time::timeout(within, all).await {
            Ok(outcome) => outcome.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpStream};
    use std::os::fd::AsFd;
    use std::sync::Arc;

    use super::*;
    use crate::http::{self, Site};
    use crate::listen::{Address, Listener};
    use crate::live::LiveCatalog;
    use crate::server::{self, ServerLimits, Services};

    /// Binds a port, and returns a connection that breaks it.
    async fn fragile() -> (Listener, TcpStream) {
        let listener = Address::Tcp("127.0.0.1".into(), 0).bind().await.unwrap();
        let Listener::Tcp(socket) = &listener else { panic!("no network") };
        let other = TcpStream::from(socket.as_fd().try_clone_to_owned().unwrap());
        (listener, other)
    }

    #[tokio::test]
    async fn the_end_of_any_listener_is_detected() {
        for grpc_dies in [true, false] {
            let live = Arc::new(LiveCatalog::default());
            let mut listeners = Listeners::default();
            let ((grpc, grpc_socket), (web, web_socket)) = (fragile().await, fragile().await);
            let (served, stop) = (Arc::clone(&live), listeners.stopping());
            let serving =
                async move { server::serve(grpc, served, None, &ServerLimits::default(), Services::All, stop).await };
            listeners.add("gRPC".into(), serving);
            let site = Site::catalog(&live, "test");
            listeners.add("HTTP".into(), http::serve(web, None, 8, site, listeners.stopping()));
            let quiet = tokio::time::timeout(Duration::from_millis(50), listeners.broken()).await;
            assert!(quiet.is_err(), "{quiet:?}");
            let dying = if grpc_dies { &grpc_socket } else { &web_socket };
            dying.shutdown(Shutdown::Both).unwrap();
            let error = tokio::time::timeout(Duration::from_secs(5), listeners.broken()).await.unwrap();
            let name = if grpc_dies { "gRPC: " } else { "HTTP: " };
            assert!(error.to_string().starts_with(name), "{error}");
            assert!(listeners.drain(Duration::from_secs(5)).await.unwrap(), "the other listener does not drain");
        }
    }
}
