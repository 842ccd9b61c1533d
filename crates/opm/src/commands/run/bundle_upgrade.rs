//! `opm run bundle-upgrade`: upgrades an operator on a cluster to another bundle.

use cluster::Ledger;
use cluster::run::{self, Serving, UpgradePlan};

use super::bundle::print;
use super::extension_upgrade;
use super::flags::{DECOMPRESSION_IMAGE, ServeFlags, WorkFlags, image_name};
use super::index::{CatalogBuilder, CatalogConsumer, IndexKind, generating, images_of};
use super::olm::{ExtensionFlags, OlmChoice, olm};
use super::session::RunSession;
use crate::exit::CommandResult;
use crate::images::{self, TlsFlags};
use crate::limits;
use crate::live::ClusterProgress;
use crate::printer::Printer;

/// Upgrade an operator on a cluster to another bundle
#[derive(clap::Args)]
#[command(
    long_about = "Upgrade an operator on a cluster to another bundle.\n\n\
        The operator can come from 'opm run bundle' or from any catalog. opm rebuilds its catalog with the bundle as the new \
        head of the channel that the operator follows, and keeps all other content. OLM then upgrades the operator.\n\n\
        If a step fails before the upgrade is approved, opm rolls back all changes, unless --keep is given. After approval, \
        OLM replaces the old version and opm rolls nothing back.\n\n\
        With --olm v1, the operator must come from 'opm run bundle --olm v1'. opm pushes its catalog again, under the same name \
        or the one given by --registry. It refuses CRD changes that OLM v1 would refuse before it changes anything, unless \
        --ignore-crd-safety is given.",
    after_help = "Examples:\n  \
        opm run bundle-upgrade quay.io/example/foo-bundle:v1.1.0\n  \
        opm run bundle-upgrade quay.io/example/foo-bundle:v1.1.0 -n foo --timeout 5m\n  \
        opm run bundle-upgrade quay.io/example/foo-bundle:v1.1.0 --dry-run\n  \
        opm run bundle-upgrade quay.io/example/foo-bundle:v1.1.0 --olm v1"
)]
pub(super) struct BundleUpgradeArgs {
    /// Bundle image
    #[arg(value_name = "BUNDLE_IMAGE", value_parser = image_name)]
    pub(super) bundle: String,
    /// OLM generation: v0 uses Subscriptions, v1 uses ClusterExtensions, auto detects it from the cluster
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = olm())]
    olm: OlmChoice,
    /// Change a catalog that 'run bundle' did not create, even if other operators use it
    #[arg(long)]
    pub(super) shared_catalog: bool,
    /// Print the objects as YAML without creating or changing them
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) serve: ServeFlags,
    #[command(flatten)]
    pub(super) more: ExtensionFlags,
    #[command(flatten)]
    pub(super) cluster: WorkFlags,
}

pub(super) fn run(args: &BundleUpgradeArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    upgrade(args, tls, printer).map_err(|failure| failure.context("Failed to run bundle upgrade"))
}

fn upgrade(args: &BundleUpgradeArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    args.serve.check(tls)?;
    let deadline = args.cluster.deadline();
    let mut session = RunSession::start()?;
    let cluster = session.connect(&args.cluster.cluster)?;
    let live = ClusterProgress::new(printer, args.cluster.verbose);
    let is_v1 = args.olm.is_v1(&session, Some(&cluster), deadline, &live)?;
    drop(live);
    if is_v1 {
        return extension_upgrade::run(args, tls, &mut session, &cluster, printer);
    }
    args.more.refuse_for_v0()?;
    let images = images::open(tls, &args.serve.pull);
    let ledger = Ledger::default();
    let builder = CatalogBuilder {
        reader: CatalogConsumer::Pod,
        flags: &args.serve,
        tls,
        images: &images,
        limits: limits::from_env()?,
        decompression_image: DECOMPRESSION_IMAGE,
        printer,
    };
    let mut newest = builder.bundles(&[&args.bundle])?;
    let facts = newest.first().map(|bundle| bundle.facts.clone()).unwrap_or_default();
    let live = ClusterProgress::new(printer, args.cluster.verbose);
    let installed = session.ask(run::find(&cluster, &facts.package, args.shared_catalog, deadline, &live))?;
    let index_image = installed.index_image.clone();
    let index = builder.index(&index_image, installed.migrated)?;
    builder.check_mode(&index)?;
    let mut items = installed.items.clone();
    items.push(args.serve.item(&args.bundle, &index_image));
    let content = match &index {
        IndexKind::Database(path) => builder.database(&index_image, path)?,
        _ => {
            printer.report(&format!("Creating a File-Based Catalog of the bundle \"{}\"", args.bundle));
            let catalog = builder.load(&index_image, &index)?;
            let mut bundles = builder.bundles(&images_of(&installed.items))?;
            bundles.append(&mut newest);
            let names: Vec<String> = bundles.iter().map(|bundle| bundle.facts.csv.clone()).collect();
            let additions =
                edit::run_bundle::extend(&catalog, &facts.package, &names, &installed.channel, &index_image)
                    .map_err(|refusal| generating(&facts.csv, &args.bundle, &index_image, &refusal))?;
            builder.serve(catalog, &additions, &bundles, &index, &index_image)?
        }
    };
    let serving = Serving {
        bundle_image: args.bundle.clone(),
        items,
        index_image,
        migrated: matches!(index, IndexKind::Migrated(_)),
        content,
        settings: args.serve.settings(),
    };
    let plan = UpgradePlan { facts, installed, serving };
    if args.dry_run {
        drop(live);
        return print(&plan.objects(), printer);
    }
    let work = run::upgrade(&cluster, &plan, &ledger, deadline, &live);
    session.work(&cluster, &ledger, args.serve.keep, &live, work)
}
