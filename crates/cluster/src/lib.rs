//! What opm does on a Kubernetes cluster.
//!
//! Objects are written as JSON and sent as they stand, so that what reaches the API server is what the code shows.
//! [`Access`] finds the cluster; `request` talks to it through restarts and conflicts, up to a deadline, and `watch` waits
//! for changes; [`Ledger`] knows what is ours and rolls it back; `words` says what keeps objects from where they should be;
//! [`run`] installs bundles for a test, and [`extension`] does so with OLM v1.

mod access;
mod against;
mod apply;
mod bundle_map;
mod catalog;
mod catalog_source;
mod cluster_catalog;
mod controller;
mod error;
pub mod extension;
mod installed;
mod kind;
mod ledger;
mod request;
pub mod run;
mod secret;
mod watch;
mod watcher;
mod words;

pub use access::{Access, Cluster, Object};
pub use against::{Compared, compare_with_cluster};
pub use bundle_map::{BundleMapPlan, StoredBundle, WrittenBundle, read_bundle, write_bundle};
pub use catalog::{
    CatalogPlan, CatalogState, PodRole, PodState, apply_catalog, catalog_state, delete_catalog, list_catalogs,
    packages_of, wait_for_catalog,
};
pub use catalog_source::CatalogSpec;
pub use cluster_catalog::{
    ClusterCatalogPlan, ClusterCatalogState, apply_cluster_catalog, cluster_catalog_state, delete_cluster_catalog,
    list_cluster_catalogs, wait_for_cluster_catalog,
};
pub use controller::{
    ClusterCatalogsPlan, ControllerPlan, Dial, ManifestPlan, PodImages, ServedCatalogs, Shelf, Unserved, chooses_users,
    manifests, run_cluster_catalogs, run_controller,
};
pub use error::Error;
pub use installed::installed;
pub use kind::Kind;
pub use ledger::{Ledger, RolledBack};
pub use watcher::Watcher;
