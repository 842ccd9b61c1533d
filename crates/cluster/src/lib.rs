//! The Kubernetes operations of opm.
//!
//! Objects are built as JSON and sent unchanged, so the code shows what reaches the API server. [`Access`] connects
//! to the cluster; `request` sends requests through restarts and conflicts, up to a deadline, and `watch` waits for
//! changes; [`Ledger`] records the objects of a run and rolls them back; `diagnosis` explains the state of objects;
//! [`run`] installs bundles for tests, and [`extension`] does so with OLM v1.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod access;
mod all_catalogs;
mod apply;
mod bundle_map;
mod catalog;
mod catalog_source;
mod cluster_catalog;
mod context;
mod controller;
mod diagnosis;
mod dry_run;
mod error;
pub mod extension;
#[cfg(test)]
mod fake;
mod installed;
mod kind;
mod kubeconfig;
mod ledger;
mod request;
pub mod run;
mod secret;
mod views;
mod watch;
mod watcher;

pub use access::{Access, Cluster, ClusterObject};
pub use all_catalogs::{
    AnyCatalogPlan, ApplyCatalog, ApplyCatalogError, CatalogList, CatalogStatus, ListedCatalog, OfKind, catalog_state,
    delete_catalog, list_catalogs,
};
pub use bundle_map::{
    BundleMapError, BundleMapPlan, DecompressError, StoredBundle, WrittenBundle, read_bundle, write_bundle,
};
pub use catalog::{CatalogPlan, CatalogState, PodRole, PodState};
pub use cluster_catalog::{ClusterCatalogPlan, ClusterCatalogState, PlanError};
pub use context::WorkContext;
pub use controller::{
    CatalogContents, CatalogServer, ClusterCatalogsPlan, ControllerMetrics, ControllerPlan, Dial, DialError,
    ManifestPlan, PodImages, PulledCatalogs, ServeError, ServedCatalogs, chooses_users, manifests,
    run_cluster_catalogs, run_controller,
};
pub use dry_run::compare_with_cluster;
pub use error::Error;
pub use installed::installed;
pub use kind::ResourceKind;
pub use kubeconfig::KubeconfigError;
pub use ledger::{AfterFailure, Ledger, RolledBack};
pub use watcher::Watcher;
