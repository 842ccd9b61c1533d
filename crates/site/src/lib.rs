//! The web console: what is in a catalog, how it upgrades, what it asks for, as pages for people.
//!
//! Pages are pure functions of values. A server and the static export call the same ones, with other [`links`].
//!
//! A map, in reading order: [`shelve`] reads of a package what lists, graphs and menus need, and [`shelf`] is how that is
//! kept. [`csv`] knows the part of a bundle that people see, [`manifest`] the rest of it. [`text`], [`markdown`], [`icon`] and
//! [`names`] stand between foreign bytes and a page. [`rank`] finds packages, [`history`] remembers what catalogs changed. [`frame`] surrounds every page of `pages`;
//! [`console`] chooses one for an address, and [`export`] writes them all, [`slim`].

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
pub mod outline;
pub mod pages;
pub mod permissions;
pub mod rank;
pub mod shelf;
pub mod shelve;
pub mod slim;
pub mod text;

pub mod assets;
