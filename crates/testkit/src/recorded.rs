//! Recorded results of the existing tools: one text file a case, with the input files and what must come out.
//!
//! A file has a note, the commands and their checks, and sections, as `fixtures/recorded/README.md` describes. Nothing here
//! writes expectations: they come from the existing tools.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64_simd::STANDARD;
use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

/// A recorded case.
#[derive(Debug, Default)]
pub struct Recorded {
    steps: Vec<RecordedCommand>,
    directories: Vec<String>,
    /// Each as link and target.
    links: Vec<(String, String)>,
    inputs: Vec<(String, Vec<u8>)>,
}

/// A command and what must come out.
#[derive(Debug, Default)]
struct RecordedCommand {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    stdin: Option<String>,
    exit: Exit,
    checks: Vec<Check>,
}

#[derive(Debug, Default)]
enum Exit {
    #[default]
    Success,
    Code(i32),
    Nonzero,
}

#[derive(Debug)]
enum Check {
    Has(Stream, String),
    Lacks(Stream, String),
    Matches(Stream, Regex),
    Is(Stream, Form, Vec<u8>),
    File(String, Form, Vec<u8>),
    Exists(String),
    Absent(String),
    /// A directory with exactly these entries.
    Directory(String, Vec<String>),
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

/// How content is compared.
#[derive(Debug, Clone, Copy)]
enum Form {
    Exact,
    /// As a stream of values, in JSON or YAML; the order of keys does not count.
    Values,
}

impl Recorded {
    /// Parses a case.
    ///
    /// # Errors
    /// Fails with the line that is wrong.
    pub fn parse(text: &str) -> Result<Recorded, String> {
        let mut case = Recorded::default();
        let mut sections = text.split_inclusive('\n').peekable();
        let mut is_note = true;
        while let Some(line) = sections.next_if(|line| section_name(line).is_none()) {
            let line = line.trim_end_matches('\n');
            is_note &= !line.starts_with("$ ");
            if !is_note {
                case.header(line).map_err(|problem| format!("{line}: {problem}"))?;
            }
        }
        while let Some(name) = sections.next().and_then(section_name) {
            let mut content = String::new();
            while let Some(line) = sections.next_if(|line| section_name(line).is_none()) {
                content.push_str(line);
            }
            case.section(name, content).map_err(|problem| format!("-- {name} --: {problem}"))?;
        }
        if case.steps.is_empty() { Err("there is no command".into()) } else { Ok(case) }
    }

    fn header(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let pair = || rest.split_once(' ').ok_or("two words are required");
        match word {
            "$" => {
                let mut words = shell_words(rest)?.into_iter();
                if words.next().as_deref() != Some("opm") {
                    return Err("only opm is run".into());
                }
                self.steps.push(RecordedCommand { arguments: words.collect(), ..RecordedCommand::default() });
                return Ok(());
            }
            "mkdir" => {
                self.directories.push(rest.into());
                return Ok(());
            }
            "symlink" => {
                let (link, target) = pair()?;
                self.links.push((link.into(), target.into()));
                return Ok(());
            }
            _ => {}
        }
        let step = self.steps.last_mut().ok_or("it precedes the first command")?;
        match word {
            "env" => {
                let (name, value) = rest.split_once('=').ok_or("NAME=VALUE is required")?;
                step.environment.push((name.into(), value.into()));
            }
            "stdin" => step.stdin = Some(rest.into()),
            "exit" if rest == "nonzero" => step.exit = Exit::Nonzero,
            "exit" => step.exit = Exit::Code(rest.parse().map_err(|_| "a number is required")?),
            "stdout" | "stderr" => {
                let stream = if word == "stdout" { Stream::Stdout } else { Stream::Stderr };
                let (kind, text) = pair()?;
                let text: String = serde_json::from_str(text).map_err(|error| error.to_string())?;
                step.checks.push(match kind {
                    "has" => Check::Has(stream, text),
                    "lacks" => Check::Lacks(stream, text),
                    "matches" => {
                        let pattern = Regex::new(&format!("(?m){text}")).map_err(|error| error.to_string())?;
                        Check::Matches(stream, pattern)
                    }
                    _ => return Err(format!("{kind} is unknown")),
                });
            }
            "file" => step.checks.push(match rest.rsplit_once(' ') {
                Some((path, "exists")) => Check::Exists(path.into()),
                Some((path, "absent")) => Check::Absent(path.into()),
                _ => return Err("exists or absent is required".into()),
            }),
            "dir" => {
                let mut words = rest.split(' ').map(str::to_owned);
                let path = words.next().unwrap_or_default();
                let mut names: Vec<String> = words.filter(|name| !name.is_empty()).collect();
                names.sort();
                step.checks.push(Check::Directory(path, names));
            }
            _ => return Err("the word is unknown".into()),
        }
        Ok(())
    }

