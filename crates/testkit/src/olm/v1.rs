//! OLM v1: the unmodified catalogd and operator-controller, next to OLM v0.

use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use kube::{Client, Config};
use serde_json::{Value, json};

use super::{NEEDED, Olm, START_TIMEOUT, are_available, define, in_a_pod, program, token, unpacked};
use crate::certificates::issue_certificate;
use crate::free_port;
use crate::kube_api::{KubeApi, ServerProgram, create, join_with, log_end, start_program};

/// The namespace of both programs.
const NAMESPACE: &str = "olmv1-system";
/// The label by which a ClusterExtension selects a catalog; on clusters catalogd's webhook sets it.
const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";
/// How long catalogd may take to unpack an image.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The cluster of [`Olm::shared`] with catalogd and operator-controller.
///
/// ClusterCatalogs and ClusterExtensions are cluster-scoped: names must be unique, and a ClusterExtension must select
/// its catalogs, because it sees those of all tests.
#[derive(Debug)]
pub struct OlmV1 {
    /// The cluster.
    pub olm: Olm,
    port: u16,
}

impl OlmV1 {
    /// Returns the shared cluster; the first test starts the programs. `None` if programs are missing, which is a
    /// failure in CI if they should exist.
    pub fn shared() -> Option<OlmV1> {
        let more = ["bin/catalogd", "bin/operator-controller", "crds/olm-v1.yaml"];
        if !are_available(&NEEDED) || !are_available(&more) {
            return None;
        }
        let api = join_with(ServerProgram::Olm, |api| {
            if !api.directory().join("v1").exists() {
                start(api);
            }
        });
        let port = fs::read_to_string(api.directory().join("v1")).expect("the port of catalogd");
        let port = port.parse().expect("a port");
        Some(OlmV1 { olm: Olm { api, proxy: None, _programs: Vec::new() }, port })
    }

    /// Creates a ClusterCatalog with additional labels, waits until catalogd serves it, and returns it.
    pub async fn catalog(&self, name: &str, image: &str, spec: Value, labels: &[(&str, &str)]) -> Value {
        let mut all = json!({NAME_LABEL: name});
        all.as_object_mut().expect("labels").extend(labels.iter().map(|(key, value)| ((*key).into(), json!(value))));
        let mut object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
            "metadata": {"name": name, "labels": all},
            "spec": {"source": {"type": "Image", "image": {"ref": image}}},
        });
        object["spec"].as_object_mut().expect("a spec").extend(spec.as_object().expect("fields").clone());
        let client = self.olm.api.client().await;
        create(&client, "", &object).await;
        let path = format!("/apis/olm.operatorframework.io/v1/clustercatalogs/{name}");
        let start = Instant::now();
        loop {
            let request = http::Request::get(&path).body(Vec::new()).expect("request");
            let found: Value = client.request(request).await.expect("the catalog exists");
            let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|one| one["type"] == "Serving" && one["status"] == "True") {
                return found;
            }
            let log = || log_end(&self.olm.api.directory().join("later/catalogd.sh.log"));
            assert!(start.elapsed() < TIMEOUT, "catalogd does not serve {image}: {}\n{}", found["status"], log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns a client for catalogd's content: paths start with `/catalogs/`.
    pub fn catalogd(&self) -> Client {
        let address = format!("https://localhost:{}", self.port);
        let mut config = Config::new(address.parse().expect("an address"));
        let pem = fs::read_to_string(self.olm.api.directory().join("ca.crt")).expect("certificate");
        let lines = pem.lines().filter(|line| !line.starts_with("-----"));
        config.root_cert = Some(vec![super::node::decode(&lines.collect::<String>())]);
        Client::try_from(config).expect("client")
    }

    /// Returns the last log lines of a program: `catalogd` or `operator-controller`.
    pub fn log(&self, program: &str) -> String {
        log_end(&self.olm.api.directory().join(format!("later/{program}.sh.log")))
    }
}

/// The response of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub content_type: String,
    pub body: String,
}

/// Sends a request to a catalog server; returns any response.
pub async fn request(client: &Client, method: &str, path: &str) -> Response {
    send(client, method, path, "").await
}

/// Posts a body to a catalog server; returns any response.
pub async fn post(client: &Client, path: &str, body: &str) -> Response {
    send(client, "POST", path, body).await
}

