//! `opm run bundle`: installs a bundle on a cluster, without publishing a catalog.

use cluster::extension::RunExtension;
use cluster::run::install_mode::InstallMode;
use cluster::run::{NO_INDEX, RunBundle, RunPlan};
use cluster::{Watcher, WorkContext};

use super::flags::{DECOMPRESSION_IMAGE, ServeFlags, WorkFlags, image_name};
use super::olm::{ExtensionFlags, InstallFlags, Installer, OlmChoice, olm};
use super::session::RunSession;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, TlsFlags};
use crate::live::ClusterProgress;
use crate::output::OutputFlag;
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
    bundle: String,
    /// OLM generation: v0 uses Subscriptions, v1 uses ClusterExtensions, auto detects it from the cluster
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = olm())]
    olm: OlmChoice,
    /// Index image to add the bundle to
    #[arg(long, value_name = "IMAGE", default_value = NO_INDEX, value_parser = image_name)]
    index_image: String,
    /// Image that unpacks the catalog in the pod; must have sh and gzip
    #[arg(long, value_name = "IMAGE", default_value = DECOMPRESSION_IMAGE, value_parser = image_name)]
    decompression_image: String,
    /// Install mode: AllNamespaces, OwnNamespace, SingleNamespace=NS or MultiNamespace=NS,NS
    #[arg(long, value_name = "InstallModeValue", value_parser = InstallMode::parse)]
    install_mode: Option<InstallMode>,
    /// Print the objects as YAML without creating them
    #[arg(long, conflicts_with = "output")]
    dry_run: bool,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    serve: ServeFlags,
    #[command(flatten)]
    extension: InstallFlags,
    #[command(flatten)]
    more: ExtensionFlags,
    #[command(flatten)]
    cluster: WorkFlags,
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
    let context = cluster.as_ref().map(|cluster| WorkContext { cluster, deadline, watcher: &live });
    let plan = match args.olm.is_v1(&session, context.as_ref())? {
        true => args.plan_v1(tls, &session, context.as_ref(), &live)?,
        false => args.plan_v0(tls, &session, context.as_ref(), &live)?,
    };
    let outcome = session.run(&plan, context.as_ref().filter(|_| !args.dry_run), args.serve.keep)?;
    drop(live);
    outcome.print(args.output, printer)
}

impl BundleArgs {
    fn plan_v0(
        &self,
        tls: &TlsFlags,
        session: &RunSession,
        context: Option<&WorkContext<'_>>,
        watcher: &dyn Watcher,
    ) -> Result<RunPlan, Failure> {
        self.extension.refuse_for_v0()?;
        self.more.refuse_for_v0()?;
        let images = images::open(tls, &self.serve.pull);
        let builder = self.serve.builder(&images);
        let request = RunBundle {
            bundle: self.bundle.clone(),
            index_image: self.index_image.clone(),
            install_mode: self.install_mode.clone(),
            namespace: self.namespace(context),
            keep: self.serve.keep,
            catalog: self.serve.catalog(&images, &builder, &self.decompression_image)?,
            settings: self.serve.settings(),
        };
        session.ask(request.plan(context.filter(|_| !self.dry_run), watcher))
    }

    fn plan_v1(
        &self,
        tls: &TlsFlags,
        session: &RunSession,
        context: Option<&WorkContext<'_>>,
        watcher: &dyn Watcher,
    ) -> Result<RunPlan, Failure> {
        self.serve.check_for_v1()?;
        if self.decompression_image != DECOMPRESSION_IMAGE {
            return Err(Failure::usage("--decompression-image requires --olm v0: with v1, no pod serves the catalog"));
        }
        let images = images::open(tls, &self.serve.pull);
        let builder = self.serve.builder(&images);
        let request = RunExtension {
            bundle: self.bundle.clone(),
            index_image: self.index_image.clone(),
            install_mode: self.install_mode.clone(),
            namespace: self.namespace(context),
            create_namespace: self.extension.create_namespace,
            name: self.extension.name.clone(),
            admin: self.extension.installer == Some(Installer::Admin),
            adopt_crds: self.extension.adopt_crds,
            ignore_dependencies: self.more.ignore_dependencies,
            ignore_crd_safety: self.more.ignore_crd_safety,
            keep: self.serve.keep,
            catalog: self.serve.catalog(&images, &builder, DECOMPRESSION_IMAGE)?,
        };
        session.ask(request.plan(context, self.dry_run, watcher))
    }

    fn namespace(&self, context: Option<&WorkContext<'_>>) -> String {
        context.map_or_else(|| self.cluster.shown_namespace(), |context| context.cluster.namespace.clone())
    }
}
