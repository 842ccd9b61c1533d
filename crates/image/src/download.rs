//! Files that are no images, from web servers.

use http::{HeaderMap, StatusCode, Uri};

use crate::http::{Ask, Authorization, Trust};
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
        match self.fetch(&web_address(address)?, &HeaderMap::new(), None, limit)? {
            (StatusCode::OK, whole) => Ok(whole),
            (status, _) => Err(Error::new(ErrorKind::NotFound, format!("the server says {status}"))),
        }
    }

    /// Fetches what is at an address.
    pub(crate) fn fetch(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        authorization: Option<Authorization>,
        limit: u64,
    ) -> Result<(StatusCode, Vec<u8>), Error> {
        if self.options().offline {
            return Err(Error::new(ErrorKind::Offline, "the network may not be used"));
        }
        let inner = self.inner();
        let trust = if self.options().skip_tls_verify { Trust::Anyone } else { Trust::Verified };
        let ask = Ask { headers: headers.clone(), authorization, ..Ask::get(uri.clone(), trust) };
        self.block_on(async move {
            let http = &inner.registry.http;
            let mut tries = 1;
            loop {
                let whole = match http.ask(ask.clone()).await {
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
