//! Helpers for tests: scratch catalogs and bundles.

mod bundle_dir;

pub use bundle_dir::BundleDir;
