//! `opm run bundle-upgrade`: upgrades an operator on a cluster to another bundle.

use cluster::WorkContext;
use cluster::extension::RunExtensionUpgrade;
use cluster::run::{RunPlan, RunUpgrade};

use super::flags::{DECOMPRESSION_IMAGE, ServeFlags, WorkFlags, image_name};
use super::olm::{ExtensionFlags, OlmChoice, olm};
use super::session::RunSession;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, TlsFlags};
use crate::live::ClusterProgress;
use crate::output::OutputFlag;
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
    #[arg(long, conflicts_with = "output")]
    dry_run: bool,
    #[command(flatten)]
    output: OutputFlag,
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
    let context = WorkContext { cluster: &cluster, deadline, watcher: &live };
    let plan = match args.olm.is_v1(&session, Some(&context))? {
        true => args.plan_v1(tls, &session, &context)?,
        false => args.plan_v0(tls, &session, &context)?,
    };
    let outcome = session.run(&plan, Some(&context).filter(|_| !args.dry_run), args.serve.keep)?;
    drop(live);
    outcome.print(args.output, printer)
}

impl BundleUpgradeArgs {
    fn plan_v0(&self, tls: &TlsFlags, session: &RunSession, context: &WorkContext<'_>) -> Result<RunPlan, Failure> {
        self.more.refuse_for_v0()?;
        let images = images::open(tls, &self.serve.pull);
        let builder = self.serve.builder(&images);
        let request = RunUpgrade {
            bundle: self.bundle.clone(),
            shared_catalog: self.shared_catalog,
            catalog: self.serve.catalog(&images, &builder, DECOMPRESSION_IMAGE)?,
            settings: self.serve.settings(),
        };
        session.ask(request.plan(context))
    }

    fn plan_v1(&self, tls: &TlsFlags, session: &RunSession, context: &WorkContext<'_>) -> Result<RunPlan, Failure> {
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
        session.ask(request.plan(context, self.dry_run))
    }
}
