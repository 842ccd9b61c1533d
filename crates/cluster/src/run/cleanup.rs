//! `cleanup`: removes an operator and its temporary catalog.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use schemars::JsonSchema;
use serde::Serialize;

use super::carry::{clear, deleted};
use super::facts::owned_crds;
use super::names::{self, FIELD_MANAGER, RUN_LABEL};
use super::planned::{self, InUse, is_by_plan, is_only_for, own_steps, recorded};
use super::preflight::{self, NeededRight};
use super::recreated::Recreated;
use super::wait;
use crate::context::WorkContext;
use crate::ledger::RolledBack;
use crate::request::{ObjectName, Requests};
use crate::views::{CatalogSource, ClusterServiceVersion, InstallPlan, Stored, Subscription, View, is_owned, label};
use crate::{Error, ResourceKind};

/// What to remove.
#[derive(Debug, Clone)]
pub struct RunCleanup {
    pub package: String,
    /// Whether to delete the operator's CRDs and all their objects.
    pub crds: bool,
    /// Whether to delete the OperatorGroup of `run bundle`, if no Subscription is left.
    pub operator_groups: bool,
    /// Whether to remove an operator that `run bundle` did not install, too.
    pub force: bool,
}

/// What a cleanup removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CleanupReport {
    pub package: String,
    /// Whether there was anything to remove.
    pub found: bool,
    /// The deleted objects in order, as `KIND NAMESPACE/NAME`, without those that the cluster deletes with their owner.
    pub deleted: Vec<String>,
}

impl CleanupReport {
    pub(crate) fn new(package: &str, found: bool, requests: &Requests<'_>) -> CleanupReport {
        CleanupReport { package: package.to_owned(), found, deleted: requests.deleted() }
    }
}

/// The objects of a package.
struct PackageObjects {
    subscription: Option<Subscription>,
    csvs: Vec<ClusterServiceVersion>,
    /// Its catalog, which may be deleted already.
    source_name: ObjectName,
    source: Option<CatalogSource>,
    /// Whether `run bundle` installed it.
    ours: bool,
    /// Other objects that InstallPlans created for it: CRDs, and Subscriptions to its dependencies.
    created: Vec<(ObjectName, String)>,
    plans: Vec<ObjectName>,
}

const RIGHTS: [NeededRight; 5] = [
    ("delete", ResourceKind::SUBSCRIPTION),
    ("delete", ResourceKind::CSV),
    ("delete", ResourceKind::CATALOG_SOURCE),
    ("delete", ResourceKind::POD),
    ("delete", ResourceKind::CONFIG_MAP),
];

/// Removes an operator.
///
/// # Errors
/// Fails if `run bundle` did not install it and `force` is off, or if something cannot be deleted before the
/// deadline.
pub async fn cleanup(context: &WorkContext<'_>, options: &RunCleanup) -> Result<CleanupReport, Error> {
    let requests = context.requests();
    let found = remove_operator(&requests, options).await?;
    Ok(CleanupReport::new(&options.package, found, &requests))
}

/// Removes an operator; returns whether there was anything to remove.
async fn remove_operator(requests: &Requests<'_>, options: &RunCleanup) -> Result<bool, Error> {
    let (namespace, watcher) = (requests.cluster.namespace.as_str(), requests.watcher);
    preflight::has_olm(requests, namespace).await?;
    let mut found = find(requests, options).await?;
    if found.subscription.is_none() && found.csvs.is_empty() && found.source.is_none() {
        return Ok(false);
    }
    if !found.ours && !options.force {
        return Err(Error::refused(format!(
            "package {:?} was not installed by 'run bundle'; nothing was deleted\n--force deletes:\n  {}",
            options.package,
            listed(&found).join("\n  ")
        )));
    }
    preflight::check(requests, namespace, &RIGHTS).await?;
    let mut settled = true;
    for plan in &found.plans {
        settled &= wait::for_plan(requests, plan).await?;
    }
    if !found.plans.is_empty() {
        // Objects that OLM created from them meanwhile belong to the operator, too.
        found = find(requests, options).await?;
    }
    remove_all(requests, &found, options, settled).await?;
    let rest = requests.list_metadata(ResourceKind::SUBSCRIPTION, namespace, &ListParams::default()).await?;
    let gone = |one: &ObjectMeta| {
        let named = ObjectName::named(ResourceKind::SUBSCRIPTION, one);
        found.subscription.as_ref().and_then(|removed| removed.metadata.uid.as_ref()) == one.uid.as_ref()
            || found.created.iter().any(|(object, _)| *object == named)
    };
    let group = ObjectName::new(ResourceKind::OPERATOR_GROUP, namespace, names::OPERATOR_GROUP);
    match options.operator_groups && rest.iter().all(gone) {
        true => {
            if let Some(there) = requests.metadata(&group).await? {
                remove(requests, &group, &there, true).await?;
            }
        }
        false => watcher.done("Skipping Operator Groups deletion"),
    }
    Ok(true)
}

