//! One bundle installed by OLM v1, without publishing a catalog.
//!
//! A map, in reading order: `offer` finds out what OLM v1 of the cluster can do; [`objects`] is what is sent, as values;
//! `preflight` checks before anything is made, and `other_olm` who runs the package already; `install`, `upgrade` and
//! `cleanup` are the commands; `wait` is what happens between their steps.

mod cleanup;
mod install;
pub mod objects;
mod offer;
mod other_olm;
mod preflight;
mod upgrade;
mod wait;

pub use cleanup::{Cleanup, cleanup};
pub use install::install;
pub use objects::{Account, Carried, Extension};
pub use offer::{Generations, Offer, generations, offer};
pub(crate) use other_olm::runs_in_v1;
pub use preflight::check;
pub use upgrade::{Found, Upgrade, definitions, find, upgrade};
