//! What clusters would install or upgrade, and why.
//!
//! A map, in reading order: [`input`] is what a cluster looks at, [`objects`] reads it from a real one; [`pool`] finds in it what meets a need, in the order
//! clusters prefer; [`resolver`] says what becomes of a namespace by the rules of the first generation of cluster
//! software, and [`v1`] by those of the second. [`explain`] puts a conflict in words, [`path`] follows upgrades,
//! [`wish`] reads how people name what they mean, [`plan`] and [`why`] answer them in words,
//! [`dependencies`] looks at a whole catalog. Nothing here touches disk, network or terminal.

mod build;
pub mod dependencies;
pub mod explain;
pub mod input;
pub mod masterminds;
pub mod objects;
pub mod path;
pub mod place;
pub mod plan;
pub mod pool;
pub mod requirers;
pub mod resolver;
pub mod rule;
mod search;
#[cfg(test)]
mod tests;
pub mod v1;
pub mod why;
pub mod wish;
pub mod words;
