//! Input limits from the environment.

use fbc::Limits;
use fbc::limits::MAX_DEPTH;

use crate::exit::Failure;

/// Reads the limits from `OPM_MAX_*` variables; unset ones keep their defaults.
pub(crate) fn from_env() -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    set(&mut limits.file_size, "OPM_MAX_FILE_SIZE", u64::MAX)?;
    set(&mut limits.blob_size, "OPM_MAX_BLOB_SIZE", usize::MAX)?;
    set(&mut limits.depth, "OPM_MAX_DEPTH", MAX_DEPTH)?;
    set(&mut limits.documents, "OPM_MAX_DOCUMENTS", usize::MAX)?;
    set(&mut limits.yaml_nodes, "OPM_MAX_YAML_NODES", usize::MAX)?;
    set(&mut limits.files, "OPM_MAX_FILES", usize::MAX)?;
    Ok(limits)
}

fn set<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
    limit: &mut T,
    variable: &str,
    largest: T,
) -> Result<(), Failure> {
    let Ok(text) = std::env::var(variable) else { return Ok(()) };
    match text.parse::<T>() {
        Ok(value) if value <= largest => {
            *limit = value;
            Ok(())
        }
        _ => Err(Failure::usage(format!("{variable} must be a whole number of at most {largest}, not {text:?}"))),
    }
}
