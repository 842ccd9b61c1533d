//! `opm mirror verify`: checks that a set is complete and undamaged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Digest, Store};
use mirror::report::json;
use mirror::set::{Contents, read_lock};
use mirror::verify;

use super::flags::{MoveFlags, report_missing};
use super::push::{OpenSet, check_expected};
use crate::exit::{Failure, Outcome};
use crate::images::TlsFlags;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::transfer::{Moved, bytes};

/// Check that a set is complete and undamaged
#[derive(clap::Args)]
#[command(
    long_about = "Check that a set is complete and undamaged.\n\n\
        For a directory or volumes, opm hashes every blob and uses no network. For a registry, it checks that every manifest, \
        tag and blob of the lock exists; --deep fetches and hashes them all. opm reports problems by package and bundle and \
        exits with code 1. --have writes the list of existing blobs, for 'pull --have' on the other side.",
    after_help = "Examples:\n  \
        opm mirror verify set\n  \
        opm mirror verify /media/usb\n  \
        opm mirror verify registry.example.com:5000/mirror --lock set/mirror/lock.json\n  \
        opm mirror verify registry.example.com:5000/mirror --lock set/mirror/lock.json --have there.txt"
)]
pub(super) struct VerifyArgs {
    /// Set directory, volumes, a directory of volumes, or a registry with an optional path prefix
    #[arg(value_name = "DIR|VOLUME...|REGISTRY[/PATH]", required = true)]
    places: Vec<String>,
    /// Lock of the set that the registry must contain
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Expected digest of the lock
    #[arg(long, value_name = "DIGEST")]
    expect: Option<String>,
    /// Fetch and hash every blob of the registry
    #[arg(long)]
    deep: bool,
    /// Write the list of existing blobs to this file
    #[arg(long, value_name = "OUT")]
    have: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,
    /// Maximum number of repository path components; excess components are joined with '-'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_nested_paths: Option<u16>,
    #[command(flatten)]
    moving: MoveFlags,
}

pub(super) fn run(args: &VerifyArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let local = args.places.iter().all(|place| Path::new(place).exists());
    if local && args.deep {
        return Err(Failure::message("--deep requires a registry: local blobs are always hashed"));
    }
    let found = if local { check_local(args, tls)? } else { check_registry(args, tls)? };
    if let Some(out) = &args.have {
        let list: String = found.have.iter().map(|(digest, size)| format!("{digest} {size}\n")).collect();
        mirror::set::write_whole(out, list.as_bytes()).map_err(Failure::message)?;
    }
    if args.output == "json" {
        printer.data().write_all(json(&found.missing).as_bytes())?;
    } else {
        report_missing(&found.missing, printer);
        for line in &found.damage {
            printer.error(line);
        }
    }
    if !found.missing.is_empty() || !found.damage.is_empty() {
        return Err(Failure::Reported);
    }
    let total: u64 = found.have.values().sum();
    printer.report(&format!("complete: {} images, {} in {} blobs", found.images, bytes(total), found.have.len()));
    if args.output != "json" {
        writeln!(printer.data(), "{}", found.lock)?;
    }
    Ok(())
}

/// The result of a check.
struct Found {
    lock: Digest,
    images: usize,
    missing: Vec<mirror::report::Missing>,
    /// Damage that belongs to no image.
    damage: Vec<String>,
    have: BTreeMap<Digest, u64>,
}

