//! Stub of `cluster` for builds without the feature `cluster`.

use bundle::rehearse::{OnCluster, Prediction};

use super::flags::RehearseArgs;
use crate::exit::Failure;
use crate::printer::Printer;

/// Refuses the comparison.
pub(super) fn compared(_: &RehearseArgs, _: &Prediction, _: &Printer) -> Result<Vec<OnCluster>, Failure> {
    Err(Failure::usage("--against-cluster: opm was built without the feature `cluster`"))
}
