//! Suggestions for unknown commands.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue};

use ::catalog::rules::distance;

/// The number of suggested commands.
const SHOWN_SUGGESTIONS: usize = 4;

/// Words that are no command, and the command that does it.
const MEANT: [(&str, &str); 3] = [
    ("install", "opm run bundle"),
    ("semver", "opm template render semver"),
    ("composite", "opm template render composite"),
];

/// The current names of commands that older tools name differently.
const PROMOTED: [(&str, &str); 6] = [
    ("opm alpha list", "opm list"),
    ("opm alpha bundle", "opm bundle"),
    ("opm alpha generate", "opm generate"),
    ("opm alpha render-graph", "opm graph"),
    ("opm alpha render-template", "opm template render"),
    ("opm alpha convert-template", "opm template convert"),
];

/// How near a command is to a word: the nearest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    Exact,
    /// The command starts with the word.
    Start,
    /// A typo: the edit distance, and whether letters differ.
    Typo(usize, bool),
}

/// Suggests the commands nearest to an unknown word.
///
/// Commands of its own group come first: one that starts with the word, or a typo unless another group has a command of
/// exactly that name.
pub(crate) fn commands(command: &Command, arguments: &[OsString], error: &mut clap::Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let group = group_of(command, arguments, word);
    let mut here: Vec<(Match, String)> = Vec::new();
    for sub in group.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        here.extend(nearest_name(sub, word).map(|how| (how, sub.get_name().to_owned())));
    }
    here.sort();
    let mut elsewhere = Vec::new();
    find_word(command, command.get_name(), word, &mut elsewhere);
    elsewhere.sort();
    let meant = MEANT.iter().filter(|(meant, _)| meant == word).map(|(_, name)| (*name).to_owned());
    let mut names: Vec<String> = meant.collect();
    let exact_elsewhere = elsewhere.first().is_some_and(|(how, ..)| *how == Match::Exact);
    match here.first() {
        _ if !names.is_empty() => {}
        Some((best, _)) if *best <= Match::Start || !exact_elsewhere => {
            names.extend(here.iter().take_while(|(how, _)| how == best).map(|(_, name)| name.clone()));
        }
        _ => {
            let best = elsewhere.first().map(|(how, ..)| *how);
            let alike = |how: Match| matches!(how, Match::Exact | Match::Start) || Some(how) == best;
            for (_, _, name) in elsewhere.into_iter().take_while(|(how, ..)| alike(*how)) {
                let name = current_name(name);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
    names.truncate(SHOWN_SUGGESTIONS);
    match names.is_empty() {
        // clap's own suggestion is not near.
        true => drop(error.remove(ContextKind::SuggestedSubcommand)),
        false => drop(error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names))),
    }
}

/// Returns the command group in which `word` was typed.
fn group_of<'a>(command: &'a Command, arguments: &[OsString], word: &str) -> &'a Command {
    let typed = arguments.iter().skip(1).filter_map(|argument| argument.to_str());
    typed
        .take_while(|argument| *argument != word)
        .fold(command, |group, argument| group.find_subcommand(argument).unwrap_or(group))
}

/// Returns how near the name of a command, or one of its aliases, is to `word`.
fn nearest_name(command: &Command, word: &str) -> Option<Match> {
    std::iter::once(command.get_name()).chain(command.get_visible_aliases()).filter_map(|name| near(word, name)).min()
}

fn near(word: &str, name: &str) -> Option<Match> {
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    // Swapped letters count as two edits.
    let other_letters = letters(word) != letters(name);
    let typos = if word.len() < 5 && other_letters { 1 } else { 2 };
    match distance(word, name) {
        0 => Some(Match::Exact),
        _ if word.len() > 2 && name.starts_with(word) => Some(Match::Start),
        // Among names at the same distance, prefer one with the same letters.
        distance if distance <= typos => Some(Match::Typo(distance, other_letters)),
        _ => None,
    }
}

/// Collects the commands below `path` that are near `word`: how near, whether the command is deprecated, and its name.
fn find_word(command: &Command, path: &str, word: &str, found: &mut Vec<(Match, bool, String)>) {
    for sub in command.get_subcommands() {
        let full = format!("{path} {}", sub.get_name());
        if let Some(how) = nearest_name(sub, word).filter(|_| !sub.get_name().starts_with("__")) {
            found.push((how, sub.get_before_help().is_some(), full.clone()));
        }
        find_word(sub, &full, word, found);
    }
}

fn current_name(name: String) -> String {
    let today = |(older, today): &(&str, &str)| Some(format!("{today}{}", name.strip_prefix(older)?));
    PROMOTED.iter().find_map(today).unwrap_or(name)
}
