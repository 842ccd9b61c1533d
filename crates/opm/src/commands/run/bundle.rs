//! `opm run bundle`: installs a bundle on a cluster, without publishing a catalog.

use cluster::Ledger;
use cluster::run::install_mode::{InstallMode, Targets};
use cluster::run::{self, BundlePlan, Serving, names};

use super::extension;
use super::flags::{DECOMPRESSION_IMAGE, NO_INDEX, ServeFlags, WorkFlags, image_name};
use super::index::{CatalogBuilder, CatalogConsumer, IndexKind, generating};
use super::olm::{ExtensionFlags, InstallFlags, OlmChoice, olm};
use super::session::RunSession;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, TlsFlags};
use crate::limits;
use crate::live::ClusterProgress;
use crate::printer::Printer;

/// Install a bundle on a cluster, without publishing a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Install a bundle on a cluster, without publishing a catalog.\n\n\
        opm builds a catalog with the bundle and serves it from a pod. OLM, which must be running on the cluster, installs the \
        bundle from there. With --index-image, opm adds the bundle to that index and keeps its content. It checks the catalog \
        before it creates anything, and sends it to the pod in ConfigMaps.\n\n\
        With --olm v1, opm pushes the catalog as the image given by --registry, and OLM v1 installs the bundle from a \
        ClusterCatalog with a ClusterExtension. opm rehearses the installation first: it refuses what OLM v1 would refuse \
        before it creates anything.\n\n\
        After a failure or interrupt, opm reports the cause and rolls back everything it created, unless --keep is given. \
        'opm cleanup PACKAGE' removes the operator.",
    after_help = "Examples:\n  \
        opm run bundle quay.io/example/foo-bundle:v1.0.0\n  \
        opm run bundle quay.io/example/foo-bundle:v1.0.0 -n foo --install-mode OwnNamespace\n  \
        opm run bundle quay.io/example/foo-bundle:v1.0.0 --index-image quay.io/operatorhubio/catalog:latest\n  \
        opm run bundle quay.io/example/foo-bundle:v1.0.0 --dry-run\n  \
        opm run bundle quay.io/example/foo-bundle:v1.0.0 -n foo --olm v1 --registry quay.io/example/try:v1"
)]
pub(super) struct BundleArgs {
    /// Bundle image
    #[arg(value_name = "BUNDLE_IMAGE", value_parser = image_name)]
    pub(super) bundle: String,
    /// OLM generation: v0 uses Subscriptions, v1 uses ClusterExtensions, auto detects it from the cluster
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = olm())]
    olm: OlmChoice,
    /// Index image to add the bundle to
    #[arg(long, value_name = "IMAGE", default_value = NO_INDEX, value_parser = image_name)]
    pub(super) index_image: String,
    /// Image that unpacks the catalog in the pod; must have sh and gzip
    #[arg(long, value_name = "IMAGE", default_value = DECOMPRESSION_IMAGE, value_parser = image_name)]
    pub(super) decompression_image: String,
    /// Install mode: AllNamespaces, OwnNamespace, SingleNamespace=NS or MultiNamespace=NS,NS
    #[arg(long, value_name = "InstallModeValue", value_parser = InstallMode::parse)]
    pub(super) install_mode: Option<InstallMode>,
    /// Print the objects as YAML without creating them
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) serve: ServeFlags,
    #[command(flatten)]
    pub(super) extension: InstallFlags,
    #[command(flatten)]
    pub(super) more: ExtensionFlags,
    #[command(flatten)]
    pub(super) cluster: WorkFlags,
}

pub(super) fn run(args: &BundleArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    run_bundle(args, tls, printer).map_err(|failure| failure.context("Failed to run bundle"))
}

