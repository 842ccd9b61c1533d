//! Mirrors catalogs and all images they need from connected networks into disconnected ones.
//!
//! In reading order: [`imageset`] parses the request, [`part`] selects the requested part of a catalog, [`plan`]
//! finds the images it needs, and [`lock`] pins the result. [`set`] is the directory that holds everything,
//! [`volume`] packs it for transport, [`push`] uploads it to a registry, and [`resources`] configures clusters for
//! it. [`report`] lists what is missing.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod destination;
mod error;
pub mod have;
pub mod imageset;
pub mod listed;
pub mod lock;
pub mod part;
pub mod plan;
pub mod policy;
pub mod preflight;
pub mod prune;
pub mod push;
pub mod report;
pub mod resources;
pub mod set;
pub mod verify;
pub mod volume;

pub use error::{MirrorError, ResourceError, TargetError};
