//! Reads the Dockerfiles of bundles: a base image, labels and copied files. Everything else needs a container engine.

use std::collections::BTreeMap;

/// A Dockerfile that builds a bundle image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BundleDockerfile {
    /// The base image; `scratch` for none.
    pub base: String,
    /// The labels of the image.
    pub labels: BTreeMap<String, String>,
    /// The copied files, in order.
    pub copies: Vec<Copied>,
}

/// A `COPY` instruction with one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The file or directory, relative to the build context.
    pub from: String,
    /// The path in the image. A trailing slash, or a directory as source, makes it a directory.
    pub to: String,
}

/// What a Dockerfile contains that only a container engine can build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleDockerfileError {
    /// An instruction other than FROM, LABEL and COPY.
    #[error("line {line}: {instruction} is not supported")]
    Instruction {
        /// The line, from 1.
        line: usize,
        instruction: String,
    },
    /// A form of a supported instruction.
    #[error("line {line}: {what} is not supported")]
    Form {
        /// The line, from 1.
        line: usize,
        /// The form.
        what: &'static str,
    },
    /// No base image.
    #[error("it has no FROM instruction")]
    NoBase,
}

impl BundleDockerfile {
    /// Parses a Dockerfile.
    ///
    /// # Errors
    /// Fails if it contains anything that only a container engine can build.
    pub fn parse(text: &str) -> Result<BundleDockerfile, BundleDockerfileError> {
        let mut found = BundleDockerfile::default();
        for (line, text) in instructions(text) {
            let form = |what| BundleDockerfileError::Form { line, what };
            let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
            let rest = rest.trim();
            if rest.contains('$') {
                return Err(form("a variable"));
            }
            if rest.starts_with("--") {
                return Err(form("a flag of an instruction"));
            }
            match name.to_ascii_uppercase().as_str() {
                "FROM" if !found.base.is_empty() => return Err(form("a second FROM")),
                "FROM" => match words(rest).ok_or(form("an unterminated quote"))?.as_slice() {
                    [base] => found.base = base.clone(),
                    _ => return Err(form("a named stage")),
                },
                "LABEL" => found.labels.extend(labels(rest).ok_or(form("a label without a value"))?),
                "COPY" => {
                    let paths = match rest.starts_with('[') {
                        true => serde_json::from_str(rest).map_err(|_| form("a list that is not JSON"))?,
                        false => words(rest).ok_or(form("an unterminated quote"))?,
                    };
                    let (to, from) = paths.split_last().ok_or(form("COPY without paths"))?;
                    if from.is_empty() {
                        return Err(form("COPY without a destination"));
                    }
                    if paths.iter().any(|path| path.contains(['*', '?', '['])) {
                        return Err(form("a wildcard"));
                    }
                    found.copies.extend(from.iter().map(|from| Copied { from: from.clone(), to: to.clone() }));
                }
                _ => return Err(BundleDockerfileError::Instruction { line, instruction: name.to_owned() }),
            }
        }
        match found.base.is_empty() {
            true => Err(BundleDockerfileError::NoBase),
            false => Ok(found),
        }
    }
}

/// Returns the instructions with their first line. Continued lines are joined; comments and blank lines are dropped.
fn instructions(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut continued = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (part, more) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match found.last_mut().filter(|_| continued) {
            Some((_, instruction)) => *instruction += part,
            None => found.push((number + 1, part.to_owned())),
        }
        continued = more;
    }
    found
}

/// Returns the labels `key=value`, or the only label of the older form `key value`.
fn labels(text: &str) -> Option<Vec<(String, String)>> {
    let words = words(text)?;
    let (first, rest) = words.split_first()?;
    if !first.contains('=') {
        return (!rest.is_empty()).then(|| vec![(first.clone(), rest.join(" "))]);
    }
    words.iter().map(|word| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))).collect()
}

/// Splits text at blanks, except in quotes and after a backslash. Returns `None` if a quote does not end.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            (' ' | '\t', None) => words.extend(word.take()),
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, Some(open)) if character == open => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(characters.next()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dockerfile_of_a_project_is_read() {
        let text = "\
FROM scratch

# Core bundle labels.
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL a=1 \\
  # a comment
  b=\"two words\" c='x=y'
label old form of it

COPY bundle/manifests /manifests/
COPY bundle/tests/scorecard /tests/scorecard/
COPY [\"a b\", \"c\", \"/d/\"]
";
        let parsed = BundleDockerfile::parse(text).unwrap();
        assert_eq!(parsed.base, "scratch");
        let labels = |key: &str| parsed.labels[key].as_str();
        assert_eq!([labels("a"), labels("b"), labels("c"), labels("old")], ["1", "two words", "x=y", "form of it"]);
        assert_eq!(labels("operators.operatorframework.io.bundle.mediatype.v1"), "registry+v1");
        let copies: Vec<(&str, &str)> = parsed.copies.iter().map(|copy| (&*copy.from, &*copy.to)).collect();
        assert_eq!(
            copies,
            [
                ("bundle/manifests", "/manifests/"),
                ("bundle/tests/scorecard", "/tests/scorecard/"),
                ("a b", "/d/"),
                ("c", "/d/")
            ]
        );
    }

    #[test]
    fn whatever_needs_a_container_engine_is_named() {
        let error = |text: &str| BundleDockerfile::parse(text).unwrap_err().to_string();
        assert_eq!(error("FROM scratch\nRUN make\n"), "line 2: RUN is not supported");
        assert_eq!(error("FROM scratch\n\nADD x /y\n"), "line 3: ADD is not supported");
        assert_eq!(error("FROM a AS b\n"), "line 1: a named stage is not supported");
        assert_eq!(error("FROM a\nFROM b\n"), "line 2: a second FROM is not supported");
        assert_eq!(error("FROM a\nCOPY --from=b x /y\n"), "line 2: a flag of an instruction is not supported");
        assert_eq!(error("FROM a\nCOPY $X /y\n"), "line 2: a variable is not supported");
        assert_eq!(error("FROM a\nCOPY *.yaml /y\n"), "line 2: a wildcard is not supported");
        assert_eq!(error("FROM a\nCOPY x\n"), "line 2: COPY without a destination is not supported");
        assert_eq!(error("FROM a\nLABEL \"x=y\n"), "line 2: a label without a value is not supported");
        assert_eq!(error("# nothing\n"), "it has no FROM instruction");
    }
}
