//! Reduces a channel to some of its entries and the edges between them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use catalog::channel::ChannelView;

use crate::outline::{OutlineBundle, OutlineChannel};
use crate::set_edge::add;
use crate::upgrades;

/// Reduces a channel with a single head to the `wanted` entries and those between them.
///
/// Returns notes about further changes. Removed entries stay in `replaces` and `skips`, so that clusters that run them
/// can upgrade. An edge changes only where the chain would break.
pub(super) fn cut(
    package: &str,
    name: &str,
    channel: &mut OutlineChannel,
    wanted: &BTreeSet<String>,
    bundles: &BTreeMap<String, OutlineBundle>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let head = channel.heads().first().map(|head| (*head).to_owned()).unwrap_or_default();
    let mut kept: HashSet<String> = wanted.iter().cloned().collect();
    for more in between(&channel.view(), wanted) {
        notes
            .push(format!("{package}: {more:?} is kept in channel {name:?}: it is on the upgrade path between others"));
        kept.insert(more);
    }
    // The chain decides which of several heads is the newest; entries outside the chain compare by version.
    let order: HashMap<String, usize> =
        channel.chain(&head).into_iter().enumerate().map(|(i, name)| (name.to_owned(), i)).collect();
    let original = channel.clone();
    channel.entries.retain(|entry| kept.contains(&*entry.name));
    let version = |name: &str| bundles.get(name).and_then(|bundle| bundle.version.as_ref()).map(|(version, _)| version);
    let newer = |a: &str, b: &str| match (version(a), version(b)) {
        (Some(a), Some(b)) => a.cmp_precedence(b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    let top = channel.newest_head(|a, b| newer(a, b).then_with(|| order.get(b).cmp(&order.get(a))));
    let Some(top) = top else { return notes };
    let mut unreachable = channel.connect_to(&top);
    // Entries that others skip may have reached the head by an edge of a removed entry only.
    let lost = upgrades::lost(&original, channel, &version);
    if let Some(entry) = channel.entry_mut(&top) {
        add(&mut entry.skips, &lost);
    }
    unreachable.extend(lost);
    for other in &unreachable {
        notes.push(format!(
            "{package}: {top:?} now skips {other:?} in channel {name:?}: the upgrade path between them was removed"
        ));
    }
    notes
}

/// Returns the names of the entries on a path from one `wanted` entry down to another.
fn between(view: &ChannelView<'_>, wanted: &BTreeSet<String>) -> BTreeSet<String> {
    let name = |number: usize| &*view.entries()[number].name;
    // Whether an unwanted entry has a path down to a wanted one.
    let mut leads: HashMap<usize, bool> = HashMap::new();
    for from in wanted {
        let mut way = Vec::new();
        let mut at = view.number(from).and_then(|from| view.replaced_entry(from));
        let found = loop {
            let Some(number) = at else { break false };
            if wanted.contains(name(number)) {
                break true;
            }
            if let Some(&known) = leads.get(&number) {
                break known;
            }
            // It counts as having no path until one is found, which also ends cycles.
            leads.insert(number, false);
            way.push(number);
            at = view.replaced_entry(number);
        };
        if found {
            leads.extend(way.into_iter().map(|number| (number, true)));
        }
    }
    leads.into_iter().filter(|(_, leads)| *leads).map(|(number, _)| name(number).to_owned()).collect()
}
