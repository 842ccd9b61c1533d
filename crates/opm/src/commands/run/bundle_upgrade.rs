//! `opm run bundle-upgrade`: upgrades an operator on a cluster to another bundle.

use std::time::Instant;

use cluster::extension::{self, RunExtensionUpgrade};
use cluster::run::{self, RunUpgrade};
use cluster::{Cluster, Ledger};
use serde_json::Value;

use super::bundle::print;
use super::flags::{DECOMPRESSION_IMAGE, ServeFlags, WorkFlags, image_name};
use super::olm::{ExtensionFlags, OlmChoice, olm};
use super::session::RunSession;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, TlsFlags};
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
    bundle: String,
    /// OLM generation: v0 uses Subscriptions, v1 uses ClusterExtensions, auto detects it from the cluster
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = olm())]
    olm: OlmChoice,
    /// Change a catalog that 'run bundle' did not create, even if other operators use it
    #[arg(long)]
    shared_catalog: bool,
    /// Print the objects as YAML without creating or changing them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    serve: ServeFlags,
    #[command(flatten)]
    more: ExtensionFlags,
    #[command(flatten)]
    cluster: WorkFlags,
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
    let objects = match args.olm.is_v1(&session, Some(&cluster), deadline, &live)? {
        true => args.upgrade_v1(tls, &mut session, &cluster, deadline, &live)?,
        false => args.upgrade_v0(tls, &mut session, &cluster, deadline, &live)?,
    };
    drop(live);
    print(&objects, printer)
}

impl BundleUpgradeArgs {
    /// Upgrades the operator, or returns the objects of a dry run.
    fn upgrade_v0(
        &self,
        tls: &TlsFlags,
        session: &mut RunSession,
        cluster: &Cluster,
        deadline: Instant,
        live: &ClusterProgress<'_>,
    ) -> Result<Vec<Value>, Failure> {
        self.more.refuse_for_v0()?;
        let images = images::open(tls, &self.serve.pull);
        let builder = self.serve.builder(&images);
        let request = RunUpgrade {
            bundle: self.bundle.clone(),
            shared_catalog: self.shared_catalog,
            catalog: self.serve.catalog(&images, &builder, DECOMPRESSION_IMAGE)?,
            settings: self.serve.settings(),
        };
        let plan = session.ask(request.plan(cluster, deadline, live))?;
        if self.dry_run {
            return Ok(plan.objects());
        }
        let ledger = Ledger::default();
        let work = run::upgrade(cluster, &plan, &ledger, deadline, live);
        session.work(cluster, &ledger, self.serve.keep, live, work)?;
        Ok(Vec::new())
    }

    /// Upgrades the operator with OLM v1, or returns the objects of a dry run.
    fn upgrade_v1(
        &self,
        tls: &TlsFlags,
        session: &mut RunSession,
        cluster: &Cluster,
        deadline: Instant,
        live: &ClusterProgress<'_>,
    ) -> Result<Vec<Value>, Failure> {
        self.serve.check_for_v1()?;
        if self.shared_catalog {
            return Err(Failure::usage("--shared-catalog requires --olm v0"));
        }
        let images = images::open(tls, &self.serve.pull);
        let builder = self.serve.builder(&images);
        let request = RunExtensionUpgrade {
            bundle: self.bundle.clone(),
            ignore_dependencies: self.more.ignore_dependencies,
            ignore_crd_safety: self.more.ignore_crd_safety,
            catalog: self.serve.catalog(&images, &builder, DECOMPRESSION_IMAGE)?,
        };
        let plan = session.ask(request.plan(cluster, self.dry_run, deadline, live))?;
        if self.dry_run {
            return Ok(plan.objects());
        }
        let ledger = Ledger::default();
        let work = extension::upgrade(cluster, &plan, &ledger, deadline, live);
        session.work(cluster, &ledger, self.serve.keep, live, work)?;
        Ok(Vec::new())
    }
}
