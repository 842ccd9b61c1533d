//! `opm alpha add`: adds bundles to a catalog directory in place.

use std::path::{Path, PathBuf};

use edit::EditError;
use edit::legacy::{self, LegacyBundle, Overrides};
use source::NamedSource;

use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{edits, limits};

/// Add bundles to a catalog directory
#[derive(clap::Args)]
#[command(
    long_about = "Add bundles to a catalog directory, in place.\n\n\
        BUNDLE is an image or a directory. Its annotations name the channels to add it to, and its CSV names the \
        upgrade edges. Its objects become files next to the catalog file of the package, and .indexignore lists them. \
        A new package gets its own directory.\n\n\
        Like 'opm edit', the command rewrites only the affected parts of files. If the resulting catalog is not valid or \
        strands installed versions, nothing changes.",
    after_help = "Examples:\n  \
        opm alpha add my-catalog quay.io/me/foo-bundle:v1.0.0\n  \
        opm alpha add my-catalog ./foo-bundle --channels stable,candidate --replaces foo.v0.9.0"
)]
pub(crate) struct AddArgs {
    /// Catalog directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Bundle images or directories
    #[arg(value_name = "BUNDLE", required = true)]
    bundles: Vec<String>,
    /// Channels to add the bundles to; overrides their annotations
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    channels: Vec<String>,
    /// Default channel of a new package
    #[arg(long, value_name = "NAME")]
    default_channel: Option<String>,
    /// Bundle that the new bundle replaces; overrides its CSV, empty for none
    #[arg(long, value_name = "NAME")]
    replaces: Option<String>,
    /// Bundles that the new bundle skips; overrides its CSV
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    skips: Option<Vec<String>>,
    /// Versions that can upgrade directly; overrides the CSV
    #[arg(long, value_name = "RANGE")]
    skip_range: Option<String>,
    /// Pin bundle images by digest and keep their tags
    #[arg(long)]
    pin: bool,
    /// Add the bundles even if that leaves installed versions without a path to the channel head
    #[arg(long)]
    allow_stranded: bool,
    /// Print each added bundle
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &AddArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    if args.bundles.len() > 1 && (args.replaces.is_some() || args.skips.is_some() || args.skip_range.is_some()) {
        return Err(Failure::message("--replaces, --skips and --skip-range require a single bundle"));
    }
    let limits = limits::from_env()?;
    if !args.directory.is_dir() {
        return Err(Failure::message(format!("{}: not a directory", loading(&args.directory))));
    }
    let overrides = Overrides {
        channels: args.channels.clone(),
        default_channel: args.default_channel.clone(),
        replaces: args.replaces.clone(),
        skips: args.skips.clone(),
        skip_range: args.skip_range.clone(),
    };
    let images = images::open(tls, &args.pull);
    let names: Vec<&str> = args.bundles.iter().map(String::as_str).collect();
    let mut bundles = Vec::new();
    for (name, source) in names.iter().zip(source::resolve(&names, &images)) {
        let (path, image) = match source {
            Ok(NamedSource::Bundle(path, image)) => (path, if args.pin { images.pulled_name(&image) } else { image }),
            Ok(_) => return Err(interpreting(name, "it is a catalog, not a bundle")),
            Err(error) => {
                return Err(Failure::message(format!("error pulling image \"{name}\" into registry: {error}")));
            }
        };
        let bundle =
            LegacyBundle::read(name, &path, &image, &overrides, &limits, printer).map_err(|error| match error {
                EditError::Bundle { source, .. } => interpreting(name, &source.to_string()),
                error => edits::failure(error, printer),
            })?;
        if args.debug {
            let channels = bundle.channels().join(", ");
            printer.report(&format!(
                "{name}: bundle {:?} of package {:?} for {channels}",
                bundle.name(),
                bundle.package()
            ));
        }
        bundles.push(bundle);
    }
    let request = legacy::Add { catalog: args.directory.clone(), bundles, allow_stranded: args.allow_stranded, limits };
    let edited = legacy::add(&request, printer).map_err(|error| match edits::failure(error, printer) {
        Failure::Reported => Failure::message(loading(&args.directory)),
        failure => failure,
    })?;
    edited.stranded.iter().for_each(|versions| printer.warning(&versions.to_string()));
    Ok(())
}

fn loading(directory: &Path) -> String {
    format!("error loading directory \"{}\"", directory.display())
}

fn interpreting(name: &str, error: &str) -> Failure {
    Failure::message(format!("error interpreting bundle image \"{name}\": {error}"))
}
