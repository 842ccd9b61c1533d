//! A set of images on its way into a registry: blobs, manifests, and names last.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::client::{Client, Inner};
use crate::graph::Graph;
use crate::manifest::{Descriptor, Platform};
use crate::payload::{Payload, Piece};
use crate::progress::Event;
use crate::registry::{Document, Way, stored};
use crate::set::{ROUNDS, Wanted, pause, settle};
use crate::turns::each_in_turn;
use crate::{Digest, Error, ErrorKind, Reference};

/// A kilobyte of the spool.
const UNIT: u64 = 1 << 10;

/// Where blobs come from that go to a registry.
#[derive(Debug)]
pub enum Supply {
    /// They are in the store.
    Store,
    /// They are parts of files, such as archives.
    Files(HashMap<Digest, Vec<Piece>>),
    /// Other registries have them. So many bytes of them are in the store at a time.
    Registries {
        /// Images that have each of them.
        from: HashMap<Digest, Vec<Arc<Reference>>>,
        /// How many bytes may be on their way.
        spool: u64,
    },
}

/// A blob, and the repositories that shall have it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The blob.
    pub blob: Descriptor,
    /// The repositories, each once.
    pub to: Vec<Reference>,
    /// Another repository of the registry that has it.
    pub near: Option<Reference>,
}

/// What it took to bring blobs to a registry.
#[derive(Debug, Default)]
pub struct Delivered {
    /// How many were sent.
    pub sent: usize,
    /// How many bytes those have.
    pub bytes: u64,
    /// How many repositories got a blob from another one of the registry.
    pub mounted: usize,
    /// How many repositories had a blob already.
    pub known: usize,
    /// Why blobs are missing somewhere.
    pub failed: HashMap<Digest, Error>,
}

/// An image whose manifests go to a repository, without a name.
#[derive(Debug, Clone)]
pub struct Unnamed {
    /// The repository.
    pub to: Reference,
    /// The image.
    pub image: Digest,
    /// The platforms it goes over for; all of them if none is named.
    pub platforms: Vec<Platform>,
    /// What it was made for, if registries list it by that.
    pub subject: Option<Digest>,
}

#[derive(Default)]
struct Counts {
    sent: AtomicUsize,
    bytes: AtomicU64,
    mounted: AtomicUsize,
    known: AtomicUsize,
}

impl Client {
    /// Brings blobs to the repositories of a registry: each is sent once, and mounted where else it shall be. What failed
    /// because the registry was away is retried when the rest is done.
    pub fn send_set(&self, mut deliveries: Vec<Delivery>, supply: Supply) -> Delivered {
        deliveries.sort_by(|a, b| b.blob.size.cmp(&a.blob.size).then_with(|| a.blob.digest.cmp(&b.blob.digest)));
        let room = match &supply {
            Supply::Registries { spool, .. } => (spool / UNIT).clamp(1, u64::from(u32::MAX)),
            _ => 1,
        };
        let (supply, counts) = (Arc::new(supply), Arc::new(Counts::default()));
        let spool = Arc::new(Semaphore::new(usize::try_from(room).unwrap_or(usize::MAX >> 4)));
        let all = deliveries.len();
        let failed = self.block_on(async {
            let mut failed: HashMap<Digest, Error> = HashMap::new();
            for round in 0..=ROUNDS {
                if round > 0 {
                    // Those that may arrive yet: a registry that was away can be back. One that took nothing is away.
                    deliveries
                        .retain(|it| failed.get(&it.blob.digest).is_some_and(|it| it.kind() == ErrorKind::Network));
                    if deliveries.is_empty() || deliveries.len() == all {
                        break;
                    }
                    tokio::time::sleep(pause(self.inner().options.retries.first, round)).await;
                }
                let items = deliveries.iter().map(|delivery| (String::new(), delivery));
                let outcomes = each_in_turn(self.inner().options.parallel, items, |delivery: &Delivery| {
                    let delivery = delivery.clone();
                    let (inner, supply, counts) = (self.inner(), Arc::clone(&supply), Arc::clone(&counts));
                    let spool = Arc::clone(&spool);
                    async move {
                        let outcome = inner.deliver(&delivery, &supply, &spool, room, &counts).await;
                        (delivery.blob.digest, outcome)
                    }
                });
                settle(&mut failed, deliveries.iter().map(|it| it.blob.digest), outcomes.await);
            }
            failed
        });
        Delivered {
            sent: counts.sent.load(Ordering::Relaxed),
            bytes: counts.bytes.load(Ordering::Relaxed),
            mounted: counts.mounted.load(Ordering::Relaxed),
            known: counts.known.load(Ordering::Relaxed),
            failed,
        }
    }

