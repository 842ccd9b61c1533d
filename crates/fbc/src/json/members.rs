//! Sorts the members of an object while it is written.

use std::cmp::Ordering;

use super::raw::Raw;

/// The position of a member in the output: its start, the end of its key, its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberSpan {
    pub(crate) start: usize,
    pub(crate) key_end: usize,
    pub(crate) end: usize,
    /// Whether its key has no escapes.
    pub(crate) plain: bool,
}

/// Compares the keys of two members in `text` by their unescaped bytes.
#[inline]
pub(crate) fn compare(a: &MemberSpan, b: &MemberSpan, text: &[u8]) -> Ordering {
    if a.plain && b.plain {
        // Excludes the closing quote, so that a prefix sorts first.
        return text[a.start..a.key_end - 1].cmp(&text[b.start..b.key_end - 1]);
    }
    compare_keys(&text[a.start..a.key_end], &text[b.start..b.key_end])
}

/// Sorts the members at the end of `out` by key, keeps the last of equal keys, and writes `separator` between them.
///
/// Returns whether there were equal keys.
#[cold]
pub(crate) fn sort_members(members: &[MemberSpan], separator: impl Fn(&mut Vec<u8>), out: &mut Vec<u8>) -> bool {
    let Some(start) = members.first().map(|member| member.start) else { return false };
    let mut repeated = false;
    let mut members = members.to_vec();
    members.sort_by(|a, b| compare(a, b, out));
    let source = out.split_off(start);
    let part = |from: usize, to: usize| &source[from - start..to - start];
    for (i, member) in members.iter().enumerate() {
        // The sort is stable: the last of equal keys stays last.
        let key = part(member.start, member.key_end);
        if members.get(i + 1).is_some_and(|next| part(next.start, next.key_end) == key) {
            repeated = true;
            continue;
        }
        if out.len() > start {
            separator(out);
        }
        out.extend_from_slice(part(member.start, member.end));
    }
    repeated
}

/// Compares two written keys, including quotes, by their unescaped bytes.
pub(crate) fn compare_keys(a: &[u8], b: &[u8]) -> Ordering {
    if !a.contains(&b'\\') && !b.contains(&b'\\') {
        // Excludes the closing quote, so that a prefix sorts first.
        return a[..a.len() - 1].cmp(&b[..b.len() - 1]);
    }
    let decoded = |key: &[u8]| Raw::from_checked(&String::from_utf8_lossy(key)).as_str().map(|text| text.into_owned());
    decoded(a).cmp(&decoded(b))
}
