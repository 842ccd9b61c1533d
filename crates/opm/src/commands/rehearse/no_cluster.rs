//! Stub of `cluster` for builds without the feature `cluster`.

use bundle::Finding;

use super::Rehearsal;
use super::flags::RehearseArgs;
use crate::exit::Failure;
use crate::printer::Printer;

/// Refuses the comparison.
pub(super) fn compared(_: &RehearseArgs, _: &Rehearsal, _: &Printer) -> Result<Vec<Finding>, Failure> {
    Err(Failure::usage("--against-cluster: opm was built without the feature `cluster`"))
}
