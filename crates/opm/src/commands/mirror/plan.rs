//! `opm mirror plan`: shows the selection and its size.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Digest, Reference, Store};
use mirror::destination::Target;
use mirror::have::Have;
use mirror::lock::{Lock, Role};
use mirror::report::Missing;
use mirror::set::Contents;
use serde::Serialize;

use super::flags::{ChoiceFlags, MoveFlags, TargetFlags};
use super::prepare::{prepare, read};
use crate::exit::{Failure, Outcome};
use crate::images::TlsFlags;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::table;
use crate::transfer::{Moved, bytes};

/// Show what would be mirrored, and its size
#[derive(clap::Args)]
#[command(
    long_about = "Show what would be mirrored, and its size.\n\n\
        opm reads the catalogs and resolves every image to its digest, but fetches only manifests of the images. It shows \
        packages, bundles, images, the size of all unique blobs, and how much remains to fetch, given --have. --lock writes the \
        selection, with every image by digest, for 'pull' and 'copy'.\n\n\
        The exit code is 1 if an image is missing.",
    after_help = "Examples:\n  \
        opm mirror plan imageset.yaml\n  \
        opm mirror plan imageset.yaml --lock lock.json --have last-set\n  \
        opm mirror plan imageset.yaml -o mapping --to registry.example.com/mirror\n  \
        opm mirror plan imageset.yaml --to registry.example.com/mirror --resources cluster-resources\n  \
        opm mirror plan imageset.yaml -o json"
)]
pub(super) struct PlanArgs {
    /// ImageSetConfiguration or lock file, or '-' for standard input
    #[arg(value_name = "FILE|LOCK")]
    file: String,
    /// Output format; mapping prints one line SOURCE=DESTINATION per image
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json", "mapping"])]
    output: String,
    /// Write the lock to this file
    #[arg(long, value_name = "OUT")]
    lock: Option<PathBuf>,
    /// Existing blobs: a set directory, its blobs.txt or lock.json, or a list from 'verify --have'
    #[arg(long, visible_alias = "since", value_name = "DIR|FILE")]
    have: Vec<PathBuf>,
    /// Destination registry with an optional path prefix
    #[arg(long, value_name = "REGISTRY[/PATH]")]
    to: Option<String>,
    /// With --to, directory for the objects that point clusters to the mirror
    #[arg(long, value_name = "DIR", requires = "to")]
    resources: Option<PathBuf>,
    /// Maximum number of repository path components; excess components are joined with '-'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_nested_paths: Option<u16>,
    #[command(flatten)]
    choice: ChoiceFlags,
    #[command(flatten)]
    moving: MoveFlags,
}

/// A plan as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    lock: &'a Lock,
    blobs: usize,
    bytes: u64,
    bytes_to_fetch: u64,
    missing: &'a [Missing],
}

