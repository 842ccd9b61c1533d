//! Signature storages: files on a web server or in a directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::signature::AttachedSignature;
use http::{StatusCode, Uri};

use super::{Collected, MAX_SIGNATURE_BYTES, MAX_SIGNATURES};
use crate::client::Inner;
use crate::http::{HttpRequest, TlsTrust};
use crate::{Digest, Error, ErrorKind, Reference};

/// Maximum number of attempts when a server is unavailable.
const ATTEMPTS: usize = 3;

impl Inner {
    /// Reads `signature-1`, `signature-2` and so on, up to the first missing one.
    pub(crate) async fn read_lookaside(
        &self,
        base: &str,
        reference: &Reference,
        digest: &Digest,
        found: &mut Collected,
    ) -> Result<(), Error> {
        let place = format!("{}/{}@sha256={}", base.trim_end_matches('/'), reference.repository(), digest.hex());
        found.searched.push(place.clone());
        for number in 1..=MAX_SIGNATURES + 1 {
            let address = format!("{place}/signature-{number}");
            let Some(content) = self.read_signature(&address).await.map_err(|error| error.context(&address))? else {
                return Ok(());
            };
            let signature = AttachedSignature::from_file(&content)
                .map_err(|error| Error::new(ErrorKind::Unsupported, format!("{address}: {error}")))?;
            found.add(signature)?;
        }
        Ok(())
    }

    async fn read_signature(&self, address: &str) -> Result<Option<Vec<u8>>, Error> {
        if let Some(path) = address.strip_prefix("file://") {
            return read_file(Path::new(path)).map_err(|error| Error::file("reading a signature", &error));
        }
        let uri: Uri = crate::download::web_address(address)?;
        let trust = if self.options.skip_tls_verify { TlsTrust::Any } else { TlsTrust::Verified };
        let http = &self.registry.http;
        let mut tries = 1;
        loop {
            let whole = match http.send(HttpRequest::get(uri.clone(), trust)).await {
                Ok(mut response) => {
                    response.read_all(MAX_SIGNATURE_BYTES).await.map(|whole| (response.status(), whole))
                }
                Err(failure) => Err(failure),
            };
            match whole {
                Ok((StatusCode::OK, whole)) => return Ok(Some(whole)),
                Ok((StatusCode::NOT_FOUND, _)) => return Ok(None),
                Ok((status, _)) => {
                    return Err(Error::new(ErrorKind::Network, format!("the server returned {status}")));
                }
                Err(failure) if failure.is_transient() && tries < ATTEMPTS => tries += 1,
                Err(failure) => return Err(failure.into_error(http.root_count())),
            }
        }
    }
}

fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Check first: opening a FIFO would block forever.
    match path.metadata() {
        Ok(about) if !about.is_file() => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut content = Vec::new();
    File::open(path)?.take(MAX_SIGNATURE_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_SIGNATURE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("larger than {MAX_SIGNATURE_BYTES} bytes")));
    }
    Ok(Some(content))
}
