//! Downloads blobs: streamed, verified and resumed.

use std::sync::{Arc, PoisonError};

use http::header::{CONTENT_RANGE, RANGE};
use http::{HeaderValue, StatusCode};

use super::client::{Call, Registry};
use super::endpoint::RegistrySource;
use super::refusal::response_error;
use crate::StoredBlob;
use crate::http::{HttpFailure, HttpResponse};
use crate::partial::Partial;
use crate::progress::TransferEvent;
use crate::{Descriptor, Digest, Error, ErrorKind, Store};

/// Maximum number of resumed downloads of a blob, as long as each makes progress.
const RESUMES: u32 = 200;

/// Bytes between two progress events.
const PROGRESS_STEP: u64 = 256 << 10;

enum Broken {
    /// A transient failure: a retry may get the rest.
    Transient(String),
    /// A permanent failure.
    Permanent(Error),
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Broken {
        Broken::Permanent(Error::file("storing a blob", &error))
    }
}

impl Registry {
    /// Downloads a blob into the store, unless it is present. Concurrent calls for a blob share one download.
    pub(crate) async fn fetch(
        &self,
        source: &RegistrySource,
        blob: &Descriptor,
        store: &Store,
    ) -> Result<StoredBlob, Error> {
        if let Some(found) = stored(store, blob).await? {
            self.settings.progress.on(&TransferEvent::Finished { blob, cached: true });
            return Ok(found);
        }
        let download_lock = {
            let mut downloads = self.downloads.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(downloads.entry(blob.digest).or_default())
        };
        let outcome = {
            let _exclusive = download_lock.lock().await;
            match stored(store, blob).await {
                Ok(None) => self.download(source, blob, store).await,
                Ok(Some(found)) => Ok(found),
                Err(error) => Err(error),
            }
        };
        let mut downloads = self.downloads.lock().unwrap_or_else(PoisonError::into_inner);
        // The two references are this one and the map's.
        if Arc::strong_count(&download_lock) <= 2 {
            downloads.remove(&blob.digest);
        }
        outcome.map_err(|error| error.context(format!("reading blob {}", blob.digest)).at(source.reference.host()))
    }

    async fn download(&self, source: &RegistrySource, blob: &Descriptor, store: &Store) -> Result<StoredBlob, Error> {
        let (place, digest) = (store.clone(), blob.digest);
        let opened = tokio::task::spawn_blocking(move || Partial::open(&place, digest)).await;
        let mut partial = match opened {
            Ok(Ok(partial)) => partial,
            Ok(Err(error)) => return Err(Error::file("storing a blob", &error)),
            Err(error) => return Err(Error::new(ErrorKind::File, format!("storing a blob: {error}"))),
        };
        let reference = source.reference.to_string();
        self.settings.progress.on(&TransferEvent::Started { reference: &reference, blob, received: partial.size() });
        let (mut tries, mut continuations) = (0, 0);
        let mut inherited = partial.size() > 0;
        loop {
            let before = partial.size();
            match self.resume_blob(source, blob, &mut partial).await {
                Ok(()) => {
                    let (left, outcome) = finish_partial(partial).await?;
                    partial = left;
                    let digest = match outcome {
                        Ok(found) => {
                            self.settings.progress.on(&TransferEvent::Finished { blob, cached: false });
                            return Ok(found);
                        }
                        Err(digest) => digest,
                    };
                    partial.restart().map_err(|error| Error::file("storing a blob", &error))?;
                    // The part left by an earlier attempt may be damaged.
                    if std::mem::take(&mut inherited) {
                        continue;
                    }
                    let text = format!("Digest did not match, expected {}, got {digest}", blob.digest);
                    return Err(Error::new(ErrorKind::Digest, text));
                }
                Err(Broken::Permanent(error)) => return Err(error),
                Err(Broken::Transient(why)) => {
                    inherited |= partial.size() > 0;
                    if partial.size() > before {
                        tries = 0;
                    }
                    if tries >= self.settings.retries.count || continuations >= RESUMES {
                        return Err(Error::new(ErrorKind::Network, why).tried(continuations + 1));
                    }
                    self.wait(&reference, &why, tries, None).await?;
                    tries += 1;
                    continuations += 1;
                }
            }
        }
    }

