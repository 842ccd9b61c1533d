//! Serves operator catalogs: the cache file, the registry API over gRPC, the catalog API over HTTP.
//!
//! A map, in reading order: [`load`] reads a catalog, [`cache`] makes a file of answers from it,
//! [`content`] has its blobs, [`live`] holds those of the moment, `grpc` and [`http`] answer from
//! them, and [`listen`], [`tls`] and [`server`] are the way in. [`metrics`] counts, [`run`] puts all
//! of it together, and [`probe`] asks a server how it is. [`upstream`] writes the cache of another tool.

pub mod cache;
pub mod content;
mod grpc;
pub mod http;
pub mod listen;
pub mod live;
pub mod load;
pub mod metrics;
pub mod probe;
pub mod run;
pub mod server;
mod spare;
pub mod tls;
pub mod upstream;
