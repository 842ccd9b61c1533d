//! Sets of images: the parts of each image, and every distinct blob once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::{Client, Inner};
use crate::collect::{Gatherer, ImageOrigin};
use crate::graph::ImageGraph;
use crate::manifest::{Descriptor, Platform};
use crate::registry::RegistrySource;
use crate::scheduler::for_each_by_registry;
use crate::{Digest, Error, ErrorKind, ImageLimits, Reference, Store};

/// Maximum number of retry rounds after the remaining items are done.
pub(crate) const ROUNDS: u32 = 2;

/// An image whose manifests, including those of its referrers, are in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyedImage {
    /// The digest of its manifest or index.
    pub digest: Digest,
    /// The media type of that manifest or index.
    pub media_type: String,
    /// Signatures, attestations and the like.
    pub referrers: Vec<Referrer>,
}

/// A referrer of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referrer {
    /// The digest of its manifest.
    pub digest: Digest,
    /// Its tag; `None` if the registry lists it by its subject.
    pub tag: Option<String>,
    /// Its subject, if the registry lists it.
    pub subject: Option<Digest>,
}

/// The documents and blobs of an image in a store.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// Manifests and indexes, children before parents.
    pub documents: Vec<Descriptor>,
    /// Configs and layers, without duplicates.
    pub blobs: Vec<Descriptor>,
}

impl Parts {
    /// Collects the parts of a manifest or index in a store, limited to `platforms`; empty means all.
    ///
    /// # Errors
    /// Fails when a manifest is missing or invalid, or a limit is exceeded.
    pub fn of(store: &Store, image: &Digest, platforms: &[Platform], limits: &ImageLimits) -> Result<Parts, Error> {
        let graph = ImageGraph::of_platforms(store, image, platforms, limits)?;
        Ok(Parts {
            documents: graph.documents.iter().map(crate::registry::ManifestDocument::descriptor).collect(),
            blobs: graph.blobs,
        })
    }
}

/// What a survey fetches.
#[derive(Debug, Clone, Copy)]
enum Surveyed {
    /// Images, which the policy must accept.
    Images { referrers: bool },
    /// Referrers and other artifacts.
    Artifacts,
}

/// A blob to fetch and its sources.
#[derive(Debug, Clone)]
pub struct BlobRequest {
    pub blob: Descriptor,
    /// Images that contain it, in the repositories to try.
    pub from: Vec<Arc<Reference>>,
}

impl Client {
    /// Fetches the manifests of images and their referrers into the store, several concurrently, and returns the
    /// results in the order of `images`. Images given by digest that are in the store need no request. Transient
    /// failures are retried after the remaining images are done.
    pub fn survey(&self, images: &[(Reference, Vec<Platform>)], referrers: bool) -> Vec<Result<SurveyedImage, Error>> {
        self.survey_as(images, Surveyed::Images { referrers })
    }

    /// Like [`Client::survey`], for referrers and other artifacts, which the policy does not apply to.
    pub fn survey_artifacts(&self, artifacts: &[Reference]) -> Vec<Result<SurveyedImage, Error>> {
        let artifacts: Vec<_> = artifacts.iter().map(|artifact| (artifact.clone(), Vec::new())).collect();
        self.survey_as(&artifacts, Surveyed::Artifacts)
    }

    fn survey_as(
        &self,
        images: &[(Reference, Vec<Platform>)],
        surveyed: Surveyed,
    ) -> Vec<Result<SurveyedImage, Error>> {
        let aborted = || Error::new(ErrorKind::Network, "the request was aborted");
        let mut found: Vec<Result<SurveyedImage, Error>> = images.iter().map(|_| Err(aborted())).collect();
        for round in 0..=ROUNDS {
            let away = |outcome: &Result<SurveyedImage, Error>| {
                outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Network)
            };
            let host = |number: &usize| images[*number].0.host();
            let responding: HashSet<&str> =
                (0..images.len()).filter(|it| !away(&found[*it])).map(|it| host(&it)).collect();
            // If all images of a registry fail, it is down for long, or its name is wrong.
            let again = |number: &usize| away(&found[*number]) && (round == 0 || responding.contains(host(number)));
            let left: Vec<usize> = (0..images.len()).filter(again).collect();
            if left.is_empty() {
                break;
            }
            if round > 0 {
                let retry_delay = retry_delay(self.inner().options.retries.first_delay, round);
                // The timer must be created inside the runtime.
                self.block_on(async { tokio::time::sleep(retry_delay).await });
            }
            for (number, outcome) in self.survey_round(images, left, surveyed) {
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
        surveyed: Surveyed,
    ) -> Vec<(usize, Result<SurveyedImage, Error>)> {
        let items = numbers.into_iter().map(|number| (images[number].0.host().to_owned(), number));
        self.block_on(for_each_by_registry(self.inner().options.parallel, items, |number| {
            let (reference, platforms) = &images[number];
            let (client, reference, platforms) = (self.clone(), reference.clone(), platforms.clone());
            async move { (number, client.survey_one(&reference, &platforms, surveyed).await) }
        }))
    }

    async fn survey_one(
        &self,
        reference: &Reference,
        platforms: &[Platform],
        surveyed: Surveyed,
    ) -> Result<SurveyedImage, Error> {
        let inner = self.inner();
        if inner.options.offline {
            return Err(Error::new(ErrorKind::Offline, format!("{reference}: network access is disabled")));
        }
        let admission = match surveyed {
            Surveyed::Images { .. } => Some(inner.allow(&crate::Location::Registry(reference.clone()))?),
            Surveyed::Artifacts => None,
        };
        inner
            .try_sources(reference, |source| {
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
                    let origin = ImageOrigin::Registry(source.clone());
                    let mut gatherer = Gatherer::new(&inner, &origin, None).for_platforms(platforms);
                    let graph = gatherer.image(digest).await?;
                    if let Some(admission) = admission {
                        for document in graph.documents.iter().filter(|document| !document.is_index()) {
                            admission.check(&inner, Some(&source), &document.digest).await?;
                        }
                    }
                    let referrers = matches!(surveyed, Surveyed::Images { referrers: true });
                    let items = if referrers { gatherer.referrers(&graph).await? } else { Vec::new() };
                    let made = items.into_iter().filter_map(|item| {
                        let digest = item.graph.top()?.digest;
                        Some(Referrer { digest, tag: item.tag, subject: item.subject.map(|(subject, _)| subject) })
                    });
                    let media_type = graph.top().map(|top| top.media_type).unwrap_or_default();
                    Ok(SurveyedImage { digest, media_type, referrers: made.collect() })
                }
            })
            .await
    }

