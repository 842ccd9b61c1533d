//! Finds the users of a CRD.

use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::ApiResource;

use crate::request::{ObjectName, Requests};
use crate::views::{ClusterServiceVersion, Definition, InstallPlan, Stored, View, label};
use crate::{Error, ResourceKind};

/// Returns why a CRD must stay; `None` if it can be deleted.
///
/// Operators and unfinished InstallPlans of all namespaces count as users, except those in `except`; with `objects`,
/// its objects do, too. Without permission to check, the CRD stays.
pub(crate) async fn reason_to_keep(
    requests: &Requests<'_>,
    crd: &ObjectName,
    objects: bool,
    except: &[ObjectName],
) -> Result<Option<String>, Error> {
    let name = crd.name.as_str();
    let unknown = |error: &Error| format!("it is kept, because opm cannot check whether others need it: {error}");
    let csvs: Vec<ClusterServiceVersion> = match requests.list_everywhere().await {
        Ok(csvs) => csvs,
        Err(error) if error.is_forbidden() => return Ok(Some(unknown(&error))),
        Err(error) => return Err(error),
    };
    let is_copy = |csv: &ClusterServiceVersion| label(&csv.metadata, "olm.copiedFrom").is_some();
    let needs = |csv: &&ClusterServiceVersion| is_other(*csv, except) && !is_copy(csv) && names(csv, name);
    if let Some(csv) = csvs.iter().find(needs) {
        return Ok(Some(format!("it is kept, because {} needs it", csv.object_name())));
    }
    let plans: Vec<InstallPlan> = match requests.list_everywhere().await {
        Ok(plans) => plans,
        Err(error) if error.is_forbidden() => return Ok(Some(unknown(&error))),
        Err(error) => return Err(error),
    };
    let unfinished = |plan: &InstallPlan| !matches!(plan.status.phase.as_str(), "Complete" | "Failed");
    let needs = |plan: &&InstallPlan| is_other(*plan, except) && unfinished(plan) && creates(plan, name);
    if let Some(plan) = plans.iter().find(needs) {
        return Ok(Some(format!("it is kept, because {} installs it", plan.object_name())));
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

/// Returns whether an object stays, and is not in `except`.
fn is_other<K: View>(object: &K, except: &[ObjectName]) -> bool {
    object.metadata().deletion_timestamp.is_none() && !except.contains(&object.object_name())
}

/// Returns whether a CSV owns or requires a CRD.
fn names(csv: &ClusterServiceVersion, crd: &str) -> bool {
    let definitions = &csv.spec.definitions;
    definitions.owned.iter().chain(&definitions.required).any(|one| one.name == crd)
}

/// Returns whether a plan creates a CRD.
fn creates(plan: &InstallPlan, crd: &str) -> bool {
    plan.status.plan.iter().any(|step| step.resource.kind == ResourceKind::CRD.kind && step.resource.name == crd)
}

/// Returns an object of a CRD, if there is one.
async fn first_object(requests: &Requests<'_>, crd: &ObjectName) -> Result<Option<String>, Error> {
    let Some(Definition { spec, .. }) = requests.read(crd).await? else { return Ok(None) };
    let Some(version) = spec.versions.into_iter().find(|version| version.served) else { return Ok(None) };
    let (group, version) = (spec.group, version.name);
    let resource = ApiResource {
        api_version: format!("{group}/{version}"),
        group,
        version,
        kind: spec.names.kind,
        plural: spec.names.plural,
    };
    let objects: Api<DynamicObject> = Api::all_with(requests.cluster.client.clone(), &resource);
    let one = ListParams::default().limit(1);
    let what = format!("listing {}.{} in all namespaces", resource.plural, resource.group);
    let found = requests.retry(&what, |_| objects.list(&one)).await?;
    let shown = |object: DynamicObject| {
        let name = object.metadata.name().to_owned();
        object.metadata.namespace.map_or(name.clone(), |namespace| format!("{namespace}/{name}"))
    };
    Ok(found.items.into_iter().next().map(shown))
}
