//! A rehearsal beside a cluster, where the program was built without clusters.

use bundle::Finding;

use super::Rehearsal;
use super::flags::RehearseArgs;
use crate::exit::Failure;
use crate::printer::Printer;

/// Refuses to compare.
pub(super) fn compared(_: &RehearseArgs, _: &Rehearsal, _: &Printer) -> Result<Vec<Finding>, Failure> {
    Err(Failure::message("--against-cluster: this program was built without the feature `cluster`"))
}
