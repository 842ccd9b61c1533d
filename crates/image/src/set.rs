//! Many images as one set: what each consists of, and every different blob once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::{Client, Inner};
use crate::gather::{Gatherer, Origin};
use crate::graph::Graph;
use crate::manifest::{Descriptor, Platform};
use crate::registry::Source;
use crate::turns::each_in_turn;
use crate::{Digest, Error, ErrorKind, Limits, Reference, Store};

/// How often what failed is retried when all the rest is done.
pub(crate) const ROUNDS: u32 = 2;

/// An image whose manifests are in the store, with what was made for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    /// The digest of its manifest or index.
    pub digest: Digest,
    /// What that is.
    pub media_type: String,
    /// Signatures, attestations and the like.
    pub referrers: Vec<MadeFor>,
}

/// Something that was made for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeFor {
    /// The digest of its manifest.
    pub digest: Digest,
    /// The tag it is found by; nothing if the registry lists it.
    pub tag: Option<String>,
    /// What it was made for, if the registry lists it.
    pub subject: Option<Digest>,
}

/// What an image in a store consists of.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// Manifests and indexes, those that are referred to first.
    pub documents: Vec<Descriptor>,
    /// Configs and layers, each once.
    pub blobs: Vec<Descriptor>,
}

impl Parts {
    /// Follows a manifest or index in a store; of an index only the images for `platforms`, if any is named.
    ///
    /// # Errors
    /// Fails when a manifest is missing or is not understood, or there is too much of it.
    pub fn of(store: &Store, image: &Digest, platforms: &[Platform], limits: &Limits) -> Result<Parts, Error> {
        let graph = Graph::of_platforms(store, image, platforms, limits)?;
        Ok(Parts {
            documents: graph.documents.iter().map(crate::registry::Document::descriptor).collect(),
            blobs: graph.blobs,
        })
    }
}

/// A blob, and the repositories that have it.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The blob.
    pub blob: Descriptor,
    /// Images that it is a part of, in the repositories to ask.
    pub from: Vec<Arc<Reference>>,
}

