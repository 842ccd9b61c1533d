//! A replacement for the nodes of a cluster: it runs pods of catalogs.
//!
//! A pod start resolves its image in the registry, like on a node. Each pod is served by a real `opm serve` of that
//! image; pods of one image share it, and each has its own port, which closes when the pod ends.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::{ClusterObject, ResourceKind};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::discovery::ApiResource;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The interval at which pods are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// A node that runs all pods of a cluster.
pub(crate) struct Node {
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

struct Inner {
    client: kube::Client,
    scratch: PathBuf,
    /// Running pods, by name.
    running: Mutex<HashMap<String, Running>>,
    servers: Mutex<HashMap<String, (u16, Child)>>,
}

/// Returns the API of a kind in all namespaces.
pub(crate) fn everywhere(client: &kube::Client, kind: ResourceKind) -> Api<ClusterObject> {
    Api::all_with(client.clone(), &resource(kind))
}

fn within(client: &kube::Client, kind: ResourceKind, namespace: &str) -> Api<ClusterObject> {
    Api::namespaced_with(client.clone(), namespace, &resource(kind))
}

fn resource(kind: ResourceKind) -> ApiResource {
    ApiResource {
        group: kind.group.into(),
        version: kind.version.into(),
        api_version: kind.api_version(),
        kind: kind.kind.into(),
        plural: kind.plural.into(),
    }
}

struct Running {
    image_id: String,
    address: SocketAddr,
    port: JoinHandle<()>,
    /// Whether the API server has confirmed that the pod runs.
    reported: bool,
}

impl Node {
    pub(crate) fn start(client: kube::Client, scratch: PathBuf) -> Node {
        let inner = Arc::new(Inner { client, scratch, running: Mutex::default(), servers: Mutex::default() });
        let runs = inner.clone();
        let task = tokio::spawn(async move {
            loop {
                // The API server may be unreachable temporarily.
                if let Ok(pods) = everywhere(&runs.client, ResourceKind::POD).list(&ListParams::default()).await {
                    for pod in pods.items {
                        runs.reconcile(&pod).await;
                    }
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        });
        Node { inner, task }
    }

    /// Returns the address of a running pod.
    pub(crate) fn address(&self, pod: &str) -> Option<SocketAddr> {
        self.inner.running.lock().unwrap().get(pod).map(|running| running.address)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
        for (_, mut server) in self.inner.servers.lock().unwrap().drain().map(|(_, server)| server) {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Inner {
    async fn reconcile(&self, pod: &ClusterObject) {
        let name = pod.metadata.name.clone().unwrap();
        let pods = within(&self.client, ResourceKind::POD, pod.metadata.namespace.as_deref().unwrap());
        if pod.metadata.deletion_timestamp.is_some() {
            // The pod ends, and then its object is deleted.
            if let Some(running) = self.running.lock().unwrap().remove(&name) {
                running.port.abort();
            }
            let _ = pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
            return;
        }
        let known = self.running.lock().unwrap().get(&name).map(|running| (running.reported, running.image_id.clone()));
        match known {
            Some((true, _)) => return,
            // The API server may have stored the report although it did not answer: the pod keeps running.
            Some((false, image_id)) => return self.report(&pods, pod, &name, &image_id).await,
            None => {}
        }
        if pod.data["spec"].get("nodeName").is_none() {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "node"},
            });
            let (how, body) = (PostParams::default(), serde_json::to_vec(&binding).unwrap());
            let _ = pods.create_subresource::<_, serde_json::Value>("binding", &name, &how, &body).await;
        }
        let image = pod.data["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        let Some(image_id) = resolve(&image) else {
            let waiting = json!({"reason": "ImagePullBackOff", "message": format!("{image}: not found")});
            let status = json!({"phase": "Pending", "containerStatuses": [{
                "name": "registry-server", "image": image, "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": waiting},
            }]});
            let _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await;
            return;
        };
        let Some(behind) = self.server(&image_id) else { return };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let port = tokio::spawn(async move {
            let mut streams = tokio::task::JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                streams.spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", behind)).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        let running = Running { image_id: image_id.clone(), address, port, reported: false };
        self.running.lock().unwrap().insert(name.clone(), running);
        self.report(&pods, pod, &name, &image_id).await;
    }

    /// Reports that a pod runs.
    async fn report(&self, pods: &Api<ClusterObject>, pod: &ClusterObject, name: &str, image_id: &str) {
        let image = &pod.data["spec"]["containers"][0]["image"];
        let status = json!({
            "phase": "Running",
            "podIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{
                "name": "registry-server", "image": image, "imageID": image_id, "ready": true, "restartCount": 0,
                "state": {"running": {}},
            }],
        });
        let patch = Patch::Merge(json!({ "status": status }));
        if pods.patch_status(name, &PatchParams::default(), &patch).await.is_ok()
            && let Some(running) = self.running.lock().unwrap().get_mut(name)
        {
            running.reported = true;
        }
    }

    /// Returns the port of a server of an image, and starts one if there is none.
    fn server(&self, image_id: &str) -> Option<u16> {
        let mut servers = self.servers.lock().unwrap();
        if let Some((port, _)) = servers.get(image_id) {
            return Some(*port);
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_opm"))
            .args(["serve", image_id, "--use-http", "--address", "127.0.0.1", "--port", "0", "-t", ""])
            .env("HOME", &self.scratch)
            .env("TMPDIR", &self.scratch)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let port = loop {
            line.clear();
            if log.read_line(&mut line).unwrap() == 0 {
                let _ = child.wait();
                return None;
            }
            if let Some((_, rest)) = line.split_once("address=127.0.0.1:") {
                break rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        servers.insert(image_id.to_owned(), (port, child));
        Some(port)
    }
}

/// Resolves the tag of an image in its registry, and returns the reference by digest.
pub(crate) fn resolve(image: &str) -> Option<String> {
    if image.contains('@') {
        return Some(image.to_owned());
    }
    let (host, rest) = image.split_once('/')?;
    let (repository, tag) = rest.rsplit_once(':')?;
    let mut stream = std::net::TcpStream::connect(host).ok()?;
    let accept = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json";
    let request = format!(
        "HEAD /v2/{repository}/manifests/{tag} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let digest = response.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("docker-content-digest").then(|| value.trim().to_owned())
    })?;
    Some(format!("{host}/{repository}@{digest}"))
}
