//! Creates, changes and compares file-based catalogs.
//!
//! [`template`] renders short descriptions to catalogs; [`diff`] selects the new part of a catalog. The other modules
//! edit existing catalogs: an [`outline`] is the editable content of a catalog; an operation ([`add_bundle`],
//! [`set_default`], [`set_edge`], [`promote`], [`deprecate`], [`remove`], [`filter`], [`merge`]) changes the outline;
//! [`changes`] compares it with the original, and [`rewrite`] applies the difference to the text of the files, leaving
//! everything else byte for byte; [`unified`] prints the difference, and [`verify`] compares the result with the
//! original. [`run_bundle`] adds bundles to a catalog for a test on a cluster. [`upgrades`] finds how clusters are
//! affected when one catalog replaces another. The crate does no I/O; callers supply bundles through callbacks.

pub mod add_bundle;
pub mod changes;
pub mod deprecate;
pub mod diff;
pub mod filter;
pub mod merge;
mod new_blob;
pub mod outline;
pub mod promote;
mod refusal;
pub mod remove;
pub mod rewrite;
pub mod run_bundle;
#[cfg(test)]
mod sample;
pub mod set_default;
pub mod set_edge;
pub mod summary;
pub mod template;
pub mod text;
pub mod unified;
pub mod upgrades;
pub mod verify;

pub use new_blob::{Attached, AttachedContent, NewBlob};
pub use outline::Outline;
pub use refusal::Refusal;
