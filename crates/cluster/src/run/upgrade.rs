//! `run bundle-upgrade`: gives an installed operator a catalog with a newer bundle, and OLM upgrades it.

use bundle::rehearse::OlmGeneration;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::bundle::{Approval, Serving, install, note};
use super::catalog::{CatalogConsumer, CatalogOptions, IndexKind, PulledBundle, RunCatalog, RunCatalogError, blocking};
use super::cleanup::is_ours;
use super::facts::CsvFacts;
use super::objects::{self, DATABASE, INDEX_IMAGE, PodConnection, REGISTRY_POD};
use super::plan::RunPlan;
use super::pod::{CatalogPodContent, IndexItem, PodSettings, config_map_name};
use super::preflight::{self, NeededRight};
use super::report::{RunOperator, RunReport};
use super::wait::WaitContext;
use super::{carry, names, pod};
use crate::context::WorkContext;
use crate::ledger::Ledger;
use crate::request::{ObjectName, Requests};
use crate::views::{CatalogSource, CatalogStatus, Subscription, SubscriptionSpec, View, annotation, described};
use crate::{Error, ResourceKind};

/// An installed operator and its catalog.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    subscription: ObjectName,
    source: CatalogSource,
    /// Its channel.
    channel: String,
    /// The bundles added to the index image.
    items: Vec<IndexItem>,
    index_image: String,
    /// Whether that was a database, migrated to a file-based catalog.
    migrated: bool,
}

/// The request of `run bundle-upgrade`.
#[derive(Clone)]
pub struct RunUpgrade<'a> {
    /// The bundle image.
    pub bundle: String,
    /// Whether a catalog that other operators use may be changed.
    pub shared_catalog: bool,
    /// How the catalog is built.
    pub catalog: CatalogOptions<'a>,
    /// The settings of the pod.
    pub settings: PodSettings,
}

impl RunUpgrade<'_> {
    /// Pulls the bundle, finds the installed operator, and extends its catalog.
    ///
    /// # Errors
    /// Fails if an image cannot be used, or the operator cannot be upgraded. Nothing is changed.
    pub async fn plan(&self, context: &WorkContext<'_>) -> Result<RunPlan, Error> {
        let catalog = RunCatalog { consumer: CatalogConsumer::Pod, options: &self.catalog, watcher: context.watcher };
        let newest = blocking(|| catalog.pull(&self.bundle))?;
        let facts = newest.facts.clone();
        let installed = find(context, &facts.package, self.shared_catalog).await?;
        let serving = blocking(|| self.serving(&catalog, newest, &installed))?;
        Ok(RunPlan::Upgrade(Box::new(UpgradePlan { facts, installed, serving })))
    }

    /// Adds the bundle to the catalog of the operator, and returns what the pod serves.
    fn serving(
        &self,
        catalog: &RunCatalog<'_>,
        newest: PulledBundle,
        installed: &Installed,
    ) -> Result<Serving, RunCatalogError> {
        let image = &installed.index_image;
        let index = catalog.index(image, installed.migrated)?;
        let mut bundles = Vec::new();
        let package = newest.facts.package.clone();
        if !matches!(index, IndexKind::Database(_)) {
            catalog.watcher.done(&format!("Creating a File-Based Catalog of the bundle \"{}\"", self.bundle));
            bundles = catalog.with_earlier(&installed.items, newest)?;
        }
        let content = catalog.serve(&index, image, &self.bundle, bundles, |fbc, all| {
            edit::run_bundle::extend(fbc, &package, all, &installed.channel, image)
        })?;
        let mut items = installed.items.clone();
        items.push(self.catalog.item(&self.bundle, image));
        Ok(Serving {
            bundle_image: self.bundle.clone(),
            items,
            index_image: image.clone(),
            migrated: matches!(index, IndexKind::Migrated(_)),
            content,
            settings: self.settings.clone(),
        })
    }
}

/// The inputs of `run bundle-upgrade`.
#[derive(Debug, Clone)]
pub struct UpgradePlan {
    /// The facts of the new bundle.
    facts: CsvFacts,
    /// The installed operator.
    installed: Installed,
    /// The content to serve.
    serving: Serving,
}

