//! `run bundle --olm v1`: turns a bundle into a catalog, from which OLM v1 installs it.

use bundle::rehearse::OlmGeneration;

use super::objects::{Carried, Extension, InstallerAccount, adopt};
use super::offer::{OlmFeatures, offer};
use super::rehearsal::{Rehearsal, read, watch_namespace};
use super::{preflight, wait};
use crate::context::WorkContext;
use crate::ledger::Ledger;
use crate::request::{ObjectName, Requests};
use crate::run::RunPlan;
use crate::run::catalog::{CatalogConsumer, CatalogOptions, NO_INDEX, RunCatalog, RunCatalogError, blocking};
use crate::run::install_mode::InstallMode;
use crate::run::names;
use crate::run::pod::CatalogPodContent;
use crate::run::report::{RunOperator, RunReport};
use crate::views::DefinitionMetadata;
use crate::{Error, ResourceKind, Watcher};

/// The request of `run bundle --olm v1`.
#[derive(Clone)]
pub struct RunExtension<'a> {
    /// The bundle image.
    pub bundle: String,
    /// The index image to add it to.
    pub index_image: String,
    /// The requested install mode.
    pub install_mode: Option<InstallMode>,
    /// The namespace of the installation.
    pub namespace: String,
    /// Whether to create that namespace if it does not exist.
    pub create_namespace: bool,
    /// The name of the ClusterExtension; defaults to the package.
    pub name: Option<String>,
    /// Whether the installer account gets all permissions, instead of those that the bundle needs.
    pub admin: bool,
    /// Whether to adopt existing CRDs.
    pub adopt_crds: bool,
    /// Whether to install without the dependencies of the bundle.
    pub ignore_dependencies: bool,
    /// Whether to install despite CRD changes that OLM v1 considers unsafe.
    pub ignore_crd_safety: bool,
    /// Whether created objects stay after a failure.
    pub keep: bool,
    /// How the catalog is built.
    pub catalog: CatalogOptions<'a>,
}

/// What `run bundle --olm v1` creates.
#[derive(Debug, Clone)]
pub struct ExtensionPlan {
    extension: Extension,
    carried: Carried,
}

impl ExtensionPlan {
    /// Returns the objects in creation order.
    pub(crate) fn objects(&self) -> Vec<serde_json::Value> {
        self.extension.objects(&self.carried).into_iter().map(|(_, object)| object).collect()
    }
}

impl RunExtension<'_> {
    /// Pulls the bundle, rehearses its installation, and builds its catalog, which is pushed unless it is a dry run.
    /// A dry run can do without a cluster, and checks nothing there.
    ///
    /// # Errors
    /// Fails if an image cannot be used, OLM v1 would refuse the bundle, or the cluster has a conflict. The cluster is
    /// not changed.
    pub async fn plan(
        &self,
        context: Option<&WorkContext<'_>>,
        dry_run: bool,
        watcher: &dyn Watcher,
    ) -> Result<RunPlan, Error> {
        let registry = self.catalog.registry.as_ref().ok_or(RunCatalogError::NoRegistry)?;
        let consumer = CatalogConsumer::Image { push: !dry_run, ignore_dependencies: self.ignore_dependencies };
        let catalog = RunCatalog { consumer, options: &self.catalog, watcher };
        let pulled = blocking(|| catalog.pull(&self.bundle))?;
        let offer = match context {
            Some(context) => offer(context).await?,
            // Assume the newest release.
            None => OlmFeatures { has_config: true, ..OlmFeatures::default() },
        };
        let bundle = blocking(|| read(&pulled.directory, &self.catalog.limits))?;
        let watched = watch_namespace(self.install_mode.as_ref(), &self.namespace, &bundle)?;
        let name = self.name.clone().unwrap_or_else(|| pulled.facts.package.clone());
        let rehearsal = Rehearsal {
            offer: &offer,
            name: &name,
            namespace: &self.namespace,
            watch_namespace: watched.as_deref(),
            ignore_dependencies: self.ignore_dependencies,
        };
        let rehearsed = rehearsal.of(bundle, watcher)?;
        if watched.is_some() && !offer.has_config {
            return Err(Error::refused(
                "OLM v1 of this cluster does not support watching a single namespace: its ClusterExtension has no \
                 spec.config; nothing was created",
            ));
        }
        let facts = pulled.facts.clone();
        let extension = Extension {
            account: match offer.needs_account {
                false => InstallerAccount::None,
                true if self.admin => InstallerAccount::Admin,
                true => rehearsed.account(),
            },
            package: facts.package.clone(),
            bundle: facts.csv.clone(),
            version: rehearsed.version.clone(),
            namespace: self.namespace.clone(),
            create_namespace: self.create_namespace,
            watch_namespace: watched,
            ignore_crd_safety: self.ignore_crd_safety,
            definitions: rehearsed.definitions(),
            adopt_crds: self.adopt_crds,
            kinds: rehearsed.kinds(),
            name,
        };
        if let Some(context) = context.filter(|_| !dry_run) {
            preflight::check(context, &extension, self.keep).await?;
            if extension.adopt_crds && !extension.ignore_crd_safety {
                rehearsed.check_definitions(context).await?;
            }
        }
        let index_image = &self.index_image;
        let image = blocking(|| {
            let index = catalog.index(index_image, false)?;
            pushed(catalog.serve(&index, index_image, &self.bundle, vec![pulled], |fbc, _| {
                edit::run_bundle::inject(fbc, &facts.package, &facts.csv, names::CHANNEL, index_image)
            })?)
        })?;
        let carried = Carried {
            image,
            registry: registry.to_string(),
            index_image: index_image.clone(),
            items: vec![self.catalog.item(&self.bundle, NO_INDEX)],
        };
        Ok(RunPlan::Extension(Box::new(ExtensionPlan { extension, carried })))
    }
}

