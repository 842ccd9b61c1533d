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
        let uri: Uri = address
            .parse()
            .ok()
            .filter(|uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some())
            .ok_or_else(|| Error::new(ErrorKind::Reference, "not an address of a web server"))?;
        if self.options().offline {
            return Err(Error::new(ErrorKind::Offline, "the network may not be used"));
        }
        let inner = self.inner();
        let trust = if self.options().skip_tls_verify { Trust::Anyone } else { Trust::Verified };
        self.block_on(async move {
            let http = &inner.registry.http;
            let mut tries = 1;
            loop {
                let ask =
                    Ask { method: Method::GET, uri: uri.clone(), headers: HeaderMap::new(), body: Body::Empty, trust };
                let whole = match http.ask(ask).await {
                    Ok(answer) if answer.status() != StatusCode::OK => {
                        return Err(Error::new(ErrorKind::NotFound, format!("the server says {}", answer.status())));
                    }
                    Ok(mut answer) => answer.whole(limit).await,
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
