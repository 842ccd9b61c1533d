//! A complete server, tested over the network.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serve::cache::store::Integrity;
use serve::listen::Address;
use serve::probe::{Probe, ProbeError, ProbeTls};
use serve::run::{RunError, ServePlan, run};
use serve::server::ServerLimits;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::catalogs::{directory, write_catalog};

/// A message of strings, with the fields that these tests read.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Strings {
    #[prost(string, tag = "1")]
    pub(crate) first: String,
    #[prost(string, tag = "2")]
    pub(crate) second: String,
    #[prost(string, tag = "3")]
    pub(crate) third: String,
    #[prost(string, tag = "4")]
    pub(crate) fourth: String,
}

pub(crate) fn strings(parts: [&str; 3]) -> Strings {
    let [first, second, third] = parts.map(str::to_owned);
    Strings { first, second, third, fourth: String::new() }
}

pub(crate) struct Server {
    pub(crate) scratch: tempfile::TempDir,
    pub(crate) port: u16,
    pub(crate) http: u16,
    debug: u16,
    pub(crate) reload: Arc<Notify>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), RunError>>,
}

impl Server {
    pub(crate) fn root(&self) -> PathBuf {
        self.scratch.path().join("catalog")
    }

    pub(crate) async fn start(change: impl FnOnce(&mut ServePlan)) -> Server {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("catalog");
        fs::create_dir(&root).unwrap();
        write_catalog(&root, "one");
        let (port, http, debug) = (free_port(), free_port(), free_port());
        let mut plan = ServePlan {
            directory: directory(&root),
            origin: None,
            cache_dir: None,
            integrity: Integrity::Rebuild,
            address: Address::Tcp("127.0.0.1".into(), port),
            tls: None,
            limits: ServerLimits::default(),
            watch: None,
            http: Some((Address::Tcp("127.0.0.1".into(), http), "test".into())),
            http_connections: 1024,
            pages: None,
            http_hosts: Vec::new(),
            debug: Some((Address::Tcp("127.0.0.1".into(), debug), "test".into())),
            drain: Duration::from_secs(5),
            reload: Arc::default(),
        };
        change(&mut plan);
        let (secure, reload) = (plan.tls.is_some(), Arc::clone(&plan.reload));
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(run(plan, async move {
            let _ = stopped.await;
        }));
        let server = Server { scratch, port, http, debug, reload, stop, running };
        // Beside thousands of other tests, a server can wait for a core for seconds.
        for _ in 0..3000 {
            // The endpoint that becomes ready last, and needs no certificate.
            let ready = match secure {
                false => server.get("/catalogs/test/api/v1/metas?schema=none", "").await,
                true => get(server.debug, "/readyz", "").await,
            };
            if ready.starts_with("HTTP/1.1 200") {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("server does not start");
    }

    /// Sends a health check, as a cluster does.
    pub(crate) async fn probe(&self, tls: Option<ProbeTls>) -> Result<(), ProbeError> {
        probe(format!("127.0.0.1:{}", self.port), tls).await
    }

    pub(crate) async fn client(&self) -> Channel {
        Endpoint::from_shared(format!("http://127.0.0.1:{}", self.port)).unwrap().connect().await.unwrap()
    }

    /// Sends a plain HTTP request and returns the whole response.
    pub(crate) async fn get(&self, path: &str, headers: &str) -> String {
        get(self.http, path, headers).await
    }

    pub(crate) async fn end(self) -> (tempfile::TempDir, Result<(), RunError>) {
        let _ = self.stop.send(());
        (self.scratch, self.running.await.unwrap())
    }
}

/// Sends a plain HTTP request and returns the whole response.
pub(crate) async fn get(port: u16, path: &str, headers: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    tokio::task::spawn_blocking(move || {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
        let mut response = Vec::new();
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut response));
        String::from_utf8_lossy(&response).into_owned()
    })
    .await
    .unwrap()
}

/// Sends a health check to `address`.
pub(crate) async fn probe(address: String, tls: Option<ProbeTls>) -> Result<(), ProbeError> {
    let timeout = Duration::from_secs(5);
    Probe { address, service: "api.Registry".into(), connect_timeout: timeout, rpc_timeout: timeout, tls }.run().await
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) async fn unary(channel: &Channel, method: &'static str, request: Strings) -> Result<Strings, tonic::Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let codec: ProstCodec<Strings, Strings> = ProstCodec::default();
    grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(method), codec)
        .await
        .map(tonic::Response::into_inner)
}

pub(crate) async fn streaming<R: prost::Message + Default + 'static>(
    channel: &Channel,
    method: &'static str,
    request: Strings,
) -> Result<Vec<R>, tonic::Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let codec: ProstCodec<Strings, R> = ProstCodec::default();
    let mut request = tonic::Request::new(request);
    request.metadata_mut().insert("x-acknowledge-experimental", tonic::metadata::MetadataValue::from_static("true"));
    let mut replies = grpc.server_streaming(request, PathAndQuery::from_static(method), codec).await?.into_inner();
    let mut all = Vec::new();
    while let Some(reply) = replies.message().await? {
        all.push(reply);
    }
    Ok(all)
}

/// Posts a body over plain HTTP and returns the whole response.
pub(crate) async fn post(port: u16, path: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let request = head + body;
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut response = Vec::new();
        // A server that rejects a body does not read all of it.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_end(&mut response);
        String::from_utf8_lossy(&response).into_owned()
    })
    .await
    .unwrap()
}
