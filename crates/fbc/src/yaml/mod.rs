//! YAML as used in operator catalogs: JSON values in YAML 1.1 syntax.
//!
//! [`split`] splits a stream into documents, [`read`] converts a document to canonical JSON, `repeated` finds duplicate
//! keys, and [`mod@write`] prints JSON as YAML. [`events`] is the interface to the parser; [`scalar`] determines the
//! meaning of a word like `yes`, `0755` or `1e3`.

mod build;
pub mod events;
mod fast;
mod fault;
pub mod read;
mod repeated;
pub mod scalar;
pub mod split;
mod text;
pub mod write;

pub use fault::YamlFault;
pub(crate) use read::to_json_noting;
pub use read::{YamlError, YamlLimits, to_json, to_text};
pub use repeated::repeated_key;
pub use split::{BadSeparator, YamlDocument, documents};
pub(crate) use split::{Cut, cut};
pub use write::{document, object, objects, write_document};
