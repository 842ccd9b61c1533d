//! Reads secrets.

use crate::{Cluster, Error, ResourceKind};

impl Cluster {
    /// Returns the text of a key of a secret.
    ///
    /// # Errors
    /// Fails when the secret cannot be read or lacks the key.
    pub async fn secret(&self, namespace: &str, name: &str, key: &str) -> Result<String, Error> {
        let what = format!("reading secret {namespace}/{name}");
        let secret = self.objects_in(ResourceKind::SECRET, namespace).get(name).await.map_err(Error::api(&what))?;
        let encoded = secret.data.pointer(&format!("/data/{key}")).and_then(|value| value.as_str());
        let bytes = encoded.and_then(|text| fbc::base64::decode(text).ok());
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| Error::Failed(format!("{what}: no text under the key {key:?}")))
    }
}
