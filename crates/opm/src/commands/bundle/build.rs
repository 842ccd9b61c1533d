//! `opm bundle build`: builds a bundle image, with or without a container engine.

use std::process::{Command, Stdio};

use clap::builder::TypedValueParser;
use image::{Base, ImagePlan, Layer, Location, Modes, Platform, Store};

use super::generate::{self, DOCKERFILE, GenerateFlags};
use crate::choice::choice;
use crate::commands::build::{deliver, output, source_date_epoch};
use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::interrupt::Unfinished;
use crate::printer::Printer;

/// Build a bundle image
#[derive(clap::Args)]
#[command(
    long_about = "Build a bundle image.\n\n\
        Writes annotations and a Dockerfile as 'opm bundle generate' does, then runs the image builder. With \
        --image-builder none, opm builds the image itself, pushes it (--push) or writes it (--image-output), and prints \
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

pub(super) fn run(args: &BuildArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let builtin = args.image_builder == Builder::Builtin;
    if builtin && !args.push && args.image_output.is_none() {
        return Err(Failure::message("no destination for the image: use --push or --image-output oci:DIR"));
    }
    if !builtin && (args.push || args.image_output.is_some()) {
        return Err(Failure::message("--push and --image-output require --image-builder none"));
    }
    let tag = super::super::build::reference(&args.tag);
    let tag = if builtin { Some(tag.map_err(Failure::message)?) } else { None };
    let planned = generate::plan(&args.flags)?;
    planned.write(args.overwrite, printer)?;
    let program: &[&str] = match args.image_builder {
        Builder::Docker => &["docker", "build"],
        Builder::Podman => &["podman", "build"],
        Builder::Buildah => &["buildah", "bud", "--format=docker"],
        Builder::Builtin => &[],
    };
    if let Some(tag) = tag {
        let scratch = Unfinished::private("opm-bundle-")?;
        let store = Store::open(&scratch.path().join("image"))?;
        let images = Images::new(tls, &args.pull);
        let image = build(args, &planned, &store, &images)?;
        deliver(Some(&tag), args.push, args.image_output.as_ref(), &store, &image, &images)?;
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

fn build(
    args: &BuildArgs,
    planned: &generate::Planned,
    store: &Store,
    images: &Images,
) -> Result<image::Descriptor, Failure> {
    let time = source_date_epoch()?;
    let mut layers = Vec::new();
    let mut history = Vec::new();
    for (name, directory) in [("manifests", &planned.manifests), ("metadata", &planned.metadata)] {
        let mut layer = Layer::new();
        layer.tree(name, directory, Modes::default())?;
        layers.push(layer.write(store, time, &|_| {})?);
        history.push(format!("opm bundle build: {name}"));
    }
    let base = match args.flags.base_image.as_str() {
        "scratch" => None,
        reference => Some(super::super::build::base_image(reference, images, store)?),
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
        (None, None) => Platform { os: "linux".into(), architecture: "amd64".into(), ..Platform::default() },
    };
    let labels = planned.annotations.list().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let plan = ImagePlan { platform, labels, created: time, history, ..ImagePlan::default() };
    let base = base.as_ref().map(|base| Base { manifest: &base.manifest, config: &base.config });
    Ok(image::build(store, &plan, &layers, base)?)
}
