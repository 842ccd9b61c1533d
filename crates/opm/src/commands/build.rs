//! `opm build`: builds a catalog image without a container engine.

mod arguments;

use std::path::{Path, PathBuf};

use fbc::fault::Fault;
use image::Layer;
use image::{CatalogImages, Descriptor, Location, Platform, ProgramChoice, ProgramError, Programs, Reference, Store};
pub(crate) use serve::image::USER;
use serve::image::{BuildImage, BuildImageError};
use serve::load::{Empty, OnInvalid, ServedDirectory};
use source::{Delivery, Images};

use super::serve::failure;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::{Printer, Style};
use crate::progress::{Progress, Unit};
use crate::{limits, personality};
use arguments::{binary, label, platform};
pub(crate) use arguments::{output, reference};
use fbc::scratch::TempFolder;

/// Build a catalog image without a container engine
#[derive(clap::Args)]
#[command(
    long_about = "Build a catalog image without a container engine.\n\n\
        opm checks the catalog first. The image contains the files of the catalog at /configs: those that opm loads, \
        those that bundles refer to, and .indexignore files, but no others. It contains the cache at /tmp/cache, and this \
        binary at /bin/opm with symlinks for its other names. It starts as the Dockerfile of 'opm generate dockerfile' \
        does. It is built from scratch unless --base-image is given. A dynamically linked binary cannot run in an image \
        from scratch: without --binary, the image then contains only the catalog, as with --data-only.\n\n\
        Builds are reproducible: the same catalog and binary give the same image, byte for byte. All timestamps are \
        SOURCE_DATE_EPOCH, or 1970 if that is not set. Prints the digest of the image.",
    after_help = "Examples:\n  \
        opm build my-catalog -t quay.io/me/catalog:v1 --push\n  \
        opm build my-catalog -t quay.io/me/catalog:v1 --to oci:layout\n  \
        opm build my-catalog --data-only --to oci-archive:catalog.tar\n  \
        opm build --program-only -t quay.io/me/opm:v1 --push\n  \
        opm build my-catalog -t quay.io/me/catalog:v1 --push \\\n    \
        --platform linux/amd64,linux/arm64 --binary linux/arm64=opm-arm64"
)]
pub(crate) struct BuildArgs {
    /// Catalog directory
    #[arg(value_name = "DIR", required_unless_present = "program_only")]
    directory: Option<PathBuf>,
    /// Name of the image
    #[arg(short, long, value_name = "REF", value_parser = reference)]
    tag: Option<Reference>,
    /// Push the image to the registry in --tag
    #[arg(long)]
    push: bool,
    /// Write the image to oci:DIR, oci-archive:FILE or docker-archive:FILE
    #[arg(long, value_name = "WHERE", alias = "output", short_alias = 'o', value_parser = output)]
    to: Option<Location>,
    /// Base image of the catalog image; the opm binary is added to it
    #[arg(short = 'i', long, value_name = "REF")]
    base_image: Option<String>,
    /// Leave out the opm binary, for servers that have their own
    #[arg(long, conflicts_with = "base_image")]
    data_only: bool,
    /// Build an image of the opm binary without a catalog, to serve --data-only images
    #[arg(long, conflicts_with_all = ["directory", "data_only", "upstream_cache"])]
    program_only: bool,
    /// Accept a catalog without any blobs
    #[arg(long, conflicts_with = "program_only")]
    allow_empty: bool,
    /// Platforms to build for; defaults to the host platform, or linux/amd64 with --data-only
    #[arg(long, value_name = "PLATFORM", value_delimiter = ',', value_parser = platform)]
    platform: Vec<Platform>,
    /// Use this opm binary for a platform; can be repeated
    #[arg(long, value_name = "PLATFORM=FILE", value_parser = binary, conflicts_with = "data_only")]
    binary: Vec<(Platform, PathBuf)>,
    /// Also include the cache of upstream opm, for clusters that serve the content with it
    #[arg(long)]
    upstream_cache: bool,
    /// Image label as KEY=VALUE; can be repeated
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    extra_labels: Vec<(String, String)>,
    /// File with additional CA certificates to trust for registries
    #[arg(long, value_name = "FILE", help_heading = "Registries")]
    ca_file: Option<PathBuf>,
    /// Directory to cache pulled images in; defaults to $OLM_CACHE_DIR/images if that is set
    #[arg(long, value_name = "DIR", help_heading = "Registries")]
    image_cache: Option<PathBuf>,
    /// Use cached images only, without network access
    #[arg(long, help_heading = "Registries")]
    offline: bool,
}

