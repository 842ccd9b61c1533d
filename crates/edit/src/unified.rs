//! Formats the changes of a file as a unified diff.

use std::fmt::Write;
use std::ops::Range;
use std::path::Path;

use crate::text::Splice;

/// The number of context lines around a change.
const CONTEXT: usize = 3;

/// A run of lines and its replacement.
struct Block {
    old: Range<usize>,
    new: Vec<String>,
}

/// Returns the unified diff of a file; `old` is missing for a new file, `new` for a deleted one.
///
/// `splices` are the changes between the two, so no search is needed.
pub fn unified(path: &Path, old: Option<&str>, new: Option<&str>, splices: &[Splice]) -> String {
    let mut out = String::new();
    let name = |side: &str, text: Option<&str>| match text {
        Some(_) => quoted(&Path::new(side).join(path)),
        None => "/dev/null".to_owned(),
    };
    let _ = write!(out, "--- {}\n+++ {}\n", name("a", old), name("b", new));
    let old_lines = split(old.unwrap_or_default());
    let blocks = match (old, new) {
        (Some(old), Some(_)) => blocks(old, splices, &old_lines),
        _ => {
            let new = split(new.unwrap_or_default()).into_iter().map(str::to_owned).collect();
            vec![Block { old: 0..old_lines.len(), new }]
        }
    };
    let mut moved = 0isize;
    let mut rest = blocks.as_slice();
    while let Some(first) = rest.first() {
        let near = rest.windows(2).take_while(|pair| pair[1].old.start <= pair[0].old.end + 2 * CONTEXT).count() + 1;
        let (group, after) = rest.split_at(near);
        rest = after;
        let start = first.old.start.saturating_sub(CONTEXT);
        let end = group.last().map_or(start, |last| (last.old.end + CONTEXT).min(old_lines.len()));
        let added: usize = group.iter().map(|block| block.new.len()).sum();
        let gone: usize = group.iter().map(|block| block.old.len()).sum();
        let (length, new_length) = (end - start, end - start + added - gone);
        let new_start = start.saturating_add_signed(moved);
        let _ = writeln!(out, "@@ -{} +{} @@", place(start, length), place(new_start, new_length));
        let mut at = start;
        for block in group {
            old_lines[at..block.old.start].iter().for_each(|line| push(&mut out, ' ', line));
            old_lines[block.old.clone()].iter().for_each(|line| push(&mut out, '-', line));
            block.new.iter().for_each(|line| push(&mut out, '+', line));
            at = block.old.end;
        }
        old_lines[at..end].iter().for_each(|line| push(&mut out, ' ', line));
        moved += added.cast_signed() - gone.cast_signed();
    }
    out
}

/// Writes a path as `git` and `patch` parse it in the header of a diff: in quotes, with escapes as in C, if it contains
/// blanks, control characters, quotes, backslashes or bytes that are not UTF-8.
fn quoted(path: &Path) -> String {
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '"' | '\\');
    if let Some(text) = path.to_str().filter(|text| text.chars().all(plain)) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => out += "\\t",
                '\n' => out += "\\n",
                '\r' => out += "\\r",
                '"' | '\\' => out.extend(['\\', c]),
                c if c.is_control() => octal(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        octal(&mut out, chunk.invalid());
    }
    out.push('"');
    out
}

fn octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "\\{byte:03o}");
    }
}

/// Formats the position of a run of lines; an empty run has the number of the preceding line.
fn place(start: usize, length: usize) -> String {
    match length {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        _ => format!("{},{length}", start + 1),
    }
}

