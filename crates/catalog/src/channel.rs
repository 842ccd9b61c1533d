//! One channel, indexed: its heads, its chain, stranded entries, and the upgrade of each bundle.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use fbc::blob::ChannelEntry;
use fbc::range::{RangeError, VersionRange};
use fbc::step_counter;
use fbc::version::Version;

/// The entries of a channel by number, and the relations between them.
///
/// Construction takes one pass; every operation is at most linear in the length of the channel. An unchecked channel
/// may list a name twice: then the last entry of that name counts.
#[derive(Debug)]
pub struct ChannelView<'a> {
    entries: Vec<&'a ChannelEntry>,
    numbers: HashMap<&'a str, usize>,
    replaced: HashSet<&'a str>,
    skipped: HashSet<&'a str>,
}

/// The entries that `replaces` leads to from an entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Chain {
    /// The entries in order, including the first.
    pub numbers: Vec<usize>,
    /// The entry that the chain returns to, if it has a cycle.
    pub cycle: Option<usize>,
}

impl<'a> ChannelView<'a> {
    /// Indexes the entries of a channel.
    pub fn new(entries: impl IntoIterator<Item = &'a ChannelEntry>) -> ChannelView<'a> {
        let entries: Vec<&ChannelEntry> = entries.into_iter().collect();
        step_counter::steps(entries.iter().map(|entry| 1 + entry.skips.len()).sum());
        ChannelView {
            numbers: entries.iter().enumerate().map(|(number, entry)| (&*entry.name, number)).collect(),
            replaced: entries.iter().map(|entry| &*entry.replaces).collect(),
            skipped: entries.iter().flat_map(|entry| entry.skips.iter().map(|skip| &**skip)).collect(),
            entries,
        }
    }

    /// Returns all entries as listed; numbers are indexes into this slice.
    pub fn entries(&self) -> &[&'a ChannelEntry] {
        &self.entries
    }

    /// Returns the number of the entry called `name`.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// Returns the entry called `name`.
    pub fn entry(&self, name: &str) -> Option<&'a ChannelEntry> {
        self.number(name).map(|number| self.entries[number])
    }

    /// Returns whether some entry skips the bundle called `name`.
    pub fn is_skipped(&self, name: &str) -> bool {
        self.skipped.contains(name)
    }

    /// Returns whether some entry replaces the bundle called `name`.
    pub fn is_replaced(&self, name: &str) -> bool {
        self.replaced.contains(name)
    }

    /// Returns the entries that no entry replaces or skips, as listed.
    pub fn heads(&self) -> Vec<usize> {
        step_counter::steps(self.entries.len());
        let is_head = |entry: &ChannelEntry| !self.is_replaced(&entry.name) && !self.is_skipped(&entry.name);
        (0..self.entries.len()).filter(|&number| is_head(self.entries[number])).collect()
    }

    /// Returns the entry that an entry replaces, if the channel lists it.
    pub fn replaced_entry(&self, number: usize) -> Option<usize> {
        step_counter::step();
        self.number(&self.entries[number].replaces)
    }

    /// Follows `replaces` from an entry as far as the channel lists what is replaced.
    pub fn chain(&self, from: usize) -> Chain {
        self.follow(from, |_| true)
    }

    /// Like [`ChannelView::chain`], but ends before an entry that some entry skips: no upgrade leads there.
    pub fn trunk(&self, from: usize) -> Chain {
        self.follow(from, |number| !self.is_skipped(&self.entries[number].name))
    }

    fn follow(&self, from: usize, goes_on: impl Fn(usize) -> bool) -> Chain {
        let mut numbers = vec![from];
        let mut seen = HashSet::from([from]);
        let mut at = from;
        while let Some(next) = self.replaced_entry(at).filter(|&next| goes_on(next)) {
            if !seen.insert(next) {
                return Chain { numbers, cycle: Some(next) };
            }
            numbers.push(next);
            at = next;
        }
        Chain { numbers, cycle: None }
    }

    /// Returns the entries that are neither on the trunk from `head` nor skipped, as listed.
    pub fn stranded(&self, head: usize) -> Vec<usize> {
        let reached: HashSet<&str> =
            self.trunk(head).numbers.into_iter().map(|number| &*self.entries[number].name).collect();
        let lost = |entry: &ChannelEntry| !reached.contains(&*entry.name) && !self.is_skipped(&entry.name);
        (0..self.entries.len()).filter(|&number| lost(self.entries[number])).collect()
    }

