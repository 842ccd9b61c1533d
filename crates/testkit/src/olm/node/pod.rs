//! The lifecycle of one pod.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::Inner;
use super::container::{Container, PORT};
use super::image::{self, Image};
use super::status::{Report, RunState, report};
use crate::free_port;
use crate::kube_api::{Process, log_end};

/// How often processes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The delay before a container restarts.
const BACK_OFF: Duration = Duration::from_secs(2);

/// A running pod.
struct RunningPod<'a> {
    node: &'a Arc<Inner>,
    pod: &'a Value,
    directory: PathBuf,
    port: u16,
    kubeconfig: PathBuf,
    init: Vec<Report>,
    main: Vec<Report>,
    ip: String,
}

/// Runs a pod until it ends or is deleted.
pub(super) async fn run(node: &Arc<Inner>, pod: &Value) {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let directory = node.scratch.path().join(&uid);
    let mut running_pod = RunningPod {
        node,
        pod,
        kubeconfig: directory.join("account/kubeconfig"),
        directory,
        port: free_port(),
        init: Vec::new(),
        main: Vec::new(),
        ip: String::new(),
    };
    std::fs::create_dir_all(running_pod.directory.join("account")).expect("a directory for a pod");
    if running_pod.is_registry() {
        let (listener, address) = listen().await;
        running_pod.ip = address.ip().to_string();
        running_pod.serve(&uid, listener, address).await;
    } else if pod["metadata"]["labels"].get("operatorframework.io/bundle-unpack-ref").is_some() {
        running_pod.finish().await;
    } else {
        running_pod.pretend().await;
    }
}

/// Listens on the port of registries, on a loopback address that no other pod uses.
async fn listen() -> (TcpListener, SocketAddr) {
    use std::hash::{BuildHasher, Hasher};
    loop {
        let bytes = std::hash::RandomState::new().build_hasher().finish().to_le_bytes();
        let ip = [127, bytes[0].max(1), bytes[1], bytes[2].clamp(1, 254)];
        if let Ok(listener) = TcpListener::bind((std::net::Ipv4Addr::from(ip), PORT)).await {
            let address = listener.local_addr().expect("its address");
            return (listener, address);
        }
    }
}