pub(super) fn run(args: &PlanArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let nested = args.max_nested_paths.map(usize::from);
    let target = args.to.as_ref().map(|to| Target::parse(to, nested)).transpose();
    let target = target.map_err(Failure::message)?;
    let (input, _) = read(&args.file, &args.choice, printer)?;
    let have = Have::read(&args.have).map_err(Failure::message)?;
    let scratch = Unfinished::private("opm-mirror-")?;
    let store = Store::open(&scratch.path().join("store"))?;
    let moved: Arc<Moved> = Arc::default();
    let client = args.moving.client(tls, store, &moved)?;
    let images = args.moving.images(tls, Some(client.options().store.root()));
    let base = Path::new(&args.file).parent().unwrap_or(Path::new(""));
    let mut prepared = prepare(input, &args.choice, base, &client, &images, printer)?;
    let all = prepared.plan.missing.clone();
    prepared.settle(Vec::new(), &args.choice, printer)?;
    let failed = !prepared.plan.missing.is_empty();
    if prepared.plan.missing.iter().any(|one| one.failed) {
        return Err(Failure::message(
            "some images could not be checked, so there is no plan\nhelp: run the command again",
        ));
    }
    let lock = prepared.into_lock();
    let contents = Contents::of(&client.options().store, &lock, &client.options().limits)
        .map_err(|missing| Failure::message(format!("{missing:?}")))?;
    if let Some(target) = &target {
        mirror::preflight::paths(&lock, target).map_err(Failure::message)?;
    }
    let have = have.of(&lock, &contents).blobs;
    let fetch: u64 = contents.blobs.values().filter(|blob| !have.contains(&blob.digest)).map(|blob| blob.size).sum();
    match args.output.as_str() {
        "json" => {
            let (blobs, bytes) = (contents.blobs.len(), contents.bytes());
            let answer = Answer { lock: &lock, blobs, bytes, bytes_to_fetch: fetch, missing: &all };
            serde_json::to_writer_pretty(printer.data(), &answer).map_err(std::io::Error::from)?;
            writeln!(printer.data())?;
        }
        "mapping" => {
            for image in &lock.images {
                printer.data().write_all(mapping_line(image, target.as_ref()).as_bytes())?;
            }
        }
        _ => text(&lock, &contents, fetch, printer)?,
    }
    // A lock without the missing images would be a smaller set that nobody asked for.
    if failed {
        return Err(Failure::Reported);
    }
    if let (Some(resources), Some(target)) = (&args.resources, &target) {
        let flags = TargetFlags { resources: resources.clone(), ..TargetFlags::default() };
        flags.write_resources(&lock, target, tls, printer)?;
    }
    if let Some(out) = &args.lock {
        mirror::set::write_whole(out, lock.to_text().as_bytes()).map_err(Failure::message)?;
        printer.report(&format!("lock: {}, {}", out.display(), lock.digest()));
    }
    Ok(())
}

/// Prints a plan as text.
fn text(lock: &Lock, contents: &Contents, fetch: u64, printer: &mut Printer) -> Outcome {
    for catalog in &lock.catalogs {
        let digest = catalog.digest.get(..19).unwrap_or(&catalog.digest);
        let whole = if catalog.whole { ", as it is" } else { "" };
        writeln!(printer.data(), "catalog {} ({digest}{whole})", catalog.source)?;
        if catalog.whole && catalog.packages.len() > 20 {
            writeln!(printer.data(), "  {} packages", catalog.packages.len())?;
            continue;
        }
        let rows = catalog.packages.iter().flat_map(|(name, package)| {
            package.channels.iter().map(move |(channel, bundles)| {
                let default = if *channel == package.default_channel { " (default)" } else { "" };
                vec![format!("  {name}"), format!("{channel}{default}"), bundles.join(" ")]
            })
        });
        let table = table::text(&["  PACKAGE", "CHANNEL", "BUNDLES"], rows.collect());
        printer.data().write_all(table.as_bytes())?;
    }
    let count = |role: Role| lock.images.iter().filter(|image| image.role == role).count();
    let different: BTreeSet<&String> = lock.images.iter().map(|image| &image.digest).collect();
    let hosts: BTreeSet<String> =
        lock.images.iter().filter_map(|image| Some(Reference::parse(&image.source).ok()?.host().to_owned())).collect();
    let signed = lock.images.iter().filter(|image| !image.referrers.is_empty()).count();
    writeln!(printer.data(), "bundles: {}", lock.bundles().len())?;
    writeln!(
        printer.data(),
        "images:  {} different of {} names ({} bundles, {} related, {} additional), {signed} with signatures or the like",
        different.len(),
        lock.images.len(),
        count(Role::Bundle),
        count(Role::Related),
        count(Role::Additional),
    )?;
    writeln!(printer.data(), "from:    {}", hosts.into_iter().collect::<Vec<_>>().join(", "))?;
    let all = contents.bytes();
    writeln!(
        printer.data(),
        "bytes:   {} in {} different blobs, {} to fetch",
        bytes(all),
        contents.blobs.len(),
        bytes(fetch)
    )?;
    if !lock.left_out.is_empty() {
        writeln!(printer.data(), "left out: {}", lock.left_out.len())?;
    }
    Ok(())
}

