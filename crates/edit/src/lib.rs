//! Catalogs in, catalogs out: what makes new file-based catalogs.
//!
//! [`template`] turns short descriptions into catalogs; [`diff`] finds what is new in one. The other modules change
//! catalogs that are there: an [`outline`] is what a catalog says; a verb ([`add_bundle`], [`set_default`],
//! [`set_edge`], [`promote`], [`deprecate`], [`remove`], [`filter`], [`merge`]) changes the outline; [`changes`]
//! compares it with what it was, and [`rewrite`] puts the difference into the text of the files, where all else stays
//! byte for byte; [`unified`] shows it, and [`verify`] compares the result with what it was.
//! [`run_bundle`] puts bundles into a catalog for a test on a cluster.
//! [`upgrades`] finds what becomes of clusters when one catalog takes the place of another.
//! Nothing here touches disk, network or terminal; what has to be fetched is asked for.

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
