//! The meaning of operator catalogs: checked packages, channels and upgrade graphs.
//!
//! A map, in reading order: [`build`] assembles blobs ([`fbc::Fbc`]) into a [`Draft`] and, if every rule of [`rules`]
//! holds, into a [`Catalog`]; [`tree`] formats the problems. [`list`] lists the content of a catalog; [`graph`]
//! computes its upgrades for [`draw`] to draw, and [`mermaid`] draws them as older tools do. [`needs`] reads what
//! bundles provide and require, [`channel`] is the one view of a channel: heads, chains, next steps; [`chain`] is the
//! order in which clusters choose from it. [`query`] has the queries of the registry API and the messages that answer
//! them, [`schema`] the description of every field and rule.
//! Nothing here touches disk, network or terminal.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod build;
pub mod chain;
pub mod channel;
mod draft;
pub mod draw;
pub mod graph;
pub mod list;
pub mod media_type;
pub mod mermaid;
mod model;
pub mod needs;
pub mod query;
pub mod rules;
#[cfg(test)]
mod sample;
pub mod schema;
mod selection;
pub mod tree;
pub mod validation;

pub use build::{CheckOutcome, Problems, Warnings, check, inspect};
pub use draft::{Draft, DraftBundle, DraftChannel, DraftPackage, Head};
pub use model::{Bundle, Catalog, Channel, Package};
pub use selection::{GraphError, GraphOptions};

/// The label of images with a database index: its path.
pub const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";
/// The history of the layers that `opm index` writes: the program, and the database.
pub const INDEX_LAYERS: [&str; 2] = ["opm index: the program", "opm index: the database"];
