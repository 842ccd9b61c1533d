//! `run bundle`: turns a bundle into a catalog, from which OLM installs it.

use bundle::rehearse::OlmGeneration;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::carry;
use super::catalog::{CatalogConsumer, CatalogOptions, IndexKind, PulledBundle, RunCatalog, RunCatalogError, blocking};
use super::facts::CsvFacts;
use super::install_mode::{InstallMode, Targets};
use super::objects::{self, PodConnection};
use super::plan::RunPlan;
use super::planned::{self, Planned};
use super::pod::{CatalogPodContent, IndexItem, PodSettings, config_map_name};
use super::preflight::{self, NeededRight};
use super::report::{RunOperator, RunReport};
use super::wait::{self, WaitContext};
use super::{names, operator_group, pod};
use crate::context::WorkContext;
use crate::ledger::Ledger;
use crate::request::{ObjectName, Requests};
use crate::views::{CatalogSource, InstallPlan, Subscription, View};
use crate::{Error, ResourceKind, Watcher};

/// The content of the registry pod of a run.
#[derive(Debug, Clone)]
pub(crate) struct Serving {
    /// The image of the new bundle.
    pub(crate) bundle_image: String,
    /// All bundles added to the index, the new one last.
    pub(crate) items: Vec<IndexItem>,
    /// The base index image.
    pub(crate) index_image: String,
    /// Whether that was a database, migrated to a file-based catalog.
    pub(crate) migrated: bool,
    pub(crate) content: CatalogPodContent,
    pub(crate) settings: PodSettings,
}

/// The request of `run bundle`.
#[derive(Clone)]
pub struct RunBundle<'a> {
    /// The bundle image.
    pub bundle: String,
    /// The index image to add it to.
    pub index_image: String,
    /// The requested install mode.
    pub install_mode: Option<InstallMode>,
    /// The namespace of the installation.
    pub namespace: String,
    /// Whether created objects stay after a failure.
    pub keep: bool,
    /// How the catalog is built.
    pub catalog: CatalogOptions<'a>,
    /// The settings of the pod.
    pub settings: PodSettings,
}

impl RunBundle<'_> {
    /// Pulls the bundle, checks whether it can be installed, and builds its catalog. Nothing is checked without a
    /// cluster.
    ///
    /// # Errors
    /// Fails if an image cannot be used, or the cluster has a conflict. Nothing is changed.
    pub async fn plan(&self, context: Option<&WorkContext<'_>>, watcher: &dyn Watcher) -> Result<RunPlan, Error> {
        let catalog = RunCatalog { consumer: CatalogConsumer::Pod, options: &self.catalog, watcher };
        let bundle = blocking(|| catalog.pull(&self.bundle))?;
        let facts = bundle.facts.clone();
        let targets = Targets::decide(self.install_mode.as_ref(), &facts.install_modes, &facts.csv, &self.namespace)?;
        if let Some(warning) = targets.warning {
            watcher.warn(warning);
        }
        if let Some(context) = context {
            check(context, &facts, &targets, self.keep).await?;
        }
        let (channel, serving) = blocking(|| self.serving(&catalog, bundle))?;
        let namespace = self.namespace.clone();
        Ok(RunPlan::Bundle(Box::new(BundlePlan { facts, namespace, channel, targets, serving })))
    }

    /// Adds the bundle to the index, and returns its channel and what the pod serves.
    fn serving(&self, catalog: &RunCatalog<'_>, bundle: PulledBundle) -> Result<(String, Serving), RunCatalogError> {
        let (image, watcher) = (&self.index_image, catalog.watcher);
        let facts = bundle.facts.clone();
        let index = catalog.index(image, false)?;
        let is_added = matches!(index, IndexKind::Catalog(..) | IndexKind::Migrated(_));
        let channel = match &index {
            IndexKind::Database(_) => facts.channels.first().cloned().ok_or(RunCatalogError::NoChannel)?,
            _ => names::CHANNEL.to_owned(),
        };
        if !matches!(index, IndexKind::Database(_)) {
            watcher.done(&format!("Creating a File-Based Catalog of the bundle \"{}\"", self.bundle));
        }
        if is_added {
            watcher.done(&format!(
                "Rendering a File-Based Catalog of the Index Image \"{image}\" to verify if bundle \"{}\" is present",
                facts.csv
            ));
        }
        let content = catalog.serve(&index, image, &self.bundle, vec![bundle], |fbc, _| {
            let added = edit::run_bundle::inject(fbc, &facts.package, &facts.csv, &channel, image)?;
            if is_added {
                watcher.done(&format!("Generated the extra FBC for the bundle image \"{}\"", facts.csv));
            }
            Ok(added)
        })?;
        let serving = Serving {
            bundle_image: self.bundle.clone(),
            items: vec![self.catalog.item(&self.bundle, image)],
            index_image: image.clone(),
            migrated: matches!(index, IndexKind::Migrated(_)),
            content,
            settings: self.settings.clone(),
        };
        Ok((channel, serving))
    }
}

