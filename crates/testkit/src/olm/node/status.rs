//! The status that a node reports for its pods.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::Inner;

/// The state of a container.
#[derive(Debug, Clone)]
pub(super) enum RunState {
    /// Waiting: reason and message.
    Waiting(&'static str, String),
    /// Running, and whether it is ready.
    Running(bool),
    /// Ended: exit code and message.
    Ended(i32, String),
}

/// The status of a container.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) image_id: String,
    pub(super) restarts: u32,
    pub(super) state: RunState,
    /// The last termination.
    pub(super) before: Option<(i32, String)>,
}

fn ended(code: i32, message: &str) -> Value {
    let reason = if code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {"exitCode": code, "reason": reason, "message": message}})
}

impl Report {
    fn value(&self) -> Value {
        let state = match &self.state {
            RunState::Waiting(reason, message) => json!({"waiting": {"reason": reason, "message": message}}),
            RunState::Running(_) => json!({"running": {}}),
            RunState::Ended(code, message) => ended(*code, message),
        };
        let ready = matches!(self.state, RunState::Running(true) | RunState::Ended(0, _));
        let before = self.before.as_ref().map_or_else(|| json!({}), |(code, message)| ended(*code, message));
        json!({
            "name": self.name, "image": self.image, "imageID": self.image_id, "ready": ready,
            "restartCount": self.restarts, "state": state, "lastState": before,
        })
    }
}

/// Writes the status of a pod; a deleted pod is ignored.
pub(super) async fn report(node: &Inner, pod: &Value, phase: &str, ip: &str, init: &[Report], main: &[Report]) {
    let ready = phase == "Running" && main.iter().all(|report| matches!(report.state, RunState::Running(true)));
    let condition = |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }});
    let mut status = json!({
        "phase": phase,
        "conditions": [
            condition("PodScheduled", true), condition("Initialized", !main.is_empty()),
            condition("ContainersReady", ready), condition("Ready", ready),
        ],
        "initContainerStatuses": init.iter().map(Report::value).collect::<Vec<_>>(),
        "containerStatuses": main.iter().map(Report::value).collect::<Vec<_>>(),
    });
    if !ip.is_empty() {
        status["podIP"] = json!(ip);
        status["podIPs"] = json!([{"ip": ip}]);
    }
    let patch = Patch::Merge(json!({"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}));
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    for _ in 0..50 {
        match node.api("Pod", "pods").patch_status(name, &PatchParams::default(), &patch).await {
            Ok(_) => return,
            // The pod was deleted, or replaced by another pod of that name.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
        }
    }
}
