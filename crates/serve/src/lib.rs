//! Serves operator catalogs: the cache file, the registry API over gRPC, the catalog API over HTTP.
//!
//! A map, in reading order: [`load`] reads a catalog, [`cache`] makes a file of answers from it,
//! [`live`] holds the one of the moment, [`grpc`] answers from it, and [`listen`], [`tls`] and
//! [`server`] are the way in. [`metrics`] counts. [`run`] puts them together.

pub mod cache;
mod grpc;
pub mod listen;
pub mod live;
pub mod load;
pub mod metrics;
pub mod run;
pub mod server;
pub mod tls;
