//! Helpers for tests: scratch catalogs and bundles.
