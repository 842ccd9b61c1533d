//! Talking to registries.

mod blob;
mod challenge;
mod client;
mod endpoint;
mod manifest;
mod push;

pub use client::Retries;

pub(crate) use blob::is_here;
pub(crate) use client::{Registry, Settings};
pub(crate) use endpoint::Source;
pub(crate) use manifest::{Document, MANIFEST_LIMIT};
pub(crate) use push::Way;
