//! Files of documents, a window at a time.

use std::io;

use rayon::prelude::*;

use super::{Done, FileOutcome, Source, Task};
use crate::documents::{Batch, Document, End, Splitter};
use crate::files::Window;
use crate::json::{self, Raw};
use crate::problem::{Problem, Spot, Stage};
use crate::write::Format;
use crate::yaml::{self, BadSeparator};

/// How many bytes of JSON are read at a time.
const JSON_WINDOW: usize = 1 << 20;
/// How many bytes of YAML are.
const YAML_WINDOW: usize = 4 << 20;
/// A batch of JSON blobs is worth several threads from this size on.
const PARALLEL_FROM: usize = 256 << 10;

/// What comes of a file that looked like JSON and is read as YAML.
struct Instead {
    /// Why it is no JSON.
    problem: Problem,
    outcome: FileOutcome,
}

impl Task<'_> {
    /// Reads documents until the file ends, or stops being a text of documents.
    pub(super) fn read_documents(&self, mut window: Window, outcome: &mut FileOutcome) -> io::Result<()> {
        let mut splitter = Splitter::new(self.limits().depth);
        let mut instead: Option<Instead> = None;
        let mut count = 0;
        let mut wanted = JSON_WINDOW;
        let fault = loop {
            window.fill(wanted)?;
            let batch = splitter.step(window.bytes(), window.ended, self.limits().documents + 1 - count);
            let into = instead.as_mut().map_or(&mut *outcome, |instead| &mut instead.outcome);
            if let Some(fault) = self.take(&batch, window.offset, into) {
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
                End::Text => break None,
                End::Json(error) => break Some(self.json_fault(window.offset, error)),
                End::Utf8(at) => break Some(self.not_utf8(window.offset + *at as u64)),
                End::Window => {}
            }
            let (consumed, not_json) = (batch.consumed, batch.not_json);
            let stuck = consumed == 0 && not_json.is_none();
            if stuck && window.bytes().len() > self.limits().blob_size {
                break Some(self.blob_too_large(window.offset));
            }
            if let Some(error) = not_json {
                let problem = self.json_fault(window.offset, &error);
                instead = Some(Instead { problem, outcome: FileOutcome::default() });
            }
            window.consume(consumed);
            wanted = match splitter.format() {
                _ if stuck => wanted * 2,
                Some(Format::Yaml) => YAML_WINDOW,
                _ => JSON_WINDOW,
            };
        };
        let into = instead.as_mut().map_or(&mut *outcome, |instead| &mut instead.outcome);
        into.incomplete |= fault.is_some();
        into.problems.extend(fault);
        if let Some(Instead { problem, outcome: as_yaml }) = instead {
            match as_yaml.incomplete && as_yaml.blobs.is_empty() {
                // Not YAML either: what looked like JSON was meant to be JSON.
                true => outcome.problems.push(problem),
                false => {
                    outcome.blobs.extend(as_yaml.blobs);
                    outcome.problems.extend(as_yaml.problems);
                    outcome.named.extend(as_yaml.named);
                }
            }
            outcome.incomplete |= as_yaml.incomplete;
        }
        Ok(())
    }

    /// Makes blobs of the documents of a window, which starts `base` bytes into the file.
    ///
    /// Returns why the rest of the file is not read.
    fn take(&self, batch: &Batch<'_>, base: u64, outcome: &mut FileOutcome) -> Option<Problem> {
        // A JSON value that is too large ends the file, a YAML document does not.
        let too_large = |document: &Document| document.end - document.start > self.limits().blob_size;
        let ends = |document: &Result<Document, BadSeparator>| {
            document.as_ref().is_ok_and(|document| document.format == Format::Json && too_large(document))
        };
        let good = batch.documents.iter().position(ends).unwrap_or(batch.documents.len());
        let documents = &batch.documents[..good];
        let decode = |document: &Result<Document, BadSeparator>| -> Result<Done, Box<Problem>> {
            let document = document.as_ref().map_err(|error| Box::new(self.yaml_fault(base, error.offset, error)))?;
            let offset = base + document.start as u64;
            match batch.json(document) {
                Some(value) => Ok(self.decode(value, base + document.body as u64, Source::File)),
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

    /// Makes a blob of a YAML document.
    fn convert(&self, text: &[u8], offset: u64) -> Result<Done, Box<Problem>> {
        let mut converted = Vec::new();
        yaml::to_json(text, &self.limits().yaml(), &mut converted).map_err(|error| {
            let mut problem = self.yaml_fault(offset, error.offset, &error);
            problem.label = error.context.map(|(_, context)| context);
            Box::new(problem)
        })?;
        let converted = std::str::from_utf8(&converted).map_err(|_| Box::new(self.not_utf8(offset)))?;
        Ok(self.decode(Raw::from_checked(converted), offset, Source::Converted))
    }

    fn json_fault(&self, base: u64, error: &json::Error) -> Problem {
        let offset = base + error.offset as u64;
        Problem::new("json-syntax", Stage::Load, format!("json: offset {offset}: {error}"))
            .at(self.place(Spot::Offset(offset)))
    }

    fn yaml_fault(&self, base: u64, offset: usize, error: &dyn std::error::Error) -> Problem {
        Problem::new("yaml-syntax", Stage::Load, format!("yaml: {error}"))
            .at(self.place(Spot::Offset(base + offset as u64)))
    }
}
