//! `opm mirror pull`: everything that a file asks for, into a directory.

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

use super::flags::{ChoiceFlags, MoveFlags};
use super::open;
use super::prepare::{Input, Prepared, prepare, read};
use crate::exit::{Failure, Outcome, in_path};
use crate::images::TlsFlags;
use crate::printer::Printer;
use crate::transfer::{Moved, bytes};

/// Fetch everything that a file asks for to a directory
#[derive(clap::Args)]
#[command(
    long_about = "Fetch everything that a file asks for to a directory.\n\n\
        The directory is an OCI image layout in which every different blob lies once, with the lock, the list of blobs \
        and the catalogs below 'mirror'. Run again, the command goes on where it was, also after it was killed: what \
        is there is not fetched again, and a blob that broke off is continued. The set is whole when the lock is there; \
        its digest is printed, so that both sides can compare it.\n\n\
        --volumes cuts the set into plain tar files of at most that size, for media; with --have they hold only what \
        is not on the other side yet.",
    after_help = "Examples:\n  \
        opm mirror pull imageset.yaml set\n  \
        opm mirror pull imageset.yaml set --missing drop\n  \
        opm mirror pull lock.json set --volumes 4G --to /media/usb\n  \
        opm mirror pull imageset.yaml set --volumes 4G --to /media/usb --have last/mirror/blobs.txt"
)]
pub(super) struct PullArgs {
    /// File of kind ImageSetConfiguration, or a lock
    #[arg(value_name = "FILE|LOCK")]
    pub(super) file: String,
    /// Directory for the set
    #[arg(value_name = "DIR")]
    pub(super) directory: PathBuf,
    /// Write volumes of at most this size, such as 4G or 4GiB; archiveSize of the file counts if --to is given alone
    #[arg(long, value_name = "SIZE", value_parser = volume::parse_size)]
    pub(super) volumes: Option<u64>,
    /// Directory for the volumes; defaults to that of the set with 'volumes' behind it
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// What the other side has already: a directory with a set, its blobs.txt or lock.json, or a list that 'verify --have'
    /// wrote
    #[arg(long, visible_alias = "since", value_name = "DIR|FILE")]
    pub(super) have: Vec<PathBuf>,
    /// Remove blobs from the directory when their volume is written
    #[arg(long)]
    pub(super) drain: bool,
    #[command(flatten)]
    pub(super) choice: ChoiceFlags,
    #[command(flatten)]
    pub(super) moving: MoveFlags,
}

pub(super) fn run(args: &PullArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    run_noting(args, tls, printer, &mut Vec::new())
}

/// Runs the command, and returns what is missing in `lacking`.
pub(super) fn run_noting(
    args: &PullArgs,
    tls: &TlsFlags,
    printer: &mut Printer,
    lacking: &mut Vec<Missing>,
) -> Outcome {
    pull(args, None, tls, printer, lacking)
}

/// Runs the command with archives of the size that the file says, or else of `size`.
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
        Input::Set(asked) => asked.set.archive_size.map(|size| size.saturating_mul(1 << 30)),
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
    let pull = Pull { args, set: &set, client: &client, moved: &moved, tls, have: &have, volumes: volumes.as_ref() };
    let lock = match pull.packed(&input, printer)? {
        Some(lock) => lock,
        None => pull.fetch(input, &text, printer, lacking)?,
    };
    let contents = contents(&client.options().store, &lock, &client)?;
    writeln!(printer.data(), "{}", lock.digest())?;
    if let Some((size, to)) = &volumes {
        let base = have.of(&lock, &contents);
        let written = volume::write(&set, &lock, &contents, *size, &base, to, args.drain).map_err(Failure::message)?;
        let (count, size) = (written.files.len(), bytes(written.bytes));
        printer.report(&format!(
            "volumes: {count} in {} ({size}), there before: {} blobs",
            to.display(),
            written.left_out
        ));
    }
    Ok(())
}

/// What a pull works with.
struct Pull<'a> {
    args: &'a PullArgs,
    set: &'a SetDir,
    client: &'a Client,
    moved: &'a Arc<Moved>,
    tls: &'a TlsFlags,
    have: &'a Have,
    /// The size of volumes, and where they go.
    volumes: Option<&'a (u64, PathBuf)>,
}