    /// Returns for each entry the end of the chain from it.
    pub(crate) fn ends(&self) -> Vec<ChainEnd> {
        let mut ends: Vec<Option<ChainEnd>> = vec![None; self.entries.len()];
        let mut on_way = vec![false; self.entries.len()];
        for start in 0..self.entries.len() {
            let mut way = Vec::new();
            let mut at = Some(start);
            let mut end = loop {
                let Some(number) = at else { break ChainEnd::Last(None) };
                if let Some(known) = ends[number] {
                    break known;
                }
                if on_way[number] {
                    break ChainEnd::Cycle;
                }
                on_way[number] = true;
                way.push(number);
                at = self.replaced_entry(number);
            };
            for number in way.into_iter().rev() {
                if end == ChainEnd::Last(None) && !self.is_skipped(&self.entries[number].name) {
                    end = ChainEnd::Last(Some(number));
                }
                ends[number] = Some(end);
            }
        }
        ends.into_iter().map(|end| end.unwrap_or(ChainEnd::Cycle)).collect()
    }
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainEnd {
    /// It has a cycle.
    Cycle,
    /// The last entry that no entry skips, if there is one.
    Last(Option<usize>),
}

/// Bundles with versions, newest first, to find those in a range by binary search.
#[derive(Debug)]
pub(crate) struct Versioned<'v> {
    /// The rows of the bundles, their indexes among all bundles, with versions.
    rows: Vec<(usize, &'v Version)>,
}

/// The bundles that a `skipRange` covers.
#[derive(Debug)]
pub(crate) struct Reach {
    /// Index ranges in [`Versioned`].
    pub(crate) runs: Vec<Range<usize>>,
    /// The parse error, if the text is not a valid range.
    pub(crate) error: Option<RangeError>,
}

impl<'v> Versioned<'v> {
    /// Indexes bundles that are sorted, newest first.
    pub(crate) fn in_order(versions: impl Iterator<Item = Option<&'v Version>>) -> Versioned<'v> {
        Versioned { rows: versions.enumerate().filter_map(|(row, version)| Some((row, version?))).collect() }
    }

    /// Sorts and indexes bundles.
    fn sorted(versions: impl Iterator<Item = Option<&'v Version>>) -> Versioned<'v> {
        let mut versioned = Versioned::in_order(versions);
        versioned.rows.sort_by(|(_, a), (_, b)| {
            step_counter::step();
            b.cmp_precedence(a)
        });
        versioned
    }

    /// Returns the bundles that the range `text` covers.
    pub(crate) fn reach(&self, text: &str) -> Reach {
        let range = match VersionRange::parse(text) {
            Ok(range) => range,
            Err(error) => return Reach { runs: Vec::new(), error: Some(error) },
        };
        let mut cuts = vec![0, self.rows.len()];
        for boundary in range.boundaries() {
            step_counter::steps(self.rows.len().checked_ilog2().unwrap_or_default() as usize);
            cuts.push(self.rows.partition_point(|(_, version)| version.cmp_precedence(boundary).is_gt()));
            cuts.push(self.rows.partition_point(|(_, version)| version.cmp_precedence(boundary).is_ge()));
        }
        cuts.sort_unstable();
        cuts.dedup();
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (&start, &end) in cuts.iter().zip(cuts.iter().skip(1)) {
            if !range.contains(self.rows[start].1) {
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => runs.push(start..end),
            }
        }
        Reach { runs, error: None }
    }

    /// Returns the index of a row, for sorted bundles.
    pub(crate) fn place(&self, row: usize) -> Option<usize> {
        self.rows.binary_search_by_key(&row, |(row, _)| *row).ok()
    }

    /// Converts a range of indexes into a range of rows, for sorted bundles.
    pub(crate) fn rows(&self, run: &Range<usize>) -> Range<usize> {
        let row = |place: usize| self.rows.get(place).map_or(0, |(row, _)| *row);
        row(run.start)..row(run.end.saturating_sub(1)) + 1
    }
}

/// The upgrade of each bundle; the first one found counts.
#[derive(Debug)]
pub(crate) struct Upgrades<'v> {
    versioned: &'v Versioned<'v>,
    decided: Vec<bool>,
    next: Vec<Option<usize>>,
    /// For each index in `versioned`, an index at or behind it from which bundles may be undecided (union-find).
    free: Vec<usize>,
}

impl<'v> Upgrades<'v> {
    pub(crate) fn new(bundles: usize, versioned: &'v Versioned<'v>) -> Upgrades<'v> {
        let free = (0..=versioned.rows.len()).collect();
        Upgrades { versioned, decided: vec![false; bundles], next: vec![None; bundles], free }
    }

