//! The real OLM on a real API server: its unmodified programs, with Kubernetes' controllers.
//!
//! Only nodes are missing; a [`Node`] simulates one.

mod node;
mod proxy;
mod v1;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::Client;
use serde_json::{Value, json};

use crate::certificates::issue_certificate;
use crate::free_port;
use crate::kube_api::{KubeApi, Process, ServerProgram, cache, create, join, join_with, start_program};
use crate::needs::{missing, skipped};
use proxy::Proxy;

pub use node::Node;
pub use v1::{OlmV1, Response, plain_client, post, request};

/// OLM's namespace, whose catalogs are global.
pub const OLM_NAMESPACE: &str = "olm";
/// The variable with the directory of the archives for `cargo xtask kube`.
const SOURCE: &str = "OPM_CLUSTER_DIR";
/// The files that OLM v0 needs.
const NEEDED: [&str; 4] =
    ["bin/kube-controller-manager", "bin/catalog-operator", "bin/olm-operator", "crds/olm-v0.yaml"];
/// How long programs may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// An API server with Kubernetes' controllers, OLM's catalog operator and OLM's operator.
#[derive(Debug)]
pub struct Olm {
    /// The API server.
    pub api: KubeApi,
    /// The proxy to the cluster's services, if OLM is not shared.
    proxy: Option<Proxy>,
    _programs: Vec<Process>,
}

impl Olm {
    /// Returns the shared cluster, which the first test starts; `None` if its programs are missing, which is a
    /// failure in CI if they should exist.
    ///
    /// Each test works in its own namespace. Service names do not resolve: catalogs need addresses.
    pub fn shared() -> Option<Olm> {
        are_available(&NEEDED).then(|| Olm { api: join(ServerProgram::Olm), proxy: None, _programs: Vec::new() })
    }

    /// Starts an exclusive cluster with OLM's package server, in which service names resolve to the pods that nodes
    /// run; `None` if its programs are missing.
    pub fn start() -> Option<Olm> {
        if !are_available(&NEEDED) {
            return None;
        }
        let proxy = Proxy::start();
        let api = KubeApi::start_with(&[server_flags]);
        api.block_on(install);
        let directory = api.directory().to_path_buf();
        let mut started = Vec::new();
        for (name, mut words) in programs(&directory, &api.kubeconfig()) {
            // The words after `env` and its directory are variables, up to the program.
            words
                .splice(2..2, [format!("GRPC_PROXY=socks5://127.0.0.1:{}", proxy.port()), "NO_PROXY=127.0.0.1".into()]);
            started.push(Process::start(&words, &directory.join(format!("{name}.log"))));
        }
        let olm = Olm { api, proxy: Some(proxy), _programs: started };
        Some(olm.with_package_server())
    }

    /// Starts a node for the pods of a namespace; `program` replaces `opm` in images.
    pub async fn node(&self, namespace: &str, program: &Path) -> Node {
        Node::start(&self.api, namespace, program, self.proxy.clone()).await
    }

    /// Returns the shared cluster with OLM's package server; the first test that needs it starts it.
    pub fn shared_with_packages() -> Option<Olm> {
        if !are_available(&NEEDED) || !are_available(&["bin/package-server"]) {
            return None;
        }
        let api = join_with(ServerProgram::Olm, |api| {
            let started = api.directory().join("packages");
            if !started.exists() {
                let (port, words) = package_server(api, None);
                start_program(api, "package-server", &words);
                register_api(api, port);
                std::fs::write(started, port.to_string()).expect("the port is written");
            }
        });
        Some(Olm { api, proxy: None, _programs: Vec::new() })
    }

    /// Starts the package server and registers its API.
    fn with_package_server(mut self) -> Olm {
        let (port, words) = package_server(&self.api, self.proxy.as_ref());
        let log = self.api.directory().join("package-server.log");
        self._programs.push(Process::start(&words, &log));
        register_api(&self.api, port);
        self
    }
}

