//! A set on its way into a registry: blobs, manifests, what was made for them, names, and the catalogs last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use image::{Client, Delivered, Delivery, Descriptor, Digest, Manifest, Reference, Store, Supply, Unnamed, media_type};

use crate::destination::Target;
use crate::lock::{Lock, LockedImage, Role};
use crate::preflight;
use crate::report::{Cause, Missing};
use crate::set::Contents;
use crate::verify::missing;

/// The repository that remembers which sets a registry got.
pub const RECORD: &str = "opm-mirror-locks";
/// What a lock is there.
const RECORD_TYPE: &str = "application/vnd.opm.mirror.lock.v1+json";

/// What came of it.
#[derive(Debug, Default)]
pub struct Pushed {
    /// What it took.
    pub delivered: Delivered,
    /// What did not arrive.
    pub missing: Vec<Missing>,
    /// Whether the catalogs have their names, which is last of all.
    pub complete: bool,
}

/// Returns the place of an image at the registry.
fn place(target: &Target, image: &LockedImage) -> Result<Reference, String> {
    target.repository(&image.path)
}

/// Returns what repositories shall have of each blob.
///
/// # Errors
/// Fails when a path is none at this registry, or different images would get one name there.
pub fn deliveries(lock: &Lock, contents: &Contents, target: &Target) -> Result<Vec<Delivery>, String> {
    preflight::paths(lock, target)?;
    let mut to: BTreeMap<Digest, BTreeMap<String, Reference>> = BTreeMap::new();
    let mut names: BTreeMap<(String, &str), &LockedImage> = BTreeMap::new();
    for (image, parts) in lock.images.iter().zip(&contents.by_image) {
        let repository = place(target, image)?;
        let name = (repository.name(), image.tag.as_str());
        if let Some(other) = names.insert(name, image)
            && other.digest != image.digest
        {
            let (one, two) = (&other.source, &image.source);
            return Err(format!("{one} and {two} would both go to {}:{}", repository.name(), image.tag));
        }
        for part in parts.iter().filter(|part| contents.blobs.contains_key(part)) {
            to.entry(*part).or_default().insert(repository.name(), repository.clone());
        }
    }
    let all = to.into_iter().filter_map(|(digest, to)| {
        let blob = contents.blobs.get(&digest)?.clone();
        Some(Delivery { blob, to: to.into_values().collect(), near: None })
    });
    Ok(all.collect())
}

/// A set, and a registry that takes it.
pub struct Ready<'a> {
    client: &'a Client,
    aside: &'a Client,
    lock: &'a Lock,
    contents: &'a Contents,
    target: &'a Target,
    deliveries: Vec<Delivery>,
    /// What the user should know before anything moves.
    pub notes: Vec<String>,
}

/// Checks that a set can go to a registry. Manifests have to be in the client's store. Blobs that are `near` are in
/// another repository of the registry. What is made on the way goes to the store of `aside`: that of the set may be on a
/// medium that nobody can write to.
///
/// # Errors
/// Fails when the set cannot go there. Nothing is sent then.
pub fn ready<'a>(
    client: &'a Client,
    aside: &'a Client,
    lock: &'a Lock,
    contents: &'a Contents,
    target: &'a Target,
    near: &BTreeMap<Digest, Reference>,
) -> Result<Ready<'a>, String> {
    let mut deliveries = deliveries(lock, contents, target)?;
    for delivery in &mut deliveries {
        delivery.near = near.get(&delivery.blob.digest).cloned();
    }
    preflight::registry(aside, lock, target)?;
    let notes = preflight::mounts(aside, target, &deliveries)?;
    Ok(Ready { client, aside, lock, contents, target, deliveries, notes })
}

impl Ready<'_> {
    /// Brings everything to the registry.
    ///
    /// Catalogs get their names when all else is there, so that whoever follows them sees the old set or the new one.
    ///
    /// # Errors
    /// Fails when the lock names what cannot be, or the set cannot be recorded.
    pub fn send(self, supply: Supply) -> Result<Pushed, String> {
        let Ready { client, aside, lock, contents, target, deliveries, notes: _ } = self;
        let mut pushed = push(client, lock, contents, target, deliveries, supply)?;
        if pushed.missing.is_empty() {
            record(aside, lock, target)?;
            pushed.complete = true;
        }
        Ok(pushed)
    }
}