fn push(out: &mut String, mark: char, line: &str) {
    out.push(mark);
    out.push_str(line);
    if !line.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

fn split(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Expands splices to whole changed lines.
fn blocks(old: &str, splices: &[Splice], old_lines: &[&str]) -> Vec<Block> {
    let mut at = 0;
    let mut starts = Vec::with_capacity(old_lines.len());
    for line in old_lines {
        starts.push(at);
        at += line.len();
    }
    let line = |at: usize| starts.partition_point(|start| *start < at);
    // Each has the bytes of the lines it touches; splices that touch the same lines are merged.
    let mut groups: Vec<(Range<usize>, Vec<&Splice>)> = Vec::new();
    for splice in splices {
        let lines = whole_lines(old, &starts, splice);
        match groups.last_mut() {
            Some((last, group))
                if lines.start < last.end || lines.start == last.end && splice.range.start < last.end =>
            {
                last.end = last.end.max(lines.end);
                group.push(splice);
            }
            _ => groups.push((lines, vec![splice])),
        }
    }
    let mut found: Vec<Block> = Vec::new();
    for (bytes, group) in groups {
        let mut text = Vec::new();
        let mut at = bytes.start;
        for splice in group {
            text.extend_from_slice(old.as_bytes().get(at..splice.range.start).unwrap_or_default());
            text.extend_from_slice(&splice.text);
            at = splice.range.end;
        }
        text.extend_from_slice(old.as_bytes().get(at..bytes.end).unwrap_or_default());
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut new: Vec<String> = split(&text).into_iter().map(str::to_owned).collect();
        let mut lines = line(bytes.start)..line(bytes.end);
        fbc::step_counter::steps(new.len() + lines.len());
        let same = new.iter().zip(&old_lines[lines.clone()]).take_while(|(new, old)| new == *old).count();
        new.drain(..same);
        lines.start += same;
        while !lines.is_empty() && new.last().is_some_and(|new| new == old_lines[lines.end - 1]) {
            new.pop();
            lines.end -= 1;
        }
        if !lines.is_empty() || !new.is_empty() {
            match found.last_mut() {
                Some(Block { old, new: last }) if old.end == lines.start => {
                    old.end = lines.end;
                    last.extend(new);
                }
                _ => found.push(Block { old: lines, new }),
            }
        }
    }
    found
}

/// Returns the bytes of the lines that a splice touches.
fn whole_lines(old: &str, starts: &[usize], splice: &Splice) -> Range<usize> {
    let range = &splice.range;
    let starts_line = |at: usize| at == 0 || old.as_bytes()[at - 1] == b'\n';
    // The start of the line at an offset, and of the next one; the end of a text that ends with a newline is a line.
    let line = |at: usize| starts.partition_point(|start| *start <= at);
    let start = match starts_line(range.start) {
        true => range.start,
        false => line(range.start).checked_sub(1).map_or(0, |line| starts[line]),
    };
    let whole = starts_line(range.start)
        && (starts_line(range.end) || range.end == old.len())
        && (splice.text.is_empty() || splice.text.ends_with(b"\n"));
    let end = match whole {
        true => range.end,
        false => starts.get(line(range.end)).copied().unwrap_or(old.len()),
    };
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splice(range: Range<usize>, text: &str) -> Splice {
        Splice { range, text: text.into() }
    }

    #[test]
    fn changes_within_lines_show_whole_lines() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk";
        let splices = [splice(2..3, "B"), splice(20..21, "K\nl")];
        let new = String::from_utf8(crate::text::apply(old.as_bytes(), &splices).unwrap()).unwrap();
        insta::assert_snapshot!(unified(Path::new("x"), Some(old), Some(&new), &splices), @r"
        --- a/x
        +++ b/x
        @@ -1,5 +1,5 @@
         a
        -b
        +B
         c
         d
         e
        @@ -8,4 +8,5 @@
         h
         i
         j
        -k
        \ No newline at end of file
        +K
        +l
        \ No newline at end of file
        ");
    }

    #[test]
    fn added_and_removed_lines_are_shown() {
        let old = "a\nb\nc\n";
        let splices = [splice(2..4, ""), splice(6..6, "d\n")];
        let new = String::from_utf8(crate::text::apply(old.as_bytes(), &splices).unwrap()).unwrap();
        insta::assert_snapshot!(unified(Path::new("x"), Some(old), Some(&new), &splices), @r"
        --- a/x
        +++ b/x
        @@ -1,3 +1,3 @@
         a
        -b
         c
        +d
        ");
        insta::assert_snapshot!(unified(Path::new("x"), None, Some("a\n"), &[]), @r"
        --- /dev/null
        +++ b/x
        @@ -0,0 +1 @@
        +a
        ");
    }
}
