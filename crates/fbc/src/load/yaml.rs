//! Files of YAML documents.

use std::io;

use rayon::prelude::*;

use super::window::Window;
use super::{Done, FileOutcome, Source, Task};
use crate::json::Raw;
use crate::problem::{Problem, Spot, Stage};
use crate::yaml;

/// How many bytes are read at a time.
const WINDOW: usize = 4 << 20;

impl Task<'_> {
    /// Reads documents until the file ends.
    pub(super) fn read_yaml(&self, mut window: Window, outcome: &mut FileOutcome) -> io::Result<()> {
        let mut wanted = WINDOW;
        let mut count = 0;
        loop {
            window.fill(wanted)?;
            let everything = yaml::Cut { end: window.bytes().len(), next: window.bytes().len() };
            let cut = if window.ended { Some(everything) } else { yaml::cut(window.bytes()) };
            let Some(cut) = cut else {
                if window.bytes().len() > self.limits().blob_size {
                    outcome.problems.push(self.blob_too_large(window.offset));
                    outcome.incomplete = true;
                    return Ok(());
                }
                wanted *= 2;
                continue;
            };
            count += self.read_documents(window.offset, &window.bytes()[..cut.end], outcome);
            if count > self.limits().documents {
                outcome.problems.push(self.too_many_documents(window.offset));
                outcome.incomplete = true;
                return Ok(());
            }
            if let Some(progress) = self.options.progress {
                progress(cut.next as u64);
            }
            window.consume(cut.next);
            if window.ended {
                return Ok(());
            }
            wanted = WINDOW;
        }
    }

    /// Reads the documents of `text`, which starts `base` bytes into the file, and counts them.
    fn read_documents(&self, base: u64, text: &[u8], outcome: &mut FileOutcome) -> usize {
        let documents: Vec<_> = yaml::documents(text).take(self.limits().documents + 1).collect();
        let convert = |document: &Result<yaml::Document<'_>, yaml::BadSeparator>| -> Result<Done, Box<Problem>> {
            let document = document.as_ref().map_err(|error| Box::new(self.yaml_fault(base, error.offset, error)))?;
            let offset = base + document.offset as u64;
            if document.text.len() > self.limits().blob_size {
                return Err(Box::new(self.blob_too_large(offset)));
            }
            let mut converted = Vec::new();
            yaml::to_json(document.text, &self.limits().yaml(), &mut converted).map_err(|error| {
                let mut problem = self.yaml_fault(offset, error.offset, &error);
                problem.label = error.context.map(|(_, context)| context);
                Box::new(problem)
            })?;
            let converted = std::str::from_utf8(&converted).map_err(|_| Box::new(self.not_utf8(offset)))?;
            Ok(self.decode(Raw::from_checked(converted), offset, Source::Converted))
        };
        let done: Vec<_> = match documents.as_slice() {
            [one] => vec![convert(one)],
            several => several.par_iter().map(convert).collect(),
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
        documents.len()
    }

    fn yaml_fault(&self, base: u64, offset: usize, error: &dyn std::error::Error) -> Problem {
        Problem::new("yaml-syntax", Stage::Load, format!("yaml: {error}"))
            .at(self.place(Spot::Offset(base + offset as u64)))
    }
}
