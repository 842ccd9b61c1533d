//! Collects the signatures of images for the policy.

mod attachments;
mod extension;
mod lookaside;
mod registries_d;

use crate::signature::{AttachedSignature, PolicyRequirement};
use serde::{Deserialize, Serialize};

pub(crate) use registries_d::RegistriesD;

use crate::client::Inner;
use crate::layout;
use crate::manifest::Descriptor;
use crate::registry::RegistrySource;
use crate::{Digest, Error, ErrorKind};

/// Maximum number of signatures of an image that are read, against denial of service.
pub(crate) const MAX_SIGNATURES: usize = 128;
/// Maximum size of a signature, in bytes.
pub(crate) const MAX_SIGNATURE_BYTES: u64 = 1 << 20;
/// Maximum total size of the signatures of an image, in bytes.
pub(crate) const MAX_TOTAL_BYTES: u64 = 8 << 20;

/// The media type of cached signatures.
const CACHE_MEDIA_TYPE: &str = "application/vnd.opm.signatures.v1+json";

/// The signatures of an image and the searched places.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected {
    pub(crate) signatures: Vec<AttachedSignature>,
    /// The searched places, for messages.
    pub(crate) searched: Vec<String>,
    /// Explanations if there are none.
    pub(crate) notes: Vec<String>,
}

impl Collected {
    /// Adds a signature within the limits.
    fn add(&mut self, signature: AttachedSignature) -> Result<(), Error> {
        self.signatures.push(signature);
        let size = |one: &AttachedSignature| match one {
            AttachedSignature::Simple(message) => message.len() as u64,
            AttachedSignature::Sigstore(it) => it.payload.len() as u64,
        };
        let together: u64 = self.signatures.iter().map(size).sum();
        if self.signatures.len() > MAX_SIGNATURES || together > MAX_TOTAL_BYTES {
            let text = format!("more than {MAX_SIGNATURES} signatures, or more than {MAX_TOTAL_BYTES} bytes of them");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct CachedSignatures {
    /// Each in the format of a signature storage file, in base64.
    signatures: Vec<String>,
}

impl Inner {
    /// Collects the signatures of a manifest that `requirements` could accept.
    pub(crate) async fn collect(
        &self,
        source: &RegistrySource,
        digest: &Digest,
        requirements: &[PolicyRequirement],
    ) -> Result<Collected, Error> {
        let settings = RegistriesD::load(&self.options.environment)?;
        let mut found = Collected::default();
        let reading = |error: Error| error.context(format!("reading the signatures of {digest}"));
        if requirements.iter().any(|it| matches!(it, PolicyRequirement::SignedBy(_))) {
            if self.registry.endpoint(source).await?.has_signatures {
                self.read_extension(source, digest, &mut found).await.map_err(reading)?;
            } else {
                let base = settings.lookaside(&source.reference, &self.options.environment);
                self.read_lookaside(&base, &source.reference, digest, &mut found).await.map_err(reading)?;
            }
        }
        if requirements.iter().any(|it| matches!(it, PolicyRequirement::SigstoreSigned(_))) {
            if settings.use_attachments(&source.reference) {
                self.read_attachments(source, digest, &mut found).await.map_err(reading)?;
            } else {
                let text = format!(
                    "opm does not look up sigstore signatures of {}: set use-sigstore-attachments in registries.d",
                    source.reference.name()
                );
                found.notes.push(text);
            }
        }
        Ok(found)
    }

    /// Caches signatures with the image, so that it can be verified again offline.
    pub(crate) fn cache_signatures(&self, digest: &Digest, signatures: &[AttachedSignature]) -> Result<(), Error> {
        let encode = |one: &AttachedSignature| base64_simd::STANDARD.encode_to_string(one.to_file());
        let kept = CachedSignatures { signatures: signatures.iter().map(encode).collect() };
        let content = serde_json::to_vec(&kept).unwrap_or_default();
        let store = &self.options.store;
        let to_error = |error: std::io::Error| Error::file("storing signatures", &error);
        let stored = store.put(&content).map_err(to_error)?;
        let descriptor = Descriptor::new(CACHE_MEDIA_TYPE, stored, content.len() as u64);
        layout::set_name(store, &cache_name(digest), &descriptor).map_err(to_error)
    }

    /// Returns the cached signatures of an image; unreadable ones count as absent.
    pub(crate) fn cached_signatures(&self, digest: &Digest) -> Vec<AttachedSignature> {
        let store = &self.options.store;
        let Ok(Some(descriptor)) = layout::named(store, &cache_name(digest)) else { return Vec::new() };
        let content = store.read(&descriptor.digest, 2 * MAX_TOTAL_BYTES).unwrap_or_default();
        let Ok(kept) = serde_json::from_slice::<CachedSignatures>(&content) else { return Vec::new() };
        let decode = |text: &String| {
            let content = base64_simd::STANDARD.decode_to_vec(text.as_bytes()).ok()?;
            AttachedSignature::from_file(&content).ok()
        };
        kept.signatures.iter().take(MAX_SIGNATURES).filter_map(decode).collect()
    }
}

/// Returns the cache key of the signatures of a manifest.
fn cache_name(digest: &Digest) -> String {
    format!("signatures of {digest}")
}
