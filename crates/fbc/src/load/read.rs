//! Reads the documents of files, one window at a time.

use std::io;

use rayon::prelude::*;

use super::{DocumentOutcome, FileOutcome, NOT_TEXT, Task, TextSource};
use crate::documents::{Batch, Document, EndOfDocuments, Splitter};
use crate::files::Window;
use crate::json::{self, Raw};
use crate::problem::{Problem, ProblemStage, Spot};
use crate::write::Format;
use crate::yaml::{self, BadSeparator, YamlError, YamlFault};

/// The window size for JSON, in bytes.
const JSON_WINDOW: usize = 1 << 20;
/// The window size for YAML, in bytes.
const YAML_WINDOW: usize = 4 << 20;
/// The minimum size of a batch of JSON blobs for parallel decoding.
const PARALLEL_FROM: usize = 256 << 10;

/// The start of a merge conflict in a file under version control.
const CONFLICT: &[u8] = b"<<<<<<< ";
/// The rule that keys differ.
const REPEATED_KEY: &str = "repeated-key";
/// Equal keys are searched among this many of an object in JSON.
const MANY_KEYS: usize = 32;
const INDENTATION: &str = "a line above is indented differently: keys of one object start in one column, and so do the \
                           items of one list";
const RESOLVE: &str = "resolve the merge conflict between the lines '<<<<<<<' and '>>>>>>>'";

/// The result of reading a file as YAML that looks like JSON.
struct YamlFallback {
    /// Why it is not JSON.
    problem: Problem,
    outcome: FileOutcome,
}

