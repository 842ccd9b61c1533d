//! Sigstore signatures in the repository of the image, under a tag derived from its digest.

use crate::signature::{AttachedSignature, SIGSTORE_MEDIA_TYPE, Sigstore};

use super::{Collected, MAX_SIGNATURE_BYTES, MAX_SIGNATURES};
use crate::client::Inner;
use crate::manifest::{Descriptor, ImageManifest, media_type};
use crate::pull::parse;
use crate::registry::{ManifestDocument, RegistrySource, fallback_tag};
use crate::{Digest, Error, ErrorKind};

impl Inner {
    pub(crate) async fn read_attachments(
        &self,
        source: &RegistrySource,
        digest: &Digest,
        found: &mut Collected,
    ) -> Result<(), Error> {
        let tag = format!("{}.sig", fallback_tag(digest));
        found.searched.push(format!("docker://{}:{tag}", source.reference.name()));
        let Some(document) = self.registry.tagged(source, &tag).await? else { return Ok(()) };
        for layer in signature_layers(&tag, &document)?.iter().filter(|layer| layer.media_type == SIGSTORE_MEDIA_TYPE) {
            self.registry.fetch(source, layer, &self.options.store).await?;
        }
        self.add_attachments(&tag, &document, found)
    }

    /// Adds the signatures of a manifest whose layers are in the store.
    pub(crate) fn add_attachments(
        &self,
        tag: &str,
        document: &ManifestDocument,
        found: &mut Collected,
    ) -> Result<(), Error> {
        for layer in signature_layers(tag, document)? {
            // Other attachments count towards the limit and are skipped.
            let payload = if layer.media_type == SIGSTORE_MEDIA_TYPE {
                let content = self.options.store.read(&layer.digest, MAX_SIGNATURE_BYTES);
                content.map_err(|error| Error::file("reading a signature", &error))?
            } else {
                Vec::new()
            };
            let annotations = layer.annotations.into_iter().collect();
            found.add(AttachedSignature::Sigstore(Sigstore { media_type: layer.media_type, payload, annotations }))?;
        }
        Ok(())
    }
}

/// Returns the layers of a manifest with signatures, within the limits.
fn signature_layers(tag: &str, document: &ManifestDocument) -> Result<Vec<Descriptor>, Error> {
    if document.media_type != media_type::OCI_MANIFEST {
        let text = format!("{tag} is a {}, not a manifest with signatures", document.media_type);
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    let manifest: ImageManifest = parse(&document.content, "manifest")?;
    let limit = |text: String| Err(Error::new(ErrorKind::Limit, format!("{tag}: {text}")));
    if manifest.layers.len() > MAX_SIGNATURES {
        return limit(format!("more than {MAX_SIGNATURES} signatures"));
    }
    if let Some(large) =
        manifest.layers.iter().find(|it| it.media_type == SIGSTORE_MEDIA_TYPE && it.size > MAX_SIGNATURE_BYTES)
    {
        return limit(format!("a signature of {} bytes, the maximum is {MAX_SIGNATURE_BYTES}", large.size));
    }
    Ok(manifest.layers)
}