impl BuildArgs {
    /// Returns an image puller for a platform.
    fn images(&self, tls: &TlsFlags, platform: Option<&Platform>) -> Images {
        let flags = PullFlags {
            ca_file: self.ca_file.clone(),
            platform: platform.cloned(),
            image_cache: self.image_cache.clone(),
            offline: self.offline,
        };
        images::open(tls, &flags)
    }

    fn check_destination(&self) -> CommandResult {
        if !self.push && self.to.is_none() {
            return Err(Failure::usage("no destination for the image: use --push or --to oci:DIR"));
        }
        if self.push && self.tag.is_none() {
            return Err(Failure::usage("--push requires an image name: use -t REF"));
        }
        match self.tag.as_ref().filter(|_| self.push) {
            Some(tag) => check_to_build("-t", tag),
            None => Ok(()),
        }
    }

    /// Decides on the platforms of an image and their programs.
    ///
    /// A catalog image does not need a program, so one that would only be in the image by default is left out if it could
    /// not run there. A program that the user requests must be able to run.
    fn programs(&self, printer: &Printer) -> Result<Programs, Failure> {
        for (number, platform) in self.platform.iter().enumerate() {
            if self.platform[..number].contains(platform) {
                return Err(Failure::usage(format!("platform {platform} is given twice")));
            }
        }
        if self.data_only {
            return Ok(ProgramChoice::none(&self.platform));
        }
        let host = [Platform::host()];
        let platforms = if self.platform.is_empty() { &host } else { &*self.platform };
        if let Some((unused, _)) = self.binary.iter().find(|(platform, _)| !platforms.contains(platform)) {
            return Err(Failure::usage(format!(
                "--binary is for platform {unused}, which --platform does not include"
            )));
        }
        let choice = ProgramChoice {
            platforms: &self.platform,
            given: &self.binary,
            running: &std::env::current_exe()?,
            alone: self.base_image.is_none(),
            optional: self.directory.is_some() && self.binary.is_empty() && self.base_image.is_none(),
        };
        let chosen = choice.find().map_err(|error| unusable(&error))?;
        if let Some(error) = chosen.left_out {
            let note = printer.paint(Style::Note, "note:");
            printer.report(&format!(
                "{note} the image contains the catalog but no program, for clusters that serve it with their own opm: \
                 {error}; --binary PLATFORM=FILE or --base-image REF includes a program"
            ));
        }
        Ok(chosen.programs)
    }
}

/// Rejects a digest in the value of a flag that names an image to build.
pub(crate) fn check_to_build(flag: &str, name: &Reference) -> CommandResult {
    name.check_to_build().map_err(|error| Failure::usage(format!("{flag} {error}")))
}

/// Formats why an image cannot contain the program that the user requests.
fn unusable(error: &ProgramError) -> Failure {
    Failure::message(match error {
        ProgramError::NoneFor { platform } => format!("{error}: pass another with --binary {platform}=FILE"),
        ProgramError::Dynamic { platform, .. } => format!(
            "{error}\n  help: pass a static program, as in releases or from 'cargo xtask dist', with --binary \
             {platform}=FILE, or an image with libraries with --base-image REF"
        ),
        _ => error.to_string(),
    })
}

