//! `opm __complete`: completes the word at the cursor: names of a catalog, and choices that clap does not know.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Arg, Command};
use fbc::blob::{BUNDLE, CHANNEL, PACKAGE};
use fbc::template::TemplateKind;
use fbc::{Fbc, LoadOptions};

use super::explain;
use crate::exit::CommandResult;
use crate::limits;
use crate::printer::Printer;

/// Print completions of the last word
#[derive(clap::Args)]
#[command(hide = true, disable_help_flag = true)]
pub(crate) struct CompleteArgs {
    /// The words of a command line up to the cursor
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// The forms of an install mode.
const INSTALL_MODES: [&str; 4] = ["AllNamespaces", "OwnNamespace", "SingleNamespace=", "MultiNamespace="];

/// How a database derives upgrade edges.
const MODES: [&str; 3] = ["replaces", "semver", "semver-skippatch"];

/// Prints names. If there are none, the scripts complete commands, flags and files.
pub(crate) fn run(args: &CompleteArgs, printer: &mut Printer) -> CommandResult {
    for name in names(&crate::cli::command(), &args.words).unwrap_or_default() {
        writeln!(printer.data(), "{name}")?;
    }
    Ok(())
}

/// Returns the completions of the last word.
fn names(command: &Command, words: &[String]) -> Option<BTreeSet<String>> {
    let (current, before) = words.split_last()?;
    let line = Line::read(command, before);
    let wanted = line.wanted(current)?;
    if let Some(words) = choices(wanted, &line.path) {
        return Some(words.into_iter().filter(|word| word.starts_with(current.as_str())).collect());
    }
    let schema = match (value_name(wanted), line.path.first().copied(), line.path.last().copied()) {
        ("PACKAGE" | "PACKAGE[@CHANNEL][=VERSION]" | "CATALOG... PACKAGE", ..) => PACKAGE,
        ("CHANNEL", ..) => CHANNEL,
        ("VERSION|BUNDLE", ..) => BUNDLE,
        // Elsewhere a bundle is a directory or an image.
        ("BUNDLE", Some("edit"), Some(verb)) if verb != "add-bundle" || !wanted.is_positional() => BUNDLE,
        _ => return None,
    };
    let catalog = line.given.iter().find(|(arg, value)| is_catalog(arg) && Path::new(value).is_dir())?.1;
    let package = line.given.iter().find(|(arg, _)| value_name(arg) == "PACKAGE").map(|(_, value)| *value);
    let mut fbc = Fbc::default();
    let options = LoadOptions { limits: limits::from_env().ok()?, keep_text: false, ..LoadOptions::default() };
    fbc.load_dir(Path::new(catalog), &options).ok()?;
    let of_package = |name: &str| schema == PACKAGE || package.is_none_or(|package| package == name);
    let found = fbc.blobs().iter().filter(|blob| &*blob.schema == schema && of_package(&blob.package));
    // Names with other characters would need quoting, which differs between shells.
    let plain = |name: &&str| name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.+~@/:".contains(&it));
    let names = found.map(|blob| &*blob.name).filter(plain).filter(|name| name.starts_with(current.as_str()));
    Some(names.map(str::to_owned).collect())
}

/// Returns the words that an argument accepts, if they are known without a catalog.
fn choices(wanted: &Arg, path: &[&str]) -> Option<Vec<String>> {
    match (value_name(wanted), path) {
        ("NAME", ["schema"]) => Some(catalog::schema::names()),
        ("NAME", ["explain"]) => Some(explain::names()),
        ("MODE", ["index" | "registry", ..]) => Some(MODES.map(str::to_owned).to_vec()),
        ("TYPE", _) => Some(
            TemplateKind::ALL.map(TemplateKind::name).into_iter().chain(["composite"]).map(str::to_owned).collect(),
        ),
        ("InstallModeValue", _) => Some(INSTALL_MODES.map(str::to_owned).to_vec()),
        _ => None,
    }
}

/// A partial command line.
struct Line<'a> {
    command: &'a Command,
    /// The names of the command and its subcommands.
    path: Vec<&'a str>,
    /// The arguments and their values so far.
    given: Vec<(&'a Arg, &'a str)>,
    /// The number of positional arguments so far.
    positionals: usize,
    /// The flag that expects a value next.
    flag: Option<&'a Arg>,
}

impl<'a> Line<'a> {
    fn read(command: &'a Command, words: &'a [String]) -> Line<'a> {
        let mut line = Line { command, path: Vec::new(), given: Vec::new(), positionals: 0, flag: None };
        for word in words {
            line.add(word);
        }
        line
    }

    fn add(&mut self, word: &'a str) {
        if let Some(flag) = self.flag.take() {
            self.given.push((flag, word));
            return;
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let flag = self.command.get_arguments().find(|arg| arg.get_long() == Some(name));
            self.note(flag, value);
        } else if let Some(short) = word.strip_prefix('-').filter(|short| !short.is_empty()) {
            let letter = short.chars().next();
            let flag = self.command.get_arguments().find(|arg| arg.get_short() == letter);
            let value = letter.map(|letter| &short[letter.len_utf8()..]).filter(|value| !value.is_empty());
            self.note(flag, value);
        } else if let Some(sub) = self.command.find_subcommand(word).filter(|_| self.positionals == 0) {
            self.command = sub;
            self.path.push(sub.get_name());
        } else {
            let positional = self.positional();
            self.given.extend(positional.map(|arg| (arg, word)));
            self.positionals += 1;
        }
    }

    fn note(&mut self, flag: Option<&'a Arg>, value: Option<&'a str>) {
        // A switch accepts a value only after an equals sign.
        let Some(flag) = flag.filter(|flag| flag.get_action().takes_values() && !flag.is_require_equals_set()) else {
            return;
        };
        match value {
            Some(value) => self.given.push((flag, value)),
            None => self.flag = Some(flag),
        }
    }

    /// Returns the argument of the next positional word.
    fn positional(&self) -> Option<&'a Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        all.get(self.positionals).or_else(|| all.last()).copied()
    }

    /// Returns the argument of the word at the cursor.
    fn wanted(&self, current: &str) -> Option<&'a Arg> {
        match self.flag {
            Some(flag) => Some(flag),
            None if current.starts_with('-') => None,
            None => self.positional(),
        }
    }
}

fn value_name(arg: &Arg) -> &str {
    arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str()).unwrap_or_default()
}

fn is_catalog(arg: &Arg) -> bool {
    let names = ["CATALOG", "SOURCE", "DIR", "OLD", "[NAME=]CATALOG", "BUNDLE|CATALOG", "CATALOG... PACKAGE"];
    arg.is_positional() && names.contains(&value_name(arg))
}
