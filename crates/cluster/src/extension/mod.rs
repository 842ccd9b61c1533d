//! Installs one bundle with OLM v1 without publishing a catalog.
//!
//! In reading order: `offer` detects the features of the cluster's OLM v1; [`objects`] builds the objects as values;
//! `preflight` checks before anything is created, and `other_olm` whether the package is already installed;
//! `install`, `upgrade` and `cleanup` are the commands; `wait` waits between their steps.

mod cleanup;
mod install;
pub mod objects;
mod offer;
mod other_olm;
mod preflight;
mod upgrade;
mod wait;

pub use cleanup::{ExtensionCleanup, cleanup};
pub use install::install;
pub use objects::{Carried, Extension, InstallerAccount};
pub use offer::{Generations, OlmFeatures, generations, offer};
pub(crate) use other_olm::runs_in_v1;
pub use preflight::check;
pub use upgrade::{InstalledExtension, Upgrade, definitions, find, upgrade};