fn push(
    client: &Client,
    lock: &Lock,
    contents: &Contents,
    target: &Target,
    deliveries: Vec<Delivery>,
    supply: Supply,
) -> Result<Pushed, String> {
    let mut pushed = Pushed { delivered: client.send_set(deliveries, supply), ..Pushed::default() };
    let mut failed: BTreeMap<usize, Cause> = BTreeMap::new();
    for (number, parts) in contents.by_image.iter().enumerate() {
        if let Some(error) = parts.iter().find_map(|part| pushed.delivered.failed.get(part)) {
            failed.insert(number, error.into());
        }
    }
    let is_catalog = |number: &usize| lock.images[*number].role == Role::Catalog;
    let images: Vec<usize> = (0..lock.images.len()).filter(|number| !is_catalog(number)).collect();
    send(client, lock, target, &images, &mut failed)?;
    // A catalog must not name what is not there.
    if failed.is_empty() {
        let catalogs: Vec<usize> = (0..lock.images.len()).filter(is_catalog).collect();
        send(client, lock, target, &catalogs, &mut failed)?;
    }
    for (number, cause) in failed {
        pushed.missing.push(missing(&lock.images[number], cause));
    }
    Ok(pushed)
}

/// Brings manifests, what was made for them and names to a registry, in this order.
fn send(
    client: &Client,
    lock: &Lock,
    target: &Target,
    numbers: &[usize],
    failed: &mut BTreeMap<usize, Cause>,
) -> Result<(), String> {
    let mut groups: BTreeMap<(String, Digest), Vec<usize>> = BTreeMap::new();
    for number in numbers.iter().filter(|number| !failed.contains_key(number)) {
        let image = &lock.images[*number];
        groups.entry((place(target, image)?.name(), image.digest()?)).or_default().push(*number);
    }
    let groups: Vec<Vec<usize>> = groups.into_values().collect();
    let mut sent = Vec::new();
    for group in &groups {
        let image = &lock.images[group[0]];
        sent.push(Unnamed {
            to: place(target, image)?,
            image: image.digest()?,
            platforms: image.platforms(),
            subject: None,
        });
    }
    note(&groups, client.send_documents(&sent), failed);
    // Registries without a list of their own have it in an index that is read and written: one after the other.
    let longest = lock.images.iter().map(|image| image.referrers.len()).max().unwrap_or_default();
    for turn in 0..longest {
        let (mut own, mut sent) = (Vec::new(), Vec::new());
        for group in groups.iter().filter(|group| !failed.contains_key(&group[0])) {
            let image = &lock.images[group[0]];
            let Some(referrer) = image.referrers.get(turn) else { continue };
            let parse = |text: &String| text.parse::<Digest>().map_err(|_| format!("{text:?} is no digest"));
            sent.push(Unnamed {
                to: place(target, image)?,
                image: parse(&referrer.digest)?,
                platforms: Vec::new(),
                subject: referrer.subject.as_ref().map(parse).transpose()?,
            });
            own.push(group.clone());
        }
        note(&own, client.send_documents(&sent), failed);
    }
    let (mut own, mut names) = (Vec::new(), Vec::new());
    for number in groups.iter().flatten().filter(|number| !failed.contains_key(number)) {
        let image = &lock.images[*number];
        let repository = place(target, image)?;
        let tags = image.referrers.iter().filter_map(|it| Some((it.tag.clone()?, it.digest.clone())));
        for (tag, digest) in tags.chain([(image.tag.clone(), image.digest.clone())]) {
            let name = repository.with_tag(&tag).ok_or_else(|| format!("{tag:?} is no tag"))?;
            names.push((name, digest.parse().map_err(|_| format!("{digest:?} is no digest"))?));
            own.push(vec![*number]);
        }
    }
    note(&own, client.send_names(&names), failed);
    Ok(())
}

fn note(groups: &[Vec<usize>], outcomes: Vec<Result<(), image::Error>>, failed: &mut BTreeMap<usize, Cause>) {
    for (group, outcome) in groups.iter().zip(outcomes) {
        if let Err(error) = outcome {
            failed.extend(group.iter().map(|number| (*number, Cause::from(&error))));
        }
    }
}

