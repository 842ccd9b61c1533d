//! `opm run bundle-upgrade`: an operator on a cluster gets a newer bundle.

use cluster::Ledger;
use cluster::run::{self, Serving, UpgradePlan};

use super::bundle::print;
use super::flags::{DECOMPRESSION_IMAGE, ServeFlags, WorkFlags, image_name};
use super::index::{Index, Workshop, generating, images_of};
use super::session::Session;
use crate::exit::{Failure, Outcome};
use crate::images::{Images, TlsFlags};
use crate::limits;
use crate::live::Live;
use crate::printer::Printer;

/// Upgrade an operator on a cluster to another bundle
#[derive(clap::Args)]
#[command(
    long_about = "Upgrade an operator on a cluster to another bundle.\n\n\
        The operator may have been installed by 'opm run bundle' or from any catalog. Its catalog is put together anew, \
        with the bundle behind the head of the channel that the operator follows, and nothing lost; OLM then upgrades \
        to it.\n\n\
        Until the upgrade is approved, a failure puts everything back as it was, unless --keep is given. From then on \
        OLM replaces the old version, and nothing is rolled back.",
    after_help = "Examples:\n  \
        opm run bundle-upgrade quay.io/example/foo-bundle:v1.1.0\n  \
        opm run bundle-upgrade quay.io/example/foo-bundle:v1.1.0 -n foo --timeout 5m\n  \
        opm run bundle-upgrade quay.io/example/foo-bundle:v1.1.0 --dry-run"
)]
pub(super) struct BundleUpgradeArgs {
    /// Image of the bundle
    #[arg(value_name = "BUNDLE_IMAGE", value_parser = image_name)]
    bundle: String,
    /// Change a catalog that 'run bundle' did not make although others use it, too
    #[arg(long)]
    shared_catalog: bool,
    /// Print the objects as YAML, and create and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    serve: ServeFlags,
    #[command(flatten)]
    cluster: WorkFlags,
}

pub(super) fn run(args: &BundleUpgradeArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    upgrade(args, tls, printer).map_err(|failure| match failure {
        Failure::Message(text) => Failure::message(format!("Failed to run bundle upgrade: {text}")),
        Failure::Exit(code, text) => Failure::Exit(code, format!("Failed to run bundle upgrade: {text}")),
        other => other,
    })
}

fn upgrade(args: &BundleUpgradeArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    args.serve.check(tls)?;
    let deadline = args.cluster.deadline();
    let mut session = Session::start()?;
    let cluster = session.connect(&args.cluster.cluster)?;
    let images = Images::new(tls, &args.serve.pull);
    let ledger = Ledger::default();
    let workshop = Workshop {
        flags: &args.serve,
        tls,
        images: &images,
        limits: limits::from_env()?,
        decompression_image: DECOMPRESSION_IMAGE,
        printer,
    };
    let mut newest = workshop.bundles(&[&args.bundle])?;
    let facts = newest.first().map(|bundle| bundle.facts.clone()).unwrap_or_default();
    let live = Live::new(printer, args.cluster.verbose);
    let installed = session.ask(run::find(&cluster, &facts.package, args.shared_catalog, deadline, &live))?;
    let index_image = installed.index_image.clone();
    let index = workshop.index(&index_image, installed.migrated)?;
    workshop.check_mode(&index)?;
    let mut items = installed.items.clone();
    items.push(args.serve.item(&args.bundle, &index_image));
    let content = match &index {
        Index::Database(path) => workshop.database(&index_image, path)?,
        _ => {
            printer.tell(&format!("Creating a File-Based Catalog of the bundle \"{}\"", args.bundle));
            let catalog = workshop.load(&index_image, &index)?;
            let mut bundles = workshop.bundles(&images_of(&installed.items))?;
            bundles.append(&mut newest);
            let names: Vec<String> = bundles.iter().map(|bundle| bundle.facts.csv.clone()).collect();
            let additions =
                edit::run_bundle::extend(&catalog, &facts.package, &names, &installed.channel, &index_image)
                    .map_err(|refusal| generating(&facts.csv, &args.bundle, &index_image, &refusal))?;
            workshop.serve(catalog, &additions, &bundles, &index, &index_image)?
        }
    };
    let serving = Serving {
        bundle_image: args.bundle.clone(),
        items,
        index_image,
        migrated: matches!(index, Index::Migrated(_)),
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