/// Returns what would be removed of a foreign operator.
fn listed(found: &PackageObjects) -> Vec<String> {
    let subscription = found.subscription.iter().map(|one| one.object_name().to_string());
    let csvs = found.csvs.iter().map(|one| one.object_name().to_string());
    let crds = found.created.iter().map(|(crd, _)| format!("{crd}, with all its objects"));
    subscription.chain(csvs).chain(crds).collect()
}

async fn remove_all(
    requests: &Requests<'_>,
    found: &PackageObjects,
    options: &RunCleanup,
    settled: bool,
) -> Result<(), Error> {
    let watcher = requests.watcher;
    let done = |object: &ObjectName| watcher.done(&deleted(object));
    let mut outcome = RolledBack::default();
    if let Some(subscription) = &found.subscription {
        remove(requests, &subscription.object_name(), &subscription.metadata, false).await?;
    }
    let (definitions, others): (Vec<_>, Vec<_>) =
        found.created.iter().cloned().partition(|(object, _)| object.kind == ResourceKind::CRD);
    planned::remove(requests, &others, InUse::Removed, &[], &mut outcome, &done).await?;
    let going: Vec<ObjectName> = found.csvs.iter().map(View::object_name).chain(found.plans.clone()).collect();
    match options.crds && !definitions.is_empty() {
        // Delete CRs while the operator still runs, so that it can process finalizers.
        true => planned::remove(requests, &definitions, InUse::Removed, &going, &mut outcome, &done).await?,
        false => watcher.done("Skipping CRD deletion"),
    }
    for csv in &found.csvs {
        remove(requests, &csv.object_name(), &csv.metadata, true).await?;
    }
    match &found.source {
        Some(source) if is_ours(source, &options.package) => {
            remove(requests, &source.object_name(), &source.metadata, true).await?;
            clear(requests, source).await?;
        }
        Some(source) => {
            let source = source.object_name();
            watcher.warn(&format!("{source} was not created by 'run bundle' and is kept"));
        }
        None => {}
    }
    if !settled {
        recreated(requests, found, options).remove(requests, InUse::Removed, &mut outcome, &done).await?;
    }
    outcome.kept.iter().for_each(|kept| watcher.warn(kept));
    match outcome.failed.is_empty() {
        true => Ok(()),
        false => Err(Error::refused(outcome.failed.join("\n"))),
    }
}

/// Returns the objects that OLM may create again from a plan that it has not completed long ago.
fn recreated<'a>(requests: &Requests<'_>, found: &'a PackageObjects, options: &'a RunCleanup) -> Recreated<'a> {
    let namespace = requests.cluster.namespace.as_str();
    let csvs = found.csvs.iter().map(|csv| (csv.object_name(), csv.metadata.uid.clone()));
    let removed = |object: &ObjectName| match object.kind {
        ResourceKind::SUBSCRIPTION => true,
        ResourceKind::CRD => options.crds,
        _ => false,
    };
    let created = found.created.iter().filter(|(object, _)| removed(object));
    let created = created.map(|(object, uid)| (object.clone(), Some(uid.clone())));
    Recreated {
        package: &options.package,
        source: &found.source_name.name,
        objects: created.chain(csvs).collect(),
        versions: found.csvs.iter().map(|csv| version(namespace, csv)).collect(),
    }
}