    /// Brings the manifests of images to their repositories, by digest. All their blobs have to be there. Returns how
    /// that went, in their order.
    pub fn send_documents(&self, images: &[Unnamed]) -> Vec<Result<(), Error>> {
        self.each(images, |inner, image| async move { inner.send_unnamed(&image).await })
    }

    /// Gives names to images that are in their repositories: each name is one request.
    pub fn send_names(&self, names: &[(Reference, Digest)]) -> Vec<Result<(), Error>> {
        self.each(names, |inner, (name, digest)| async move {
            let target = inner.target(&name)?;
            let document = inner.read_document(&digest)?;
            inner.registry.put_manifest(&target, &document, &name.version()).await.map(|_| ())
        })
    }

    /// Returns for each of these repositories whether it can be written to: its registry answers and takes uploads.
    pub fn may_push(&self, repositories: &[Reference]) -> Vec<Result<(), Error>> {
        self.each(repositories, |inner, repository| async move {
            let target = inner.target(&repository)?;
            inner.registry.may_push(&target).await
        })
    }

    /// Returns whether a repository gets a blob from another one of its registry, which has it.
    ///
    /// # Errors
    /// Fails when the registry does not answer.
    pub fn may_mount(&self, blob: &Descriptor, from: &Reference, to: &Reference) -> Result<bool, Error> {
        let inner = self.inner();
        let target = inner.target(to)?;
        self.block_on(inner.registry.may_mount(&target, blob, from.repository()))
    }

    /// Returns for each of these images whether the registry has it, by its digest or its tag.
    pub fn are_there(&self, images: &[Reference]) -> Vec<Result<Option<Digest>, Error>> {
        self.each(images, |inner, image| async move {
            let target = inner.target(&image)?;
            inner.registry.known_manifest(&target, &image.version()).await
        })
    }

    /// Returns which of these blobs repositories do not have.
    pub fn lacking(&self, deliveries: &[Delivery]) -> Vec<Result<Vec<Reference>, Error>> {
        self.each(deliveries, |inner, delivery| async move {
            let mut lacking = Vec::new();
            for to in delivery.to {
                if !inner.registry.has_blob(&inner.target(&to)?, &delivery.blob).await? {
                    lacking.push(to);
                }
            }
            Ok(lacking)
        })
    }

    /// Lists the tags of a repository; none if there is no such repository.
    ///
    /// # Errors
    /// Fails when the registry does not answer, or has too many.
    pub fn tags(&self, repository: &Reference) -> Result<Vec<String>, Error> {
        let inner = self.inner();
        let target = inner.target(repository)?;
        self.block_on(inner.registry.tags(&target))
    }

    /// Removes images from a registry, each given by its digest. Returns whether each was there.
    pub fn remove(&self, images: &[Reference]) -> Vec<Result<bool, Error>> {
        self.each(images, |inner, image| async move {
            let target = inner.target(&image)?;
            inner.registry.delete_manifest(&target, &image.version()).await
        })
    }

    /// Does something for each item, several at a time, and returns the outcomes in their order.
    fn each<I, T, F, W>(&self, items: &[I], work: F) -> Vec<Result<T, Error>>
    where
        I: Clone + Send + Sync + 'static,
        T: Send + 'static,
        F: Fn(Arc<Inner>, I) -> W + Send + Sync,
        W: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let lost = || Error::new(ErrorKind::Network, "the request was cut off");
        let mut outcomes: Vec<Result<T, Error>> = items.iter().map(|_| Err(lost())).collect();
        let all = items.iter().enumerate().map(|item| (String::new(), item));
        let done = self.block_on(each_in_turn(self.inner().options.parallel, all, |(number, item)| {
            let future = work(self.inner(), item.clone());
            async move { (number, future.await) }
        }));
        for (number, outcome) in done {
            outcomes[number] = outcome;
        }
        outcomes
    }
}

