//! `opm mirror pull`: fetches an image set to a directory.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Client, Digest, Error, Store};
use mirror::have::Have;
use mirror::lock::Lock;
use mirror::preflight::{self, InsufficientSpace, Need};
use mirror::report::{Cause, Missing, json};
use mirror::set::{Contents, SetDir};
use mirror::verify::by_image;
use mirror::volume;
use source::Images;

use super::flags::{ChoiceFlags, MoveFlags};
use super::open;
use super::prepare::{Input, Prepared, prepare, read};
use crate::exit::{Failure, Outcome, in_path};
use crate::images::TlsFlags;
use crate::printer::Printer;
use crate::transfer::{Moved, bytes};

/// Fetch an image set to a directory
#[derive(clap::Args)]
#[command(
    long_about = "Fetch an image set to a directory.\n\n\
        The directory is an OCI image layout that stores every blob once. The lock, the list of blobs and the catalogs are \
        below 'mirror'. Run the command again to resume, even after it was killed: it keeps existing blobs and continues \
        partial ones. The set is complete when the lock exists. The command prints the digest of the lock, so that both \
        sides can compare it.\n\n\
        --volumes splits the set into plain tar files of at most that size, for removable media. With --have, they hold only \
        the blobs that the other side lacks.",
    after_help = "Examples:\n  \
        opm mirror pull imageset.yaml set\n  \
        opm mirror pull imageset.yaml set --missing drop\n  \
        opm mirror pull lock.json set --volumes 4G --to /media/usb\n  \
        opm mirror pull imageset.yaml set --volumes 4G --to /media/usb --have last/mirror/blobs.txt"
)]
pub(super) struct PullArgs {
    /// ImageSetConfiguration or lock file
    #[arg(value_name = "FILE|LOCK")]
    pub(super) file: String,
    /// Directory for the set
    #[arg(value_name = "DIR")]
    pub(super) directory: PathBuf,
    /// Write volumes of at most this size, such as 4G or 4GiB; with --to alone, archiveSize of the file applies
    #[arg(long, value_name = "SIZE", value_parser = volume::parse_size)]
    pub(super) volumes: Option<u64>,
    /// Directory for the volumes; defaults to 'volumes' in the set directory
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// Blobs that the other side has: a set directory, its blobs.txt or lock.json, or a list from 'verify --have'
    #[arg(long, visible_alias = "since", value_name = "DIR|FILE")]
    pub(super) have: Vec<PathBuf>,
    /// Remove blobs from the directory after writing their volume
    #[arg(long)]
    pub(super) drain: bool,
    #[command(flatten)]
    pub(super) choice: ChoiceFlags,
    #[command(flatten)]
    pub(super) moving: MoveFlags,
}

pub(super) fn run(args: &PullArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    run_collecting(args, tls, printer, &mut Vec::new())
}

/// Runs the command, and returns missing images in `lacking`.
pub(super) fn run_collecting(
    args: &PullArgs,
    tls: &TlsFlags,
    printer: &mut Printer,
    lacking: &mut Vec<Missing>,
) -> Outcome {
    pull(args, None, tls, printer, lacking)
}

/// Runs the command with archives of the size given by the file, or else of `size`.
pub(super) fn run_with_archives(
    args: &PullArgs,
    size: u64,
    tls: &TlsFlags,
    printer: &mut Printer,
    lacking: &mut Vec<Missing>,
) -> Outcome {
    pull(args, Some(size), tls, printer, lacking)
}

