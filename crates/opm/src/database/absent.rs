//! Stub of `database` for builds without the feature `sqlite`.

use std::path::Path;

use fbc::Fbc;

use crate::printer::Printer;
use crate::source::Options;

/// Prints nothing: this build has no database commands.
pub(crate) fn notice(_: &Printer) {}

/// Refuses a database.
pub(crate) fn load(_: &mut Fbc, path: &Path, _: &Options<'_>, _: &Printer) -> Result<(), String> {
    Err(format!("{} is a database, but opm was built without the feature `sqlite`", path.display()))
}