impl Inner {
    async fn deliver(
        &self,
        delivery: &Delivery,
        supply: &Supply,
        spool: &Semaphore,
        room: u64,
        counts: &Counts,
    ) -> Result<(), Error> {
        let blob = &delivery.blob;
        let mut first = delivery.near.as_ref().map(Reference::repository);
        let mut held = None;
        let mut cached = true;
        let mut absent = Vec::new();
        for to in &delivery.to {
            let target = self.target(to)?;
            if self.registry.is_away(&target) {
                let text = format!("not begun: {} has failed again and again", to.host());
                return Err(Error::new(ErrorKind::Network, text));
            }
            // A registry that ran out of room may fail to say what it has until it gets it again.
            match self.registry.has_blob(&target, blob).await.unwrap_or(false) {
                true => {
                    counts.known.fetch_add(1, Ordering::Relaxed);
                    first = Some(to.repository());
                }
                false => absent.push((to, target)),
            }
        }
        for (to, target) in absent {
            let fetch = async || {
                if let Supply::Registries { from, .. } = supply
                    && from.contains_key(&blob.digest)
                    && held.is_none()
                    && stored(&self.options.store, blob).await?.is_none()
                {
                    let share = (blob.size / UNIT + 1).min(room);
                    held = spool.acquire_many(u32::try_from(share).unwrap_or(u32::MAX)).await.ok();
                }
                self.supplied(blob, supply).await
            };
            let way = self.registry.send_absent(&target, blob, first, fetch).await;
            match way {
                Ok(Way::Sent) => {
                    cached = false;
                    counts.sent.fetch_add(1, Ordering::Relaxed);
                    counts.bytes.fetch_add(blob.size, Ordering::Relaxed);
                }
                Ok(Way::Mounted) => drop(counts.mounted.fetch_add(1, Ordering::Relaxed)),
                Ok(Way::Known) => drop(counts.known.fetch_add(1, Ordering::Relaxed)),
                Err(error) => return Err(error.context(format!("writing docker://{}", to.name()))),
            }
            first.get_or_insert(to.repository());
        }
        if held.is_some() {
            // It has done its work, and others need the room.
            let _ = fs::remove_file(self.options.store.path_of(&blob.digest));
        }
        self.options.progress.on(&Event::Finished { blob, cached });
        Ok(())
    }

    async fn supplied(&self, blob: &Descriptor, supply: &Supply) -> Result<Payload, Error> {
        match supply {
            Supply::Store => self.stored_blob(blob).await.map(Payload::from),
            Supply::Files(pieces) => {
                let missing =
                    || Error::new(ErrorKind::NotFound, format!("blob {} is in none of the files", blob.digest));
                let pieces = pieces.get(&blob.digest).ok_or_else(missing)?.clone();
                let (digest, size) = (blob.digest, blob.size);
                let checked = tokio::task::spawn_blocking(move || Payload::check(digest, size, pieces)).await;
                checked.unwrap_or_else(|error| Err(Error::new(ErrorKind::File, error.to_string())))
            }
            Supply::Registries { from, .. } => {
                // What was made here is in the store already.
                if let Some(from) = from.get(&blob.digest).cloned()
                    && stored(&self.options.store, blob).await?.is_none()
                {
                    self.fetch_from_any(&Wanted { blob: blob.clone(), from }).await?;
                }
                self.stored_blob(blob).await.map(Payload::from)
            }
        }
    }

    async fn send_unnamed(&self, image: &Unnamed) -> Result<(), Error> {
        let target = self.target(&image.to)?;
        let graph = Graph::of_platforms(&self.options.store, &image.image, &image.platforms, &self.options.limits)?;
        let mut lists_itself = true;
        for document in &graph.documents {
            let version = document.digest.to_string();
            let known = match image.subject {
                None => self.registry.known_manifest(&target, &version).await.map(|known| known.is_some()),
                Some(_) => Ok(false),
            };
            if matches!(known, Ok(true)) {
                continue;
            }
            lists_itself = self.registry.put_manifest(&target, document, &version).await?;
            // A registry whose disk was full may keep half a manifest, fail to read it, and take none in its place.
            if known.is_err() {
                self.registry.manifest(&target, &version).await.map_err(|error| {
                    error.context(format!(
                        "{} keeps a damaged copy of a manifest and takes no other until its garbage is collected",
                        target.reference.host()
                    ))
                })?;
            }
        }
        if let Some(subject) = image.subject.filter(|_| !lists_itself)
            && let Some(top) = graph.documents.last().map(Document::described)
        {
            self.registry.list_referrer(&target, &subject, &top).await?;
        }
        Ok(())
    }
}
