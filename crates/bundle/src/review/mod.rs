//! Reports what a bundle may do on a cluster, and what an upgrade changes.
//!
//! [`facts`] extracts facts from manifests. [`crd`] compares CustomResourceDefinitions as OLM v1 does before an
//! upgrade, and adds the actual effect of each change. [`security`] reports the rights of an operator and what grew
//! between two versions: `rights` collects the rights of accounts and `judge` rates them; `pods` and `parts` cover
//! everything else; `compare` finds what is new. The crate reads no files.

pub mod crd;
pub mod facts;
pub mod security;

mod compare;
pub use compare::TooManyRights;
mod judge;
mod parts;
mod pods;
mod rights;