fn pull(
    args: &PullArgs,
    archives: Option<u64>,
    tls: &TlsFlags,
    printer: &mut Printer,
    lacking: &mut Vec<Missing>,
) -> Outcome {
    let (input, text) = read(&args.file, &args.choice, printer)?;
    let archive_size = match &input {
        Input::Set(request) => request.set.archive_size.map(|size| size.saturating_mul(1 << 30)),
        Input::Lock(_) => None,
    };
    let have = Have::read(&args.have).map_err(Failure::message)?;
    let size = args.volumes.or(archive_size.filter(|_| args.to.is_some())).or(archives);
    let volumes = size.map(|size| (size, args.to.clone().unwrap_or_else(|| args.directory.join("volumes"))));
    let set = SetDir::open(&args.directory).map_err(Failure::message)?;
    let _writing = set.write().map_err(Failure::message)?;
    let store = Store::open(&args.directory)?.durable();
    let moved: Arc<Moved> = Arc::default();
    let client = args.moving.client(tls, store, &moved)?;
    let pull = Pull {
        args,
        set: &set,
        client: &client,
        moved: &moved,
        tls,
        have: &have,
        volumes: volumes.as_ref(),
        hashed: RefCell::default(),
    };
    let lock = match pull.packed(&input, printer)? {
        Some(lock) => lock,
        None => pull.fetch(input, &text, printer, lacking)?,
    };
    let contents = contents(&client.options().store, &lock, &client)?;
    writeln!(printer.data(), "{}", lock.digest())?;
    if let Some((size, to)) = &volumes {
        let base = have.of(&lock, &contents);
        let from = volume::CompleteSet { set: &set, lock: &lock, contents: &contents, base: &base };
        let written = volume::write(&from, *size, to, args.drain).map_err(Failure::message)?;
        let (count, size) = (written.files.len(), bytes(written.bytes));
        printer.report(&format!(
            "volumes: {count} in {} ({size}), already present: {} blobs",
            to.display(),
            written.left_out
        ));
    }
    Ok(())
}

/// The context of a pull.
struct Pull<'a> {
    args: &'a PullArgs,
    set: &'a SetDir,
    client: &'a Client,
    moved: &'a Arc<Moved>,
    tls: &'a TlsFlags,
    have: &'a Have,
    /// The size and the directory of volumes.
    volumes: Option<&'a (u64, PathBuf)>,
    /// The content of the volumes of each lock, which takes long to hash.
    hashed: RefCell<BTreeMap<Digest, BTreeSet<Digest>>>,
}

