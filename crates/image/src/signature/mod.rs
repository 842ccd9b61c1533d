//! Signatures of images: the requirements of a policy, and their verification.
//!
//! Everything is a value: a policy, an image by name and digest, its signatures, the time. The caller passes a
//! function that reads the key files of a policy, so judging touches neither files nor the network. It accepts
//! what the containers tools accept, as described in containers-policy.json(5). `sources` collects the signatures.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod attached;
pub(crate) mod certificate;
mod claim;
mod der;
mod error;
mod identity;
mod judge;
mod key;
mod name;
mod openpgp;
mod pem;
mod policy;
mod rekor;
mod sigstore;
mod simple;
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "signatures come from registries and files")]
pub(crate) mod sources;
mod strict;

pub use attached::{
    AttachedError, AttachedSignature, BUNDLE_ANNOTATION, CERTIFICATE_ANNOTATION, CHAIN_ANNOTATION,
    SIGNATURE_ANNOTATION, SIGSTORE_MEDIA_TYPE, Sigstore,
};
pub use identity::Identity;
pub use judge::{Judgement, ReadKeys, SignatureResult, Subject};
pub use name::{Name, NameError};
pub use policy::{
    Applied, Material, PolicyError, PolicyRequirement, SignaturePolicy, SignedBy, SigstoreSigned, TrustedSigners,
};
