//! `opm mirror push`: uploads a set from a directory or volumes to a registry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{BlobSource, Client, Digest, Parts, Reference, Store};
use mirror::destination::Target;
use mirror::lock::Lock;
use mirror::push::{Pushed, blob_pushes};
use mirror::report::{Cause, Missing};
use mirror::set::{Contents, SetDir};
use mirror::verify::by_image;
use mirror::volume::Volumes;

use super::flags::{MoveFlags, TargetFlags, notes, report_missing};
use super::pull::contents;
use crate::exit::{Failure, Outcome};
use crate::images::TlsFlags;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::transfer::{Moved, bytes};

/// The maximum size of manifests and indexes.
const DOCUMENT_LIMIT: u64 = 4 << 20;

/// Upload a set from a directory or volumes to a registry
#[derive(clap::Args)]
#[command(
    long_about = "Upload a set from a directory or volumes to a registry.\n\n\
        opm connects only to the registry. It sends each blob once, then manifests, signatures and tags. Catalog tags come \
        last, so that a cluster sees either the old set or the new one. opm does not resend what the registry has. It reads \
        volumes directly, in any order. Before it sends anything, it checks that every blob exists in the directory, in the \
        volumes or, for delta volumes, in the registry.\n\n\
        opm writes the objects that point a cluster to the mirror to --resources: mirror sets, CatalogSources, \
        ClusterCatalogs, and settings for CRI-O, podman and containerd.",
    after_help = "Examples:\n  \
        opm mirror push set registry.example.com:5000/mirror\n  \
        opm mirror push /media/usb/mirror-*.tar registry.example.com:5000/mirror\n  \
        opm mirror push set registry.example.com:5000 --expect sha256:0123..."
)]
pub(super) struct PushArgs {
    /// Set directory or volumes, then the registry with an optional path prefix
    #[arg(value_name = "DIR|VOLUME... REGISTRY[/PATH]", num_args = 2.., required = true)]
    pub(super) places: Vec<String>,
    /// Expected digest of the lock
    #[arg(long, value_name = "DIGEST")]
    pub(super) expect: Option<String>,
    /// Send only the blobs of the given volumes, for media that arrive one after the other
    #[arg(long)]
    pub(super) part: bool,
    #[command(flatten)]
    pub(super) target: TargetFlags,
    #[command(flatten)]
    pub(super) moving: MoveFlags,
}

/// An open set: a directory or volumes.
pub(super) struct OpenSet {
    pub(super) lock: Lock,
    pub(super) contents: Contents,
    pub(super) client: Client,
    /// A client with a temporary store for new blobs, because the medium of the set can be read-only.
    aside: Client,
    /// `None` for a directory: the client uses it as its store.
    pub(super) volumes: Option<Volumes>,
    _scratch: Unfinished,
}

impl OpenSet {
    /// Opens a directory or volumes, without using the network.
    pub(super) fn open(
        paths: &[PathBuf],
        moving: &MoveFlags,
        moved: &Arc<Moved>,
        tls: &TlsFlags,
    ) -> Result<OpenSet, Failure> {
        let scratch = Unfinished::private("opm-mirror-")?;
        if let [only] = paths
            && only.join("oci-layout").is_file()
        {
            let set = SetDir::existing(only).map_err(Failure::message)?;
            let lock = set.lock().map_err(|error| {
                Failure::message(format!("{error}\nhelp: the set is incomplete: 'opm mirror pull' completes it"))
            })?;
            let client = moving.client(tls, Store::open(only)?, moved)?;
            let aside = moving.client(tls, Store::open(&scratch.path().join("store"))?, moved)?;
            let contents = contents(&client.options().store, &lock, &client)?;
            return Ok(OpenSet { lock, contents, client, aside, volumes: None, _scratch: scratch });
        }
        let volumes = Volumes::open(paths).map_err(Failure::message)?;
        let text = volumes.read("mirror/lock.json").map_err(Failure::message)?;
        let lock = Lock::read(&text).map_err(Failure::message)?;
        if lock.digest() != volumes.lock {
            return Err(Failure::message("the volumes do not belong to the lock they contain"));
        }
        let store = Store::open(&scratch.path().join("store"))?;
        let tops: Vec<Digest> = lock.images.iter().flat_map(|image| image.tops().collect::<Vec<_>>()).collect();
        volumes.import(tops.into_iter(), DOCUMENT_LIMIT, &store).map_err(Failure::message)?;
        let client = moving.client(tls, store, moved)?;
        // Indexes reference more manifests.
        let contents = loop {
            match Contents::of(&client.options().store, &lock, &client.options().limits) {
                Ok(contents) => break contents,
                Err(missing) => import_children(&volumes, &lock, &client, &missing)?,
            }
        };
        let aside = client.clone();
        Ok(OpenSet { lock, contents, client, aside, volumes: Some(volumes), _scratch: scratch })
    }

    /// Returns whether the directory or the volumes have a blob.
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
        return Err(Failure::message(format!("manifests missing in the volumes:\n{}", lines.join("\n"))));
    }
    volumes.import(children.into_iter(), DOCUMENT_LIMIT, store).map_err(Failure::message)
}

