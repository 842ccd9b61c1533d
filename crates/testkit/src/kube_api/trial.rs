//! Dry runs of objects on the API server.

use std::time::Duration;

use kube::Client;
use serde_json::Value;

use super::KubeApi;
use super::crds::is_established;

/// The response of the API server to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    pub status: u16,
    pub warnings: Vec<String>,
    /// The object as it would be stored, or the error.
    pub body: String,
}

impl KubeApi {
    /// Creates a CRD, and waits until it is established.
    pub async fn define(&self, crd: &Value) {
        let client = self.client().await;
        let name = crd["metadata"]["name"].as_str().expect("a name");
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let applied =
            send(&client, "PATCH", &format!("{path}?fieldManager=testkit&force=true"), &crd.to_string()).await;
        assert!(applied.status < 300, "{}", applied.body);
        loop {
            let current = send(&client, "GET", &path, "").await;
            if is_established(&serde_json::from_str(&current.body).unwrap_or_default()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Applies an object like `kubectl apply --server-side --validate=strict --dry-run=server`.
    pub async fn try_apply(&self, plural: &str, object: &Value) -> Trial {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = match text(&object["metadata"]["namespace"]).as_str() {
            "" => String::new(),
            namespace => format!("namespaces/{namespace}/"),
        };
        let path = format!(
            "/apis/{}/{namespace}{plural}/{}?fieldManager=testkit&fieldValidation=Strict&dryRun=All&force=true",
            text(&object["apiVersion"]),
            text(&object["metadata"]["name"]),
        );
        send(&self.client().await, "PATCH", &path, &object.to_string()).await
    }
}

async fn send(client: &Client, method: &str, path: &str, body: &str) -> Trial {
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/apply-patch+yaml");
    let request = request.body(body.as_bytes().to_vec().into()).expect("a request");
    let (head, body) = client.send(request).await.expect("a response").into_parts();
    let warnings = head.headers.get_all("warning").iter();
    let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    let body = body.collect_bytes().await.expect("a body");
    Trial { status: head.status.as_u16(), warnings, body: String::from_utf8_lossy(&body).into_owned() }
}
