//! `opm run bundle --olm v1`: rehearses a bundle, pushes it in its own catalog, and installs it with OLM v1.

use std::path::Path;

use bundle::rehearse::v1::{CertificateProvider, Profile, Runtime};
use bundle::rehearse::{InstallModeType, Installer, Level, OlmGeneration, RehearsalInput, Rehearse};
use bundle::review::crd;
use cluster::extension::{self, Carried, Extension, OlmFeatures};
use cluster::run::install_mode::{InstallMode, ModeType};
use cluster::run::names;
use cluster::run::pod::CatalogPodContent;
use cluster::{Cluster, Ledger};
use fbc::Limits;
use serde_json::Value;

use super::bundle::{BundleArgs, print};
use super::flags::{DECOMPRESSION_IMAGE, NO_INDEX, ServeFlags};
use super::index::{CatalogBuilder, CatalogConsumer, IndexKind, generating};
use super::session::RunSession;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, TlsFlags};
use crate::limits;
use crate::live::ClusterProgress;
use crate::printer::Printer;

/// The result of a rehearsal.
pub(super) struct Rehearsed {
    pub(super) bundle: RehearsalInput,
    pub(super) objects: Vec<Value>,
    /// The minimal permissions to install it, as a ClusterRole.
    pub(super) role: Value,
}

/// The parameters of a rehearsal.
pub(super) struct Rehearsal<'a> {
    pub(super) offer: &'a OlmFeatures,
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) watch_namespace: Option<&'a str>,
    pub(super) ignore_dependencies: bool,
}

/// Reads a bundle directory like OLM v1.
pub(super) fn read(directory: &Path, limits: &Limits) -> Result<RehearsalInput, Failure> {
    let whole = bundle::read_whole(directory, limits).map_err(Failure::message)?;
    Ok(RehearsalInput::new(&whole))
}

impl Rehearsal<'_> {
    /// Rehearses a bundle for the cluster's OLM v1, or fails with OLM's message.
    pub(super) fn of(&self, mut bundle: RehearsalInput, printer: &Printer) -> Result<Rehearsed, Failure> {
        if self.ignore_dependencies && !bundle.dependencies.is_empty() {
            let left_out = bundle.dependencies.join(", ");
            printer.warning(&format!("OLM v1 installs {} without its dependencies ({left_out})", bundle.name));
            bundle.dependencies.clear();
        }
        let request = Rehearse {
            profile: self.profile(),
            watch: self.watch_namespace.map(str::to_owned).into_iter().collect(),
            extension: Some(self.name.to_owned()),
            certificates: match self.offer.gate("WebhookProviderOpenshiftServiceCA") {
                Some(true) => CertificateProvider::OpenShift,
                _ => CertificateProvider::CertManager,
            },
            ..Rehearse::new(OlmGeneration::V1)
        };
        let prediction = request.predict(&bundle, self.namespace);
        let refused = |words: &str, help: &str| {
            Failure::message(format!("OLM v1 refuses the bundle: {words}; nothing was created{help}"))
        };
        if let Some(refusal) = &prediction.refusal {
            let help = match refusal.id {
                "olmv1-dependency" => "\n  help: use --ignore-dependencies to install without them",
                _ => "",
            };
            return Err(refused(&refusal.message, help));
        }
        if let Some(note) = prediction.notes.iter().find(|note| note.refused) {
            return Err(refused(&note.message, ""));
        }
        for limit in &prediction.limits {
            let words = format!("{} has {}, the limit is {} for {}", limit.object, limit.size, limit.limit, limit.what);
            match limit.level {
                Level::Over => return Err(refused(&words, "")),
                Level::Near => printer.warning(&words),
            }
        }
        let role = bundle::rehearse::installer(&prediction.objects, self.name, Installer::Every);
        Ok(Rehearsed { bundle, objects: prediction.objects, role })
    }

    fn profile(&self) -> Profile {
        let offer = self.offer;
        let guessed = if offer.needs_account { Profile::NEWEST - 1 } else { Profile::NEWEST };
        let minor = offer.minor.unwrap_or(guessed).clamp(Profile::OLDEST, Profile::NEWEST);
        let mut profile = Profile::of(minor).unwrap_or_default();
        if offer.gate("BoxcutterRuntime") == Some(true) {
            profile.runtime = Runtime::Boxcutter;
        }
        profile.single_own_namespace =
            offer.gate("SingleOwnNamespaceInstallSupport").unwrap_or(profile.single_own_namespace);
        profile.deployment_config = offer.gate("DeploymentConfig").unwrap_or(profile.deployment_config);
        profile
    }
}

