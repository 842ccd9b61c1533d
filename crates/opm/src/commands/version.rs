//! `opm version`.

use crate::exit::CommandResult;
use crate::printer::Printer;

/// Print the version
#[derive(clap::Args)]
pub(crate) struct VersionArgs {}

pub(crate) fn run(_: &VersionArgs, printer: &mut Printer) -> CommandResult {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    writeln!(printer.data(), "Version: {} ({os}/{arch})", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
