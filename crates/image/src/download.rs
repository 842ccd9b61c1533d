//! Downloads other files than images from web servers.

use http::{HeaderMap, StatusCode, Uri};

use crate::http::{Authorization, HttpRequest, TlsTrust};
use crate::{Client, Error, ErrorKind};

/// Maximum number of attempts when a server is unavailable.
const ATTEMPTS: usize = 3;

impl Client {
    /// Downloads at most `limit` bytes from an `http://` or `https://` URL.
    ///
    /// Uses the proxies, certificates and timeouts of registry requests. Sends no credentials.
    ///
    /// # Errors
    /// Fails when the request fails, the content is larger than `limit`, or the client is offline.
    pub fn download(&self, address: &str, limit: u64) -> Result<Vec<u8>, Error> {
        match self.fetch(&web_address(address)?, &HeaderMap::new(), None, limit)? {
            (StatusCode::OK, whole) => Ok(whole),
            (status, _) => Err(Error::new(ErrorKind::NotFound, format!("the server returned {status}"))),
        }
    }

    /// Sends a GET request and returns the status and the body.
    pub(crate) fn fetch(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        authorization: Option<Authorization>,
        limit: u64,
    ) -> Result<(StatusCode, Vec<u8>), Error> {
        if self.options().offline {
            return Err(Error::new(ErrorKind::Offline, "network access is disabled"));
        }
        let inner = self.inner();
        let trust = if self.options().skip_tls_verify { TlsTrust::Any } else { TlsTrust::Verified };
        let request = HttpRequest { headers: headers.clone(), authorization, ..HttpRequest::get(uri.clone(), trust) };
        self.block_on(async move {
            let http = &inner.registry.http;
            let mut tries = 1;
            loop {
                let whole = match http.send(request.clone()).await {
                    Ok(mut response) => response.read_all(limit).await.map(|whole| (response.status(), whole)),
                    Err(failure) => Err(failure),
                };
                match whole {
                    Ok(whole) => return Ok(whole),
                    Err(failure) if failure.is_transient() && tries < ATTEMPTS => tries += 1,
                    Err(failure) => return Err(failure.into_error(http.root_count())),
                }
            }
        })
    }
}

/// Parses an `http` or `https` URL.
pub(crate) fn web_address(text: &str) -> Result<Uri, Error> {
    text.parse()
        .ok()
        .filter(|uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some())
        .ok_or_else(|| Error::new(ErrorKind::Reference, "not an http:// or https:// URL"))
}
