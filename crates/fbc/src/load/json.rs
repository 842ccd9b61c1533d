//! Files of JSON values, one after the other.

use std::io;
use std::ops::Range;

use rayon::prelude::*;

use super::window::Window;
use super::{Done, FileOutcome, Source, Task};
use crate::json::{self, ErrorKind, Raw};
use crate::problem::{Problem, Spot, Stage};

/// How many bytes are read at a time.
const WINDOW: usize = 1 << 20;
/// A batch of blobs is worth several threads from this size on.
const PARALLEL_FROM: usize = 256 << 10;

/// A value that was found to be JSON, and its part of the list of long values.
struct Checked {
    range: Range<usize>,
    spans: Range<usize>,
}

impl Task<'_> {
    /// Reads values until the file ends or stops being JSON.
    pub(super) fn read_json(&self, mut window: Window, outcome: &mut FileOutcome) -> io::Result<()> {
        let mut wanted = WINDOW;
        let mut values = 0usize;
        loop {
            window.fill(wanted)?;
            let (text, damaged) = match std::str::from_utf8(window.bytes()) {
                Ok(text) => (text, false),
                Err(error) => {
                    let valid = &window.bytes()[..error.valid_up_to()];
                    // A character cut by the end of the window is no damage.
                    let damaged = error.error_len().is_some() || window.ended;
                    (std::str::from_utf8(valid).unwrap_or_default(), damaged)
                }
            };
            let mut values_here: Vec<Checked> = Vec::new();
            let mut spans = Vec::new();
            let mut at = 0;
            let fault = loop {
                if json::trim_start(&text[at..]).is_empty() {
                    at = text.len();
                    break None;
                }
                let first_span = spans.len();
                match json::check_indexed(text, at, self.limits().depth, &mut spans) {
                    Ok(range) if range.len() > self.limits().blob_size => {
                        break Some(self.blob_too_large(window.offset + range.start as u64));
                    }
                    Ok(range) => {
                        at = range.end;
                        values_here.push(Checked { range, spans: first_span..spans.len() });
                        values += 1;
                        if values > self.limits().documents {
                            break Some(self.too_many_documents(window.offset + at as u64));
                        }
                    }
                    // The text stops where it stops being UTF-8.
                    Err(error) if error.kind == ErrorKind::End && damaged => {
                        break Some(self.not_utf8(window.offset + text.len() as u64));
                    }
                    Err(error) if error.kind == ErrorKind::End && !window.ended => break None,
                    Err(error) if values < 2 && !damaged => {
                        let start = text[at..].find(|c: char| !c.is_ascii_whitespace()).map_or(at, |skip| at + skip);
                        self.decode_batch(text, &values_here, &spans, window.offset, outcome);
                        window.consume(start);
                        return self.read_yaml_instead(window, &error, start, outcome);
                    }
                    Err(error) => break Some(self.json_fault(window.offset, &error)),
                }
            };
            self.decode_batch(text, &values_here, &spans, window.offset, outcome);
            if let Some(progress) = self.options.progress {
                progress(at as u64);
            }
            let fault = fault.or_else(|| damaged.then(|| self.not_utf8(window.offset + text.len() as u64)));
            if let Some(problem) = fault {
                outcome.problems.push(problem);
                outcome.incomplete = true;
                return Ok(());
            }
            if at == window.bytes().len() && window.ended {
                return Ok(());
            }
            window.consume(at);
            wanted = if at == 0 { wanted * 2 } else { WINDOW };
            if at == 0 && window.bytes().len() > self.limits().blob_size {
                outcome.problems.push(self.blob_too_large(window.offset));
                outcome.incomplete = true;
                return Ok(());
            }
        }
    }

    /// Goes on as YAML where a file that looked like JSON is none after all.
    fn read_yaml_instead(
        &self,
        window: Window,
        error: &json::Error,
        start: usize,
        outcome: &mut FileOutcome,
    ) -> io::Result<()> {
        let offset = window.offset;
        let mut as_yaml = FileOutcome::default();
        self.read_yaml(window, &mut as_yaml)?;
        if as_yaml.incomplete && as_yaml.blobs.is_empty() {
            // Not YAML either: what looked like JSON was meant to be JSON.
            let base = offset - start as u64;
            outcome.problems.push(self.json_fault(base, error));
            outcome.incomplete = true;
        } else {
            outcome.blobs.extend(as_yaml.blobs);
            outcome.problems.extend(as_yaml.problems);
            outcome.incomplete |= as_yaml.incomplete;
            outcome.named.extend(as_yaml.named);
        }
        Ok(())
    }

    fn decode_batch(&self, text: &str, values: &[Checked], spans: &[json::Span], base: u64, outcome: &mut FileOutcome) {
        let decode = |value: &Checked| {
            let raw = Raw::from_indexed(text, value.range.clone(), &spans[value.spans.clone()]);
            self.decode(raw, base + value.range.start as u64, Source::File)
        };
        let size: usize = values.iter().map(|value| value.range.len()).sum();
        if values.len() > 1 && size >= PARALLEL_FROM {
            let done: Vec<Done> = values.par_iter().map(decode).collect();
            done.into_iter().for_each(|done| outcome.add(done));
        } else {
            values.iter().map(decode).for_each(|done| outcome.add(done));
        }
    }

    fn json_fault(&self, base: u64, error: &json::Error) -> Problem {
        let offset = base + error.offset as u64;
        Problem::new("json-syntax", Stage::Load, format!("json: offset {offset}: {error}"))
            .at(self.place(Spot::Offset(offset)))
    }
}
