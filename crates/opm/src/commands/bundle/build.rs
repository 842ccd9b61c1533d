//! `opm bundle build`: builds a bundle image, with or without a container engine.

use std::process::{Command, Stdio};

use clap::builder::TypedValueParser;
use fbc::Limits;
use image::{Location, Reference, Store};
use source::{BUNDLE_DOCKERFILE, BuildBundle, ChosenDockerfile, Delivery};

use super::generate::{self, GenerateFlags, failure};
use crate::choice::choice;
use crate::commands::build::{output, reference, source_date_epoch};
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::limits;
use crate::printer::Printer;
use fbc::scratch::TempFolder;

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
    let tag = builtin.then(|| reference(&args.tag).map_err(Failure::usage)).transpose()?;
    let limits = limits::from_env()?;
    let request = args.flags.request(args.overwrite, &limits);
    let planned = request.plan().map_err(failure)?;
    let Some(tag) = tag else {
        generate::write(&planned, printer)?;
        return args.run_builder();
    };
    let chosen = planned.dockerfile().map_err(failure)?;
    if let Some(place) = &chosen.other {
        let place = place.display();
        printer.report(&format!(
            "{BUNDLE_DOCKERFILE} is for another bundle: it does not copy {place}; opm does not use it"
        ));
    }
    generate::write(&planned, printer)?;
    args.build(&chosen, &tag, tls, &limits, printer)
}

impl BuildArgs {
    /// Builds the image with a container engine.
    fn run_builder(&self) -> CommandResult {
        let program: &[&str] = match self.image_builder {
            Builder::Docker => &["docker", "build"],
            Builder::Podman => &["podman", "build"],
            Builder::Buildah => &["buildah", "bud", "--format=docker"],
            Builder::Builtin => &[],
        };
        let words: Vec<&str> = program.iter().copied().chain(["-f", BUNDLE_DOCKERFILE, "-t", &self.tag, "."]).collect();
        let failed = |error: String| Failure::message(format!("Failed to exec {words:?}: {error}"));
        let status = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .status()
            .map_err(|error| failed(format!("exec: \"{}\": {error}", words[0])))?;
        if status.success() { Ok(()) } else { Err(failed(status.to_string())) }
    }

    /// Builds the image without a container engine, and delivers it.
    fn build(
        &self,
        chosen: &ChosenDockerfile,
        tag: &Reference,
        tls: &TlsFlags,
        limits: &Limits,
        printer: &mut Printer,
    ) -> CommandResult {
        let scratch = TempFolder::private("opm-bundle-")?;
        let store = Store::open(&scratch.path().join("image"))?;
        let images = images::open(tls, &self.pull);
        let request = BuildBundle {
            dockerfile: &chosen.dockerfile,
            platform: self.pull.platform.as_ref(),
            time: source_date_epoch()?,
            limits,
            images: &images,
        };
        let (image, left_out) = request.build(&store, scratch.path()).map_err(failure)?;
        generate::warn_of_hidden(&left_out, printer);
        let delivery = Delivery { name: Some(tag), push: self.push, output: self.image_output.as_ref() };
        images.deliver(&delivery, &store, &image)?;
        writeln!(printer.data(), "{}", image.digest)?;
        Ok(())
    }
}
