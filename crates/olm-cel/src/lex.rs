//! The lexer of rules: names, literals and signs.

use super::error::{RuleError, RuleFault};
use super::literal;

/// A token of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    /// A name, which may be reserved.
    Name(&'t str),
    /// The digits of an integer, and their base. The sign before them decides whether they fit.
    Int(&'t str, u32),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
    /// An operator, a bracket, or a keyword: `in`, `true`, `false`, `null`.
    Sign(&'static str),
    End,
}

/// The signs, longer ones before their prefixes.
const SIGNS: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",", "(", ")", "[", "]",
    "{", "}",
];

/// Names that are signs.
const KEYWORDS: &[&str] = &["in", "true", "false", "null"];

/// Splits a rule into tokens with their offsets. The last one is [`Token::End`].
///
/// # Errors
/// Fails with the text that is not a token.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token<'_>, usize)>, RuleError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at += blank(&text[at..]);
        let rest = &text[at..];
        if rest.is_empty() {
            tokens.push((Token::End, at));
            return Ok(tokens);
        }
        let (token, length) = token(rest).map_err(|fault| fault.placed(text, at))?;
        tokens.push((token, at));
        at += length;
    }
}

/// Returns the length of leading blanks and comments.
fn blank(text: &str) -> usize {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{c}']);
        let Some(comment) = rest.strip_prefix("//") else { return text.len() - rest.len() };
        rest = comment.find('\n').map_or("", |end| &comment[end..]);
    }
}

/// Reads the first token of a text, and returns its length.
fn token(text: &str) -> Result<(Token<'_>, usize), RuleFault> {
    if let Some(string) = literal::string(text) {
        return string;
    }
    let bytes = text.as_bytes();
    let fraction = bytes[0] == b'.' && bytes.get(1).is_some_and(u8::is_ascii_digit);
    if bytes[0].is_ascii_digit() || fraction {
        return literal::number(text);
    }
    let name = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    if name > 0 {
        let name = &text[..name];
        let sign = KEYWORDS.iter().find(|word| **word == name);
        return Ok((sign.map_or(Token::Name(name), |word| Token::Sign(word)), name.len()));
    }
    match SIGNS.iter().find(|sign| text.starts_with(**sign)) {
        Some(sign) => Ok((Token::Sign(sign), sign.len())),
        None => Err(RuleFault::Character(text.chars().next().unwrap_or_default())),
    }
}
