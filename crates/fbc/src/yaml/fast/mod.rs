//! A short way through the YAML that most files are made of.
//!
//! Nearly all manifests and catalogs are block mappings and sequences of plain,
//! quoted and block scalars, indented with spaces. This reader knows just that
//! much and takes it in one pass. Wherever the text is anything else, or might
//! be wrong, it gives up without a word and the whole document goes to the
//! parser in `events`, which also finds the words for what is wrong.
//! It must never accept what that parser refuses, nor read it differently.

mod scalar;

use self::scalar::End;
use super::build::Builder;
use super::events::Scalar;
use super::read::Limits;

/// Deeper documents take the long way; this reader calls itself.
const DEPTH: usize = 200;

/// Keys end within so many bytes; the exact limit counts characters.
const LONGEST_KEY: usize = 1000;

/// Brackets within brackets take the long way beyond this depth.
const FLOW_DEPTH: usize = 8;

/// The text is not of the simple kind.
struct Unusual;

impl From<String> for Unusual {
    fn from(_: String) -> Unusual {
        Unusual
    }
}

type Read<T = ()> = Result<T, Unusual>;

/// Appends the document in `text` to `out` as canonical JSON if it is of the simple kind.
///
/// If not, the result is false and `out` may have grown.
pub(super) fn read(text: &[u8], limits: &Limits, out: &mut Vec<u8>) -> bool {
    let Some(text) = only_usual_characters(text) else { return false };
    let limits = Limits { depth: limits.depth.min(DEPTH), ..*limits };
    let builder = Builder::new(&limits, out);
    Reader { text, at: 0, column: None, builder, scratch: String::new() }.document().is_ok()
}

/// Returns the text if it ends with a line break and every character is allowed and no line
/// break but `\n` occurs.
fn only_usual_characters(text: &[u8]) -> Option<&str> {
    let mut ascii = true;
    for chunk in text.chunks(64) {
        // This form compiles to vector code.
        let odd = chunk.iter().fold(false, |odd, &b| odd | ((b < b' ') & (b != b'\n') & (b != b'\t')) | (b == 0x7f));
        if odd {
            return None;
        }
        ascii &= chunk.iter().fold(0, |all, &b| all | b) < 0x80;
    }
    if text.last() != Some(&b'\n') {
        return None;
    }
    let string = std::str::from_utf8(text).ok()?;
    if !ascii {
        // C1 controls with NEL; line separators; byte order mark and non-characters.
        let odd = memchr::memchr3_iter(0xc2, 0xe2, 0xef, text).any(|at| {
            matches!(text[at..], [0xc2, ..0xa0, ..] | [0xe2, 0x80, 0xa8 | 0xa9, ..])
                || matches!(text[at..], [0xef, 0xbb, 0xbf, ..] | [0xef, 0xbf, 0xbe | 0xbf, ..])
        });
        if odd {
            return None;
        }
    }
    Some(string)
}

struct Reader<'a, 'b> {
    text: &'a str,
    at: usize,
    /// The column of the token at `at`, which is the first of its line; none at the end.
    column: Option<usize>,
    builder: Builder<'b>,
    scratch: String,
}

