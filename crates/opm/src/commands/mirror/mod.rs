//! `opm mirror`: catalogs and everything they need, into closed networks.

mod catalog_image;
mod copy;
mod flags;
mod installed;
pub(crate) mod oc_mirror;
mod open;
mod plan;
mod prepare;
mod prune;
mod pull;
mod push;
mod verify;

use crate::exit::Outcome;
use crate::images::TlsFlags;
use crate::printer::Printer;

/// Bring catalogs and all their images into closed networks
#[derive(clap::Args)]
#[command(
    long_about = "Bring catalogs and all their images into closed networks.\n\n\
        A file of kind ImageSetConfiguration says which packages, channels and versions of which catalogs are wanted. \
        'plan' shows what that is and what it costs, 'pull' fetches all of it to a directory, 'push' brings the \
        directory, or volumes made of it, to a registry on the other side and writes the objects that show a cluster \
        where everything is. 'copy' does both at once where one machine sees both sides. What was chosen is in a lock: \
        every image by its digest. Signatures and attestations go along.\n\n\
        Run again, each command goes on where it was: what is there is neither fetched nor sent twice.",
    after_help = "Examples:\n  \
        opm mirror plan imageset.yaml\n  \
        opm mirror pull imageset.yaml set\n  \
        opm mirror push set registry.example.com:5000/mirror\n  \
        opm mirror verify registry.example.com:5000/mirror --lock set/mirror/lock.json",
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct MirrorArgs {
    #[command(subcommand)]
    command: MirrorCommand,
}

#[derive(clap::Subcommand)]
enum MirrorCommand {
    Plan(plan::PlanArgs),
    Pull(pull::PullArgs),
    Push(push::PushArgs),
    Copy(copy::CopyArgs),
    Verify(verify::VerifyArgs),
    Prune(prune::PruneArgs),
}

pub(crate) fn run(args: &MirrorArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    match &args.command {
        MirrorCommand::Plan(args) => plan::run(args, tls, printer),
        MirrorCommand::Pull(args) => pull::run(args, tls, printer),
        MirrorCommand::Push(args) => push::run(args, tls, printer),
        MirrorCommand::Copy(args) => copy::run(args, tls, printer),
        MirrorCommand::Verify(args) => verify::run(args, tls, printer),
        MirrorCommand::Prune(args) => prune::run(args, tls, printer),
    }
}
