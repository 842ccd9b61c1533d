//! Helpers for tests: scratch catalogs and bundles, and registries.

mod bundle_dir;
mod docker_registry;
mod fake_registry;

pub use bundle_dir::BundleDir;
pub use docker_registry::{DockerRegistry, RegistryPlan};
pub use fake_registry::{Answered, Asked, FakeRegistry, Fault};
