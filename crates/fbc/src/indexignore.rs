//! `.indexignore` files, which exclude files of a catalog directory from the catalog.
//!
//! The patterns resemble those of `.gitignore` but differ in many corner cases, so this is a separate matcher:
//!
//! - All `.indexignore` files form one list, in the order of the directory walk.
//!   The last pattern that matches a file decides, regardless of its position; a file in an ignored
//!   directory can be included again.
//! - Only files are tested. A pattern without `/` is compared with every component of the
//!   path, one with `/` from the directory of its `.indexignore` on, and both cover everything
//!   below what they match.
//! - After `**/` the next component binds to its first occurrence and stays there.
//! - `[^a]` negates a class; `[!a]` contains `!` and `a`.
//!
//! File names are bytes. The cost of matching a name is at most the product of the lengths of pattern and name.

/// The patterns of all `.indexignore` files of a catalog directory.
#[derive(Clone, Debug, Default)]
pub struct IndexIgnore {
    files: Vec<IgnoreFile>,
}

#[derive(Clone, Debug)]
struct IgnoreFile {
    /// The components of the directory's path, relative to the root of the catalog.
    directory: Vec<Box<[u8]>>,
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    /// Whether the pattern starts with `!`.
    includes: bool,
    /// Whether the pattern ends with `/`.
    directories_only: bool,
    target: PatternTarget,
}

#[derive(Clone, Debug)]
enum PatternTarget {
    /// Any component of the path.
    Component(Glob),
    /// The path from its start.
    Path(Vec<GlobStep>),
}

#[derive(Clone, Debug)]
enum GlobStep {
    /// One component.
    Component(Glob),
    /// Any number of components, up to one that the next step matches.
    AnyDepth,
    /// The rest of the path, which must not be empty. Only the last step.
    Below,
}

/// A pattern for one component of a path.
#[derive(Clone, Debug)]
struct Glob(Vec<Token>);

#[derive(Clone, Debug)]
enum Token {
    Byte(u8),
    AnyCharacter,
    AnyRun,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl IndexIgnore {
    /// Adds the `.indexignore` file of `directory`, whose content is `text`.
    ///
    /// `directory` is given by its components, relative to the root of the catalog. Files are added in the order of the
    /// directory walk, because later ones take precedence. Malformed patterns match nothing and are not an error.
    pub fn add<C: AsRef<[u8]>>(&mut self, directory: &[C], text: &[u8]) {
        self.files.push(IgnoreFile {
            directory: directory.iter().map(|component| component.as_ref().into()).collect(),
            patterns: text.split(|&byte| byte == b'\n').filter_map(Pattern::parse).collect(),
        });
    }

    /// Returns whether a file is ignored.
    ///
    /// `path` is given by its components, relative to the root of the catalog.
    pub fn is_ignored<C: AsRef<[u8]>>(&self, path: &[C]) -> bool {
        let deciding = self.files.iter().rev().find_map(|file| {
            let below = file.strip_directory(path)?;
            file.patterns.iter().rev().find(|pattern| pattern.matches(below))
        });
        deciding.is_some_and(|pattern| !pattern.includes)
    }
}

impl IgnoreFile {
    /// Returns the part of `path` below the directory, if it is there.
    fn strip_directory<'p, C: AsRef<[u8]>>(&self, path: &'p [C]) -> Option<&'p [C]> {
        let (start, below) = path.split_at_checked(self.directory.len())?;
        start
            .iter()
            .zip(&self.directory)
            .all(|(component, expected)| component.as_ref() == &**expected)
            .then_some(below)
    }
}

impl Pattern {
    /// Parses a line. Comments, empty lines and patterns that match nothing give `None`.
    fn parse(line: &[u8]) -> Option<Pattern> {
        let line = trim(line);
        if line.is_empty() || line.starts_with(b"#") {
            return None;
        }
        let (includes, line) = match line.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (directories_only, line) = match line.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let target = if line.contains(&b'/') {
            PatternTarget::Path(parse_path(line)?)
        } else {
            PatternTarget::Component(Glob::parse(line)?)
        };
        Some(Pattern { includes, directories_only, target })
    }

    fn matches<C: AsRef<[u8]>>(&self, path: &[C]) -> bool {
        let below = match &self.target {
            PatternTarget::Component(glob) => after_first(glob, path),
            PatternTarget::Path(steps) => after_steps(steps, path),
        };
        // A match of the whole path is a match of the file itself.
        below.is_some_and(|below| !self.directories_only || !below.is_empty())
    }
}

/// Parses a pattern that contains a slash. Returns `None` if it can match nothing.
fn parse_path(line: &[u8]) -> Option<Vec<GlobStep>> {
    let mut steps = Vec::new();
    let mut components = line.split(|&byte| byte == b'/').peekable();
    while let Some(component) = components.next() {
        match component {
            // A leading slash only anchors the pattern; a doubled one cancels the preceding `**`.
            b"" => while steps.pop_if(|step| matches!(step, GlobStep::AnyDepth)).is_some() {},
            b"**" if components.peek().is_none() => steps.push(GlobStep::Below),
            b"**" => steps.push(GlobStep::AnyDepth),
            _ if component.windows(2).any(|pair| pair == b"**") => return None,
            _ => steps.push(GlobStep::Component(Glob::parse(component)?)),
        }
    }
    // A pattern of only stars, such as `/**`, has never matched anything.
    steps.iter().any(|step| matches!(step, GlobStep::Component(_))).then_some(steps)
}

