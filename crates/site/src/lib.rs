//! The web console: the content of a catalog, its upgrades and its requirements, as web pages.
//!
//! Pages are pure functions of values. A server and the static export call the same ones, with other [`links`].
//!
//! A map, in reading order: [`summarize`] extracts the data of a package that lists, graphs and menus show, and [`summary`]
//! is its format. [`csv`] reads the descriptive part of a bundle, [`manifest`] the rest. [`text`], [`markdown`],
//! [`icon`] and [`names`] sanitize foreign bytes. [`rank`] searches packages, [`others`] compares catalogs, [`history`] records changes of the
//! catalog. [`frame`] surrounds every page of `pages`; [`console`] routes requests to them, and [`export`] writes them
//! all, [`slim`].
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod console;
pub mod csv;
pub mod date;
pub mod export;
pub mod frame;
pub mod history;
pub mod icon;
pub mod links;
pub mod manifest;
pub mod markdown;
pub mod names;
pub mod others;
pub mod outline;
pub mod pages;
pub mod permissions;
pub mod rank;
pub mod slim;
pub mod summarize;
pub mod summary;
pub mod text;

pub mod assets;
