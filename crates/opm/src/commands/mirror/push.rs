//! `opm mirror push`: a set from a directory or from volumes into a registry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{BlobSource, Client, Digest, Reference, Store};
use mirror::destination::Target;
use mirror::lock::Lock;
use mirror::push::{Pushed, blob_pushes};
use mirror::report::{Cause, Missing};
use mirror::set::{Contents, SetDir};
use mirror::verify::by_image;
use mirror::volume::Volumes;

use super::flags::{MoveFlags, TargetFlags, notes, tell_missing};
use super::pull::contents;
use crate::exit::{Failure, Outcome};
use crate::images::TlsFlags;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::transfer::{Moved, bytes};

/// Manifests and lists of them are no larger.
const DOCUMENT_LIMIT: u64 = 4 << 20;

/// Bring a set from a directory or from volumes to a registry
#[derive(clap::Args)]
#[command(
    long_about = "Bring a set from a directory or from volumes to a registry.\n\n\
        Only the registry is spoken to. Blobs go first, each once; then manifests, signatures and tags; the tags of \
        catalogs come last, so that a cluster which follows them sees the old set or the new one. What the registry has \
        is not sent again. Volumes are read as they are, in any order. Before anything is sent, everything has to be \
        there: in the directory or volumes, or, for volumes with what is new only, in the registry.\n\n\
        The objects that show a cluster where everything is are written to --resources: mirror sets, CatalogSources, \
        ClusterCatalogs, and settings for CRI-O, podman and containerd.",
    after_help = "Examples:\n  \
        opm mirror push set registry.example.com:5000/mirror\n  \
        opm mirror push /media/usb/mirror-*.tar registry.example.com:5000/mirror\n  \
        opm mirror push set registry.example.com:5000 --expect sha256:0123..."
)]
pub(super) struct PushArgs {
    /// Directory of a set, or volumes, and the registry with the path in front of all repositories
    #[arg(value_name = "DIR|VOLUME... REGISTRY[/PATH]", num_args = 2.., required = true)]
    pub(super) places: Vec<String>,
    /// Digest that the lock has to have
    #[arg(long, value_name = "DIGEST")]
    pub(super) expect: Option<String>,
    /// Send the blobs of the volumes that are at hand and nothing else, for media that come one after the other
    #[arg(long)]
    pub(super) part: bool,
    #[command(flatten)]
    pub(super) target: TargetFlags,
    #[command(flatten)]
    pub(super) moving: MoveFlags,
}

/// A set to be read from, wherever it is.
pub(super) struct From {
    pub(super) lock: Lock,
    pub(super) contents: Contents,
    pub(super) client: Client,
    /// What is made on the way goes to the store of this one: the set may be on a medium that nobody can write to.
    aside: Client,
    /// Nothing for a directory, whose store the client has.
    pub(super) volumes: Option<Volumes>,
    _scratch: Unfinished,
}

impl From {
    /// Opens a directory or volumes; the network is not used.
    pub(super) fn open(
        paths: &[PathBuf],
        moving: &MoveFlags,
        moved: &Arc<Moved>,
        tls: &TlsFlags,
    ) -> Result<From, Failure> {
        let scratch = Unfinished::private("opm-mirror-")?;
        if let [only] = paths
            && only.join("oci-layout").is_file()
        {
            let set = SetDir::existing(only).map_err(Failure::message)?;
            let lock = set.lock().map_err(|error| {
                Failure::message(format!("{error}\nhelp: the set is not whole: 'opm mirror pull' completes it"))
            })?;
            let client = moving.client(tls, Store::open(only)?, moved)?;
            let aside = moving.client(tls, Store::open(&scratch.path().join("store"))?, moved)?;
            let contents = contents(&client.options().store, &lock, &client)?;
            return Ok(From { lock, contents, client, aside, volumes: None, _scratch: scratch });
        }
        let volumes = Volumes::open(paths).map_err(Failure::message)?;
        let text = volumes.read("mirror/lock.json").map_err(Failure::message)?;
        let lock = Lock::read(&text).map_err(Failure::message)?;
        if lock.digest() != volumes.lock {
            return Err(Failure::message("the volumes were made for another lock than the one in them"));
        }
        let store = Store::open(&scratch.path().join("store"))?;
        let tops: Vec<Digest> = lock.images.iter().flat_map(|image| image.tops().collect::<Vec<_>>()).collect();
        volumes.import(tops.into_iter(), DOCUMENT_LIMIT, &store).map_err(Failure::message)?;
        let client = moving.client(tls, store, moved)?;
        // Indexes name further manifests.
        let contents = loop {
            match Contents::of(&client.options().store, &lock, &client.options().limits) {
                Ok(contents) => break contents,
                Err(missing) => import_children(&volumes, &lock, &client, &missing)?,
            }
        };
        let aside = client.clone();
        Ok(From { lock, contents, client, aside, volumes: Some(volumes), _scratch: scratch })
    }

