//! An API server for tests that responds as they say.

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use crate::Cluster;

/// Returns a cluster whose API server responds to a method and a path with a status and a body. Watches never respond.
pub(crate) fn cluster(respond: impl Fn(&str, &str) -> (u16, Value) + Send + Sync + 'static) -> Cluster {
    let respond = std::sync::Arc::new(respond);
    let service = tower::service_fn(move |request: Request<Body>| {
        let respond = respond.clone();
        async move {
            let uri = request.uri();
            if uri.query().is_some_and(|query| query.contains("fieldSelector=metadata.name")) {
                return std::future::pending().await;
            }
            let (code, body) = respond(request.method().as_str(), uri.path());
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            Ok::<_, std::convert::Infallible>(response.expect("a response"))
        }
    });
    Cluster {
        client: kube::Client::new(service, "ns"),
        namespace: "ns".into(),
        server: crate::access::ApiServer::default(),
    }
}

/// Returns the body of a failure.
pub(crate) fn failure(code: u16, message: &str) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "Unknown" };
    (code, json!({"metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": message}))
}
