//! The status of a ClusterCatalog, in catalogd's words.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::ServeError;
use super::state::Served;
use crate::Object;
use crate::controller::status::second;

/// The result to report.
#[derive(Debug)]
pub(super) enum Report<'a> {
    /// The content is served.
    Serving(&'a Served),
    /// The catalog is set to unavailable.
    Unavailable,
    /// The image cannot be served; the previous content still is.
    Failed(&'a ServeError, Option<&'a Served>),
}

/// Returns the status if it differs; null removes a field.
pub(super) fn of(object: &Object, report: &Report<'_>, base: &str) -> Option<Value> {
    let before = object.data.get("status").cloned().unwrap_or_default();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let generation = object.metadata.generation.unwrap_or_default();
    let served = match report {
        Report::Serving(served) => Some(*served),
        Report::Failed(_, served) => *served,
        Report::Unavailable => None,
    };
    let condition = |kind: &str, status: bool, reason: &str, message: &str| {
        let status = if status { "True" } else { "False" };
        let conditions = before["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let old = conditions.iter().find(|one| one["type"] == kind && one["status"] == status);
        let since = old.map_or_else(|| second(Timestamp::now()).into(), |old| old["lastTransitionTime"].clone());
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": since})
    };
    let progressing = match report {
        Report::Serving(_) => {
            condition("Progressing", true, "Succeeded", "Successfully unpacked and stored content from resolved source")
        }
        Report::Unavailable => {
            condition("Progressing", true, "Succeeded", "Catalog availability mode is set to Unavailable")
        }
        Report::Failed(unserved, _) => {
            let reason = if unserved.is_permanent { "Blocked" } else { "Retrying" };
            condition("Progressing", !unserved.is_permanent, reason, &unserved.message)
        }
    };
    let serving = match (report, served) {
        (_, Some(_)) => condition("Serving", true, "Available", "Serving desired content from resolved source"),
        (Report::Unavailable, _) => {
            condition("Serving", false, "UserSpecifiedUnavailable", "Catalog availability mode is set to Unavailable")
        }
        _ => condition("Serving", false, "Unavailable", "Catalog is not available"),
    };
    let status = json!({
        "conditions": [progressing, serving],
        "resolvedSource": served.map(|served| json!({"type": "Image", "image": {"ref": served.image}})),
        "urls": served.map(|_| json!({"base": format!("{base}/catalogs/{name}")})),
        "lastUnpacked": served.map(|served| second(served.unpacked)),
    });
    let fields = ["conditions", "resolvedSource", "urls", "lastUnpacked"];
    let sorted = |value: &Value| {
        let mut all = value.as_array().cloned().unwrap_or_default();
        all.sort_by_key(|one| one["type"].as_str().unwrap_or_default().to_owned());
        all
    };
    let same = fields.iter().all(|field| match *field {
        "conditions" => sorted(&status["conditions"]) == sorted(&before["conditions"]),
        field => status[field] == before[field],
    });
    (!same).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(status: Value) -> Object {
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "x",
            "metadata": {"name": "a", "generation": 3}, "status": status}))
        .unwrap()
    }

    #[test]
    fn a_status_is_written_only_if_it_changed() {
        let served = Served::now("r.test/a:v1", "r.test/a@sha256:00".into(), None);
        let status = of(&object(json!({})), &Report::Serving(&served), "https://here").unwrap();
        assert_eq!(status["urls"]["base"], "https://here/catalogs/a");
        assert_eq!(of(&object(status.clone()), &Report::Serving(&served), "https://here"), None);
        // The previous content stays while a new image fails.
        let unserved = ServeError { message: "no such image".into(), is_permanent: false };
        let failed = of(&object(status.clone()), &Report::Failed(&unserved, Some(&served)), "https://here").unwrap();
        assert_eq!(failed["resolvedSource"], status["resolvedSource"]);
        assert_eq!(
            (&failed["conditions"][0]["reason"], &failed["conditions"][1]["status"]),
            (&json!("Retrying"), &json!("True"))
        );
        let unavailable = of(&object(status), &Report::Unavailable, "https://here").unwrap();
        assert!(unavailable["urls"].is_null() && unavailable["conditions"][1]["reason"] == "UserSpecifiedUnavailable");
        let blocked = ServeError { message: "no label".into(), is_permanent: true };
        let blocked = of(&object(json!({})), &Report::Failed(&blocked, None), "https://here").unwrap();
        assert_eq!(
            (&blocked["conditions"][0]["status"], &blocked["conditions"][0]["reason"]),
            (&json!("False"), &json!("Blocked"))
        );
    }
}
