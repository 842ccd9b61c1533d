//! Keeps the examples in help copyable: clap does not wrap them.

use clap::Command;

/// The no-break space that replaces spaces in examples.
const NO_BREAK: char = '\u{a0}';

/// Keeps clap from wrapping the examples of all commands on narrow terminals.
pub(crate) fn keep_examples(mut command: Command) -> Command {
    let unwrapped = command.get_after_help().map(|help| without_breaks(&help.to_string()));
    if let Some(unwrapped) = unwrapped {
        command = command.after_help(unwrapped);
    }
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, keep_examples);
    }
    command
}

fn without_breaks(help: &str) -> String {
    let lines = help.split('\n').map(|line| match line.starts_with("  ") {
        true => line.replace(' ', &NO_BREAK.to_string()),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Restores the ordinary spaces before printing.
pub(crate) fn printed(help: &str) -> String {
    help.replace(NO_BREAK, " ")
}
