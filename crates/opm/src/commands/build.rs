//! `opm build`: builds a catalog image without a container engine.

mod arguments;
mod deliver;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use catalog::query::Query;
use image::{
    BaseImage, BuiltLayer, Descriptor, Image, ImagePlan, Layer, LayerModes, Location, Platform, ProgramError,
    Reference, Store, find_program,
};
use serve::cache::store::{Fingerprint, PrepareError, build_portable};
use serve::load::{Empty, OnInvalid, ServedDirectory};
use serve::upstream;
use source::{CONFIGS, CONFIGS_LABEL, Images};

use super::serve::failure;
use crate::exit::{CommandResult, Failure, in_path};
use crate::images::{self, PullFlags, TlsFlags};
use crate::interrupt::Unfinished;
use crate::printer::{Printer, Style};
use crate::progress::{Progress, Unit};
use crate::{limits, personality};
use arguments::{binary, label, platform};
pub(crate) use arguments::{output, reference};
pub(crate) use deliver::deliver;

/// The cache path in an image; as the path of the catalog, it is that of the Dockerfile of `opm generate dockerfile`.
const CACHE: &str = "/tmp/cache";
/// The user of an image built from scratch.
pub(crate) const USER: &str = "1001";
/// Any user of the image can read the cache, and the root group can rebuild it.
const CACHE_MODES: LayerModes = LayerModes { directory: 0o775, file: 0o664 };

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
}

/// The platforms of an image, each with its opm binary; an image without one only holds data.
pub(crate) type Programs = Vec<(Platform, Option<PathBuf>)>;

/// A validated build: defaults applied, conflicts rejected.
struct Plan<'a> {
    args: &'a BuildArgs,
    tls: &'a TlsFlags,
    platforms: Programs,
    labels: BTreeMap<String, String>,
    /// The timestamp of all files and layers.
    time: u64,
}

pub(crate) fn run(args: &BuildArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    check_destination(args)?;
    let plan = plan(args, tls, programs(args, printer)?)?;
    let scratch = Unfinished::private("opm-build-")?;
    let store = Store::open(&scratch.path().join("image"))?;
    let image = build(&plan, &store, scratch.path(), printer)?;
    let images = args.images(tls, None);
    deliver(args.tag.as_ref(), args.push, args.to.as_ref(), &store, &image, &images)?;
    writeln!(printer.data(), "{}", image.digest)?;
    Ok(())
}

/// How to build and push a catalog image.
pub(crate) struct BuildPushOptions<'a> {
    /// The base image; defaults to scratch.
    pub(crate) base: Option<&'a str>,
    /// The platforms, each with its opm binary.
    pub(crate) programs: Programs,
    /// Whether to push the image; otherwise only its digest is computed.
    pub(crate) push: bool,
}

/// Builds a catalog image, pushes it, and returns its name with the digest.
pub(crate) fn push_catalog(
    directory: &Path,
    tag: &Reference,
    options: BuildPushOptions<'_>,
    tls: &TlsFlags,
    pull: &PullFlags,
    printer: &Printer,
) -> Result<Reference, Failure> {
    let args = BuildArgs {
        directory: Some(directory.into()),
        tag: Some(tag.clone()),
        push: true,
        to: None,
        base_image: options.base.map(str::to_owned),
        data_only: false,
        program_only: false,
        allow_empty: false,
        platform: Vec::new(),
        binary: Vec::new(),
        upstream_cache: false,
        extra_labels: Vec::new(),
        ca_file: pull.ca_file.clone(),
        image_cache: pull.image_cache.clone(),
        offline: pull.offline,
    };
    check_destination(&args)?;
    let plan = plan(&args, tls, options.programs)?;
    let scratch = Unfinished::private("opm-build-")?;
    let store = Store::open(&scratch.path().join("image"))?;
    let image = build(&plan, &store, scratch.path(), printer)?;
    if options.push {
        deliver(Some(tag), true, None, &store, &image, &args.images(tls, None))?;
    }
    Ok(tag.with_digest(image.digest))
}

/// Builds a catalog image into a store.
pub(crate) fn into_store(
    directory: &Path,
    store: &Store,
    programs: Programs,
    tls: &TlsFlags,
    printer: &Printer,
) -> Result<Descriptor, Failure> {
    let args = BuildArgs {
        directory: Some(directory.into()),
        tag: None,
        push: false,
        to: Some(Location::Layout { path: store.root().into(), tag: None }),
        base_image: None,
        data_only: false,
        program_only: false,
        allow_empty: false,
        platform: Vec::new(),
        binary: Vec::new(),
        upstream_cache: false,
        extra_labels: Vec::new(),
        ca_file: None,
        image_cache: None,
        offline: true,
    };
    let plan = plan(&args, tls, programs)?;
    let scratch = Unfinished::private("opm-build-")?;
    build(&plan, store, scratch.path(), printer)
}