/// The inputs of `run bundle`.
#[derive(Debug, Clone)]
pub struct BundlePlan {
    /// The facts of the bundle.
    facts: CsvFacts,
    /// The namespace of the installation.
    namespace: String,
    /// The channel of the bundle.
    channel: String,
    /// The namespaces to watch.
    targets: Targets,
    /// The content to serve.
    serving: Serving,
}

impl BundlePlan {
    /// Returns the objects in creation order.
    pub(super) fn objects(&self) -> Vec<Value> {
        let (namespace, package, serving) = (self.namespace.as_str(), &self.facts.package, &self.serving);
        let source = names::catalog_source(package);
        let settings = &serving.settings;
        let catalog = objects::catalog_source(namespace, package, &settings.pull_secret, settings.security);
        let mut all = vec![json!(catalog)];
        if let CatalogPodContent::ConfigMaps { parts, .. } = &serving.content {
            let map = |(index, part): (usize, &Vec<u8>)| {
                objects::config_map(namespace, &config_map_name(&source, index + 1), part)
            };
            all.extend(parts.iter().enumerate().map(map));
        }
        let pod = names::pod(&serving.bundle_image);
        all.push(pod::pod(namespace, &source, &pod, &serving.items, &serving.content, settings));
        all.extend(operator_group::decide(&[], &self.targets, namespace).ok().flatten());
        all.push(objects::subscription(namespace, package, &self.channel, &self.facts.csv));
        all
    }
}

const RIGHTS: [NeededRight; 14] = [
    ("create", ResourceKind::CATALOG_SOURCE),
    ("get", ResourceKind::CATALOG_SOURCE),
    ("update", ResourceKind::CATALOG_SOURCE),
    ("create", ResourceKind::CONFIG_MAP),
    ("list", ResourceKind::CONFIG_MAP),
    ("create", ResourceKind::POD),
    ("get", ResourceKind::POD),
    ("list", ResourceKind::OPERATOR_GROUP),
    ("create", ResourceKind::SUBSCRIPTION),
    ("get", ResourceKind::SUBSCRIPTION),
    ("list", ResourceKind::SUBSCRIPTION),
    ("get", ResourceKind::INSTALL_PLAN),
    ("update", ResourceKind::INSTALL_PLAN),
    ("get", ResourceKind::CSV),
];
/// The permissions for a rollback.
const ROLLBACK_RIGHTS: [NeededRight; 6] = [
    ("delete", ResourceKind::CATALOG_SOURCE),
    ("delete", ResourceKind::CONFIG_MAP),
    ("delete", ResourceKind::POD),
    ("delete", ResourceKind::SUBSCRIPTION),
    ("delete", ResourceKind::INSTALL_PLAN),
    ("delete", ResourceKind::CSV),
];

/// Checks the preconditions of a run, and of its rollback unless `keep` is set: the namespace, OLM, permissions, and
/// conflicting objects.
///
/// # Errors
/// Fails with all missing permissions or the conflict. Nothing is changed.
async fn check(context: &WorkContext<'_>, facts: &CsvFacts, targets: &Targets, keep: bool) -> Result<(), Error> {
    let requests = context.requests();
    let namespace = context.cluster.namespace.as_str();
    let undo: &[NeededRight] = if keep { &[] } else { &ROLLBACK_RIGHTS };
    preflight::check(&requests, namespace, &[&RIGHTS, undo].concat()).await?;
    if let Some(other) = crate::extension::runs_in_v1(&requests, &facts.package).await? {
        return Err(Error::refused(format!(
            "package {:?} runs under OLM v1 already: {other}; nothing was changed",
            facts.package
        )));
    }
    let group = preflight::check_conflicts(&requests, namespace, &facts.package, &facts.csv, targets).await?;
    if group.is_some() {
        let rights: &[NeededRight] =
            &[("create", ResourceKind::OPERATOR_GROUP), ("delete", ResourceKind::OPERATOR_GROUP)];
        preflight::check(&requests, namespace, if keep { &rights[..1] } else { rights }).await?;
    }
    if !keep && !facts.owned_crds.is_empty() {
        let missing =
            preflight::missing(&requests, namespace, &[("get", ResourceKind::CRD), ("delete", ResourceKind::CRD)])
                .await?;
        if !missing.is_empty() {
            context.watcher.warn(&format!(
                "not allowed: {}; CRDs that OLM creates for the bundle remain if the run fails",
                missing.join(", ")
            ));
        }
    }
    Ok(())
}