impl RunningPod<'_> {
    fn containers(&self, key: &str) -> Vec<Value> {
        self.pod["spec"][key].as_array().cloned().unwrap_or_default()
    }

    fn is_registry(&self) -> bool {
        let names = ["registry-grpc", "registry-server"];
        self.containers("containers").iter().any(|one| names.iter().any(|name| one["name"] == *name))
    }

    async fn report(&self, phase: &str) {
        report(self.node, self.pod, phase, &self.ip, &self.init, &self.main).await;
    }

    /// Pulls the image of a container with retries; `None` if it is not local.
    async fn pull(&mut self, spec: &Value, is_init: bool) -> Option<Image> {
        let reference = spec["image"].as_str().unwrap_or_default().to_owned();
        if !image::is_local(&reference) {
            return None;
        }
        let mut directory = self.directory.join("images").join(reference.replace(['/', ':', '@'], "-"));
        loop {
            let (program, name, to) = (self.node.program.clone(), reference.clone(), directory.clone());
            let settings = self.node.registries.get().cloned();
            let pulling = move || image::pull(&program, settings.as_deref(), &name, &to);
            let pulled = tokio::task::spawn_blocking(pulling).await;
            match pulled.expect("no panic") {
                Ok(image) => return Some(image),
                Err(error) => {
                    directory.set_extension("again");
                    self.set_state(spec, "", RunState::Waiting("ImagePullBackOff", error), is_init);
                    self.report("Pending").await;
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }

    fn set_state(&mut self, spec: &Value, image_id: &str, state: RunState, is_init: bool) {
        let text = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
        let reports = if is_init { &mut self.init } else { &mut self.main };
        let name = text("name");
        let old = reports.iter().position(|report| report.name == name).map(|at| reports.remove(at));
        let (restarts, before) = old.map_or((0, None), |old| (old.restarts, old.before));
        let image_id =
            if image_id.is_empty() { format!("{}@sha256:{:064x}", text("image"), 0) } else { image_id.into() };
        let image_id = if matches!(state, RunState::Waiting("ImagePullBackOff", _)) { String::new() } else { image_id };
        reports.push(Report { name, image: text("image"), image_id, restarts, state, before });
    }

    /// Writes the volumes of the pod.
    async fn volumes(&self) {
        for volume in self.containers("volumes") {
            let directory = self.directory.join("volumes").join(volume["name"].as_str().unwrap_or_default());
            std::fs::create_dir_all(&directory).expect("a volume");
            let Some(name) = volume["configMap"]["name"].as_str() else { continue };
            let Ok(map) = self.node.api("ConfigMap", "configmaps").get(name).await else { continue };
            for item in volume["configMap"]["items"].as_array().into_iter().flatten() {
                let text = |key: &str| item[key].as_str().unwrap_or_default();
                let file = directory.join(text("path"));
                std::fs::create_dir_all(file.parent().unwrap_or(&directory)).expect("a directory of a volume");
                if let Some(content) = map.data["binaryData"][text("key")].as_str() {
                    std::fs::write(&file, decode(content)).expect("a file of a volume");
                } else if let Some(content) = map.data["data"][text("key")].as_str() {
                    std::fs::write(&file, content).expect("a file of a volume");
                }
            }
        }
    }

    /// Writes a kubeconfig for the service account of the pod, with exactly its permissions.
    async fn account(&self) {
        let account = self.pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let accounts = self.node.api("ServiceAccount", "serviceaccounts");
        let how = kube::api::PostParams::default();
        // A controller creates the default account shortly after the namespace.
        let token = loop {
            match accounts.create_subresource::<_, Value>("token", account, &how, &request).await {
                Ok(created) => break created["status"]["token"].clone(),
                Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        };
        let (server, certificates) = &self.node.server;
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "pod",
            "clusters": [{"name": "pod", "cluster": {
                "server": server, "certificate-authority": certificates.join("ca.crt"),
            }}],
            "users": [{"name": "pod", "user": {"token": token}}],
            "contexts": [{"name": "pod", "context": {
                "cluster": "pod", "user": "pod", "namespace": self.node.namespace,
            }}],
        });
        std::fs::write(&self.kubeconfig, config.to_string()).expect("kubeconfig");
    }

    fn start(&self, spec: &Value, image: Option<&Image>) -> Result<(Process, PathBuf), String> {
        let container = Container {
            spec,
            image,
            directory: &self.directory,
            program: &self.node.program,
            port: self.port,
            kubeconfig: &self.kubeconfig,
            certificates: &self.node.server.1,
        };
        Ok((container.start()?, container.log()))
    }

    /// Runs a container to its end; returns its exit code and its last output.
    async fn run_to_end(&self, spec: &Value, image: Option<&Image>) -> (i32, String) {
        // OLM copies this program into the bundle's image to extract the bundle.
        let command = spec["command"][0].as_str().unwrap_or_default();
        if command.ends_with("/cp") || command == "cp" {
            return (0, String::new());
        }
        if let (Some(image), true) = (image, command.ends_with("/cpb")) {
            return copy_bundle(image, spec, &self.directory);
        }
        if let (Some(image), true) = (image, command.ends_with("/copy-content")) {
            return copy_content(image, spec, &self.directory);
        }
        let (mut process, log) = match self.start(spec, image) {
            Ok(started) => started,
            Err(error) => return (128, error),
        };
        loop {
            if let Some(code) = process.exit_code() {
                return (code, log_end(&log));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Runs the init containers; returns whether all succeeded.
    async fn prepare(&mut self) -> bool {
        self.account().await;
        self.volumes().await;
        for spec in self.containers("initContainers") {
            loop {
                let image = self.pull(&spec, true).await;
                let (code, message) = self.run_to_end(&spec, image.as_ref()).await;
                let id = image.map(|image| image.id).unwrap_or_default();
                self.set_state(&spec, &id, RunState::Ended(code, message), true);
                if code == 0 {
                    break;
                }
                if self.pod["spec"]["restartPolicy"] == "Never" {
                    return false;
                }
                self.report("Pending").await;
                tokio::time::sleep(BACK_OFF).await;
            }
        }
        true
    }

    /// Runs a pod to completion, like those of jobs.
    async fn finish(&mut self) {
        self.report("Pending").await;
        let mut code = i32::from(!self.prepare().await);
        for spec in self.containers("containers") {
            if code != 0 {
                break;
            }
            let image = self.pull(&spec, false).await;
            let ended = self.run_to_end(&spec, image.as_ref()).await;
            code = ended.0;
            let id = image.map(|image| image.id).unwrap_or_default();
            self.set_state(&spec, &id, RunState::Ended(ended.0, ended.1), false);
        }
        self.report(if code == 0 { "Succeeded" } else { "Failed" }).await;
    }

    /// Runs a serving pod, and restarts its containers when they end.
    async fn serve(&mut self, uid: &str, listener: TcpListener, address: SocketAddr) {
        self.report("Pending").await;
        self.prepare().await;
        let port = self.port;
        let mut relays = JoinSet::new();
        relays.spawn(async move {
            let mut streams = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                streams.spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        self.node.record_address(uid, address);
        let spec = self.containers("containers").remove(0);
        let image = self.pull(&spec, false).await;
        let id = image.as_ref().map(|image| image.id.clone()).unwrap_or_default();
        loop {
            let (code, message) = match self.start(&spec, image.as_ref()) {
                Err(error) => (128, error),
                Ok((mut process, log)) => self.watch_process(&spec, &id, &mut process, &log).await,
            };
            self.set_state(
                &spec,
                &id,
                RunState::Waiting("CrashLoopBackOff", "back-off restarting failed container".into()),
                false,
            );
            if let Some(report) = self.main.last_mut() {
                report.restarts += 1;
                report.before = Some((code, message));
            }
            self.report("Running").await;
            tokio::time::sleep(BACK_OFF).await;
        }
    }

    /// Reports a container while its process runs; returns its outcome.
    async fn watch_process(&mut self, spec: &Value, id: &str, process: &mut Process, log: &Path) -> (i32, String) {
        let probed = spec.get("readinessProbe").is_some();
        // A container that ends immediately is never reported as running.
        tokio::time::sleep(POLL_INTERVAL).await;
        let mut ready = false;
        let mut shown = false;
        loop {
            if let Some(code) = process.exit_code() {
                return (code, log_end(log));
            }
            let now = if probed { self.probe().await } else { true };
            if !shown || now != ready {
                (shown, ready) = (true, now);
                self.set_state(spec, id, RunState::Running(now), false);
                self.report("Running").await;
            }
            tokio::time::sleep(if probed && ready { POLL_INTERVAL * 10 } else { POLL_INTERVAL * 2 }).await;
        }
    }

    /// Runs the health probe of the registry, like the probe of its pod.
    async fn probe(&self) -> bool {
        let probe = self.directory.join("grpc_health_probe");
        let _ = std::os::unix::fs::symlink(&self.node.program, &probe);
        let address = format!("-addr=127.0.0.1:{}", self.port);
        let probed = tokio::task::spawn_blocking(move || Command::new(probe).arg(address).output()).await;
        probed.is_ok_and(|output| output.is_ok_and(|output| output.status.success()))
    }

    /// Reports a pod as running without starting its containers, once their images are available.
    async fn pretend(&mut self) {
        for (key, is_init) in [("initContainers", true), ("containers", false)] {
            for spec in self.containers(key) {
                let id = self.pull(&spec, is_init).await.map(|image| image.id).unwrap_or_default();
                let state = if is_init { RunState::Ended(0, String::new()) } else { RunState::Running(true) };
                self.set_state(&spec, &id, state, is_init);
            }
        }
        self.ip = "127.0.0.1".into();
        self.report("Running").await;
        std::future::pending::<()>().await;
    }
}

/// Copies a bundle from its image to a volume, like OLM's program.
fn copy_bundle(image: &Image, spec: &Value, directory: &Path) -> (i32, String) {
    let mount = spec["volumeMounts"].as_array().and_then(|all| all.iter().find(|one| one["mountPath"] == "/bundle"));
    let volume = mount.and_then(|mount| mount["name"].as_str()).unwrap_or("bundle");
    match image.unpack(&directory.join("volumes").join(volume)) {
        Ok(()) => (0, String::new()),
        Err(error) => (1, error),
    }
}

/// Copies a catalog from its image to a volume, like OLM's program, which fails on a missing directory.
fn copy_content(image: &Image, spec: &Value, directory: &Path) -> (i32, String) {
    let words = spec["args"].as_array().cloned().unwrap_or_default();
    let word = |name: &str| words.iter().find_map(|word| word.as_str()?.strip_prefix(name)).unwrap_or_default();
    let (from, to) = (word("--catalog.from="), word("--catalog.to="));
    let (root, volume) = (directory.join("extracted"), directory.join("volumes/catalog-content"));
    let Some(to) = to.strip_prefix("/extracted-catalog/") else { return (1, format!("unexpected target {to:?}")) };
    if let Err(error) = image.unpack(&root) {
        return (1, error);
    }
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(root.join(from.trim_start_matches('/'))).arg(volume.join(to));
    match copy.output() {
        Ok(output) if output.status.success() => (0, String::new()),
        Ok(output) => (1, String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => (1, error.to_string()),
    }
}

/// Decodes base64 from the API server.
pub(in crate::olm) fn decode(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(value).map(u32::from).collect();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for group in digits.chunks(4) {
        let number = group.iter().fold(0, |number, digit| number << 6 | digit) << (6 * (4 - group.len()));
        bytes.extend_from_slice(&number.to_be_bytes()[1..group.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn base64_is_decoded() {
        let read = |text: &str| String::from_utf8(decode(text)).unwrap();
        assert_eq!(
            [read(""), read("YQ=="), read("YWI="), read("YWJj"), read("YWJjZA==")],
            ["", "a", "ab", "abc", "abcd"]
        );
    }
}
