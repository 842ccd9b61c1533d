//! Upgrade paths within a channel.

use std::collections::{BTreeSet, HashMap, HashSet};

use catalog::channel::ChannelView;
use catalog::{Channel, Package};

/// Returns the index of the entry called `name`.
pub(super) fn position(channel: &Channel, name: &str) -> Option<usize> {
    channel.entries().binary_search_by(|entry| (*entry.name).cmp(name)).ok()
}

/// Returns the index of the channel head.
pub(super) fn head(channel: &Channel) -> usize {
    position(channel, &channel.head().name).unwrap_or_default()
}

/// Returns whether a channel of a package contains a bundle.
pub(super) fn member(package: &Package, channel: &str, bundle: &str) -> bool {
    let channel = package.channels().iter().find(|found| found.name() == channel);
    channel.is_some_and(|channel| position(channel, bundle).is_some())
}

/// Returns the entries on the upgrade path from an entry to the head, including both, or `None` if there is no path.
///
/// Only `replaces` edges count. The path starts where the `replaces` chains of both entries meet, so it includes
/// branches above that entry.
pub(super) fn to_head(channel: &Channel, from: usize) -> Option<BTreeSet<usize>> {
    let view = ChannelView::new(channel.entries());
    let own = chain(&view, from);
    let known: HashSet<&str> = own.iter().copied().collect();
    let head = head(channel);
    let meeting = chain(&view, head).into_iter().find(|name| known.contains(name))?;
    let before: HashSet<&str> = own.iter().copied().take_while(|name| *name != meeting).collect();

    let mut newer: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, entry) in channel.entries().iter().enumerate().filter(|(_, entry)| !entry.replaces.is_empty()) {
        newer.entry(&entry.replaces).or_default().push(number);
    }
    let mut above = BTreeSet::new();
    let mut open = vec![meeting];
    while let Some(name) = open.pop() {
        for &number in newer.get(name).into_iter().flatten() {
            if above.insert(number) {
                open.push(&channel.entries()[number].name);
            }
        }
    }
    above.retain(|&number| !before.contains(&*channel.entries()[number].name));
    above.extend([from, head]);
    Some(above)
}

/// Returns a bundle and its transitive `replaces` targets, as far as the channel lists them.
fn chain<'a>(view: &ChannelView<'a>, from: usize) -> Vec<&'a str> {
    let chain = view.chain(from);
    let last = chain.numbers.last().filter(|_| chain.cycle.is_none()).map(|&last| &*view.entries()[last].replaces);
    let names = chain.numbers.iter().map(|&number| &*view.entries()[number].name);
    names.chain(last.filter(|name| !name.is_empty())).collect()
}