impl Client {
    /// Brings the manifests of images and of what was made for them into the store, several at a time, and returns
    /// what they are in their order. An image that is given by its digest and in the store is not asked for. What failed
    /// because a registry was away is retried when the rest is done.
    pub fn survey(&self, images: &[(Reference, Vec<Platform>)], referrers: bool) -> Vec<Result<Surveyed, Error>> {
        let lost = || Error::new(ErrorKind::Network, "the request was cut off");
        let mut found: Vec<Result<Surveyed, Error>> = images.iter().map(|_| Err(lost())).collect();
        for round in 0..=ROUNDS {
            let away = |outcome: &Result<Surveyed, Error>| {
                outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Network)
            };
            let left: Vec<usize> = (0..images.len()).filter(|number| away(&found[*number])).collect();
            // Where all of them fail the registry is away for good, or its name is wrong.
            if left.is_empty() || round > 0 && left.len() == images.len() {
                break;
            }
            if round > 0 {
                let pause = pause(self.inner().options.retries.first, round);
                // A clock has to be made where it runs.
                self.block_on(async { tokio::time::sleep(pause).await });
            }
            for (number, outcome) in self.survey_round(images, left, referrers) {
                let before = if round > 0 { found[number].as_ref().err().map_or(0, Error::tries) } else { 0 };
                found[number] = outcome.map_err(|error| {
                    let tries = before.saturating_add(error.tries());
                    error.tried(tries)
                });
            }
        }
        found
    }

    fn survey_round(
        &self,
        images: &[(Reference, Vec<Platform>)],
        numbers: Vec<usize>,
        referrers: bool,
    ) -> Vec<(usize, Result<Surveyed, Error>)> {
        let items = numbers.into_iter().map(|number| (images[number].0.host().to_owned(), number));
        self.block_on(each_in_turn(self.inner().options.parallel, items, |number| {
            let (reference, platforms) = &images[number];
            let (client, reference, platforms) = (self.clone(), reference.clone(), platforms.clone());
            async move { (number, client.survey_one(&reference, &platforms, referrers).await) }
        }))
    }

    async fn survey_one(
        &self,
        reference: &Reference,
        platforms: &[Platform],
        referrers: bool,
    ) -> Result<Surveyed, Error> {
        let inner = self.inner();
        if inner.options.offline {
            return Err(Error::new(ErrorKind::Offline, format!("{reference}: the network may not be used")));
        }
        let admission = inner.allow(&crate::Location::Registry(reference.clone()))?;
        inner
            .at_each_source(reference, |source| {
                let (inner, admission) = (inner.clone(), admission.clone());
                async move {
                    let stored = source.reference.digest().filter(|digest| inner.read_document(digest).is_ok());
                    let digest = match stored {
                        Some(digest) => *digest,
                        None => {
                            let document = inner.registry.manifest(&source, &source.reference.version()).await?;
                            inner.store_document(&document)?
                        }
                    };
                    let origin = Origin::Registry(source.clone());
                    let mut gatherer = Gatherer::new(&inner, &origin, None).for_platforms(platforms);
                    let graph = gatherer.image(digest).await?;
                    for document in graph.documents.iter().filter(|document| !document.is_index()) {
                        admission.check(&inner, Some(&source), &document.digest).await?;
                    }
                    let items = if referrers { gatherer.referrers(&graph).await? } else { Vec::new() };
                    let made = items.into_iter().filter_map(|item| {
                        let digest = item.graph.top()?.digest;
                        Some(MadeFor { digest, tag: item.tag, subject: item.subject.map(|(subject, _)| subject) })
                    });
                    let media_type = graph.top().map(|top| top.media_type).unwrap_or_default();
                    Ok(Surveyed { digest, media_type, referrers: made.collect() })
                }
            })
            .await
    }

    /// Brings blobs into the store, the largest first, each once however many images have it; returns why those did
    /// not come that are missing. What failed is retried when the rest is done. When the disk is full, no further
    /// blob begins.
    pub fn fetch_set(&self, mut wanted: Vec<Wanted>) -> HashMap<Digest, Error> {
        wanted.sort_by(|a, b| b.blob.size.cmp(&a.blob.size).then_with(|| a.blob.digest.cmp(&b.blob.digest)));
        self.block_on(async {
            let mut failed: HashMap<Digest, Error> = HashMap::new();
            for round in 0..=ROUNDS {
                if round > 0 {
                    // Those that may come yet: a registry that was away can be back.
                    wanted.retain(|one| failed.get(&one.blob.digest).is_some_and(|it| it.kind() == ErrorKind::Network));
                    if wanted.is_empty() {
                        break;
                    }
                    tokio::time::sleep(pause(self.inner().options.retries.first, round)).await;
                }
                let outcomes = self.fetch_round(&wanted).await;
                settle(&mut failed, wanted.iter().map(|one| one.blob.digest), outcomes);
            }
            failed
        })
    }

    async fn fetch_round(&self, wanted: &[Wanted]) -> Vec<(Digest, Result<(), Error>)> {
        let full = Arc::new(AtomicBool::new(false));
        let host = |one: &Wanted| one.from.first().map_or_else(String::new, |from| from.host().to_owned());
        let items = wanted.iter().map(|one| (host(one), one));
        each_in_turn(self.inner().options.parallel, items, |one| {
            let (inner, full, one) = (self.inner(), Arc::clone(&full), one.clone());
            async move {
                if full.load(Ordering::Relaxed) {
                    return (one.blob.digest, Err(Error::new(ErrorKind::File, "not begun: the disk is full")));
                }
                let outcome = inner.fetch_from_any(&one).await;
                if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::File) {
                    full.store(true, Ordering::Relaxed);
                }
                (one.blob.digest, outcome)
            }
        })
        .await
    }
}

/// Notes which blobs failed, why, and how often in all. One without an outcome did not arrive.
pub(crate) fn settle(
    failed: &mut HashMap<Digest, Error>,
    blobs: impl Iterator<Item = Digest>,
    outcomes: Vec<(Digest, Result<(), Error>)>,
) {
    let mut outcomes: HashMap<Digest, Result<(), Error>> = outcomes.into_iter().collect();
    for digest in blobs {
        let lost = || Err(Error::new(ErrorKind::Network, "the request was cut off"));
        match outcomes.remove(&digest).unwrap_or_else(lost) {
            Ok(()) => drop(failed.remove(&digest)),
            Err(error) => {
                let tries = failed.get(&digest).map_or(0, Error::tries).saturating_add(error.tries());
                failed.insert(digest, error.tried(tries));
            }
        }
    }
}

/// Returns how long to wait before what failed is retried: as long as a registry takes to start again.
pub(crate) fn pause(first: Duration, round: u32) -> Duration {
    first * 16 * round
}

impl Inner {
    /// Fetches a blob from the first repository that gives it.
    pub(crate) async fn fetch_from_any(&self, wanted: &Wanted) -> Result<(), Error> {
        let mut last = None;
        for reference in &wanted.from {
            let fetch = |source: Source| async move {
                self.registry.fetch(&source, &wanted.blob, &self.options.store).await.map(|_| ())
            };
            match self.at_each_source(reference, fetch).await {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::File => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::new(ErrorKind::NotFound, "no repository is known to have it")))
    }
}
