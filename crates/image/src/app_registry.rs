//! Application registries: they stored operators before operators shipped as images.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::download::web_address;
use crate::http::{Authorization, HttpOrigin, encode};
use crate::{Client, Digest, Error, ErrorKind};

/// Maximum size of a JSON response.
const MAX_JSON: u64 = 32 << 20;
/// Maximum size of an archive. Operator archives have a few megabytes.
const MAX_ARCHIVE: u64 = 256 << 20;

/// An application registry.
pub struct AppRegistry {
    client: Client,
    /// The base URL, without `/api/v1`.
    base: String,
    token: Option<Authorization>,
}

/// A repository of an application registry: one operator with all its releases.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Repository {
    /// The name with its namespace: `namespace/name`.
    pub name: String,
    /// The default release.
    #[serde(default)]
    pub default: String,
    #[serde(default)]
    pub releases: Vec<String>,
}

/// The fields of a release that opm reads.
#[derive(Deserialize)]
struct Release {
    content: ReleaseFile,
}

#[derive(Deserialize)]
struct ReleaseFile {
    /// The hex digits of a SHA-256, without the algorithm.
    digest: String,
}

/// The error body of a server; some servers nest it in `error`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorBody {
    message: String,
    error: Option<Box<ErrorBody>>,
}

impl AppRegistry {
    /// Creates a client for the registry at `base`, such as `https://quay.io/cnr`. The token is sent unchanged.
    ///
    /// # Errors
    /// Fails when `base` is not a URL or the token is not a valid header value.
    pub fn new(client: &Client, base: &str, token: Option<&str>) -> Result<AppRegistry, Error> {
        let base = base.trim_end_matches('/').to_owned();
        let origin = HttpOrigin::of(&web_address(&base)?);
        let token = token.map(|token| HeaderValue::from_str(token.trim())).transpose();
        let token = token.map_err(|_| {
            Error::new(ErrorKind::Unauthorized, "the token contains characters that HTTP headers do not allow")
        })?;
        let token = origin.zip(token).map(|(origin, token)| Authorization::new(origin, token));
        Ok(AppRegistry { client: client.clone(), base, token })
    }

    /// Lists the repositories of a namespace.
    ///
    /// # Errors
    /// Fails when the request fails or the response is not a list of repositories.
    pub fn repositories(&self, namespace: &str) -> Result<Vec<Repository>, Error> {
        self.get_json(&format!("?namespace={}&media_type=helm", encode(namespace).replace('/', "%2F")))
    }

    /// Fetches the archive of a release: a compressed tar.
    ///
    /// # Errors
    /// Fails when the name is invalid, the release does not exist, or the content does not match its digest.
    pub fn archive(&self, name: &str, release: &str) -> Result<Vec<u8>, Error> {
        if name.split('/').count() != 2
            || [name, release].iter().any(|text| text.split('/').any(|part| !is_segment(part)))
        {
            let text = "package name should be specified in this format {namespace}/{repository}";
            return Err(Error::new(ErrorKind::Reference, text));
        }
        let release: Release = self.get_json(&format!("/{name}/{release}/helm"))?;
        let digest = format!("sha256:{}", release.content.digest).parse::<Digest>();
        let digest = digest.map_err(|error| Error::new(ErrorKind::Digest, error.to_string()))?;
        let path = format!("/{name}/blobs/sha256/{}", digest.hex());
        let archive = self.get(&path, "application/x-gzip", MAX_ARCHIVE)?;
        match Digest::of(&archive) {
            found if found == digest => Ok(archive),
            found => Err(Error::new(ErrorKind::Digest, format!("{name}: the content is {found}, not {digest}"))),
        }
    }

    fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let text = self.get(path, "application/json", MAX_JSON)?;
        serde_json::from_slice(&text).map_err(|error| {
            Error::new(ErrorKind::Network, format!("unexpected response from the server: {error}"))
                .hint("the address ends in the prefix of the application registry, such as https://quay.io/cnr")
        })
    }

    fn get(&self, path: &str, accept: &'static str, limit: u64) -> Result<Vec<u8>, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let uri = web_address(&format!("{}/api/v1/packages{path}", self.base))?;
        let response = self.client.fetch(&uri, &headers, self.token.clone(), limit);
        let (status, body) = response.map_err(|error| error.context(&self.base))?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        let error_body: ErrorBody = serde_json::from_slice(&body).unwrap_or_default();
        let message = error_body.error.map_or(error_body.message, |inner| inner.message);
        let kind = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorKind::Unauthorized,
            StatusCode::NOT_FOUND => ErrorKind::NotFound,
            _ => ErrorKind::Network,
        };
        let text = format!("{}: the server returned {status}", self.base);
        Err(Error::new(kind, if message.is_empty() { text } else { format!("{text}: {message}") }))
    }
}

/// Returns whether `text` can be a URL path segment without escaping.
fn is_segment(text: &str) -> bool {
    !text.is_empty()
        && !matches!(text, "." | "..")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._+~".contains(&byte))
}
