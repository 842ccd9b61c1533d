//! The cache file and the server, tested from outside.

mod cache;
mod catalogs;
mod damage;
mod graphql;
mod harness;
mod hostile;
mod panics;
mod reflection;
mod retired;
mod secure;
mod server;
mod soak;
