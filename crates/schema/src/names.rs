//! Names that are nearly right.

/// Returns those of `names` that `wanted` is probably meant to be, the nearest first.
pub(crate) fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    const MOST: usize = 3;
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
    found.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// Counts the single-letter changes between two texts.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
