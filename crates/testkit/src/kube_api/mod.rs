//! A real Kubernetes API server without nodes and controllers, for tests.

mod crds;
mod openshift;
mod process;
mod shared;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::ApiResource;
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::{create_authority, issue_certificate, openssl};
use crate::free_port;

pub(crate) use process::{Process, log_end};
pub(crate) use shared::{ServerProgram, join, join_with, start_program};

pub use crds::OLM_CRDS;
pub use openshift::mirror_set_crds;
pub use trial::Trial;

/// The API servers that `cargo xtask kube` may have cached; the first existing one is used.
const PROGRAMS: [&str; 2] = ["cluster/bin/kube-apiserver", "kube-apiserver-1.20.2"];
/// How long the API server may take to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// A Kubernetes API server with its etcd on free local ports, with RBAC and OLM's kinds.
///
/// Objects are stored and validated, but nothing acts on them: there is no controller and no node. A server started
/// with [`KubeApi::start`] stops on drop or with the process; the shared one stops 15 seconds after the last process
/// that uses it.
#[derive(Debug)]
pub struct KubeApi {
    directory: PathBuf,
    port: u16,
    exclusive: Option<Exclusive>,
}

/// The state of a server that is not shared.
#[derive(Debug)]
struct Exclusive {
    _directory: TempDir,
    _etcd: Process,
    server: Option<Process>,
    etcd_port: u16,
    flags: Vec<String>,
}

/// A user of the API server.
#[derive(Debug, Clone)]
pub struct User {
    /// The kubeconfig of the user.
    pub kubeconfig: PathBuf,
}

impl KubeApi {
    /// Returns the server that tests share; the first test starts it.
    ///
    /// Each test works in its own namespace; cluster-scoped objects need unique names.
    pub fn shared() -> KubeApi {
        join(ServerProgram::Plain)
    }

    /// Starts a server for exclusive use.
    pub fn start() -> KubeApi {
        let api = KubeApi::start_with(&[]);
        api.block_on(crds::apply);
        api
    }

    /// Starts an exclusive server with additional flags and without OLM's kinds.
    pub(crate) fn start_with(flags: &[fn(&Path) -> Vec<String>]) -> KubeApi {
        let scratch = tempfile::tempdir().expect("scratch directory");
        let directory = scratch.path().to_path_buf();
        prepare(&directory);
        let etcd_port = free_port();
        let etcd = Process::start(&etcd_command(&directory, etcd_port), &directory.join("etcd.log"));
        let flags = flags.iter().flat_map(|flags| flags(&directory)).collect();
        let exclusive = Exclusive { _directory: scratch, _etcd: etcd, server: None, etcd_port, flags };
        let mut api = KubeApi { directory, port: free_port(), exclusive: Some(exclusive) };
        api.write_kubeconfig("admin");
        api.start_server();
        api
    }

    /// Kills the API server; its objects stay. Only for a server that is not shared.
    pub fn stop_server(&mut self) {
        self.exclusive.as_mut().expect("an exclusive server").server = None;
    }

    /// Restarts the API server at the same address, and waits until it is ready.
    pub fn start_server(&mut self) {
        let exclusive = self.exclusive.as_mut().expect("an exclusive server");
        let mut command = server_command(&self.directory, exclusive.etcd_port, self.port);
        command.extend(exclusive.flags.iter().cloned());
        exclusive.server = Some(Process::start(&command, &self.directory.join("server.log")));
        self.wait_until_ready();
    }

