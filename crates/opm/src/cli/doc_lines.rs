//! Checks that the program accepts the command lines in the documentation and in help.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// Splits an `opm` command line into words, with the shell syntax that the documentation uses. Returns `None` for other
/// lines.
fn words(line: &str) -> Option<Vec<OsString>> {
    let line = line.trim().strip_prefix("$ ").unwrap_or(line.trim());
    if !line.starts_with("opm ") {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    let (mut word, mut quote, mut started) = (String::new(), None, false);
    for c in line.chars().chain([' ']) {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                started = true;
            }
            (c, None) if c.is_whitespace() => {
                let end = matches!(word.as_str(), "|" | ">" | "<" | "&&" | "||" | ";" | "#");
                if end && !started {
                    break;
                }
                if started || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                started = false;
            }
            _ => word.push(c),
        }
    }
    // A synopsis is not a command line.
    let is_pattern = words.iter().any(|word| word == "..." || word.starts_with('[') || word == "COMMAND");
    (!is_pattern).then(|| words.into_iter().map(OsString::from).collect())
}

fn check(place: &str, text: &str, problems: &mut Vec<String>) -> usize {
    let mut count = 0;
    for line in text.replace("\\\n", " ").lines() {
        let Some(words) = words(line) else { continue };
        count += 1;
        if let Err(error) = command().try_get_matches_from(words)
            && error.use_stderr()
            && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        {
            problems.push(format!("{place}: {}\n  {error}", line.trim()));
        }
    }
    count
}

/// Returns the code blocks of a page.
fn code(page: &str) -> String {
    let mut fenced = false;
    let mut out = String::new();
    for line in page.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if fenced || line.starts_with("    ") {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[test]
fn documented_command_lines_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|page| root.join(page)).into();
    let listed = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(listed.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let mut problems = Vec::new();
    let mut count = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        count += check(&page.file_name().unwrap().to_string_lossy(), &code(&text), &mut problems);
    }
    assert!(count > 50, "{count} command lines");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns the commands that the tables of a page name.
fn named(page: &str) -> Vec<String> {
    let cells = page.lines().filter(|line| line.starts_with('|')).flat_map(|line| line.split('`').skip(1).step_by(2));
    cells.filter(|code| code.starts_with("opm ") || code.starts_with("operator-registry ")).map(str::to_owned).collect()
}

#[test]
fn the_designs_name_commands_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let commands = named(&fs::read_to_string(root.join("docs/designs.md")).unwrap());
    assert!(commands.len() > 50, "{} commands", commands.len());
    for line in commands {
        let line = line.replace("REF", "quay.io/example/catalog:v1");
        let (program, line) = match line.strip_prefix("operator-registry ") {
            Some(rest) => (crate::commands::operator_registry::command(), format!("opm {rest}")),
            None => (command(), line),
        };
        let Some(words) = words(&line) else { panic!("{line} is not a command line") };
        if let Err(error) = program.try_get_matches_from(words) {
            // A table names a command without all of its arguments.
            let is_short = matches!(
                error.kind(),
                ErrorKind::MissingRequiredArgument
                    | ErrorKind::MissingSubcommand
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            assert!(is_short, "{line}: {error}");
        }
    }
}

#[test]
fn examples_in_help_are_accepted() {
    fn examples(command: &Command, problems: &mut Vec<String>) -> usize {
        let help = command.get_after_help().map(|help| help::printed(&help.to_string())).unwrap_or_default();
        let own = check(command.get_name(), &help, problems);
        own + command.get_subcommands().map(|sub| examples(sub, problems)).sum::<usize>()
    }
    let mut problems = Vec::new();
    assert!(examples(&command(), &mut problems) > 80);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
