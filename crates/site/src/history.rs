//! Records what changed while a server ran: by digests, without keeping any catalog.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use edit::diff::changes::ChangeKind;

use crate::console::ConsoleStore;
use crate::summary::{ChannelSummary, PackageSummary, VersionSummary};

/// The number of recorded swaps.
const MAX_SWAPS: usize = 20;
/// The maximum number of packages that a swap names.
const PACKAGES: usize = 1000;

/// The replacement of a catalog by another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// The time, in RFC 3339.
    pub when: String,
    /// The previous revision.
    pub from: String,
    /// The new revision.
    pub to: String,
    /// The packages that differ, by name.
    pub packages: Vec<PackageSwap>,
    /// The number of packages that differ.
    pub count: usize,
}

/// The changes of a package in a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageSwap {
    /// Its name.
    pub name: String,
    /// Whether it was added, removed or changed.
    pub what: ChangeKind,
    /// Its channels.
    pub channels: Vec<(ChangeKind, String)>,
    /// Its bundles.
    pub bundles: Vec<(ChangeKind, String)>,
}

/// The last swaps, oldest first.
#[derive(Debug, Default)]
pub struct History(VecDeque<Swap>);

impl History {
    /// Records that a catalog replaced another.
    ///
    /// # Errors
    /// Fails when one of them cannot be read.
    pub fn record(&mut self, old: &dyn ConsoleStore, new: &dyn ConsoleStore, when: &str) -> io::Result<()> {
        let (from, to) = (old.revision(), new.revision());
        if from == to {
            return Ok(());
        }
        let mut packages = differences(old, new)?;
        let count = packages.len();
        packages.truncate(PACKAGES);
        self.0.push_back(Swap { when: when.to_owned(), from, to, packages, count });
        if self.0.len() > MAX_SWAPS {
            self.0.pop_front();
        }
        Ok(())
    }

    /// Returns the swaps, newest first; only those after a revision, if it is recorded.
    pub fn since(&self, revision: Option<&str>) -> Vec<Swap> {
        let start = revision.and_then(|revision| self.0.iter().position(|swap| swap.from == revision));
        self.0.iter().skip(start.unwrap_or_default()).rev().cloned().collect()
    }

    /// Returns how many packages differ between a recorded revision and the newest.
    pub fn changed_since(&self, revision: &str) -> Option<usize> {
        let start = self.0.iter().position(|swap| swap.from == revision)?;
        let names: BTreeSet<&str> =
            self.0.iter().skip(start).flat_map(|swap| &swap.packages).map(|package| package.name.as_str()).collect();
        Some(names.len())
    }

    /// Returns the newest swap.
    pub fn last(&self) -> Option<&Swap> {
        self.0.back()
    }
}

/// Compares two catalogs package by package; only packages whose page data differs are read.
fn differences(old: &dyn ConsoleStore, new: &dyn ConsoleStore) -> io::Result<Vec<PackageSwap>> {
    let (before, after) = (names(old), names(new));
    let mut found = Vec::new();
    for name in before.union(&after) {
        let read = |store: &dyn ConsoleStore, there: bool| if there { store.summary(name).map(Some) } else { Ok(None) };
        let (a, b) = (read(old, before.contains(name))?, read(new, after.contains(name))?);
        if a == b {
            continue;
        }
        let (a, b) = (PackageContents::of(a.as_deref()), PackageContents::of(b.as_deref()));
        let what = match (before.contains(name), after.contains(name)) {
            (false, _) => ChangeKind::Added,
            (_, false) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        };
        found.push(PackageSwap {
            name: name.clone(),
            what,
            channels: compared(&a.channels, &b.channels),
            bundles: compared(&a.bundles, &b.bundles),
        });
    }
    Ok(found)
}

fn names(store: &dyn ConsoleStore) -> BTreeSet<String> {
    store.packages().into_iter().collect()
}