/// Returns the namespace that an operator watches; `None` for all.
fn watch_namespace(
    requested: Option<&InstallMode>,
    namespace: &str,
    bundle: &RehearsalInput,
) -> Result<Option<String>, Failure> {
    let Some(requested) = requested else {
        let own = !bundle.supports(InstallModeType::AllNamespaces) && bundle.supports(InstallModeType::OwnNamespace);
        return Ok(own.then(|| namespace.to_owned()));
    };
    match (requested.mode, &*requested.namespaces) {
        (ModeType::AllNamespaces, []) => Ok(None),
        (ModeType::OwnNamespace, []) => Ok(Some(namespace.to_owned())),
        (ModeType::SingleNamespace, [one]) => Ok(Some(one.clone())),
        _ => Err(Failure::usage(format!(
            "--olm v1 does not support --install-mode {requested}: an operator watches all namespaces, its own, or one"
        ))),
    }
}

/// Returns the names of the CRDs of a rehearsal.
pub(super) fn definitions(objects: &[Value]) -> Vec<String> {
    let crds = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition");
    crds.filter_map(|crd| crd["metadata"]["name"].as_str()).map(str::to_owned).collect()
}

/// Returns the distinct kinds of objects.
fn kinds(objects: &[Value]) -> Vec<(String, String)> {
    let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let mut kinds: Vec<_> = objects.iter().map(|one| (text(one, "apiVersion"), text(one, "kind"))).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

impl ServeFlags {
    /// Refuses flags for the registry pod of OLM v0, and requires the catalog image of OLM v1.
    pub(super) fn check_for_v1(&self) -> CommandResult {
        let pod = [
            ("--service-account", !self.service_account.is_empty()),
            ("--pull-secret-name", !self.pull_secret_name.is_empty()),
            ("--ca-secret-name", !self.ca_secret_name.is_empty()),
            ("--image-pull-policy", self.image_pull_policy != "Always"),
            ("--security-context-config", self.security_context_config != cluster::run::pod::Security::Legacy),
            ("--run-as-non-root", self.run_as_non_root),
            ("--run-as-user", self.run_as_user.is_some()),
            ("--registry-base", self.registry_base.is_some()),
        ];
        if let Some((flag, _)) = pod.iter().find(|(_, given)| *given) {
            return Err(Failure::usage(format!("{flag} requires --olm v0: with v1, no pod serves the catalog")));
        }
        Ok(())
    }
}

/// Returns the usage error for a missing catalog image.
pub(super) fn no_registry() -> Failure {
    Failure::usage("--olm v1 requires --registry REF: OLM v1 reads catalogs only from images, so opm must push one")
}

pub(super) fn run(
    args: &BundleArgs,
    tls: &TlsFlags,
    session: &mut RunSession,
    cluster: Option<Cluster>,
    printer: &mut Printer,
) -> CommandResult {
    let flags = &args.serve;
    flags.check_for_v1()?;
    if args.decompression_image != DECOMPRESSION_IMAGE {
        return Err(Failure::usage("--decompression-image requires --olm v0: with v1, no pod serves the catalog"));
    }
    let registry = flags.registry.as_ref().ok_or_else(no_registry)?;
    let deadline = args.cluster.deadline();
    let namespace =
        cluster.as_ref().map_or_else(|| args.cluster.shown_namespace(), |cluster| cluster.namespace.clone());
    let images = images::open(tls, &flags.pull);
    let ignore_dependencies = args.more.ignore_dependencies;
    let builder = CatalogBuilder {
        reader: CatalogConsumer::Image { push: !args.dry_run, ignore_dependencies },
        flags,
        tls,
        images: &images,
        limits: limits::from_env()?,
        decompression_image: DECOMPRESSION_IMAGE,
        printer,
    };
    let bundles = builder.bundles(&[&args.bundle])?;
    let Some(pulled) = bundles.first() else { return Err(Failure::message("no bundle was pulled")) };
    let facts = &pulled.facts;
    let live = ClusterProgress::new(printer, args.cluster.verbose);
    let offer = match &cluster {
        Some(cluster) => session.ask(extension::offer(cluster, deadline, &live))?,
        // Assume the newest release.
        None => OlmFeatures { has_config: true, ..OlmFeatures::default() },
    };
    let bundle = read(&pulled.directory, &builder.limits)?;
    let watched = watch_namespace(args.install_mode.as_ref(), &namespace, &bundle)?;
    let name = args.extension.name.clone().unwrap_or_else(|| facts.package.clone());
    let rehearsal = Rehearsal {
        offer: &offer,
        name: &name,
        namespace: &namespace,
        watch_namespace: watched.as_deref(),
        ignore_dependencies,
    };
    let rehearsed = rehearsal.of(bundle, printer)?;
    if watched.is_some() && !offer.has_config {
        return Err(Failure::message(
            "OLM v1 of this cluster does not support watching a single namespace: its ClusterExtension has no spec.config; \
             nothing was created",
        ));
    }
    let extension = Extension {
        account: args.extension.account(&offer, &rehearsed.role),
        package: facts.package.clone(),
        bundle: facts.csv.clone(),
        version: rehearsed.bundle.version.clone(),
        namespace,
        create_namespace: args.extension.create_namespace,
        watch_namespace: watched,
        ignore_crd_safety: args.more.ignore_crd_safety,
        definitions: definitions(&rehearsed.objects),
        adopt_crds: args.extension.adopt_crds,
        kinds: kinds(&rehearsed.objects),
        name,
    };
    if let Some(cluster) = cluster.as_ref().filter(|_| !args.dry_run) {
        session.ask(extension::check(cluster, &extension, flags.keep, deadline, &live))?;
        if extension.adopt_crds && !extension.ignore_crd_safety {
            let there = session.ask(extension::definitions(cluster, &extension.definitions, deadline, &live))?;
            definitions_are_safe(&there, &rehearsed.objects)?;
        }
    }
    let index = builder.index(&args.index_image, false)?;
    builder.check_mode(&index)?;
    let image = match &index {
        IndexKind::Database(path) => return builder.database(&args.index_image, path).map(drop),
        _ => {
            let catalog = builder.load(&args.index_image, &index)?;
            let additions =
                edit::run_bundle::inject(&catalog, &facts.package, &facts.csv, names::CHANNEL, &args.index_image)
                    .map_err(|refusal| generating(&facts.csv, &args.bundle, &args.index_image, &refusal))?;
            pushed(builder.serve(catalog, &additions, &bundles, &index, &args.index_image)?)?
        }
    };
    let carried = Carried {
        image,
        registry: registry.to_string(),
        index_image: args.index_image.clone(),
        items: vec![flags.item(&args.bundle, NO_INDEX)],
    };
    let Some(cluster) = cluster.filter(|_| !args.dry_run) else {
        drop(live);
        let objects: Vec<Value> = extension.objects(&carried).into_iter().map(|(_, object)| object).collect();
        return print(&objects, printer);
    };
    let ledger = Ledger::default();
    let work = extension::install(&cluster, &extension, &carried, &ledger, deadline, &live);
    session.work(&cluster, &ledger, flags.keep, &live, work)
}

/// Returns the pushed image of a catalog.
pub(super) fn pushed(content: CatalogPodContent) -> Result<String, Failure> {
    match content {
        CatalogPodContent::Image(image) => Ok(image),
        _ => Err(no_registry()),
    }
}

/// Fails with OLM's message if OLM v1 would refuse the changes to existing CRDs.
pub(super) fn definitions_are_safe(there: &[Value], objects: &[Value]) -> CommandResult {
    let blocking = crd::refusals(there, objects);
    match blocking.is_empty() {
        true => Ok(()),
        false => Err(Failure::message(format!(
            "OLM v1 refuses the CRD changes; nothing was changed:\n  {}\n  help: use --ignore-crd-safety to install \
             them anyway",
            blocking.join("\n  ")
        ))),
    }
}
