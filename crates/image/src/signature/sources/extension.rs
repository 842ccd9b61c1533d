//! Signatures from registries that store them and announce `X-Registry-Supports-Signatures`.

use crate::signature::AttachedSignature;
use http::StatusCode;
use serde::Deserialize;

use super::{Collected, MAX_TOTAL_BYTES};
use crate::client::Inner;
use crate::registry::{Call, RegistrySource, response_error};
use crate::{Digest, Error, ErrorKind};

#[derive(Deserialize)]
struct List {
    signatures: Vec<SignatureEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignatureEntry {
    schema_version: u64,
    #[serde(rename = "type")]
    kind: String,
    content: String,
}

impl Inner {
    pub(crate) async fn read_extension(
        &self,
        source: &RegistrySource,
        digest: &Digest,
        found: &mut Collected,
    ) -> Result<(), Error> {
        let base = self.registry.endpoint(source).await?.base;
        let address = format!("{base}/extensions/v2/{}/signatures/{digest}", source.reference.repository());
        found.searched.push(address.clone());
        let mut response = self.registry.request(source, &Call::get(&address)).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(()),
            _ => return Err(response_error(response).await),
        }
        // Base64 adds a third.
        let content = response.read_all(2 * MAX_TOTAL_BYTES).await.map_err(|failure| failure.into_error(1))?;
        let to_error = |text: String| Error::new(ErrorKind::Unsupported, format!("{address}: {text}"));
        let list: List = serde_json::from_slice(&content).map_err(|error| to_error(error.to_string()))?;
        for entry in list.signatures {
            if (entry.schema_version, entry.kind.as_str()) != (2, "atomic") {
                continue;
            }
            let content = base64_simd::STANDARD
                .decode_to_vec(entry.content.as_bytes())
                .map_err(|_| to_error("a signature is not base64".into()))?;
            found.add(AttachedSignature::Simple(content))?;
        }
        Ok(())
    }
}
