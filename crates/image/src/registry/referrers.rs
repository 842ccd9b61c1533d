//! Referrers of an image: signatures, attestations, SBOMs.

use http::StatusCode;
use http::header::LINK;

use super::client::{Call, Registry};
use super::endpoint::RegistrySource;
use super::manifest::{MANIFEST_LIMIT, ManifestDocument};
use super::refusal::response_error;
use crate::http::join;
use crate::manifest::{Descriptor, ImageIndex, media_type};
use crate::pull::parse;
use crate::{Digest, Error, ErrorKind};

/// Maximum number of pages of referrers.
const MAX_PAGES: usize = 100;

/// The tag suffixes that cosign uses.
pub(crate) const COSIGN: [&str; 3] = ["sig", "att", "sbom"];

/// Returns the tag that lists the referrers of a digest in registries without the referrers API.
pub(crate) fn fallback_tag(digest: &Digest) -> String {
    format!("sha256-{}", digest.hex())
}

impl Registry {
    /// Lists the referrers of a digest, by the API or the fallback tag.
    pub(crate) async fn referrers(&self, source: &RegistrySource, digest: &Digest) -> Result<Vec<Descriptor>, Error> {
        let mut found = Vec::new();
        let mut path = format!("referrers/{digest}");
        for page in 0..MAX_PAGES {
            let mut response = match self.request(source, &Call::get(&path)).await {
                Ok(response) => response,
                // Some registries deny access to referrers that do not exist.
                Err(error) if page == 0 && error.kind() == ErrorKind::Unauthorized => {
                    return self.fallback(source, digest).await;
                }
                Err(error) => return Err(error),
            };
            match response.status() {
                StatusCode::OK => {}
                // Registries without the API respond in several ways.
                status if page == 0 && status.is_client_error() => return self.fallback(source, digest).await,
                _ => return Err(response_error(response).await),
            }
            let next = response.header(LINK).and_then(next_page).and_then(|link| join(response.uri(), link));
            let content = response.read_all(MANIFEST_LIMIT).await.map_err(|failure| failure.into_error(1))?;
            let Ok(index) = parse::<ImageIndex>(&content, "list of referrers") else {
                // Some return an HTML page.
                return self.fallback(source, digest).await;
            };
            found.extend(index.manifests);
            match next {
                Some(next) => path = next.to_string(),
                None => return Ok(found),
            }
        }
        Err(Error::new(ErrorKind::Limit, format!("more than {MAX_PAGES} pages of referrers")))
    }

    async fn fallback(&self, source: &RegistrySource, digest: &Digest) -> Result<Vec<Descriptor>, Error> {
        match self.tagged(source, &fallback_tag(digest)).await {
            Ok(Some(document)) if document.is_index() => Ok(parse::<ImageIndex>(&document.content, "index")?.manifests),
            // Some registries deny access to tags that do not exist.
            Err(error) if error.kind() != ErrorKind::Unauthorized => Err(error),
            _ => Ok(Vec::new()),
        }
    }

    /// Fetches the manifest with a tag, if it exists.
    pub(crate) async fn tagged(&self, source: &RegistrySource, tag: &str) -> Result<Option<ManifestDocument>, Error> {
        match self.manifest(source, tag).await {
            Ok(document) => Ok(Some(document)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds a referrer of `subject` to the fallback tag, for a registry without the referrers API.
    pub(crate) async fn list_referrer(
        &self,
        target: &RegistrySource,
        subject: &Digest,
        referrer: &Descriptor,
    ) -> Result<(), Error> {
        let tag = fallback_tag(subject);
        let mut index = match self.tagged(target, &tag).await? {
            Some(document) if document.is_index() => parse(&document.content, "index")?,
            _ => crate::layout::empty_index(),
        };
        if index.manifests.iter().any(|known| known.digest == referrer.digest) {
            return Ok(());
        }
        index.media_type = Some(media_type::OCI_INDEX.into());
        index.manifests.push(referrer.clone());
        let content =
            serde_json::to_vec(&index).map_err(|error| Error::new(ErrorKind::Unsupported, error.to_string()))?;
        let document = ManifestDocument::new(content, Some(media_type::OCI_INDEX))?;
        self.put_manifest(target, &document, &tag).await.map(|_| ())
    }
}

/// Parses `<url>; rel="next"`.
pub(super) fn next_page(link: &str) -> Option<&str> {
    let (address, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    (rest.contains("next")).then_some(address)
}
