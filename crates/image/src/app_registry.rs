//! Application registries, which kept operators before there were images of them.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::download::web_address;
use crate::http::{Authorization, Origin, encode};
use crate::{Client, Digest, Error, ErrorKind};

/// How large a description may be.
const DESCRIPTION: u64 = 32 << 20;
/// How large an archive may be; those of operators have some megabytes.
const ARCHIVE: u64 = 256 << 20;

/// An application registry.
pub struct AppRegistry {
    client: Client,
    /// The address in front of `/api/v1`.
    base: String,
    token: Option<Authorization>,
}

/// A repository of an application registry: an operator, in all its releases.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Repository {
    /// Its name, with the namespace in front: `namespace/name`.
    pub name: String,
    /// The release that is meant if none is named.
    #[serde(default)]
    pub default: String,
    /// All of its releases.
    #[serde(default)]
    pub releases: Vec<String>,
}

/// A release, as far as it is of interest.
#[derive(Deserialize)]
struct Release {
    content: Content,
}

#[derive(Deserialize)]
struct Content {
    /// Hexadecimal digits, without an algorithm.
    digest: String,
}

/// What servers say when they do not give what was asked for; some wrap it.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal {
    message: String,
    error: Option<Box<Refusal>>,
}

impl AppRegistry {
    /// Makes a client of the registry at `base`, such as `https://quay.io/cnr`. A token is sent as it is.
    ///
    /// # Errors
    /// Fails when the address is none, or the token cannot be sent.
    pub fn new(client: &Client, base: &str, token: Option<&str>) -> Result<AppRegistry, Error> {
        let base = base.trim_end_matches('/').to_owned();
        let origin = Origin::of(&web_address(&base)?);
        let token = token.map(|token| HeaderValue::from_str(token.trim())).transpose();
        let token =
            token.map_err(|_| Error::new(ErrorKind::Unauthorized, "the token holds characters that cannot be sent"))?;
        let token = origin.zip(token).map(|(origin, token)| Authorization::new(origin, token));
        Ok(AppRegistry { client: client.clone(), base, token })
    }

    /// Lists the repositories of a namespace.
    ///
    /// # Errors
    /// Fails when the server does not answer that.
    pub fn repositories(&self, namespace: &str) -> Result<Vec<Repository>, Error> {
        self.described(&format!("?namespace={}&media_type=helm", encode(namespace).replace('/', "%2F")))
    }

    /// Fetches the archive of a release: tar, compressed.
    ///
    /// # Errors
    /// Fails when the name is none, there is no such release, or what comes is something else than was announced.
    pub fn archive(&self, name: &str, release: &str) -> Result<Vec<u8>, Error> {
        if name.split('/').count() != 2 || [name, release].iter().any(|text| text.split('/').any(|part| !is_name(part)))
        {
            let text = "package name should be specified in this format {namespace}/{repository}";
            return Err(Error::new(ErrorKind::Reference, text));
        }
        let release: Release = self.described(&format!("/{name}/{release}/helm"))?;
        let digest = format!("sha256:{}", release.content.digest).parse::<Digest>();
        let digest = digest.map_err(|error| Error::new(ErrorKind::Digest, error.to_string()))?;
        let path = format!("/{name}/blobs/sha256/{}", digest.hex());
        let archive = self.get(&path, "application/x-gzip", ARCHIVE)?;
        match Digest::of(&archive) {
            found if found == digest => Ok(archive),
            found => Err(Error::new(ErrorKind::Digest, format!("{name}: the content is {found}, not {digest}"))),
        }
    }

    fn described<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let text = self.get(path, "application/json", DESCRIPTION)?;
        serde_json::from_slice(&text).map_err(|error| {
            Error::new(ErrorKind::Network, format!("the server's answer is not as expected: {error}"))
                .hint("the address ends in the prefix of the application registry, such as https://quay.io/cnr")
        })
    }

    fn get(&self, path: &str, accept: &'static str, limit: u64) -> Result<Vec<u8>, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let uri = web_address(&format!("{}/api/v1/packages{path}", self.base))?;
        let answer = self.client.fetch(&uri, &headers, self.token.clone(), limit);
        let (status, body) = answer.map_err(|error| error.context(&self.base))?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
        let message = refusal.error.map_or(refusal.message, |inner| inner.message);
        let kind = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorKind::Unauthorized,
            StatusCode::NOT_FOUND => ErrorKind::NotFound,
            _ => ErrorKind::Network,
        };
        let text = format!("{}: the server says {status}", self.base);
        Err(Error::new(kind, if message.is_empty() { text } else { format!("{text}: {message}") }))
    }
}

/// Returns whether a text can be a part of an address as it is.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !matches!(text, "." | "..")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._+~".contains(&byte))
}