    /// Fetches blobs into the store, largest first, each once however many images contain it; returns the errors of
    /// the failed ones. Failures are retried after the remaining blobs are done. Once the disk is full, no new blob
    /// starts.
    pub fn fetch_set(&self, mut wanted: Vec<BlobRequest>) -> HashMap<Digest, Error> {
        wanted.sort_by(|a, b| b.blob.size.cmp(&a.blob.size).then_with(|| a.blob.digest.cmp(&b.blob.digest)));
        self.block_on(async {
            let mut failed: HashMap<Digest, Error> = HashMap::new();
            for round in 0..=ROUNDS {
                if round > 0 {
                    // Transient failures are retried: the registry may be back.
                    wanted.retain(|one| failed.get(&one.blob.digest).is_some_and(|it| it.kind() == ErrorKind::Network));
                    if wanted.is_empty() {
                        break;
                    }
                    tokio::time::sleep(retry_delay(self.inner().options.retries.first_delay, round)).await;
                }
                let outcomes = self.fetch_round(&wanted).await;
                settle(&mut failed, wanted.iter().map(|one| one.blob.digest), outcomes);
            }
            failed
        })
    }

    async fn fetch_round(&self, wanted: &[BlobRequest]) -> Vec<(Digest, Result<(), Error>)> {
        let full = Arc::new(AtomicBool::new(false));
        let host = |one: &BlobRequest| one.from.first().map_or_else(String::new, |from| from.host().to_owned());
        let items = wanted.iter().map(|one| (host(one), one));
        for_each_by_registry(self.inner().options.parallel, items, |one| {
            let (inner, full, one) = (self.inner(), Arc::clone(&full), one.clone());
            async move {
                if full.load(Ordering::Relaxed) {
                    return (one.blob.digest, Err(Error::new(ErrorKind::File, "skipped: the disk is full")));
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

/// Records failed blobs with their errors and total attempts. A blob without an outcome counts as failed.
pub(crate) fn settle(
    failed: &mut HashMap<Digest, Error>,
    blobs: impl Iterator<Item = Digest>,
    outcomes: Vec<(Digest, Result<(), Error>)>,
) {
    let mut outcomes: HashMap<Digest, Result<(), Error>> = outcomes.into_iter().collect();
    for digest in blobs {
        let aborted = || Err(Error::new(ErrorKind::Network, "the request was aborted"));
        match outcomes.remove(&digest).unwrap_or_else(aborted) {
            Ok(()) => drop(failed.remove(&digest)),
            Err(error) => {
                let tries = failed.get(&digest).map_or(0, Error::tries).saturating_add(error.tries());
                failed.insert(digest, error.tried(tries));
            }
        }
    }
}

/// Returns the delay before a retry round: about the time that a registry takes to restart.
pub(crate) fn retry_delay(first: Duration, round: u32) -> Duration {
    first * 16 * round
}

impl Inner {
    /// Fetches a blob from the first repository that provides it.
    pub(crate) async fn fetch_from_any(&self, wanted: &BlobRequest) -> Result<(), Error> {
        let mut last = None;
        for reference in &wanted.from {
            let fetch = |source: RegistrySource| async move {
                self.registry.fetch(&source, &wanted.blob, &self.options.store).await.map(|_| ())
            };
            match self.try_sources(reference, fetch).await {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::File => return Err(error),
                // The blob is missing only if every repository says so.
                Err(error) if error.is_missing() && last.is_some() => {}
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::new(ErrorKind::NotFound, "no repository is known to have the blob")))
    }
}
