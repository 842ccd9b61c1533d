//! `run bundle-upgrade --olm v1`: upgrades an operator that a run installed.

use bundle::rehearse::OlmGeneration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::install::pushed;
use super::objects::{self, Carried, InstallerAccount, REGISTRY};
use super::offer::offer;
use super::rehearsal::{Rehearsal, read};
use super::{other_olm, wait};
use crate::cluster_catalog::NAME_LABEL;
use crate::context::WorkContext;
use crate::ledger::Ledger;
use crate::request::{ObjectName, Requests};
use crate::run::RunPlan;
use crate::run::catalog::{CatalogConsumer, CatalogOptions, NO_INDEX, RunCatalog, RunCatalogError, blocking};
use crate::run::install_mode::InstallMode;
use crate::run::names::{self, RUN_LABEL};
use crate::run::objects::{INDEX_IMAGE, INJECTED_BUNDLES, injected};
use crate::run::pod::IndexItem;
use crate::run::preflight::{NeededRight, missing};
use crate::run::report::{RunOperator, RunReport};
use crate::views::{
    ClusterCatalog, ClusterCatalogStatus, ClusterExtension, ClusterExtensionStatus, ClusterRole, View, annotation,
    described, label,
};
use crate::{Error, ResourceKind};

/// An operator that a run installed with OLM v1.
#[derive(Debug, Clone)]
pub(crate) struct InstalledExtension {
    extension: ClusterExtension,
    catalog: ClusterCatalog,
    /// The name of the ClusterExtension.
    name: String,
    /// The namespace of the installation.
    namespace: String,
    /// The namespace that it watches; `None` means all.
    watch_namespace: Option<String>,
    /// The bundles added to the index image.
    items: Vec<IndexItem>,
    index_image: String,
    /// The pushed name of the catalog image.
    registry: String,
}

/// The request of `run bundle-upgrade --olm v1`.
#[derive(Clone)]
pub struct RunExtensionUpgrade<'a> {
    /// The bundle image.
    pub bundle: String,
    /// Whether to install without the dependencies of the bundle.
    pub ignore_dependencies: bool,
    /// Whether to install despite CRD changes that OLM v1 considers unsafe.
    pub ignore_crd_safety: bool,
    /// How the catalog is built; its image defaults to the current one.
    pub catalog: CatalogOptions<'a>,
}

/// What `run bundle-upgrade --olm v1` changes.
#[derive(Debug, Clone)]
pub struct ExtensionUpgradePlan {
    /// The installed operator.
    found: InstalledExtension,
    /// The name of the new bundle.
    bundle: String,
    /// Its version.
    version: String,
    /// The additional permissions that the new version needs.
    account: InstallerAccount,
    /// The catalog with the new bundle.
    carried: Carried,
    /// Whether to disable OLM's CRD upgrade safety check.
    ignore_crd_safety: bool,
}

impl RunExtensionUpgrade<'_> {
    /// Pulls the bundle, finds the installed operator, rehearses the upgrade, and extends the catalog, which is pushed
    /// unless it is a dry run.
    ///
    /// # Errors
    /// Fails if an image cannot be used, or OLM v1 would refuse the upgrade. The cluster is not changed.
    pub async fn plan(&self, context: &WorkContext<'_>, dry_run: bool) -> Result<RunPlan, Error> {
        let watcher = context.watcher;
        let consumer = CatalogConsumer::Image { push: !dry_run, ignore_dependencies: self.ignore_dependencies };
        let catalog = RunCatalog { consumer, options: &self.catalog, watcher };
        let newest = blocking(|| catalog.pull(&self.bundle))?;
        let facts = newest.facts.clone();
        let offer = offer(context).await?;
        let found = find(context, &facts.package).await?;
        let rehearsal = Rehearsal {
            offer: &offer,
            name: &found.name,
            namespace: &found.namespace,
            watch_namespace: found.watch_namespace.as_deref(),
            ignore_dependencies: self.ignore_dependencies,
        };
        let rehearsed = rehearsal.of(blocking(|| read(&newest.directory, &self.catalog.limits))?, watcher)?;
        if !self.ignore_crd_safety {
            rehearsed.check_definitions(context).await?;
        }
        let known = || image::Reference::parse(&found.registry).ok();
        let registry = self.catalog.registry.clone().or_else(known).ok_or(RunCatalogError::NoRegistry)?;
        let options = CatalogOptions { registry: Some(registry.clone()), ..self.catalog.clone() };
        let catalog = RunCatalog { options: &options, ..catalog };
        let index_image = &found.index_image;
        let image = blocking(|| {
            let index = catalog.index(index_image, false)?;
            let bundles = catalog.with_earlier(&found.items, newest)?;
            pushed(catalog.serve(&index, index_image, &self.bundle, bundles, |fbc, all| {
                edit::run_bundle::extend(fbc, &facts.package, all, names::CHANNEL, index_image)
            })?)
        })?;
        let mut items = found.items.clone();
        items.push(options.item(&self.bundle, NO_INDEX));
        let plan = ExtensionUpgradePlan {
            bundle: facts.csv,
            version: rehearsed.version.clone(),
            account: if offer.needs_account { rehearsed.account() } else { InstallerAccount::None },
            carried: Carried { image, registry: registry.to_string(), index_image: index_image.clone(), items },
            ignore_crd_safety: self.ignore_crd_safety,
            found,
        };
        Ok(RunPlan::ExtensionUpgrade(Box::new(plan)))
    }
}

