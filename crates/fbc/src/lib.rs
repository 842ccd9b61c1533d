//! The file format of operator catalogs: reading, positions, writing.
//!
//! The modules, in reading order: [`json`] and [`yaml`] process text; `files` finds and opens files and [`load`] reads
//! them into blobs ([`blob`], decoded as far as needed by `decode`); `legacy` and `migrate` convert older blobs;
//! [`write`](mod@write) prints; all of them report a [`problem`]. [`version`], [`range`] and [`pull_spec`] are the small grammars
//! inside fields. For all crates, [`spelling`] has standard text formats, [`scratch`] temporary files, and [`fault`]
//! the meaning of errors.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod json;
pub mod number;
pub mod yaml;

pub mod indexignore;
pub mod pull_spec;
pub mod quote;
pub mod range;
pub mod release;
pub mod version;

pub mod base64;
pub mod fault;
pub mod go_sort;
pub mod limits;
pub mod problem;
pub mod property;
pub mod shape;

pub mod blob;
pub mod bundle_eq;
pub mod csv;
mod decode;
pub mod documents;
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the only module that reads catalog files")]
mod files;
mod legacy;
pub mod load;
pub mod locate;
mod migrate;
mod object;
pub mod schema;
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "temporary files of all crates")]
pub mod scratch;
pub mod similar;
pub mod spans;
pub mod spelling;
pub mod step_counter;
pub mod stream;
pub mod template;
pub mod unknown_fields;
pub mod write;

pub use blob::{Blob, BlobContent, Fbc};
pub use files::members::{Members, Unportable, is_file_name, is_version_control};
pub use limits::Limits;
pub use load::{LoadOptions, LoadReport};
pub use problem::{FileId, Place, Problem, ProblemRole, ProblemScope, ProblemSeverity, ProblemStage, Spot};
pub use write::{Arrangement, Format};