/// Returns the port and the command line of the package server.
fn package_server(api: &KubeApi, proxy: Option<&Proxy>) -> (u16, Vec<String>) {
    let directory = api.directory();
    let token = api.block_on(|client| async move {
        let token = token(&client, OLM_NAMESPACE, "packages").await;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "packages"},
            "subjects": [{"kind": "ServiceAccount", "name": "packages", "namespace": OLM_NAMESPACE}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"},
        });
        create(&client, "", &binding).await;
        token
    });
    std::fs::write(directory.join("packages.token"), token).expect("the token is written");
    issue_certificate(directory, "packages", "/CN=packages", "serverAuth");
    let (port, kubeconfig) = (free_port(), api.kubeconfig().display().to_string());
    let file = |name: &str| directory.join(name).display().to_string();
    // The package server checks permissions with the in-cluster configuration, whatever its flags are.
    let mut words = in_a_pod(api, "packages.token");
    if let Some(proxy) = proxy {
        words.extend([format!("GRPC_PROXY=socks5://127.0.0.1:{}", proxy.port()), "NO_PROXY=127.0.0.1".to_owned()]);
    }
    words.extend([
        program("package-server").display().to_string(),
        format!("--secure-port={port}"),
        // Retry soon if a catalog does not respond immediately on a busy machine.
        "--interval=5s".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--global-namespace={OLM_NAMESPACE}"),
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--tls-cert-file={}", file("packages.crt")),
        format!("--tls-private-key-file={}", file("packages.key")),
    ]);
    (port, words)
}

/// Registers the API of the package server, and waits until it is available.
fn register_api(api: &KubeApi, port: u16) {
    api.block_on(move |client| async move {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "packageserver"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        });
        create(&client, OLM_NAMESPACE, &service).await;
        let api = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1.packages.operators.coreos.com"},
            "spec": {
                "group": "packages.operators.coreos.com", "version": "v1", "insecureSkipTLSVerify": true,
                "groupPriorityMinimum": 2000, "versionPriority": 15,
                "service": {"name": "packageserver", "namespace": OLM_NAMESPACE, "port": port},
            },
        });
        create(&client, "", &api).await;
        wait_for(&client, "/apis/packages.operators.coreos.com/v1/namespaces/olm/packagemanifests").await;
    });
}

/// Executes a program with the token of a service account and the certificate of the API server at their in-pod
/// paths. `$1` and `$2` are their files.
const IN_A_POD: &str = r#"
set -e
run=$(readlink -f /var/run)
token=$(cat "$1")
authority=$(cat "$2")
shift 2
mount -t tmpfs none "$run"
here="$run/secrets/kubernetes.io/serviceaccount"
mkdir -p "$here"
printf %s "$token" >"$here/token"
printf '%s\n' "$authority" >"$here/ca.crt"
exec "$@"
"#;

/// Returns the command line prefix that runs a program as if in a pod; variables and the program follow.
fn in_a_pod(api: &KubeApi, token: &str) -> Vec<String> {
    let directory = api.directory();
    let mut words: Vec<String> =
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", IN_A_POD, "sh"].map(str::to_owned).into();
    words.extend([token, "ca.crt"].map(|name| directory.join(name).display().to_string()));
    words.extend(["env".into(), format!("--chdir={}", directory.display())]);
    words.push("KUBERNETES_SERVICE_HOST=127.0.0.1".into());
    words.push(format!("KUBERNETES_SERVICE_PORT={}", api.url().rsplit(':').next().unwrap_or_default()));
    words
}

/// Creates a service account, and returns a token for it.
async fn token(client: &Client, namespace: &str, name: &str) -> String {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    create(client, namespace, &account).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&request).expect("JSON"))
        .expect("request");
    let created: Value = client.request(request).await.expect("a token");
    created["status"]["token"].as_str().expect("a token").to_owned()
}