/// Finds all objects of a package.
async fn find(requests: &Requests<'_>, options: &RunCleanup) -> Result<PackageObjects, Error> {
    let (namespace, package) = (requests.cluster.namespace.as_str(), options.package.as_str());
    let subscriptions: Vec<Subscription> = requests.list(namespace, &ListParams::default()).await?;
    let subscription = subscriptions.into_iter().find(|one| one.spec.name == package);
    let csvs = find_csvs(requests, subscription.as_ref(), package).await?;
    let source_name = source_name(namespace, subscription.as_ref(), package);
    let source: Option<CatalogSource> = requests.read(&source_name).await?;
    let mut all: Vec<InstallPlan> = Vec::new();
    if subscription.is_some() {
        all = requests.list(namespace, &ListParams::default()).await?;
    }
    let uid = subscription.as_ref().and_then(|one| one.metadata.uid.as_deref());
    let own: Vec<&InstallPlan> = all.iter().filter(|plan| is_owned(&plan.metadata, uid)).collect();
    let plans = own.iter().map(|plan| plan.object_name()).collect();
    let by_run = |one: &Subscription| label(&one.metadata, RUN_LABEL).is_some();
    let ours =
        source.as_ref().is_some_and(|source| is_ours(source, package)) || subscription.as_ref().is_some_and(by_run);
    let mut found = PackageObjects { subscription, csvs, source_name, source, ours, created: Vec::new(), plans };
    match ours {
        true => add_created_by_run(requests, &mut found, &own, &all).await?,
        false if options.crds => add_owned_crds(requests, &mut found, |_| true).await?,
        false => {}
    }
    Ok(found)
}

/// Adds the objects that a run and its plans, among all plans, created.
async fn add_created_by_run(
    requests: &Requests<'_>,
    found: &mut PackageObjects,
    own: &[&InstallPlan],
    all: &[InstallPlan],
) -> Result<(), Error> {
    if let Some(source) = &found.source {
        found.created = recorded(&source.metadata)?;
    }
    for plan in own {
        add_created(requests, plan, all, &found.csvs, &mut found.created).await?;
    }
    // A killed run has recorded nothing, and OLM keeps only a few plans.
    let namespace = requests.cluster.namespace.as_str();
    let versions: Vec<String> = found.csvs.iter().map(|csv| version(namespace, csv)).collect();
    // Objects older than the run existed before it, regardless of their current users. OLM takes seconds from a
    // Subscription to a CRD.
    let start = found.subscription.as_ref().map(|run| created_at(&run.metadata));
    let since = |there: &ObjectMeta| start.is_none_or(|start| created_at(there) > start);
    add_owned_crds(requests, found, |there| is_only_for(there, &versions) && since(there)).await?;
    let csvs: Vec<_> = found.created.extract_if(.., |(object, _)| object.kind == ResourceKind::CSV).collect();
    for (object, made) in &csvs {
        let there: Option<ClusterServiceVersion> = requests.read(object).await?;
        let there = there.filter(|there| there.metadata.uid.as_ref() == Some(made));
        found.csvs.extend(there.filter(|there| found.csvs.iter().all(|csv| csv.metadata.uid != there.metadata.uid)));
    }
    Ok(())
}

/// Adds the CRDs that the versions own, if they match.
async fn add_owned_crds(
    requests: &Requests<'_>,
    found: &mut PackageObjects,
    matches: impl Fn(&ObjectMeta) -> bool,
) -> Result<(), Error> {
    for name in found.csvs.iter().flat_map(|csv| owned_crds(&csv.spec)) {
        let crd = ObjectName::new(ResourceKind::CRD, "", &name);
        let there = requests.metadata(&crd).await?.filter(&matches);
        if let Some(uid) = there.and_then(|there| there.uid)
            && !found.created.iter().any(|(object, _)| *object == crd)
        {
            found.created.push((crd, uid));
        }
    }
    Ok(())
}

fn version(namespace: &str, csv: &ClusterServiceVersion) -> String {
    format!("{namespace}/{}", csv.metadata.name())
}

/// Adds the objects that one of all plans created for versions and their dependencies.
async fn add_created(
    requests: &Requests<'_>,
    plan: &InstallPlan,
    all: &[InstallPlan],
    csvs: &[ClusterServiceVersion],
    created: &mut Vec<(ObjectName, String)>,
) -> Result<(), Error> {
    let names: Vec<&str> = csvs.iter().filter_map(|csv| csv.metadata.name.as_deref()).collect();
    let (plan_name, planned_at) = (plan.object_name(), created_at(&plan.metadata));
    for step in names.iter().flat_map(|csv| own_steps(plan, csv)) {
        // Times have no fractions: what exists already may be as old as the plan.
        let since = |there: &ObjectMeta| match step.status == "Present" {
            true => created_at(there) > planned_at,
            false => created_at(there) >= planned_at,
        };
        let by_plan = |there: &ObjectMeta| is_by_plan(&step, there, &plan_name, Some(all));
        let there = requests.metadata(&step.object).await?.filter(|there| since(there) && by_plan(there));
        if let Some(uid) = there.and_then(|there| there.uid)
            && !created.iter().any(|(known, _)| *known == step.object)
        {
            created.push((step.object, uid));
        }
    }
    Ok(())
}