async fn send(client: &Client, method: &str, path: &str, body: &str) -> Response {
    let request = http::Request::builder().method(method).uri(path).body(body.as_bytes().to_vec().into());
    let response = client.send(request.expect("request")).await.expect("a response");
    let (head, body) = response.into_parts();
    let content_type = head.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let body = body.collect_bytes().await.expect("a body");
    Response {
        status: head.status.as_u16(),
        content_type: content_type.to_owned(),
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

/// Returns a client for a catalog server without TLS.
pub fn plain_client(address: &str) -> Client {
    let config = Config::new(format!("http://{address}").parse().expect("an address"));
    Client::try_from(config).expect("client")
}

/// Creates the CRDs and starts the programs; writes catalogd's port to the file `v1`.
fn start(api: &KubeApi) {
    let directory = api.directory();
    let token = api.block_on(|client| async move {
        let text = fs::read_to_string(unpacked().join("crds/olm-v1.yaml")).expect("the kinds of OLM");
        define(&client, &text).await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        create(&client, "", &namespace).await;
        token(&client, NAMESPACE, "olm").await
    });
    fs::write(directory.join("token"), token).expect("the token is written");
    issue_certificate(directory, "catalogs", "/CN=catalogs", "serverAuth");
    let authorities = directory.join("authorities");
    fs::create_dir_all(&authorities).expect("a directory");
    fs::copy(directory.join("ca.crt"), authorities.join("ca.crt")).expect("the authority");
    // Local registries use HTTP; a host name covers all its ports.
    let containers = directory.join("home/.config/containers");
    fs::create_dir_all(&containers).expect("a directory");
    let registries = "[[registry]]\nlocation = \"127.0.0.1\"\ninsecure = true\n";
    fs::write(containers.join("registries.conf"), registries).expect("registries");
    fs::write(containers.join("policy.json"), r#"{"default": [{"type": "insecureAcceptAnything"}]}"#).expect("policy");
    let port = free_port();
    let mut health = Vec::new();
    for (name, words) in programs(api, port, &mut health) {
        start_program(api, name, &words);
    }
    health.push(port);
    let start = Instant::now();
    while !health.iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()) {
        let log = |name: &str| log_end(&directory.join(format!("later/{name}.sh.log")));
        let logs = || [log("catalogd"), log("operator-controller")].join("\n");
        assert!(start.elapsed() < START_TIMEOUT, "OLM v1 does not start:\n{}", logs());
        std::thread::sleep(Duration::from_millis(100));
    }
    fs::write(directory.join("v1"), port.to_string()).expect("the port is written");
}

/// Returns the names and command lines of both programs, and records their health ports.
fn programs(api: &KubeApi, port: u16, health: &mut Vec<u16>) -> [(&'static str, Vec<String>); 2] {
    let (directory, kubeconfig) = (api.directory(), api.kubeconfig());
    let file = |name: &str| directory.join(name).display().to_string();
    let mut start = |name: &str, more: Vec<String>| {
        let probe = free_port();
        health.push(probe);
        let mut words = in_a_pod(api, "token");
        words.extend([format!("HOME={}", file("home")), program(name).display().to_string()]);
        words.extend([
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--system-namespace={NAMESPACE}"),
            format!("--tls-cert={}", file("catalogs.crt")),
            format!("--tls-key={}", file("catalogs.key")),
            format!("--metrics-bind-address=127.0.0.1:{}", free_port()),
            format!("--health-probe-bind-address=127.0.0.1:{probe}"),
        ]);
        words.extend(more);
        words
    };
    let cache = |name: &str| {
        let cache = directory.join(name);
        fs::create_dir_all(&cache).expect("a directory");
        cache.display().to_string()
    };
    let catalogd = vec![
        format!("--catalogs-server-addr=127.0.0.1:{port}"),
        format!("--external-address=localhost:{port}"),
        format!("--webhook-server-port={}", free_port()),
        format!("--cache-dir={}", cache("catalogd-cache")),
        "--feature-gates=APIV1MetasHandler=true,GraphQLCatalogQueries=true".into(),
    ];
    let controller = vec![
        format!("--catalogd-cas-dir={}", file("authorities")),
        format!("--cache-path={}", cache("operator-controller-cache")),
    ];
    [("catalogd", start("catalogd", catalogd)), ("operator-controller", start("operator-controller", controller))]
}
