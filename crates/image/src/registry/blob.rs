//! Blobs from registries: streamed, checked, and continued where they broke off.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use http::header::{CONTENT_RANGE, RANGE};
use http::{HeaderValue, StatusCode};

use super::client::{Call, Registry};
use super::endpoint::Source;
use super::refusal::said;
use crate::http::{Answer, Failure};
use crate::partial::Partial;
use crate::progress::Event;
use crate::{Descriptor, Digest, Error, ErrorKind, Hasher, Store};

/// How often a blob is continued, as long as every time some of it comes.
const CONTINUATIONS: u32 = 200;

/// How much comes before somebody is told again.
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
    pub(crate) async fn fetch(&self, source: &Source, blob: &Descriptor, store: &Store) -> Result<(), Error> {
        if self.is_good(store, blob).await? {
            self.settings.progress.on(&Event::Finished { blob, cached: true });
            return Ok(());
        }
        let flight = {
            let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(flights.entry(blob.digest).or_default())
        };
        let outcome = {
            let _alone = flight.lock().await;
            if is_here(store, blob) { Ok(()) } else { self.fetch_alone(source, blob, store).await }
        };
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        // Two are this one and the map's.
        if Arc::strong_count(&flight) <= 2 {
            flights.remove(&blob.digest);
        }
        outcome.map_err(|error| error.context(format!("reading blob {}", blob.digest)))
    }

    /// Tells whether a blob is in the store, and removes one that is damaged. What an earlier run has
    /// left is believed only after it is read once.
    pub(crate) async fn is_good(&self, store: &Store, blob: &Descriptor) -> Result<bool, Error> {
        if !is_here(store, blob) {
            return Ok(false);
        }
        if self.checked.lock().unwrap_or_else(PoisonError::into_inner).contains(&blob.digest) {
            return Ok(true);
        }
        let (path, digest) = (store.path_of(&blob.digest), blob.digest);
        let check = move || match digest_of(&path) {
            Ok(found) if found == digest => Ok(true),
            Ok(_) => fs::remove_file(&path).map(|()| false),
            Err(error) => Err(error),
        };
        let good = match tokio::task::spawn_blocking(check).await {
            Ok(outcome) => outcome.map_err(|error| Error::file("checking a stored blob", &error))?,
            Err(error) => return Err(Error::new(ErrorKind::File, format!("checking a stored blob: {error}"))),
        };
        if good {
            self.checked.lock().unwrap_or_else(PoisonError::into_inner).insert(digest);
        }
        Ok(good)
    }

    async fn fetch_alone(&self, source: &Source, blob: &Descriptor, store: &Store) -> Result<(), Error> {
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
                    let digest = partial.finish().map_err(|error| Error::file("storing a blob", &error))?;
                    if digest == blob.digest {
                        break;
                    }
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
                        return Err(Error::new(ErrorKind::Network, why));
                    }
                    self.wait(&reference, &why, tries, None).await?;
                    tries += 1;
                    continuations += 1;
                }
            }
        }
        self.checked.lock().unwrap_or_else(PoisonError::into_inner).insert(blob.digest);
        self.settings.progress.on(&Event::Finished { blob, cached: false });
        Ok(())
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

fn range_starts_at(answer: &Answer, start: u64) -> bool {
    let first = answer.header(CONTENT_RANGE).and_then(|text| text.strip_prefix("bytes ")?.split('-').next());
    first.and_then(|first| first.trim().parse().ok()) == Some(start)
}

fn digest_of(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Tells whether a blob of that length is in the store.
fn is_here(store: &Store, blob: &Descriptor) -> bool {
    store.path_of(&blob.digest).metadata().is_ok_and(|about| about.is_file() && about.len() == blob.size)
}
