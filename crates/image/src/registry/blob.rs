//! Blobs from registries: streamed, checked, and continued where they broke off.

use std::sync::{Arc, PoisonError};

use http::header::{CONTENT_RANGE, RANGE};
use http::{HeaderValue, StatusCode};

use super::client::{Call, Registry};
use super::endpoint::Source;
use super::refusal::said;
use crate::http::{Answer, Failure};
use crate::partial::Partial;
use crate::progress::Event;
use crate::store::Blob;
use crate::{Descriptor, Digest, Error, ErrorKind, Store};

/// How often a blob is continued, as long as every time some of it comes.
const CONTINUATIONS: u32 = 200;

/// How much comes before progress is reported again.
const STEP: u64 = 256 << 10;

enum Broken {
    /// Some came; more may come.
    Passing(String),
    /// Nothing can be done.
    Final(Error),
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Broken {
        Broken::Final(Error::file("storing a blob", &error))
    }
}

impl Registry {
    /// Brings a blob into the store, unless it is there. Several may ask for the same one.
    pub(crate) async fn fetch(&self, source: &Source, blob: &Descriptor, store: &Store) -> Result<Blob, Error> {
        if let Some(found) = stored(store, blob).await? {
            self.settings.progress.on(&Event::Finished { blob, cached: true });
            return Ok(found);
        }
        let flight = {
            let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(flights.entry(blob.digest).or_default())
        };
        let outcome = {
            let _alone = flight.lock().await;
            match stored(store, blob).await {
                Ok(None) => self.fetch_alone(source, blob, store).await,
                Ok(Some(found)) => Ok(found),
                Err(error) => Err(error),
            }
        };
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        // Two are this one and the map's.
        if Arc::strong_count(&flight) <= 2 {
            flights.remove(&blob.digest);
        }
        outcome.map_err(|error| error.context(format!("reading blob {}", blob.digest)))
    }

    async fn fetch_alone(&self, source: &Source, blob: &Descriptor, store: &Store) -> Result<Blob, Error> {
        let (place, digest) = (store.clone(), blob.digest);
        let opened = tokio::task::spawn_blocking(move || Partial::open(&place, digest)).await;
        let mut partial = match opened {
            Ok(Ok(partial)) => partial,
            Ok(Err(error)) => return Err(Error::file("storing a blob", &error)),
            Err(error) => return Err(Error::new(ErrorKind::File, format!("storing a blob: {error}"))),
        };
        let reference = source.reference.to_string();
        self.settings.progress.on(&Event::Started { reference: &reference, blob, there: partial.size() });
        let (mut tries, mut continuations) = (0, 0);
        let mut inherited = partial.size() > 0;
        loop {
            let before = partial.size();
            match self.continue_blob(source, blob, &mut partial).await {
                Ok(()) => {
                    let (left, outcome) = finished(partial).await?;
                    partial = left;
                    let digest = match outcome {
                        Ok(found) => {
                            self.settings.progress.on(&Event::Finished { blob, cached: false });
                            return Ok(found);
                        }
                        Err(digest) => digest,
                    };
                    partial.start_over().map_err(|error| Error::file("storing a blob", &error))?;
                    // What an earlier try has left may be what is wrong.
                    if std::mem::take(&mut inherited) {
                        continue;
                    }
                    let text = format!("Digest did not match, expected {}, got {digest}", blob.digest);
                    return Err(Error::new(ErrorKind::Digest, text));
                }
                Err(Broken::Final(error)) => return Err(error),
                Err(Broken::Passing(why)) => {
                    inherited |= partial.size() > 0;
                    if partial.size() > before {
                        tries = 0;
                    }
                    if tries >= self.settings.retries.count || continuations >= CONTINUATIONS {
                        return Err(Error::new(ErrorKind::Network, why).tried(continuations + 1));
                    }
                    self.wait(&reference, &why, tries, None).await?;
                    tries += 1;
                    continuations += 1;
                }
            }
        }
    }

    /// Asks for what is missing of a blob, and takes it as far as it comes.
    async fn continue_blob(&self, source: &Source, blob: &Descriptor, partial: &mut Partial) -> Result<(), Broken> {
        if partial.size() > blob.size {
            partial.start_over()?;
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
        let mut answer = self.request(source, &call).await.map_err(Broken::Final)?;
        match answer.status() {
            StatusCode::PARTIAL_CONTENT if start > 0 && range_starts_at(&answer, start) => {}
            StatusCode::OK => partial.start_over()?,
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                partial.start_over()?;
                return Err(Broken::Passing("the registry continues at another place".into()));
            }
            _ => return Err(Broken::Final(said(answer).await)),
        }
        let mut told = partial.size();
        loop {
            match answer.piece().await {
                Ok(None) => break,
                Ok(Some(piece)) => {
                    if partial.size() + piece.len() as u64 > blob.size {
                        partial.start_over()?;
                        let text = format!("it is larger than the {} bytes of its manifest", blob.size);
                        return Err(Broken::Final(Error::new(ErrorKind::Digest, text)));
                    }
                    partial.add(&piece)?;
                    if let Some(pace) = &self.settings.pace {
                        tokio::time::sleep(pace.take(piece.len() as u64)).await;
                    }
                }
                Err(failure @ Failure::Final(_)) => return Err(Broken::Final(failure.into_error(1))),
                Err(failure) => return Err(Broken::Passing(failure.to_string())),
            }
            if partial.size() - told >= STEP || partial.size() == blob.size {
                told = partial.size();
                self.settings.progress.on(&Event::Advanced { blob, there: told });
            }
        }
        if partial.size() < blob.size {
            return Err(Broken::Passing(format!("it ended after {} of {} bytes", partial.size(), blob.size)));
        }
        Ok(())
    }
}

/// Puts a blob under its name, away from the tasks: the disk may take its time.
async fn finished(mut partial: Partial) -> Result<(Partial, Result<Blob, Digest>), Error> {
    let done = tokio::task::spawn_blocking(move || partial.finish().map(|outcome| (partial, outcome))).await;
    match done {
        Ok(outcome) => outcome.map_err(|error| Error::file("storing a blob", &error)),
        Err(error) => Err(Error::new(ErrorKind::File, format!("storing a blob: {error}"))),
    }
}

fn range_starts_at(answer: &Answer, start: u64) -> bool {
    let first = answer.header(CONTENT_RANGE).and_then(|text| text.strip_prefix("bytes ")?.split('-').next());
    first.and_then(|first| first.trim().parse().ok()) == Some(start)
}

/// Returns a blob that is in the store, read once.
pub(crate) async fn stored(store: &Store, blob: &Descriptor) -> Result<Option<Blob>, Error> {
    let (store, blob) = (store.clone(), blob.clone());
    let wrong = |text: String| Error::new(ErrorKind::File, format!("checking a stored blob: {text}"));
    match tokio::task::spawn_blocking(move || store.described(&blob)).await {
        Ok(outcome) => outcome.map_err(|error| wrong(error.to_string())),
        Err(error) => Err(wrong(error.to_string())),
    }
}