    fn section(&mut self, name: &str, mut content: String) -> Result<(), String> {
        let mut name = name;
        let mut bytes = None;
        if let Some(short) = name.strip_suffix(" (no newline)") {
            name = short;
            content.pop();
        } else if let Some(short) = name.strip_suffix(" (base64)") {
            name = short;
            let digits: String = content.split_whitespace().collect();
            bytes = Some(STANDARD.decode_to_vec(digits).map_err(|error| error.to_string())?);
        }
        let bytes = bytes.unwrap_or_else(|| content.into_bytes());
        let Some(of) = name.strip_prefix("> ") else {
            self.inputs.push((name.into(), bytes));
            return Ok(());
        };
        let (of, form) = match of.strip_suffix(" json").or_else(|| of.strip_suffix(" yaml")) {
            Some(of) => (of, Form::Values),
            None => (of, Form::Exact),
        };
        if let Some(path) = of.strip_prefix("file ") {
            let step = self.steps.last_mut().ok_or("there is no command")?;
            step.checks.push(Check::File(path.into(), form, bytes));
            return Ok(());
        }
        let end = of.find(|c: char| c.is_ascii_digit()).unwrap_or(of.len());
        let (stream, number) = of.split_at(end);
        let stream = match stream {
            "stdout" => Stream::Stdout,
            "stderr" => Stream::Stderr,
            _ => return Err("the stream is unknown".into()),
        };
        let number: usize = if number.is_empty() { 1 } else { number.parse().map_err(|_| "a number is required")? };
        let step = self.steps.get_mut(number.wrapping_sub(1)).ok_or("there is no such command")?;
        step.checks.push(Check::Is(stream, form, bytes));
        Ok(())
    }

    /// Runs the commands of the case; returns what differs from the recording, and all that was printed to stderr.
    ///
    /// # Panics
    /// Panics if the files of the case cannot be created.
    pub fn run(&self, opm: &Path) -> (Vec<String>, String) {
        let place = Place::new();
        for directory in &self.directories {
            fs::create_dir_all(place.work(directory)).expect("a directory");
        }
        for (path, content) in &self.inputs {
            let path = place.work(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, content).expect("a file");
        }
        for (link, target) in &self.links {
            let link = place.work(link);
            fs::create_dir_all(link.parent().expect("a parent")).expect("a directory");
            std::os::unix::fs::symlink(target, link).expect("a link");
        }
        let (mut wrong, mut messages) = (Vec::new(), String::new());
        for step in &self.steps {
            let output = step.run(opm, &place);
            wrong.extend(step.problems(&place, &output));
            messages.push_str(&String::from_utf8_lossy(&output.stderr));
        }
        (wrong, messages)
    }
}

/// The directories of a case: its files, a home and one for temporary files.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a directory"));
        for name in ["work", "home", "tmp"] {
            fs::create_dir(place.0.path().join(name)).expect("a directory");
        }
        place
    }

    fn work(&self, path: &str) -> PathBuf {
        self.0.path().join("work").join(path)
    }

    fn expand(&self, text: &str) -> String {
        let at = |name: &str| self.0.path().join(name).display().to_string();
        text.replace("${CASE}", &at("work")).replace("${TMP}", &at("tmp"))
    }
}

