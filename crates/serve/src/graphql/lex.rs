//! The lexer of queries.

use super::{QueryFailure, Span};

/// A token of a query, and its position.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind<'a>,
    pub(super) at: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind<'a> {
    /// One of `! $ & ( ) : = @ [ ] { | }`, or `...` as `.`.
    Mark(u8),
    Name(&'a str),
    Int(&'a str),
    Float(&'a str),
    Text(String),
    End,
}

/// Splits a query into tokens.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fail(&self, at: usize, message: impl Into<String>) -> QueryFailure {
        QueryFailure::at(Span(at), format!("Syntax Error: {}", message.into()))
    }

    /// Skips white space, commas and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let plain = rest.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n', ',']);
            let line = if plain.starts_with('#') { plain.find(['\n', '\r']).unwrap_or(plain.len()) } else { 0 };
            self.at += rest.len() - plain.len() + line;
            if line == 0 {
                return;
            }
        }
    }

    /// Returns the next token.
    ///
    /// # Errors
    /// Fails where the text is not a valid token.
    pub(super) fn next(&mut self) -> Result<Token<'a>, QueryFailure> {
        self.skip();
        let (rest, start) = (self.rest(), self.at);
        let token = |kind| Token { kind, at: Span(start) };
        let Some(first) = rest.bytes().next() else { return Ok(token(TokenKind::End)) };
        match first {
            b'!' | b'$' | b'&' | b'(' | b')' | b':' | b'=' | b'@' | b'[' | b']' | b'{' | b'|' | b'}' => {
                self.at += 1;
                Ok(token(TokenKind::Mark(first)))
            }
            b'.' if rest.starts_with("...") => {
                self.at += 3;
                Ok(token(TokenKind::Mark(b'.')))
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let name = run(rest, |byte| byte == b'_' || byte.is_ascii_alphanumeric());
                self.at += name.len();
                Ok(token(TokenKind::Name(name)))
            }
            b'-' | b'0'..=b'9' => self.number().map(token),
            b'"' if rest.starts_with("\"\"\"") => self.block().map(token),
            b'"' => self.string().map(token),
            _ => {
                let found = rest.chars().next().unwrap_or_default();
                Err(self.fail(start, format!("Unexpected character {found:?}.")))
            }
        }
    }

    fn number(&mut self) -> Result<TokenKind<'a>, QueryFailure> {
        let rest = self.rest();
        let digits = |from: usize| run(rest.get(from..).unwrap_or_default(), |byte| byte.is_ascii_digit()).len();
        let byte = |at: usize| rest.as_bytes().get(at).copied();
        let mut end = usize::from(byte(0) == Some(b'-'));
        let (whole, zero) = (digits(end), byte(end) == Some(b'0'));
        if whole == 0 || (zero && whole > 1) {
            return Err(self.fail(self.at, "Invalid number."));
        }
        end += whole;
        let mut float = false;
        if byte(end) == Some(b'.') {
            let fraction = digits(end + 1);
            if fraction == 0 {
                return Err(self.fail(self.at + end, "Invalid number, expected a digit."));
            }
            (end, float) = (end + 1 + fraction, true);
        }
        if matches!(byte(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(byte(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent == 0 {
                return Err(self.fail(self.at + end, "Invalid number, expected a digit."));
            }
            (end, float) = (end + 1 + sign + exponent, true);
        }
        if matches!(byte(end), Some(b'_' | b'.')) || byte(end).is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            return Err(self.fail(self.at + end, "Invalid number, expected a digit."));
        }
        self.at += end;
        let text = &rest[..end];
        Ok(if float { TokenKind::Float(text) } else { TokenKind::Int(text) })
    }

    fn string(&mut self) -> Result<TokenKind<'a>, QueryFailure> {
        let (rest, mut out) = (self.rest(), String::new());
        let mut chars = rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(TokenKind::Text(out));
                }
                '\n' | '\r' => break,
                '\\' => {
                    let escape = chars.next().map(|(_, c)| c);
                    out.push(match escape {
                        Some(c @ ('"' | '\\' | '/')) => c,
                        Some('b') => '\u{8}',
                        Some('f') => '\u{c}',
                        Some('n') => '\n',
                        Some('r') => '\r',
                        Some('t') => '\t',
                        Some('u') => {
                            let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                            let number = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                            let Some(number) = number else {
                                return Err(self.fail(self.at + at, "Invalid Unicode escape sequence."));
                            };
                            // A lone surrogate cannot occur in a catalog.
                            char::from_u32(number).unwrap_or('\u{fffd}')
                        }
                        _ => return Err(self.fail(self.at + at, "Invalid character escape sequence.")),
                    });
                }
                c if c < ' ' && c != '\t' => return Err(self.fail(self.at + at, "Invalid character within String.")),
                c => out.push(c),
            }
        }
        Err(self.fail(self.at, "Unterminated string."))
    }

    fn block(&mut self) -> Result<TokenKind<'a>, QueryFailure> {
        let inner = self.rest().get(3..).unwrap_or_default();
        let mut from = 0;
        let end = loop {
            let Some(found) = inner.get(from..).and_then(|rest| rest.find("\"\"\"")) else {
                return Err(self.fail(self.at, "Unterminated string."));
            };
            let found = from + found;
            if !inner[..found].ends_with('\\') {
                break found;
            }
            from = found + 3;
        };
        self.at += 3 + end + 3;
        Ok(TokenKind::Text(dedented(&inner[..end].replace("\\\"\"\"", "\"\"\""))))
    }
}