fn run_bundle(args: &BundleArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    args.serve.check(tls)?;
    let deadline = args.cluster.deadline();
    let mut session = RunSession::start()?;
    let cluster = match session.connect(&args.cluster.cluster) {
        Ok(cluster) => Some(cluster),
        Err(_) if args.dry_run => None,
        Err(failure) => return Err(failure),
    };
    let live = ClusterProgress::new(printer, args.cluster.verbose);
    let is_v1 = args.olm.is_v1(&session, cluster.as_ref(), deadline, &live)?;
    drop(live);
    if is_v1 {
        return extension::run(args, tls, &mut session, cluster, printer);
    }
    args.extension.refuse_for_v0()?;
    args.more.refuse_for_v0()?;
    let namespace =
        cluster.as_ref().map_or_else(|| args.cluster.shown_namespace(), |cluster| cluster.namespace.clone());
    let images = images::open(tls, &args.serve.pull);
    let ledger = Ledger::default();
    let plan = {
        let builder = CatalogBuilder {
            reader: CatalogConsumer::Pod,
            flags: &args.serve,
            tls,
            images: &images,
            limits: limits::from_env()?,
            decompression_image: &args.decompression_image,
            printer,
        };
        let bundles = builder.bundles(&[&args.bundle])?;
        let facts = bundles.first().map(|bundle| bundle.facts.clone()).unwrap_or_default();
        let targets = Targets::decide(args.install_mode.as_ref(), &facts.install_modes, &facts.csv, &namespace)
            .map_err(Failure::fault)?;
        if let Some(warning) = targets.warning {
            printer.warning(warning);
        }
        if let Some(cluster) = cluster.as_ref().filter(|_| !args.dry_run) {
            let live = ClusterProgress::new(printer, args.cluster.verbose);
            session.ask(run::check(cluster, &facts, &targets, args.serve.keep, deadline, &live))?;
        }
        let index = builder.index(&args.index_image, false)?;
        builder.check_mode(&index)?;
        let item = args.serve.item(&args.bundle, &args.index_image);
        let (channel, content) = match &index {
            IndexKind::Database(path) => {
                let channel = facts.channels.first().cloned().ok_or_else(|| {
                    Failure::message(
                        "load bundle metadata: the bundle names no channel, but a database index requires one",
                    )
                })?;
                (channel, builder.database(&args.index_image, path)?)
            }
            _ => {
                printer.report(&format!("Creating a File-Based Catalog of the bundle \"{}\"", args.bundle));
                if !matches!(index, IndexKind::None) {
                    printer.report(&format!(
                        "Rendering a File-Based Catalog of the Index Image \"{}\" to verify if bundle \"{}\" is present",
                        args.index_image, facts.csv
                    ));
                }
                let catalog = builder.load(&args.index_image, &index)?;
                let channel = names::CHANNEL.to_owned();
                let additions =
                    edit::run_bundle::inject(&catalog, &facts.package, &facts.csv, &channel, &args.index_image)
                        .map_err(|refusal| generating(&facts.csv, &args.bundle, &args.index_image, &refusal))?;
                if !matches!(index, IndexKind::None) {
                    printer.report(&format!("Generated the extra FBC for the bundle image \"{}\"", facts.csv));
                }
                (channel, builder.serve(catalog, &additions, &bundles, &index, &args.index_image)?)
            }
        };
        let serving = Serving {
            bundle_image: args.bundle.clone(),
            items: vec![item],
            index_image: args.index_image.clone(),
            migrated: matches!(index, IndexKind::Migrated(_)),
            content,
            settings: args.serve.settings(),
        };
        BundlePlan { facts, channel, targets, serving }
    };
    let Some(cluster) = cluster.filter(|_| !args.dry_run) else {
        return print(&plan.objects(&namespace), printer);
    };
    let live = ClusterProgress::new(printer, args.cluster.verbose);
    let work = run::run(&cluster, &plan, &ledger, deadline, &live);
    session.work(&cluster, &ledger, args.serve.keep, &live, work)
}

pub(super) fn print(objects: &[serde_json::Value], printer: &mut Printer) -> CommandResult {
    for object in objects {
        let document = fbc::yaml::document(fbc::json::Text::from(object).raw());
        printer.data().write_all(format!("---\n{document}").as_bytes())?;
    }
    Ok(())
}
