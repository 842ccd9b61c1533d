//! Requests that panic, because of a bug: only they fail.

use std::sync::Arc;
use std::time::Duration;

use catalog::query::{ApiType, CatalogCounts, Query, QueryAnswer, QueryError, Rows};
use serve::listen::Address;
use serve::live::ServerState;
use serve::pages::{PackageSummaries, Pages};
use serve::run::run_query;
use serve::server::Services;
use site::console::{ConsoleReply, ConsoleRequest, ReplyKind};
use tokio::sync::oneshot;
use tonic::Code;
use tonic::transport::Endpoint;

use crate::harness::{Server, Strings, free_port, get, streaming, strings, unary};

/// A catalog that panics when the requested name says so.
struct Faulty;

impl Faulty {
    fn answer(name: &str) -> QueryAnswer {
        assert!(!name.contains("panic"), "requested by the test");
        Err(QueryError::Absent(format!("{name} is absent")))
    }
}

impl Query for Faulty {
    fn packages(self: Arc<Self>) -> Rows {
        // The first row is an empty message.
        Box::new((0..2).map(|row| if row == 0 { Ok(Vec::new()) } else { Faulty::answer("panic") }))
    }

    fn package(&self, name: &str) -> QueryAnswer {
        Faulty::answer(name)
    }

    fn bundle(&self, _: &str, _: &str, name: &str) -> QueryAnswer {
        Faulty::answer(name)
    }

    fn head(&self, package: &str, _: &str) -> QueryAnswer {
        Faulty::answer(package)
    }

    fn replacements(self: Arc<Self>, name: &str) -> Result<Rows, QueryError> {
        Faulty::answer(name).map(|_| Box::new(std::iter::empty()) as Rows)
    }

    fn replacement(&self, name: &str, _: &str, _: &str) -> QueryAnswer {
        Faulty::answer(name)
    }

    fn providers(self: Arc<Self>, api: &ApiType) -> Result<Rows, QueryError> {
        Faulty::answer(&api.kind).map(|_| Box::new(std::iter::empty()) as Rows)
    }

    fn latest_providers(self: Arc<Self>, api: &ApiType) -> Result<Rows, QueryError> {
        Faulty::answer(&api.kind).map(|_| Box::new(std::iter::empty()) as Rows)
    }

    fn default_provider(&self, api: &ApiType) -> QueryAnswer {
        Faulty::answer(&api.kind)
    }

    fn bundles(self: Arc<Self>) -> Rows {
        Box::new(std::iter::empty())
    }

    fn custom(self: Arc<Self>, _: &str, _: &str) -> Rows {
        Box::new(std::iter::empty())
    }

    fn counts(&self) -> CatalogCounts {
        CatalogCounts::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_panics_fails_alone() {
    let port = free_port();
    let (stop, stopped) = oneshot::channel::<()>();
    let address = Address::Tcp("127.0.0.1".into(), port);
    let running = tokio::spawn(async move {
        let stop = async move {
            let _ = stopped.await;
        };
        run_query(Arc::new(Faulty), &address, Services::All, Duration::from_secs(5), stop).await
    });
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    let channel = loop {
        match endpoint.connect().await {
            Ok(channel) => break channel,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    // All calls use one connection.
    for method in ["/api.Registry/GetPackage", "/api.Registry/GetBundleForChannel"] {
        let failed = unary(&channel, method, strings(["panic", "x", "x"])).await.unwrap_err();
        assert_eq!(failed.code(), Code::Internal, "{method}: {failed}");
        let answered = unary(&channel, method, strings(["none", "x", "x"])).await.unwrap_err();
        assert_eq!((answered.code(), answered.message()), (Code::Unknown, "none is absent"), "{method}");
    }
    // A list panics while it is being sent, or before.
    for method in ["/api.Registry/ListPackages", "/api.Registry/GetChannelEntriesThatReplace"] {
        let failed = streaming::<Strings>(&channel, method, strings(["panic", "x", "x"])).await.unwrap_err();
        assert_eq!(failed.code(), Code::Internal, "{method}: {failed}");
    }
    let answered = unary(&channel, "/api.Registry/GetPackage", strings(["none", "x", "x"])).await.unwrap_err();
    assert_eq!(answered.message(), "none is absent");
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}

/// A renderer that panics when the path says so.
struct FaultyPages;

impl Pages for FaultyPages {
    fn answer(
        &self,
        request: &ConsoleRequest<'_>,
        _: Option<&PackageSummaries>,
        _: &ServerState,
    ) -> Option<ConsoleReply> {
        assert!(!request.path.contains("panic"), "requested by the test");
        let body = format!("page {}", request.path).into_bytes();
        Some(ConsoleReply { status: 200, media_type: "text/plain", kind: ReplyKind::Page, location: None, body })
    }

    fn event(&self, _: Option<&PackageSummaries>, _: &ServerState) -> Option<String> {
        None
    }

    fn swapped(&self, _: &PackageSummaries, _: &PackageSummaries) {}

    fn changes(&self) -> u64 {
        0
    }

    fn tidy(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_panics_fails_alone() {
    let server = Server::start(|plan| {
        plan.pages = Some(Arc::new(FaultyPages));
        plan.http_hosts = vec!["x".into()];
    })
    .await;
    let before = server_errors(&server).await;
    for _ in 0..3 {
        let failed = server.get("/panic", "").await;
        assert!(failed.starts_with("HTTP/1.1 500 Internal Server Error"), "{failed}");
        let answered = server.get("/other", "").await;
        assert!(answered.starts_with("HTTP/1.1 200") && answered.ends_with("page other"), "{answered}");
    }
    assert_eq!(server_errors(&server).await, before + 3);
    assert!(server.end().await.1.is_ok());
}

/// Returns the number of HTTP requests that the server answered with an error of its own.
async fn server_errors(server: &Server) -> u64 {
    let metrics = get(server.http, "/metrics", "").await;
    let line = metrics.lines().find_map(|line| line.strip_prefix("opm_http_requests_total{code=\"5xx\"} "));
    line.unwrap().parse().unwrap()
}
