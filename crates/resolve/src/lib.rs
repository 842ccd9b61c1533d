//! Resolves what clusters would install or upgrade, and explains why.
//!
//! A map, in reading order: [`input`] is the input of a resolution, [`objects`] reads it from a real cluster; [`pool`]
//! finds the bundles that meet a requirement, in the order clusters prefer; [`resolver`] resolves a namespace by the
//! rules of the first generation of cluster software, and [`v1`] by those of the second. [`explain`] describes a
//! conflict, [`path`] follows upgrades, [`upgrade_path`] answers questions about them, [`request`] parses requests, [`plan`]
//! and [`why`] answer them in words,
//! [`dependencies`] checks a whole catalog. Nothing here touches disk, network or terminal.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod build;
pub mod dependencies;
mod error;
pub mod explain;
pub mod input;
pub mod masterminds;
pub mod objects;
pub mod path;
pub mod place;
pub mod plan;
pub mod pool;
pub mod request;
pub mod requirers;
pub mod resolver;
mod search;
#[cfg(test)]
mod tests;
pub mod upgrade_path;
pub mod v1;
pub mod why;
pub mod words;

pub use error::{NamespaceError, PoolError, RequestError};
