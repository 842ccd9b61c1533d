//! Blobs and manifests to registries.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use super::challenge::Actions;
use super::client::{Call, Registry};
use super::endpoint::Source;
use super::manifest::Document;
use super::refusal::said;
use crate::http::{Answer, Body, encode, join};
use crate::payload::Payload;
use crate::{Descriptor, Error, ErrorKind, Event};

/// Blobs that are larger are sent in pieces of this size, so that a failure does not cost all.
const CHUNK: u64 = 64 << 20;

impl Registry {
    /// Returns whether a repository has a blob.
    pub(crate) async fn has_blob(&self, target: &Source, blob: &Descriptor) -> Result<bool, Error> {
        let path = format!("blobs/{}", blob.digest);
        let call = Call { method: Method::HEAD, actions: Actions::Push, ..Call::get(&path) };
        Ok(self.request(target, &call).await?.status() == StatusCode::OK)
    }

    /// Brings a blob to a repository: from another one of the same registry if that has it, or else
    /// from where `fetch` has it.
    pub(crate) async fn send<F, P>(
        &self,
        target: &Source,
        blob: &Descriptor,
        other: Option<&str>,
        fetch: F,
    ) -> Result<Way, Error>
    where
        F: AsyncFnOnce() -> Result<P, Error>,
        P: Into<Payload>,
    {
        if self.has_blob(target, blob).await? {
            return Ok(Way::Known);
        }
        self.send_absent(target, blob, other, fetch).await
    }

    /// The same for a blob that the repository does not have.
    pub(crate) async fn send_absent<F, P>(
        &self,
        target: &Source,
        blob: &Descriptor,
        other: Option<&str>,
        fetch: F,
    ) -> Result<Way, Error>
    where
        F: AsyncFnOnce() -> Result<P, Error>,
        P: Into<Payload>,
    {
        let mut upload = None;
        if let Some(other) = other.filter(|other| *other != target.reference.repository()) {
            let path = format!("blobs/uploads/?mount={}&from={}", blob.digest, encode(other));
            match self.begin(target, &path).await {
                Ok(None) => return Ok(Way::Mounted),
                // It began an upload instead.
                Ok(begun) => upload = begun,
                // The other repository may be closed to us, or the registry know no mounts.
                Err(_) => {}
            }
        }
        let found: Payload = fetch().await?.into();
        let mut tries = 0;
        loop {
            let outcome = self.upload(target, blob, &found, upload.take()).await;
            match outcome {
                Ok(()) => return Ok(Way::Sent),
                Err(error) if error.kind() == ErrorKind::Network && tries < self.settings.retries.count => {
                    self.wait(&format!("sending {}", blob.digest), &error.to_string(), tries, None).await?;
                    tries += 1;
                }
                Err(error) => return Err(error.context(format!("writing blob {}", blob.digest))),
            }
        }
    }

    /// Starts an upload and returns where it goes to; nothing if it is done with that.
    async fn begin(&self, target: &Source, path: &str) -> Result<Option<String>, Error> {
        let mut call = Call { method: Method::POST, actions: Actions::Push, ..Call::get(path) };
        call.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        let answer = self.request(target, &call).await?;
        match answer.status() {
            StatusCode::CREATED => Ok(None),
            StatusCode::ACCEPTED => next_place(&answer).map(Some),
            _ => Err(said(answer).await.context("initiating layer upload")),
        }
    }