    /// Returns what is at hand of the blobs.
    pub(super) fn has(&self, digest: &Digest) -> bool {
        match &self.volumes {
            Some(volumes) => volumes.blobs().contains_key(digest),
            None => self.client.options().store.path_of(digest).is_file(),
        }
    }

    fn supply(&self) -> BlobSource {
        match &self.volumes {
            Some(volumes) => BlobSource::Files(volumes.blobs().clone()),
            None => BlobSource::Store,
        }
    }
}

fn import_children(
    volumes: &Volumes,
    lock: &Lock,
    client: &Client,
    missing: &[(String, String)],
) -> Result<(), Failure> {
    let store = &client.options().store;
    let mut children = Vec::new();
    for top in lock.images.iter().flat_map(|image| image.tops().collect::<Vec<_>>()) {
        let content = store.read(&top, DOCUMENT_LIMIT).unwrap_or_default();
        if let Ok(index) = serde_json::from_slice::<image::Index>(&content) {
            children.extend(index.manifests.into_iter().map(|image| image.digest));
        }
    }
    children.retain(|digest| volumes.blobs().contains_key(digest) && !store.path_of(digest).exists());
    if children.is_empty() {
        let lines: Vec<String> = missing.iter().map(|(image, cause)| format!("{image}: {cause}")).collect();
        return Err(Failure::message(format!("manifests are not in the volumes:\n{}", lines.join("\n"))));
    }
    volumes.import(children.into_iter(), DOCUMENT_LIMIT, store).map_err(Failure::message)
}

/// Checks the digest of a lock that somebody expects.
pub(super) fn check_expected(lock: &Lock, expect: Option<&String>) -> Outcome {
    match expect {
        Some(expect) if *expect != lock.digest().to_string() => {
            Err(Failure::message(format!("the lock is {}, not {expect}", lock.digest())))
        }
        _ => Ok(()),
    }
}

pub(super) fn run(args: &PushArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    run_noting(args, tls, printer, &mut Vec::new())
}

/// Runs the command, and returns what is missing in `lacking`.
pub(super) fn run_noting(
    args: &PushArgs,
    tls: &TlsFlags,
    printer: &mut Printer,
    lacking: &mut Vec<Missing>,
) -> Outcome {
    let Some((registry, paths)) = args.places.split_last() else {
        return Err(Failure::message("expected a directory or volumes, and a registry"));
    };
    let target = args.target.target(registry)?;
    let paths: Vec<PathBuf> = paths.iter().map(|path| Path::new(path).to_owned()).collect();
    let moved: Arc<Moved> = Arc::default();
    if args.part {
        return push_part(args, &paths, &target, &moved, tls, printer);
    }
    let from = From::open(&paths, &args.moving, &moved, tls)?;
    check_expected(&from.lock, args.expect.as_ref())?;
    let near = check_whole(&from, &target, printer)?;
    let total = from.contents.blobs.values().map(|blob| blob.size).sum();
    let ready = mirror::push::ready(&from.client, &from.aside, &from.lock, &from.contents, &target, &near);
    let ready = ready.map_err(Failure::message)?;
    notes(&ready.notes, printer);
    let shown = moved.show("sending", total);
    let pushed = ready.send(from.supply());
    drop(shown);
    finish(pushed, &from.lock, &target, &args.target, tls, printer, lacking)
}

/// Returns how it went, and writes the objects if everything is there.
pub(super) fn finish(
    pushed: Result<Pushed, String>,
    lock: &Lock,
    target: &Target,
    flags: &TargetFlags,
    tls: &TlsFlags,
    printer: &mut Printer,
    lacking: &mut Vec<Missing>,
) -> Outcome {
    let pushed = pushed.map_err(Failure::message)?;
    let went = &pushed.delivered;
    printer.report(&format!(
        "sent: {} blobs ({}), mounted: {}, there before: {}",
        went.sent,
        bytes(went.bytes),
        went.mounted,
        went.known
    ));
    if !pushed.complete {
        tell_missing(&pushed.missing, printer);
        *lacking = pushed.missing;
        return Err(Failure::message(
            "not everything arrived, so the catalogs keep what they had\nhelp: run the command again to go on from here",
        ));
    }
    flags.write_resources(lock, target, tls, printer)?;
    writeln!(printer.data(), "{}", lock.digest())?;
    Ok(())
}

