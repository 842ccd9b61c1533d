//! `opm completion`: scripts that complete commands in a shell.

use clap_complete::Shell;

use crate::exit::Outcome;
use crate::printer::Printer;

/// Print a script that completes commands in a shell
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  source <(opm completion bash)\n  opm completion zsh > ~/.zfunc/_opm")]
pub(crate) struct CompletionArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionArgs, printer: &mut Printer) -> Outcome {
    // Made in memory first: the generator panics when its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::command(), "opm", &mut script);
    printer.data().write_all(&script)?;
    Ok(())
}
