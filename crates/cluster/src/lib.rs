//! What opm does on a Kubernetes cluster.
//!
//! Objects are written as JSON and sent as they stand, so that what reaches the API server is what the code shows.

mod access;
mod bundle_map;
mod catalog;
mod catalog_source;
mod controller;
mod error;
mod kind;
mod secret;

pub use access::{Access, Cluster, Object};
pub use bundle_map::{BundleMapPlan, StoredBundle, WrittenBundle, read_bundle, write_bundle};
pub use catalog::{
    CatalogPlan, CatalogState, PodRole, PodState, apply_catalog, catalog_state, delete_catalog, list_catalogs,
    packages_of, wait_for_catalog,
};
pub use catalog_source::{CatalogSpec, go_duration};
pub use controller::{ControllerPlan, Dial, ManifestPlan, PodImages, manifests, run_controller};
pub use error::Error;
pub use kind::Kind;
