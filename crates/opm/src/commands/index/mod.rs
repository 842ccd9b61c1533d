//! `opm index`: manages images of database indexes.

pub(crate) mod add;
pub(crate) mod build;
pub(crate) mod deprecatetruncate;
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod prune;
pub(crate) mod prune_stranded;
pub(crate) mod rm;
pub(crate) mod rmb;

use clap::Subcommand;

use crate::exit::CommandResult;
use crate::images::TlsFlags;
use crate::printer::Printer;

/// Manage images of database indexes (deprecated)
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    long_about = "Manage images of database indexes.\n\n\
        Each command extracts the database from an image, changes it, and builds a new image with docker or podman. With \
        --container-tool none opm builds the image and pushes it (--push) or writes it (--image-output). With --generate \
        it writes the database and a Dockerfile to the current directory instead.",
    after_help = "Examples:\n  \
        opm index add -b quay.io/example/bundle:v1.0.0 --generate\n  \
        opm index add -b quay.io/example/bundle:v1.0.0 -t quay.io/me/index:v1 --container-tool none --push\n  \
        opm index inspect packages -f quay.io/example/index:v1\n  \
        opm migrate quay.io/example/index:v1 my-catalog"
)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    command: IndexCommand,
}

#[derive(Subcommand)]
enum IndexCommand {
    Add(add::AddArgs),
    Rm(rm::RmArgs),
    Prune(prune::PruneArgs),
    PruneStranded(prune_stranded::PruneStrandedArgs),
    #[command(name = "deprecatetruncate", hide = true)]
    DeprecateTruncate(deprecatetruncate::DeprecateArgs),
    Export(export::ExportArgs),
    Inspect(inspect::InspectArgs),
    Rmb(rmb::RmbArgs),
}

pub(crate) fn run(args: &IndexArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        IndexCommand::Add(args) => add::run(args, tls, printer),
        IndexCommand::Rm(args) => rm::run(args, tls, printer),
        IndexCommand::Prune(args) => prune::run(args, tls, printer),
        IndexCommand::PruneStranded(args) => prune_stranded::run(args, tls, printer),
        IndexCommand::DeprecateTruncate(args) => deprecatetruncate::run(args, tls, printer),
        IndexCommand::Export(args) => export::run(args, tls, printer),
        IndexCommand::Inspect(args) => inspect::run(args, tls, printer),
        IndexCommand::Rmb(args) => rmb::run(args, tls, printer),
    }
}