const RIGHTS: [NeededRight; 7] = [
    ("list", ResourceKind::CLUSTER_EXTENSION),
    ("get", ResourceKind::CLUSTER_EXTENSION),
    ("update", ResourceKind::CLUSTER_EXTENSION),
    ("get", ResourceKind::CLUSTER_CATALOG),
    ("update", ResourceKind::CLUSTER_CATALOG),
    ("get", ResourceKind::CRD),
    ("list", ResourceKind::DEPLOYMENT),
];

impl ExtensionUpgradePlan {
    /// Returns the updated objects, in order.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let (mut catalog, mut extension) = (self.found.catalog.clone(), self.found.extension.clone());
        objects::carry(&mut catalog, &self.carried);
        self.ask(&mut extension);
        let (catalog_metadata, extension_metadata) = (described(&catalog.metadata), described(&extension.metadata));
        let catalog = ClusterCatalog { metadata: catalog_metadata, status: ClusterCatalogStatus::default(), ..catalog };
        let extension =
            ClusterExtension { metadata: extension_metadata, status: ClusterExtensionStatus::default(), ..extension };
        vec![json!(catalog), json!(extension)]
    }

    /// Sets the new version in a ClusterExtension.
    fn ask(&self, extension: &mut ClusterExtension) {
        extension.spec.source.catalog.version.clone_from(&self.version);
        if self.ignore_crd_safety {
            objects::ignore_crd_safety(&mut extension.spec);
        }
    }
}

/// Finds the ClusterExtension of a package that a run created.
///
/// # Errors
/// Fails if there is none, or `run bundle` did not create it or its catalog.
async fn find(context: &WorkContext<'_>, package: &str) -> Result<InstalledExtension, Error> {
    let (requests, watcher) = (context.requests(), context.watcher);
    let missing = missing(&requests, &context.cluster.namespace, &RIGHTS).await?;
    if !missing.is_empty() {
        return Err(Error::refused(format!("not allowed: {}; nothing was changed", missing.join(", "))));
    }
    let extensions = other_olm::of_package(&requests, package).await?;
    let Some(extension) = extensions.into_iter().next() else {
        return Err(Error::refused(format!("there is no ClusterExtension of package {package:?} to upgrade")));
    };
    let name = extension.object_name();
    let selector = extension.spec.source.catalog.selector.as_ref();
    let catalog: Option<ClusterCatalog> = match selector.and_then(|selector| selector.match_labels.get(NAME_LABEL)) {
        Some(selected) if !selected.is_empty() => {
            requests.read(&ObjectName::new(ResourceKind::CLUSTER_CATALOG, "", selected)).await?
        }
        _ => None,
    };
    let is_ours = |object: &ObjectMeta| label(object, RUN_LABEL).is_some();
    let Some(catalog) = catalog.filter(|catalog| is_ours(&catalog.metadata) && is_ours(&extension.metadata)) else {
        return Err(Error::refused(format!(
            "{name} was not made by 'run bundle --olm v1'; nothing was changed\n  help: publish the new version in \
             the catalog that it comes from, and OLM v1 upgrades it"
        )));
    };
    watcher.done(&format!("Found {name} and {}", catalog.object_name()));
    for key in [INJECTED_BUNDLES, INDEX_IMAGE] {
        if annotation(&catalog.metadata, key).is_empty() {
            let (object, package) = (catalog.object_name().to_string(), package.to_owned());
            return Err(Error::Unannotated { object, key, package });
        }
    }
    let annotation = |key: &str| annotation(&catalog.metadata, key).to_owned();
    let watched = extension.spec.config.as_ref().and_then(|config| config.inline.watch_namespace.clone());
    Ok(InstalledExtension {
        name: name.name,
        namespace: extension.spec.namespace.clone(),
        watch_namespace: watched,
        items: injected(&catalog.metadata)?,
        index_image: annotation(INDEX_IMAGE),
        registry: annotation(REGISTRY),
        extension,
        catalog,
    })
}

