//! `run bundle-upgrade`: an installed operator is given a catalog with a newer bundle, and OLM upgrades it.

use std::time::Instant;

use kube::api::ListParams;
use serde_json::Value;

use super::bundle::{Serving, install};
use super::facts::Facts;
use super::objects::{self, DATABASE, INDEX_IMAGE, REGISTRY_POD, Served};
use super::pod::Item;
use super::preflight::{self, Right};
use super::wait::Scene;
use super::{carry, names};
use crate::ledger::Ledger;
use crate::request::{Named, Requests, uid};
use crate::{Cluster, Error, Kind, Watcher};

/// An operator that is installed, and where it comes from.
#[derive(Debug, Clone)]
pub struct Installed {
    subscription: Value,
    source: Value,
    /// The channel that it follows.
    pub channel: String,
    /// The bundles that were added to the index image.
    pub items: Vec<Item>,
    /// The index image.
    pub index_image: String,
    /// Whether that was a database and has become a file-based catalog.
    pub migrated: bool,
}

/// Everything that `run bundle-upgrade` needs to know.
#[derive(Debug, Clone)]
pub struct UpgradePlan {
    /// What the new bundle says.
    pub facts: Facts,
    /// What is installed.
    pub installed: Installed,
    /// What is served.
    pub serving: Serving,
}

const RIGHTS: [Right; 11] = [
    ("list", Kind::SUBSCRIPTION),
    ("get", Kind::SUBSCRIPTION),
    ("get", Kind::CATALOG_SOURCE),
    ("update", Kind::CATALOG_SOURCE),
    ("create", Kind::CONFIG_MAP),
    ("create", Kind::POD),
    ("get", Kind::POD),
    ("delete", Kind::POD),
    ("get", Kind::INSTALL_PLAN),
    ("update", Kind::INSTALL_PLAN),
    ("get", Kind::CSV),
];

/// Finds the operator of a package that is installed.
///
/// # Errors
/// Fails if there is none, or it is not known which catalog it comes from.
pub async fn find(
    cluster: &Cluster,
    package: &str,
    ledger: &Ledger,
    deadline: Instant,
    watcher: &dyn Watcher,
) -> Result<Installed, Error> {
    let requests = Requests { cluster, watcher, deadline: deadline.into() };
    let namespace = cluster.namespace.as_str();
    preflight::check(&requests, namespace, &RIGHTS, ledger).await?;
    let subscriptions = requests.list(Kind::SUBSCRIPTION, namespace, &ListParams::default()).await?;
    if subscriptions.is_empty() {
        return Err(Error::message("no existing operator found in the cluster to upgrade"));
    }
    let subscription = subscriptions.into_iter().find(|one| one["spec"]["name"] == package);
    let subscription =
        subscription.ok_or_else(|| Error::message(format!("subscription for package {package:?} not found")))?;
    let named = Named::of(Kind::SUBSCRIPTION, &subscription);
    watcher.done(&format!("Found existing subscription with name {} and namespace {}", named.name, named.namespace));

    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let home = match text(&subscription["spec"]["sourceNamespace"]) {
        home if home.is_empty() => namespace.to_owned(),
        home => home,
    };
    let source = Named::new(Kind::CATALOG_SOURCE, &home, &text(&subscription["spec"]["source"]));
    let found = requests.get(&source).await?;
    let found = found.ok_or_else(|| Error::message(format!("{source}, which {named} names, does not exist")))?;
    watcher.done(&format!("Found existing catalog source with name {} and namespace {home}", source.name));
    let items = objects::injected(&found).map_err(Error::Message)?;
    let annotation = |key: &str| text(&found["metadata"]["annotations"][key]);
    let index_image = if items.is_empty() { text(&found["spec"]["image"]) } else { annotation(INDEX_IMAGE) };
    if index_image.is_empty() {
        return Err(Error::message(
            "cannot upgrade: no catalog image reference exists in catalog source spec or annotations",
        ));
    }
    let channel = match text(&subscription["spec"]["channel"]) {
        channel if channel.is_empty() => names::CHANNEL.to_owned(),
        channel => channel,
    };
    let migrated = annotation(DATABASE) == "migrate";
    Ok(Installed { subscription, source: found, channel, items, index_image, migrated })
}

/// Upgrades an installed operator and waits until it is done.
///
/// Everything is in the ledger until the InstallPlan is approved. From then on OLM replaces the old version, and there
/// is no way back.
///
/// # Errors
/// Fails if something cannot be created, or does not come to pass before the deadline, with the cause in words.
pub async fn upgrade(
    cluster: &Cluster,
    plan: &UpgradePlan,
    ledger: &Ledger,
    deadline: Instant,
    watcher: &dyn Watcher,
) -> Result<(), Error> {
    let requests = &Requests { cluster, watcher, deadline: deadline.into() };
    requests.check_time()?;
    let (installed, serving) = (&plan.installed, &plan.serving);
    let source = Named::of(Kind::CATALOG_SOURCE, &installed.source);
    let subscription = Named::of(Kind::SUBSCRIPTION, &installed.subscription);
    let there = requests.get(&subscription).await?.ok_or_else(|| Error::Gone { object: subscription.to_string() })?;
    let previous_plan = there["status"]["installPlanRef"]["name"].as_str().map(str::to_owned);

    let (pod, ip) = carry::serve(requests, ledger, &installed.source, serving).await?;
    let served = Served {
        ip: &ip,
        pod: &pod.name,
        index_image: &serving.index_image,
        items: &serving.items,
        migrated: serving.migrated,
        pull_secret: &serving.settings.pull_secret,
    };
    ledger.change(requests, &source, |source| objects::connect(source, &served)).await?;
    watcher.done(&format!("Updated catalog source {} with address and annotations", source.name));

    let scene =
        Scene { subscription: &subscription, catalog_source: &source, pod: &pod, bundle_image: &serving.bundle_image };
    let csv = &plan.facts.csv;
    let approved = |_: Named, _: &[String]| ledger.settle();
    let outcome = install(requests, &scene, previous_plan.as_deref(), csv, approved).await;
    if !ledger.left().is_empty() {
        return outcome;
    }
    // The old pod serves a catalog that nobody asks any more; until the approval it was needed to go back.
    remove_old_pod(requests, installed, &source, &pod).await;
    outcome.map_err(|error| Error::message(format!("{error}\nthe upgrade was approved, and is not taken back")))?;
    watcher.done(&format!("Successfully upgraded to \"{csv}\""));
    Ok(())
}

async fn remove_old_pod(requests: &Requests<'_>, installed: &Installed, source: &Named, new: &Named) {
    let Some(name) = installed.source["metadata"]["annotations"][REGISTRY_POD].as_str() else { return };
    let old = Named::new(Kind::POD, &source.namespace, name);
    if old == *new || name.is_empty() {
        return;
    }
    let gone = async {
        let Some(there) = requests.get(&old).await? else { return Ok(()) };
        requests.delete(&old, uid(&there)).await?;
        requests.wait_until_gone(&old, uid(&there)).await?;
        requests.watcher.done(&format!("Deleted previous registry pod with name \"{name}\""));
        Ok::<(), Error>(())
    };
    if let Err(error) = gone.await {
        requests
            .watcher
            .warn(&format!("old registry pod {name:?} failed to delete ({error}), requires manual cleanup"));
    }
}