    /// Returns the directory of the server.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Returns the kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.kubeconfig")
    }

    /// Returns a client with administrator permissions.
    pub async fn client(&self) -> Client {
        client(&self.kubeconfig()).await
    }

    /// Creates a namespace with a unique name, and returns it.
    pub async fn namespace(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{count}", std::process::id());
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(&self.client().await, "", &object).await;
        name
    }

    /// Creates a user of these groups, without permissions until a role is bound.
    ///
    /// A service account is the user `system:serviceaccount:NAMESPACE:NAME`.
    pub fn user(&self, name: &str, groups: &[&str]) -> User {
        let file: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let groups: String = groups.iter().map(|group| format!("/O={group}")).collect();
        issue_certificate(&self.directory, &file, &format!("{groups}/CN={name}"), "clientAuth");
        User { kubeconfig: self.write_kubeconfig(&file) }
    }

    /// Creates a user with the permissions of a Role in a namespace, and no others.
    pub async fn user_with_role(&self, name: &str, namespace: &str, rules: Value) -> User {
        let user = self.user(name, &[]);
        let client = self.client().await;
        let metadata = json!({"name": name, "namespace": namespace});
        let version = "rbac.authorization.k8s.io/v1";
        let role = json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": &rules});
        create(&client, namespace, &role).await;
        let binding = json!({
            "apiVersion": version,
            "kind": "RoleBinding",
            "metadata": metadata,
            "subjects": [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "Role", "name": name, "apiGroup": "rbac.authorization.k8s.io"},
        });
        create(&client, namespace, &binding).await;
        self.wait_until_allowed(name, namespace, &rules[0]).await;
        user
    }

    /// Waits until the server grants a user the first permission of a rule.
    pub async fn wait_until_allowed(&self, user: &str, namespace: &str, rule: &Value) {
        let client = self.client().await;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": {
                "namespace": namespace,
                "group": rule["apiGroups"][0],
                "resource": rule["resources"][0],
                "verb": rule["verbs"][0],
                "name": rule["resourceNames"][0],
            }},
        });
        let start = Instant::now();
        while create(&client, "", &review).await.data["status"]["allowed"] != true {
            assert!(start.elapsed() < START_TIMEOUT, "{user} lacks the permissions of {rule}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn write_kubeconfig(&self, user: &str) -> PathBuf {
        let file = |name: String| self.directory.join(name);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {
                "server": self.url(),
                "certificate-authority": file("ca.crt".into()),
            }}],
            "users": [{"name": user, "user": {
                "client-certificate": file(format!("{user}.crt")),
                "client-key": file(format!("{user}.key")),
            }}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        });
        let path = file(format!("{user}.kubeconfig"));
        fs::write(&path, config.to_string()).expect("kubeconfig");
        path
    }

    fn wait_until_ready(&self) {
        let start = Instant::now();
        while !self.block_on(is_ready) {
            let log = log_end(&self.directory.join("server.log"));
            let etcd = log_end(&self.directory.join("etcd.log"));
            assert!(start.elapsed() < START_TIMEOUT, "the API server does not become ready:\n{log}\netcd:\n{etcd}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a future with a client on another thread.
    pub(crate) fn block_on<T: Send, F: Future<Output = T>>(&self, work: impl FnOnce(Client) -> F + Send) -> T {
        let kubeconfig = self.kubeconfig();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            runtime.block_on(async { work(client(&kubeconfig).await).await })
        };
        // The caller may be inside a runtime.
        std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"))
    }
}

/// Creates an object of any kind; namespaced ones need a namespace.
pub(crate) async fn create(client: &Client, namespace: &str, object: &Value) -> DynamicObject {
    let object: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    let types = object.types.clone().expect("a kind");
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: types.api_version.clone(),
        plural: format!("{}s", types.kind.to_lowercase()),
        kind: types.kind,
    };
    let objects: Api<DynamicObject> = match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    objects.create(&PostParams::default(), &object).await.expect("created")
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("config");
    Client::try_from(config).expect("client")
}

async fn is_ready(client: Client) -> bool {
    let request = http::Request::get("/readyz").body(Vec::new()).expect("request");
    client.request_text(request).await.is_ok_and(|body| body == "ok")
}

/// Creates the certificates and keys of a server.
fn prepare(directory: &Path) {
    create_authority(directory);
    issue_certificate(directory, "server", "/CN=server", "serverAuth");
    issue_certificate(directory, "admin", "/O=system:masters/CN=admin", "clientAuth");
    openssl(directory, &["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "accounts.key"]);
}

fn etcd_command(directory: &Path, port: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{port}");
    vec![
        "etcd".into(),
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls=http://127.0.0.1:{}", free_port()),
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ]
}

fn server_command(directory: &Path, etcd_port: u16, port: u16) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        program().display().to_string(),
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".into(),
        // The server rejects the loopback address; no client connects to this one.
        "--advertise-address=192.0.2.1".into(),
        "--endpoint-reconciler-type=none".into(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        "--authorization-mode=RBAC".into(),
        // No controller creates the accounts that this plugin requires.
        "--disable-admission-plugins=ServiceAccount".into(),
        "--service-cluster-ip-range=10.0.0.0/16".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file("accounts.key")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        "--enable-priority-and-fairness=false".into(),
    ]
}

/// Returns the cache directory of `cargo xtask kube`.
pub(crate) fn cache() -> PathBuf {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given("OPM_TEST_CACHE")
        .or_else(|| given("XDG_CACHE_HOME").map(|cache| cache.join("opm-tests")))
        .or_else(|| given("HOME").map(|home| home.join(".cache/opm-tests")))
        .unwrap_or_default()
}

/// Returns the API server that `cargo xtask kube` cached.
fn program() -> PathBuf {
    let cache = cache();
    let program = PROGRAMS.map(|name| cache.join(name)).into_iter().find(|program| program.is_file());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let etcd = std::env::split_paths(&path).any(|directory| directory.join("etcd").is_file());
    program
        .filter(|_| etcd)
        .expect("no API server is installed: run `cargo xtask kube`, which installs etcd and builds kube-apiserver")
}
