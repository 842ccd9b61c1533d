//! Uploads blobs and manifests.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use super::challenge::Actions;
use super::client::{Call, Registry};
use super::endpoint::RegistrySource;
use super::manifest::ManifestDocument;
use super::refusal::response_error;
use crate::blob::{BlobReader, StoredBlob};
use crate::http::{HttpResponse, Reached, RequestBody, encode, join};
use crate::{Descriptor, Error, ErrorKind, TransferEvent};

/// Larger blobs are uploaded in chunks of this size, so that a failure does not lose everything.
const CHUNK: u64 = 64 << 20;

impl Registry {
    /// Returns whether a repository has a blob.
    pub(crate) async fn has_blob(&self, target: &RegistrySource, blob: &Descriptor) -> Result<bool, Error> {
        let path = format!("blobs/{}", blob.digest);
        let call = Call { method: Method::HEAD, actions: Actions::Push, ..Call::get(&path) };
        Ok(self.request(target, &call).await?.status() == StatusCode::OK)
    }

    /// Puts a blob into a repository: mounts it from another repository of the same registry, or else uploads what
    /// `fetch` returns.
    pub(crate) async fn send<F>(
        &self,
        target: &RegistrySource,
        blob: &Descriptor,
        other: Option<&str>,
        fetch: F,
    ) -> Result<UploadOutcome, Error>
    where
        F: AsyncFnOnce() -> Result<StoredBlob, Error>,
    {
        if self.has_blob(target, blob).await? {
            return Ok(UploadOutcome::Existing);
        }
        self.upload_missing(target, blob, other, fetch).await
    }

    /// Like [`Registry::send`], for a blob that the repository is known to lack.
    pub(crate) async fn upload_missing<F>(
        &self,
        target: &RegistrySource,
        blob: &Descriptor,
        other: Option<&str>,
        fetch: F,
    ) -> Result<UploadOutcome, Error>
    where
        F: AsyncFnOnce() -> Result<StoredBlob, Error>,
    {
        let mut upload = None;
        if let Some(other) = other.filter(|other| *other != target.reference.repository()) {
            let path = format!("blobs/uploads/?mount={}&from={}", blob.digest, encode(other));
            match self.begin(target, &path).await {
                Ok(None) => return Ok(UploadOutcome::Mounted),
                // The registry started an upload instead.
                Ok(begun) => upload = begun,
                // We may lack access to the other repository, or the registry may not support mounts.
                Err(_) => {}
            }
        }
        let found = fetch().await?;
        let mut tries = 0;
        loop {
            let outcome = self.upload(target, blob, &found, upload.take()).await;
            match outcome {
                Ok(()) => return Ok(UploadOutcome::Uploaded),
                Err(error) if error.kind() == ErrorKind::Network && tries < self.settings.retries.count => {
                    self.wait(&format!("sending {}", blob.digest), &error.to_string(), tries, None).await?;
                    tries += 1;
                }
                Err(error) => return Err(error.context(format!("writing blob {}", blob.digest))),
            }
        }
    }

    /// Starts an upload and returns its URL; `None` if the blob is already complete.
    async fn begin(&self, target: &RegistrySource, path: &str) -> Result<Option<String>, Error> {
        let mut call = Call { method: Method::POST, actions: Actions::Push, ..Call::get(path) };
        call.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        let response = self.request(target, &call).await?;
        match response.status() {
            StatusCode::CREATED => Ok(None),
            StatusCode::ACCEPTED => next_place(&response).map(Some),
            _ => Err(response_error(response).await.context("initiating layer upload")),
        }
    }

