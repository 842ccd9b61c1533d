//! What opm does on a Kubernetes cluster.
//!
//! Objects are written as JSON and sent as they stand, so that what reaches the API server is what the code shows.

mod access;
mod bundle_map;
mod error;
mod kind;
mod secret;

pub use access::{Access, Cluster, Object};
pub use bundle_map::{BundleMapPlan, StoredBundle, WrittenBundle, read_bundle, write_bundle};
pub use error::Error;
pub use kind::Kind;
