//! `opm cleanup`: removes an operator that `opm run bundle` installed.

use cluster::run::{RunCleanup, cleanup};
use cluster::{WorkContext, extension};

use super::run::WorkFlags;
use super::run::olm::{OlmChoice, olm};
use super::run::session::RunSession;
use crate::exit::{CommandResult, Failure};
use crate::live::ClusterProgress;
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Remove an operator that 'run bundle' installed
#[derive(clap::Args)]
#[command(
    long_about = "Remove an operator that 'run bundle' installed.\n\n\
        Deletes the subscription, the operator, the dependencies that were installed for it, its custom resource \
        definitions and its catalog. If no other operator is left in the namespace, also deletes the operator group that \
        'run bundle' created. Deleting a custom resource definition deletes all its objects; --delete-all=false keeps \
        them. A definition that existed before, or that another operator needs, stays.\n\n\
        The command refuses an operator that 'run bundle' did not install; --force removes it anyway and keeps its \
        catalog.\n\n\
        With --olm v1, deletes the ClusterExtension with all its objects, its catalog, and the service account and \
        namespace that 'run bundle' created. OLM v1 keeps no custom resource definitions.",
    after_help = "Examples:\n  \
        opm cleanup foo\n  \
        opm cleanup foo -n foo --delete-all=false --delete-operator-groups\n  \
        opm cleanup foo --olm v1"
)]
pub(crate) struct CleanupArgs {
    /// Package of the operator
    #[arg(value_name = "PACKAGE")]
    package: String,
    /// OLM generation: v0 (Subscriptions), v1 (ClusterExtensions) or auto (the one on the cluster)
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = olm())]
    olm: OlmChoice,
    /// Also delete custom resource definitions and operator groups
    #[arg(
        long,
        action = clap::ArgAction::Set,
        value_name = "true|false",
        default_value = "true",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        value_parser = crate::cli::parse_bool
    )]
    delete_all: bool,
    /// Delete the custom resource definitions that the operator owns, and all their objects
    #[arg(long)]
    delete_crds: bool,
    /// Delete the operator group that 'run bundle' created
    #[arg(long)]
    delete_operator_groups: bool,
    /// Remove an operator that 'run bundle' did not install
    #[arg(long)]
    force: bool,
    /// Ignored; accepted because all cluster commands accept it
    #[arg(long, value_name = "NAME", hide = true)]
    service_account: Option<String>,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    cluster: WorkFlags,
}

pub(crate) fn run(args: &CleanupArgs, printer: &mut Printer) -> CommandResult {
    let deadline = args.cluster.deadline();
    let session = RunSession::start()?;
    let cluster = session.connect(&args.cluster.cluster)?;
    let live = ClusterProgress::new(printer, args.cluster.verbose);
    let context = WorkContext { cluster: &cluster, deadline, watcher: &live };
    let is_v1 = args.olm.is_v1(&session, Some(&context))?;
    let found = if is_v1 {
        refuse_for_v1(args)?;
        let options = extension::ExtensionCleanup { package: args.package.clone(), force: args.force };
        session.ask(extension::cleanup(&context, &options))
    } else {
        let options = RunCleanup {
            package: args.package.clone(),
            crds: args.delete_all || args.delete_crds,
            operator_groups: args.delete_all || args.delete_operator_groups,
            force: args.force,
        };
        session.ask(cleanup(&context, &options))
    };
    let report = found.map_err(|failure| failure.context("Cleanup operator"))?;
    drop(live);
    if args.output.is_json() {
        return Ok(printer.json(&report)?);
    }
    match report.found {
        true => printer.report(&format!("Operator \"{}\" uninstalled", args.package)),
        false => printer.warning(&format!("Cleanup operator: package \"{}\" not found", args.package)),
    }
    Ok(())
}

/// Rejects flags that do not apply to OLM v1.
fn refuse_for_v1(args: &CleanupArgs) -> CommandResult {
    let why =
        "cannot be used with --olm v1: CRDs are deleted with their ClusterExtension, and there are no operator groups";
    match (args.delete_all, args.delete_crds, args.delete_operator_groups) {
        (true, false, false) => Ok(()),
        (false, ..) => Err(Failure::usage(format!("--delete-all=false {why}"))),
        (_, true, _) => Err(Failure::usage(format!("--delete-crds {why}"))),
        _ => Err(Failure::usage(format!("--delete-operator-groups {why}"))),
    }
}
