//! `opm __reference`: generates the pages of docs/cli from the argument definitions, and the schemas of reports.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

use crate::exit::{CommandResult, in_path};
use crate::help;
use crate::personality::{self, Usage};
use crate::reports::REPORTS;

/// Write a reference page for each top-level command, and the schemas of reports
#[derive(clap::Args)]
#[command(hide = true)]
pub(crate) struct ReferenceArgs {
    /// Directory to write to
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The help heading of the registry flags.
const REGISTRIES: &str = "Registries";
const GENERATED: &str = "<!-- Made by `cargo xtask docs`. -->\n\n";

pub(crate) fn run(args: &ReferenceArgs) -> CommandResult {
    let mut command = crate::cli::command();
    command.build();
    let mut index = format!("{GENERATED}# Commands\n");
    for (title, names) in help::GROUPS {
        let _ = write!(index, "\n## {title}\n\n| command | does |\n|---|---|\n");
        for name in names.iter().filter(|name| **name != "help") {
            let Some(group) = command.find_subcommand(name) else { continue };
            let about = group.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(index, "| [`opm {name}`]({name}.md) | {} |", cell(&about));
            let mut page = String::from(GENERATED);
            describe(group, 1, &mut page);
            write(&args.directory.join(format!("{name}.md")), &page)?;
        }
    }
    index += "\n## Commands and programs of the existing tools\n\n| name | does |\n|---|---|\n";
    if let Some(alpha) = command.find_subcommand("alpha") {
        index += "| [`opm alpha`](alpha.md) | Commands under the names that older tools use |\n";
        let mut page = String::from(GENERATED);
        describe(alpha, 1, &mut page);
        write(&args.directory.join("alpha.md"), &page)?;
    }
    for (name, usage) in personality::others() {
        let (about, page) = match usage {
            Usage::Command(command) => {
                let mut command = help::keep_examples(command());
                command.build();
                let mut page = String::from(GENERATED);
                describe(&command, 1, &mut page);
                (command.get_about().map(ToString::to_string).unwrap_or_default(), page)
            }
            Usage::Text(usage) => {
                let lines: String =
                    usage.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect();
                ("Checks the health of a gRPC server".to_owned(), format!("{GENERATED}# {name}\n\n{lines}"))
            }
        };
        let _ = writeln!(index, "| [`{name}`]({name}.md) | {} |", cell(&about));
        write(&args.directory.join(format!("{name}.md")), &page)?;
    }
    index += "\nThe program is each of these when it is called by that name, and as `opm NAME`.\n";
    let reports = args.directory.join("reports");
    fs::create_dir_all(&reports).map_err(|error| in_path(&reports, &error))?;
    for report in REPORTS {
        write(&reports.join(format!("{}.json", report.name)), &format!("{:#}\n", report.schema()))?;
    }
    index += "\n[registries.md](../registries.md) describes the flags of all commands that access registries.\n\
        Switches accept `--flag`, `--flag=true` and `--flag=false`.\n";
    write(&args.directory.join("README.md"), &index)
}

fn write(path: &Path, text: &str) -> CommandResult {
    fs::write(path, text).map_err(|error| in_path(path, &error))
}

/// Describes a command and its subcommands.
fn describe(command: &Command, level: usize, page: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let _ = writeln!(page, "{} {name}\n", "#".repeat(level.min(4)));
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(page, "{}\n", escape(about.trim_end()));
    let usage = help::printed(&command.clone().render_usage().to_string());
    let usage = usage.trim_start_matches("Usage: ").replace('\n', "\n    ");
    let _ = writeln!(page, "    {}\n", usage.trim_end());
    let args = || command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help");
    let mut own: Vec<&Arg> = args().filter(|arg| arg.get_help_heading() != Some(REGISTRIES)).collect();
    own.sort_by_key(|arg| !arg.is_positional());
    if !own.is_empty() {
        page.push_str("| argument | meaning |\n|---|---|\n");
        for arg in own {
            let _ = writeln!(page, "| {} | {} |", spelled(arg), meaning(arg));
        }
        page.push('\n');
    }
    let registries: Vec<String> =
        args().filter(|arg| arg.get_help_heading() == Some(REGISTRIES)).map(spelled).collect();
    if !registries.is_empty() && !command.has_subcommands() {
        let _ = writeln!(page, "[Registry flags](../registries.md): {}.\n", registries.join(", "));
    }
    if let Some(after) = command.get_after_help() {
        let after = help::printed(&after.to_string());
        for line in after.trim_end().lines() {
            let _ = match line.strip_prefix("  ") {
                Some(example) => writeln!(page, "    {example}"),
                None => writeln!(page, "{line}\n"),
            };
        }
        page.push('\n');
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        describe(sub, level + 1, page);
    }
    while page.ends_with("\n\n") {
        page.pop();
    }
    if level > 1 {
        page.push('\n');
    }
}

/// Formats the syntax of an argument.
fn spelled(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str()).unwrap_or_default();
    if arg.is_positional() {
        return format!("`{value}`");
    }
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let takes_value = arg.get_action().takes_values() && !arg.is_require_equals_set();
    let value = if takes_value { format!(" {}", value.replace('|', "\\|")) } else { String::new() };
    format!("{short}`--{}{value}`", arg.get_long().unwrap_or_default())
}

/// Formats the help of an argument, with its possible values and default.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = cell(&help);
    let is_switch = arg.is_require_equals_set();
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() && !is_switch {
        let _ = write!(text, " ({})", values.join(", "));
    }
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .filter(|value| !value.is_empty())
        .collect();
    if !defaults.is_empty() && !is_switch && !arg.is_hide_default_value_set() {
        let _ = write!(text, "; default `{}`", defaults.join(","));
    }
    text
}

fn cell(text: &str) -> String {
    escape(&text.split_whitespace().collect::<Vec<_>>().join(" ")).replace('|', "\\|")
}

/// Escapes `<`, so that Markdown does not parse words in angle brackets as HTML.
fn escape(text: &str) -> String {
    text.replace('<', "\\<")
}
