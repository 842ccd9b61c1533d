//! `opm cleanup`: removes what `opm run bundle` installed.

use cluster::run::{Cleanup, cleanup};

use super::run::WorkFlags;
use super::run::session::Session;
use crate::exit::{Failure, Outcome};
use crate::live::Live;
use crate::printer::Printer;

/// Remove an operator that was installed by 'run bundle'
#[derive(clap::Args)]
#[command(
    long_about = "Remove an operator that was installed by 'run bundle'.\n\n\
        The subscription, the operator, what was installed because it depends on it, the custom resource definitions \
        that came with it, its catalog and, if no other operator is left in the namespace, the operator group that \
        'run bundle' made are deleted. Deleting a custom resource definition deletes all its objects: \
        --delete-all=false keeps them. A definition that was there before, or that another operator needs, stays.\n\n\
        An operator that 'run bundle' did not install is refused; --force removes it all the same, and leaves its \
        catalog.",
    after_help = "Examples:\n  \
        opm cleanup foo\n  \
        opm cleanup foo -n foo --delete-all=false --delete-operator-groups"
)]
pub(crate) struct CleanupArgs {
    /// Package of the operator
    #[arg(value_name = "PACKAGE")]
    package: String,
    /// Delete custom resource definitions and operator groups as well
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
    /// Delete the operator group that 'run bundle' made
    #[arg(long)]
    delete_operator_groups: bool,
    /// Remove an operator that 'run bundle' did not install
    #[arg(long)]
    force: bool,
    /// Has no meaning here; all commands for clusters know it
    #[arg(long, value_name = "NAME", hide = true)]
    service_account: Option<String>,
    #[command(flatten)]
    cluster: WorkFlags,
}

pub(crate) fn run(args: &CleanupArgs, printer: &mut Printer) -> Outcome {
    let deadline = args.cluster.deadline();
    let session = Session::start()?;
    let cluster = session.connect(&args.cluster.cluster)?;
    let options = Cleanup {
        package: args.package.clone(),
        crds: args.delete_all || args.delete_crds,
        operator_groups: args.delete_all || args.delete_operator_groups,
        force: args.force,
    };
    let live = Live::new(printer, args.cluster.verbose);
    let found = session.ask(cleanup(&cluster, &options, deadline, &live)).map_err(|failure| match failure {
        Failure::Message(text) => Failure::message(format!("Cleanup operator: {text}")),
        other => other,
    })?;
    drop(live);
    match found {
        true => printer.tell(&format!("Operator \"{}\" uninstalled", args.package)),
        false => printer.warning(&format!("Cleanup operator: package \"{}\" not found", args.package)),
    }
    Ok(())
}
