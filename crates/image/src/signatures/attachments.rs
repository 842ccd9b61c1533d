//! Sigstore signatures in the repository of the image, under a tag derived from its digest.

use ::signature::{Attached, SIGSTORE_MEDIA_TYPE, Sigstore};

use super::{Collected, MAX_SIGNATURE_BYTES, MAX_SIGNATURES};
use crate::client::Inner;
use crate::manifest::{Manifest, media_type};
use crate::pull::parse;
use crate::registry::{Source, fallback_tag};
use crate::{Digest, Error, ErrorKind};

impl Inner {
    pub(crate) async fn read_attachments(
        &self,
        source: &Source,
        digest: &Digest,
        found: &mut Collected,
    ) -> Result<(), Error> {
        let tag = format!("{}.sig", fallback_tag(digest));
        found.searched.push(format!("docker://{}:{tag}", source.reference.name()));
        let Some(document) = self.registry.tagged(source, &tag).await? else { return Ok(()) };
        if document.media_type != media_type::OCI_MANIFEST {
            let text = format!("{tag} is a {}, not a manifest with signatures", document.media_type);
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let manifest: Manifest = parse(&document.content, "manifest")?;
        let limit = |text: String| Err(Error::new(ErrorKind::Limit, format!("{tag}: {text}")));
        if manifest.layers.len() > MAX_SIGNATURES {
            return limit(format!("more than {MAX_SIGNATURES} signatures"));
        }
        for layer in &manifest.layers {
            let is_signature = layer.media_type == SIGSTORE_MEDIA_TYPE;
            if is_signature && layer.size > MAX_SIGNATURE_BYTES {
                return limit(format!("a signature of {} bytes, the maximum is {MAX_SIGNATURE_BYTES}", layer.size));
            }
            // Other attachments count towards the limit and are skipped.
            let payload = if is_signature {
                let store = &self.options.store;
                self.registry.fetch(source, layer, store).await?;
                store
                    .read(&layer.digest, MAX_SIGNATURE_BYTES)
                    .map_err(|error| Error::file("reading a signature", &error))?
            } else {
                Vec::new()
            };
            let annotations = layer.annotations.clone().into_iter().collect();
            found.add(Attached::Sigstore(Sigstore { media_type: layer.media_type.clone(), payload, annotations }))?;
        }
        Ok(())
    }
}
