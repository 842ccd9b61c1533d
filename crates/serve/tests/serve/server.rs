//! Replies of a server, to honest and hostile clients.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serve::cache::store::Integrity;
use serve::listen::Address;
use serve::run::{ServePlan, run};
use serve::server::ServerLimits;
use tonic::Code;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

use crate::catalogs::{directory, write_package};
use crate::harness::{Server, Strings, streaming, strings, unary};

#[tokio::test(flavor = "multi_thread")]
async fn every_method_replies() {
    let server = Server::start(|_| {}).await;
    let channel = server.client().await;
    let list = |method, request| streaming::<Strings>(&channel, method, request);
    let one = |method, request| unary(&channel, method, request);
    let none = || strings(["", "", ""]);
    assert_eq!(list("/api.Registry/ListPackages", none()).await.unwrap().len(), 3);
    let bundles = list("/api.Registry/ListBundles", none()).await.unwrap();
    assert_eq!(bundles.len(), 24);
    assert_eq!(bundles[0], strings(["alpha.v0.0.0", "alpha", "stable"]), "csvJson is empty for bundles with an image");
    assert_eq!(one("/api.Registry/GetPackage", strings(["beta", "", ""])).await.unwrap().first, "beta");
    let bundle = one("/api.Registry/GetBundle", strings(["beta", "stable", "beta.v7.0.0"])).await.unwrap();
    assert!(bundle.fourth.contains("line 29 of one in version 7"), "{bundle:?}");
    let head = one("/api.Registry/GetBundleForChannel", strings(["beta", "stable", ""])).await.unwrap();
    assert_eq!(head.first, "beta.v19.0.0");
    let next = one("/api.Registry/GetBundleThatReplaces", strings(["beta.v3.0.0", "beta", "stable"])).await.unwrap();
    assert_eq!(next.first, "beta.v4.0.0");
    let api = || strings(["beta.test", "v1", "Thing"]);
    assert_eq!(
        list("/api.Registry/GetChannelEntriesThatReplace", strings(["beta.v3.0.0", "", ""])).await.unwrap().len(),
        1
    );
    assert_eq!(list("/api.Registry/GetChannelEntriesThatProvide", api()).await.unwrap().len(), 20);
    assert_eq!(list("/api.Registry/GetLatestChannelEntriesThatProvide", api()).await.unwrap().len(), 1);
    assert_eq!(one("/api.Registry/GetDefaultBundleThatProvides", api()).await.unwrap().first, "beta.v19.0.0");
    let custom = "/api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas";
    assert_eq!(list(custom, strings(["custom.note", "beta", ""])).await.unwrap().len(), 1);
    let absent = one("/api.Registry/GetBundle", strings(["beta", "stable", "x"])).await.unwrap_err();
    assert_eq!(
        (absent.code(), absent.message()),
        (Code::Unknown, "package \"beta\", channel \"stable\", bundle \"x\" not found")
    );
    assert_eq!(one("/api.Registry/NoSuchMethod", none()).await.unwrap_err().code(), Code::Unimplemented);
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_change_is_served_and_an_invalid_one_is_not() {
    let server = Server::start(|plan| plan.watch = Some(Duration::from_millis(20))).await;
    let channel = server.client().await;
    let package = || unary(&channel, "/api.Registry/GetPackage", strings(["delta", "", ""]));
    assert!(package().await.is_err());
    write_package(&server.root(), "delta", 2, "new");
    for _ in 0..300 {
        if package().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(package().await.unwrap().first, "delta");
    fs::write(server.root().join("delta/catalog.yaml"), "schema: olm.package\nname: delta\ndefaultChannel: nothere\n")
        .unwrap();
    let mut ready = String::new();
    for _ in 0..300 {
        ready = server.get("/readyz", "").await;
        if ready.contains("refused") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("the last update was refused"), "{ready}");
    assert_eq!(package().await.unwrap().first, "delta", "the last valid catalog is served");
    assert!(server.get("/metrics", "").await.contains("opm_catalog_stale 1"));
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_clients_do_not_disturb_others() {
    let server = Server::start(|plan| plan.limits.connections = 64).await;
    let channel = server.client().await;
    let answered = || async { unary(&channel, "/api.Registry/GetPackage", strings(["beta", "", ""])).await.is_ok() };
    // More silent connections than the limit.
    let silent: Vec<_> = (0..200).filter_map(|_| TcpStream::connect(("127.0.0.1", server.port)).ok()).collect();
    assert!(answered().await);
    drop(silent);
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Garbage instead of HTTP/2.
    for _ in 0..20 {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", server.port)) {
            let _ = stream.write_all(&[0xff; 5000]);
        }
    }
    assert!(answered().await);
    // A request beyond the limit.
    let huge = "x".repeat(5 << 20);
    let refused =
        unary(&server.client().await, "/api.Registry/GetPackage", strings([&huge, "", ""])).await.unwrap_err();
    assert!(
        matches!(refused.code(), Code::OutOfRange | Code::ResourceExhausted | Code::Unknown | Code::Internal),
        "{refused:?}"
    );
    assert!(answered().await);
    // Clients that read nothing.
    let mut slow = Vec::new();
    for _ in 0..16 {
        let mut grpc = Grpc::new(server.client().await);
        grpc.ready().await.unwrap();
        let codec: ProstCodec<Strings, Strings> = ProstCodec::default();
        let path = PathAndQuery::from_static("/api.Registry/ListBundles");
        slow.push(grpc.server_streaming(tonic::Request::new(strings(["", "", ""])), path, codec).await.unwrap());
    }
    assert!(answered().await);
    drop(slow);
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_is_served_over_http() {
    let server = Server::start(|_| {}).await;
    let all = server.get("/catalogs/test/api/v1/all", "").await;
    let (head, body) = all.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("application/jsonl") && head.to_lowercase().contains("accept-ranges: bytes"), "{head}");
    assert_eq!(body.lines().count(), 3 * 3 + 24);
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    let again = server.get("/catalogs/test/api/v1/all", &format!("If-None-Match: {tag}\r\n")).await;
    assert!(again.starts_with("HTTP/1.1 304"), "{again}");
    let part = server.get("/catalogs/test/api/v1/all", "Range: bytes=1-6\r\n").await;
    assert!(part.starts_with("HTTP/1.1 206") && part.ends_with(&body[1..7]), "{part}");
    let lines = |response: String| response.split_once("\r\n\r\n").map_or(0, |(_, body)| body.lines().count());
    assert_eq!(lines(server.get("/catalogs/test/api/v1/metas?schema=olm.package", "").await), 3);
    assert_eq!(lines(server.get("/catalogs/test/api/v1/metas?package=beta&schema=olm.bundle", "").await), 20);
    assert_eq!(lines(server.get("/catalogs/test/api/v1/packages/beta", "").await), 23);
    assert!(server.get("/catalogs/test/api/v1/metas?x=1", "").await.starts_with("HTTP/1.1 400"));
    assert!(server.get("/catalogs/other/api/v1/all", "").await.starts_with("HTTP/1.1 404"));
    assert!(server.get("/catalogs/B_d/api/v1/all", "").await.starts_with("HTTP/1.1 400"));
    assert!(server.get("/catalogs/../x", "").await.starts_with("HTTP/1.1 307"));
    let packed = server.get("/catalogs/test/api/v1/all", "Accept-Encoding: gzip\r\n").await;
    assert!(packed.contains("content-encoding: gzip") && packed.len() < all.len() / 2);
    assert!(server.get("/", "").await.contains(">beta</a>"));
    assert!(server.get("/openapi.json", "").await.contains("/catalogs/test/api/v1/metas"));
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_cannot_be_served_ends_the_server() {
    let scratch = tempfile::tempdir().unwrap();
    let plan = |root: &Path, address: Address| ServePlan {
        directory: directory(root),
        origin: None,
        cache_dir: None,
        integrity: Integrity::Rebuild,
        address,
        tls: None,
        limits: ServerLimits::default(),
        watch: None,
        http: None,
        http_connections: 16,
        pages: None,
        http_hosts: Vec::new(),
        debug: None,
        reload: Arc::default(),
        drain: Duration::from_secs(1),
    };
    let missing = scratch.path().join("nothere");
    let socket = scratch.path().join("socket");
    let error = run(plan(&missing, Address::Unix(socket)), std::future::pending()).await.unwrap_err();
    assert!(error.to_string().contains("nothere"), "{error}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp("127.0.0.1".into(), taken.local_addr().unwrap().port());
    let error = run(plan(scratch.path(), address), std::future::pending()).await.unwrap_err();
    assert!(error.to_string().starts_with("failed to listen"), "{error}");
}