impl Pull<'_> {
    /// Returns the lock of a complete set, some or all of whose blobs have moved from the directory to volumes.
    fn packed(&self, input: &Input, printer: &Printer) -> Result<Option<Lock>, Failure> {
        // With a policy, all images of the set are checked first.
        if !self.drains() || self.args.moving.enforce_policy {
            return Ok(None);
        }
        let Ok(lock) = self.set.lock() else { return Ok(None) };
        let store = &self.client.options().store;
        let Ok(all) = Contents::of(store, &lock, &self.client.options().limits) else { return Ok(None) };
        let packed = self.in_volumes(&lock, &all);
        let lacking = all.lacking(store, &lock);
        if packed.is_empty() || lacking.is_empty() || !lacking.iter().all(|one| packed.contains(&one.blob.digest)) {
            return Ok(None);
        }
        let same = match input {
            Input::Lock(wanted) => **wanted == lock,
            Input::Set(request) => {
                let source = self.set.own("source");
                let images = self.args.moving.images(self.tls, Some(&source));
                let same = lock.request == request.request.to_string() && matches(&lock, &request.set, &images)?;
                // The images pulled for this check are not part of the set.
                let _ = std::fs::remove_dir_all(source);
                same
            }
        };
        if same {
            printer.report(&format!("the set is complete: {} of its blobs are already in volumes", lacking.len()));
        }
        Ok(same.then_some(lock))
    }

    /// Returns whether blobs move from the directory to volumes.
    fn drains(&self) -> bool {
        self.volumes.is_some() && self.args.drain
    }

    /// Returns the blobs in the volumes of the set.
    fn in_volumes(&self, lock: &Lock, all: &Contents) -> BTreeSet<Digest> {
        match self.volumes {
            Some((_, to)) if self.args.drain => {
                let packed = || volume::packed(to, lock, &self.have.of(lock, all).blobs);
                self.hashed.borrow_mut().entry(lock.digest()).or_insert_with(packed).clone()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Fetches the missing blobs of a set to its directory, and returns its lock.
    fn fetch(&self, input: Input, text: &[u8], printer: &Printer, lacking: &mut Vec<Missing>) -> Result<Lock, Failure> {
        let (args, set, client) = (self.args, self.set, self.client);
        let source = set.own("source");
        let images = args.moving.images(self.tls, Some(&source));
        let mut choice = args.choice.clone();
        let input = match input {
            // The same request and unchanged catalogs give the same selection.
            Input::Set(request) => match set.lock() {
                Ok(lock) if lock.request == request.request.to_string() && matches(&lock, &request.set, &images)? => {
                    Input::Lock(Box::new(lock))
                }
                _ => Input::Set(request),
            },
            lock => lock,
        };
        // Only blobs of an existing lock can have moved to volumes.
        let mut known = None;
        if let Input::Lock(lock) = &input {
            if lock.catalogs.iter().all(|catalog| !catalog.image.is_empty()) {
                // A complete lock is final: its bundles without images were dropped before.
                choice.missing = mirror::report::OnMissing::Fail;
            }
            known = self.drains().then(|| lock.clone());
        }
        let base = Path::new(&args.file).parent().unwrap_or(Path::new(""));
        let mut prepared = prepare(input, &choice, base, client, &images, printer)?;
        let draft = prepared.lend();
        let store = &client.options().store;
        let all = contents(store, &draft, client)?;
        let mut wanted = all.lacking(store, &draft);
        if let Some(lock) = &known {
            let packed = self.in_volumes(lock, &all);
            wanted.retain(|one| !packed.contains(&one.blob.digest));
        }
        let wanted = reuse(&source, store, wanted);
        self.check_space(&draft, &all, &wanted)?;
        let failed = fetch_blobs(client, self.moved, wanted);
        if let Some(error) = failed.values().find(|error| error.kind() == image::ErrorKind::File) {
            let left: u64 = all.lacking(store, &draft).iter().map(|one| self.left(&one.blob)).sum();
            return Err(Failure::message(format!(
                "{error}\n{} remain to fetch\nhelp: free disk space and run the command again to resume",
                bytes(left)
            )));
        }
        let causes: BTreeMap<Digest, Cause> =
            failed.into_iter().map(|(digest, error)| (digest, Cause::from(&error))).collect();
        let failed: Vec<Missing> = by_image(&draft, &all, &causes);
        drop((all, known));
        prepared.restore(draft);
        prepared.settle(failed, &choice, printer)?;
        if !prepared.plan.missing.is_empty() {
            set.put("report.json", json(&prepared.plan.missing).as_bytes()).map_err(Failure::message)?;
            lacking.clone_from(&prepared.plan.missing);
            return Err(Failure::message(
                "the set is incomplete\nhelp: run the command again to fetch only the missing images, or see --missing",
            ));
        }
        self.finish(prepared, text, printer)
    }

    /// Returns the remaining bytes of a blob.
    fn left(&self, blob: &image::Descriptor) -> u64 {
        let begun = self.args.directory.join("partial").join(blob.digest.hex());
        blob.size - begun.metadata().map_or(0, |about| about.len()).min(blob.size)
    }

    /// Checks that the disks have space for the missing blobs and the volumes.
    fn check_space(&self, lock: &Lock, all: &Contents, wanted: &[image::Wanted]) -> Outcome {
        let to_come: u64 = wanted.iter().map(|one| self.left(&one.blob)).sum();
        let mut needs = vec![Need { place: self.args.directory.clone(), bytes: to_come }];
        if let Some((size, to)) = self.volumes {
            let have = self.have.of(lock, all).blobs;
            let blobs = all.blobs.values().filter(|blob| !have.contains(&blob.digest));
            let bytes: u64 = blobs.map(|blob| blob.size).sum();
            // Volumes of an earlier run stay, or are replaced by the same content.
            let there: u64 = std::fs::read_dir(to)
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("mirror-"))
                .filter_map(|entry| entry.metadata().ok())
                .map(|about| about.len())
                .sum();
            let bytes = if self.args.drain { bytes.min(*size) } else { bytes };
            needs.push(Need { place: to.clone(), bytes: bytes.saturating_sub(there) });
        }
        preflight::disk_space(&needs).map_err(disk_full)
    }

    fn finish(&self, mut prepared: Prepared, text: &[u8], printer: &Printer) -> Result<Lock, Failure> {
        let (set, client) = (self.set, self.client);
        if set.lock().is_ok() {
            prepared.compare(&set.own("catalogs"), printer)?;
        }
        prepared.build(&set.own("catalogs"), client, self.tls, printer)?;
        let lock = prepared.into_lock();
        let store = &client.options().store;
        let all = contents(store, &lock, client)?;
        // Now fetch the layers of original images that catalogs are built on.
        let mut wanted = all.lacking(store, &lock);
        let packed = self.in_volumes(&lock, &all);
        wanted.retain(|one| !packed.contains(&one.blob.digest));
        let wanted = reuse(&set.own("source"), store, wanted);
        let failed = fetch_blobs(client, self.moved, wanted);
        if let Some(error) = failed.into_values().next() {
            return Err(Failure::message(format!("{error}\nhelp: run the command again to resume")));
        }
        let file = if text.trim_ascii_start().starts_with(b"{") { "request.json" } else { "set.yaml" };
        set.put(file, text).map_err(Failure::message)?;
        set.put("blobs.txt", all.list().as_bytes()).map_err(Failure::message)?;
        set.put_index(&lock, &all).map_err(Failure::message)?;
        set.drop("report.json").map_err(Failure::message)?;
        // Sync first: a lock promises a complete set, even after a power failure.
        store.seal().map_err(|error| in_path(store.root(), &error))?;
        set.put("lock.json", lock.to_text().as_bytes()).map_err(Failure::message)?;
        // Remove temporary files and the blobs of earlier sets.
        let _ = std::fs::remove_dir_all(set.own("source"));
        set.sweep(&all).map_err(Failure::message)?;
        let (images, size) = (lock.images.len(), bytes(all.bytes()));
        printer.report(&format!("the set is complete: {images} images, {size} in {} unique blobs", all.blobs.len()));
        Ok(lock)
    }
}

/// Takes over the blobs of catalog images that were pulled into `source`, and returns the blobs to fetch.
pub(super) fn reuse(source: &Path, store: &Store, mut wanted: Vec<image::Wanted>) -> Vec<image::Wanted> {
    wanted.retain(|one| !store.adopt(source, &one.blob));
    wanted
}

/// Returns the failure for a disk with too little space.
pub(super) fn disk_full(disk: InsufficientSpace) -> Failure {
    let (place, lacking) = (disk.place.display(), disk.needed - disk.free);
    Failure::message(format!(
        "{place}: not enough space: {} needed, {} free, {} short\nhelp: free space or use another directory; nothing was transferred",
        bytes(disk.needed),
        bytes(disk.free),
        bytes(lacking)
    ))
}

/// Returns whether the catalogs and additional images of a lock still match the file.
fn matches(lock: &Lock, wanted: &mirror::imageset::ImageSet, images: &Images) -> Result<bool, Failure> {
    for catalog in &wanted.catalogs {
        let Some(digest) = open::pin(&catalog.source, images)? else { return Ok(false) };
        let source = catalog.source.to_string();
        if !lock.catalogs.iter().any(|it| it.source == source && it.digest == digest.to_string()) {
            return Ok(false);
        }
    }
    let client = images.client()?;
    for image in &wanted.additional {
        let digest = client.head(&image.reference).map(|digest| digest.to_string()).ok();
        let source = image.reference.to_string();
        if !lock.images.iter().any(|it| it.source == source && Some(&it.digest) == digest.as_ref()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Fetches blobs, and shows progress.
pub(super) fn fetch_blobs(
    client: &Client,
    moved: &Arc<Moved>,
    wanted: Vec<image::Wanted>,
) -> std::collections::HashMap<Digest, Error> {
    if wanted.is_empty() {
        return std::collections::HashMap::new();
    }
    let total = wanted.iter().map(|one| one.blob.size).sum();
    let _shown = moved.show("fetching", total);
    client.fetch_set(wanted)
}

/// Collects the blobs of all images of a lock, whose manifests must be in the store.
pub(super) fn contents(store: &Store, lock: &Lock, client: &Client) -> Result<Contents, Failure> {
    Contents::of(store, lock, &client.options().limits).map_err(|missing| {
        let lines: Vec<String> = missing.iter().map(|(image, cause)| format!("{image}: {cause}")).collect();
        Failure::message(lines.join("\n"))
    })
}