    async fn upload(
        &self,
        target: &RegistrySource,
        described: &Descriptor,
        blob: &StoredBlob,
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
        let mut reader = blob.open();
        while size - sent > CHUNK {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, octets.clone());
            let range = HeaderValue::from_str(&format!("{sent}-{}", sent + CHUNK - 1));
            headers.extend(range.ok().map(|range| (CONTENT_RANGE, range)));
            let (body, reached) = self.part(described, reader, CHUNK);
            let call =
                Call { method: Method::PATCH, path: &place, headers, body, actions: Actions::Push, retry: false };
            let response = self.request(target, &call).await?;
            if response.status() != StatusCode::ACCEPTED {
                return Err(response_error(response).await);
            }
            place = next_place(&response)?;
            sent += CHUNK;
            let unread = || Error::new(ErrorKind::Network, "the registry responded before it had the whole chunk");
            reader = reached.take().ok_or_else(unread)?;
        }
        let mark = if place.contains('?') { '&' } else { '?' };
        let place = format!("{place}{mark}digest={}", blob.digest());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, octets);
        let body = if size == sent {
            reader.finish().map_err(|error| Error::blob(&error))?;
            RequestBody::Empty
        } else {
            self.part(described, reader, size - sent).0
        };
        if size == sent {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        } else if sent > 0 {
            let range = HeaderValue::from_str(&format!("{sent}-{}", size - 1));
            headers.extend(range.ok().map(|range| (CONTENT_RANGE, range)));
        }
        let call = Call { method: Method::PUT, path: &place, headers, body, actions: Actions::Push, retry: false };
        let response = self.request(target, &call).await?;
        if response.status() == StatusCode::CREATED { Ok(()) } else { Err(response_error(response).await) }
    }

    /// Returns the body that sends the next `size` bytes of a blob and reports its progress, and where it leaves the
    /// reader. The body of the last bytes fails before its end if the digest differs.
    fn part(&self, described: &Descriptor, reader: BlobReader, size: u64) -> (RequestBody, Reached) {
        let (progress, described, start) = (Arc::clone(&self.settings.progress), described.clone(), reader.position());
        let sent = move |bytes| progress.on(&TransferEvent::Advanced { blob: &described, received: start + bytes });
        let reached = Reached::default();
        let limiter = self.settings.rate_limiter.clone();
        (RequestBody::blob(reader, size, reached.clone(), limiter, Arc::new(sent)), reached)
    }

    /// Checks write access to a repository: starts an upload and cancels it.
    pub(crate) async fn check_push(&self, target: &RegistrySource) -> Result<(), Error> {
        if let Some(place) = self.begin(target, "blobs/uploads/").await? {
            self.cancel_upload(target, &place).await;
        }
        Ok(())
    }

    /// Checks whether a repository can mount a blob from another one of its registry.
    pub(crate) async fn check_mount(
        &self,
        target: &RegistrySource,
        blob: &Descriptor,
        other: &str,
    ) -> Result<bool, Error> {
        let path = format!("blobs/uploads/?mount={}&from={}", blob.digest, encode(other));
        match self.begin(target, &path).await {
            Ok(None) => Ok(true),
            Ok(Some(place)) => {
                self.cancel_upload(target, &place).await;
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::Network => Err(error),
            // We may lack access to the other repository, or the registry may not support mounts.
            Err(_) => Ok(false),
        }
    }

    async fn cancel_upload(&self, target: &RegistrySource, place: &str) {
        let call = Call { method: Method::DELETE, actions: Actions::Push, retry: false, ..Call::get(place) };
        // A registry that does not support cancelling expires the upload.
        let _ = self.request(target, &call).await;
    }

    /// Uploads a manifest or an index under a tag or its digest; returns whether the registry lists referrers itself.
    pub(crate) async fn put_manifest(
        &self,
        target: &RegistrySource,
        document: &ManifestDocument,
        version: &str,
    ) -> Result<bool, Error> {
        let path = format!("manifests/{version}");
        let mut headers = HeaderMap::new();
        let media_type = HeaderValue::from_str(&document.media_type);
        headers.extend(media_type.ok().map(|name| (CONTENT_TYPE, name)));
        let body = RequestBody::Bytes(Bytes::from(document.content.clone()));
        let call = Call { method: Method::PUT, path: &path, headers, body, actions: Actions::Push, retry: true };
        let response = self.request(target, &call).await?;
        if response.status() == StatusCode::CREATED || response.status() == StatusCode::OK {
            return Ok(response.header("oci-subject").is_some());
        }
        let what = format!("writing manifest {version} to {}", target.reference.name());
        Err(response_error(response).await.context(what))
    }
}

/// How a blob got into a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadOutcome {
    /// It was there already.
    Existing,
    /// It was mounted from another repository of the registry.
    Mounted,
    /// It was uploaded.
    Uploaded,
}

/// Returns the URL of the next upload request.
fn next_place(response: &HttpResponse) -> Result<String, Error> {
    let place = response.header(LOCATION).and_then(|location| join(response.uri(), location));
    let invalid = || Error::new(ErrorKind::Network, "the registry returned no upload URL");
    place.map(|place| keep_tls(response.uri(), &place)).ok_or_else(invalid)
}

/// Keeps TLS: registries behind a proxy may return `http://` URLs although clients use TLS.
fn keep_tls(asked: &Uri, place: &Uri) -> String {
    let text = place.to_string();
    let same_origin = asked.scheme_str() == Some("https") && asked.authority() == place.authority();
    match text.strip_prefix("http://") {
        Some(rest) if same_origin => format!("https://{rest}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_does_not_leave_tls() {
        let requested: Uri = "https://reg.test:5000/v2/a/blobs/uploads/".parse().unwrap();
        for (place, expected) in [
            ("http://reg.test:5000/v2/a/blobs/uploads/1?x=y", "https://reg.test:5000/v2/a/blobs/uploads/1?x=y"),
            ("https://reg.test:5000/u", "https://reg.test:5000/u"),
            // A request to this one is refused.
            ("http://reg.test:5001/u", "http://reg.test:5001/u"),
        ] {
            assert_eq!(keep_tls(&requested, &place.parse().unwrap()), expected);
        }
    }
}
