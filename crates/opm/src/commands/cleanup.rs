//! `opm cleanup`: removes what `opm run bundle` installed.

use cluster::extension;
use cluster::run::{Cleanup, cleanup};

use super::run::WorkFlags;
use super::run::olm::{Olm, olm};
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
        catalog.\n\n\
        With --olm v1 the ClusterExtension and everything that it has made, its catalog, and the account and namespace that \
        'run bundle' made are deleted. OLM v1 keeps no custom resource definitions.",
    after_help = "Examples:\n  \
        opm cleanup foo\n  \
        opm cleanup foo -n foo --delete-all=false --delete-operator-groups\n  \
        opm cleanup foo --olm v1"
)]
pub(crate) struct CleanupArgs {
    /// Package of the operator
    #[arg(value_name = "PACKAGE")]
    package: String,
    /// Which OLM runs it: v0 is the one with Subscriptions, v1 the one with ClusterExtensions, auto the one that the
    /// cluster has
    #[arg(long, value_name = "GENERATION", default_value = "v0", value_parser = olm())]
    olm: Olm,
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
    let live = Live::new(printer, args.cluster.verbose);
    let is_v1 = args.olm.is_v1(&session, Some(&cluster), deadline, &live)?;
    let found = if is_v1 {
        refuse_for_v1(args)?;
        let options = extension::Cleanup { package: args.package.clone(), force: args.force };
        session.ask(extension::cleanup(&cluster, &options, deadline, &live))
    } else {
        let options = Cleanup {
            package: args.package.clone(),
            crds: args.delete_all || args.delete_crds,
            operator_groups: args.delete_all || args.delete_operator_groups,
            force: args.force,
        };
        session.ask(cleanup(&cluster, &options, deadline, &live))
    };
    let found = found.map_err(|failure| match failure {
        Failure::Message(text) => Failure::message(format!("Cleanup operator: {text}")),
        other => other,
    })?;
    drop(live);
    match found {
        true => printer.report(&format!("Operator \"{}\" uninstalled", args.package)),
        false => printer.warning(&format!("Cleanup operator: package \"{}\" not found", args.package)),
    }
    Ok(())
}

/// Refuses what OLM v1 cannot do.
fn refuse_for_v1(args: &CleanupArgs) -> Outcome {
    let why = "is not for --olm v1: definitions go with their ClusterExtension, and there are no operator groups";
    match (args.delete_all, args.delete_crds, args.delete_operator_groups) {
        (true, false, false) => Ok(()),
        (false, ..) => Err(Failure::Usage(format!("--delete-all=false {why}"))),
        (_, true, _) => Err(Failure::Usage(format!("--delete-crds {why}"))),
        _ => Err(Failure::Usage(format!("--delete-operator-groups {why}"))),
    }
}
