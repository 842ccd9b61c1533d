//! Finds duplicate keys in a mapping.

use std::collections::HashSet;

use super::events::{Parser, YamlEvent};
use super::scalar;

/// Returns the first duplicate key in a mapping of the document `text`, with its byte offset.
///
/// When reading, the last of equal keys counts; this is for formats that reject duplicates. Keys from a merge (`<<`) or
/// an alias do not count, and invalid YAML has none.
pub fn repeated_key(text: &[u8]) -> Option<(String, usize)> {
    let mut parser = Parser::new(text);
    // The open collections: for a mapping its keys so far, and whether a key comes next.
    let mut open: Vec<Option<(HashSet<String>, bool)>> = Vec::new();
    loop {
        let (event, span) = parser.next_event().ok()?;
        let key = open.last().is_some_and(|innermost| matches!(innermost, Some((_, true))));
        match event {
            YamlEvent::DocumentStart { .. } => continue,
            YamlEvent::DocumentEnd | YamlEvent::StreamEnd => return None,
            YamlEvent::MappingStart { .. } => {
                open.push(Some((HashSet::new(), true)));
                continue;
            }
            YamlEvent::SequenceStart { .. } => {
                open.push(None);
                continue;
            }
            YamlEvent::MappingEnd | YamlEvent::SequenceEnd => drop(open.pop()),
            YamlEvent::Scalar(scalar) if key && !scalar::is_merge_key(&scalar) => {
                let name = scalar::key(scalar::value(&scalar).ok()?).ok()?.into_owned();
                if let Some(Some((keys, _))) = open.last_mut()
                    && !keys.insert(name.clone())
                {
                    return Some((name, span.start));
                }
            }
            YamlEvent::Scalar(_) | YamlEvent::Alias(_) => {}
        }
        if let Some(Some((_, waits_for_key))) = open.last_mut() {
            *waits_for_key = !*waits_for_key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_one_mapping_clash() {
        let repeated = |text: &str| repeated_key(text.as_bytes()).map(|(key, offset)| format!("{key} at {offset}"));
        assert_eq!(repeated("a: {b: a, c: [b, b]}\nb: {a: 1}\n"), None);
        assert_eq!(repeated("x: &x {a: 1}\ny: {<<: *x, a: 2}\n"), None);
        assert_eq!(repeated("1: a\n'1': b\n").unwrap(), "1 at 5");
        assert_eq!(repeated("- a: {b: 1}\n  \"a\": 2").unwrap(), "a at 14");
        assert_eq!(repeated("a: [}"), None);
    }
}
