//! `run bundle`: a bundle becomes a catalog of its own, and OLM installs it from there.

use std::time::Instant;

use kube::api::ListParams;
use serde_json::Value;

use super::carry;
use super::facts::Facts;
use super::install_mode::Targets;
use super::objects::{self, Served};
use super::planned::{self, Planned};
use super::pod::{Content, Item, PodSettings, config_map_name};
use super::preflight::{self, Right};
use super::wait::{self, Scene};
use super::{names, operator_group, pod};
use crate::ledger::Ledger;
use crate::request::{Named, Requests};
use crate::{Cluster, Error, Kind, Watcher};

/// What the registry pod of a run serves.
#[derive(Debug, Clone)]
pub struct Serving {
    /// The image of the bundle that is new.
    pub bundle_image: String,
    /// All bundles that are added to the index, the new one last.
    pub items: Vec<Item>,
    /// The index image that they are added to.
    pub index_image: String,
    /// Whether that was a database and has become a file-based catalog.
    pub migrated: bool,
    /// The catalog.
    pub content: Content,
    /// How the pod is set up.
    pub settings: PodSettings,
}

/// Everything that `run bundle` needs to know.
#[derive(Debug, Clone)]
pub struct BundlePlan {
    /// What the bundle says.
    pub facts: Facts,
    /// The channel that it is in.
    pub channel: String,
    /// The namespaces that it shall watch.
    pub targets: Targets,
    /// What is served.
    pub serving: Serving,
}

