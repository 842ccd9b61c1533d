//! The help of the program: its commands in groups, and examples that can be copied, since clap does not wrap them.

use std::ffi::OsString;
use std::fmt::Write as _;

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

/// How clap shows that a switch takes a value, which is worth no line of help.
const SWITCH: &str = "[=<true|false>]";

/// Restores the ordinary spaces before printing, and leaves the values of switches out.
pub(crate) fn printed(help: &str) -> String {
    let lines = help.replace(NO_BREAK, " ");
    let lines = lines.split('\n').map(|line| match line.split_once(SWITCH) {
        // Descriptions in the same line stay in their column.
        Some((flag, about)) if about.starts_with("  ") => {
            format!("{flag}{:width$}{about}", "", width = SWITCH.len())
        }
        _ => line.replace(SWITCH, ""),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The commands, in groups.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("Author", &["init", "edit", "template", "render", "migrate", "bundle", "schema", "explain"]),
    (
        "Look and check",
        &[
            "validate",
            "list",
            "graph",
            "diff",
            "check-upgrades",
            "resolve",
            "upgrade-path",
            "why",
            "rehearse",
            "security",
            "crd-diff",
        ],
    ),
    ("Build and serve", &["build", "generate", "unpack", "serve", "preview", "site"]),
    ("Images and mirrors", &["copy", "mirror", "verify"]),
    ("Clusters", &["run", "cleanup", "catalog", "controller"]),
    ("Older formats", &["index", "registry"]),
    ("Others", &["completion", "man", "version", "help"]),
];

/// Texts that `opm help NAME` prints besides the help of commands.
pub(crate) const TOPICS: [(&str, &str, &str); 3] = [
    ("exit-codes", "what the exit codes mean", include_str!("help/exit-codes.txt")),
    ("environment", "the variables that opm reads", include_str!("help/environment.txt")),
    ("sources", "what can be named as a catalog or bundle", include_str!("help/sources.txt")),
];

/// Returns the topic that `opm help NAME` asks about.
pub(crate) fn topic(arguments: &[OsString]) -> Option<&'static str> {
    let [_, help, name] = arguments else { return None };
    let (_, _, text) = TOPICS.iter().find(|(topic, _, _)| help == "help" && name == topic)?;
    Some(text)
}

/// Lists the commands of the program in groups.
pub(crate) fn grouped(command: Command) -> Command {
    let mut text = String::new();
    let names = || command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name);
    let width = names().map(str::len).max().unwrap_or_default();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "\n{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print the help of a command or one of the topics below".to_owned());
            let _ = writeln!(text, "  {name:width$}  {about}");
        }
    }
    if let Some(alpha) = command.find_subcommand("alpha").filter(|alpha| !alpha.is_hide_set()) {
        let about = alpha.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "\nAlpha:\n  {:width$}  {about}", "alpha");
    }
    text += "\nTopics of 'opm help':\n";
    for (name, about, _) in TOPICS {
        let _ = writeln!(text, "  {name:width$}  {about}");
    }
    command.help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{text}{{after-help}}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = crate::cli::command();
        let visible: BTreeSet<&str> =
            command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(grouped.iter().copied().filter(|name| *name != "help").collect::<BTreeSet<_>>(), visible);
        assert_eq!(grouped.len(), visible.len() + 1, "a command is in two groups");
    }

    #[test]
    fn the_values_of_switches_are_left_out() {
        assert_eq!(
            printed("  --deps[=<true|false>]  Also\n[--deps[=<true|false>]]"),
            "  --deps                 Also\n[--deps]"
        );
    }

    /// Returns the text of all Rust sources below a directory.
    fn sources(directory: &Path, text: &mut String) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                *text += &fs::read_to_string(path).unwrap();
            }
        }
    }

    #[test]
    fn the_variables_of_the_topic_are_read() {
        let mut code = String::new();
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap() {
            let source = entry.unwrap().path().join("src");
            if source.is_dir() {
                sources(&source, &mut code);
            }
        }
        let (_, _, topic) = TOPICS[1];
        let words = topic.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let variables: BTreeSet<&str> =
            words.filter(|word| word.len() > 3 && word.contains('_') && word.to_uppercase() == *word).collect();
        assert!(variables.len() > 20, "{variables:?}");
        let unread: Vec<&&str> = variables.iter().filter(|name| !code.contains(&format!("\"{name}\""))).collect();
        assert!(unread.is_empty(), "{unread:?}");
        // Variables of tests begin with OPM_TEST; the others are named after what they are for.
        let limit = concat!("OPM_", "MAX_");
        let ours = code.split('"').filter(|word| word.starts_with(limit) && word.len() > limit.len());
        let unlisted: BTreeSet<&str> = ours.filter(|name| !variables.contains(name)).collect();
        assert!(unlisted.is_empty(), "{unlisted:?}");
    }
}
