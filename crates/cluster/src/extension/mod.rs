//! Installs one bundle with OLM v1 without publishing a catalog.
//!
//! In reading order: `offer` detects the features of the cluster's OLM v1; [`objects`] builds the objects as values;
//! `rehearsal` predicts what OLM v1 does; `preflight` checks before anything is created, and `other_olm` whether the package is already installed;
//! `install`, `upgrade` and `cleanup` are the commands; `wait` waits between their steps.

mod cleanup;
mod install;
mod objects;
mod offer;
mod other_olm;
mod preflight;
mod rehearsal;
mod upgrade;
mod wait;

pub use cleanup::{ExtensionCleanup, cleanup};
pub use install::RunExtension;
pub(crate) use install::{ExtensionPlan, install};
pub use offer::{Generations, generations};
pub(crate) use other_olm::runs_in_v1;
pub use upgrade::RunExtensionUpgrade;
pub(crate) use upgrade::{ExtensionUpgradePlan, upgrade};
