//! Patterns of `matches`, in the RE2 syntax that clusters use.
//!
//! The linked regex engine has a larger syntax, where some of RE2 means something else: `\d`, `\w`, `\s` and `\b` are
//! ASCII in RE2, and brackets have no operators. So a pattern is rewritten first.

use regex::bytes::{Regex, RegexBuilder};

/// The maximum size of a compiled pattern, in bytes.
const MAX_COMPILED: usize = 256 << 10;
/// The maximum repetition count of RE2.
const MAX_REPEATS: u64 = 1_000;
/// The maximum nesting of groups.
const MAX_DEPTH: u32 = 100;

/// The characters that are special to the engine, anywhere in a pattern.
const SIGNS: &str = r"\.+*?()|[]{}^$#&-~";

/// The names of classes in brackets.
const CLASSES: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    weight: u64,
}

impl Pattern {
    /// Compiles a pattern; `None` if RE2 would reject it.
    pub(super) fn compile(text: &str) -> Option<Pattern> {
        let (rewritten, weight) = Rewriter { rest: text, out: String::new(), weight: 1 }.run()?;
        let regex = RegexBuilder::new(&rewritten).size_limit(MAX_COMPILED).nest_limit(MAX_DEPTH).build().ok()?;
        Some(Pattern { regex, weight })
    }

    /// Returns an upper estimate of the steps of a search in a text.
    pub(super) fn steps(&self, text: &str) -> u64 {
        (text.len() as u64).saturating_mul(self.weight) / 64
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text.as_bytes())
    }
}

struct Rewriter<'t> {
    rest: &'t str,
    out: String,
    /// The approximate number of states of the pattern.
    weight: u64,
}

/// Whether the item before is repeated.
#[derive(Clone, Copy)]
enum Repeated {
    No,
    Greedy,
    Lazy,
}

