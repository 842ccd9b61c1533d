//! Creates, changes and compares file-based catalogs.
//!
//! [`NewPackage`] is the first blob of a package. [`template`] renders short descriptions to catalogs; [`diff`] selects the new part of a catalog. The other modules
//! edit existing catalogs: an [`outline`] is the editable content of a catalog; an operation ([`add_bundle`],
//! [`set_default`], [`set_edge`], [`promote`], [`deprecate`], [`remove`], [`filter`], [`merge`]) changes the outline;
//! [`changes`] compares it with the original, and [`rewrite`] applies the difference to the text of the files, leaving
//! everything else byte for byte; [`unified`] prints the difference, and [`verify`] compares the result with the
//! original. [`run_bundle`] adds bundles to a catalog for a test on a cluster. [`upgrades`] finds how clusters are
//! affected when one catalog replaces another.
//!
//! [`operations`] edit a catalog directory, each from a request to a report: a [`transaction`] loads the catalog, applies
//! one of these edits, verifies the result and replaces the files under a `journal`. Only these two touch catalog files.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod add_bundle;
pub mod changes;
pub mod deprecate;
pub mod diff;
mod edited;
mod error;
pub mod filter;
mod init;
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "replaces catalog files")]
mod journal;
pub mod legacy;
pub mod merge;
mod new_blob;
pub mod operations;
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
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "reads and stages catalog files")]
pub mod transaction;
pub mod unified;
pub mod upgrades;
pub mod verify;

pub use edited::{ChangedEntry, Edited, EditedPart, FileReport};
pub use error::{EditError, InvalidEdit};
pub use init::{NewPackage, PackageIcon, PackageIconError};
pub use new_blob::{AttachedContent, AttachedFile, NewBlob};
pub use outline::Outline;
pub use refusal::EditRefusal;
pub use transaction::{EditOptions, EditableCatalog, NoNotices, Notices, Write};
