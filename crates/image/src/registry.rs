//! The registry client.

mod blob;
mod challenge;
mod client;
mod endpoint;
mod hosts;
mod manifest;
mod names;
mod push;
mod referrers;
mod refusal;
mod token;

pub use challenge::Challenge;
pub use client::Retries;

pub(crate) use blob::stored;
pub(crate) use client::Call;
pub(crate) use client::{ClientSettings, Registry};
pub(crate) use endpoint::{RegistrySource, address};
pub use manifest::MANIFEST_LIMIT;
pub(crate) use manifest::ManifestDocument;
pub(crate) use push::UploadOutcome;
pub(crate) use referrers::{COSIGN, fallback_tag};
pub(crate) use refusal::response_error;
