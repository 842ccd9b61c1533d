//! Files that are no images, from web servers.

use http::{HeaderMap, Method, StatusCode, Uri};

use crate::http::{Ask, Body, Trust};
use crate::{Client, Error, ErrorKind};

/// How often a server that is away is asked.
const TRIES: usize = 3;

impl Client {
    /// Fetches what is at an address that starts with `http://` or `https://`, of at most `limit` bytes.
    ///
    /// Proxies, certificates and waiting are as for registries; credentials are sent to nobody.
    ///
    /// # Errors
    /// Fails when it cannot be had, is larger, or the network may not be used.
    pub fn download(&self, address: &str, limit: u64) -> Result<Vec<u8>, Error> {
        match self.fetch(&web_address(address)?, &HeaderMap::new(), limit)? {
            (StatusCode::OK, whole) => Ok(whole),
            (status, _) => Err(Error::new(ErrorKind::NotFound, format!("the server says {status}"))),
        }
    }

    /// Fetches what is at an address; headers that hold secrets go to nobody else, wherever the server points.
    pub(crate) fn fetch(&self, uri: &Uri, headers: &HeaderMap, limit: u64) -> Result<(StatusCode, Vec<u8>), Error> {
        if self.options().offline {
            return Err(Error::new(ErrorKind::Offline, "the network may not be used"));
        }
        let (inner, uri, headers) = (self.inner(), uri.clone(), headers.clone());
        let trust = if self.options().skip_tls_verify { Trust::Anyone } else { Trust::Verified };
        self.block_on(async move {
            let http = &inner.registry.http;
            let mut tries = 1;
            loop {
                let ask =
                    Ask { method: Method::GET, uri: uri.clone(), headers: headers.clone(), body: Body::Empty, trust };
                let whole = match http.ask(ask).await {
                    Ok(mut answer) => answer.whole(limit).await.map(|whole| (answer.status(), whole)),
                    Err(failure) => Err(failure),
                };
                match whole {
                    Ok(whole) => return Ok(whole),
                    Err(failure) if failure.is_passing() && tries < TRIES => tries += 1,
                    Err(failure) => return Err(failure.into_error(http.root_count())),
                }
            }
        })
    }
}

/// Reads an address of a web server.
pub(crate) fn web_address(text: &str) -> Result<Uri, Error> {
    text.parse()
        .ok()
        .filter(|uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some())
        .ok_or_else(|| Error::new(ErrorKind::Reference, "not an address of a web server"))
}
