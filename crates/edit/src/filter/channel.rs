//! A channel with some of its entries, and the edges between those.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fbc::blob::Entry;

use crate::outline::{Bundle, Channel};
use crate::set_edge::add;

/// Reduces a channel, which has one head, to the entries called `wanted` and those between them.
///
/// Returns what happened that was not asked for. Names of entries that are gone stay in `replaces` and `skips`, so
/// that clusters which run them can upgrade; only where that would break the chain is an edge changed.
pub(super) fn cut(
    package: &str,
    name: &str,
    channel: &mut Channel,
    wanted: &BTreeSet<String>,
    bundles: &BTreeMap<String, Bundle>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let head = channel.heads().first().map(|head| (*head).to_owned()).unwrap_or_default();
    let mut kept: HashSet<String> = wanted.iter().cloned().collect();
    {
        let entries: HashMap<&str, &Entry> = channel.entries.iter().map(|entry| (&*entry.name, entry)).collect();
        // What leads from one kept entry down to another is kept too.
        let mut between: BTreeSet<&str> = BTreeSet::new();
        for from in wanted {
            let mut way: Vec<&str> = Vec::new();
            let mut at = entries.get(from.as_str()).map(|entry| &*entry.replaces).unwrap_or_default();
            while let Some(entry) = entries.get(at).filter(|entry| !wanted.contains(&*entry.name)) {
                if way.len() > entries.len() || between.contains(&*entry.name) {
                    break;
                }
                way.push(&entry.name);
                at = &entry.replaces;
            }
            if wanted.contains(at) || between.contains(at) {
                between.extend(way);
            }
        }
        for more in between {
            notes.push(format!("{package}: {more:?} is kept in channel {name:?}: it is on the way between others"));
            kept.insert(more.to_owned());
        }
    }
    // The order of the chain tells which of several heads is the newest; what is not on it goes by version.
    let order: HashMap<String, usize> =
        channel.chain(&head).into_iter().enumerate().map(|(i, name)| (name.to_owned(), i)).collect();
    channel.entries.retain(|entry| kept.contains(&*entry.name));
    let version = |name: &str| bundles.get(name).and_then(|bundle| bundle.version.as_ref()).map(|(version, _)| version);
    let newer = |a: &str, b: &str| match (version(a), version(b)) {
        (Some(a), Some(b)) => a.cmp_precedence(b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    let heads = channel.heads();
    let top = heads
        .iter()
        .copied()
        .max_by(|a, b| newer(a, b).then_with(|| order.get(*b).cmp(&order.get(*a))))
        .map(str::to_owned);
    let Some(top) = top else { return notes };
    let others: Vec<String> = heads.into_iter().filter(|other| **other != top).map(str::to_owned).collect();
    let lost: Vec<String> = others.into_iter().chain(stranded(channel, &top)).collect();
    for other in lost {
        // One may have come back with another.
        if channel.heads().contains(&other.as_str()) || stranded(channel, &top).contains(&other) {
            notes.push(format!(
                "{package}: {top:?} skips {other:?} in channel {name:?} now: what led from one to the other is gone"
            ));
            if let Some(entry) = channel.entry_mut(&top) {
                add(&mut entry.skips, std::slice::from_ref(&other));
            }
        }
    }
    // A skip that cuts the chain leaves others behind it.
    loop {
        let behind = stranded(channel, &top);
        let Some(first) = behind.first() else { return notes };
        notes.push(format!("{package}: {top:?} skips {first:?} in channel {name:?} now: the chain ends before it"));
        let Some(entry) = channel.entry_mut(&top) else { return notes };
        add(&mut entry.skips, std::slice::from_ref(first));
    }
}

/// Returns the entries that neither the chain from `head` leads to nor any entry skips.
fn stranded(channel: &Channel, head: &str) -> Vec<String> {
    let skipped: HashSet<&str> =
        channel.entries.iter().flat_map(|entry| entry.skips.iter().map(|skip| &**skip)).collect();
    let entries: HashMap<&str, &Entry> = channel.entries.iter().map(|entry| (&*entry.name, entry)).collect();
    let mut chain: HashSet<&str> = HashSet::new();
    let mut at = entries.get(head);
    while let Some(entry) = at.filter(|entry| chain.insert(&entry.name)) {
        at = entries.get(&*entry.replaces).filter(|next| !skipped.contains(&*next.name));
    }
    let lost = |name: &&str| !chain.contains(name) && !skipped.contains(name);
    channel.entries.iter().map(|entry| &*entry.name).filter(lost).map(str::to_owned).collect()
}
