//! Installs one bundle on a cluster without publishing a catalog.
//!
//! In reading order: [`names`], [`install_mode`], [`partition`], [`pod`], [`objects`] and [`operator_group`] build
//! objects as values; [`facts`] reads a bundle; `preflight` checks before anything is created; `bundle`, `upgrade`
//! and `cleanup` are the commands; `plan` is what the first two do, for both generations of OLM, and `report` what they
//! return; `wait` waits between their steps; `planned` tracks the objects that OLM creates,
//! `recreated` those that it creates again, and `in_use` finds their other users.

mod bundle;
mod carry;
pub(crate) mod catalog;
mod cleanup;
mod documents;
mod facts;
mod in_use;
pub mod install_mode;
pub mod names;
pub mod objects;
pub mod operator_group;
pub mod partition;
mod plan;
pub(crate) mod planned;
pub mod pod;
pub(crate) mod preflight;
mod recreated;
pub(crate) mod report;
mod upgrade;
pub(crate) mod wait;

pub use bundle::RunBundle;
pub use catalog::{CatalogOptions, DatabaseHandling, NO_INDEX, RunCatalogError};
pub use cleanup::{CleanupReport, RunCleanup, cleanup};
pub use plan::RunPlan;
pub use report::RunReport;
pub use upgrade::RunUpgrade;