/// Returns the pushed image of a catalog.
pub(super) fn pushed(content: CatalogPodContent) -> Result<String, RunCatalogError> {
    match content {
        CatalogPodContent::Image(image) => Ok(image),
        _ => Err(RunCatalogError::NoRegistry),
    }
}

/// Installs a bundle and waits until its operator runs. The ledger records all created objects, whatever the outcome.
///
/// # Errors
/// Fails if an object cannot be created, or the installation does not finish before the deadline, with the cause.
pub(crate) async fn install(
    context: &WorkContext<'_>,
    plan: &ExtensionPlan,
    ledger: &Ledger,
) -> Result<RunReport, Error> {
    let (requests, watcher) = (&context.requests(), context.watcher);
    let ExtensionPlan { extension, carried } = plan;
    requests.check_time()?;
    let mut wanted = ObjectName::new(ResourceKind::CLUSTER_EXTENSION, "", &extension.name);
    for (kind, object) in extension.objects(carried) {
        let name = ObjectName::of(kind, &object)?;
        if kind == ResourceKind::NAMESPACE && requests.metadata(&name).await?.is_some() {
            continue;
        }
        if kind == ResourceKind::CLUSTER_EXTENSION {
            // Create the ClusterExtension after the catalog is served: OLM v1 retries with growing backoff.
            wait::for_catalog(requests, &extension.catalog_name()).await?;
            adopt_definitions(requests, ledger, extension).await?;
            wanted = name.clone();
        }
        let creating = |error: Error| Error::refused(format!("error creating {name}: {error}"));
        ledger.create(requests, kind, object, None).await.map_err(creating)?;
        watcher.done(&format!("Created {name}"));
    }
    wait::for_bundle(requests, &wanted, &extension.bundle).await?;
    watcher.done(&format!("OLM v1 has applied \"{}\"", extension.bundle));
    wait::for_deployments(requests, &wanted, &extension.namespace).await?;
    let operator = RunOperator {
        package: &extension.package,
        version: &extension.version,
        csv: &extension.bundle,
        namespace: &extension.namespace,
        mode: Some(InstallMode::watching(extension.watch_namespace.as_slice(), &extension.namespace)),
        catalog: &ObjectName::new(ResourceKind::CLUSTER_CATALOG, "", &extension.catalog_name()),
    };
    Ok(RunReport::installed(OlmGeneration::V1, operator, ledger, requests))
}

/// Adopts existing definitions into the installation, if requested.
async fn adopt_definitions(requests: &Requests<'_>, ledger: &Ledger, extension: &Extension) -> Result<(), Error> {
    if !extension.adopt_crds {
        return Ok(());
    }
    for name in &extension.definitions {
        let crd = ObjectName::new(ResourceKind::CRD, "", name);
        if requests.metadata(&crd).await?.is_some() {
            let adopt = |crd: &mut DefinitionMetadata| adopt(&mut crd.metadata, &extension.name, &extension.namespace);
            ledger.change(requests, &crd, adopt).await?;
        }
    }
    Ok(())
}
