//! Help as people can copy from it.

use clap::Command;

/// Stands for a space at which a line is not broken.
const FIXED: char = '\u{a0}';

/// Keeps the examples of all commands in their lines, however narrow the terminal is.
pub(crate) fn keep_examples(mut command: Command) -> Command {
    let fixed = command.get_after_help().map(|help| fix(&help.to_string()));
    if let Some(fixed) = fixed {
        command = command.after_help(fixed);
    }
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, keep_examples);
    }
    command
}

fn fix(help: &str) -> String {
    let lines = help.split('\n').map(|line| match line.starts_with("  ") {
        true => line.replace(' ', &FIXED.to_string()),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns help as it is printed.
pub(crate) fn printed(help: &str) -> String {
    help.replace(FIXED, " ")
}