/// Installs a bundle and waits until it is installed. The ledger records all created objects, whatever the outcome.
///
/// # Errors
/// Fails if an object cannot be created, or the installation does not finish before the deadline, with the cause.
pub(super) async fn run(context: &WorkContext<'_>, plan: &BundlePlan, ledger: &Ledger) -> Result<RunReport, Error> {
    let (requests, watcher) = (&context.requests(), context.watcher);
    requests.check_time()?;
    let namespace = context.cluster.namespace.as_str();
    let (facts, serving) = (&plan.facts, &plan.serving);
    let settings = &serving.settings;

    // Created first, so that it can own the other objects.
    let source = objects::catalog_source(namespace, &facts.package, &settings.pull_secret, settings.security);
    let creating = |what: &'static str| move |error: Error| Error::refused(format!("error creating {what}: {error}"));
    let source = ledger.create(requests, ResourceKind::CATALOG_SOURCE, json!(source), None).await;
    let source = CatalogSource::of(&source.map_err(creating("catalog source"))?)?;
    let source_name = source.object_name();
    let (pod, ip) = carry::serve(requests, ledger, &source, serving).await?;
    let served = PodConnection {
        ip: &ip,
        pod: &pod.name,
        index_image: &serving.index_image,
        items: &serving.items,
        migrated: serving.migrated,
        pull_secret: &settings.pull_secret,
    };
    requests.update(&source_name, |source| objects::connect(source, &served)).await?;
    watcher.done(&format!("Created CatalogSource: {}", source_name.name));

    let groups = requests.list(namespace, &ListParams::default()).await?;
    if let Some(group) = operator_group::decide(&groups, &plan.targets, namespace)? {
        ledger.create(requests, ResourceKind::OPERATOR_GROUP, group, None).await.map_err(creating("operator group"))?;
        watcher.done(&format!("OperatorGroup \"{}\" created", names::OPERATOR_GROUP));
    }

    let subscription = objects::subscription(namespace, &facts.package, &plan.channel, &facts.csv);
    let subscription_name = ObjectName::of(ResourceKind::SUBSCRIPTION, &subscription)?;
    ledger.create(requests, ResourceKind::SUBSCRIPTION, subscription, None).await.map_err(creating("subscription"))?;
    watcher.done(&format!("Created Subscription: {}", subscription_name.name));

    let waits = WaitContext {
        subscription: &subscription_name,
        catalog_source: &source_name,
        pod: &pod,
        bundle_image: &serving.bundle_image,
    };
    let planned = install(requests, &waits, None, &facts.csv, Approval::RolledBack(ledger)).await?;
    let created_by_olm = note(requests, Some(&source_name), &planned).await;
    let operator = RunOperator {
        package: &facts.package,
        version: &facts.version,
        csv: &facts.csv,
        namespace,
        mode: operator_group::mode(&groups, &plan.targets, namespace),
        catalog: &source_name,
    };
    let report = RunReport::installed(OlmGeneration::V0, operator, ledger, requests);
    Ok(RunReport { created_by_olm, ..report })
}

