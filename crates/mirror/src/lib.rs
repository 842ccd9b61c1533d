//! Mirrors catalogs and all images they need from connected networks into disconnected ones.
//!
//! In reading order: [`request`] parses what is requested, [`selection`] cuts catalogs to it and finds the images they
//! need, and [`lock`] pins the result. [`mod@plan`] shows it, [`mod@pull`] fetches it to the directory of a [`set`],
//! [`volume`] packs the set for transport, [`mod@push`] uploads it to a registry, [`mod@copy`] does so without a set, and
//! [`resources`] configures clusters for it. [`mod@verify`] checks it, and [`prune`] removes it. [`report`] lists what is
//! missing. All of them run in a [`session`]. [`oc_mirror`] translates command lines of that tool.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod catalog;
mod catalog_image;
mod catalog_selection;
pub mod copy;
pub mod destination;
mod error;
pub mod imageset;
pub mod installed;
pub mod known_blobs;
pub mod listed;
pub mod lock;
pub mod oc_mirror;
pub mod plan;
mod policy;
mod preflight;
pub mod prune;
pub mod pull;
pub mod push;
pub mod report;
pub mod request;
pub mod resources;
pub mod selection;
pub mod session;
pub mod set;
pub mod verify;
pub mod volume;

pub use error::{DestinationError, MirrorError, ResourceError};
