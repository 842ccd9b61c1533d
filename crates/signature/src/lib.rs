//! Signatures of images: the requirements of a policy, and their verification.
//!
//! Everything is a value: a policy, an image by name and digest, its signatures, the time. The caller passes a
//! function that reads the key files of a policy, so this crate touches neither files nor the network. It accepts
//! what the containers tools accept, as described in containers-policy.json(5).

mod attached;
#[cfg(feature = "verify")]
mod certificate;
#[cfg(feature = "verify")]
mod claim;
#[cfg(feature = "verify")]
mod der;
mod identity;
mod judge;
#[cfg(feature = "verify")]
mod key;
mod name;
#[cfg(feature = "verify")]
mod openpgp;
#[cfg(feature = "verify")]
mod pem;
mod policy;
#[cfg(feature = "verify")]
mod rekor;
#[cfg(feature = "verify")]
mod sigstore;
#[cfg(feature = "verify")]
mod simple;
mod strict;

pub use attached::{
    Attached, BUNDLE_ANNOTATION, CERTIFICATE_ANNOTATION, CHAIN_ANNOTATION, SIGNATURE_ANNOTATION, SIGSTORE_MEDIA_TYPE,
    Sigstore,
};
pub use identity::Identity;
pub use judge::{Finding, Judgement, ReadKeys, Subject};
pub use name::Name;
pub use policy::{Applied, Material, Policy, PolicyError, Requirement, SignedBy, SigstoreSigned, Trust};