/// The effect of a failure after the approval of an InstallPlan.
pub(crate) enum Approval<'a> {
    /// The objects of the plan are rolled back.
    RolledBack(&'a Ledger),
    /// Everything stays.
    Settled(&'a Ledger),
}

/// Approves the InstallPlan that OLM creates, and waits until it is complete.
pub(crate) async fn install(
    requests: &Requests<'_>,
    context: &WaitContext<'_>,
    previous: Option<&str>,
    csv: &str,
    approval: Approval<'_>,
) -> Result<Planned, Error> {
    let plan = wait::for_install_plan(requests, context, previous).await?;
    let namespace = &context.subscription.namespace;
    let plan = ObjectName::new(ResourceKind::INSTALL_PLAN, namespace, &plan);
    let there: Option<InstallPlan> = requests.read(&plan).await?;
    let there = there.ok_or_else(|| Error::refused(format!("error getting install plan: {plan} is gone")))?;
    let others = wait::others(&there, csv);
    if !others.is_empty() {
        let others = others.join(", ");
        requests.watcher.warn(&format!("InstallPlan {} also installs or upgrades: {others}", plan.name));
    }
    let subscription: Option<Subscription> = requests.read(context.subscription).await?;
    let subscription = subscription.ok_or_else(|| Error::Deleted { object: context.subscription.to_string() })?;
    let planned = Planned::read(requests, &there, csv, &subscription).await?;
    let sent = match approval {
        Approval::RolledBack(ledger) => Some(ledger.approves(planned.clone())?),
        Approval::Settled(ledger) => {
            ledger.settle();
            None
        }
    };
    wait::approve(requests, &plan).await?;
    drop(sent);
    let subscription = &context.subscription.name;
    requests.watcher.done(&format!("Approved InstallPlan {} for the Subscription: {subscription}", plan.name));
    wait::for_csv(requests, &ObjectName::new(ResourceKind::CSV, namespace, csv), &plan).await?;
    wait::for_plan(requests, &plan).await?;
    Ok(planned)
}

/// Returns the objects of a plan, and records them in the catalog of the run, so that `cleanup` can identify them. `None`
/// if they cannot be read.
pub(crate) async fn note(
    requests: &Requests<'_>,
    source: Option<&ObjectName>,
    planned: &Planned,
) -> Option<Vec<String>> {
    let noted = async {
        let created = planned.created(requests).await?;
        if let Some(source) = source {
            let record = |source: &mut CatalogSource| Ok(planned::record(&mut source.metadata, &created)?);
            requests.try_update(source, record).await?;
        }
        Ok::<_, Error>(created)
    };
    match noted.await {
        Ok(created) => Some(created.iter().map(|(object, _)| object.to_string()).collect()),
        Err(error) => {
            let effect = if source.is_some() { ", so 'cleanup' will not remove them" } else { "" };
            requests.watcher.warn(&format!("recording the objects of OLM failed{effect}: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::fake;
    use crate::watcher::NoReports;

    #[tokio::test]
    async fn no_plan_is_approved_for_a_subscription_that_was_deleted_meanwhile() {
        let approvals = Arc::new(AtomicUsize::new(0));
        let (reads, approved) = (AtomicUsize::new(0), approvals.clone());
        let cluster = fake::cluster(move |method, path| {
            let described = |fields: Value| {
                let mut object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "x"});
                object["metadata"] = json!({"name": "a", "namespace": "ns"});
                object["status"] = fields;
                (200, object)
            };
            match (method, path.rsplit('/').nth(1)) {
                ("PUT", _) => {
                    approved.fetch_add(1, Ordering::Relaxed);
                    described(json!({}))
                }
                (_, Some("subscriptions")) if reads.fetch_add(1, Ordering::Relaxed) == 0 => {
                    described(json!({"installPlanRef": {"name": "install-1"}}))
                }
                (_, Some("installplans")) => described(json!({"phase": "RequiresApproval"})),
                _ => fake::failure(404, "not found"),
            }
        });
        let requests = Requests::within(&cluster, &NoReports, Duration::from_secs(2));
        let object = |kind| ObjectName::new(kind, "ns", "a");
        let (subscription, source, pod) =
            (object(ResourceKind::SUBSCRIPTION), object(ResourceKind::CATALOG_SOURCE), object(ResourceKind::POD));
        let context = WaitContext {
            subscription: &subscription,
            catalog_source: &source,
            pod: &pod,
            bundle_image: "r.test/a:v1",
        };
        let ledger = Ledger::default();
        let installed = install(&requests, &context, None, "a.v1", Approval::RolledBack(&ledger)).await;
        let error = installed.expect_err("a failure");
        assert!(error.to_string().starts_with("Subscription ns/a no longer exists"), "{error}");
        assert_eq!((approvals.load(Ordering::Relaxed), ledger.left()), (0, Vec::new()));
    }
}
