//! `opm generate`: writes Dockerfiles for catalog images.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use source::{DEFAULT_IMAGE, DockerfileError, DockerfileRequest};

use crate::exit::{CommandResult, Failure};
use crate::limits;
use crate::printer::Printer;

/// Write Dockerfiles for catalog images
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "With only a directory, writes the older single-stage 'index.Dockerfile' to the current directory. Overwrites \
        an existing file only if opm wrote it.\n\n\
        Examples:\n  opm generate dockerfile my-catalog\n  opm generate my-catalog"
)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    command: Option<GenerateCommand>,
    /// Catalog directory
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Write Dockerfiles for catalog images
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct AlphaGenerateArgs {
    #[command(subcommand)]
    command: GenerateCommand,
}

#[derive(Subcommand)]
enum GenerateCommand {
    Dockerfile(DockerfileArgs),
}

/// Write a Dockerfile for a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Write a Dockerfile for a catalog.\n\n\
        Writes DIR.Dockerfile next to DIR. Never overwrites an existing file.",
    after_help = "Examples:\n  \
        opm generate dockerfile my-catalog\n  \
        opm generate dockerfile my-catalog --base-image scratch --extra-labels version=1.2,team=storage"
)]
struct DockerfileArgs {
    /// Catalog directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Base image of the catalog image; 'scratch' for an image without opm
    #[arg(short = 'i', long, value_name = "IMAGE", conflicts_with = "binary_image")]
    base_image: Option<String>,
    /// Image that builds the cache
    #[arg(short, long, value_name = "IMAGE")]
    builder_image: Option<String>,
    /// Deprecated: sets both --base-image and --builder-image
    #[arg(long, value_name = "IMAGE")]
    binary_image: Option<String>,
    /// Image label as KEY=VALUE; can be repeated
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_delimiter = ',')]
    extra_labels: Vec<String>,
}

pub(crate) fn run(args: &GenerateArgs, printer: &mut Printer) -> CommandResult {
    match (&args.command, &args.directory) {
        (Some(GenerateCommand::Dockerfile(args)), _) => dockerfile(args, printer),
        (None, Some(directory)) => index_dockerfile(directory, printer),
        (None, None) => Err(Failure::message("a directory is required")),
    }
}

pub(crate) fn run_alpha(args: &AlphaGenerateArgs, printer: &mut Printer) -> CommandResult {
    let GenerateCommand::Dockerfile(args) = &args.command;
    dockerfile(args, printer)
}

fn dockerfile(args: &DockerfileArgs, printer: &mut Printer) -> CommandResult {
    if args.binary_image.is_some() {
        printer.warning("flag --binary-image is deprecated, use --base-image and --builder-image instead");
    }
    let base = args.binary_image.as_deref().or(args.base_image.as_deref()).unwrap_or(DEFAULT_IMAGE);
    let builder = args.builder_image.as_deref().or(args.binary_image.as_deref()).unwrap_or(DEFAULT_IMAGE);
    let (directory, labels) = (&args.directory, &args.extra_labels);
    source::write_dockerfile(&DockerfileRequest { directory, base, builder, labels })?;
    warn_of_others(directory, printer);
    Ok(())
}

fn index_dockerfile(directory: &Path, printer: &Printer) -> CommandResult {
    source::write_index_dockerfile(directory)?;
    warn_of_others(directory, printer);
    Ok(())
}

/// The number of files that a warning names.
const NAMED: usize = 3;

/// Warns of files that `ADD` packs although they do not belong to the catalog.
fn warn_of_others(directory: &Path, printer: &Printer) {
    let Ok(limits) = limits::from_env() else { return };
    let others = source::surplus_files(directory, &limits);
    if others.is_empty() {
        return;
    }
    let named: Vec<String> = others.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    let more = match others.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (shown, named) = (directory.display(), named.join(", "));
    printer.warning(&format!(
        "the Dockerfile adds all of {shown}, also what does not belong to the catalog: {named}{more}; exclude it in a \
         .dockerignore file, or use 'opm build {shown}', which leaves it out"
    ));
}

impl From<DockerfileError> for Failure {
    fn from(error: DockerfileError) -> Failure {
        match error {
            DockerfileError::Path(error) => error.into(),
            error => Failure::fault(error),
        }
    }
}