/// Returns the existing ones of some CRDs.
///
/// # Errors
/// Fails if the user may not read them, or the API server is unreachable.
pub(super) async fn definitions(context: &WorkContext<'_>, names: &[String]) -> Result<Vec<Value>, Error> {
    let requests = context.requests();
    let mut found = Vec::new();
    for name in names {
        found.extend(requests.get(&ObjectName::new(ResourceKind::CRD, "", name)).await?.map(|crd| json!(crd)));
    }
    Ok(found)
}

/// Upgrades an operator and waits until the new version runs.
///
/// The ledger records everything until OLM v1 has applied the new version. From then on there is no rollback.
///
/// # Errors
/// Fails if an object cannot be changed, or the upgrade does not finish before the deadline, with the cause.
pub(crate) async fn upgrade(
    context: &WorkContext<'_>,
    plan: &ExtensionUpgradePlan,
    ledger: &Ledger,
) -> Result<RunReport, Error> {
    let (requests, watcher) = (&context.requests(), context.watcher);
    requests.check_time()?;
    let extension = plan.found.extension.object_name();
    let catalog = plan.found.catalog.object_name();
    extend_permissions(requests, ledger, plan).await?;
    ledger.change(requests, &catalog, |catalog| objects::carry(catalog, &plan.carried)).await?;
    wait::for_catalog(requests, &catalog.name).await?;
    ledger.change(requests, &extension, |extension| plan.ask(extension)).await?;
    watcher.done(&format!("{extension} requests version {}", plan.version));
    let outcome = wait::for_bundle(requests, &extension, &plan.bundle).await;
    let there = requests.diagnosis().read(&extension).await.ok().flatten();
    if outcome.is_ok() || there.is_some_and(|there| wait::has_bundle(&there, &plan.bundle)) {
        ledger.settle();
    }
    outcome?;
    watcher.done(&format!("OLM v1 has applied \"{}\"", plan.bundle));
    let running = wait::for_deployments(requests, &extension, &plan.found.namespace).await;
    running.map_err(|error| Error::refused(format!("{error}\nthe upgrade was applied, and is not rolled back")))?;
    let found = &plan.found;
    let operator = RunOperator {
        package: &found.extension.spec.source.catalog.package_name,
        version: &plan.version,
        csv: &plan.bundle,
        namespace: &found.namespace,
        mode: Some(InstallMode::watching(found.watch_namespace.as_slice(), &found.namespace)),
        catalog: &catalog,
    };
    let previous = found.extension.status.install.as_ref().map_or("", |install| install.bundle.name.as_str());
    Ok(RunReport::installed(OlmGeneration::V1, operator, ledger, requests).upgrade_from(previous))
}

/// Adds the permissions of the new version to the installer account.
async fn extend_permissions(
    requests: &Requests<'_>,
    ledger: &Ledger,
    plan: &ExtensionUpgradePlan,
) -> Result<(), Error> {
    let InstallerAccount::Derived(rules) = &plan.account else { return Ok(()) };
    let account = plan.found.extension.spec.service_account.as_ref().map_or("", |account| account.name.as_str());
    let role = ObjectName::new(ResourceKind::CLUSTER_ROLE, "", account);
    let is_ours = |role: ObjectMeta| label(&role, RUN_LABEL).is_some();
    if !requests.metadata(&role).await?.is_some_and(is_ours) {
        return Ok(());
    }
    let add = |role: &mut ClusterRole| {
        for rule in rules {
            if !role.rules.contains(rule) {
                role.rules.push(rule.clone());
            }
        }
    };
    ledger.change(requests, &role, add).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::fake;
    use crate::watcher::NoReports;

    #[tokio::test]
    async fn a_catalog_without_the_record_of_its_bundles_is_not_rebuilt_without_them() {
        let cluster = fake::cluster(|_, path| {
            let labels = json!({RUN_LABEL: "1"});
            let extension = json!({
                "metadata": {"name": "foo", "labels": labels},
                "spec": {"source": {"catalog": {"packageName": "foo", "selector": {"matchLabels": {NAME_LABEL: "c"}}}}},
            });
            let list = |items: Value| json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
            match path.rsplit('/').next() {
                Some("selfsubjectaccessreviews") => fake::failure(403, "no reviews"),
                Some("clusterextensions") => (200, list(json!([extension]))),
                _ => (200, json!({"apiVersion": "v1", "kind": "x", "metadata": {"name": "c", "labels": labels}})),
            }
        });
        let deadline = Instant::now() + Duration::from_secs(5);
        let found = find(&WorkContext { cluster: &cluster, deadline, watcher: &NoReports }, "foo").await;
        insta::assert_snapshot!(found.unwrap_err(), @"
        ClusterCatalog c has no annotation operators.operatorframework.io/injected-bundles, with which 'run bundle --olm v1' creates it; nothing was changed
          help: remove the operator with 'opm cleanup foo --olm v1', and install it again
        ");
    }
}