fn check_local(args: &VerifyArgs, tls: &TlsFlags) -> Result<Found, Failure> {
    let paths: Vec<PathBuf> = args.places.iter().map(PathBuf::from).collect();
    let moved: Arc<Moved> = Arc::default();
    let from = OpenSet::open(&paths, &args.moving, &moved, tls)?;
    check_expected(&from.lock, args.expect.as_ref())?;
    let mut bad: BTreeMap<Digest, String> = BTreeMap::new();
    let mut damage = Vec::new();
    match &from.volumes {
        None => bad = verify::directory(&from.client.options().store, &from.contents, &BTreeSet::new()),
        Some(volumes) => {
            for (digest, error) in volumes.check() {
                let known = from.contents.blobs.contains_key(&digest) || from.contents.documents.contains_key(&digest);
                match known {
                    true => drop(bad.insert(digest, error)),
                    false => damage.push(error),
                }
            }
            // A delta volume lacks the blobs of the other side, so only absent volumes count as damage.
            if !volumes.absent.is_empty() {
                damage.push(format!("missing volumes {:?}", volumes.absent));
                for digest in from.contents.blobs.keys().filter(|digest| !from.has(digest)) {
                    bad.entry(*digest).or_insert_with(|| format!("{digest} is not in the given volumes"));
                }
            }
        }
    }
    let missing = verify::by_image(&from.lock, &from.contents, &bad);
    let have = blobs(&from.contents, |digest| from.has(digest) && !bad.contains_key(digest));
    Ok(Found { lock: from.lock.digest(), images: from.lock.images.len(), missing, damage, have })
}

fn check_registry(args: &VerifyArgs, tls: &TlsFlags) -> Result<Found, Failure> {
    let [place] = args.places.as_slice() else {
        return Err(Failure::message("expected one registry, or existing files"));
    };
    let nested = args.max_nested_paths.map(usize::from);
    let target = mirror::destination::Target::parse(place, nested).map_err(Failure::message)?;
    let Some(file) = &args.lock else {
        return Err(Failure::message("a registry requires --lock"));
    };
    let lock = read_lock(file).map_err(Failure::message)?;
    check_expected(&lock, args.expect.as_ref())?;
    let scratch = Unfinished::private("opm-mirror-")?;
    let store = Store::open(&scratch.path().join("store"))?;
    let moved: Arc<Moved> = Arc::default();
    let client = args.moving.client(tls, store, &moved)?;
    // Fetch the manifests from the registry.
    let (mut wanted, mut artifacts) = (Vec::new(), Vec::new());
    let (mut of, mut of_artifacts) = (Vec::new(), Vec::new());
    for image in &lock.images {
        let repository = target.repository(&image.path).map_err(Failure::message)?;
        for (turn, digest) in image.tops().enumerate() {
            if turn == 0 {
                wanted.push((repository.with_digest(digest), image.platforms()));
                of.push(image);
            } else {
                artifacts.push(repository.with_digest(digest));
                of_artifacts.push(image);
            }
        }
    }
    let mut missing = Vec::new();
    let mut lost: BTreeSet<String> = BTreeSet::new();
    let surveyed = client.survey(&wanted, false).into_iter().chain(client.survey_artifacts(&artifacts));
    for (image, outcome) in of.into_iter().chain(of_artifacts).zip(surveyed) {
        if let Err(error) = outcome {
            missing.push(verify::missing(image, &error));
            lost.insert(image.source.clone());
        }
    }
    let mut rest = lock.clone();
    rest.images.retain(|image| !lost.contains(&image.source));
    let contents = super::pull::contents(&client.options().store, &rest, &client)?;
    let checked = verify::registry(&client, &rest, &contents, &target, args.deep);
    let (found, bad) = checked.map_err(Failure::message)?;
    let have = blobs(&contents, |digest| !bad.contains(digest));
    missing.extend(found);
    Ok(Found { lock: lock.digest(), images: lock.images.len(), missing, damage: Vec::new(), have })
}

fn blobs(contents: &Contents, exists: impl Fn(&Digest) -> bool) -> BTreeMap<Digest, u64> {
    let blobs = contents.blobs.iter().map(|(digest, blob)| (*digest, blob.size));
    let documents = contents.documents.iter().map(|(digest, size)| (*digest, *size));
    blobs.chain(documents).filter(|(digest, _)| exists(digest)).collect()
}
