//! Database indexes, where the program was built without them.

use std::path::Path;

use fbc::Fbc;

use crate::printer::Printer;
use crate::source::Options;

/// Reports that databases are a thing of the past.
pub(crate) fn notice(_: &Printer) {}

/// Refuses a database.
pub(crate) fn load(_: &mut Fbc, path: &Path, _: &Options<'_>, _: &Printer) -> Result<(), String> {
    Err(format!("{} is a database, and this program was built without the feature `sqlite`", path.display()))
}