/// Waits until an API path can be read.
async fn wait_for(client: &Client, path: &str) {
    let start = Instant::now();
    loop {
        let request = http::Request::get(path).body(Vec::new()).expect("request");
        match client.request::<Value>(request).await {
            Ok(_) => return,
            Err(error) => assert!(start.elapsed() < START_TIMEOUT, "{path}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn unpacked() -> PathBuf {
    cache().join("cluster")
}

fn program(name: &str) -> PathBuf {
    unpacked().join("bin").join(name)
}

/// Returns whether all required files exist; otherwise reports the test as skipped.
fn are_available(needed: &[&str]) -> bool {
    let Some(lacking) = needed.iter().map(|name| unpacked().join(name)).find(|file| !file.is_file()) else {
        return true;
    };
    let meant = std::env::var_os(SOURCE).is_some_and(|directory| !directory.is_empty());
    let why = format!("there is no OLM to test with: {} is missing", lacking.display());
    match meant {
        true => missing(&format!("{why}; run `cargo xtask kube`")),
        false => skipped(&format!("{why}; set {SOURCE} and run `cargo xtask kube`")),
    }
    false
}

/// Returns the flags that an API server needs for API aggregation.
pub(crate) fn server_flags(directory: &Path) -> Vec<String> {
    issue_certificate(directory, "front", "/CN=front", "clientAuth");
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        format!("--requestheader-client-ca-file={}", file("ca.crt")),
        "--requestheader-allowed-names=front".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        format!("--proxy-client-cert-file={}", file("front.crt")),
        format!("--proxy-client-key-file={}", file("front.key")),
    ]
}

/// Creates OLM's CRDs and its namespace.
pub(crate) async fn install(client: Client) {
    let text = std::fs::read_to_string(unpacked().join("crds/olm-v0.yaml")).expect("the kinds of OLM");
    define(&client, &text).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OLM_NAMESPACE}});
    create(&client, "", &namespace).await;
}

/// Creates CRDs from YAML documents, and waits until they are established.
pub(crate) async fn define(client: &Client, text: &str) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut names = Vec::new();
    for document in text.split("\n---\n").map(|text| text.trim_start_matches("---\n")) {
        if document.trim().is_empty() {
            continue;
        }
        let request = http::Request::post(definitions).header("content-type", "application/yaml");
        let request = request.body(document.as_bytes().to_vec()).expect("request");
        let created: Value = client.request(request).await.expect("the kind is defined");
        names.push(created["metadata"]["name"].as_str().expect("a name").to_owned());
    }
    let start = Instant::now();
    for name in names {
        let established = |crd: &Value| {
            let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
            conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
        };
        loop {
            let request = http::Request::get(format!("{definitions}/{name}")).body(Vec::new()).expect("request");
            let current: Value = client.request(request).await.expect("the kind exists");
            if established(&current) {
                break;
            }
            assert!(start.elapsed() < START_TIMEOUT, "{name} is not established");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Returns the programs that run with the API server: names and command lines.
pub(crate) fn programs(directory: &Path, kubeconfig: &Path) -> Vec<(String, Vec<String>)> {
    let start = |name: &str, more: &[&str]| {
        let mut words = vec![
            "env".to_owned(),
            format!("--chdir={}", directory.display()),
            format!("KUBECONFIG={}", kubeconfig.display()),
            format!("OPERATOR_NAMESPACE={OLM_NAMESPACE}"),
            program(name).display().to_string(),
        ];
        words.extend(more.iter().map(|word| (*word).to_owned()));
        (name.to_owned(), words)
    };
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let key = format!("--service-account-private-key-file={}", directory.join("accounts.key").display());
    vec![
        start(
            "kube-controller-manager",
            &[
                &kubeconfig,
                &key,
                "--use-service-account-credentials=false",
                "--bind-address=127.0.0.1",
                "--secure-port=0",
                "--leader-elect=false",
            ],
        ),
        start("catalog-operator", &["--namespace", OLM_NAMESPACE, &kubeconfig, "--writeStatusName="]),
        start("olm-operator", &["--namespace", OLM_NAMESPACE, "--writeStatusName=", "--writePackageServerStatusName="]),
    ]
}
