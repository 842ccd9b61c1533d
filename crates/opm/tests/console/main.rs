//! The web console as readers see it: on a server, in a folder, in a real browser.

mod agree;
mod browser;
mod budgets;
mod bundles;
mod commands;
mod export;
mod harness;
mod headers;
mod host;
mod hostile;
mod install;
mod keys;
mod live;
mod pages;
mod preview;
mod random;
mod reading;
mod whole;