impl BundlePlan {
    /// Returns the objects that would be created, in order.
    pub fn objects(&self, namespace: &str) -> Vec<Value> {
        let (package, serving) = (&self.facts.package, &self.serving);
        let source = names::catalog_source(package);
        let settings = &serving.settings;
        let mut all = vec![objects::catalog_source(namespace, package, &settings.pull_secret, settings.security)];
        if let Content::ConfigMaps { parts, .. } = &serving.content {
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

const RIGHTS: [Right; 14] = [
    ("create", Kind::CATALOG_SOURCE),
    ("get", Kind::CATALOG_SOURCE),
    ("update", Kind::CATALOG_SOURCE),
    ("create", Kind::CONFIG_MAP),
    ("list", Kind::CONFIG_MAP),
    ("create", Kind::POD),
    ("get", Kind::POD),
    ("list", Kind::OPERATOR_GROUP),
    ("create", Kind::SUBSCRIPTION),
    ("get", Kind::SUBSCRIPTION),
    ("list", Kind::SUBSCRIPTION),
    ("get", Kind::INSTALL_PLAN),
    ("update", Kind::INSTALL_PLAN),
    ("get", Kind::CSV),
];
/// What it takes to roll a run back.
const UNDO: [Right; 6] = [
    ("delete", Kind::CATALOG_SOURCE),
    ("delete", Kind::CONFIG_MAP),
    ("delete", Kind::POD),
    ("delete", Kind::SUBSCRIPTION),
    ("delete", Kind::INSTALL_PLAN),
    ("delete", Kind::CSV),
];

/// Checks that a bundle can be run, and rolled back unless it is kept: the namespace, OLM, the user's rights, and that
/// nothing is in the way.
///
/// # Errors
/// Fails with everything that is missing, or what is in the way. Nothing is changed.
pub async fn check(
    cluster: &Cluster,
    facts: &Facts,
    targets: &Targets,
    keep: bool,
    deadline: Instant,
    watcher: &dyn Watcher,
) -> Result<(), Error> {
    let requests = Requests::new(cluster, watcher, deadline);
    let namespace = cluster.namespace.as_str();
    let undo: &[Right] = if keep { &[] } else { &UNDO };
    preflight::check(&requests, namespace, &[&RIGHTS, undo].concat()).await?;
    if let Some(other) = crate::extension::runs_in_v1(&requests, &facts.package).await? {
        return Err(Error::message(format!(
            "package {:?} runs under OLM v1 already: {other}; nothing was changed",
            facts.package
        )));
    }
    let group = preflight::nothing_there(&requests, namespace, &facts.package, &facts.csv, targets).await?;
    if group.is_some() {
        let rights: &[Right] = &[("create", Kind::OPERATOR_GROUP), ("delete", Kind::OPERATOR_GROUP)];
        preflight::check(&requests, namespace, if keep { &rights[..1] } else { rights }).await?;
    }
    if !keep && !facts.owned_crds.is_empty() {
        let missing = preflight::missing(&requests, namespace, &[("get", Kind::CRD), ("delete", Kind::CRD)]).await?;
        if !missing.is_empty() {
            watcher.warn(&format!(
                "not allowed: {}; definitions that OLM makes for the bundle stay if the run fails",
                missing.join(", ")
            ));
        }
    }
    Ok(())
}

/// Installs a bundle and waits until it is there. What was made is in the ledger, whatever the outcome.
///
/// # Errors
/// Fails if something cannot be created, or does not come to pass before the deadline, with the cause in words.
pub async fn run(
    cluster: &Cluster,
    plan: &BundlePlan,
    ledger: &Ledger,
    deadline: Instant,
    watcher: &dyn Watcher,
) -> Result<(), Error> {
    let requests = &Requests::new(cluster, watcher, deadline);
    requests.check_time()?;
    let namespace = cluster.namespace.as_str();
    let (facts, serving) = (&plan.facts, &plan.serving);
    let settings = &serving.settings;

    // First of all, so that it can own what follows.
    let source = objects::catalog_source(namespace, &facts.package, &settings.pull_secret, settings.security);
    let creating = |what: &'static str| move |error: Error| Error::message(format!("error creating {what}: {error}"));
    let source =
        ledger.create(requests, Kind::CATALOG_SOURCE, source, None).await.map_err(creating("catalog source"))?;
    let source_name = Named::of(Kind::CATALOG_SOURCE, &source);
    let (pod, ip) = carry::serve(requests, ledger, &source, serving).await?;
    let served = Served {
        ip: &ip,
        pod: &pod.name,
        index_image: &serving.index_image,
        items: &serving.items,
        migrated: serving.migrated,
        pull_secret: &settings.pull_secret,
    };
    requests.change(&source_name, |source| objects::connect(source, &served)).await?;
    watcher.done(&format!("Created CatalogSource: {}", source_name.name));

    let groups = requests.list(Kind::OPERATOR_GROUP, namespace, &ListParams::default()).await?;
    if let Some(group) = operator_group::decide(&groups, &plan.targets, namespace).map_err(Error::Message)? {
        ledger.create(requests, Kind::OPERATOR_GROUP, group, None).await.map_err(creating("operator group"))?;
        watcher.done(&format!("OperatorGroup \"{}\" created", names::OPERATOR_GROUP));
    }

    let subscription = objects::subscription(namespace, &facts.package, &plan.channel, &facts.csv);
    let subscription_name = Named::of(Kind::SUBSCRIPTION, &subscription);
    ledger.create(requests, Kind::SUBSCRIPTION, subscription, None).await.map_err(creating("subscription"))?;
    watcher.done(&format!("Created Subscription: {}", subscription_name.name));

    let scene = Scene {
        subscription: &subscription_name,
        catalog_source: &source_name,
        pod: &pod,
        bundle_image: &serving.bundle_image,
    };
    let planned = install(requests, &scene, None, &facts.csv, Approval::RolledBack(ledger)).await?;
    note(requests, &source_name, &planned).await;
    watcher.done(&format!("OLM has successfully installed \"{}\"", facts.csv));
    Ok(())
}

/// What a failure after the approval of an InstallPlan means.
pub(crate) enum Approval<'a> {
    /// What the plan has made is rolled back.
    RolledBack(&'a Ledger),
    /// Everything stays.
    Settled(&'a Ledger),
}

/// Approves the InstallPlan that OLM makes, and waits until it is carried out.
pub(crate) async fn install(
    requests: &Requests<'_>,
    scene: &Scene<'_>,
    previous: Option<&str>,
    csv: &str,
    approval: Approval<'_>,
) -> Result<Planned, Error> {
    let plan = wait::for_install_plan(requests, scene, previous).await?;
    let namespace = &scene.subscription.namespace;
    let plan = Named::new(Kind::INSTALL_PLAN, namespace, &plan);
    let there = requests.get(&plan).await?;
    let there = there.ok_or_else(|| Error::message(format!("error getting install plan: {plan} is gone")))?;
    let others = wait::others(&there, csv);
    if !others.is_empty() {
        let others = others.join(", ");
        requests.watcher.warn(&format!("InstallPlan {} also installs or upgrades: {others}", plan.name));
    }
    let planned = Planned::read(requests, &there, csv).await?;
    let sent = match approval {
        Approval::RolledBack(ledger) => Some(ledger.approves(planned.clone())?),
        Approval::Settled(ledger) => {
            ledger.settle();
            None
        }
    };
    wait::approve(requests, &plan).await?;
    drop(sent);
    let subscription = &scene.subscription.name;
    requests.watcher.done(&format!("Approved InstallPlan {} for the Subscription: {subscription}", plan.name));
    wait::for_csv(requests, &Named::new(Kind::CSV, namespace, csv), &plan).await?;
    wait::for_plan(requests, &plan).await?;
    Ok(planned)
}

/// Writes down what a plan has made, so that `cleanup` knows what is ours.
pub(crate) async fn note(requests: &Requests<'_>, source: &Named, planned: &Planned) {
    let noted = async {
        let created = planned.created(requests).await?;
        requests.change(source, |source| planned::note(source, &created)).await
    };
    if let Err(error) = noted.await {
        requests.watcher.warn(&format!("what OLM made could not be noted, and 'cleanup' leaves it: {error}"));
    }
}
