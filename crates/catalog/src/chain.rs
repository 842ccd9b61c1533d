//! A channel in the order in which clusters of the first generation choose from it.

use std::collections::{HashMap, HashSet};

use fbc::blob::Entry;
use fbc::range::VersionRange;
use fbc::version::Version;

/// Why a channel has no order. The words are those of cluster software, once package and channel are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainError {
    /// Every entry is replaced or skipped.
    NoHead,
    /// What is replaced leads back to where it came from.
    Cycle(String),
    /// Several entries are neither replaced nor skipped; the first and the last of the chain of each.
    Several(Vec<(String, String)>),
}

impl ChainError {
    /// Says it as clusters do.
    pub fn message(&self, package: &str, channel: &str) -> String {
        let place = format!("channel {channel:?} of package {package:?}");
        match self {
            ChainError::NoHead => format!("no channel heads (entries not replaced by another entry) found in {place}"),
            ChainError::Cycle(head) => {
                format!("a cycle exists in the chain of replacement beginning with {head:?} in {place}")
            }
            ChainError::Several(chains) => {
                let shown: Vec<String> = chains
                    .iter()
                    .map(|(first, last)| if first == last { first.clone() } else { format!("{first}...{last}") })
                    .collect();
                format!(
                    "a unique replacement chain within a channel is required to determine the relative order between \
                     channel entries, but {} replacement chains were found in {place}: {}",
                    chains.len(),
                    shown.join(", ")
                )
            }
        }
    }

    /// Returns the entries that are neither replaced nor skipped.
    pub fn heads(&self) -> Vec<&str> {
        match self {
            ChainError::NoHead => Vec::new(),
            ChainError::Cycle(head) => vec![head],
            ChainError::Several(chains) => chains.iter().map(|(first, _)| first.as_str()).collect(),
        }
    }
}

/// Returns the places of the entries that clusters choose from, the head first.
///
/// From the one entry that no entry replaces or skips, `replaces` leads on as long as what is replaced is there. Entries
/// that any entry skips are walked through and left out. `skipRange` plays no part.
///
/// # Errors
/// Fails when there is not exactly one such chain.
pub fn chain(entries: &[&Entry]) -> Result<Vec<usize>, ChainError> {
    let places: HashMap<&str, usize> = entries.iter().enumerate().map(|(place, entry)| (&*entry.name, place)).collect();
    let skipped: HashSet<&str> = entries.iter().flat_map(|entry| entry.skips.iter().map(|skip| &**skip)).collect();
    let replaced: HashSet<&str> = entries.iter().map(|entry| &*entry.replaces).collect();
    let mut heads: Vec<usize> = (0..entries.len())
        .filter(|&place| !skipped.contains(&*entries[place].name) && !replaced.contains(&*entries[place].name))
        .collect();
    heads.sort_by(|&a, &b| entries[a].name.cmp(&entries[b].name));
    let mut chains = Vec::new();
    for head in heads {
        let mut chain = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Some(head);
        while let Some(place) = next {
            if !seen.insert(place) {
                return Err(ChainError::Cycle(entries[head].name.to_string()));
            }
            if !skipped.contains(&*entries[place].name) {
                chain.push(place);
            }
            next = places.get(&*entries[place].replaces).copied();
        }
        chains.push(chain);
    }
    match chains.len() {
        0 if entries.is_empty() => Ok(Vec::new()),
        0 => Err(ChainError::NoHead),
        1 => Ok(chains.remove(0)),
        _ => {
            let name = |place: Option<&usize>| place.map(|&place| entries[place].name.to_string()).unwrap_or_default();
            Err(ChainError::Several(chains.iter().map(|chain| (name(chain.first()), name(chain.last()))).collect()))
        }
    }
}

/// How an entry says that something upgrades to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// It replaces the bundle.
    Replaces,
    /// It skips the bundle.
    Skips,
    /// The version of the bundle lies in its `skipRange`.
    SkipRange,
}

impl Edge {
    /// Returns the field of an entry that says so.
    pub fn field(self) -> &'static str {
        match self {
            Edge::Replaces => "replaces",
            Edge::Skips => "skips",
            Edge::SkipRange => "skipRange",
        }
    }

    /// Tells whether and how the bundle `name` of some version upgrades to `entry`. A range that is none is ignored.
    pub fn between(entry: &Entry, name: &str, version: Option<&Version>) -> Option<Edge> {
        if !name.is_empty() && *entry.replaces == *name {
            return Some(Edge::Replaces);
        }
        if entry.skips.iter().any(|skip| **skip == *name) {
            return Some(Edge::Skips);
        }
        let range = VersionRange::parse(&entry.skip_range).ok().filter(|_| !entry.skip_range.is_empty())?;
        version.filter(|version| range.contains(version)).map(|_| Edge::SkipRange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads entries like `b<a,c`: b replaces a and skips c.
    fn told(text: &str) -> String {
        let entries: Vec<Entry> = text
            .split(' ')
            .map(|entry| {
                let (name, edges) = entry.split_once('<').unwrap_or((entry, ""));
                let (replaces, skips) = edges.split_once(',').unwrap_or((edges, ""));
                let skips = skips.split(',').filter(|skip| !skip.is_empty()).map(Into::into).collect();
                Entry { name: name.into(), replaces: replaces.into(), skips, skip_range: "".into() }
            })
            .collect();
        let entries: Vec<&Entry> = entries.iter().collect();
        match chain(&entries) {
            Ok(chain) => chain.into_iter().map(|place| &*entries[place].name).collect::<Vec<_>>().join(" "),
            Err(error) => error.message("p", "c"),
        }
    }

    #[test]
    fn clusters_choose_along_what_is_replaced() {
        assert_eq!(told("a b<a c<b"), "c b a");
        assert_eq!(told("a b<a c<b,b"), "c a");
        assert_eq!(told("a b<a c<,b"), "c");
        assert_eq!(told("c<b"), "c");
        assert_eq!(
            told("a c<b"),
            "a unique replacement chain within a channel is required to determine the relative order between channel \
             entries, but 2 replacement chains were found in channel \"c\" of package \"p\": a, c"
        );
        assert_eq!(
            told("a<b b<a"),
            "no channel heads (entries not replaced by another entry) found in channel \"c\" of package \"p\""
        );
        assert_eq!(
            told("h<a a<b b<a"),
            "a cycle exists in the chain of replacement beginning with \"h\" in channel \"c\" of package \"p\""
        );
    }
}