impl<'a> Reader<'a, '_> {
    fn document(&mut self) -> Read {
        if self.text.starts_with("---") {
            self.at = 3;
            self.end_line()?;
        } else {
            self.next_token()?;
        }
        let column = self.column.ok_or(Unusual)?;
        if self.is_dash(self.at) {
            self.sequence(column, false)?;
        } else {
            self.mapping(column)?;
        }
        if self.column.is_some() { Err(Unusual) } else { Ok(()) }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn slice(&self, start: usize, end: usize) -> Read<&'a str> {
        self.text.get(start..end).ok_or(Unusual)
    }

    /// Returns whether a dash that starts an item stands at `at`.
    fn is_dash(&self, at: usize) -> bool {
        self.byte(at) == Some(b'-') && matches!(self.byte(at + 1), Some(b' ' | b'\n'))
    }

    /// From the start of a line, steps to the next token that is no comment.
    fn next_token(&mut self) -> Read {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        loop {
            let line = at;
            while bytes.get(at) == Some(&b' ') {
                at += 1;
            }
            match bytes.get(at) {
                None => {
                    (self.at, self.column) = (at, None);
                    return Ok(());
                }
                Some(b'\n') => at += 1,
                Some(b'#') => at = self.line_end(at)? + 1,
                Some(b'\t') => return Err(Unusual),
                Some(_) => {
                    if at == line && (bytes[at..].starts_with(b"---") || bytes[at..].starts_with(b"...")) {
                        return Err(Unusual);
                    }
                    (self.at, self.column) = (at, Some(at - line));
                    return Ok(());
                }
            }
        }
    }

    /// Returns where the line break after `at` stands.
    fn line_end(&self, at: usize) -> Read<usize> {
        let rest = self.text.as_bytes().get(at..).ok_or(Unusual)?;
        memchr::memchr(b'\n', rest).map(|end| at + end).ok_or(Unusual)
    }

    fn skip_spaces(&mut self) {
        while self.byte(self.at) == Some(b' ') {
            self.at += 1;
        }
    }

    /// Steps over the rest of a line, which may hold a comment, and to the next token.
    fn end_line(&mut self) -> Read {
        let value_end = self.at;
        self.skip_spaces();
        self.at = match self.byte(self.at) {
            Some(b'\n') => self.at + 1,
            Some(b'#') if self.at > value_end => self.line_end(self.at)? + 1,
            _ => return Err(Unusual),
        };
        self.next_token()
    }

    fn mapping(&mut self, column: usize) -> Read {
        self.builder.open_mapping(None)?;
        loop {
            if !self.key()? {
                return Err(Unusual);
            }
            self.value(column)?;
            match self.column {
                Some(next) if next == column => {}
                Some(next) if next > column => return Err(Unusual),
                _ => break,
            }
        }
        Ok(self.builder.close()?)
    }

    /// Reads the key at the current token, up to and including its colon, if there is one.
    fn key(&mut self) -> Read<bool> {
        let start = self.at;
        let (text, end, plain) = match self.byte(start) {
            Some(quote @ (b'"' | b'\'')) => {
                let Some(end) = self.simple_quoted(start, quote) else { return Ok(false) };
                if self.byte(end) != Some(b':') || !matches!(self.byte(end + 1), Some(b' ' | b'\n')) {
                    return Ok(false);
                }
                (self.slice(start + 1, end - 1)?, end, false)
            }
            _ => {
                if !self.can_start_plain(start) {
                    return Ok(false);
                }
                let End::Colon(end) = self.plain_line(start)? else { return Ok(false) };
                (self.slice(start, end)?, end, true)
            }
        };
        if end - start > LONGEST_KEY || (plain && (text.ends_with(' ') || text == "<<")) {
            return Err(Unusual);
        }
        self.builder.scalar(&Scalar { text, tag: None, plain, anchor: None })?;
        self.at = end + 1;
        Ok(true)
    }

    /// Reads the value behind a colon, `indent` being the column of its key.
    fn value(&mut self, indent: usize) -> Read {
        self.skip_spaces();
        match self.byte(self.at) {
            Some(b'\n' | b'#') => {
                self.end_line_behind_indicator()?;
                match self.column {
                    Some(column) if column > indent => self.node(column, indent),
                    Some(column) if column == indent && self.is_dash(self.at) => self.sequence(column, true),
                    _ => self.null(),
                }
            }
            _ => self.scalar(indent),
        }
    }

    /// Like [`Self::end_line`]; the space behind the indicator has been skipped already.
    fn end_line_behind_indicator(&mut self) -> Read {
        self.at = self.line_end(self.at)? + 1;
        self.next_token()
    }

    fn null(&mut self) -> Read {
        Ok(self.builder.scalar(&Scalar { text: "", tag: None, plain: true, anchor: None })?)
    }

    /// Reads items whose dashes stand in `column`; under a key of the same column they are
    /// followed by further keys.
    fn sequence(&mut self, column: usize, under_key: bool) -> Read {
        self.builder.open_sequence(None)?;
        loop {
            let dash = self.at;
            self.at += 1;
            self.skip_spaces();
            match self.byte(self.at) {
                Some(b'\n' | b'#') => {
                    self.end_line_behind_indicator()?;
                    match self.column {
                        Some(inner) if inner > column => self.node(inner, column)?,
                        _ => self.null()?,
                    }
                }
                _ => self.node(column + self.at - dash, column)?,
            }
            match self.column {
                Some(next) if next == column && self.is_dash(self.at) => {}
                Some(next) if next > column || (next == column && !under_key) => return Err(Unusual),
                _ => break,
            }
        }
        Ok(self.builder.close()?)
    }

    /// Reads a node at the current place, inside a collection whose column is `indent`.
    fn node(&mut self, column: usize, indent: usize) -> Read {
        if self.is_dash(self.at) {
            return self.sequence(column, false);
        }
        // What looks like a key opens a mapping. The builder must hear of the mapping first.
        let start = self.at;
        let is_key = match self.byte(start) {
            Some(quote @ (b'"' | b'\'')) => self
                .simple_quoted(start, quote)
                .is_some_and(|end| self.byte(end) == Some(b':') && matches!(self.byte(end + 1), Some(b' ' | b'\n'))),
            _ => self.can_start_plain(start) && matches!(self.plain_line(start)?, End::Colon(_)),
        };
        if is_key { self.mapping(column) } else { self.scalar(indent) }
    }

    /// Reads a scalar or a collection in brackets, and steps to the next token.
    fn scalar(&mut self, indent: usize) -> Read {
        match self.byte(self.at) {
            Some(b'|' | b'>') => self.block(indent),
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote),
            Some(b'[' | b'{') => {
                self.flow(FLOW_DEPTH)?;
                self.end_line()
            }
            _ => self.plain(indent),
        }
    }

    /// Reads a collection in brackets that stands on one line.
    fn flow(&mut self, depth: usize) -> Read {
        let close = if self.byte(self.at) == Some(b'[') { b']' } else { b'}' };
        if depth == 0 {
            return Err(Unusual);
        }
        if close == b']' {
            self.builder.open_sequence(None)?
        } else {
            self.builder.open_mapping(None)?
        }
        self.at += 1;
        self.skip_spaces();
        if self.byte(self.at) == Some(close) {
            self.at += 1;
            return Ok(self.builder.close()?);
        }
        loop {
            if close == b'}' {
                self.flow_scalar()?;
                if self.byte(self.at) != Some(b':') || self.byte(self.at + 1) != Some(b' ') {
                    return Err(Unusual);
                }
                self.at += 1;
                self.skip_spaces();
            }
            match self.byte(self.at) {
                Some(b'[' | b'{') => self.flow(depth - 1)?,
                _ => self.flow_scalar()?,
            }
            self.skip_spaces();
            let next = self.byte(self.at);
            self.at += 1;
            if next == Some(close) {
                return Ok(self.builder.close()?);
            }
            if next != Some(b',') {
                return Err(Unusual);
            }
            self.skip_spaces();
        }
    }

    /// Reads a scalar in brackets: in quotes, or of letters, digits and little else.
    fn flow_scalar(&mut self) -> Read {
        let start = self.at;
        let (text, end, plain) = match self.byte(start) {
            Some(quote @ (b'"' | b'\'')) => {
                let end = self.simple_quoted(start, quote).ok_or(Unusual)?;
                (self.slice(start + 1, end - 1)?, end, false)
            }
            Some(b) if b.is_ascii_alphanumeric() => {
                let word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'_' | b'.' | b'/' | b'-' | b'*');
                let length = self.text.as_bytes()[start..].iter().take_while(|b| word(b)).count();
                let text = self.slice(start, start + length)?.trim_end_matches(' ');
                (text, start + text.len(), true)
            }
            _ => return Err(Unusual),
        };
        if end - start > LONGEST_KEY {
            return Err(Unusual);
        }
        self.at = end;
        Ok(self.builder.scalar(&Scalar { text, tag: None, plain, anchor: None })?)
    }
}

#[cfg(test)]
mod tests;
