//! Looks up, lists and deletes tags and manifests.

use http::header::LINK;
use http::{Method, StatusCode};
use serde::Deserialize;

use super::challenge::Actions;
use super::client::{Call, Registry};
use super::endpoint::RegistrySource;
use super::manifest::accept;
use super::referrers::next_page;
use super::refusal::response_error;
use crate::http::join;
use crate::{Digest, Error, ErrorKind};

/// Maximum number of pages of tags.
const MAX_PAGES: usize = 1000;

/// Maximum size of a page of tags.
const PAGE_LIMIT: u64 = 4 << 20;

#[derive(Deserialize)]
struct Tags {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

impl Registry {
    /// Returns the digest of a manifest by tag or digest, if it exists.
    pub(crate) async fn find_manifest(&self, target: &RegistrySource, version: &str) -> Result<Option<Digest>, Error> {
        let path = format!("manifests/{version}");
        let mut call = Call { method: Method::HEAD, actions: Actions::Push, ..Call::get(&path) };
        call.headers = accept();
        let response = self.request(target, &call).await?;
        match response.status() {
            StatusCode::OK => {
                let stated = response.header("docker-content-digest").and_then(|text| text.parse().ok());
                match stated.or_else(|| version.parse().ok()) {
                    Some(digest) => Ok(Some(digest)),
                    None => Ok(Some(self.manifest(target, version).await?.digest)),
                }
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(response_error(response).await),
        }
    }

    /// Lists the tags of a repository, none if it does not exist.
    pub(crate) async fn tags(&self, source: &RegistrySource) -> Result<Vec<String>, Error> {
        Ok(self.known_tags(source).await?.unwrap_or_default())
    }

    /// Lists the tags of a repository, if it exists.
    pub(crate) async fn known_tags(&self, source: &RegistrySource) -> Result<Option<Vec<String>>, Error> {
        let mut found = Vec::new();
        let mut path = "tags/list".to_owned();
        for _ in 0..MAX_PAGES {
            let mut response = self.request(source, &Call::get(&path)).await?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => return Ok((!found.is_empty()).then_some(found)),
                _ => return Err(response_error(response).await),
            }
            let next = response.header(LINK).and_then(next_page).and_then(|link| join(response.uri(), link));
            let content = response.read_all(PAGE_LIMIT).await.map_err(|failure| failure.into_error(1))?;
            found.extend(crate::pull::parse::<Tags>(&content, "list of tags")?.tags.unwrap_or_default());
            match next {
                Some(next) => path = next.to_string(),
                None => return Ok(Some(found)),
            }
        }
        Err(Error::new(ErrorKind::Limit, format!("more than {MAX_PAGES} pages of tags")))
    }

    /// Deletes a manifest; returns whether it existed.
    pub(crate) async fn delete_manifest(&self, target: &RegistrySource, digest: &str) -> Result<bool, Error> {
        let path = format!("manifests/{digest}");
        let call = Call { method: Method::DELETE, actions: Actions::Delete, ..Call::get(&path) };
        let response = self.request(target, &call).await?;
        match response.status() {
            StatusCode::ACCEPTED | StatusCode::OK | StatusCode::NO_CONTENT => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            StatusCode::METHOD_NOT_ALLOWED => Err(Error::new(
                ErrorKind::Forbidden,
                format!(
                    "{} does not allow deletion; enable it in the settings of the registry",
                    target.reference.host()
                ),
            )),
            _ => Err(response_error(response).await.context(format!(
                "removing {} from {}",
                digest,
                target.reference.name()
            ))),
        }
    }
}