/// The options of a mapping.
pub(super) struct Mapping<'a> {
    /// The output directory.
    pub(super) place: &'a Path,
    /// The destination registry, and the options for cluster objects.
    pub(super) target: Option<(&'a Target, &'a TargetFlags)>,
    /// The set that can already have blobs.
    pub(super) set: Option<&'a Path>,
    /// Whether the images of an index get their own lines.
    pub(super) children: bool,
}

/// Resolves an image set, and writes its mapping.
pub(super) fn mapping(
    file: &str,
    mapping: &Mapping<'_>,
    choice: &ChoiceFlags,
    moving: &MoveFlags,
    tls: &TlsFlags,
    printer: &Printer,
) -> Outcome {
    let (input, _) = read(file, choice, printer)?;
    let scratch = Unfinished::private("opm-mirror-")?;
    let moved: Arc<Moved> = Arc::default();
    let client = moving.client(tls, Store::open(&scratch.path().join("store"))?, &moved)?;
    let images = moving.images(tls, Some(&scratch.path().join("source")));
    let base = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut prepared = prepare(input, choice, base, &client, &images, printer)?;
    let lock = prepared.lend();
    let contents = super::pull::contents(&client.options().store, &lock, &client)?;
    write_mapping(mapping, &lock, &contents, tls, printer)?;
    super::flags::report_missing(&prepared.plan.missing, printer);
    if prepared.plan.missing.is_empty() { Ok(()) } else { Err(Failure::Reported) }
}

/// Writes `mapping.txt` with one line per image, `missing.txt` with the images whose blobs a set lacks, and the cluster
/// objects.
pub(super) fn write_mapping(
    mapping: &Mapping<'_>,
    lock: &Lock,
    contents: &Contents,
    tls: &TlsFlags,
    printer: &Printer,
) -> Outcome {
    let Mapping { place, target, set, children } = *mapping;
    let there = |digest: &Digest| set.is_some_and(|set| set.join("blobs/sha256").join(digest.hex()).is_file());
    let (mut all, mut missing) = (String::new(), String::new());
    for (image, parts) in lock.images.iter().zip(&contents.by_image) {
        let to = target.map(|(target, _)| target);
        let mut line = mapping_line(image, to);
        if children {
            let documents = parts.iter().filter(|part| contents.documents.contains_key(part));
            let own = documents.filter(|digest| digest.to_string() != image.digest);
            line.extend(own.map(|digest| child_line(image, to, digest)));
        }
        all += &line;
        if !parts.iter().all(there) {
            missing += &line;
        }
    }
    mirror::set::write_whole(&place.join("mapping.txt"), all.as_bytes()).map_err(Failure::message)?;
    if set.is_some() {
        mirror::set::write_whole(&place.join("missing.txt"), missing.as_bytes()).map_err(Failure::message)?;
    }
    if let Some((target, flags)) = target {
        flags.write_resources(lock, target, tls, printer)?;
    }
    printer.report(&format!("listed {} images in {}", lock.images.len(), place.join("mapping.txt").display()));
    Ok(())
}

/// Formats the mapping line of an image.
fn mapping_line(image: &mirror::lock::LockedImage, target: Option<&Target>) -> String {
    let source = image.source.trim_start_matches("docker://");
    format!("docker://{source}=docker://{}:{}\n", place_of(image, target), image.tag)
}

fn place_of(image: &mirror::lock::LockedImage, target: Option<&Target>) -> String {
    match target {
        Some(target) => format!("{}/{}", target.host, target.path(&image.path)),
        None => image.path.clone(),
    }
}

/// Formats the mapping line of an index or signature member, which has no tag.
fn child_line(image: &mirror::lock::LockedImage, target: Option<&Target>, digest: &Digest) -> String {
    let source = Reference::parse(image.source.trim_start_matches("docker://")).map(|source| source.name());
    format!("docker://{}@{digest}=docker://{}@{digest}\n", source.unwrap_or_default(), place_of(image, target))
}
