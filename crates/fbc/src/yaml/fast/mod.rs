//! A fast path for the YAML that most files consist of.
//!
//! Nearly all manifests and catalogs are block mappings and sequences of plain, quoted and block scalars, indented with
//! spaces. This reader supports only these and reads them in one pass. If the text contains anything else, or may be
//! invalid, the reader gives up silently and the parser in `events` reads the whole document, which also produces the
//! error messages. The reader must never accept what that parser rejects, or read it differently.

mod scalar;

use self::scalar::End;
use super::build::Builder;
use super::events::Scalar;
use super::fault::YamlFault;
use super::read::YamlLimits;

/// Deeper documents take the slow path, since this reader is recursive.
const MAX_DEPTH: usize = 200;

/// The maximum length of a key in bytes; the exact limit counts characters.
const MAX_KEY_LEN: usize = 1000;

/// Deeper nested flow collections take the slow path.
const MAX_FLOW_DEPTH: usize = 8;

/// The text does not qualify for the fast path.
struct Unsupported;

impl From<YamlFault> for Unsupported {
    fn from(_: YamlFault) -> Unsupported {
        Unsupported
    }
}

type Read<T = ()> = Result<T, Unsupported>;

/// Appends the document in `text` to `out` as canonical JSON if it qualifies for the fast path.
///
/// Returns whether a mapping has equal keys. Otherwise returns `None`; `out` may have grown.
pub(super) fn read(text: &[u8], limits: &YamlLimits, out: &mut Vec<u8>) -> Option<bool> {
    let text = only_usual_characters(text)?;
    let limits = YamlLimits { depth: limits.depth.min(MAX_DEPTH), ..*limits };
    let builder = Builder::new(&limits, out);
    let mut reader = Reader { text, at: 0, column: None, builder, scratch: String::new() };
    reader.document().ok().map(|()| reader.builder.repeated)
}

