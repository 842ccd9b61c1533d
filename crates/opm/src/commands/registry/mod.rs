//! `opm registry`: database indexes, and the diagnosis of registry access.

pub(crate) mod add;
pub(crate) mod deprecatetruncate;
pub(crate) mod doctor;
pub(crate) mod prune;
pub(crate) mod prune_stranded;
pub(crate) mod rm;
pub(crate) mod serve;

use clap::Subcommand;

use crate::exit::CommandResult;
use crate::images::TlsFlags;
use crate::printer::Printer;

/// Edit and serve database indexes (deprecated), or diagnose registry access
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    long_about = "Edit and serve database indexes (deprecated), or diagnose registry access.\n\n\
        A database index is a SQLite file with the packages, channels and bundles of a catalog. File-based catalogs \
        replace it: 'opm migrate' converts a database.\n\n\
        'opm registry doctor' is about image registries: it diagnoses access to an image.",
    after_help = "Examples:\n  \
        opm registry add -d index.db -b quay.io/example/bundle:v1.0.0\n  \
        opm registry serve -d index.db\n  \
        opm migrate index.db my-catalog\n  \
        opm registry doctor quay.io/example/bundle:v1.0.0"
)]
pub(crate) struct RegistryArgs {
    #[command(subcommand)]
    command: RegistryCommand,
}

#[derive(Subcommand)]
enum RegistryCommand {
    Add(Box<add::AddArgs>),
    Rm(rm::RmArgs),
    Prune(prune::PruneArgs),
    PruneStranded(prune_stranded::PruneStrandedArgs),
    #[command(name = "deprecatetruncate", hide = true)]
    DeprecateTruncate(deprecatetruncate::DeprecateArgs),
    Serve(serve::ServeArgs),
    Doctor(Box<doctor::DoctorArgs>),
}

pub(crate) fn run(args: &RegistryArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    match &args.command {
        RegistryCommand::Add(args) => add::run(args, tls, printer),
        RegistryCommand::Rm(args) => rm::run(args, printer),
        RegistryCommand::Prune(args) => prune::run(args, printer),
        RegistryCommand::PruneStranded(args) => prune_stranded::run(args, printer),
        RegistryCommand::DeprecateTruncate(args) => deprecatetruncate::run(args, printer),
        RegistryCommand::Serve(args) => serve::run(args, printer),
        RegistryCommand::Doctor(args) => doctor::run(args, tls, printer),
    }
}

/// Drops empty items: an empty flag value parses as one empty item.
pub(crate) fn items(list: &[String]) -> Vec<String> {
    list.iter().filter(|item| !item.is_empty()).cloned().collect()
}