/// Makes sure that each blob is at hand or in the registry, before anything is sent.
fn check_whole(from: &From, target: &Target, printer: &Printer) -> Result<BTreeMap<Digest, Reference>, Failure> {
    let all = blob_pushes(&from.lock, &from.contents, target).map_err(Failure::message)?;
    let lacking: Vec<_> = all.into_iter().filter(|delivery| !from.has(&delivery.blob.digest)).collect();
    if lacking.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut bad: BTreeMap<Digest, Cause> = BTreeMap::new();
    let mut absent = Vec::new();
    for (delivery, outcome) in lacking.iter().zip(from.client.missing_from(&lacking)) {
        let digest = delivery.blob.digest;
        match outcome {
            // One repository that has it is enough: the others get it from there.
            Ok(absent) if absent.len() < delivery.to.len() => {}
            Ok(_) => absent.push(delivery.blob.clone()),
            Err(error) => drop(bad.insert(digest, (&error).into())),
        }
    }
    let near = match absent.is_empty() {
        true => BTreeMap::new(),
        false => mirror::push::elsewhere(&from.client, target, &absent).map_err(Failure::message)?,
    };
    for blob in absent.iter().filter(|blob| !near.contains_key(&blob.digest)) {
        bad.insert(blob.digest, format!("{} is neither here nor in the registry", blob.digest).into());
    }
    if bad.is_empty() {
        return Ok(near);
    }
    tell_missing(&by_image(&from.lock, &from.contents, &bad), printer);
    let absent = from.volumes.as_ref().map(|volumes| volumes.absent.clone()).unwrap_or_default();
    let which = match absent.is_empty() {
        true => String::new(),
        false => format!(" (volumes {absent:?} are not among those given)"),
    };
    let since = from.volumes.as_ref().map(|volumes| volumes.since.join(", ")).unwrap_or_default();
    let had = match since.as_str() {
        "" => String::new(),
        locks => format!("\nthe volumes build on what was brought with lock {locks}"),
    };
    Err(Failure::message(format!(
        "{} blobs are missing{which}, so nothing was sent{had}\nhelp: 'opm mirror verify {target} --lock LOCK --have LIST' \
         lists what the registry has; 'opm mirror pull --have LIST' brings the rest",
        bad.len()
    )))
}

/// Sends what is in some volumes, without names.
fn push_part(
    args: &PushArgs,
    paths: &[PathBuf],
    target: &Target,
    moved: &Arc<Moved>,
    tls: &TlsFlags,
    printer: &mut Printer,
) -> Outcome {
    let volumes = Volumes::open(paths).map_err(Failure::message)?;
    let scratch = Unfinished::private("opm-mirror-")?;
    let client = args.moving.client(tls, Store::open(&scratch.path().join("store"))?, moved)?;
    mirror::preflight::parts(&client, target).map_err(Failure::message)?;
    // Without the lock nobody knows where blobs belong: all go to one repository, from where they are mounted.
    let to = target.repository(mirror::push::RECORD).map_err(Failure::message)?;
    let deliveries: Vec<image::BlobPush> = volumes
        .blobs()
        .iter()
        .map(|(digest, pieces)| {
            let size = pieces.iter().map(|piece| piece.size).sum();
            let blob = image::Descriptor::new("application/octet-stream", *digest, size);
            image::BlobPush { blob, to: vec![to.clone()], mount_from: None }
        })
        .collect();
    let total = deliveries.iter().map(|delivery| delivery.blob.size).sum();
    let shown = moved.show("sending", total);
    let sent = client.push_blobs(deliveries, BlobSource::Files(volumes.blobs().clone()));
    drop(shown);
    if let Some((digest, error)) = sent.failed.iter().next() {
        return Err(Failure::message(format!("{digest}: {error}")));
    }
    printer.report(&format!("sent: {} blobs ({}), there before: {}", sent.sent, bytes(sent.bytes), sent.known));
    Ok(())
}