pub(crate) fn run(args: &BuildArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    args.check_destination()?;
    let base = args.base_image.as_ref().map(|base| {
        move |platform: &Platform, store: &Store| match args.images(tls, Some(platform)).base(base, store) {
            Ok(image) => Ok(image),
            Err(error) => Err(Box::new(error) as Box<dyn Fault>),
        }
    });
    let request = BuildImage {
        catalog: args.directory.as_deref().map(|root| catalog(root, args.allow_empty)).transpose()?,
        upstream_cache: args.upstream_cache,
        base: base.as_ref().map(|base| base as _),
        labels: args.extra_labels.iter().cloned().collect(),
        ..request(args.programs(printer)?)?
    };
    let scratch = TempFolder::private("opm-build-")?;
    let store = Store::open(&scratch.path().join("image"))?;
    let image = build(&request, &store, printer)?;
    let delivery = Delivery { name: args.tag.as_ref(), push: args.push, output: args.to.as_ref() };
    args.images(tls, None).deliver(&delivery, &store, &image)?;
    writeln!(printer.data(), "{}", image.digest)?;
    Ok(())
}

/// Builds images of catalogs for other operations.
#[derive(Default)]
pub(crate) struct CatalogImageBuilder<'a> {
    /// The base image; `None` to build from scratch.
    pub(crate) base: Option<(&'a str, &'a Images)>,
}

impl CatalogImages for CatalogImageBuilder<'_> {
    fn build(&self, directory: &Path, store: &Store, programs: &Programs) -> Result<Descriptor, Box<dyn Fault>> {
        let base = self.base.map(|(base, images)| {
            move |_: &Platform, store: &Store| match images.base(base, store) {
                Ok(image) => Ok(image),
                Err(error) => Err(Box::new(error) as Box<dyn Fault>),
            }
        });
        let printer = Printer::new();
        let built = || {
            let catalog = Some(catalog(directory, false)?);
            let base = base.as_ref().map(|base| base as _);
            build(&BuildImage { catalog, base, ..request(programs.clone())? }, store, &printer)
        };
        built().map_err(|failure| failure.into_fault(&printer))
    }
}

/// Returns the catalog to pack.
fn catalog(root: &Path, allow_empty: bool) -> Result<ServedDirectory, Failure> {
    Ok(ServedDirectory {
        root: root.to_owned(),
        limits: limits::from_env()?,
        on_invalid: OnInvalid::Fail,
        empty: if allow_empty { Empty::Accepted } else { Empty::Rejected },
        summarize: true,
    })
}

/// Returns the request for an image with programs, without a catalog.
fn request(programs: Programs) -> Result<BuildImage<'static>, Failure> {
    Ok(BuildImage::new(programs, personality::others().map(|(name, _)| name).collect(), source_date_epoch()?))
}

/// Builds an image, and reports the problems of its catalog.
fn build(request: &BuildImage<'_>, store: &Store, printer: &Printer) -> Result<Descriptor, Failure> {
    let progress = Progress::start("packing", Unit::Bytes);
    serve::image::build(request, store, &|bytes| progress.add(bytes)).map_err(|error| match error {
        BuildImageError::Catalog(error) => failure(error.into(), printer),
        BuildImageError::Io(error) => error.into(),
        error => Failure::fault(error),
    })
}

/// Returns the layer of the program.
pub(crate) fn program_layer(program: &Path) -> std::io::Result<Layer> {
    serve::image::program_layer(program, &personality::others().map(|(name, _)| name).collect::<Vec<_>>())
}

/// Returns the timestamp for reproducible builds, from `SOURCE_DATE_EPOCH`.
pub(crate) fn source_date_epoch() -> Result<u64, Failure> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) if !text.is_empty() => text
            .parse()
            .ok()
            .filter(|time| *time <= 253_402_300_799)
            .ok_or_else(|| Failure::usage(format!("SOURCE_DATE_EPOCH is {text:?}: expected seconds since 1970"))),
        _ => Ok(0),
    }
}