impl RecordedCommand {
    fn run(&self, opm: &Path, place: &Place) -> Output {
        let mut command = Command::new(opm);
        // A port of the test's own; a case that needs two names two.
        let port = self.arguments.iter().any(|argument| argument.contains("${PORT}")).then(crate::free_port);
        let expand = |text: &String| {
            let text = place.expand(text);
            port.as_ref().map_or(text.clone(), |port| text.replace("${PORT}", &port.to_string()))
        };
        command.args(self.arguments.iter().map(expand)).current_dir(place.work("")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", place.0.path().join("home")).env("TMPDIR", place.0.path().join("tmp"));
        command.envs([("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC")]);
        command.envs(self.environment.iter().map(|(name, value)| (name, place.expand(value))));
        let stdin = self.stdin.as_ref().map(|path| fs::File::open(place.work(path)).expect("the file for stdin"));
        command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
        command.output().expect("opm runs")
    }

    fn problems(&self, place: &Place, output: &Output) -> Vec<String> {
        let mut wrong = Vec::new();
        let (code, stderr) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
        let is_expected = match self.exit {
            Exit::Success => code == Some(0),
            Exit::Code(expected) => code == Some(expected),
            Exit::Nonzero => code.is_some_and(|code| code != 0),
        };
        if !is_expected {
            let ended = code.map_or_else(|| format!("signal {:?}", output.status.signal()), |code| code.to_string());
            wrong.push(format!("exit {ended} instead of {:?}; stderr:\n{stderr}", self.exit));
        }
        if stderr.contains("panicked at ") {
            wrong.push(format!("it panicked:\n{stderr}"));
        }
        wrong.extend(self.checks.iter().filter_map(|check| check.problem(place, output)));
        wrong
    }
}

impl Stream {
    fn of(self, output: &Output) -> &[u8] {
        match self {
            Stream::Stdout => &output.stdout,
            Stream::Stderr => &output.stderr,
        }
    }
}

impl Check {
    fn problem(&self, place: &Place, output: &Output) -> Option<String> {
        let text = |stream: &Stream| String::from_utf8_lossy(stream.of(output)).into_owned();
        let holds = match self {
            Check::Has(stream, wanted) => text(stream).contains(&place.expand(wanted)),
            Check::Lacks(stream, unwanted) => !text(stream).contains(&place.expand(unwanted)),
            Check::Matches(stream, pattern) => pattern.is_match(&text(stream)),
            Check::Is(stream, form, expected) => {
                return form.difference(&format!("{stream:?}"), expected, stream.of(output));
            }
            Check::File(path, form, expected) => match fs::read(place.work(path)) {
                Ok(content) => return form.difference(path, expected, &content),
                Err(error) => return Some(format!("{path}: {error}")),
            },
            Check::Exists(path) => place.work(path).exists(),
            Check::Absent(path) => place.work(path).symlink_metadata().is_err(),
            Check::Directory(path, names) => {
                let entries = fs::read_dir(place.work(path)).into_iter().flatten().flatten();
                let mut found: Vec<String> =
                    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
                found.sort();
                found == *names
            }
        };
        (!holds).then(|| {
            format!("{self:?} does not hold\nstdout:\n{}stderr:\n{}", text(&Stream::Stdout), text(&Stream::Stderr))
        })
    }
}

impl Form {
    /// Describes how content differs from what is expected.
    fn difference(self, what: &str, expected: &[u8], found: &[u8]) -> Option<String> {
        let is_same = match self {
            Form::Exact => expected == found,
            Form::Values => match (values(expected), values(found)) {
                (Some(expected), Some(found)) => expected == found,
                _ => false,
            },
        };
        let (expected, found) = (String::from_utf8_lossy(expected), String::from_utf8_lossy(found));
        let at = expected.lines().zip(found.lines()).take_while(|(one, other)| one == other).count();
        let rest = |text: &str| text.lines().skip(at).take(5).collect::<Vec<_>>().join("\n");
        (!is_same).then(|| {
            let line = at + 1;
            format!("{what} differs from line {line}\nexpected:\n{}\nfound:\n{}", rest(&expected), rest(&found))
        })
    }
}

/// Returns the values of a stream in JSON or YAML.
fn values(text: &[u8]) -> Option<Vec<Value>> {
    let documents = fbc::stream::documents(text, &fbc::Limits::default()).ok()?;
    documents.iter().map(|document| serde_json::from_str(document.as_str()).ok()).collect()
}

/// Returns the name of the section that a line starts.
fn section_name(line: &str) -> Option<&str> {
    line.trim_end_matches('\n').strip_prefix("-- ")?.strip_suffix(" --")
}

/// Splits a command line into words, as a shell does with words in quotes.
fn shell_words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some(end) if end == c => break,
                        Some(inner) => word.push(inner),
                        None => return Err("a quote is not closed".into()),
                    }
                }
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_parsed_and_run() {
        let text = "A note.\nOf two lines.\n$ opm 'a b' 'it'\"'\"'s' ''\nexit 3\nstdin in\nstdout has \"b\\n\"\n\
            file none absent\n-- in (no newline) --\nx\n\n-- > stdout --\na b,it's,,x\nb\n-- > file out json --\n\
            {\"b\": 1, \"a\": 2}\n";
        let case = Recorded::parse(text).unwrap();
        let place = tempfile::tempdir().unwrap();
        let program = |body: &str| {
            let path = place.path().join("opm");
            fs::write(&path, format!("#!/bin/sh\n{body}")).unwrap();
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            path
        };
        let good = "printf '%s,%s,%s,' \"$@\"; cat; echo b; echo '{\"a\": 2, \"b\": 1}' > out; exit 3";
        let (wrong, _) = case.run(&program(good));
        assert!(wrong.is_empty(), "{wrong:#?}");
        let (wrong, messages) = case.run(&program("echo no >&2; touch none; echo '{}' > out"));
        assert_eq!((wrong.len(), messages.as_str()), (5, "no\n"), "{wrong:#?}");
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in
            ["note\n", "$ ls\n", "$ opm\nexit soon\n", "$ opm\nstdout is \"x\"\n", "$ opm 'x\n", "$ opm\nfine\n"]
        {
            assert!(Recorded::parse(text).is_err(), "{text}");
        }
    }
}
