//! What a repository holds by name: whether something is there, all tags, and taking something away.

use http::header::LINK;
use http::{Method, StatusCode};
use serde::Deserialize;

use super::challenge::Actions;
use super::client::{Call, Registry};
use super::endpoint::Source;
use super::manifest::accept;
use super::referrers::next_page;
use super::refusal::said;
use crate::http::join;
use crate::{Digest, Error, ErrorKind};

/// How many pages of tags are read.
const PAGES: usize = 1000;

/// The largest page of tags.
const PAGE_LIMIT: u64 = 4 << 20;

#[derive(Deserialize)]
struct Tags {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

impl Registry {
    /// Returns the digest of what has a tag or a digest, if anything has.
    pub(crate) async fn known_manifest(&self, target: &Source, version: &str) -> Result<Option<Digest>, Error> {
        let path = format!("manifests/{version}");
        let mut call = Call { method: Method::HEAD, actions: Actions::Push, ..Call::get(&path) };
        call.headers = accept();
        let answer = self.request(target, &call).await?;
        match answer.status() {
            StatusCode::OK => {
                let stated = answer.header("docker-content-digest").and_then(|text| text.parse().ok());
                match stated.or_else(|| version.parse().ok()) {
                    Some(digest) => Ok(Some(digest)),
                    None => Ok(Some(self.manifest(target, version).await?.digest)),
                }
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(said(answer).await),
        }
    }

    /// Lists the tags of a repository.
    pub(crate) async fn tags(&self, source: &Source) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        let mut path = "tags/list".to_owned();
        for _ in 0..PAGES {
            let mut answer = self.request(source, &Call::get(&path)).await?;
            match answer.status() {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => return Ok(found),
                _ => return Err(said(answer).await),
            }
            let next = answer.header(LINK).and_then(next_page).and_then(|link| join(answer.uri(), link));
            let content = answer.whole(PAGE_LIMIT).await.map_err(|failure| failure.into_error(1))?;
            found.extend(crate::pull::parse::<Tags>(&content, "list of tags")?.tags.unwrap_or_default());
            match next {
                Some(next) => path = next.to_string(),
                None => return Ok(found),
            }
        }
        Err(Error::new(ErrorKind::Limit, format!("more than {PAGES} pages of tags")))
    }

    /// Removes a manifest; returns whether it was there.
    pub(crate) async fn delete_manifest(&self, target: &Source, digest: &str) -> Result<bool, Error> {
        let path = format!("manifests/{digest}");
        let call = Call { method: Method::DELETE, actions: Actions::Delete, ..Call::get(&path) };
        let answer = self.request(target, &call).await?;
        match answer.status() {
            StatusCode::ACCEPTED | StatusCode::OK | StatusCode::NO_CONTENT => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            StatusCode::METHOD_NOT_ALLOWED => Err(Error::new(
                ErrorKind::Forbidden,
                format!("{} removes nothing: its settings have to allow it", target.reference.host()),
            )),
            _ => Err(said(answer).await.context(format!("removing {} from {}", digest, target.reference.name()))),
        }
    }
}
