//! What was made for an image: signatures, attestations, lists of its parts.

use http::StatusCode;
use http::header::LINK;

use super::client::{Call, Registry};
use super::endpoint::Source;
use super::manifest::{Document, MANIFEST_LIMIT};
use super::refusal::said;
use crate::http::join;
use crate::manifest::{Descriptor, Index, media_type};
use crate::pull::parse;
use crate::{Digest, Error, ErrorKind};

/// How many pages of referrers are read.
const PAGES: usize = 100;

/// What cosign puts behind the name of a digest.
pub(crate) const COSIGN: [&str; 3] = ["sig", "att", "sbom"];

/// Returns the tag under which registries without the API list what was made for a digest.
pub(crate) fn fallback_tag(digest: &Digest) -> String {
    format!("sha256-{}", digest.hex())
}

impl Registry {
    /// Lists what was made for a digest: by the API, or else by the tag that stands in for it.
    pub(crate) async fn referrers(&self, source: &Source, digest: &Digest) -> Result<Vec<Descriptor>, Error> {
        let mut found = Vec::new();
        let mut path = format!("referrers/{digest}");
        for page in 0..PAGES {
            let mut answer = match self.request(source, &Call::get(&path)).await {
                Ok(answer) => answer,
                // Some let nobody in where they have nothing.
                Err(error) if page == 0 && error.kind() == ErrorKind::Unauthorized => {
                    return self.fallback(source, digest).await;
                }
                Err(error) => return Err(error),
            };
            match answer.status() {
                StatusCode::OK => {}
                // Registries that do not have the API say so in several ways.
                status if page == 0 && status.is_client_error() => return self.fallback(source, digest).await,
                _ => return Err(said(answer).await),
            }
            let next = answer.header(LINK).and_then(next_page).and_then(|link| join(answer.uri(), link));
            let content = answer.whole(MANIFEST_LIMIT).await.map_err(|failure| failure.into_error(1))?;
            let Ok(index) = parse::<Index>(&content, "list of referrers") else {
                // Some answer with a page for people.
                return self.fallback(source, digest).await;
            };
            found.extend(index.manifests);
            match next {
                Some(next) => path = next.to_string(),
                None => return Ok(found),
            }
        }
        Err(Error::new(ErrorKind::Limit, format!("more than {PAGES} pages of referrers")))
    }

    async fn fallback(&self, source: &Source, digest: &Digest) -> Result<Vec<Descriptor>, Error> {
        match self.tagged(source, &fallback_tag(digest)).await {
            Ok(Some(document)) if document.is_index() => Ok(parse::<Index>(&document.content, "index")?.manifests),
            // Some let nobody in where they have nothing.
            Err(error) if error.kind() != ErrorKind::Unauthorized => Err(error),
            _ => Ok(Vec::new()),
        }
    }

    /// Gets what has a tag, if anything has.
    pub(crate) async fn tagged(&self, source: &Source, tag: &str) -> Result<Option<Document>, Error> {
        match self.manifest(source, tag).await {
            Ok(document) => Ok(Some(document)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds something that was made for `subject` to the tag that lists it, for a registry that
    /// has no API for that.
    pub(crate) async fn list_referrer(
        &self,
        target: &Source,
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
        let document = Document::new(content, Some(media_type::OCI_INDEX))?;
        self.put_manifest(target, &document, &tag).await.map(|_| ())
    }
}

/// Reads `<address>; rel="next"`.
pub(super) fn next_page(link: &str) -> Option<&str> {
    let (address, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    (rest.contains("next")).then_some(address)
}
