//! Finds the known name that an unknown one probably means.

/// In shorter names every other one is near.
const MIN_LENGTH: usize = 2;
/// Longer names are not worth the time.
const MAX_LENGTH: usize = 100;

/// Returns the one of `names` that `name` probably means.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if !(MIN_LENGTH..=MAX_LENGTH).contains(&name.len()) {
        return None;
    }
    // Allow two edits, but only one in names under five characters.
    let slip = if name.len() < 5 { 1 } else { 2 };
    let near = names.filter(|other| !other.is_empty() && other.len().abs_diff(name.len()) <= slip);
    near.map(|other| (distance(name, other), other)).filter(|(distance, _)| *distance <= slip).min().map(|it| it.1)
}

/// Returns the edit distance of two texts; two swapped neighbours are one edit.
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_are_near() {
        for (a, b, edits) in [("", "", 0), ("file", "flie", 1), ("until", "untill", 1), ("skips", "skip", 1)] {
            assert_eq!((distance(a, b), distance(b, a)), (edits, edits), "{a} {b}");
        }
        assert_eq!(distance("skip_range", "skipRange"), 2);
        assert_eq!(nearest("flie", ["id", "file", "until"].into_iter()), Some("file"));
        assert_eq!(nearest("vendor", ["id", "file", "until"].into_iter()), None);
        assert_eq!(nearest("z", ["a", "b"].into_iter()), None);
    }
}
