//! `opm version`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::CommandResult;
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Print the version
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  opm version\n  opm version -o json")]
pub(crate) struct VersionArgs {
    #[command(flatten)]
    output: OutputFlag,
}

/// The version of the program.
#[derive(Serialize, JsonSchema)]
pub(crate) struct VersionReport {
    version: &'static str,
    /// The operating system that it was built for.
    os: &'static str,
    /// The architecture that it was built for.
    arch: &'static str,
}

pub(crate) fn run(args: &VersionArgs, printer: &mut Printer) -> CommandResult {
    let report =
        VersionReport { version: env!("CARGO_PKG_VERSION"), os: std::env::consts::OS, arch: std::env::consts::ARCH };
    if args.output.is_json() {
        return Ok(printer.json(&report)?);
    }
    writeln!(printer.data(), "Version: {} ({}/{})", report.version, report.os, report.arch)?;
    Ok(())
}
