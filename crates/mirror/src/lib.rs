//! Catalogs and all images they need, from connected networks into closed ones.
//!
//! In reading order: [`imageset`] reads what somebody wants, [`part`] takes that part of a catalog, [`plan`] finds the
//! images it needs and [`lock`] is what comes of that; [`set`] is the directory that holds it all, [`volume`] carries
//! it, [`push`] brings it to a registry, and [`resources`] leads clusters to it. [`report`] says what is missing.

pub mod destination;
pub mod have;
pub mod imageset;
pub mod listed;
pub mod lock;
pub mod part;
pub mod plan;
pub mod preflight;
pub mod prune;
pub mod push;
pub mod report;
pub mod resources;
pub mod set;
pub mod verify;
pub mod volume;