/// Returns the longest prefix of `text` whose bytes all fit.
fn run(text: &str, fits: impl Fn(u8) -> bool) -> &str {
    let end = text.bytes().position(|byte| !fits(byte)).unwrap_or(text.len());
    &text[..end]
}

/// Returns a block string without common indentation and surrounding blank lines.
fn dedented(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let blank = |line: &&str| line.trim_matches([' ', '\t']).is_empty();
    let indent = |line: &&str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let common = lines.iter().skip(1).filter(|line| !blank(line)).map(indent).min().unwrap_or(0);
    let cut: Vec<&str> = lines
        .iter()
        .enumerate()
        .map(|(number, line)| if number == 0 { line } else { line.get(common..).unwrap_or_default() })
        .collect();
    let first = cut.iter().position(|line| !blank(line)).unwrap_or(cut.len());
    let last = cut.iter().rposition(|line| !blank(line)).map_or(first, |last| last + 1);
    cut[first..last].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<TokenKind<'_>>, String> {
        let mut lexer = Lexer::new(text);
        let mut words = Vec::new();
        loop {
            match lexer.next().map_err(|failure| failure.message)?.kind {
                TokenKind::End => return Ok(words),
                word => words.push(word),
            }
        }
    }

    #[test]
    fn tokens_are_distinguished() {
        let found = words("\u{feff}{ a_1(x: -10, y: 1.5e3) # rest\n ...@b \"q\\u0041\\n\" }").unwrap();
        let mark = |byte: u8| TokenKind::Mark(byte);
        let wanted = [
            mark(b'{'),
            TokenKind::Name("a_1"),
            mark(b'('),
            TokenKind::Name("x"),
            mark(b':'),
            TokenKind::Int("-10"),
            TokenKind::Name("y"),
            mark(b':'),
            TokenKind::Float("1.5e3"),
            mark(b')'),
            mark(b'.'),
            mark(b'@'),
            TokenKind::Name("b"),
            TokenKind::Text("qA\n".into()),
            mark(b'}'),
        ];
        assert_eq!(found, wanted);
        assert_eq!(
            words("\"\"\"\n   one\n     two \\\"\"\"\n  \"\"\"").unwrap(),
            [TokenKind::Text("one\n  two \"\"\"".into())]
        );
        for wrong in ["\"a", "\"a\nb\"", "\"\\u00\"", "01", "1.", "1e", "1a", "..", "?", "\"\"\"a", "-", "\"\\"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }
}
