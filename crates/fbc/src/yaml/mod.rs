//! YAML as operator catalogs use it: JSON values in YAML 1.1 clothes.
//!
//! [`split`] cuts a stream into documents, [`read`] turns a document into
//! canonical JSON,
//! `repeated` finds keys that stand twice, and [`mod@write`] prints JSON as
//! YAML. [`events`] is the seam to the parser; [`scalar`] decides what a word
//! like `yes`, `0755` or `1e3` means.

mod build;
pub mod events;
mod fast;
pub mod read;
mod repeated;
pub mod scalar;
pub mod split;
mod text;
pub mod write;

pub use read::{Limits, YamlError, to_json, to_text};
pub use repeated::repeated_key;
pub use split::{BadSeparator, Document, documents};
pub(crate) use split::{Cut, cut};
pub use write::{document, write_document};