/// Channels and bundles of a package, by name, with a fingerprint of their content.
#[derive(Default)]
struct PackageContents {
    channels: BTreeMap<String, String>,
    bundles: BTreeMap<String, String>,
}

impl PackageContents {
    fn of(summary: Option<&[u8]>) -> PackageContents {
        let Some(package) = summary.and_then(PackageSummary::read) else { return PackageContents::default() };
        let channel =
            |channel: ChannelSummary| (channel.name.clone(), serde_json::to_string(&channel).unwrap_or_default());
        let bundle = |bundle: VersionSummary| (bundle.name.clone(), serde_json::to_string(&bundle).unwrap_or_default());
        PackageContents {
            channels: package.detail.channels.into_iter().map(channel).collect(),
            // Image indexes change when another bundle adds an image.
            bundles: package
                .detail
                .bundles
                .into_iter()
                .map(|one| bundle(VersionSummary { images: Vec::new(), ..one }))
                .collect(),
        }
    }
}

fn compared(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<(ChangeKind, String)> {
    let mut all: Vec<(ChangeKind, String)> = Vec::new();
    for (name, content) in new {
        match old.get(name) {
            None => all.push((ChangeKind::Added, name.clone())),
            Some(before) if before != content => all.push((ChangeKind::Changed, name.clone())),
            Some(_) => {}
        }
    }
    all.extend(old.keys().filter(|name| !new.contains_key(*name)).map(|name| (ChangeKind::Removed, name.clone())));
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(&'static str, Vec<PackageSummary>);

    impl ConsoleStore for Fixed {
        fn revision(&self) -> String {
            self.0.to_owned()
        }
        fn packages(&self) -> Vec<String> {
            self.1.iter().map(|package| package.row.name.clone()).collect()
        }
        fn summary(&self, package: &str) -> io::Result<Vec<u8>> {
            Ok(self.1.iter().find(|one| one.row.name == package).unwrap().write())
        }
        fn icon(&self, _: &str) -> io::Result<Vec<u8>> {
            Ok(Vec::new())
        }
        fn bundle(&self, _: &str, _: &str) -> io::Result<String> {
            Err(io::Error::other("none"))
        }
    }

    fn package(name: &str, bundles: &[(&str, &str)]) -> PackageSummary {
        let mut package = PackageSummary::default();
        package.row.name = name.to_owned();
        package.detail.bundles = bundles
            .iter()
            .map(|(name, digest)| VersionSummary {
                name: (*name).into(),
                digest: (*digest).into(),
                ..VersionSummary::default()
            })
            .collect();
        package
    }

    #[test]
    fn a_swap_records_added_removed_and_changed_content() {
        let one = Fixed("1", vec![package("a", &[("a.v1", "x"), ("a.v2", "y")]), package("b", &[]), package("c", &[])]);
        let two = Fixed("2", vec![package("a", &[("a.v1", "x"), ("a.v2", "z"), ("a.v3", "w")]), package("c", &[])]);
        let mut history = History::default();
        history.record(&one, &one, "now").unwrap();
        assert!(history.last().is_none(), "the same catalog is no change");
        history.record(&one, &two, "now").unwrap();
        let swap = history.last().unwrap();
        assert_eq!(
            swap.packages.iter().map(|one| (one.name.as_str(), one.what)).collect::<Vec<_>>(),
            [("a", ChangeKind::Changed), ("b", ChangeKind::Removed)]
        );
        assert_eq!(
            swap.packages[0].bundles,
            [(ChangeKind::Added, "a.v3".into()), (ChangeKind::Changed, "a.v2".into())]
        );
        history.record(&two, &one, "later").unwrap();
        assert_eq!(history.changed_since("1"), Some(2));
        assert_eq!(history.changed_since("2"), Some(2));
        assert_eq!(history.changed_since("3"), None);
        assert_eq!(history.since(Some("2")).len(), 1);
        for _ in 0..30 {
            history.record(&one, &two, "again").unwrap();
        }
        assert_eq!(history.since(None).len(), MAX_SWAPS);
    }
}