/// Returns the path after the first component that `glob` matches.
fn after_first<'p, C: AsRef<[u8]>>(glob: &Glob, path: &'p [C]) -> Option<&'p [C]> {
    let position = path.iter().position(|component| glob.matches(component.as_ref()))?;
    Some(&path[position + 1..])
}

/// Returns the rest of `path` if `steps` match its start.
fn after_steps<'p, C: AsRef<[u8]>>(steps: &[GlobStep], path: &'p [C]) -> Option<&'p [C]> {
    let mut rest = path;
    let mut any_depth = false;
    for step in steps {
        match step {
            GlobStep::AnyDepth => any_depth = true,
            GlobStep::Below if rest.is_empty() => return None,
            GlobStep::Below => {}
            GlobStep::Component(glob) => {
                let searched = if any_depth { rest } else { rest.get(..1)? };
                let skipped = searched.len() - after_first(glob, searched)?.len();
                rest = &rest[skipped..];
                any_depth = false;
            }
        }
    }
    Some(rest)
}

impl Glob {
    /// Parses a pattern for one component. Returns `None` if it is malformed.
    fn parse(mut pattern: &[u8]) -> Option<Glob> {
        let mut tokens = Vec::with_capacity(pattern.len());
        while let Some((&byte, rest)) = pattern.split_first() {
            pattern = rest;
            tokens.push(match byte {
                b'*' => Token::AnyRun,
                b'?' => Token::AnyCharacter,
                b'[' => parse_class(&mut pattern)?,
                b'\\' => {
                    let (&escaped, rest) = pattern.split_first()?;
                    pattern = rest;
                    Token::Byte(escaped)
                }
                _ => Token::Byte(byte),
            });
        }
        Some(Glob(tokens))
    }

    /// Returns whether all of `name` matches.
    ///
    /// On a mismatch only the last star takes one more byte: backtracking to an earlier star could gain nothing, so the
    /// cost stays bounded for any number of stars.
    fn matches(&self, name: &[u8]) -> bool {
        let (mut token_index, mut name_index) = (0, 0);
        let mut last_star = None;
        loop {
            let advance = match self.0.get(token_index) {
                None if name_index == name.len() => return true,
                None => None,
                Some(Token::AnyRun) => {
                    last_star = Some((token_index + 1, name_index));
                    Some(0)
                }
                Some(token) => token.match_length(&name[name_index..]),
            };
            if let Some(length) = advance {
                token_index += 1;
                name_index += length;
                continue;
            }
            match last_star {
                Some((after_star, from)) if from < name.len() => {
                    last_star = Some((after_star, from + 1));
                    (token_index, name_index) = (after_star, from + 1);
                }
                _ => return false,
            }
        }
    }
}

impl Token {
    /// Returns the number of bytes that match at the start of `name`; never called for stars.
    fn match_length(&self, name: &[u8]) -> Option<usize> {
        match self {
            Token::AnyRun => Some(0),
            Token::Byte(byte) => (name.first() == Some(byte)).then_some(1),
            Token::AnyCharacter => first_character(name).map(|(_, length)| length),
            Token::Class { negated, ranges } => {
                let (character, length) = first_character(name)?;
                let listed = ranges.iter().any(|&(low, high)| low <= character && character <= high);
                (listed != *negated).then_some(length)
            }
        }
    }
}

/// Parses a class after its `[`, and advances `pattern` past the `]`.
fn parse_class(pattern: &mut &[u8]) -> Option<Token> {
    let negated = match pattern.strip_prefix(b"^") {
        Some(rest) => {
            *pattern = rest;
            true
        }
        None => false,
    };
    let mut ranges = Vec::new();
    loop {
        if let Some(rest) = pattern.strip_prefix(b"]")
            && !ranges.is_empty()
        {
            *pattern = rest;
            return Some(Token::Class { negated, ranges });
        }
        let low = parse_class_character(pattern)?;
        let high = match pattern.strip_prefix(b"-") {
            Some(rest) => {
                *pattern = rest;
                parse_class_character(pattern)?
            }
            None => low,
        };
        ranges.push((low, high));
    }
}

/// Parses one end of a range in a class. A bare `-` or `]` is not a character there.
fn parse_class_character(pattern: &mut &[u8]) -> Option<char> {
    let rest = match pattern.split_first()? {
        (b'-' | b']', _) => return None,
        (b'\\', rest) => rest,
        _ => pattern,
    };
    let (character, length) = first_character(rest)?;
    if character == char::REPLACEMENT_CHARACTER && length == 1 {
        return None;
    }
    *pattern = &rest[length..];
    Some(character)
}

/// Returns the first character and its length; an invalid UTF-8 byte counts as one character.
fn first_character(bytes: &[u8]) -> Option<(char, usize)> {
    let start = &bytes[..bytes.len().min(4)];
    let chunk = start.utf8_chunks().next()?;
    Some(match chunk.valid().chars().next() {
        Some(character) => (character, character.len_utf8()),
        None => (char::REPLACEMENT_CHARACTER, 1),
    })
}

/// Trims whitespace at both ends, including non-ASCII whitespace.
fn trim(line: &[u8]) -> &[u8] {
    match std::str::from_utf8(line) {
        Ok(text) => text.trim().as_bytes(),
        Err(_) => line.trim_ascii(),
    }
}

#[cfg(test)]
mod tests;