impl<'t> Rewriter<'t> {
    fn run(mut self) -> Option<(String, u64)> {
        let mut repeats = 1u64;
        // RE2 does not repeat a repetition; one more question mark makes it lazy.
        let mut repeated = Repeated::No;
        while let Some(c) = self.next() {
            self.weight += 1;
            repeated = match (c, repeated) {
                ('*' | '+' | '?', Repeated::No) => Repeated::Greedy,
                ('?', Repeated::Greedy) => Repeated::Lazy,
                ('*' | '+' | '?', _) => return None,
                ('{', Repeated::Greedy | Repeated::Lazy) if self.counts().is_some() => return None,
                ('{', _) if self.counts().is_some() => Repeated::Greedy,
                _ => Repeated::No,
            };
            match c {
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '{' => repeats = repeats.saturating_mul(self.repeat()?),
                '(' => self.group()?,
                '.' => {
                    self.weight += 10;
                    self.out.push(c);
                }
                _ => self.out.push(c),
            }
        }
        Some((self.out, self.weight.saturating_mul(repeats)))
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// Adds a literal character.
    fn plain(&mut self, c: char) {
        if SIGNS.contains(c) {
            self.out.push('\\');
        }
        self.out.push(c);
    }

    /// Rewrites an escape after its backslash.
    fn escape(&mut self, in_class: bool) -> Option<()> {
        let c = self.next()?;
        let class = match c {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            'w' => "[0-9A-Za-z_]",
            'W' => "[^0-9A-Za-z_]",
            's' => "[\\t\\n\\x0c\\r ]",
            'S' => "[^\\t\\n\\x0c\\r ]",
            'b' if !in_class => "(?-u:\\b)",
            'B' if !in_class => "(?-u:\\B)",
            'A' if !in_class => "\\A",
            'z' if !in_class => "\\z",
            'a' => "\\x07",
            'f' => "\\x0c",
            'n' => "\\n",
            'r' => "\\r",
            't' => "\\t",
            'v' => "\\x0b",
            'Q' if !in_class => return self.quoted(),
            'p' | 'P' => return self.property(c),
            'x' => return self.code(),
            '0'..='7' => return self.octal(c),
            c if c.is_ascii_punctuation() => {
                self.plain(c);
                return Some(());
            }
            _ => return None,
        };
        self.out.push_str(class);
        Some(())
    }

    /// Rewrites `\Q...\E`, which quotes everything between.
    fn quoted(&mut self) -> Option<()> {
        let (quoted, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
        self.rest = rest;
        self.weight += quoted.len() as u64;
        quoted.chars().for_each(|c| self.plain(c));
        Some(())
    }

    /// Copies a Unicode class.
    fn property(&mut self, c: char) -> Option<()> {
        self.weight += 500;
        self.out.push('\\');
        self.out.push(c);
        let first = self.next()?;
        self.out.push(first);
        if first == '{' {
            let (name, rest) = self.rest.split_once('}')?;
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !name.strip_prefix('^').unwrap_or(name).chars().all(word) {
                return None;
            }
            self.out.push_str(name);
            self.out.push('}');
            self.rest = rest;
        }
        Some(())
    }

    /// Rewrites `\x41` and `\x{41}`.
    fn code(&mut self) -> Option<()> {
        let (digits, rest) = match self.rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => (self.rest.get(..2)?, &self.rest[2..]),
        };
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.rest = rest;
        self.plain(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
        Some(())
    }

    /// Rewrites `\0`, `\012` and `\123`; a single non-zero digit would be a back reference.
    fn octal(&mut self, first: char) -> Option<()> {
        let mut number = first.to_digit(8)?;
        let mut digits = 1;
        while digits < 3 {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
            (number, digits) = (number * 8 + digit, digits + 1);
            self.next();
        }
        if first != '0' && digits == 1 {
            return None;
        }
        self.plain(char::from_u32(number)?);
        Some(())
    }

    /// Rewrites a bracket class: only `]`, `-`, `\`, `[:name:]` and the first `^` are special.
    fn class(&mut self) -> Option<()> {
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.weight += 10;
            self.out.push('^');
            self.rest = rest;
        }
        let (mut first, mut range) = (true, false);
        loop {
            self.weight += 1;
            if let Some((name, rest)) = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) {
                if !CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return None;
                }
                self.out.push_str("[:");
                self.out.push_str(name);
                self.out.push_str(":]");
                self.rest = rest;
                (first, range) = (false, false);
                continue;
            }
            match self.next()? {
                ']' if !first => break,
                '\\' => self.escape(true)?,
                // A hyphen between two characters is a range; elsewhere it is a literal.
                '-' if !first && !range && !self.rest.starts_with(']') => {
                    self.out.push('-');
                    range = true;
                    continue;
                }
                c => self.plain(c),
            }
            (first, range) = (false, false);
        }
        self.out.push(']');
        Some(())
    }

    /// Returns the content of the braces of `{2}`, `{2,}` or `{2,3}`, and the rest of the pattern.
    fn counts(&self) -> Option<(&'t str, &'t str)> {
        self.rest.split_once('}').filter(|(counts, _)| {
            let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            !least.is_empty() && digits(least) && digits(most)
        })
    }

    /// Copies a repetition count; every other brace is a literal.
    fn repeat(&mut self) -> Option<u64> {
        let Some((counts, rest)) = self.counts() else {
            self.plain('{');
            return Some(1);
        };
        let most = counts.split(',').filter_map(|count| count.parse::<u64>().ok()).max()?;
        if most > MAX_REPEATS {
            return None;
        }
        self.out.push('{');
        self.out.push_str(counts);
        self.out.push('}');
        self.rest = rest;
        Some(most.max(1))
    }

    /// Copies a group, with the flags that RE2 knows.
    fn group(&mut self) -> Option<()> {
        self.out.push('(');
        let Some(rest) = self.rest.strip_prefix('?') else { return Some(()) };
        let named = rest.starts_with("P<") || rest.starts_with('<');
        let flags = rest.split([':', ')']).next().unwrap_or_default();
        if !named && !flags.chars().all(|c| "imsU-".contains(c)) {
            return None;
        }
        self.out.push('?');
        self.rest = rest;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_re2() {
        for (pattern, text, found) in [
            ("^su.*", "sushi", true),
            ("us", "sushi", true),
            ("^us", "sushi", false),
            // Classes of letters are about ASCII.
            (r"^\d+$", "123", true),
            (r"^\d+$", "\u{661}", false),
            (r"^\w+$", "a_1", true),
            (r"^\w+$", "ä", false),
            (r"^\W$", "ä", true),
            (r"^\s$", "\u{a0}", false),
            (r"a\b", "aä", true),
            (r"a\B", "aä", false),
            (r"^[\d.]+$", "1.2", true),
            (r"^[\D]$", "1", false),
            (r"^\pL$", "ä", true),
            (r"^\p{Greek}$", "λ", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^[[:^alpha:]]+$", "ab", false),
            // Brackets have no operators and no brackets in them.
            ("^[[a]+$", "[a", true),
            ("^[]a]+$", "]a", true),
            ("^[^]a]+$", "]a", false),
            ("^[a&&b]+$", "a&b", true),
            ("^[a~~b]+$", "~", true),
            ("^[+--]$", ",", true),
            ("^[a-]$", "-", true),
            ("^[-a]$", "-", true),
            (r"^\<a\>$", "<a>", true),
            (r"^\Qa.b[\E$", "a.b[", true),
            (r"^\x41\x{1F600}\101$", "A\u{1F600}A", true),
            ("^a{2}$", "aa", true),
            ("^a{,2}$", "a{,2}", true),
            ("^a{b$", "a{b", true),
            ("(?i)^ABC$", "abc", true),
            ("^a.c$", "a\nc", false),
            ("(?s)^a.c$", "a\nc", true),
            ("(?m)^b$", "a\nb", true),
            ("^(?:a|b)+?$", "abab", true),
            ("(?P<n>a)", "a", true),
            ("a b#c", "a b#c", true),
            (r"\b{start}", "{start}", false),
            (r"a\b{start}", "a{start}", true),
        ] {
            let pattern = Pattern::compile(pattern).unwrap_or_else(|| panic!("{pattern}"));
            assert_eq!(pattern.is_in(text), found, "{pattern:?} in {text:?}");
        }
    }

    #[test]
    fn patterns_that_re2_rejects_are_rejected() {
        let deep = "(".repeat(200) + &")".repeat(200);
        for pattern in [
            "(",
            ")",
            "[",
            "[a",
            "*",
            "a**",
            "a+*",
            "a{2}{3}",
            "a{1001}",
            "(?x)a",
            "(?=a)",
            "(?<=a)",
            r"\1",
            r"(a)\1",
            r"\y",
            r"\u0041",
            "[b-a]",
            "[a--z]",
            "[[:x:]]",
            r"\pX{",
            r"\x{110000}",
            r"\",
            "(a{1000}){1000}",
            &deep,
        ] {
            assert!(Pattern::compile(pattern).is_none(), "{pattern}");
        }
    }
}
