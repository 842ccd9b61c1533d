//! A simulated node: pods of registries and of unpack jobs run as local processes; all others are only reported as
//! running.
//!
//! Images of local registries are pulled, and their files become the container's root. Other images are not
//! available: their containers use the programs of this machine. In both cases, `opm` is the program under test.

mod container;
mod image;
mod pod;
mod status;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kube::api::{Api, DynamicObject};
use kube::discovery::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;

use super::proxy::Proxy;
use crate::kube_api::KubeApi;
pub(super) use pod::decode;

/// A node that runs the pods of one namespace until it is dropped.
pub struct Node {
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

/// The shared state of a node's pods.
struct Inner {
    client: Client,
    namespace: String,
    program: PathBuf,
    /// The `registries.conf` for pulls.
    registries: OnceLock<PathBuf>,
    scratch: TempDir,
    /// The API server as service accounts reach it: URL and certificate directory.
    server: (String, PathBuf),
    proxy: Option<Proxy>,
    /// Running pods by uid: their task and their address.
    pods: Mutex<HashMap<String, Running>>,
}

#[derive(Debug)]
struct Running {
    name: String,
    task: JoinHandle<()>,
    address: Option<SocketAddr>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

impl Node {
    /// Sets the `registries.conf` for pulls from now on.
    ///
    /// # Panics
    /// Panics if it was set before.
    pub fn set_registries_conf(&self, settings: PathBuf) {
        self.inner.registries.set(settings).expect("registries.conf is set once");
    }

    pub(super) async fn start(api: &KubeApi, namespace: &str, program: &Path, proxy: Option<Proxy>) -> Node {
        let inner = Arc::new(Inner {
            client: api.client().await,
            namespace: namespace.to_owned(),
            program: program.to_path_buf(),
            registries: OnceLock::new(),
            scratch: tempfile::tempdir().expect("scratch directory"),
            server: (api.url(), api.directory().to_path_buf()),
            proxy,
            pods: Mutex::default(),
        });
        let runs = inner.clone();
        let task = tokio::spawn(async move {
            loop {
                runs.clone().follow().await;
                // The API server may be unreachable temporarily.
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            }
        });
        Node { inner, task }
    }

    /// Returns the address of a running pod, if it listens.
    pub fn address(&self, pod: &str) -> Option<SocketAddr> {
        self.inner.running().values().find(|running| running.name == pod)?.address
    }

    /// Returns the output of a pod's containers.
    pub fn log(&self, uid: &str) -> String {
        let logs = std::fs::read_dir(self.inner.scratch.path().join(uid)).into_iter().flatten().flatten();
        let logs = logs.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "log"));
        logs.filter_map(|log| std::fs::read_to_string(log).ok()).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
        self.inner.running().clear();
    }
}

impl Inner {
    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<String, Running>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource(kind, plural))
    }

    /// Starts and stops pods as they are created and deleted, until the watch fails.
    async fn follow(self: Arc<Inner>) {
        let mut events = pin!(watcher::watcher(self.api("Pod", "pods"), watcher::Config::default()));
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => seen.clear(),
                Ok(Event::InitApply(pod)) => {
                    seen.extend(pod.uid());
                    self.apply(pod);
                }
                Ok(Event::InitDone) => self.running().retain(|uid, _| seen.contains(uid)),
                Ok(Event::Apply(pod)) => self.apply(pod),
                Ok(Event::Delete(pod)) => self.end(&pod),
                Err(_) => return,
            }
        }
    }

    fn apply(self: &Arc<Inner>, pod: DynamicObject) {
        let uid = pod.uid().unwrap_or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            return self.end(&pod);
        }
        self.route(&pod);
        let phase = pod.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
        let mut running = self.running();
        if running.contains_key(&uid) || matches!(phase, "Succeeded" | "Failed") {
            return;
        }
        let (node, name) = (self.clone(), pod.name_any());
        let value = serde_json::to_value(pod).expect("a pod");
        let task = tokio::spawn(async move { pod::run(&node, &value).await });
        running.insert(uid, Running { name, task, address: None });
    }

    /// Routes the service of a catalog to a ready pod with its label.
    fn route(&self, pod: &DynamicObject) {
        let Some(proxy) = &self.proxy else { return };
        let Some(catalog) = pod.labels().get("olm.catalogSource").filter(|name| !name.is_empty()) else { return };
        let conditions = pod.data.pointer("/status/conditions").and_then(Value::as_array);
        let ready =
            conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"));
        let address = self.running().get(&pod.uid().unwrap_or_default()).and_then(|running| running.address);
        if let Some(address) = address.filter(|_| ready) {
            proxy.route(&format!("{}.{}.svc:50051", catalog.replace('.', "-"), self.namespace), Some(address));
        }
    }

    fn end(&self, pod: &DynamicObject) {
        let uid = pod.uid().unwrap_or_default();
        let ended = self.running().remove(&uid);
        if let Some(ended) = ended {
            drop(ended);
            let _ = std::fs::remove_dir_all(self.scratch.path().join(&uid));
        }
    }

    /// Records the address of a pod.
    fn record_address(&self, uid: &str, address: SocketAddr) {
        if let Some(running) = self.running().get_mut(uid) {
            running.address = Some(address);
        }
    }
}
