//! From a YAML document to canonical JSON.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use super::build::Builder;
use super::events::{Event, Fault, Parser};
use super::fast;
use crate::json::Text;

/// How much a document may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Levels of nesting, after aliases are replaced.
    pub depth: usize,
    /// Scalars, sequences and mappings, after aliases are replaced.
    pub nodes: usize,
    /// Bytes of JSON, after aliases are replaced.
    pub bytes: usize,
}

/// A document that cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    /// Where in the document, in bytes.
    pub offset: usize,
    /// The line within the document, from 0.
    pub line: usize,
    /// The column within the line in characters, from 0.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What was being read when the error was noticed, and where that started, in bytes.
    pub context: Option<(usize, String)>,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for YamlError {}

impl YamlError {
    fn new(text: &[u8], fault: Fault) -> YamlError {
        let before = &text[..fault.offset.min(text.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        YamlError {
            offset: before.len(),
            line: memchr::memchr_iter(b'\n', before).count(),
            column: String::from_utf8_lossy(&before[line_start..]).chars().count(),
            message: fault.message,
            context: fault.context,
        }
    }
}

/// Returns the one document in `text` as canonical JSON.
///
/// # Errors
/// Fails as [`to_json`] does.
pub fn to_text(text: &[u8], limits: &Limits) -> Result<Text, YamlError> {
    let mut out = Vec::new();
    to_json(text, limits, &mut out)?;
    Ok(Text::from_checked_bytes(out))
}

/// Appends the one document in `text` to `out` as canonical JSON.
///
/// A document without content is `null`. A last line without line break is
/// read as if it had one. On failure `out` is as before.
///
/// # Errors
/// Fails if the text is not YAML, if something follows the document, or if the
/// document holds what JSON cannot express or more than `limits` allow.
pub fn to_json(text: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<(), YamlError> {
    let start = out.len();
    let terminated = terminated(text);
    if fast::read(&terminated, limits, out) {
        return Ok(());
    }
    out.truncate(start);
    parse(&terminated, limits, out).map_err(|fault| {
        out.truncate(start);
        YamlError::new(text, fault)
    })
}

/// Returns the text with a line break at its end, unless it is UTF-16, of which one byte is no part.
pub(crate) fn terminated(text: &[u8]) -> Cow<'_, [u8]> {
    let wide = text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff");
    if wide || text.ends_with(b"\n") { text.into() } else { [text, b"\n"].concat().into() }
}

/// Reads any document, by way of the parser.
pub(super) fn parse(text: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<(), Fault> {
    let start = out.len();
    let (result, respelled) = with_quotes_respelled(text, |text| {
        out.truncate(start);
        parse_once(text, limits, out)
    });
    result.map_err(|mut fault| {
        fault.offset = respelled.original(fault.offset);
        fault
    })
}

/// Reads `text` with `read`, which uses the parser.
///
/// The parser does not know the escape `\'`, which the existing tools read. It
/// is rare: where the parser stumbles over one, those in double quotes are
/// respelled and the document is read again. Offsets in the result are those of
/// the respelled text.
pub(crate) fn with_quotes_respelled<T>(
    text: &[u8],
    mut read: impl FnMut(&[u8]) -> Result<T, Fault>,
) -> (Result<T, Fault>, Respelled) {
    /// So many single-quoted scalars may end with a backslash.
    const ATTEMPTS: usize = 100;
    let result = read(text);
    let stumbled = |fault: &Fault| text.get(fault.offset..).is_some_and(|rest| rest.starts_with(b"\\'"));
    let from = match &result {
        Err(fault) if stumbled(fault) => fault.offset,
        _ => return (result, Respelled::default()),
    };
    // Which of them stand in double quotes, the parser alone knows: all are respelled, then those given up
    // that turn out to mean a backslash and a quote.
    let mut kept = BTreeSet::new();
    let mut attempt = 0;
    loop {
        let mut respelled = Respelled::default();
        let spelled = respell_quotes(text, from, &kept, &mut respelled.added);
        let wrong = outside_of_double_quotes(&spelled, &respelled.added);
        attempt += 1;
        if wrong.is_empty() || attempt > ATTEMPTS {
            return (read(&spelled), respelled);
        }
        // What was added is a part of `\x27`, two bytes behind its start.
        kept.extend(wrong.into_iter().map(|place| respelled.original(place) - 2));
    }
}

/// Returns which of `places` in `text`, in order, are no part of double-quoted scalars.
///
/// Respelling closes no single-quoted scalar where it ended, so that what follows is not what it was: none behind it
/// are returned.
fn outside_of_double_quotes(text: &[u8], places: &[usize]) -> Vec<usize> {
    let mut parser = Parser::new(text);
    let mut outside = Vec::new();
    let mut left = places;
    loop {
        match parser.next_event() {
            Ok((Event::Scalar(_), span)) => {
                let (before, rest) = left.split_at(left.partition_point(|place| *place < span.start));
                let (inside, rest) = rest.split_at(rest.partition_point(|place| *place < span.end));
                outside.extend(before);
                left = rest;
                match quote(&text[span]) {
                    Some(b'"') => {}
                    Some(b'\'') if !inside.is_empty() => {
                        outside.push(inside[0]);
                        return outside;
                    }
                    _ => outside.extend(inside),
                }
            }
            Ok((Event::DocumentEnd | Event::StreamEnd, _)) => {
                outside.extend(left);
                return outside;
            }
            Ok(_) => {}
            Err(fault) => {
                let start = fault.context.map_or(fault.offset, |(start, _)| start);
                if text.get(start) == Some(&b'\'') {
                    outside.extend(left.iter().find(|place| **place > start));
                }
                return outside;
            }
        }
    }
}

/// Returns the first character of a scalar as written, behind its anchor and tag.
fn quote(scalar: &[u8]) -> Option<u8> {
    let mut words = scalar;
    while let Some(b'&' | b'!') = words.first() {
        let end = words.iter().position(u8::is_ascii_whitespace).unwrap_or(words.len());
        words = words[end..].trim_ascii_start();
    }
    words.first().copied()
}

/// Where bytes were added to a text, in order.
#[derive(Default)]
pub(crate) struct Respelled {
    added: Vec<usize>,
}

impl Respelled {
    /// Returns where in the original text an offset of the respelled text is.
    pub(crate) fn original(&self, offset: usize) -> usize {
        offset - QUOTE.len() * self.added.partition_point(|&at| at < offset)
    }
}

/// What `\'` gains when it is respelled `\x27`.
const QUOTE: &[u8] = b"27";

/// Respells each `\'` from `from` on, but for those that start at one of `kept`.
fn respell_quotes(text: &[u8], from: usize, kept: &BTreeSet<usize>, added: &mut Vec<usize>) -> Vec<u8> {
    let mut out = text[..from].to_vec();
    let mut at = from;
    while let Some(found) = memchr::memchr(b'\\', &text[at..]) {
        out.extend_from_slice(&text[at..at + found]);
        at += found;
        if text.get(at + 1) == Some(&b'\'') && !kept.contains(&at) {
            out.extend_from_slice(b"\\x");
            added.push(out.len());
            out.extend_from_slice(QUOTE);
            at += 2;
        } else {
            // A backslash and what it escapes. Where it escapes nothing, two of them are looked at as a pair, too.
            let length = if text.get(at + 1) == Some(&b'\\') { 2 } else { 1 };
            out.extend_from_slice(&text[at..at + length]);
            at += length;
        }
    }
    out.extend_from_slice(&text[at..]);
    out
}

fn parse_once(text: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut parser = Parser::new(text);
    match parser.next_event()? {
        (Event::DocumentStart { version }, span) => {
            if version.is_some_and(|version| version != (1, 1)) {
                return Err(Fault::new(span.start, "found incompatible YAML document"));
            }
        }
        _ => {
            out.extend_from_slice(b"null");
            return Ok(());
        }
    }
    let mut builder = Builder::new(limits, out);
    loop {
        let (event, span) = parser.next_event()?;
        match event {
            Event::Scalar(scalar) => builder.scalar(&scalar),
            Event::Alias(name) => builder.alias(name),
            Event::MappingStart { anchor } => builder.open_mapping(anchor),
            Event::SequenceStart { anchor } => builder.open_sequence(anchor),
            Event::MappingEnd | Event::SequenceEnd => builder.close(),
            Event::DocumentStart { .. } | Event::DocumentEnd | Event::StreamEnd => break,
        }
        .map_err(|message| Fault::new(span.start, message))?;
    }
    // Whatever stands here is not part of the document; the parser may not even see it as YAML.
    match parser.next_event() {
        Ok((Event::StreamEnd, ..)) => Ok(()),
        Ok((_, span)) => Err(Fault::new(span.start, "there is text after the end of the document")),
        Err(fault) => Err(Fault::new(fault.offset, "there is text after the end of the document")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Raw;

    const LIMITS: Limits = Limits { depth: 20, nodes: 1000, bytes: 10_000 };

    fn shown(text: impl AsRef<[u8]>) -> String {
        let mut out = b"before ".to_vec();
        match to_json(text.as_ref(), &LIMITS, &mut out) {
            Ok(()) => String::from_utf8(out.split_off(7)).unwrap(),
            Err(error) => {
                assert_eq!(out, b"before ");
                format!("{}:{}: {error}", error.line + 1, error.column + 1)
            }
        }
    }

    #[test]
    fn utf_16_is_read_in_either_order() {
        let wide = |order: fn(u16) -> [u8; 2]| "\u{feff}a: é\n".encode_utf16().flat_map(order).collect::<Vec<u8>>();
        assert_eq!(shown(wide(u16::to_le_bytes)), "{\"a\":\"é\"}");
        assert_eq!(shown(wide(u16::to_be_bytes)), "{\"a\":\"é\"}");
    }

    #[test]
    fn keys_are_sorted_and_the_last_of_equals_counts() {
        assert_eq!(shown("b: 1\na: {z: [], x: {}}\nB: 2\nb: 3\n"), r#"{"B":2,"a":{"x":{},"z":[]},"b":3}"#);
        assert_eq!(shown("a b: 1\na: 2\n\"a\\n\": 3\n"), r#"{"a":2,"a\n":3,"a b":1}"#);
        assert_eq!(shown("1: a\n'1': b\nyes: c\n2.50: d"), r#"{"1":"b","2.5":"d","true":"c"}"#);
    }

    #[test]
    fn an_empty_document_is_null() {
        for text in ["", "\n", "# nothing", "---", "---\n# x\n", "~"] {
            assert_eq!(shown(text), "null", "{text:?}");
        }
    }

    #[test]
    fn a_last_line_without_line_break_has_one() {
        assert_eq!(shown("a: |\n  x"), r#"{"a":"x\n"}"#);
        assert_eq!(shown("- &x |\n  x"), r#"["x\n"]"#);
        assert_eq!(shown("a: b\nc: [d"), "2:6: did not find expected ',' or ']'");
    }

    #[test]
    fn strings_come_in_five_styles() {
        assert_eq!(
            shown("- plain\n  text\n- 'it''s'\n- \"a\\tb\\\n   c\"\n- |\n  x\n   y\n- >-\n  f\n  g\n- ! '7'\n- '7'\n"),
            r#"["plain text","it's","a\tbc","x\n y\n","f g",7,"7"]"#
        );
        assert_eq!(shown(r#"[it\'s, "it\'s \\\' \"", 'it\', "\'"]"#), r#"["it\\'s","it's \\' \"","it\\","'"]"#);
        assert_eq!(shown(r#"["\'", "\'\'", "\z"]"#), "1:17: found unknown escape character");
        let many = format!("[{}]", vec![r#""\'""#; 400].join(","));
        assert_eq!(shown(&many), many.replace('\\', ""));
        assert_eq!(
            shown(format!(r#"[{many}, 'C:\', &a "\'", it\'s]"#)),
            format!(r#"[{},"C:\\","'","it\\'s"]"#, many.replace('\\', ""))
        );
    }

    #[test]
    fn aliases_repeat_a_node() {
        assert_eq!(
            shown("a: &x {q: &y [1], p: 2}\nb: *x\nc: [*y, &z s, *z]\n*z : 1"),
            r#"{"a":{"p":2,"q":[1]},"b":{"p":2,"q":[1]},"c":[[1],"s","s"],"s":1}"#
        );
        assert_eq!(shown("a: &x 1\nb: &x 2\nc: *x"), r#"{"a":1,"b":2,"c":2}"#);
        assert_eq!(shown("&f 1e6 : *f"), r#"{"1e+06":1000000}"#);
        assert_eq!(shown("a: *x"), "1:4: unknown anchor 'x' referenced");
        assert_eq!(shown("a: &x [1, *x]"), "1:11: anchor 'x' value contains itself");
        assert_eq!(shown("a: &x {<<: *x}"), "1:12: anchor 'x' value contains itself");
        assert_eq!(shown("a: &x [1]\n*x : 1"), "2:1: invalid map key: a mapping or sequence");
    }

    #[test]
    fn a_merge_yields_to_later_keys_and_overrides_earlier_ones() {
        assert_eq!(
            shown("a: &a {x: 1, w: [2]}\nm:\n  <<: *a\n  w: o\n"),
            r#"{"a":{"w":[2],"x":1},"m":{"w":"o","x":1}}"#
        );
        assert_eq!(shown("<<: [{a: 1, b: 1}, {b: 2, c: 2}]\nc: 3"), r#"{"a":1,"b":1,"c":3}"#);
        assert_eq!(shown("a: 0\n<<: {a: 1, b: \"\\n\"}\n"), r#"{"a":1,"b":"\n"}"#);
        assert_eq!(shown("'<<': 1"), r#"{"<<":1}"#);
        assert_eq!(shown("<<: {}\na: 1\n<<: []"), r#"{"a":1}"#);
        for bad in ["<<: 1", "<<: ", "<<: [1]", "<<: [[]]"] {
            assert!(shown(bad).ends_with("map merge requires map or sequence of maps as the value"), "{bad}");
        }
    }

    #[test]
    fn only_scalars_other_than_null_are_keys() {
        assert_eq!(shown("a: 1\n~: 1"), "2:1: unsupported map key: null");
        assert_eq!(shown("a: 1\n? [a]\n: 1"), "2:3: invalid map key: a mapping or sequence");
        assert_eq!(shown("? {a: b}\n: 1"), "1:3: invalid map key: a mapping or sequence");
        assert_eq!(shown(".inf: 1"), r#"{".inf":1}"#);
        assert_eq!(shown("a: .inf"), "1:4: json: unsupported value: +Inf");
    }

    #[test]
    fn what_follows_the_document_is_refused() {
        assert_eq!(shown("a: 1\n...\n# fine\n"), r#"{"a":1}"#);
        assert_eq!(shown("a: 1\n...\nb: 2\n"), "3:1: there is text after the end of the document");
        assert_eq!(shown("a: 1\n--- \nb: 2\n"), "2:1: there is text after the end of the document");
        assert_eq!(shown("{a: 1}\n{b: 2}\n"), "2:1: there is text after the end of the document");
        assert_eq!(shown("%YAML 1.2\n---\na: 1"), "1:1: found incompatible YAML document");
        assert_eq!(shown("%YAML 1.1\n---\na: 1"), r#"{"a":1}"#);
    }

    #[test]
    fn errors_tell_line_and_column_in_characters() {
        assert_eq!(shown("é: ü\r\nä: [é\r\nb: c"), "3:2: did not find expected ',' or ']'");
        assert_eq!(shown("a:\n\tb: 1"), "2:1: found character that cannot start any token");
        assert_eq!(shown(b"a: \xff"), "1:4: invalid leading UTF-8 octet");
        assert_eq!(shown("a: b\nc: \x7f"), "2:4: control characters are not allowed");
        assert_eq!(shown(r#"a: [\/, '\/', &x "\\/", "\/"]"#), "1:26: found unknown escape character");
    }

    #[test]
    fn bombs_do_not_go_off() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for i in 1..9 {
            bomb += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(","));
        }
        assert_eq!(shown(bomb), "4:10: document contains excessive aliasing");
        assert_eq!(shown("[".repeat(5000)), "1:21: document is nested more than 20 levels deep");
        assert_eq!(shown("- ".repeat(5000)), "1:41: document is nested more than 20 levels deep");
        assert_eq!(
            shown("a: &a [[[[[[[[[[[1]]]]]]]]]]]\nb: [[[[[[[[[*a]]]]]]]]]"),
            "2:13: document is nested more than 20 levels deep"
        );
        assert_eq!(shown(format!("[{}]", "a,".repeat(1000))), "1:2000: document has more than 1000 values");
        assert_eq!(shown("x".repeat(10_001)), "1:1: document is larger than 10000 bytes");
        assert_eq!(
            shown(format!("{}{}{}", "&a [".repeat(15), "x".repeat(2000), "]".repeat(15))),
            "1:2065: document contains excessive anchors"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            text in proptest::collection::vec(proptest::sample::select(b"ab: -?[]{},&*!|>'\"%#\n\r\t01.~<_\\\xc3\xa9\xff" as &[u8]), 0..40)
        ) {
            let mut out = Vec::new();
            if to_json(&text, &LIMITS, &mut out).is_ok() {
                let text = String::from_utf8(out).unwrap();
                Raw::parse(&text, LIMITS.depth).unwrap();
            }
        }
    }
}
