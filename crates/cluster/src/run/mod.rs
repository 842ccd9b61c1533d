//! One bundle installed on a cluster, without publishing a catalog.
//!
//! A map, in reading order: [`names`], [`install_mode`], [`partition`], [`pod`], [`objects`] and [`operator_group`] are
//! what is sent, as values; [`facts`] is what a bundle says; `preflight` looks before anything is made; `bundle`,
//! `upgrade` and `cleanup` are the commands; `wait` is what happens between their steps; `planned` is what OLM makes of
//! them, and `in_use` who else needs that.

mod bundle;
mod carry;
mod cleanup;
mod facts;
mod in_use;
pub mod install_mode;
pub mod names;
pub mod objects;
pub mod operator_group;
pub mod partition;
pub(crate) mod planned;
pub mod pod;
pub(crate) mod preflight;
mod upgrade;
pub(crate) mod wait;

pub use bundle::{BundlePlan, Serving, check, run};
pub use cleanup::{Cleanup, cleanup};
pub use facts::Facts;
pub use upgrade::{Installed, UpgradePlan, find, upgrade};
