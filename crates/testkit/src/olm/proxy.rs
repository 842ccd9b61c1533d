//! Resolves and routes service names of a cluster, like its DNS and network.
//!
//! OLM's programs connect with gRPC through the SOCKS 5 proxy in `GRPC_PROXY`. This proxy knows the pod of each
//! service.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A proxy that runs as long as this process.
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
        // The thread outlives the runtime of its caller.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(forward(client, known.clone()));
                }
            });
        });
        Proxy { port, routes }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sets or removes the route of a name with its port.
    pub(crate) fn route(&self, name: &str, address: Option<SocketAddr>) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        match address {
            Some(address) => drop(routes.insert(name.to_owned(), address)),
            None => drop(routes.remove(name)),
        }
    }
}

async fn forward(mut client: TcpStream, routes: Arc<Mutex<HashMap<String, SocketAddr>>>) -> std::io::Result<()> {
    // The client offers authentication methods; none is needed.
    let methods = read(&mut client, 2).await?[1];
    read(&mut client, methods.into()).await?;
    client.write_all(&[5, 0]).await?;
    // The client requests a connection to an address or a name.
    let request = read(&mut client, 4).await?;
    let name = match request[3] {
        1 => {
            let octets: [u8; 4] = read(&mut client, 4).await?.try_into().unwrap_or_default();
            std::net::Ipv4Addr::from(octets).to_string()
        }
        _ => {
            let length = read(&mut client, 1).await?[0];
            String::from_utf8_lossy(&read(&mut client, length.into()).await?).into_owned()
        }
    };
    let port = read(&mut client, 2).await?;
    let name = format!("{name}:{}", u16::from_be_bytes([port[0], port[1]]));
    let known = routes.lock().unwrap_or_else(PoisonError::into_inner).get(&name).copied();
    let server = match known.or_else(|| name.parse().ok()) {
        Some(address) => TcpStream::connect(address).await.ok(),
        None => None,
    };
    // Connected, or host unreachable.
    let code = if server.is_some() { 0 } else { 4 };
    client.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    let Some(mut server) = server else { return Ok(()) };
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

async fn read(client: &mut TcpStream, count: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}
