//! One binary, several names: what it does depends on how it is called.

use std::ffi::OsString;
use std::path::Path;

use crate::exit::Outcome;
use crate::printer::Printer;
use crate::{cli, exit};

/// Something the binary can be.
struct Personality {
    /// The file name it answers to.
    name: &'static str,
    run: fn(Vec<OsString>, &mut Printer) -> Outcome,
}

/// The names the binary answers to besides its own; any other name means `opm`.
const PERSONALITIES: &[Personality] = &[Personality { name: "opm", run: cli::run }];

/// Runs what the first word of the command line asks for.
pub(crate) fn run(printer: &mut Printer) -> Outcome {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let called = arguments.first().map(|first| Path::new(first).file_stem().unwrap_or_default().to_owned());
    let personality = PERSONALITIES
        .iter()
        .find(|personality| called.as_deref() == Some(personality.name.as_ref()))
        .or(PERSONALITIES.first());
    match personality {
        Some(personality) => (personality.run)(arguments, printer),
        None => Err(exit::Failure::message("nothing to run")),
    }
}
