//! `opm bundle generate`: writes the files that turn a directory of manifests into a bundle.

use std::path::PathBuf;

use fbc::{Limits, Unportable};
use source::{BUNDLE_DOCKERFILE, BundleImageError, GenerateBundle, PlannedBundle};

use crate::exit::{CommandResult, Failure};
use crate::limits;
use crate::printer::Printer;

/// The flags of `generate` and `build`.
#[derive(clap::Args)]
pub(super) struct GenerateFlags {
    /// Directory of the manifests or of the bundle
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Package of the bundle; defaults to the package in the parent directories or the annotations
    #[arg(short, long, value_name = "NAME", default_value = "", hide_default_value = true)]
    package: String,
    /// Channels of the bundle, separated by commas; same default as --package
    #[arg(short, long, value_name = "NAMES", default_value = "", hide_default_value = true)]
    channels: String,
    /// Default channel of the package
    #[arg(short = 'e', long, value_name = "NAME", default_value = "", hide_default_value = true)]
    default: String,
    /// Directory to write the bundle to, including the manifests; defaults to the parent of the manifests
    #[arg(short = 'u', long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Base image of the bundle
    #[arg(long, value_name = "REF", default_value = "scratch")]
    base_image: String,
}

/// Write annotations and a Dockerfile for a bundle
#[derive(clap::Args)]
#[command(
    long_about = "Write annotations and a Dockerfile for a bundle.\n\n\
        Writes metadata/annotations.yaml next to the manifests, or below --output-dir together with a copy of the \
        manifests. Writes bundle.Dockerfile to the current directory. Overwrites existing files.",
    after_help = "Examples:\n  \
        opm bundle generate --directory foo/manifests --package foo --channels stable,beta --default stable\n  \
        opm bundle generate --directory foo/1.0.0        # reads names from foo/foo.package.yaml"
)]
pub(super) struct GenerateArgs {
    #[command(flatten)]
    flags: GenerateFlags,
}

impl GenerateFlags {
    /// Returns the request of these flags.
    pub(super) fn request<'a>(&'a self, overwrite: bool, limits: &'a Limits) -> GenerateBundle<'a> {
        GenerateBundle {
            directory: &self.directory,
            package: &self.package,
            channels: &self.channels,
            default_channel: &self.default,
            output_dir: self.output_dir.as_deref(),
            base_image: &self.base_image,
            overwrite,
            limits,
        }
    }
}

pub(super) fn run(args: &GenerateArgs, printer: &mut Printer) -> CommandResult {
    let limits = limits::from_env()?;
    let request = args.flags.request(true, &limits);
    write(&request.plan().map_err(failure)?, printer)
}

/// Writes the files, and reports what was left out.
pub(super) fn write(planned: &PlannedBundle<'_>, printer: &Printer) -> CommandResult {
    let written = planned.write().map_err(failure)?;
    warn_of_hidden(&written.left_out, printer);
    if written.kept_dockerfile {
        printer.report(&format!("keeping the existing {BUNDLE_DOCKERFILE}; use --overwrite to replace it"));
    }
    Ok(())
}

/// Warns of hidden files, which are not in a bundle.
pub(super) fn warn_of_hidden(left_out: &[PathBuf], printer: &Printer) {
    for path in left_out {
        printer.warning(&format!("{}: left out: {}", path.display(), Unportable::Hidden));
    }
}

pub(super) fn failure(error: BundleImageError) -> Failure {
    match error {
        BundleImageError::Source(error) => error.into(),
        BundleImageError::Io(error) => error.into(),
        error => Failure::fault(error),
    }
}
