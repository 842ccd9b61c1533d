//! A simulated cluster: its catalogs, the installed bundles and the requested ones.

pub(super) mod namespace;
pub(super) mod sources;
