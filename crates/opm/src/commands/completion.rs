//! `opm completion`: prints shell completion scripts.

use clap_complete::Shell;

use crate::exit::CommandResult;
use crate::printer::Printer;

/// Print a shell completion script
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  source <(opm completion bash)\n  opm completion zsh > ~/.zfunc/_opm")]
pub(crate) struct CompletionArgs {
    /// Shell to complete in
    shell: Shell,
}

pub(crate) fn run(args: &CompletionArgs, printer: &mut Printer) -> CommandResult {
    // Generate in memory first: the generator panics when its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::command(), "opm", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match args.shell {
        Shell::Bash => format!("{script}{BASH}"),
        Shell::Zsh => script.replacen("_opm() {\n", &format!("_opm() {{\n{ZSH}"), 1),
        Shell::Fish => format!("{script}{FISH}"),
        _ => script.into_owned(),
    };
    printer.data().write_all(script.as_bytes())?;
    Ok(())
}

/// Completes packages, channels and bundles from the catalog on the command line, and falls back to the generated
/// script.
const BASH: &str = r#"
_opm_names() {
    local IFS=$'\n'
    local names=($("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ ${#names[@]} -gt 0 ]]; then
        COMPREPLY=("${names[@]}")
    else
        IFS=$' \t\n'
        _opm "$@"
    fi
}
complete -F _opm_names -o bashdefault -o default opm
"#;

const ZSH: &str = r#"    local -a names
    names=("${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if (( ${#names[1]} )); then
        compadd -a names
        return 0
    fi
"#;

const FISH: &str = r#"
complete -c opm -a '(set -l words (commandline -opc); $words[1] __complete -- $words[2..-1] (commandline -ct) 2>/dev/null)'
"#;