impl UpgradePlan {
    /// Returns the objects to create and the updated catalog, in order.
    pub(super) fn objects(&self) -> Vec<Value> {
        let serving = &self.serving;
        let source = self.installed.source.object_name();
        let mut all = Vec::new();
        if let CatalogPodContent::ConfigMaps { parts, .. } = &serving.content {
            let map = |(index, part): (usize, &Vec<u8>)| {
                objects::config_map(&source.namespace, &config_map_name(&source.name, index + 1), part)
            };
            all.extend(parts.iter().enumerate().map(map));
        }
        let pod = names::pod(&serving.bundle_image);
        let (namespace, name) = (&source.namespace, &source.name);
        all.push(pod::pod(namespace, name, &pod, &serving.items, &serving.content, &serving.settings));
        let mut changed = self.installed.source.clone();
        let served = PodConnection {
            // The IP is known once the pod runs.
            ip: "POD_IP",
            pod: &pod,
            index_image: &serving.index_image,
            items: &serving.items,
            migrated: serving.migrated,
            pull_secret: &serving.settings.pull_secret,
        };
        objects::connect(&mut changed, &served);
        all.push(json!(CatalogSource {
            metadata: described(&changed.metadata),
            status: CatalogStatus::default(),
            ..changed
        }));
        all
    }
}

/// The permissions in the namespace of the operator.
const RIGHTS: [NeededRight; 5] = [
    ("list", ResourceKind::SUBSCRIPTION),
    ("get", ResourceKind::SUBSCRIPTION),
    ("get", ResourceKind::INSTALL_PLAN),
    ("update", ResourceKind::INSTALL_PLAN),
    ("get", ResourceKind::CSV),
];
/// The permissions in the namespace of its catalog.
const CATALOG_RIGHTS: [NeededRight; 8] = [
    ("get", ResourceKind::CATALOG_SOURCE),
    ("update", ResourceKind::CATALOG_SOURCE),
    ("create", ResourceKind::CONFIG_MAP),
    ("list", ResourceKind::CONFIG_MAP),
    ("delete", ResourceKind::CONFIG_MAP),
    ("create", ResourceKind::POD),
    ("get", ResourceKind::POD),
    ("delete", ResourceKind::POD),
];

/// Finds the installed operator of a package, whose catalog will be changed.
///
/// # Errors
/// Fails if there is none, its catalog is unknown, or others use that catalog, too, unless `shared` allows it.
async fn find(context: &WorkContext<'_>, package: &str, shared: bool) -> Result<Installed, Error> {
    let (requests, watcher) = (context.requests(), context.watcher);
    let namespace = context.cluster.namespace.as_str();
    preflight::check(&requests, namespace, &RIGHTS).await?;
    let subscriptions: Vec<Subscription> = requests.list(namespace, &ListParams::default()).await?;
    if subscriptions.is_empty() {
        return Err(Error::refused("no existing operator found in the cluster to upgrade"));
    }
    let subscription = subscriptions.into_iter().find(|one| one.spec.name == package);
    let subscription =
        subscription.ok_or_else(|| Error::refused(format!("subscription for package {package:?} not found")))?;
    let named = subscription.object_name();
    watcher.done(&format!("Found existing subscription with name {} and namespace {}", named.name, named.namespace));

    let SubscriptionSpec { source, source_namespace, channel, .. } = subscription.spec;
    let home = if source_namespace.is_empty() { namespace.to_owned() } else { source_namespace };
    let source = ObjectName::new(ResourceKind::CATALOG_SOURCE, &home, &source);
    preflight::check(&requests, &home, &CATALOG_RIGHTS).await?;
    let found: Option<CatalogSource> = requests.read(&source).await?;
    let found = found.ok_or_else(|| Error::refused(format!("{source}, which {named} names, does not exist")))?;
    watcher.done(&format!("Found existing catalog source with name {} and namespace {home}", source.name));
    if !is_ours(&found, package) {
        let others = others(&requests, &source, &named).await?;
        if !others.is_empty() && !shared {
            return Err(Error::refused(format!(
                "{source} was not created by 'run bundle', and others use it: {}; nothing was changed\n\
                 --shared-catalog serves all of them from the pod of this run",
                others.join(", ")
            )));
        }
        let all = if others.is_empty() { String::new() } else { format!(", also for {}", others.join(", ")) };
        watcher.warn(&format!(
            "{source} was not created by 'run bundle': its image is replaced by a pod of this run{all}"
        ));
    }
    let items = objects::injected(&found.metadata)?;
    let index_image = match items.is_empty() {
        true => found.spec.image.clone(),
        false => annotation(&found.metadata, INDEX_IMAGE).to_owned(),
    };
    if index_image.is_empty() {
        return Err(Error::refused(
            "cannot upgrade: no catalog image reference exists in catalog source spec or annotations",
        ));
    }
    let channel = if channel.is_empty() { names::CHANNEL.to_owned() } else { channel };
    let migrated = annotation(&found.metadata, DATABASE) == "migrate";
    Ok(Installed { subscription: named, source: found, channel, items, index_image, migrated })
}

