//! `opm upgrade-path`: the upgrades of a cluster from one version to the channel head.

use resolve::pool::Pool;
use resolve::upgrade_path::{Crds, PathReport, Question, upgrade_path};
use source::catalog_bundles::{self, BundleOrCatalog};

use super::offline::sources;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::limits;
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Show the steps from an installed version to the channel head
#[derive(clap::Args)]
#[command(
    long_about = "Show the steps from an installed version to the channel head.\n\n\
        Each step is one resolution of a cluster that follows the channel. It shows the new bundle, the upgrade edge \
        (replaces, skips or skipRange), and the dependencies that are installed or upgraded with it. The exit code is 1 if \
        the cluster does not reach the head, or the bundle given by --to.",
    after_help = "Examples:\n  \
        opm upgrade-path my-catalog etcd --from 0.9.0\n  \
        opm upgrade-path my-catalog etcd --from etcdoperator.v0.9.0 --channel clusterwide-alpha\n  \
        opm upgrade-path my-catalog etcd --from 0.9.0 --olm v1\n  \
        opm upgrade-path quay.io/example/catalog:latest etcd --from 0.9.0 --to 0.9.4 -o json"
)]
pub(crate) struct UpgradePathArgs {
    /// Catalog directory, image or database
    #[arg(value_name = "CATALOG")]
    catalog: String,
    /// Package to upgrade
    #[arg(value_name = "PACKAGE", required_unless_present = "package")]
    named: Option<String>,
    /// Package to upgrade
    #[arg(short, long, value_name = "PACKAGE", conflicts_with = "named")]
    package: Option<String>,
    /// Installed version or bundle
    #[arg(long, value_name = "VERSION|BUNDLE")]
    from: String,
    /// Channel to follow; defaults to the default channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Version or bundle to stop at
    #[arg(long, value_name = "VERSION|BUNDLE")]
    to: Option<String>,
    /// Additional catalog for dependencies; can be repeated
    #[arg(long, value_name = "[NAME=]CATALOG")]
    with: Vec<String>,
    /// OLM generation: v0 upgrades with dependencies, v1 to the highest version unless it refuses a change of a CRD
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = ["v0", "v1"])]
    olm: String,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &UpgradePathArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let references: Vec<String> = std::iter::once(&args.catalog).chain(&args.with).cloned().collect();
    let sources = sources::load(&references, &[], &images, printer)?;
    let opened = match args.olm.as_str() {
        "v1" => Some(catalog_bundles::open(&args.catalog, &images, &limits::from_env()?)?),
        _ => None,
    };
    let objects = match &opened {
        Some(BundleOrCatalog::Catalog(opened)) => Some(opened),
        Some(_) => return Err(Failure::usage(format!("{} is not a catalog", args.catalog))),
        None => None,
    };
    let package = args.named.as_ref().or(args.package.as_ref()).map_or("", String::as_str);
    let read = |name: &str| {
        let (opened, of) = (objects?, objects?.package(package).ok()?);
        of.bundle(name).and_then(|_| opened.read(of, name, false).ok().flatten())
    };
    let compare = |old: &str, new: &str| match (read(old), read(new)) {
        (Some(old), Some(new)) => Some(bundle::review::crd::refusals(old.whole.values(), new.whole.values())),
        _ => None,
    };
    let crds = |old: &str, new: &str| Crds::from(compare(old, new));
    let question = Question {
        package,
        from: &args.from,
        to: args.to.as_deref(),
        channel: args.channel.as_deref(),
        v1: objects.is_some().then_some(&crds),
    };
    let path = upgrade_path(&Pool::new(&sources, "operators"), &question).map_err(Failure::fault)?;
    match args.output.is_json() {
        true => printer.json(&PathReport::from(&path))?,
        false => printer.data().write_all(path.to_string().as_bytes())?,
    }
    if path.arrived { Ok(()) } else { Err(Failure::Reported) }
}