    /// Records that `from` upgrades to `to`.
    pub(crate) fn set(&mut self, from: usize, to: usize) {
        step_counter::step();
        if !self.decided[from] {
            self.decided[from] = true;
            self.next[from] = Some(to);
        }
    }

    /// Records that a bundle has no upgrade.
    pub(crate) fn set_none(&mut self, at: usize) {
        self.decided[at] = true;
    }

    /// Records the upgrade of all undecided bundles in a range; each index is visited once in total.
    pub(crate) fn set_range(&mut self, run: Range<usize>, to: usize) {
        let mut place = self.first_undecided(run.start);
        while place < run.end {
            self.set(self.versioned.rows[place].0, to);
            self.free[place] = place + 1;
            place = self.first_undecided(place);
        }
    }

    /// Returns the upgrade of each bundle.
    pub(crate) fn into_next(self) -> Vec<Option<usize>> {
        self.next
    }

    fn first_undecided(&mut self, place: usize) -> usize {
        let mut root = place;
        while self.free[root] != root {
            step_counter::step();
            root = self.free[root];
        }
        // Path compression.
        let mut at = place;
        while self.free[at] != root {
            at = std::mem::replace(&mut self.free[at], root);
        }
        root
    }
}

/// Returns for each of `bundles` the first of `candidates` that it upgrades to: one that replaces or skips it, or whose
/// `skipRange` contains its version. An invalid range is ignored.
pub fn next_upgrades(bundles: &[(&str, Option<&Version>)], candidates: &[&ChannelEntry]) -> Vec<Option<usize>> {
    let numbers: HashMap<&str, usize> = bundles.iter().enumerate().map(|(number, (name, _))| (*name, number)).collect();
    let versioned = Versioned::sorted(bundles.iter().map(|(_, version)| *version));
    let mut steps = Upgrades::new(bundles.len(), &versioned);
    for (to, entry) in candidates.iter().enumerate() {
        for from in entry.skips.iter().chain([&entry.replaces]).filter_map(|name| numbers.get(&**name)) {
            steps.set(*from, to);
        }
        if !entry.skip_range.is_empty() {
            versioned.reach(&entry.skip_range).runs.into_iter().for_each(|run| steps.set_range(run, to));
        }
    }
    steps.into_next()
}

/// Follows the next-pointers from every index, and returns the end and the number of steps. A path ends where it would
/// revisit an index.
pub fn path_ends(nexts: &[Option<usize>]) -> Vec<(usize, usize)> {
    let mut ends: Vec<Option<(usize, usize)>> = vec![None; nexts.len()];
    // The position of each index on the current path; the ends of earlier paths are known.
    let mut on_way: Vec<Option<usize>> = vec![None; nexts.len()];
    for start in 0..nexts.len() {
        let mut way = Vec::new();
        let mut at = start;
        // What follows the last index of the path: its end, and the steps to it.
        let (end, mut steps) = loop {
            step_counter::step();
            if let Some((end, steps)) = ends[at] {
                break (end, steps);
            }
            if let Some(first) = on_way[at] {
                let round = way.len() - first;
                for &place in &way[first..] {
                    ends[place] = Some((place, round));
                }
                way.truncate(first);
                break (at, round);
            }
            on_way[at] = Some(way.len());
            way.push(at);
            match nexts[at] {
                Some(next) => at = next,
                None => {
                    way.pop();
                    ends[at] = Some((at, 0));
                    break (at, 0);
                }
            }
        };
        for place in way.into_iter().rev() {
            steps += 1;
            ends[place] = Some((end, steps));
        }
    }
    ends.into_iter().map(|end| end.unwrap_or((0, 0))).collect()
}

#[cfg(test)]
mod tests;
