//! Converts YAML documents to canonical JSON.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use super::build::Builder;
use super::events::{Parser, YamlEvent, YamlSyntaxError};
use super::fast;
use super::fault::YamlFault;
use crate::json::Text;

/// Limits for one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct YamlLimits {
    /// The nesting depth, after alias expansion.
    pub depth: usize,
    /// The number of scalars, sequences and mappings, after alias expansion.
    pub nodes: usize,
    /// The size of the JSON in bytes, after alias expansion.
    pub bytes: usize,
}

/// An error in a document, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    /// The byte offset in the document.
    pub offset: usize,
    /// The zero-based line in the document.
    pub line: usize,
    /// The zero-based column in the line, in characters.
    pub column: usize,
    /// What is wrong there.
    pub fault: YamlFault,
    /// What was being read when the error occurred, with the byte offset of its start.
    pub context: Option<(usize, &'static str)>,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for YamlError {}

impl YamlError {
    fn new(text: &[u8], fault: YamlSyntaxError) -> YamlError {
        let before = &text[..fault.offset.min(text.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        YamlError {
            offset: before.len(),
            line: memchr::memchr_iter(b'\n', before).count(),
            column: String::from_utf8_lossy(&before[line_start..]).chars().count(),
            fault: fault.fault,
            context: fault.context,
        }
    }
}

/// Returns the single document in `text` as canonical JSON.
///
/// # Errors
/// Fails as [`to_json`] does.
pub fn to_text(text: &[u8], limits: &YamlLimits) -> Result<Text, YamlError> {
    let mut out = Vec::new();
    to_json(text, limits, &mut out)?;
    Ok(Text::from_checked_bytes(out))
}

/// Appends the single document in `text` to `out` as canonical JSON.
///
/// An empty document is `null`. A missing line break at the end is added. On failure `out` is unchanged.
///
/// # Errors
/// Fails if the text is not YAML, if more text follows the document, or if the document contains values that JSON
/// cannot represent or exceeds `limits`.
pub fn to_json(text: &[u8], limits: &YamlLimits, out: &mut Vec<u8>) -> Result<(), YamlError> {
    to_json_noting(text, limits, out).map(drop)
}

/// Like [`to_json`], and returns whether a mapping has equal keys, of which only the last counts.
pub(crate) fn to_json_noting(text: &[u8], limits: &YamlLimits, out: &mut Vec<u8>) -> Result<bool, YamlError> {
    let start = out.len();
    let terminated = terminated(text);
    if let Some(repeated) = fast::read(&terminated, limits, out) {
        return Ok(repeated);
    }
    out.truncate(start);
    parse(&terminated, limits, out).map_err(|fault| {
        out.truncate(start);
        YamlError::new(text, fault)
    })
}

/// Returns the text with a line break at its end, unless it is UTF-16, where a single byte would be invalid.
pub(crate) fn terminated(text: &[u8]) -> Cow<'_, [u8]> {
    let wide = text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff");
    if wide || text.ends_with(b"\n") { text.into() } else { [text, b"\n"].concat().into() }
}

/// Reads any document with the parser; returns whether a mapping has equal keys.
pub(super) fn parse(text: &[u8], limits: &YamlLimits, out: &mut Vec<u8>) -> Result<bool, YamlSyntaxError> {
    let start = out.len();
    let (result, respelled) = with_quotes_rewritten(text, |text| {
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
/// The parser does not know the escape `\'`, which the existing tools accept. It is rare: if the parser fails on one,
/// those in double quotes are rewritten and the document is read again. Offsets in the result are those of the
/// rewritten text.
pub(crate) fn with_quotes_rewritten<T>(
    text: &[u8],
    mut read: impl FnMut(&[u8]) -> Result<T, YamlSyntaxError>,
) -> (Result<T, YamlSyntaxError>, AddedBytes) {
    /// The maximum number of single-quoted scalars that end with a backslash.
    const ATTEMPTS: usize = 100;
    let result = read(text);
    let stumbled = |fault: &YamlSyntaxError| text.get(fault.offset..).is_some_and(|rest| rest.starts_with(b"\\'"));
    let from = match &result {
        Err(fault) if stumbled(fault) => fault.offset,
        _ => return (result, AddedBytes::default()),
    };
    // Only the parser can tell which of them are in double quotes: all are rewritten, then those that turn out to be a
    // backslash and a closing quote are restored.
    let mut kept = BTreeSet::new();
    let mut attempt = 0;
    loop {
        let mut respelled = AddedBytes::default();
        let spelled = rewrite_quotes(text, from, &kept, &mut respelled.added);
        let wrong = outside_of_double_quotes(&spelled, &respelled.added);
        attempt += 1;
        if wrong.is_empty() || attempt > ATTEMPTS {
            return (read(&spelled), respelled);
        }
        // The added bytes are part of `\x27`, two bytes after its start.
        kept.extend(wrong.into_iter().map(|place| respelled.original(place) - 2));
    }
}

/// Returns which of `places` in `text`, in order, are outside of double-quoted scalars.
///
/// Rewriting leaves a single-quoted scalar unterminated, so everything after it is misread: no places after it are
/// returned.
fn outside_of_double_quotes(text: &[u8], places: &[usize]) -> Vec<usize> {
    let mut parser = Parser::new(text);
    let mut outside = Vec::new();
    let mut left = places;
    loop {
        match parser.next_event() {
            Ok((YamlEvent::Scalar(_), span)) => {
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
            Ok((YamlEvent::DocumentEnd | YamlEvent::StreamEnd, _)) => {
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

/// Returns the first character of a scalar in the source, after its anchor and tag.
fn quote(scalar: &[u8]) -> Option<u8> {
    let mut words = scalar;
    while let Some(b'&' | b'!') = words.first() {
        let end = words.iter().position(u8::is_ascii_whitespace).unwrap_or(words.len());
        words = words[end..].trim_ascii_start();
    }
    words.first().copied()
}

/// The offsets of bytes that were added to a text, in order.
#[derive(Default)]
pub(crate) struct AddedBytes {
    added: Vec<usize>,
}

impl AddedBytes {
    /// Maps an offset of the rewritten text to the original text.
    pub(crate) fn original(&self, offset: usize) -> usize {
        offset - QUOTE.len() * self.added.partition_point(|&at| at < offset)
    }
}

/// The bytes added when `\'` is rewritten to `\x27`.
const QUOTE: &[u8] = b"27";

/// Rewrites each `\'` from `from` on, except those that start at one of `kept`.
fn rewrite_quotes(text: &[u8], from: usize, kept: &BTreeSet<usize>, added: &mut Vec<usize>) -> Vec<u8> {
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
            // A backslash and the character it escapes. Outside of escapes, a pair of backslashes is treated as a pair
            // too.
            let length = if text.get(at + 1) == Some(&b'\\') { 2 } else { 1 };
            out.extend_from_slice(&text[at..at + length]);
            at += length;
        }
    }
    out.extend_from_slice(&text[at..]);
    out
}

fn parse_once(text: &[u8], limits: &YamlLimits, out: &mut Vec<u8>) -> Result<bool, YamlSyntaxError> {
    let mut parser = Parser::new(text);
    match parser.next_event()? {
        (YamlEvent::DocumentStart { version }, span) => {
            if version.is_some_and(|version| version != (1, 1)) {
                return Err(YamlSyntaxError::new(span.start, YamlFault::Version));
            }
        }
        _ => {
            out.extend_from_slice(b"null");
            return Ok(false);
        }
    }
    let mut builder = Builder::new(limits, out);
    loop {
        let (event, span) = parser.next_event()?;
        match event {
            YamlEvent::Scalar(scalar) => builder.scalar(&scalar),
            YamlEvent::Alias(name) => builder.alias(name),
            YamlEvent::MappingStart { anchor } => builder.open_mapping(anchor),
            YamlEvent::SequenceStart { anchor } => builder.open_sequence(anchor),
            YamlEvent::MappingEnd | YamlEvent::SequenceEnd => builder.close(),
            YamlEvent::DocumentStart { .. } | YamlEvent::DocumentEnd | YamlEvent::StreamEnd => break,
        }
        .map_err(|fault| YamlSyntaxError::new(span.start, fault))?;
    }
    // Everything here is outside of the document; the parser may not even accept it as YAML.
    match parser.next_event() {
        Ok((YamlEvent::StreamEnd, ..)) => Ok(builder.repeated),
        Ok((_, span)) => Err(YamlSyntaxError::new(span.start, YamlFault::Trailing)),
        Err(fault) => Err(YamlSyntaxError::new(fault.offset, YamlFault::Trailing)),
    }
}

#[cfg(test)]
mod tests;
