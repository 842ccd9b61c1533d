//! Suggestions for misspelled names.

use crate::rules::distance;

/// Returns the `names` most similar to `wanted`, the nearest first.
pub(crate) fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    const MAX: usize = 3;
    let folded = wanted.to_lowercase();
    let mut found: Vec<(usize, String)> = names
        .filter_map(|name| {
            let other = name.to_lowercase();
            let last = other.rsplit('.').next().unwrap_or_default();
            let near = distance(&folded, &other);
            match () {
                () if near <= 1 + wanted.len() / 6 => Some((near, name)),
                () if last == folded => Some((wanted.len(), name)),
                () if folded.len() > 2 && other.contains(&folded) => Some((wanted.len() + other.len(), name)),
                () => None,
            }
        })
        .collect();
    found.sort();
    found.dedup_by(|a, b| a.1 == b.1);
    found.into_iter().take(MAX).map(|(_, name)| name).collect()
}
