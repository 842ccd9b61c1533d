//! Documentation of catalogs and related files, as JSON Schema and as text.
//!
//! [`documents`] lists every kind of blob, property, template and file with its fields. The fields and their types come
//! from the tables that decode them ([`fbc::schema`], [`fbc::property`], [`crate::needs`], `edit::template`,
//! `edit::diff`); this module adds a description of each. [`json_schema`](fn@json_schema) turns a document into JSON Schema,
//! [`explain`](fn@explain) into text, and [`rules`] gives the reason for each rule. It does no I/O.

mod blobs;
mod document;
mod explain;
mod files;
mod json_schema;
mod names;
mod patterns;
mod properties;
pub mod rules;

pub use document::{Constraint, DocumentCategory, FieldDescription, SchemaDocument, documents};
pub use explain::{Unknown, explain, overview};
pub use json_schema::{CATALOG, json_schema, names};
