//! Finds the users of a CRD.

use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::ApiResource;
use serde_json::Value;

use crate::request::{ObjectName, Requests};
use crate::{Error, Kind};

/// Returns why a CRD must stay; `None` if it can be deleted.
///
/// Operators and unfinished InstallPlans of all namespaces count as users, except those in `except`; with `objects`,
/// its objects do, too. Without permission to check, the CRD stays.
pub(crate) async fn reason_to_keep(
    requests: &Requests<'_>,
    crd: &Value,
    objects: bool,
    except: &[ObjectName],
) -> Result<Option<String>, Error> {
    let name = crd["metadata"]["name"].as_str().unwrap_or_default();
    let unknown = |error: &Error| format!("it is kept, because opm cannot check whether others need it: {error}");
    let there = |object: &&Value| object["metadata"]["deletionTimestamp"].is_null();
    let csvs = match requests.list_everywhere(Kind::CSV).await {
        Ok(csvs) => csvs,
        Err(error) if error.is_forbidden() => return Ok(Some(unknown(&error))),
        Err(error) => return Err(error),
    };
    let other = |kind: Kind, object: &Value| !except.contains(&ObjectName::of(kind, object));
    let is_copy = |csv: &Value| csv["metadata"]["labels"]["olm.copiedFrom"].is_string();
    let needs = |csv: &&Value| !is_copy(csv) && names(csv, name) && other(Kind::CSV, csv);
    if let Some(csv) = csvs.iter().filter(there).find(needs) {
        return Ok(Some(format!("it is kept, because {} needs it", ObjectName::of(Kind::CSV, csv))));
    }
    let plans = match requests.list_everywhere(Kind::INSTALL_PLAN).await {
        Ok(plans) => plans,
        Err(error) if error.is_forbidden() => return Ok(Some(unknown(&error))),
        Err(error) => return Err(error),
    };
    let unfinished = |plan: &Value| !matches!(plan["status"]["phase"].as_str(), Some("Complete" | "Failed"));
    let needs = |plan: &&Value| unfinished(plan) && creates(plan, name) && other(Kind::INSTALL_PLAN, plan);
    if let Some(plan) = plans.iter().filter(there).find(needs) {
        return Ok(Some(format!("it is kept, because {} installs it", ObjectName::of(Kind::INSTALL_PLAN, plan))));
    }
    if !objects {
        return Ok(None);
    }
    match first_object(requests, crd).await {
        Ok(object) => Ok(object.map(|object| format!("it is kept, because it has objects: {object}"))),
        Err(error) if error.is_forbidden() => Ok(Some(unknown(&error))),
        // The CRD is no longer served.
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether a CSV owns or requires a CRD.
fn names(csv: &Value, crd: &str) -> bool {
    let lists = ["owned", "required"].map(|key| &csv["spec"]["customresourcedefinitions"][key]);
    lists.iter().filter_map(|list| list.as_array()).flatten().any(|one| one["name"] == crd)
}

/// Returns whether a plan creates a CRD.
fn creates(plan: &Value, crd: &str) -> bool {
    let steps = plan["status"]["plan"].as_array().map(Vec::as_slice).unwrap_or_default();
    steps.iter().any(|step| step["resource"]["kind"] == Kind::CRD.kind && step["resource"]["name"] == crd)
}

/// Returns an object of a CRD, if there is one.
async fn first_object(requests: &Requests<'_>, crd: &Value) -> Result<Option<String>, Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &crd["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(version) = versions.iter().find(|version| version["served"] == true) else { return Ok(None) };
    let (group, version) = (text(&spec["group"]), text(&version["name"]));
    let resource = ApiResource {
        api_version: format!("{group}/{version}"),
        group,
        version,
        kind: text(&spec["names"]["kind"]),
        plural: text(&spec["names"]["plural"]),
    };
    let objects: Api<DynamicObject> = Api::all_with(requests.cluster.client.clone(), &resource);
    let one = ListParams::default().limit(1);
    let what = format!("listing {}.{} in all namespaces", resource.plural, resource.group);
    let found = requests.retry(&what, |_| objects.list(&one)).await?;
    let shown = |object: DynamicObject| {
        let name = object.metadata.name.unwrap_or_default();
        object.metadata.namespace.map_or(name.clone(), |namespace| format!("{namespace}/{name}"))
    };
    Ok(found.items.into_iter().next().map(shown))
}
