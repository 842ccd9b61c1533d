//! `opm bundle generate`: writes the files that turn a directory of manifests into a bundle.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use bundle::{Annotations, BundleAnnotations, Inferred};
use fbc::{Limits, Members};

use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;
use crate::{limits, tree};

/// The Dockerfile of the bundle, in the current directory.
pub(super) const DOCKERFILE: &str = "bundle.Dockerfile";

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
    pub(super) base_image: String,
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

/// The files to write.
pub(super) struct Planned {
    pub(super) annotations: Annotations,
    /// The directory of the manifests after writing.
    pub(super) manifests: PathBuf,
    /// The directory of the annotations.
    pub(super) metadata: PathBuf,
    /// The directory to copy the manifests from, if any.
    copied_from: Option<PathBuf>,
    pub(super) dockerfile: String,
}

pub(super) fn run(args: &GenerateArgs, printer: &mut Printer) -> CommandResult {
    plan(&args.flags)?.write(true, printer)
}

/// Plans the files to write and reports all problems before writing.
pub(super) fn plan(flags: &GenerateFlags) -> Result<Planned, Failure> {
    let limits = limits::from_env()?;
    let mut directory = absolute(&flags.directory)?;
    if fbc::load::is_bundle_dir(&directory) {
        directory.push("manifests");
    }
    if !directory.is_dir() {
        return Err(Failure::message(format!("{} is not a directory", flags.directory.display())));
    }
    let media_type = bundle::media_type(&directory, &limits).map_err(|error| Failure::message(error.to_string()))?;
    let mut annotations = Annotations {
        media_type,
        package: flags.package.clone(),
        channels: flags.channels.clone(),
        default_channel: flags.default.clone(),
    };
    if annotations.package.is_empty() || annotations.channels.is_empty() {
        let inferred = match (bundle::infer(&directory, &limits), annotated(&directory, &limits)) {
            (Ok(inferred), _) | (Err(_), Some(inferred)) => inferred,
            (Err(message), None) => return Err(Failure::message(message)),
        };
        let fill = |field: &mut String, value: String| {
            if field.is_empty() {
                *field = value;
            }
        };
        fill(&mut annotations.package, inferred.package);
        fill(&mut annotations.channels, inferred.channels);
        fill(&mut annotations.default_channel, inferred.default_channel);
    }
    let (out, copied_from) = match &flags.output_dir {
        None => (tree::parent(&directory).to_path_buf(), None),
        Some(out) => (absolute(out)?, Some(directory.clone())),
    };
    let manifests = if copied_from.is_some() { out.join("manifests") } else { directory.clone() };
    if copied_from.is_some() && (manifests.starts_with(&directory) || directory.starts_with(&manifests)) {
        return Err(Failure::usage("cannot copy the manifests into themselves: choose another --output-dir"));
    }
    let metadata = out.join("metadata");
    let here = absolute(Path::new("."))?;
    let dockerfile =
        annotations.to_dockerfile(&flags.base_image, &relative(&here, &manifests), &relative(&here, &metadata));
    Ok(Planned { annotations, manifests, metadata, copied_from, dockerfile })
}

/// Reads the names from the annotations of an existing bundle. An unrelated bundle next to the manifests does not count.
fn annotated(manifests: &Path, limits: &Limits) -> Option<Inferred> {
    let annotated = bundle::find_annotations(&tree::parent(manifests).join("metadata"), limits).ok()?;
    let BundleAnnotations { package, channels, default_channel, .. } = annotated;
    (!channels.is_empty()).then(|| Inferred { package, channels: channels.join(","), default_channel })
}

impl Planned {
    /// Returns the text of an existing Dockerfile that [`Planned::write`] keeps.
    pub(super) fn kept_dockerfile(&self, overwrite: bool) -> io::Result<Option<String>> {
        let path = Path::new(DOCKERFILE);
        match !overwrite && path.exists() {
            true => fs::read_to_string(path).map(Some).map_err(|error| tree::in_path(path, &error)),
            false => Ok(None),
        }
    }

    /// Writes the files. Without `overwrite`, existing annotations must match.
    pub(super) fn write(&self, overwrite: bool, printer: &Printer) -> CommandResult {
        let annotations = self.metadata.join("annotations.yaml");
        let keep = |path: &Path| !overwrite && path.exists();
        if keep(&annotations) {
            let differences =
                self.annotations.differences(&annotations, &limits::from_env()?).map_err(Failure::message)?;
            if !differences.is_empty() {
                return Err(Failure::message(format!("{}: [{}]", annotations.display(), differences.join(", "))));
            }
        }
        if let Some(from) = &self.copied_from {
            let mut members = Members::below(from, &[PathBuf::new()], limits::from_env()?.files)?;
            tree::leave_out_hidden(&mut members, from, printer)?;
            for path in members.paths() {
                replaceable(&self.manifests.join(path))?;
            }
            members.copy_to(&self.manifests)?;
        }
        if !keep(&annotations) {
            fs::create_dir_all(&self.metadata).map_err(|error| tree::in_path(&self.metadata, &error))?;
            tree::write_file(&annotations, &self.annotations.to_yaml())?;
        }
        let dockerfile = Path::new(DOCKERFILE);
        if keep(dockerfile) {
            printer.report(&format!("keeping the existing {DOCKERFILE}; use --overwrite to replace it"));
            return Ok(());
        }
        Ok(tree::write_file(dockerfile, &self.dockerfile)?)
    }
}

/// Removes the manifest of an earlier run, so that a copy does not write through a link.
fn replaceable(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(tree::in_path(path, &error)),
        _ => Ok(()),
    }
}

/// Returns an absolute path without `.` and `..`; does not follow links.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let full = std::path::absolute(path).map_err(|error| tree::in_path(path, &error))?;
    let mut clean = PathBuf::new();
    for part in full.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    Ok(clean)
}

/// Returns the relative path from one directory to another.
fn relative(from: &Path, to: &Path) -> String {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| PathBuf::from(".."));
    let down = to.components().skip(common).map(|part| PathBuf::from(part.as_os_str()));
    let path: PathBuf = up.chain(down).collect();
    if path.as_os_str().is_empty() { ".".into() } else { path.display().to_string() }
}