/// Returns when an object was created, in seconds.
fn created_at(object: &ObjectMeta) -> Option<Timestamp> {
    object.creation_timestamp.as_ref().map(|time| time.0)
}

/// Finds the CSVs of a package: those in its Subscription, which lags behind OLM, and those that OLM labels.
async fn find_csvs(
    requests: &Requests<'_>,
    subscription: Option<&Subscription>,
    package: &str,
) -> Result<Vec<ClusterServiceVersion>, Error> {
    let namespace = requests.cluster.namespace.as_str();
    let mut found: Vec<ClusterServiceVersion> = Vec::new();
    let label = format!("{package}.{namespace}");
    if label.len() <= 63 {
        let selector = ListParams::default().labels(&format!("operators.coreos.com/{label},!olm.copiedFrom"));
        found = requests.list(namespace, &selector).await?;
    }
    let named = subscription.into_iter().flat_map(|one| [&one.status.installed_csv, &one.status.current_csv]);
    for name in named.filter(|name| !name.is_empty()) {
        if found.iter().all(|csv| csv.metadata.name.as_ref() != Some(name)) {
            found.extend(requests.read(&ObjectName::new(ResourceKind::CSV, namespace, name)).await?);
        }
    }
    Ok(found)
}

/// Returns the name of the CatalogSource of a package.
fn source_name(namespace: &str, subscription: Option<&Subscription>, package: &str) -> ObjectName {
    match subscription.map(|one| (one.spec.source.as_str(), one.spec.source_namespace.as_str())) {
        None | Some(("", _)) => {
            ObjectName::new(ResourceKind::CATALOG_SOURCE, namespace, &names::catalog_source(package))
        }
        Some((name, "")) => ObjectName::new(ResourceKind::CATALOG_SOURCE, namespace, name),
        Some((name, namespace)) => ObjectName::new(ResourceKind::CATALOG_SOURCE, namespace, name),
    }
}

/// Returns whether `run bundle` created a CatalogSource for a package, of opm or of the Go tool.
pub(crate) fn is_ours(source: &CatalogSource, package: &str) -> bool {
    let named = || source.metadata.name.as_ref() == Some(&names::catalog_source(package));
    label(&source.metadata, RUN_LABEL).is_some() || (source.spec.publisher == FIELD_MANAGER && named())
}

async fn remove(requests: &Requests<'_>, name: &ObjectName, object: &ObjectMeta, wait: bool) -> Result<(), Error> {
    let uid = object.uid.as_deref();
    if requests.delete(name, uid).await? {
        requests.watcher.done(&deleted(name));
    }
    if wait {
        requests.watcher.state(&name.to_string(), "waiting for its deletion");
        requests.wait_until_gone(name, uid).await?;
        requests.watcher.state(&name.to_string(), "");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake;
    use crate::views::decode;
    use crate::watcher::NoReports;

    #[tokio::test]
    async fn a_deleted_catalog_still_has_a_name() {
        let cluster = fake::cluster(|_, path| match path.rsplit('/').next() {
            Some("subscriptions") => {
                let item: Subscription = decode(json!({"metadata": {"name": "s", "namespace": "ns", "uid": "u"},
                    "spec": {"name": "foo", "source": "gone"}}))
                .unwrap();
                (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [item]}))
            }
            Some("gone") => fake::failure(404, "not found"),
            _ => (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []})),
        });
        let requests = Requests::within(&cluster, &NoReports, std::time::Duration::from_secs(5));
        let options = RunCleanup { package: "foo".into(), crds: false, operator_groups: false, force: true };
        let found = find(&requests, &options).await.unwrap();
        assert!(found.source.is_none());
        // OLM recreates Subscriptions of this catalog, and they are recognized by its name.
        assert_eq!(recreated(&requests, &found, &options).source, "gone");
    }
}
