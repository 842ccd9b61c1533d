//! Compares two texts line by line.

use edit::diff::changes::ChangeKind;

/// The maximum number of compared line pairs: beyond it, the texts are shown as removed and added as a whole.
const PAIRS: usize = 1 << 20;

/// Returns the lines that only one of two texts has, in order: removed lines before those that replace them.
pub(super) fn differing<'a>(old: &'a str, new: &'a str) -> Vec<(ChangeKind, &'a str)> {
    let lines =
        |text: &'a str| -> Vec<&'a str> { text.lines().map(str::trim).filter(|line| !line.is_empty()).collect() };
    let (old, new) = (lines(old), lines(new));
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[start..], &new[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    let gone = |line: &&'a str| (ChangeKind::Removed, *line);
    let come = |line: &&'a str| (ChangeKind::Added, *line);
    if old.len().saturating_mul(new.len()) > PAIRS {
        return old.iter().map(gone).chain(new.iter().map(come)).collect();
    }
    // The number of common lines from here on.
    let width = new.len() + 1;
    let mut common = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            out.push(gone(&old[i]));
            i += 1;
        } else {
            out.push(come(&new[j]));
            j += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_lines_keep_the_order_of_the_texts() {
        let old = "same\nb\nz\n\nshared\nend";
        let new = "same\na\nshared\n  y\nend";
        let found = differing(old, new);
        assert_eq!(
            found,
            [
                (ChangeKind::Removed, "b"),
                (ChangeKind::Removed, "z"),
                (ChangeKind::Added, "a"),
                (ChangeKind::Added, "y")
            ]
        );
        assert!(differing(old, old).is_empty());
        assert_eq!(differing("", "x"), [(ChangeKind::Added, "x")]);
        assert_eq!(differing("x\nx", "x"), [(ChangeKind::Removed, "x")]);
    }

    #[test]
    fn texts_of_any_size_are_compared_in_bounded_time() {
        let old: String = (0..20_000).map(|n| format!("old {n}\n")).collect();
        let new: String = (0..20_000).map(|n| format!("new {n}\n")).collect();
        assert_eq!(differing(&old, &new).len(), 40_000);
    }
}