/// Checks the digest of a lock against `--expect`.
pub(super) fn check_expected(lock: &Lock, expect: Option<&String>) -> Outcome {
    match expect {
        Some(expect) if *expect != lock.digest().to_string() => {
            Err(Failure::message(format!("the lock has digest {}, expected {expect}", lock.digest())))
        }
        _ => Ok(()),
    }
}

pub(super) fn run(args: &PushArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    run_collecting(args, tls, printer, &mut Vec::new())
}

/// Runs the command, and returns missing images in `lacking`.
pub(super) fn run_collecting(
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
    if args.part && args.moving.enforce_policy {
        return Err(Failure::message("--part sends blobs without their images, which --enforce-policy cannot check"));
    }
    if args.part {
        return push_part(args, &paths, &target, &moved, tls, printer);
    }
    let from = OpenSet::open(&paths, &args.moving, &moved, tls)?;
    check_expected(&from.lock, args.expect.as_ref())?;
    check_policy(&from, args, printer)?;
    let near = check_complete(&from, &target, printer)?;
    let total = from.contents.blobs.values().map(|blob| blob.size).sum();
    let ready = mirror::push::ready(&from.client, &from.aside, &from.lock, &from.contents, &target, &near);
    let ready = ready.map_err(Failure::message)?;
    notes(&ready.notes, printer);
    let shown = moved.show("sending", total);
    let pushed = ready.send(from.supply());
    drop(shown);
    finish(pushed, &from.lock, &target, &args.target, tls, printer, lacking)
}

/// Reports the result, and writes the cluster objects if the push is complete.
pub(super) fn finish(
    pushed: Result<Pushed, mirror::MirrorError>,
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
        "sent: {} blobs ({}), mounted: {}, already present: {}",
        went.sent,
        bytes(went.bytes),
        went.mounted,
        went.known
    ));
    if !pushed.complete {
        report_missing(&pushed.missing, printer);
        *lacking = pushed.missing;
        return Err(Failure::message(
            "the upload is incomplete, so the catalog tags stay unchanged\nhelp: run the command again to resume",
        ));
    }
    flags.write_resources(lock, target, tls, printer)?;
    writeln!(printer.data(), "{}", lock.digest())?;
    Ok(())
}

/// Checks the images of a set against the policy, with the signatures in the set, before anything is sent.
fn check_policy(from: &OpenSet, args: &PushArgs, printer: &Printer) -> Outcome {
    let lock = &from.lock;
    if !args.moving.enforce_policy {
        let sources: Vec<Reference> = lock.images.iter().filter_map(mirror::policy::source).collect();
        notes(&mirror::policy::ignored(&from.client, sources.iter()).into_iter().collect::<Vec<_>>(), printer);
        return Ok(());
    }
    if let Some(volumes) = &from.volumes {
        let options = from.client.options();
        let signatures = lock.images.iter().flat_map(mirror::policy::signatures);
        let parts = signatures.filter_map(|(_, digest)| Parts::of(&options.store, &digest, &[], &options.limits).ok());
        let payloads = parts.flat_map(|parts| parts.blobs).map(|blob| blob.digest);
        volumes.import(payloads, DOCUMENT_LIMIT, &options.store).map_err(Failure::message)?;
    }
    let refused = mirror::policy::refused(&from.client, lock);
    if !refused.is_empty() {
        report_missing(&refused, printer);
        return Err(Failure::message(
            "the policy does not accept the set, so nothing was sent\nhelp: signatures must be in the set: pull it without \
             --without-referrers",
        ));
    }
    if args.expect.is_none() && lock.images.iter().any(|image| mirror::policy::is_built(lock, image)) {
        let note =
            "catalogs that the set filtered have no signature and are not checked; --expect checks the whole set";
        notes(&[note.to_owned()], printer);
    }
    Ok(())
}

/// Checks that every blob is available locally or in the registry, before anything is sent.
fn check_complete(from: &OpenSet, target: &Target, printer: &Printer) -> Result<BTreeMap<Digest, Reference>, Failure> {
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
            // One repository with the blob is enough: the others mount it from there.
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
        bad.insert(blob.digest, format!("{} is neither available locally nor in the registry", blob.digest).into());
    }
    if bad.is_empty() {
        return Ok(near);
    }
    report_missing(&by_image(&from.lock, &from.contents, &bad), printer);
    let absent = from.volumes.as_ref().map(|volumes| volumes.absent.clone()).unwrap_or_default();
    let which = match absent.is_empty() {
        true => String::new(),
        false => format!(" (missing volumes {absent:?})"),
    };
    let since = from.volumes.as_ref().map(|volumes| volumes.since.join(", ")).unwrap_or_default();
    let had = match since.as_str() {
        "" => String::new(),
        locks => format!("\nthe volumes are a delta to lock {locks}"),
    };
    Err(Failure::message(format!(
        "{} blobs are missing{which}, so nothing was sent{had}\nhelp: 'opm mirror verify {target} --lock LOCK --have LIST' \
         lists the blobs of the registry; 'opm mirror pull --have LIST' fetches the rest",
        bad.len()
    )))
}

/// Sends the blobs of some volumes, without manifests and tags.
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
    // Without the lock, the repositories of the blobs are unknown: send all to one repository and mount them later.
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
    printer.report(&format!("sent: {} blobs ({}), already present: {}", sent.sent, bytes(sent.bytes), sent.known));
    Ok(())
}
