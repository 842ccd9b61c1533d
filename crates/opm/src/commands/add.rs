//! `opm alpha add`: adds bundles to a catalog directory in place.

pub(crate) mod blobs;

use std::path::{Path, PathBuf};

use bundle::Contents;
use edit::add_bundle::{DeclaredChannels, NewBundle, add_declared};
use edit::{Attached, AttachedContent};
use fbc::blob::Entry;
use fbc::json::Text;

use super::edit::workbench;
use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::limits;
use crate::printer::Printer;
use crate::source::{self, Source};

/// Add bundles to a catalog directory
#[derive(clap::Args)]
#[command(
    long_about = "Add bundles to a catalog directory, in place.\n\n\
        BUNDLE is an image or a directory. Its annotations name the channels to add it to, and its CSV names the \
        upgrade edges. Its objects become files next to the catalog file of the package, and .indexignore lists them. \
        A new package gets its own directory.\n\n\
        Like 'opm edit', the command rewrites only the affected parts of files. If the resulting catalog is not valid, \
        nothing changes.",
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
    /// Print each added bundle
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &AddArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    if args.bundles.len() > 1 && (args.replaces.is_some() || args.skips.is_some() || args.skip_range.is_some()) {
        return Err(Failure::message("--replaces, --skips and --skip-range require a single bundle"));
    }
    let limits = limits::from_env()?;
    if !args.directory.is_dir() {
        return Err(Failure::message(format!("{}: not a directory", loading(&args.directory))));
    }
    let images = Images::new(tls, &args.pull);
    let names: Vec<&str> = args.bundles.iter().map(String::as_str).collect();
    let mut bundles = Vec::new();
    for (name, source) in names.iter().zip(source::resolve(&names, &images)) {
        let (path, image) = match source {
            Ok(Source::Bundle(path, image)) => (path, if args.pin { images.pulled_name(&image) } else { image }),
            Ok(_) => return Err(interpreting(name, "it is a catalog, not a bundle")),
            Err(error) => {
                return Err(Failure::message(format!("error pulling image \"{name}\" into registry: {error}")));
            }
        };
        let options = bundle::Options { image: &image, image_template: None, migrate: false, limits: limits.clone() };
        let rendered = bundle::render(&path, &options).map_err(|error| interpreting(name, &error.to_string()))?;
        let contents = bundle::read(&path, &limits).map_err(|error| interpreting(name, &error.to_string()))?;
        rendered.warnings.iter().for_each(|warning| printer.warning(&format!("{name}: {warning}")));
        let (new, named) = prepared(args, contents, &rendered.json)?;
        if args.debug {
            let channels = named.channels.join(", ");
            printer.report(&format!("{name}: bundle {:?} of package {:?} for {channels}", new.name, new.package));
        }
        bundles.push((new, named));
    }
    let load = |root: &Path, printer: &Printer| match workbench::load(root, &|_, _| {}, printer) {
        Err(Failure::Reported) => Err(Failure::message(loading(root))),
        other => other,
    };
    workbench::change_first_layout(&args.directory, printer, load, |_, outline| {
        bundles.iter().try_for_each(|(new, named)| add_declared(outline, new, named)).map(|()| Vec::new())
    })
}

fn loading(directory: &Path) -> String {
    format!("error loading directory \"{}\"", directory.display())
}

fn interpreting(name: &str, error: &str) -> Failure {
    Failure::message(format!("error interpreting bundle image \"{name}\": {error}"))
}

/// Returns the bundle to add, its channels and its channel entry.
fn prepared(args: &AddArgs, contents: Contents, json: &Text) -> Result<(NewBundle, DeclaredChannels), Failure> {
    let Contents { name, package, mut channels, default_channel, mut replaces, mut skips, mut skip_range, csv, .. } =
        contents;
    for (what, text) in [("package", &package), ("bundle", &name)] {
        if matches!(text.as_str(), "" | "." | "..") || text.contains(['/', '\0']) || text.len() > 200 {
            return Err(Failure::message(format!("invalid {what} name {text:?}: it must be a valid file name")));
        }
    }
    if !args.channels.is_empty() {
        channels.clone_from(&args.channels);
    }
    channels.retain(|channel| !channel.is_empty());
    if channels.is_empty() {
        return Err(Failure::message(format!("bundle \"{name}\" has no channels: set them with --channels")));
    }
    if let Some(given) = &args.replaces {
        replaces.clone_from(given);
    }
    if let Some(given) = &args.skips {
        skips = given.iter().filter(|skip| !skip.is_empty()).cloned().collect();
    }
    if let Some(given) = &args.skip_range {
        skip_range.clone_from(given);
    }
    let entry = Entry {
        name: name.as_str().into(),
        replaces: replaces.into(),
        skips: skips.into_iter().map(Into::into).collect(),
        skip_range: skip_range.into(),
    };
    let default_channel = args.default_channel.clone().unwrap_or(default_channel);
    let (json, objects) = blobs::bundle(json.raw(), &name).map_err(Failure::message)?;
    let attached = |(file, content): (String, Vec<u8>)| Attached {
        reference: format!("objects/{name}/{file}"),
        content: AttachedContent::Bytes(content),
    };
    let files = objects.into_iter().map(attached).collect();
    Ok((
        NewBundle { name, package, json, csv: Some(csv), files },
        DeclaredChannels { channels, default_channel, entry },
    ))
}