impl Task<'_> {
    /// Reads documents until the file ends or cannot be split further.
    pub(super) fn read_documents(&self, mut window: Window, outcome: &mut FileOutcome) -> io::Result<()> {
        let mut splitter = Splitter::new(self.limits().depth);
        let mut fallback: Option<YamlFallback> = None;
        let mut count = 0;
        let mut wanted = JSON_WINDOW;
        let fault = loop {
            window.fill(wanted)?;
            let batch = splitter.step(window.bytes(), window.ended, self.limits().documents + 1 - count);
            let into = fallback.as_mut().map_or(&mut *outcome, |fallback| &mut fallback.outcome);
            if let Some(fault) = self.add_batch(&batch, window.offset, into) {
                break Some(fault);
            }
            count += batch.documents.len();
            if count > self.limits().documents {
                break Some(self.too_many_documents(window.offset + batch.consumed as u64));
            }
            if let Some(progress) = self.options.progress {
                progress(batch.consumed as u64);
            }
            match &batch.end {
                EndOfDocuments::Text => break None,
                EndOfDocuments::Json(error) => break Some(self.json_fault(window.offset, window.bytes(), error)),
                EndOfDocuments::Utf8(at) => break Some(self.not_utf8(window.offset + *at as u64)),
                EndOfDocuments::Window => {}
            }
            let (consumed, not_json) = (batch.consumed, batch.not_json);
            let stuck = consumed == 0 && not_json.is_none();
            if stuck && window.bytes().len() > self.limits().blob_size {
                break Some(self.blob_too_large(window.offset));
            }
            if let Some(error) = not_json {
                let problem = self.json_fault(window.offset, window.bytes(), &error);
                fallback = Some(YamlFallback { problem, outcome: FileOutcome::default() });
            }
            window.consume(consumed);
            wanted = match splitter.format() {
                _ if stuck => wanted * 2,
                Some(Format::Yaml) => YAML_WINDOW,
                _ => JSON_WINDOW,
            };
        };
        let into = fallback.as_mut().map_or(&mut *outcome, |fallback| &mut fallback.outcome);
        into.incomplete |= fault.is_some();
        into.problems.extend(fault);
        if let Some(YamlFallback { problem, outcome: as_yaml }) = fallback {
            match as_yaml.incomplete && as_yaml.blobs.is_empty() {
                // It is not YAML either: the file was meant to be JSON.
                true => outcome.problems.push(problem),
                false => {
                    outcome.blobs.extend(as_yaml.blobs);
                    outcome.problems.extend(as_yaml.problems);
                    outcome.repeated.extend(as_yaml.repeated);
                    outcome.referenced.extend(as_yaml.referenced);
                }
            }
            outcome.incomplete |= as_yaml.incomplete;
        }
        Ok(())
    }

    /// Converts the documents of a window, which starts `base` bytes into the file, to blobs.
    ///
    /// Returns why the rest of the file is not read.
    fn add_batch(&self, batch: &Batch<'_>, base: u64, outcome: &mut FileOutcome) -> Option<Problem> {
        // A JSON value that is too large ends the file, a YAML document does not.
        let too_large = |document: &Document| document.end - document.start > self.limits().blob_size;
        let ends = |document: &Result<Document, BadSeparator>| {
            document.as_ref().is_ok_and(|document| document.format == Format::Json && too_large(document))
        };
        let good = batch.documents.iter().position(ends).unwrap_or(batch.documents.len());
        let documents = &batch.documents[..good];
        let decode = |document: &Result<Document, BadSeparator>| -> Result<DocumentOutcome, Box<Problem>> {
            let document = document.as_ref().map_err(|error| Box::new(self.yaml_fault(base, error.offset, error)))?;
            let offset = base + document.start as u64;
            match batch.json(document) {
                Some(value) => {
                    let offset = base + document.body as u64;
                    let mut outcome = self.decode(value, offset, TextSource::File);
                    outcome.repeated = repeated_member(value)
                        .map(|(key, at)| self.repeated_key(&key, offset + value.offset_of(at) as u64));
                    Ok(outcome)
                }
                None if too_large(document) => Err(Box::new(self.blob_too_large(offset))),
                None => self.convert(batch.text(document), offset),
            }
        };
        let size: usize = documents.iter().flatten().map(|document| document.end - document.start).sum();
        let yaml = documents.iter().flatten().any(|document| document.format == Format::Yaml);
        let done: Vec<_> = match documents.len() > 1 && (yaml || size >= PARALLEL_FROM) {
            true => documents.par_iter().map(decode).collect(),
            false => documents.iter().map(decode).collect(),
        };
        for done in done {
            match done {
                Ok(done) => outcome.add(done),
                Err(problem) => {
                    outcome.problems.push(*problem);
                    outcome.incomplete = true;
                }
            }
        }
        let bad = batch.documents.get(good)?.as_ref().ok()?;
        Some(self.blob_too_large(base + bad.start as u64))
    }

    /// Converts a YAML document to a blob.
    fn convert(&self, text: &[u8], offset: u64) -> Result<DocumentOutcome, Box<Problem>> {
        let mut converted = Vec::new();
        let repeated = yaml::to_json_noting(text, &self.limits().yaml(), &mut converted).map_err(|error| {
            let mut problem = self.yaml_fault(offset, error.offset, &error);
            problem.help = yaml_help(text, &error).map(str::to_owned);
            problem.label = error.context.map(|(_, context)| context.to_owned());
            Box::new(problem)
        })?;
        let converted = std::str::from_utf8(&converted).map_err(|_| Box::new(self.not_utf8(offset)))?;
        let mut outcome = self.decode(Raw::from_checked(converted), offset, TextSource::Converted);
        if let Some((key, at)) = repeated.then(|| yaml::repeated_key(text)).flatten() {
            outcome.repeated = Some(self.repeated_key(&key, offset + at as u64));
        }
        Ok(outcome)
    }

    fn json_fault(&self, base: u64, text: &[u8], error: &json::JsonSyntaxError) -> Problem {
        let offset = base + error.offset as u64;
        let mut problem = Problem::new("json-syntax", ProblemStage::Load, format!("json: offset {offset}: {error}"))
            .at(self.place(Spot::Offset(offset)));
        let help = match error.kind {
            json::JsonErrorKind::End => Some("the file ends inside a document; it may be truncated"),
            _ => text.get(error.offset..).filter(|rest| rest.starts_with(CONFLICT)).map(|_| RESOLVE),
        };
        problem.help = help.map(str::to_owned);
        problem
    }

    fn repeated_key(&self, key: &str, offset: u64) -> Problem {
        Problem::new(REPEATED_KEY, ProblemStage::Load, format!("key {key:?} is written twice; the last one counts"))
            .warning()
            .help("keep one of them")
            .at(self.place(Spot::Offset(offset)))
    }

    fn yaml_fault(&self, base: u64, offset: usize, error: &dyn std::error::Error) -> Problem {
        Problem::new("yaml-syntax", ProblemStage::Load, format!("yaml: {error}"))
            .at(self.place(Spot::Offset(base + offset as u64)))
    }
}

/// Returns a key that is written twice in a blob, or in an item of one of its lists, with its last value.
fn repeated_member(blob: Raw<'_>) -> Option<(String, Raw<'_>)> {
    fn of(object: Raw<'_>) -> Option<(String, Raw<'_>)> {
        let keys: Vec<_> = object.members().take(MANY_KEYS).collect();
        let is_repeated = |number: usize| keys[..number].iter().any(|(key, _)| *key == keys[number].0);
        (1..keys.len()).find(|&number| is_repeated(number)).map(|number| (keys[number].0.to_string(), keys[number].1))
    }
    of(blob).or_else(|| blob.get_items("entries").find_map(of))
}

/// Returns how to fix a document that is not YAML, if that is evident.
fn yaml_help(text: &[u8], error: &YamlError) -> Option<&'static str> {
    if text.starts_with(CONFLICT) || memchr::memmem::find(text, b"\n<<<<<<< ").is_some() {
        return Some(RESOLVE);
    }
    match error.fault {
        _ if text.get(error.offset) == Some(&b'\t') => Some("indent with spaces"),
        YamlFault::Tab(_) => Some("indent with spaces"),
        YamlFault::NotUtf8(_) => Some(NOT_TEXT),
        YamlFault::Syntax("did not find expected key" | "did not find expected '-' indicator") => Some(INDENTATION),
        _ => None,
    }
}
