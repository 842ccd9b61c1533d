//! Signatures of images: where they are, and whether they are what the policy asks for.

mod attachments;
mod extension;
mod lookaside;
mod registries_d;

use ::signature::{Attached, Requirement};
use serde::{Deserialize, Serialize};

pub(crate) use registries_d::RegistriesD;

use crate::client::Inner;
use crate::layout;
use crate::manifest::Descriptor;
use crate::registry::Source;
use crate::{Digest, Error, ErrorKind};

/// How many signatures of an image are read. Whoever makes more wants to keep us busy.
pub(crate) const MOST: usize = 128;
/// The largest signature, in bytes.
pub(crate) const LARGEST: u64 = 1 << 20;
/// How large all signatures of an image may be together, in bytes.
pub(crate) const LARGEST_TOGETHER: u64 = 8 << 20;

/// What signatures are kept as.
const KEPT: &str = "application/vnd.opm.signatures.v1+json";

/// Signatures of an image, and where they were searched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected {
    pub(crate) signatures: Vec<Attached>,
    /// Places, in the user's words.
    pub(crate) searched: Vec<String>,
    /// What may explain that there are none.
    pub(crate) notes: Vec<String>,
}

impl Collected {
    /// Adds a signature, unless it is one too many or too much.
    fn add(&mut self, signature: Attached) -> Result<(), Error> {
        self.signatures.push(signature);
        let size = |one: &Attached| match one {
            Attached::Simple(message) => message.len() as u64,
            Attached::Sigstore(it) => it.payload.len() as u64,
        };
        let together: u64 = self.signatures.iter().map(size).sum();
        if self.signatures.len() > MOST || together > LARGEST_TOGETHER {
            let text = format!("more than {MOST} signatures, or more than {LARGEST_TOGETHER} bytes of them");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct CachedSignatures {
    /// Each as a file of a signature storage, in base64.
    signatures: Vec<String>,
}

impl Inner {
    /// Brings the signatures of a manifest that `requirements` could accept.
    pub(crate) async fn collect(
        &self,
        source: &Source,
        digest: &Digest,
        requirements: &[Requirement],
    ) -> Result<Collected, Error> {
        let settings = RegistriesD::load(&self.options.environment)?;
        let mut found = Collected::default();
        let reading = |error: Error| error.context(format!("reading the signatures of {digest}"));
        if requirements.iter().any(|it| matches!(it, Requirement::SignedBy(_))) {
            if self.registry.endpoint(source).await?.has_signatures {
                self.read_extension(source, digest, &mut found).await.map_err(reading)?;
            } else {
                let base = settings.lookaside(&source.reference, &self.options.environment);
                self.read_lookaside(&base, &source.reference, digest, &mut found).await.map_err(reading)?;
            }
        }
        if requirements.iter().any(|it| matches!(it, Requirement::SigstoreSigned(_))) {
            if settings.use_attachments(&source.reference) {
                self.read_attachments(source, digest, &mut found).await.map_err(reading)?;
            } else {
                let text = format!(
                    "sigstore signatures of {} are not looked up: set use-sigstore-attachments in registries.d",
                    source.reference.name()
                );
                found.notes.push(text);
            }
        }
        Ok(found)
    }

    /// Keeps signatures beside an image, so that it can be checked again without the network.
    pub(crate) fn keep_signatures(&self, digest: &Digest, signatures: &[Attached]) -> Result<(), Error> {
        let encode = |one: &Attached| base64_simd::STANDARD.encode_to_string(one.to_file());
        let kept = CachedSignatures { signatures: signatures.iter().map(encode).collect() };
        let content = serde_json::to_vec(&kept).unwrap_or_default();
        let store = &self.options.store;
        let wrong = |error: std::io::Error| Error::file("storing signatures", &error);
        let stored = store.put(&content).map_err(wrong)?;
        let descriptor = Descriptor::new(KEPT, stored, content.len() as u64);
        layout::set_name(store, &kept_name(digest), &descriptor).map_err(wrong)
    }

    /// Returns the signatures that are kept beside an image; what cannot be read is not there.
    pub(crate) fn kept_signatures(&self, digest: &Digest) -> Vec<Attached> {
        let store = &self.options.store;
        let Ok(Some(descriptor)) = layout::named(store, &kept_name(digest)) else { return Vec::new() };
        let content = store.read(&descriptor.digest, 2 * LARGEST_TOGETHER).unwrap_or_default();
        let Ok(kept) = serde_json::from_slice::<CachedSignatures>(&content) else { return Vec::new() };
        let decode = |text: &String| {
            let content = base64_simd::STANDARD.decode_to_vec(text.as_bytes()).ok()?;
            Attached::from_file(&content).ok()
        };
        kept.signatures.iter().take(MOST).filter_map(decode).collect()
    }
}

/// Returns what the signatures of a manifest are called in the store.
fn kept_name(digest: &Digest) -> String {
    format!("signatures of {digest}")
}
