//! `operator-registry initializer -r`, with a token in a Secret.

use cluster::ResourceKind;
use serde_json::json;
use testkit::{FakeRegistry, FakeResponse, ResponseFault};

use crate::kit::Kit;

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_read_from_a_secret() {
    let kit = Kit::new().await;
    let server = FakeRegistry::start(|request| {
        let known = request.headers.get("authorization").map(String::as_str) == Some("basic c2VjcmV0");
        (
            ResponseFault::None,
            Some(if known { FakeResponse::status(200).body("[]") } else { FakeResponse::status(401) }),
        )
    });
    kit.create(ResourceKind::SECRET, json!({"metadata": {"name": "token"}, "stringData": {"token": "basic c2VjcmV0"}}))
        .await;
    kit.create(ResourceKind::SECRET, json!({"metadata": {"name": "other"}, "stringData": {"password": "x"}})).await;
    let load = |secret: &str| {
        let source = format!("http://{}/cnr|community|{}/{secret}", server.host(), kit.cluster.namespace);
        let mut command = kit.env.command();
        command.args(["operator-registry", "initializer", "-r", &source, "-o", "index.db"]);
        kit.env.show(command.arg("-k").arg(kit.api.kubeconfig()).output().expect("opm runs"))
    };
    let shown = load("token");
    assert!(shown.starts_with("exit 0"), "{shown}");
    let shown = load("other");
    assert!(shown.starts_with("exit 1") && shown.contains("no text under the key \"token\""), "{shown}");
    let shown = load("missing");
    assert!(shown.starts_with("exit 1") && shown.contains("secrets \"missing\" not found"), "{shown}");
}
