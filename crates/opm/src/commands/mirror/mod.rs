//! `opm mirror`: mirrors catalogs and all their images into air-gapped networks.

mod copy;
mod flags;
mod installed;
pub(crate) mod oc_mirror;
mod plan;
mod prune;
mod pull;
mod push;
mod verify;

use crate::exit::CommandResult;
use crate::images::TlsFlags;
use crate::printer::Printer;

/// Mirror catalogs and all their images into air-gapped networks
#[derive(clap::Args)]
#[command(
    long_about = "Mirror catalogs and all their images into air-gapped networks.\n\n\
        An ImageSetConfiguration file selects catalogs, packages, channels and versions. 'plan' shows the selection and its \
        size. 'pull' fetches the images to a directory. 'push' uploads the directory, or volumes made from it, to a registry \
        on the other side, and writes the objects that point a cluster to the mirror. 'copy' does both at once if one machine \
        reaches both sides. A lock records the selection, with every image by digest. Signatures and attestations are \
        mirrored too.\n\n\
        Every command resumes where an earlier run stopped: it never fetches or sends a blob twice.",
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

pub(crate) fn run(args: &MirrorArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        MirrorCommand::Plan(args) => plan::run(args, tls, printer),
        MirrorCommand::Pull(args) => pull::run(args, tls, printer),
        MirrorCommand::Push(args) => push::run(args, tls, printer),
        MirrorCommand::Copy(args) => copy::run(args, tls, printer),
        MirrorCommand::Verify(args) => verify::run(args, tls, printer),
        MirrorCommand::Prune(args) => prune::run(args, tls, printer),
    }
}
