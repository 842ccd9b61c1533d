//! `opm bundle build`: builds a bundle image, with or without a container engine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bundle::{BundleDockerfile, BundleDockerfileError, Copied};
use clap::builder::TypedValueParser;
use fbc::Members;
use image::{BaseImage, ImagePlan, Layer, LayerModes, Location, Platform, Store};
use source::{Delivery, Images};

use super::generate::{self, DOCKERFILE, GenerateFlags};
use crate::choice::choice;
use crate::commands::build::{output, source_date_epoch};
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::{limits, tree};

/// Build a bundle image
#[derive(clap::Args)]
#[command(
    long_about = "Build a bundle image.\n\n\
        Writes annotations and a Dockerfile as 'opm bundle generate' does, then runs the image builder. With \
        --image-builder none, opm builds the image itself from the labels and the files that bundle.Dockerfile names, \
        without hidden files, pushes it (--push) or writes it (--image-output), and prints \
        its digest. Such builds are reproducible.",
    after_help = "Examples:\n  \
        opm bundle build --directory foo/manifests --tag quay.io/me/foo-bundle:v1.0.0 --package foo --channels stable\n  \
        opm bundle build --directory foo/manifests --tag quay.io/me/foo-bundle:v1.0.0 --package foo --channels stable \\\n    \
        --image-builder none --push\n  \
        opm bundle build --tag quay.io/me/foo-bundle:v1.0.0 -b none --push    # in the directory of a complete bundle"
)]
pub(super) struct BuildArgs {
    #[command(flatten)]
    flags: GenerateFlags,
    /// Name of the image
    #[arg(short, long, value_name = "REF")]
    tag: String,
    /// Program that builds the image
    #[arg(short = 'b', long, value_name = "PROGRAM", default_value = "docker", value_parser = builder())]
    image_builder: Builder,
    /// Overwrite existing annotations and Dockerfile
    #[arg(short, long)]
    overwrite: bool,
    /// Push the image to the registry in --tag; requires --image-builder none
    #[arg(long)]
    push: bool,
    /// Write the image to oci:DIR, oci-archive:FILE or docker-archive:FILE; requires --image-builder none
    #[arg(long, value_name = "WHERE", value_parser = output)]
    image_output: Option<Location>,
    #[command(flatten)]
    pull: PullFlags,
}

/// The image builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Builder {
    Docker,
    Podman,
    Buildah,
    Builtin,
}

fn builder() -> impl TypedValueParser<Value = Builder> {
    choice([
        ("docker", Builder::Docker),
        ("podman", Builder::Podman),
        ("buildah", Builder::Buildah),
        ("none", Builder::Builtin),
    ])
}

pub(super) fn run(args: &BuildArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let builtin = args.image_builder == Builder::Builtin;
    if builtin && !args.push && args.image_output.is_none() {
        return Err(Failure::usage("no destination for the image: use --push or --image-output oci:DIR"));
    }
    if !builtin && (args.push || args.image_output.is_some()) {
        return Err(Failure::usage("--push and --image-output require --image-builder none"));
    }
    let tag = super::super::build::reference(&args.tag);
    let tag = if builtin { Some(tag.map_err(Failure::usage)?) } else { None };
    let planned = generate::plan(&args.flags)?;
    let dockerfile = if builtin { Some(dockerfile(&planned, args.overwrite, printer)?) } else { None };
    planned.write(args.overwrite, printer)?;
    let program: &[&str] = match args.image_builder {
        Builder::Docker => &["docker", "build"],
        Builder::Podman => &["podman", "build"],
        Builder::Buildah => &["buildah", "bud", "--format=docker"],
        Builder::Builtin => &[],
    };
    if let (Some(tag), Some(dockerfile)) = (tag, dockerfile) {
        let scratch = Unfinished::private("opm-bundle-")?;
        let store = Store::open(&scratch.path().join("image"))?;
        let images = images::open(tls, &args.pull);
        let layers = layers(&dockerfile, scratch.path(), printer)?;
        let image = build(args, &dockerfile, &layers, &store, &images)?;
        let delivery = Delivery { name: Some(&tag), push: args.push, output: args.image_output.as_ref() };
        images.deliver(&delivery, &store, &image)?;
        writeln!(printer.data(), "{}", image.digest)?;
        return Ok(());
    }
    let words: Vec<&str> = program.iter().copied().chain(["-f", DOCKERFILE, "-t", &args.tag, "."]).collect();
    let failed = |error: String| Failure::message(format!("Failed to exec {words:?}: {error}"));
    let status = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .status()
        .map_err(|error| failed(format!("exec: \"{}\": {error}", words[0])))?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string())) }
}