impl Pull<'_> {
    /// Returns the lock of a set that is whole, whose blobs have left its directory for volumes in part or all.
    fn packed(&self, input: &Input, printer: &Printer) -> Result<Option<Lock>, Failure> {
        if !self.drains() {
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
            Input::Set(asked) => {
                let source = self.set.own("source");
                let images = self.args.moving.images(self.tls, Some(&source));
                let same = lock.request == asked.request.to_string() && still(&lock, &asked.set, &images)?;
                // What it took to know that is no part of the set.
                let _ = std::fs::remove_dir_all(source);
                same
            }
        };
        if same {
            printer.report(&format!("the set is whole: {} of its blobs are in volumes already", lacking.len()));
        }
        Ok(same.then_some(lock))
    }

    /// Returns whether blobs leave the directory for volumes.
    fn drains(&self) -> bool {
        self.volumes.is_some() && self.args.drain
    }

    /// Returns the blobs that are in volumes of the set.
    fn in_volumes(&self, lock: &Lock, all: &Contents) -> BTreeSet<Digest> {
        match self.volumes {
            Some((_, to)) if self.args.drain => volume::packed(to, lock, &self.have.of(lock, all).blobs),
            _ => BTreeSet::new(),
        }
    }

    /// Brings a set into its directory, as far as it is not there, and returns its lock.
    fn fetch(&self, input: Input, text: &[u8], printer: &Printer, lacking: &mut Vec<Missing>) -> Result<Lock, Failure> {
        let (args, set, client) = (self.args, self.set, self.client);
        let source = set.own("source");
        let images = args.moving.images(self.tls, Some(&source));
        let mut choice = args.choice.clone();
        let input = match input {
            // The same request, and catalogs that have not moved: what was chosen then is chosen now.
            Input::Set(asked) => match set.lock() {
                Ok(lock) if lock.request == asked.request.to_string() && still(&lock, &asked.set, &images)? => {
                    Input::Lock(Box::new(lock))
                }
                _ => Input::Set(asked),
            },
            lock => lock,
        };
        // Only a lock that was there before can have left for volumes.
        let mut known = None;
        if let Input::Lock(lock) = &input {
            if lock.catalogs.iter().all(|catalog| !catalog.image.is_empty()) {
                // What is left out is left out for good.
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
        reuse(&source, store.root(), &wanted);
        self.check_room(&draft, &all, &wanted)?;
        let failed = bring(client, self.moved, wanted);
        if let Some(error) = failed.values().find(|error| error.kind() == image::ErrorKind::File) {
            let left: u64 = all.lacking(store, &draft).iter().map(|one| self.left(&one.blob)).sum();
            return Err(Failure::message(format!(
                "{error}\n{} are still to come\nhelp: with more room, run the command again: it goes on from here",
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
                "the set is not whole\nhelp: run the command again to fetch only what is missing, or see --missing",
            ));
        }
        self.finish(prepared, &choice, text, printer)
    }

    /// Returns how much is still to come of a blob.
    fn left(&self, blob: &image::Descriptor) -> u64 {
        let begun = self.args.directory.join("partial").join(blob.digest.hex());
        blob.size - begun.metadata().map_or(0, |about| about.len()).min(blob.size)
    }

    /// Checks that what is lacking, and the volumes, have room.
    fn check_room(&self, lock: &Lock, all: &Contents, wanted: &[image::Wanted]) -> Outcome {
        let to_come: u64 = wanted.iter().map(|one| self.left(&one.blob)).sum();
        let mut needs = vec![Need { place: self.args.directory.clone(), bytes: to_come }];
        if let Some((size, to)) = self.volumes {
            let have = self.have.of(lock, all).blobs;
            let blobs = all.blobs.values().filter(|blob| !have.contains(&blob.digest));
            let bytes: u64 = blobs.map(|blob| blob.size).sum();
            // What an earlier run wrote is in place, or replaced by the same.
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
        preflight::disk_space(&needs).map_err(too_little)
    }

    fn finish(
        &self,
        mut prepared: Prepared,
        choice: &ChoiceFlags,
        text: &[u8],
        printer: &Printer,
    ) -> Result<Lock, Failure> {
        let (set, client) = (self.set, self.client);
        if set.lock().is_ok() {
            prepared.compare(&set.own("catalogs"), printer);
        }
        prepared.build(&set.own("catalogs"), choice, client, self.tls, printer)?;
        let lock = prepared.into_lock();
        let store = &client.options().store;
        let all = contents(store, &lock, client)?;
        // Layers of an original image that a catalog is built on come last.
        let mut wanted = all.lacking(store, &lock);
        let packed = self.in_volumes(&lock, &all);
        wanted.retain(|one| !packed.contains(&one.blob.digest));
        reuse(&set.own("source"), store.root(), &wanted);
        let failed = bring(client, self.moved, wanted);
        if let Some(error) = failed.into_values().next() {
            return Err(Failure::message(format!("{error}\nhelp: run the command again to go on from here")));
        }
        let file = if text.trim_ascii_start().starts_with(b"{") { "request.json" } else { "set.yaml" };
        set.put(file, text).map_err(Failure::message)?;
        set.put("blobs.txt", all.list().as_bytes()).map_err(Failure::message)?;
        set.put_index(&lock, &all).map_err(Failure::message)?;
        set.drop("report.json").map_err(Failure::message)?;
        // A lock says that all of it is there, also after a power failure.
        store.seal().map_err(|error| in_path(store.root(), &error))?;
        set.put("lock.json", lock.to_text().as_bytes()).map_err(Failure::message)?;
        // What was needed on the way, and what an earlier set had.
        let _ = std::fs::remove_dir_all(set.own("source"));
        set.sweep(&all).map_err(Failure::message)?;
        let (images, size) = (lock.images.len(), bytes(all.bytes()));
        printer.report(&format!("the set is whole: {images} images, {size} in {} different blobs", all.blobs.len()));
        Ok(lock)
    }
}

/// Lets blobs that came with the image of a catalog count as fetched: they are hashed like any that was begun.
pub(super) fn reuse(source: &Path, root: &Path, wanted: &[image::Wanted]) {
    for one in wanted {
        let known = source.join("blobs/sha256").join(one.blob.digest.hex());
        let begun = root.join("partial").join(one.blob.digest.hex());
        if known.metadata().is_ok_and(|about| about.len() == one.blob.size) && !begun.exists() {
            // Where that does not work, they are fetched again.
            let _ = std::fs::create_dir_all(root.join("partial"));
            let _ = std::fs::hard_link(&known, &begun);
        }
    }
}

/// Reports that a disk has too little room.
pub(super) fn too_little(disk: InsufficientSpace) -> Failure {
    let (place, lacking) = (disk.place.display(), disk.needed - disk.free);
    Failure::message(format!(
        "{place}: {} are to be written and {} are free, {} too few\nhelp: make room, or use another place; nothing moved yet",
        bytes(disk.needed),
        bytes(disk.free),
        bytes(lacking)
    ))
}

/// Returns whether the catalogs and additional images of a lock are those that the file names now.
fn still(lock: &Lock, wanted: &mirror::imageset::ImageSet, images: &crate::images::Images) -> Result<bool, Failure> {
    for catalog in &wanted.catalogs {
        let Some(digest) = open::pin(&catalog.source, images)? else { return Ok(false) };
        let source = catalog.source.to_string();
        if !lock.catalogs.iter().any(|it| it.source == source && it.digest == digest.to_string()) {
            return Ok(false);
        }
    }
    let client = images.client().map_err(Failure::message)?;
    for image in &wanted.additional {
        let digest = client.head(&image.reference).map(|digest| digest.to_string()).ok();
        let source = image.reference.to_string();
        if !lock.images.iter().any(|it| it.source == source && Some(&it.digest) == digest.as_ref()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Fetches blobs, and shows how far that is.
pub(super) fn bring(
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

/// Follows all images of a lock, whose manifests have to be in the store.
pub(super) fn contents(store: &Store, lock: &Lock, client: &Client) -> Result<Contents, Failure> {
    Contents::of(store, lock, &client.options().limits).map_err(|missing| {
        let lines: Vec<String> = missing.iter().map(|(image, cause)| format!("{image}: {cause}")).collect();
        Failure::message(lines.join("\n"))
    })
}