    /// Requests the missing part of a blob and appends what arrives.
    async fn resume_blob(
        &self,
        source: &RegistrySource,
        blob: &Descriptor,
        partial: &mut Partial,
    ) -> Result<(), Broken> {
        if partial.size() > blob.size {
            partial.restart()?;
        }
        if partial.size() == blob.size && blob.size > 0 {
            return Ok(());
        }
        let path = format!("blobs/{}", blob.digest);
        let mut call = Call::get(&path);
        let start = partial.size();
        if start > 0 {
            let range = HeaderValue::from_str(&format!("bytes={start}-"));
            call.headers.extend(range.ok().map(|range| (RANGE, range)));
        }
        let mut response = self.request(source, &call).await.map_err(Broken::Permanent)?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if start > 0 && range_starts_at(&response, start) => {}
            StatusCode::OK => partial.restart()?,
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                partial.restart()?;
                return Err(Broken::Transient("the registry sent another range than requested".into()));
            }
            _ => return Err(Broken::Permanent(response_error(response).await)),
        }
        let mut reported = partial.size();
        loop {
            match response.chunk().await {
                Ok(None) => break,
                Ok(Some(piece)) => {
                    if partial.size() + piece.len() as u64 > blob.size {
                        partial.restart()?;
                        let text = format!("the blob is larger than the {} bytes in its manifest", blob.size);
                        return Err(Broken::Permanent(Error::new(ErrorKind::Digest, text)));
                    }
                    partial.add(&piece)?;
                    if let Some(rate_limiter) = &self.settings.rate_limiter {
                        tokio::time::sleep(rate_limiter.reserve(piece.len() as u64)).await;
                    }
                }
                Err(failure @ HttpFailure::Permanent(_)) => return Err(Broken::Permanent(failure.into_error(1))),
                Err(failure) => return Err(Broken::Transient(failure.to_string())),
            }
            if partial.size() - reported >= PROGRESS_STEP || partial.size() == blob.size {
                reported = partial.size();
                self.settings.progress.on(&TransferEvent::Advanced { blob, received: reported });
            }
        }
        if partial.size() < blob.size {
            return Err(Broken::Transient(format!(
                "the transfer ended after {} of {} bytes",
                partial.size(),
                blob.size
            )));
        }
        Ok(())
    }
}

/// Finishes a blob on a blocking thread, because the disk may be slow.
async fn finish_partial(mut partial: Partial) -> Result<(Partial, Result<StoredBlob, Digest>), Error> {
    let done = tokio::task::spawn_blocking(move || partial.finish().map(|outcome| (partial, outcome))).await;
    match done {
        Ok(outcome) => outcome.map_err(|error| Error::file("storing a blob", &error)),
        Err(error) => Err(Error::new(ErrorKind::File, format!("storing a blob: {error}"))),
    }
}

fn range_starts_at(response: &HttpResponse, start: u64) -> bool {
    let first = response.header(CONTENT_RANGE).and_then(|text| text.strip_prefix("bytes ")?.split('-').next());
    first.and_then(|first| first.trim().parse().ok()) == Some(start)
}

/// Returns a verified blob from the store, if present.
pub(crate) async fn stored(store: &Store, blob: &Descriptor) -> Result<Option<StoredBlob>, Error> {
    let (store, blob) = (store.clone(), blob.clone());
    let to_error = |text: String| Error::new(ErrorKind::File, format!("checking a stored blob: {text}"));
    match tokio::task::spawn_blocking(move || store.blob_for(&blob)).await {
        Ok(outcome) => outcome.map_err(|error| to_error(error.to_string())),
        Err(error) => Err(to_error(error.to_string())),
    }
}