fn check_destination(args: &BuildArgs) -> CommandResult {
    if !args.push && args.to.is_none() {
        return Err(Failure::usage("no destination for the image: use --push or --to oci:DIR"));
    }
    if args.push && args.tag.is_none() {
        return Err(Failure::usage("--push requires an image name: use -t REF"));
    }
    if args.push && args.tag.as_ref().is_some_and(|tag| tag.digest().is_some()) {
        return Err(Failure::usage("-t cannot contain a digest before the image is built: use -t REPOSITORY:TAG"));
    }
    Ok(())
}

fn plan<'a>(args: &'a BuildArgs, tls: &'a TlsFlags, platforms: Programs) -> Result<Plan<'a>, Failure> {
    let mut labels: BTreeMap<String, String> = args.extra_labels.iter().cloned().collect();
    if args.directory.is_some() {
        labels.insert(CONFIGS_LABEL.into(), CONFIGS.into());
    }
    Ok(Plan { args, tls, platforms, labels, time: source_date_epoch()? })
}

/// The platform of an image that only holds data.
pub(crate) fn data_platform() -> Platform {
    Platform { os: "linux".into(), architecture: "amd64".into(), ..Platform::default() }
}

/// Decides on the platforms of an image and their programs.
///
/// A catalog image does not need a program, so one that would only be in the image by default is left out if it could
/// not run there. A program that the user requests must be able to run.
fn programs(args: &BuildArgs, printer: &Printer) -> Result<Programs, Failure> {
    for (number, platform) in args.platform.iter().enumerate() {
        if args.platform[..number].contains(platform) {
            return Err(Failure::usage(format!("platform {platform} is given twice")));
        }
    }
    let wanted = |default: fn() -> Platform| match args.platform.is_empty() {
        true => vec![default()],
        false => args.platform.clone(),
    };
    let data_only = || wanted(data_platform).into_iter().map(|platform| (platform, None)).collect();
    if args.data_only {
        return Ok(data_only());
    }
    let platforms = wanted(Platform::host);
    if let Some((unused, _)) = args.binary.iter().find(|(platform, _)| !platforms.contains(platform)) {
        return Err(Failure::usage(format!("--binary is for platform {unused}, which --platform does not include")));
    }
    let running = std::env::current_exe()?;
    let find = |platform: Platform| {
        let program = find_program(&args.binary, &running, &platform, args.base_image.is_none())?;
        Ok((platform, Some(program)))
    };
    let is_default = args.directory.is_some() && args.binary.is_empty() && args.base_image.is_none();
    match platforms.into_iter().map(find).collect::<Result<Programs, ProgramError>>() {
        Ok(programs) => Ok(programs),
        Err(error @ (ProgramError::Dynamic { .. } | ProgramError::NotExecutable { .. })) if is_default => {
            let note = printer.paint(Style::Note, "note:");
            printer.report(&format!(
                "{note} the image contains the catalog but no program, for clusters that serve it with their own opm: \
                 {error}; --binary PLATFORM=FILE or --base-image REF includes a program"
            ));
            Ok(data_only())
        }
        Err(error) => Err(unusable(&error)),
    }
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

fn build(plan: &Plan<'_>, store: &Store, scratch: &Path, printer: &Printer) -> Result<Descriptor, Failure> {
    let progress = Progress::start("packing", Unit::Bytes);
    let write = |layer: &Layer| layer.write(store, plan.time, &|bytes| progress.add(bytes));
    let catalog = match &plan.args.directory {
        Some(root) => Some(catalog_layers(plan, root, scratch, printer, &write)?),
        None => None,
    };

    let mut images = Vec::new();
    for (platform, program) in &plan.platforms {
        let mut layers = Vec::new();
        let mut history = Vec::new();
        if let Some(program) = program {
            layers.push(write(&program_layer(program)?)?);
            history.push("opm build: the program".to_owned());
        }
        if let Some(catalog) = &catalog {
            layers.extend(catalog.clone());
            history.extend(["opm build: the catalog".to_owned(), "opm build: its cache".to_owned()]);
        }
        images.push(assemble(plan, store, platform, program.is_some(), &layers, history)?);
    }
    match images.as_slice() {
        [image] => Ok(image.clone()),
        images => Ok(image::build_index(store, images)?),
    }
}

/// Checks a catalog and writes its layers: the catalog and the cache.
fn catalog_layers(
    plan: &Plan<'_>,
    root: &Path,
    scratch: &Path,
    printer: &Printer,
    write: &dyn Fn(&Layer) -> std::io::Result<BuiltLayer>,
) -> Result<[BuiltLayer; 2], Failure> {
    let directory = ServedDirectory {
        root: root.to_owned(),
        limits: limits::from_env()?,
        on_invalid: OnInvalid::Fail,
        empty: if plan.args.allow_empty { Empty::Accepted } else { Empty::Rejected },
        summarize: Some(crate::console::summarize),
    };
    // Everything below uses this copy: what was checked is what is packed.
    let configs = scratch.join("configs");
    stage(&directory, &configs, printer)?;
    let directory = ServedDirectory { root: configs.clone(), ..directory };
    let cache = scratch.join("cache");
    let ours = build_portable(&directory, &cache).map_err(|error| failure(error.into(), printer))?;
    let theirs = plan.args.upstream_cache.then(|| upstream_cache(&directory, &*ours.cache, scratch)).transpose()?;

    let mut catalog = Layer::new();
    catalog.tree(CONFIGS, &configs, LayerModes::default())?;
    let catalog = write(&catalog)?;
    let mut layer = Layer::new();
    layer.directory("/tmp", 0o1777);
    layer.tree(CACHE, &cache, CACHE_MODES)?;
    if let Some(theirs) = &theirs {
        let (place, modes) = (format!("{CACHE}/{}", upstream::CACHE), upstream::CACHE_MODES);
        let inside = LayerModes { directory: modes.directory, file: modes.file };
        layer.tree(&place, &theirs.join(upstream::CACHE), inside)?;
        layer.directory(&place, modes.root);
        layer.file(&format!("{CACHE}/{}", upstream::DIGEST), &theirs.join(upstream::DIGEST), modes.file)?;
    }
    Ok([catalog, write(&layer)?])
}

/// Checks a catalog and copies its files, and no others, to `target`.
fn stage(directory: &ServedDirectory, target: &Path, printer: &Printer) -> CommandResult {
    let root = &directory.root;
    if !root.is_dir() {
        return Err(Failure::message(format!("\"{}\" is not a directory", root.display())));
    }
    let before = Fingerprint::at(root).map_err(|error| in_path(root, &error))?;
    let mut members = directory.members().map_err(|error| failure(PrepareError::Catalog(error).into(), printer))?;
    let unportable = members.remove_unportable(root)?;
    if !unportable.is_empty() {
        let lines: Vec<String> =
            unportable.iter().map(|(path, reason)| format!("{} {reason}", root.join(path).display())).collect();
        return Err(Failure::message(format!(
            "an image cannot contain all files of the catalog:\n  {}\nhelp: replace links with copies and rename hidden \
             files, or list them in .indexignore",
            lines.join("\n  ")
        )));
    }
    members.copy_to(target)?;
    match Fingerprint::at(root).map_err(|error| in_path(root, &error))? == before {
        true => Ok(()),
        false => Err(Failure::message(format!("{}: the catalog changed during the build", root.display()))),
    }
}

/// Writes the cache of upstream opm and returns its directory.
fn upstream_cache(directory: &ServedDirectory, answers: &dyn Query, scratch: &Path) -> Result<PathBuf, Failure> {
    let target = scratch.join("upstream");
    std::fs::create_dir(&target)?;
    upstream::build(directory, answers, &target)
        .map_err(|error| Failure::message(format!("upstream cache: {error}")))?;
    Ok(target)
}

pub(crate) fn program_layer(program: &Path) -> Result<Layer, Failure> {
    let mut layer = Layer::new();
    layer.file("/bin/opm", program, 0o755)?;
    for name in personality::other_names() {
        layer.symlink(&format!("/bin/{name}"), "opm");
    }
    Ok(layer)
}

fn assemble(
    plan: &Plan<'_>,
    store: &Store,
    platform: &Platform,
    program: bool,
    layers: &[BuiltLayer],
    history: Vec<String>,
) -> Result<Descriptor, Failure> {
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let serves = program && plan.args.directory.is_some();
    let images = plan.args.images(plan.tls, Some(platform));
    let base = plan.args.base_image.as_ref().map(|base| base_image(base, &images, store)).transpose()?;
    let image = ImagePlan {
        platform: platform.clone(),
        labels: plan.labels.clone(),
        entrypoint: program.then(|| words(&["/bin/opm"])).flatten(),
        cmd: if serves { words(&["serve", CONFIGS, &format!("--cache-dir={CACHE}")]) } else { None },
        ports: if serves { vec!["50051/tcp".into()] } else { Vec::new() },
        user: (program && base.is_none()).then(|| USER.to_owned()),
        created: plan.time,
        history,
        ..ImagePlan::default()
    };
    let base = base.as_ref().map(|base| BaseImage { manifest: &base.manifest, config: &base.config });
    Ok(image::build(store, &image, layers, base)?)
}

/// Pulls a base image into the store.
pub(crate) fn base_image(reference: &str, images: &Images, store: &Store) -> Result<Image, Failure> {
    let wrong = |failure: Failure| failure.context(format!("base image \"{reference}\""));
    let image = images.fetch_one(reference).map_err(|error| wrong(Failure::fault(error)))?.image;
    let here = Location::Layout { path: store.root().into(), tag: Some("base".into()) };
    let client = images.client().map_err(|error| wrong(Failure::fault(error)))?;
    client.push(&image.manifest_digest, &here).map_err(|error| wrong(Failure::fault(error)))?;
    Ok(image)
}