/// Returns the Dockerfile to build: the existing one if it copies the manifests of this bundle, or else the generated one.
///
/// Builds of several bundles in one directory find the Dockerfile of the first.
fn dockerfile(planned: &generate::Planned, overwrite: bool, printer: &Printer) -> Result<BundleDockerfile, Failure> {
    let unsupported = |error: BundleDockerfileError| {
        Failure::message(format!(
            "{DOCKERFILE}: {error}\nhelp: build it with a container engine (--image-builder docker, podman or buildah), or \
             replace it with --overwrite"
        ))
    };
    if let Some(kept) = planned.kept_dockerfile(overwrite)? {
        let kept = BundleDockerfile::parse(&kept).map_err(unsupported)?;
        let manifests = planned.manifests.canonicalize().unwrap_or_else(|_| planned.manifests.clone());
        let copies =
            |copied: &Copied| context_path(&copied.from).canonicalize().is_ok_and(|from| manifests.starts_with(from));
        if kept.copies.iter().any(copies) {
            return Ok(kept);
        }
        let place = planned.manifests.display();
        printer.report(&format!("{DOCKERFILE} is for another bundle: it does not copy {place}; opm does not use it"));
    }
    BundleDockerfile::parse(&planned.dockerfile).map_err(unsupported)
}

/// Returns a source of COPY as a path: the root of the context is the current directory.
fn context_path(from: &str) -> &Path {
    match from.trim_start_matches('/') {
        "" => Path::new("."),
        path => Path::new(path),
    }
}

/// Copies the files that the Dockerfile names, and returns the layer of each COPY with its path in the image.
fn layers(dockerfile: &BundleDockerfile, scratch: &Path, printer: &Printer) -> Result<Vec<(String, Layer)>, Failure> {
    let limits = limits::from_env()?;
    let mut layers = Vec::new();
    for (number, Copied { from, to }) in dockerfile.copies.iter().enumerate() {
        let parts: Vec<&str> = to.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if !parts.iter().all(|part| fbc::is_file_name(part)) {
            return Err(Failure::message(format!(
                "{DOCKERFILE}: COPY {from} {to}: the destination is hidden or leads out"
            )));
        }
        let source = context_path(from);
        let copy = scratch.join(format!("copy-{number}"));
        let (mut members, boundary, path) = match source.is_dir() {
            true => (Members::below(source, &[PathBuf::new()], limits.files)?, source, parts.join("/")),
            false => {
                let name = source.file_name().unwrap_or_default();
                let parent = tree::parent(source);
                let members = Members::of(parent, [PathBuf::from(name)]);
                // A file can get another name.
                let renamed = !to.ends_with('/') && parts.last().is_some_and(|last| *last != name);
                if renamed {
                    let text = "COPY of a file to another name is not supported; name the directory with a final slash";
                    return Err(Failure::message(format!("{DOCKERFILE}: COPY {from} {to}: {text}")));
                }
                let directory = if to.ends_with('/') { &parts[..] } else { &parts[..parts.len().saturating_sub(1)] };
                (members, parent, directory.join("/"))
            }
        };
        tree::leave_out_hidden(&mut members, boundary, printer)?;
        members.copy_to(&copy)?;
        let mut layer = Layer::new();
        layer.tree(&path, &copy, LayerModes::default())?;
        layers.push((path, layer));
    }
    Ok(layers)
}

fn build(
    args: &BuildArgs,
    dockerfile: &BundleDockerfile,
    copies: &[(String, Layer)],
    store: &Store,
    images: &Images,
) -> Result<image::Descriptor, Failure> {
    let time = source_date_epoch()?;
    let mut layers = Vec::new();
    let mut history = Vec::new();
    for (path, layer) in copies {
        layers.push(layer.write(store, time, &|_| {})?);
        history.push(format!("opm bundle build: {path}"));
    }
    let base = match dockerfile.base.as_str() {
        "scratch" => None,
        reference => Some(images.base(reference, store)?),
    };
    // A bundle is platform-independent; these are the defaults of container engines.
    let platform = match (&args.pull.platform, &base) {
        (Some(platform), _) => platform.clone(),
        (None, Some(base)) => Platform {
            os: base.config.os.clone(),
            architecture: base.config.architecture.clone(),
            variant: base.config.variant.clone(),
            ..Platform::default()
        },
        (None, None) => Platform::of_data(),
    };
    let labels = dockerfile.labels.clone();
    let plan = ImagePlan { platform, labels, created: time, history, ..ImagePlan::default() };
    let base = base.as_ref().map(|base| BaseImage { manifest: &base.manifest, config: &base.config });
    Ok(image::build(store, &plan, &layers, base)?)
}
