//! Serves operator catalogs: the cache file, the registry API over gRPC, the catalog API over HTTP.
//!
//! A map, in reading order: [`load`] reads a catalog, [`cache`] makes a file of answers from it,
//! [`content`] has its blobs, [`live`] holds those of the moment, [`pages`] is who makes pages of them, `grpc`, [`http`] and [`graphql`] answer from
//! them, and [`listen`], [`tls`] and [`server`] are the way in, with places in `slots` that `budget`
//! divides. [`metrics`] counts. [`run`] puts all of it together: `supervise` runs the listeners,
//! `snapshot` loads catalogs, `follow` puts newer ones in place. `memory` goes back to the system. [`probe`] asks a server how it is.
//! [`catalogs`] serves several catalogs over HTTP, and [`upstream`] writes the cache of another tool.

mod budget;
pub mod cache;
pub mod catalogs;
pub mod content;
mod follow;
pub mod graphql;
mod grpc;
pub mod http;
pub mod listen;
pub mod live;
pub mod load;
mod memory;
pub mod metrics;
pub mod pages;
pub mod probe;
pub mod run;
pub mod server;
mod slots;
mod snapshot;
mod spare;
mod supervise;
pub mod tls;
pub mod upstream;
