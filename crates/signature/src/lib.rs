//! Signatures of images: what a policy asks for, and whether given bytes fulfil it.
//!
//! Everything is a value: a policy, an image by name and digest, its signatures, the time. Keys that a policy
//! names by path are read by a function that the caller gives, so that nothing here touches files or the network.
//! What is accepted is what the containers tools accept, as described in containers-policy.json(5).

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