/// Upgrades an installed operator and waits until it is done.
///
/// The ledger records everything until the InstallPlan is approved. From then on OLM replaces the old version, and
/// there is no rollback.
///
/// # Errors
/// Fails if an object cannot be created, or the upgrade does not finish before the deadline, with the cause.
pub(super) async fn upgrade(
    context: &WorkContext<'_>,
    plan: &UpgradePlan,
    ledger: &Ledger,
) -> Result<RunReport, Error> {
    let requests = &context.requests();
    requests.check_time()?;
    let (installed, serving) = (&plan.installed, &plan.serving);
    let (source, subscription) = (installed.source.object_name(), &installed.subscription);
    let there: Option<Subscription> = requests.read(subscription).await?;
    let there = there.ok_or_else(|| Error::Deleted { object: subscription.to_string() })?;
    let previous_plan = there.status.install_plan();

    let (pod, ip) = carry::serve(requests, ledger, &installed.source, serving).await?;
    let served = PodConnection {
        ip: &ip,
        pod: &pod.name,
        index_image: &serving.index_image,
        items: &serving.items,
        migrated: serving.migrated,
        pull_secret: &serving.settings.pull_secret,
    };
    ledger.change(requests, &source, |source| objects::connect(source, &served)).await?;
    context.watcher.done(&format!("Updated catalog source {} with address and annotations", source.name));

    let waits = WaitContext { subscription, catalog_source: &source, pod: &pod, bundle_image: &serving.bundle_image };
    let CsvFacts { package, csv, version, .. } = &plan.facts;
    let outcome = install(requests, &waits, previous_plan, csv, Approval::Settled(ledger)).await;
    let is_approved = ledger.left().is_empty();
    if is_approved {
        // The old pod serves an obsolete catalog; until the approval it was needed for a rollback.
        remove_old_pod(requests, installed, &source, &pod).await;
    }
    let planned = outcome.map_err(|error| match is_approved {
        true => Error::refused(format!("{error}\nthe upgrade was approved and is not rolled back")),
        false => error,
    })?;
    let recorded_in = Some(&source).filter(|_| is_ours(&installed.source, package));
    let created_by_olm = note(requests, recorded_in, &planned).await;
    let namespace = &subscription.namespace;
    let operator = RunOperator { package, version, csv, namespace, mode: None, catalog: &source };
    let report = RunReport::installed(OlmGeneration::V0, operator, ledger, requests);
    Ok(RunReport { created_by_olm, ..report.upgrade_from(there.status.version()) })
}

/// Returns the other Subscriptions to a catalog in all namespaces.
async fn others(requests: &Requests<'_>, source: &ObjectName, except: &ObjectName) -> Result<Vec<String>, Error> {
    let all: Vec<Subscription> = match requests.list_everywhere().await {
        Ok(all) => all,
        // Without the permission, others cannot be ruled out.
        Err(error) if error.is_forbidden() => return Ok(vec![format!("perhaps ({error})")]),
        Err(error) => return Err(error),
    };
    let uses = |one: &&Subscription| one.spec.source == source.name && one.spec.source_namespace == source.namespace;
    let named = all.iter().filter(uses).map(View::object_name);
    Ok(named.filter(|one| one != except).map(|one| one.to_string()).collect())
}

async fn remove_old_pod(requests: &Requests<'_>, installed: &Installed, source: &ObjectName, new: &ObjectName) {
    let name = annotation(&installed.source.metadata, REGISTRY_POD);
    let old = ObjectName::new(ResourceKind::POD, &source.namespace, name);
    if old == *new || name.is_empty() {
        return;
    }
    let gone = async {
        let Some(there) = requests.metadata(&old).await? else { return Ok(()) };
        requests.delete(&old, there.uid.as_deref()).await?;
        requests.wait_until_gone(&old, there.uid.as_deref()).await?;
        requests.watcher.done(&format!("Deleted previous registry pod with name \"{name}\""));
        Ok::<(), Error>(())
    };
    if let Err(error) = gone.await {
        requests
            .watcher
            .warn(&format!("old registry pod {name:?} failed to delete ({error}), requires manual cleanup"));
    }
}