/// Returns the text if it ends with a line break, all characters are allowed, and `\n` is the only line break.
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
    /// The column of the token at `at`, which is the first of its line; `None` at the end.
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
        let column = self.column.ok_or(Unsupported)?;
        if self.is_dash(self.at) {
            self.sequence(column, false)?;
        } else {
            self.mapping(column)?;
        }
        if self.column.is_some() { Err(Unsupported) } else { Ok(()) }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn slice(&self, start: usize, end: usize) -> Read<&'a str> {
        self.text.get(start..end).ok_or(Unsupported)
    }

    /// Returns whether there is a list dash at `at`.
    fn is_dash(&self, at: usize) -> bool {
        self.byte(at) == Some(b'-') && matches!(self.byte(at + 1), Some(b' ' | b'\n'))
    }

    /// Moves from the start of a line to the next token that is not a comment.
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
                Some(b'\t') => return Err(Unsupported),
                Some(_) => {
                    if at == line && (bytes[at..].starts_with(b"---") || bytes[at..].starts_with(b"...")) {
                        return Err(Unsupported);
                    }
                    (self.at, self.column) = (at, Some(at - line));
                    return Ok(());
                }
            }
        }
    }

    /// Returns the offset of the next line break.
    fn line_end(&self, at: usize) -> Read<usize> {
        let rest = self.text.as_bytes().get(at..).ok_or(Unsupported)?;
        memchr::memchr(b'\n', rest).map(|end| at + end).ok_or(Unsupported)
    }

    fn skip_spaces(&mut self) {
        while self.byte(self.at) == Some(b' ') {
            self.at += 1;
        }
    }

    /// Skips the rest of a line, including a comment, and moves to the next token.
    fn end_line(&mut self) -> Read {
        let value_end = self.at;
        self.skip_spaces();
        self.at = match self.byte(self.at) {
            Some(b'\n') => self.at + 1,
            Some(b'#') if self.at > value_end => self.line_end(self.at)? + 1,
            _ => return Err(Unsupported),
        };
        self.next_token()
    }

    fn mapping(&mut self, column: usize) -> Read {
        self.builder.open_mapping(None)?;
        loop {
            if !self.key()? {
                return Err(Unsupported);
            }
            self.value(column)?;
            match self.column {
                Some(next) if next == column => {}
                Some(next) if next > column => return Err(Unsupported),
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
        if end - start > MAX_KEY_LEN || (plain && (text.ends_with(' ') || text == "<<")) {
            return Err(Unsupported);
        }
        self.builder.scalar(&Scalar { text, tag: None, plain, anchor: None })?;
        self.at = end + 1;
        Ok(true)
    }

    /// Reads the value after a colon; `indent` is the column of its key.
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

    /// Like [`Self::end_line`], after the space behind the indicator was skipped.
    fn end_line_behind_indicator(&mut self) -> Read {
        self.at = self.line_end(self.at)? + 1;
        self.next_token()
    }

    fn null(&mut self) -> Read {
        Ok(self.builder.scalar(&Scalar { text: "", tag: None, plain: true, anchor: None })?)
    }

    /// Reads items whose dashes are in `column`; under a key of the same column, further keys may follow.
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
                Some(next) if next > column || (next == column && !under_key) => return Err(Unsupported),
                _ => break,
            }
        }
        Ok(self.builder.close()?)
    }

    /// Reads a node at the current position, inside a collection whose column is `indent`.
    fn node(&mut self, column: usize, indent: usize) -> Read {
        if self.is_dash(self.at) {
            return self.sequence(column, false);
        }
        // A potential key opens a mapping. The builder must open the mapping first.
        let start = self.at;
        let is_key = match self.byte(start) {
            Some(quote @ (b'"' | b'\'')) => self
                .simple_quoted(start, quote)
                .is_some_and(|end| self.byte(end) == Some(b':') && matches!(self.byte(end + 1), Some(b' ' | b'\n'))),
            _ => self.can_start_plain(start) && matches!(self.plain_line(start)?, End::Colon(_)),
        };
        if is_key { self.mapping(column) } else { self.scalar(indent) }
    }

    /// Reads a scalar or flow collection, and moves to the next token.
    fn scalar(&mut self, indent: usize) -> Read {
        match self.byte(self.at) {
            Some(b'|' | b'>') => self.block(indent),
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote),
            Some(b'[' | b'{') => {
                self.flow(MAX_FLOW_DEPTH)?;
                self.end_line()
            }
            _ => self.plain(indent),
        }
    }

    /// Reads a flow collection on one line.
    fn flow(&mut self, depth: usize) -> Read {
        let close = if self.byte(self.at) == Some(b'[') { b']' } else { b'}' };
        if depth == 0 {
            return Err(Unsupported);
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
                    return Err(Unsupported);
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
                return Err(Unsupported);
            }
            self.skip_spaces();
        }
    }

    /// Reads a scalar in a flow collection: quoted, or a restricted plain scalar.
    fn flow_scalar(&mut self) -> Read {
        let start = self.at;
        let (text, end, plain) = match self.byte(start) {
            Some(quote @ (b'"' | b'\'')) => {
                let end = self.simple_quoted(start, quote).ok_or(Unsupported)?;
                (self.slice(start + 1, end - 1)?, end, false)
            }
            Some(b) if b.is_ascii_alphanumeric() => {
                let word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'_' | b'.' | b'/' | b'-' | b'*');
                let length = self.text.as_bytes()[start..].iter().take_while(|b| word(b)).count();
                let text = self.slice(start, start + length)?.trim_end_matches(' ');
                (text, start + text.len(), true)
            }
            _ => return Err(Unsupported),
        };
        if end - start > MAX_KEY_LEN {
            return Err(Unsupported);
        }
        self.at = end;
        Ok(self.builder.scalar(&Scalar { text, tag: None, plain, anchor: None })?)
    }
}

#[cfg(test)]
mod tests;
