//! The status of a ClusterCatalog, in catalogd's words.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::ServeError;
use super::state::Served;
use crate::controller::status::second;
use crate::views::{ClusterCatalog, Condition, ImageSource, Rest, SourceImage, Stored, Urls, condition};

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
pub(super) fn of(catalog: &ClusterCatalog, report: &Report<'_>, base: &str) -> Option<Value> {
    let before = &catalog.status;
    let name = catalog.metadata.name();
    let generation = catalog.metadata.generation();
    let served = match report {
        Report::Serving(served) => Some(*served),
        Report::Failed(_, served) => *served,
        Report::Unavailable => None,
    };
    let condition = |kind: &str, status: bool, reason: &str, message: &str| {
        let status = if status { "True" } else { "False" };
        let old = condition(&before.conditions, kind).filter(|one| one.status == status);
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: Some(generation),
            last_transition_time: old.map_or_else(|| second(Timestamp::now()), |old| old.last_transition_time.clone()),
            rest: Rest::new(),
        }
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
    let mut conditions = vec![progressing, serving];
    let image = |image: &str| SourceImage { reference: image.to_owned(), ..SourceImage::default() };
    let source = |served: &Served| ImageSource { kind: "Image".into(), image: image(&served.image), rest: Rest::new() };
    let resolved = served.map(source);
    let urls = served.map(|_| Urls { base: format!("{base}/catalogs/{name}"), rest: Rest::new() });
    let unpacked = served.map(|served| second(served.unpacked));
    let mut known = before.conditions.clone();
    for all in [&mut conditions, &mut known] {
        all.sort_by(|a, b| a.kind.cmp(&b.kind));
    }
    let same = conditions == known
        && resolved == before.resolved_source
        && urls == before.urls
        && unpacked.as_deref().unwrap_or_default() == before.last_unpacked;
    (!same)
        .then(|| json!({"conditions": conditions, "resolvedSource": resolved, "urls": urls, "lastUnpacked": unpacked}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::decode;

    fn object(status: Value) -> ClusterCatalog {
        decode(json!({"metadata": {"name": "a", "generation": 3}, "status": status})).unwrap()
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
