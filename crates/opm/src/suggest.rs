//! Suggestions for unknown commands.

use clap::Command;
use clap::error::{ContextKind, ContextValue};

use ::catalog::rules::distance;

/// Suggests the commands nearest to an unknown word, from all command groups.
pub(crate) fn commands(command: &Command, error: &mut clap::Error) {
    const MAX_SUGGESTIONS: usize = 4;
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let mut found = Vec::new();
    find_word(command, command.get_name(), word, &mut found);
    found.sort();
    let nearest = found.first().map(|(distance, _)| *distance);
    // A typo in this group is more likely than a command of another group.
    let mut here = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    };
    // Among names at the same distance, prefer one with the same letters.
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let far = |name: &String| (distance(word, name), letters(word) != letters(name));
    here.sort_by_key(far);
    let names: Vec<String> = if nearest != Some(0) && (found.is_empty() || here.iter().any(|name| is_near(word, name)))
    {
        let least = here.first().map(far);
        here.into_iter().take_while(|name| Some(far(name)) == least).collect()
    } else {
        let all = found.into_iter().filter(|(distance, _)| Some(*distance) == nearest);
        all.map(|(_, name)| current_name(name)).take(MAX_SUGGESTIONS).collect()
    };
    if !names.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
    }
}

/// Returns the current name of a command that older tools name differently.
fn current_name(name: String) -> String {
    const PROMOTED: [(&str, &str); 3] = [
        ("opm alpha render-graph", "opm graph"),
        ("opm alpha render-template", "opm template render"),
        ("opm alpha convert-template", "opm template convert"),
    ];
    PROMOTED.iter().find(|(older, _)| *older == name).map_or(name, |(_, today)| (*today).to_owned())
}

/// Collects the commands below `path` whose last word is near `word`, as edit distance and full command.
fn find_word(command: &Command, path: &str, word: &str, found: &mut Vec<(usize, String)>) {
    for sub in command.get_subcommands() {
        let full = format!("{path} {}", sub.get_name());
        if is_near(word, sub.get_name()) {
            found.push((distance(word, sub.get_name()), full.clone()));
        }
        find_word(sub, &full, word, found);
    }
}

fn is_near(word: &str, name: &str) -> bool {
    distance(word, name) <= if word.len() < 5 { 1 } else { 2 }
}
