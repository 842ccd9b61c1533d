//! YAML as operator catalogs use it: JSON values in YAML 1.1 clothes.
//!
//! [`split`] cuts a stream into documents, [`read`] turns a document into
//! canonical JSON, [`mod@locate`] finds the place of a value in its text,
//! `repeated` finds keys that stand twice, and [`mod@write`] prints JSON as
//! YAML. [`events`] is the seam to the parser; [`scalar`] decides what a word
//! like `yes`, `0755` or `1e3` means.

mod build;
pub mod events;
mod fast;
pub mod locate;
pub mod read;
mod repeated;
pub mod scalar;
pub mod split;
mod text;
pub mod write;

pub use locate::{locate, locate_key};
pub use read::{Limits, YamlError, to_json};
pub use repeated::repeated_key;
pub use split::{BadSeparator, Document, documents};
pub use write::write_document;