/// Finds blobs in repositories that earlier sets brought to a registry.
///
/// # Errors
/// Fails when the registry does not answer.
pub fn elsewhere(
    client: &Client,
    target: &Target,
    blobs: &[Descriptor],
) -> Result<BTreeMap<Digest, Reference>, String> {
    let record = target.repository(RECORD)?;
    let mut repositories: BTreeMap<String, Reference> = BTreeMap::from([(record.name(), record.clone())]);
    for tag in client.tags(&record).map_err(|error| error.to_string())? {
        let Some(name) = record.with_tag(&tag) else { continue };
        for image in &crate::prune::read(client, &name)?.images {
            let repository = place(target, image)?;
            repositories.insert(repository.name(), repository);
        }
    }
    let to: Vec<Reference> = repositories.into_values().collect();
    let asked: Vec<Delivery> =
        blobs.iter().map(|blob| Delivery { blob: blob.clone(), to: to.clone(), near: None }).collect();
    let mut found = BTreeMap::new();
    for (delivery, outcome) in asked.iter().zip(client.lacking(&asked)) {
        let absent = outcome.map_err(|error| error.to_string())?;
        if let Some(has) = to.iter().find(|to| !absent.contains(to)) {
            found.insert(delivery.blob.digest, has.clone());
        }
    }
    Ok(found)
}

/// Puts the lock itself into the registry, so that it shows later what is ours.
fn record(client: &Client, lock: &Lock, target: &Target) -> Result<(), String> {
    let store = &client.options().store;
    let text = lock.to_text();
    let (digest, blobs) = record_image(store, &text).map_err(|error| error.to_string())?;
    let to = target.repository(RECORD)?;
    let deliveries = blobs.into_iter().map(|blob| Delivery { blob, to: vec![to.clone()], near: None }).collect();
    let sent = client.send_set(deliveries, Supply::Store);
    if let Some(error) = sent.failed.into_values().next() {
        return Err(format!("recording the set: {error}"));
    }
    let tag = to.with_tag(&record_tag(lock)).ok_or("no tag")?;
    match client.send_names(&[(tag, digest)]).pop() {
        Some(Err(error)) => Err(format!("recording the set: {error}")),
        _ => Ok(()),
    }
}

/// Returns the tag of a lock in the record.
pub(crate) fn record_tag(lock: &Lock) -> String {
    format!("sha256-{}", lock.digest().hex())
}

/// Puts the blob into a store that every record has.
pub(crate) fn empty(store: &Store) -> std::io::Result<Descriptor> {
    store.put(b"{}")?;
    Ok(Descriptor::of("application/vnd.oci.empty.v1+json", b"{}"))
}

fn record_image(store: &Store, text: &str) -> std::io::Result<(Digest, Vec<Descriptor>)> {
    let config = empty(store)?;
    store.put(text.as_bytes())?;
    let layer = Descriptor::of(RECORD_TYPE, text.as_bytes());
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(media_type::OCI_MANIFEST.into()),
        config: config.clone(),
        layers: vec![layer.clone()],
        annotations: BTreeMap::new(),
        other: [("artifactType".to_owned(), RECORD_TYPE.into())].into_iter().collect(),
    };
    let digest = store.put(&serde_json::to_vec(&manifest).map_err(std::io::Error::other)?)?;
    Ok((digest, vec![config, layer]))
}

/// Returns the images of a set, each once with where to fetch its blobs from, for a copy without a directory.
pub fn sources(lock: &Lock, contents: &Contents) -> HashMap<Digest, Vec<Arc<Reference>>> {
    let mut from: HashMap<Digest, Vec<Arc<Reference>>> = HashMap::new();
    for (image, parts) in lock.images.iter().zip(&contents.by_image) {
        let Ok(reference) = Reference::parse(image.source.trim_start_matches("docker://")) else { continue };
        let reference = Arc::new(reference);
        let mut seen = BTreeSet::new();
        for part in parts.iter().filter(|part| seen.insert(**part)) {
            let all = from.entry(*part).or_default();
            if all.len() < 4 {
                all.reserve_exact(1);
                all.push(Arc::clone(&reference));
            }
        }
    }
    from
}
