//! Scalars of the fast path: plain, quoted, and block.

use super::{Read, Reader, Unsupported};
use crate::yaml::events::Scalar;

/// The end of a line of plain text.
pub(super) enum End {
    /// At the colon of a key.
    Colon(usize),
    /// At the end of the line, or before a comment.
    Line { text: usize, line: usize, comment: bool },
}

impl<'a> Reader<'a, '_> {
    pub(super) fn can_start_plain(&self, at: usize) -> bool {
        match self.byte(at) {
            None | Some(b' ' | b'\t' | b'\n' | b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!') => false,
            Some(b'|' | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`') => false,
            Some(b'-' | b'?' | b':') => !matches!(self.byte(at + 1), None | Some(b' ' | b'\t' | b'\n')),
            Some(_) => true,
        }
    }

    /// Finds the end of plain text on its line.
    #[inline]
    pub(super) fn plain_line(&self, start: usize) -> Read<End> {
        let bytes = self.text.as_bytes();
        let mut at = start;
        let (end, comment) = loop {
            while let Some(&b) = bytes.get(at)
                && !STOPS[b as usize]
            {
                at += 1;
            }
            match bytes.get(at) {
                Some(b'\n') => break (at, false),
                Some(b':') => match bytes.get(at + 1) {
                    Some(b' ' | b'\n') => return Ok(End::Colon(at)),
                    Some(b'\t') => return Err(Unsupported),
                    _ => {}
                },
                Some(b'#') => {
                    if at > start && bytes[at - 1] == b' ' {
                        break (at, true);
                    }
                }
                _ => return Err(Unsupported), // a tab
            }
            at += 1;
        };
        let mut text = end;
        while text > start && bytes[text - 1] == b' ' {
            text -= 1;
        }
        Ok(End::Line { text, line: if comment { self.line_end(end)? } else { end }, comment })
    }

    pub(super) fn plain(&mut self, indent: usize) -> Read {
        if !self.can_start_plain(self.at) {
            return Err(Unsupported);
        }
        let End::Line { text: end, line, comment } = self.plain_line(self.at)? else { return Err(Unsupported) };
        let first = self.slice(self.at, end)?;
        self.at = line + 1;
        let before = self.at;
        self.next_token()?;
        // More deeply indented text on the next lines belongs to the scalar, unless a comment precedes it.
        let Some(column) = self.column.filter(|&column| column > indent) else {
            return Ok(self.builder.scalar(&Scalar { text: first, tag: None, plain: true, anchor: None })?);
        };
        if comment {
            return Err(Unsupported);
        }
        self.more_plain(first, before, column, indent)
    }

    /// Reads the continuation lines of a plain scalar, starting at the current token.
    fn more_plain(&mut self, first: &str, before: usize, mut column: usize, indent: usize) -> Read {
        self.scratch.clear();
        self.scratch.push_str(first);
        let mut before = before;
        while column > indent {
            let skipped = self.slice(before, self.at - column)?;
            if skipped.contains('#') {
                return Err(Unsupported);
            }
            match skipped.matches('\n').count() {
                0 => self.scratch.push(' '),
                blank_lines => self.scratch.extend(std::iter::repeat_n('\n', blank_lines)),
            }
            let End::Line { text: end, line, comment } = self.plain_line(self.at)? else { return Err(Unsupported) };
            let text = self.slice(self.at, end)?;
            self.scratch.push_str(text);
            self.at = line + 1;
            before = self.at;
            self.next_token()?;
            column = match self.column {
                Some(column) if column > indent && comment => return Err(Unsupported),
                Some(column) => column,
                None => break,
            };
        }
        Ok(self.builder.scalar(&Scalar { text: &self.scratch, tag: None, plain: true, anchor: None })?)
    }

    /// Returns the index after a quoted text that ends on its line and needs no decoding.
    pub(super) fn simple_quoted(&self, start: usize, quote: u8) -> Option<usize> {
        let rest = self.text.as_bytes().get(start + 1..)?;
        let end = if quote == b'"' {
            memchr::memchr3(b'"', b'\\', b'\n', rest)?
        } else {
            memchr::memchr2(b'\'', b'\n', rest)?
        };
        let doubled = quote == b'\'' && rest.get(end + 1) == Some(&b'\'');
        (rest[end] == quote && !doubled).then_some(start + end + 2)
    }

    pub(super) fn quoted(&mut self, quote: u8) -> Read {
        let start = self.at;
        if let Some(end) = self.simple_quoted(start, quote) {
            let text = self.slice(start + 1, end - 1)?;
            self.builder.scalar(&Scalar { text, tag: None, plain: false, anchor: None })?;
            self.at = end;
            return self.end_line();
        }
        self.scratch.clear();
        self.at += 1;
        loop {
            let from = self.at;
            let rest = self.text.as_bytes().get(from..).ok_or(Unsupported)?;
            let stop = if quote == b'"' {
                memchr::memchr3(b'"', b'\\', b'\n', rest)
            } else {
                memchr::memchr2(b'\'', b'\n', rest)
            };
            let at = from + stop.ok_or(Unsupported)?;
            let text = self.slice(from, at)?;
            self.at = at + 1;
            match self.byte(at) {
                Some(b'\n') => {
                    // Whitespace before a line break is folded with it; escaped whitespace is already kept.
                    self.scratch.push_str(text.trim_end_matches([' ', '\t']));
                    match self.blank_lines()? {
                        0 => self.scratch.push(' '),
                        lines => self.scratch.extend(std::iter::repeat_n('\n', lines)),
                    }
                }
                Some(b'\\') => {
                    self.scratch.push_str(text);
                    self.escape()?;
                }
                Some(b'\'') if self.byte(at + 1) == Some(b'\'') => {
                    self.scratch.push_str(text);
                    self.scratch.push('\'');
                    self.at = at + 2;
                }
                _ => {
                    self.scratch.push_str(text);
                    break;
                }
            }
        }
        self.builder.scalar(&Scalar { text: &self.scratch, tag: None, plain: false, anchor: None })?;
        self.end_line()
    }

    /// After a line break inside quotes, skips blank lines and the leading whitespace of the next line; returns the
    /// number of blank lines.
    fn blank_lines(&mut self) -> Read<usize> {
        let mut count = 0;
        loop {
            let line = self.at;
            while matches!(self.byte(self.at), Some(b' ' | b'\t')) {
                self.at += 1;
            }
            match self.byte(self.at) {
                Some(b'\n') => {
                    self.at += 1;
                    count += 1;
                }
                // This may be a document marker or the end of the text.
                Some(b'-' | b'.') if self.at == line => return Err(Unsupported),
                None => return Err(Unsupported),
                Some(_) => return Ok(count),
            }
        }
    }

    /// Reads the escape after its backslash.
    fn escape(&mut self) -> Read {
        let (c, digits) = match self.byte(self.at) {
            Some(b'n') => ('\n', 0),
            Some(b't') => ('\t', 0),
            Some(b'r') => ('\r', 0),
            Some(c @ (b'"' | b'\\' | b'\'' | b' ')) => (char::from(c), 0),
            Some(b'x') => ('\0', 2),
            Some(b'u') => ('\0', 4),
            Some(b'U') => ('\0', 8),
            Some(b'\n') => {
                self.at += 1;
                let lines = self.blank_lines()?;
                self.scratch.extend(std::iter::repeat_n('\n', lines));
                return Ok(());
            }
            _ => return Err(Unsupported),
        };
        self.at += 1;
        if digits == 0 {
            self.scratch.push(c);
        } else {
            let hex = self.slice(self.at, self.at + digits)?;
            if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(Unsupported);
            }
            let code = u32::from_str_radix(hex, 16).map_err(|_| Unsupported)?;
            self.scratch.push(char::from_u32(code).ok_or(Unsupported)?);
            self.at += digits;
        }
        Ok(())
    }

    /// Reads a literal or folded block.
    pub(super) fn block(&mut self, parent: usize) -> Read {
        let literal = self.byte(self.at) == Some(b'|');
        let (mut chomp, mut explicit) = (None, None);
        loop {
            self.at += 1;
            match self.byte(self.at) {
                Some(c @ (b'+' | b'-')) if chomp.is_none() => chomp = Some(c),
                Some(digit @ b'1'..=b'9') if explicit.is_none() => explicit = Some(usize::from(digit - b'0')),
                _ => break,
            }
        }
        let header_end = self.at;
        self.skip_spaces();
        self.at = match self.byte(self.at) {
            Some(b'\n') => self.at + 1,
            Some(b'#') if self.at > header_end => self.line_end(self.at)? + 1,
            _ => return Err(Unsupported),
        };
        let bytes = self.text.as_bytes();
        let indent = match explicit {
            Some(width) => parent + width,
            None => self.block_indent(parent)?,
        };
        self.scratch.clear();
        // The line breaks since the last line of text; lines that start with a space are not folded.
        let mut breaks = 0;
        let mut kept = true;
        let mut any = false;
        loop {
            let line = self.at;
            let mut at = line;
            while at < line + indent && bytes.get(at) == Some(&b' ') {
                at += 1;
            }
            match bytes.get(at) {
                Some(b'\n') => {
                    breaks += 1;
                    self.at = at + 1;
                    continue;
                }
                Some(b'\t') if at < line + indent => return Err(Unsupported),
                Some(&b) if at == line + indent => {
                    let blank = matches!(b, b' ' | b'\t');
                    if literal || kept || blank || !any {
                        self.scratch.extend(std::iter::repeat_n('\n', breaks));
                    } else if breaks == 1 {
                        self.scratch.push(' ');
                    } else {
                        self.scratch.extend(std::iter::repeat_n('\n', breaks - 1));
                    }
                    let end = self.line_end(at)?;
                    let text = self.slice(at, end)?;
                    self.scratch.push_str(text);
                    (any, kept, breaks) = (true, blank, 1);
                    self.at = end + 1;
                }
                _ => {
                    self.at = line;
                    break;
                }
            }
        }
        let last_breaks = match chomp {
            Some(b'-') => 0,
            Some(_) => breaks,
            None => usize::from(any),
        };
        self.scratch.extend(std::iter::repeat_n('\n', last_breaks));
        self.builder.scalar(&Scalar { text: &self.scratch, tag: None, plain: false, anchor: None })?;
        self.next_token()
    }

    /// Finds the indentation of a block from its first line of text.
    fn block_indent(&self, parent: usize) -> Read<usize> {
        let bytes = self.text.as_bytes();
        let (mut line, mut widest) = (self.at, 0);
        loop {
            let mut at = line;
            while bytes.get(at) == Some(&b' ') {
                at += 1;
            }
            let width = at - line;
            match bytes.get(at) {
                Some(b'\n') => {
                    widest = widest.max(width);
                    line = at + 1;
                }
                // A blank line wider than the text, or a block without text.
                Some(b'\t') | None => return Err(Unsupported),
                Some(_) if width <= parent || widest > width => return Err(Unsupported),
                Some(_) => return Ok(width),
            }
        }
    }
}

/// The bytes at which plain text may end.
static STOPS: [bool; 256] = {
    let mut stops = [false; 256];
    stops[b'\n' as usize] = true;
    stops[b':' as usize] = true;
    stops[b'#' as usize] = true;
    stops[b'\t' as usize] = true;
    stops
};
