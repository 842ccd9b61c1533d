//! `opm mirror verify`: whether a set is all there and whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Digest, Store};
use mirror::report::json;
use mirror::set::{Contents, read_lock};
use mirror::verify;

use super::flags::{MoveFlags, tell_missing};
use super::push::{From, check_expected};
use crate::exit::{Failure, Outcome};
use crate::images::TlsFlags;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::transfer::{Moved, bytes};

/// Check that a set is all there and whole
#[derive(clap::Args)]
#[command(
    long_about = "Check that a set is all there and whole.\n\n\
        A directory or volumes are read and every blob is hashed, without any network. Of a registry it is asked whether \
        every manifest, tag and blob of the lock is there; --deep fetches and hashes them all. What is wrong is shown by \
        package and bundle, and the exit code is 1. --have writes the list of blobs that are there, for 'pull --have' on \
        the other side.",
    after_help = "Examples:\n  \
        opm mirror verify set\n  \
        opm mirror verify /media/usb\n  \
        opm mirror verify registry.example.com:5000/mirror --lock set/mirror/lock.json\n  \
        opm mirror verify registry.example.com:5000/mirror --lock set/mirror/lock.json --have there.txt"
)]
pub(super) struct VerifyArgs {
    /// Directory of a set, volumes or a directory of them, or a registry with the path in front of all repositories
    #[arg(value_name = "DIR|VOLUME...|REGISTRY[/PATH]", required = true)]
    places: Vec<String>,
    /// Lock of the set that a registry should have
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Digest that the lock has to have
    #[arg(long, value_name = "DIGEST")]
    expect: Option<String>,
    /// Fetch every blob from the registry and hash it
    #[arg(long)]
    deep: bool,
    /// Write the list of blobs that are there to a file
    #[arg(long, value_name = "OUT")]
    have: Option<PathBuf>,
    /// Form of the answer
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,
    /// How many components the path of a repository may have; what is too much is joined with '-'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_nested_paths: Option<u16>,
    #[command(flatten)]
    moving: MoveFlags,
}

pub(super) fn run(args: &VerifyArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let local = args.places.iter().all(|place| Path::new(place).exists());
    if local && args.deep {
        return Err(Failure::message("--deep is for registries: what is here is always read"));
    }
    let found = if local { here(args, tls)? } else { there(args, tls)? };
    if let Some(out) = &args.have {
        let list: String = found.have.iter().map(|(digest, size)| format!("{digest} {size}\n")).collect();
        mirror::set::write_whole(out, list.as_bytes()).map_err(Failure::message)?;
    }
    if args.output == "json" {
        printer.data().write_all(json(&found.missing).as_bytes())?;
    } else {
        tell_missing(&found.missing, printer);
        for line in &found.damage {
            printer.error(line);
        }
    }
    if !found.missing.is_empty() || !found.damage.is_empty() {
        return Err(Failure::Reported);
    }
    let total: u64 = found.have.values().sum();
    printer.report(&format!("all there: {} images, {} in {} blobs", found.images, bytes(total), found.have.len()));
    if args.output != "json" {
        writeln!(printer.data(), "{}", found.lock)?;
    }
    Ok(())
}

/// What was found.
struct Found {
    lock: Digest,
    images: usize,
    missing: Vec<mirror::report::Missing>,
    /// What belongs to no image.
    damage: Vec<String>,
    have: BTreeMap<Digest, u64>,
}

fn here(args: &VerifyArgs, tls: &TlsFlags) -> Result<Found, Failure> {
    let paths: Vec<PathBuf> = args.places.iter().map(PathBuf::from).collect();
    let moved: Arc<Moved> = Arc::default();
    let from = From::open(&paths, &args.moving, &moved, tls)?;
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
            // A delta lacks what the other side has; a volume that is absent is named.
            if !volumes.absent.is_empty() {
                damage.push(format!("volumes {:?} are not among those given", volumes.absent));
                for digest in from.contents.blobs.keys().filter(|digest| !from.has(digest)) {
                    bad.entry(*digest).or_insert_with(|| format!("{digest} is in none of the volumes"));
                }
            }
        }
    }
    let missing = verify::by_image(&from.lock, &from.contents, &bad);
    let have = blobs(&from.contents, |digest| from.has(digest) && !bad.contains_key(digest));
    Ok(Found { lock: from.lock.digest(), images: from.lock.images.len(), missing, damage, have })
}

fn there(args: &VerifyArgs, tls: &TlsFlags) -> Result<Found, Failure> {
    let [place] = args.places.as_slice() else {
        return Err(Failure::message("expected one registry, or files that exist"));
    };
    let nested = args.max_nested_paths.map(usize::from);
    let target = mirror::destination::Target::parse(place, nested).map_err(Failure::message)?;
    let Some(file) = &args.lock else {
        return Err(Failure::message("--lock says what the registry should have"));
    };
    let lock = read_lock(file).map_err(Failure::message)?;
    check_expected(&lock, args.expect.as_ref())?;
    let scratch = Unfinished::private("opm-mirror-")?;
    let store = Store::open(&scratch.path().join("store"))?;
    let moved: Arc<Moved> = Arc::default();
    let client = args.moving.client(tls, store, &moved)?;
    // Manifests come from the registry itself.
    let mut wanted = Vec::new();
    for image in &lock.images {
        let repository = target.repository(&image.path).map_err(Failure::message)?;
        for (turn, digest) in image.tops().enumerate() {
            let platforms = if turn == 0 { image.platforms() } else { Vec::new() };
            wanted.push((repository.with_digest(digest), platforms, image));
        }
    }
    let asked: Vec<_> = wanted.iter().map(|(reference, platforms, _)| (reference.clone(), platforms.clone())).collect();
    let mut missing = Vec::new();
    let mut lost: BTreeSet<String> = BTreeSet::new();
    for ((_, _, image), outcome) in wanted.iter().zip(client.survey(&asked, false)) {
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

fn blobs(contents: &Contents, is_there: impl Fn(&Digest) -> bool) -> BTreeMap<Digest, u64> {
    let blobs = contents.blobs.iter().map(|(digest, blob)| (*digest, blob.size));
    let documents = contents.documents.iter().map(|(digest, size)| (*digest, *size));
    blobs.chain(documents).filter(|(digest, _)| is_there(digest)).collect()
}