    async fn upload(
        &self,
        target: &Source,
        described: &Descriptor,
        blob: &Payload,
        begun: Option<String>,
    ) -> Result<(), Error> {
        let Some(mut place) = (match begun {
            Some(place) => Some(place),
            None => self.begin(target, "blobs/uploads/").await?,
        }) else {
            return Ok(());
        };
        let size = blob.size();
        let octets = HeaderValue::from_static("application/octet-stream");
        let mut sent = 0;
        while size - sent > CHUNK {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, octets.clone());
            let range = HeaderValue::from_str(&format!("{sent}-{}", sent + CHUNK - 1));
            headers.extend(range.ok().map(|range| (CONTENT_RANGE, range)));
            let call = Call {
                method: Method::PATCH,
                path: &place,
                headers,
                body: Body::pieces(blob.part(sent, CHUNK), self.settings.pace.clone()),
                actions: Actions::Push,
                retry: false,
            };
            let answer = self.request(target, &call).await?;
            if answer.status() != StatusCode::ACCEPTED {
                return Err(said(answer).await);
            }
            place = next_place(&answer)?;
            sent += CHUNK;
            self.settings.progress.on(&Event::Advanced { blob: described, there: sent });
        }
        let mark = if place.contains('?') { '&' } else { '?' };
        let place = format!("{place}{mark}digest={}", blob.digest());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, octets);
        let pace = self.settings.pace.clone();
        let body = if size == sent { Body::Empty } else { Body::pieces(blob.part(sent, size - sent), pace) };
        if size == sent {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        } else if sent > 0 {
            let range = HeaderValue::from_str(&format!("{sent}-{}", size - 1));
            headers.extend(range.ok().map(|range| (CONTENT_RANGE, range)));
        }
        let call = Call { method: Method::PUT, path: &place, headers, body, actions: Actions::Push, retry: false };
        let answer = self.request(target, &call).await?;
        if answer.status() == StatusCode::CREATED { Ok(()) } else { Err(said(answer).await) }
    }

    /// Finds out whether a repository can be written to: an upload is begun and called off.
    pub(crate) async fn may_push(&self, target: &Source) -> Result<(), Error> {
        if let Some(place) = self.begin(target, "blobs/uploads/").await? {
            self.call_off(target, &place).await;
        }
        Ok(())
    }

    /// Finds out whether a repository gets a blob from another one of its registry.
    pub(crate) async fn may_mount(&self, target: &Source, blob: &Descriptor, other: &str) -> Result<bool, Error> {
        let path = format!("blobs/uploads/?mount={}&from={}", blob.digest, encode(other));
        match self.begin(target, &path).await {
            Ok(None) => Ok(true),
            Ok(Some(place)) => {
                self.call_off(target, &place).await;
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::Network => Err(error),
            // The other repository is closed to us, or the registry knows no mounts.
            Err(_) => Ok(false),
        }
    }

    async fn call_off(&self, target: &Source, place: &str) {
        let call = Call { method: Method::DELETE, actions: Actions::Push, retry: false, ..Call::get(place) };
        // A registry that does not know how to call it off forgets it by itself.
        let _ = self.request(target, &call).await;
    }

    /// Brings a manifest or an index to a repository, under a tag or its digest, and returns whether
    /// the registry takes care of listing what it was made for.
    pub(crate) async fn put_manifest(
        &self,
        target: &Source,
        document: &Document,
        version: &str,
    ) -> Result<bool, Error> {
        let path = format!("manifests/{version}");
        let mut headers = HeaderMap::new();
        let media_type = HeaderValue::from_str(&document.media_type);
        headers.extend(media_type.ok().map(|name| (CONTENT_TYPE, name)));
        let body = Body::Bytes(Bytes::from(document.content.clone()));
        let call = Call { method: Method::PUT, path: &path, headers, body, actions: Actions::Push, retry: true };
        let answer = self.request(target, &call).await?;
        if answer.status() == StatusCode::CREATED || answer.status() == StatusCode::OK {
            return Ok(answer.header("oci-subject").is_some());
        }
        let what = format!("writing manifest {version} to {}", target.reference.name());
        Err(said(answer).await.context(what))
    }
}

/// What it took to bring a blob to a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It was there.
    Known,
    /// It was in another repository of the same registry.
    Mounted,
    /// It was sent.
    Sent,
}

/// Returns where the registry wants to have what follows.
fn next_place(answer: &Answer) -> Result<String, Error> {
    let place = answer.header(LOCATION).and_then(|location| join(answer.uri(), location));
    let wrong = || Error::new(ErrorKind::Network, "the registry does not say where to send it");
    place.map(|place| secure(answer.uri(), &place)).ok_or_else(wrong)
}

/// Stays with TLS: registries behind a proxy do not always know that they are reached with it.
fn secure(asked: &Uri, place: &Uri) -> String {
    let text = place.to_string();
    let at_home = asked.scheme_str() == Some("https") && asked.authority() == place.authority();
    match text.strip_prefix("http://") {
        Some(rest) if at_home => format!("https://{rest}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_stays_with_tls() {
        let asked: Uri = "https://reg.test:5000/v2/a/blobs/uploads/".parse().unwrap();
        for (place, expected) in [
            ("http://reg.test:5000/v2/a/blobs/uploads/1?x=y", "https://reg.test:5000/v2/a/blobs/uploads/1?x=y"),
            ("https://reg.test:5000/u", "https://reg.test:5000/u"),
            ("http://other.test/u", "http://other.test/u"),
        ] {
            assert_eq!(secure(&asked, &place.parse().unwrap()), expected);
        }
    }
}
