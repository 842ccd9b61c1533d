//! Serves operator catalogs: the cache file, the registry API over gRPC, the catalog API over HTTP.
//!
//! A map, in reading order: [`load`] reads a catalog, [`cache`] builds a file of ready answers from it, [`content`]
//! holds its blobs, [`live`] holds the current snapshot of both. [`pages`] is the interface to the renderer of web pages,
//! and [`console`] is the renderer. `grpc`, [`http`] and [`graphql`] answer from the snapshot. [`listen`], [`tls`] and
//! [`server`] accept connections, with slots in `slots` that `budget` divides. `caught` keeps a panic in its request.
//! [`metrics`] counts. [`run`] composes the server: `supervise` runs the listeners, `snapshot` loads catalogs, `follow`
//! replaces them with newer ones, and `memory` returns freed memory to the system. [`preview`] serves what a user edits,
//! and [`termination`] records why a server failed. [`probe`] is a client of the health API, and [`monitor`] serves the
//! state of another process. [`catalogs`] serves several catalogs over HTTP, [`upstream`] writes the cache format of the
//! existing tool, and [`image`](mod@image) builds images of catalogs.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod budget;
mod buffer_pool;
pub mod cache;
pub mod catalogs;
mod caught;
pub mod console;
pub mod content;
mod follow;
pub mod graphql;
mod grpc;
pub mod http;
pub mod image;
pub mod listen;
pub mod live;
pub mod load;
mod memory;
pub mod metrics;
pub mod monitor;
pub mod pages;
pub mod preview;
pub mod probe;
pub mod run;
pub mod server;
mod slots;
mod snapshot;
mod supervise;
pub mod termination;
pub mod tls;
pub mod upstream;
