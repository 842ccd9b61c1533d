//! What catalogs and the files around them look like, for people and for programs.
//!
//! [`documents`] lists every kind of blob, property, template and file with its fields. The fields and their types are
//! those of the tables that decode them ([`fbc::schema`], [`fbc::property`], [`catalog::needs`], [`edit::template`],
//! [`edit::diff`]); here stands what is to be said about each. [`json_schema`] turns a document into JSON Schema,
//! [`explain`] into text, and [`rules`] says why each rule is one. Nothing here touches disk, network or terminal.

mod blobs;
mod document;
mod explain;
mod files;
mod json_schema;
mod names;
mod patterns;
mod properties;
pub mod rules;

pub use document::{Document, Field, Kind, Must, documents};
pub use explain::{Unknown, explain, overview};
pub use json_schema::{CATALOG, json_schema, names};
