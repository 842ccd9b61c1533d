//! The order in which clusters of the first generation choose from a channel.

use fbc::blob::ChannelEntry;
use fbc::range::VersionRange;
use fbc::version::Version;

use crate::channel::{ChainEnd, ChannelView};

/// The reason why a channel has no order. The messages are those of the cluster software, with package and channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainError {
    /// Every entry is replaced or skipped.
    NoHead,
    /// The `replaces` chain has a cycle.
    Cycle(String),
    /// Several entries are neither replaced nor skipped; the first and last entry of the chain of each.
    Several(Vec<(String, String)>),
}

impl ChainError {
    /// Returns the message of the cluster software.
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

/// Returns the numbers of the entries that clusters choose from, the head first.
///
/// From the one entry that no entry replaces or skips, the chain follows `replaces` while the replaced entry exists.
/// Entries that any entry skips are passed through but left out. `skipRange` plays no part.
///
/// # Errors
/// Fails unless there is exactly one such chain.
pub fn chain(view: &ChannelView<'_>) -> Result<Vec<usize>, ChainError> {
    let name = |number: usize| &*view.entries()[number].name;
    let mut heads = view.heads();
    heads.sort_by_key(|&head| name(head));
    match heads.as_slice() {
        [] if view.entries().is_empty() => Ok(Vec::new()),
        [] => Err(ChainError::NoHead),
        [head] => {
            let chain = view.chain(*head);
            if chain.cycle.is_some() {
                return Err(ChainError::Cycle(name(*head).to_owned()));
            }
            Ok(chain.numbers.into_iter().filter(|&number| !view.is_skipped(name(number))).collect())
        }
        several => {
            let ends = view.ends();
            let mut chains = Vec::new();
            for &head in several {
                match ends[head] {
                    ChainEnd::Cycle => return Err(ChainError::Cycle(name(head).to_owned())),
                    ChainEnd::Last(last) => {
                        chains.push((name(head).to_owned(), name(last.unwrap_or(head)).to_owned()));
                    }
                }
            }
            Err(ChainError::Several(chains))
        }
    }
}

/// The kind of an upgrade edge to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryEdge {
    /// It replaces the bundle.
    Replaces,
    /// It skips the bundle.
    Skips,
    /// The version of the bundle lies in its `skipRange`.
    SkipRange,
}

impl EntryEdge {
    /// Returns the field of an entry that declares the edge.
    pub fn field(self) -> &'static str {
        match self {
            EntryEdge::Replaces => "replaces",
            EntryEdge::Skips => "skips",
            EntryEdge::SkipRange => "skipRange",
        }
    }

    /// Returns the edge by which the bundle `name` upgrades to `entry`, if there is one. An invalid range is ignored.
    pub fn between(entry: &ChannelEntry, name: &str, version: Option<&Version>) -> Option<EntryEdge> {
        if !name.is_empty() && *entry.replaces == *name {
            return Some(EntryEdge::Replaces);
        }
        if entry.skips.iter().any(|skip| **skip == *name) {
            return Some(EntryEdge::Skips);
        }
        let range = VersionRange::parse(&entry.skip_range).ok().filter(|_| !entry.skip_range.is_empty())?;
        version.filter(|version| range.contains(version)).map(|_| EntryEdge::SkipRange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::entries;

    fn shown(text: &str) -> String {
        let entries = entries(text);
        match chain(&ChannelView::new(&entries)) {
            Ok(chain) => chain.into_iter().map(|place| &*entries[place].name).collect::<Vec<_>>().join(" "),
            Err(error) => error.message("p", "c"),
        }
    }

    #[test]
    fn clusters_select_along_replaced_entries() {
        assert_eq!(shown("a b<a c<b"), "c b a");
        assert_eq!(shown("a b<a c<b,b"), "c a");
        assert_eq!(shown("a b<a c<,b"), "c");
        assert_eq!(shown("c<b"), "c");
        assert_eq!(
            shown("a c<b"),
            "a unique replacement chain within a channel is required to determine the relative order between channel \
             entries, but 2 replacement chains were found in channel \"c\" of package \"p\": a, c"
        );
        assert_eq!(
            shown("a<b b<a"),
            "no channel heads (entries not replaced by another entry) found in channel \"c\" of package \"p\""
        );
        assert_eq!(
            shown("h<a a<b b<a"),
            "a cycle exists in the chain of replacement beginning with \"h\" in channel \"c\" of package \"p\""
        );
    }
}
