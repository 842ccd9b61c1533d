//! Literals: numbers, and strings with quotes and escapes.

use super::error::RuleFault;
use super::lex::Token;

/// A token and its length.
type Lexed<'t> = Result<(Token<'t>, usize), RuleFault>;

/// Parses the number at the start of a text. The text starts with a digit, or with a point and a digit.
pub(super) fn number(text: &str) -> Lexed<'_> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    if let Some(hex) = text.strip_prefix("0x") {
        let length = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        if length > 0 {
            return integer(text, &hex[..length], 16, 2 + length);
        }
    }
    let whole = digits(text);
    let mut length = whole;
    if text[length..].starts_with('.') {
        let fraction = digits(&text[length + 1..]);
        length += if fraction > 0 { 1 + fraction } else { 0 };
    }
    if let Some(exponent) = text[length..].strip_prefix(['e', 'E']) {
        let signed = usize::from(exponent.starts_with(['+', '-']));
        let power = digits(&exponent[signed..]);
        length += if power > 0 { 1 + signed + power } else { 0 };
    }
    if length == whole {
        return integer(text, &text[..whole], 10, whole);
    }
    match text[..length].parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((Token::Double(number), length)),
        _ => Err(RuleFault::Double(text[..length].to_owned())),
    }
}

/// Parses an integer with known digits.
fn integer<'t>(text: &'t str, digits: &'t str, base: u32, length: usize) -> Lexed<'t> {
    if !text[length..].starts_with(['u', 'U']) {
        return Ok((Token::Int(digits, base), length));
    }
    let number = u64::from_str_radix(digits, base).map_err(|_| RuleFault::Uint(text[..=length].to_owned()))?;
    Ok((Token::Uint(number), length + 1))
}

/// Parses the string literal at the start of a text, if there is one.
pub(super) fn string(text: &str) -> Option<Lexed<'_>> {
    let after_bytes = text.strip_prefix(['b', 'B']);
    let after_raw = after_bytes.unwrap_or(text).strip_prefix(['r', 'R']);
    let quoted = after_raw.or(after_bytes).unwrap_or(text);
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| quoted.starts_with(quote))?;
    Some(closed(quoted, quote, after_raw.is_some()).and_then(|content| {
        let length = text.len() - quoted.len() + content.len() + 2 * quote.len();
        let bytes = decode(content, after_raw.is_some(), after_bytes.is_some())?;
        let token = match after_bytes {
            Some(_) => Token::Bytes(bytes),
            None => Token::String(String::from_utf8(bytes)?),
        };
        Ok((token, length))
    }))
}

/// Returns the text between the quotes.
fn closed<'t>(quoted: &'t str, quote: &str, raw: bool) -> Result<&'t str, RuleFault> {
    let content = &quoted[quote.len()..];
    let mut escaped = false;
    for (at, c) in content.char_indices() {
        if escaped {
            escaped = false;
        } else if content[at..].starts_with(quote) {
            return Ok(&content[..at]);
        } else if c == '\\' && !raw {
            escaped = true;
        }
        if quote.len() == 1 && (c == '\n' || c == '\r') {
            break;
        }
    }
    Err(RuleFault::Unterminated)
}

/// Returns the bytes of a literal.
fn decode(content: &str, raw: bool, bytes: bool) -> Result<Vec<u8>, RuleFault> {
    let content = content.replace("\r\n", "\n").replace('\r', "\n");
    if raw {
        return Ok(content.into_bytes());
    }
    let mut decoded = Vec::with_capacity(content.len());
    let mut rest = content.as_str();
    while let Some(at) = rest.find('\\') {
        decoded.extend_from_slice(&rest.as_bytes()[..at]);
        let (value, length) = escape(&rest[at + 1..], bytes).ok_or(RuleFault::Escape)?;
        match value {
            Escape::Byte(byte) => decoded.push(byte),
            Escape::Char(c) => decoded.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        rest = &rest[at + 1 + length..];
    }
    decoded.extend_from_slice(rest.as_bytes());
    Ok(decoded)
}

/// The value of an escape.
enum Escape {
    Byte(u8),
    Char(char),
}

/// Parses an escape after its backslash, and returns its length.
fn escape(text: &str, bytes: bool) -> Option<(Escape, usize)> {
    let first = text.chars().next()?;
    let simple = match first {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '`' | '?' => first,
        'x' | 'X' => return code(text, 1, 2, 16, bytes),
        '0'..='3' => return code(text, 0, 3, 8, bytes),
        'u' if !bytes => return code(text, 1, 4, 16, bytes),
        'U' if !bytes => return code(text, 1, 8, 16, bytes),
        _ => return None,
    };
    Some((Escape::Char(simple), 1))
}

/// Parses the code of a character, or of a byte.
fn code(text: &str, from: usize, digits: usize, base: u32, bytes: bool) -> Option<(Escape, usize)> {
    let number = text.get(from..from + digits)?;
    if !number.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    let number = u32::from_str_radix(number, base).ok()?;
    let value = if bytes { Escape::Byte(u8::try_from(number).ok()?) } else { Escape::Char(char::from_u32(number)?) };
    Some((value, from + digits))
}
