//! Fetches manifests and indexes.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use serde::Deserialize;

use super::client::{Call, Registry};
use super::endpoint::RegistrySource;
use super::refusal::ErrorResponse;
use crate::manifest::media_type;
use crate::{Digest, Error, ErrorKind};

/// Maximum size of a manifest or an index, as in registries.
pub const MANIFEST_LIMIT: u64 = 4 << 20;

/// A manifest or an index, with its original bytes.
#[derive(Debug, Clone)]
pub(crate) struct ManifestDocument {
    pub(crate) content: Vec<u8>,
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
}

impl ManifestDocument {
    /// Detects the type: the stated media type, or else by content.
    pub(crate) fn new(content: Vec<u8>, stated: Option<&str>) -> Result<ManifestDocument, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Probe {
            #[serde(default)]
            schema_version: u32,
            #[serde(default)]
            media_type: Option<String>,
            #[serde(default)]
            manifests: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            fs_layers: Option<serde::de::IgnoredAny>,
        }
        let looks: Probe = serde_json::from_slice(&content)
            .map_err(|error| Error::new(ErrorKind::Unsupported, format!("the manifest is not valid JSON: {error}")))?;
        let digest = Digest::of(&content);
        let known = |name: &str| MEDIA_TYPES.contains(&name);
        let stated = stated.map(|name| name.split(';').next().unwrap_or(name).trim().to_owned());
        let media_type = match stated.filter(|name| known(name)).or(looks.media_type.filter(|name| known(name))) {
            Some(name) => name,
            None if looks.schema_version == 1 || looks.fs_layers.is_some() => media_type::DOCKER_SCHEMA_1.into(),
            None if looks.manifests.is_some() => media_type::OCI_INDEX.into(),
            None => media_type::OCI_MANIFEST.into(),
        };
        if media_type == media_type::DOCKER_SCHEMA_1 || media_type == media_type::DOCKER_SCHEMA_1_SIGNED {
            let text = "specified image is a docker schema v1 manifest, which is not supported";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        Ok(ManifestDocument { content, media_type, digest })
    }

    pub(crate) fn is_index(&self) -> bool {
        self.media_type == media_type::OCI_INDEX || self.media_type == media_type::DOCKER_LIST
    }
}

const MEDIA_TYPES: [&str; 6] = [
    media_type::OCI_MANIFEST,
    media_type::OCI_INDEX,
    media_type::DOCKER_MANIFEST,
    media_type::DOCKER_LIST,
    media_type::DOCKER_SCHEMA_1,
    media_type::DOCKER_SCHEMA_1_SIGNED,
];

impl Registry {
    /// Fetches a manifest or an index by tag or digest, and verifies a digest.
    pub(crate) async fn manifest(&self, source: &RegistrySource, version: &str) -> Result<ManifestDocument, Error> {
        let reading = || format!("reading manifest {version} in {}", source.reference.name());
        // Without a response, the failure is not about the manifest.
        self.endpoint(source).await?;
        self.read_manifest(source, version).await.map_err(|error| error.context(reading()).at(source.reference.host()))
    }

    async fn read_manifest(&self, source: &RegistrySource, version: &str) -> Result<ManifestDocument, Error> {
        let expected: Option<Digest> = version.parse().ok();
        let mut tries = 0;
        loop {
            let path = format!("manifests/{version}");
            let mut call = Call::get(&path);
            call.headers = accept();
            let mut response = self.request(source, &call).await?;
            if response.status() != StatusCode::OK {
                let error_response = ErrorResponse::read(response).await;
                let unknown = error_response.status() == StatusCode::NOT_FOUND && error_response.has_no_message();
                return Err(if unknown {
                    Error::new(ErrorKind::NotFound, "manifest unknown")
                } else {
                    error_response.into()
                });
            }
            let content = match response.read_all(MANIFEST_LIMIT).await {
                Ok(content) => content,
                Err(failure) if failure.is_transient() && tries < self.settings.retries.count => {
                    self.wait(&source.reference.to_string(), &failure.to_string(), tries, None).await?;
                    tries += 1;
                    continue;
                }
                Err(failure) => return Err(failure.into_error(1)),
            };
            if let Some(expected) = expected
                && Digest::of(&content) != expected
            {
                let text = format!("manifest does not match provided manifest digest {expected}");
                return Err(Error::new(ErrorKind::Digest, text));
            }
            return ManifestDocument::new(content, response.header(CONTENT_TYPE));
        }
    }

    /// Resolves a tag to its digest, without fetching the manifest if possible.
    pub(crate) async fn manifest_digest(&self, source: &RegistrySource, version: &str) -> Result<Digest, Error> {
        let path = format!("manifests/{version}");
        let mut call = Call::get(&path);
        call.method = Method::HEAD;
        call.headers = accept();
        let response = self.request(source, &call).await?;
        if response.status() == StatusCode::OK
            && let Some(digest) = response.header("docker-content-digest").and_then(|text| text.parse().ok())
        {
            return Ok(digest);
        }
        // A HEAD response has no body; a GET explains the failure.
        Ok(self.manifest(source, version).await?.digest)
    }
}

pub(super) fn accept() -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    let types = [
        media_type::DOCKER_MANIFEST,
        media_type::OCI_MANIFEST,
        media_type::DOCKER_LIST,
        media_type::OCI_INDEX,
        media_type::DOCKER_SCHEMA_1_SIGNED,
        media_type::DOCKER_SCHEMA_1,
    ];
    for name in types {
        headers.append(ACCEPT, HeaderValue::from_static(name));
    }
    headers
}
