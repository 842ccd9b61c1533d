//! The way to services of a cluster, by their names: what its DNS and its network do.
//!
//! Programs that connect by gRPC use a proxy that `GRPC_PROXY` names. This one knows which pod a service leads to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A proxy for `CONNECT`, for as long as this process lives.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    port: u16,
    routes: Arc<Mutex<HashMap<String, SocketAddr>>>,
}

impl Proxy {
    pub(crate) fn start() -> Proxy {
        let routes: Arc<Mutex<HashMap<String, SocketAddr>>> = Arc::default();
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        listener.set_nonblocking(true).expect("a listener");
        let known = routes.clone();
        // It outlives the runtime of whoever starts it.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(lead(client, known.clone()));
                }
            });
        });
        Proxy { port, routes }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Lets a name with its port lead somewhere, or nowhere.
    pub(crate) fn route(&self, name: &str, address: Option<SocketAddr>) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        match address {
            Some(address) => drop(routes.insert(name.to_owned(), address)),
            None => drop(routes.remove(name)),
        }
    }
}

async fn lead(client: TcpStream, routes: Arc<Mutex<HashMap<String, SocketAddr>>>) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let mut request = String::new();
    client.read_line(&mut request).await?;
    let mut header = String::new();
    while client.read_line(&mut header).await? > 2 {
        header.clear();
    }
    let name = request.split(' ').nth(1).unwrap_or_default();
    let known = routes.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied();
    let address = known.or_else(|| name.parse().ok());
    let server = match address {
        Some(address) => TcpStream::connect(address).await.ok(),
        None => None,
    };
    let Some(mut server) = server else {
        return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").await;
    };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}
