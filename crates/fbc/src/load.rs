//! Reading catalogs from disk.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;

use crate::blob::{Blob, Content, Fbc, PACKAGE, SourceFile, TextAt};
use crate::decode;
use crate::json::{self, ErrorKind, Raw};
use crate::limits::Limits;
use crate::migrate;
use crate::object::RefBase;
use crate::oldform;
use crate::problem::{FileId, Place, Problem, Spot, Stage};
use crate::store::Store;
use crate::walk::walk;
use crate::yaml;

/// How many bytes of a JSON file are read at a time.
const WINDOW: usize = 1 << 20;
/// A batch of blobs is worth several threads from this size on.
const PARALLEL_FROM: usize = 256 << 10;
/// How many bytes of a file are looked at to tell JSON from YAML.
const FORMAT_PREFIX: usize = 4096;
/// How many YAML documents are converted before their blobs are stored.
const YAML_BATCH: usize = 64;

/// A look at each blob while its text is at hand.
pub type Inspect<'a> = dyn Fn(&Blob, Raw<'_>, &mut Vec<Problem>) + Sync + 'a;

/// What to do while loading.
#[derive(Default)]
pub struct LoadOptions<'a> {
    /// Bounds for input from outside.
    pub limits: Limits,
    /// Whether [`Fbc::text`] is going to be asked for.
    pub keep_text: bool,
    /// Whether bundles get `olm.csv.metadata` in place of their objects.
    pub migrate: bool,
    /// What looks at each blob.
    pub inspect: Option<&'a Inspect<'a>>,
    /// What is told how many more bytes are done.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

/// The outcome of loading: what was wrong, and whether anything is missing because of it.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Everything that is wrong with the files and their blobs, in order of place.
    pub problems: Vec<Problem>,
    /// Whether some documents could not be read, so that names may be missing.
    pub incomplete: bool,
}

impl Fbc {
    /// Loads the catalog in the directory `root` behind what is loaded already.
    ///
    /// Files are read in parallel; blobs and problems come in order of path and position.
    ///
    /// # Errors
    /// Fails when `root` is no directory that can be read; whatever else is wrong is told
    /// in the result.
    pub fn load_dir(&mut self, root: &Path, options: &LoadOptions<'_>) -> io::Result<Loaded> {
        let found = walk(root, &options.limits)?;
        let first_file = self.files.len();
        let first_blob = self.blobs.len();
        self.roots.push(root.to_path_buf());
        let tasks: Vec<Task<'_>> = found
            .iter()
            .enumerate()
            .map(|(i, found)| Task {
                file: FileId((first_file + i) as u32),
                root,
                path: &found.path,
                size: *found.outcome.as_ref().unwrap_or(&0),
                store: &self.store,
                options,
            })
            .collect();
        // The largest files first, so that no thread is left alone with one at the end.
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(tasks[i].size));
        let mut outcomes: Vec<(usize, FileOutcome)> = order
            .into_par_iter()
            .with_max_len(1)
            .map(|i| match &found[i].outcome {
                Ok(_) => (i, tasks[i].load()),
                Err(error) => (i, FileOutcome::unreadable(&tasks[i], error)),
            })
            .collect();
        outcomes.sort_by_key(|(i, _)| *i);
        drop(tasks);

        let mut loaded = Loaded::default();
        for (found, (_, outcome)) in found.into_iter().zip(outcomes) {
            self.files.push(SourceFile { root: self.roots.len() - 1, path: found.path, stamp: outcome.stamp });
            self.blobs.extend(outcome.blobs);
            loaded.problems.extend(outcome.problems);
            loaded.incomplete |= outcome.incomplete;
        }
        oldform::convert(self, first_blob, &mut loaded.problems);
        loaded.problems.sort_by(Problem::order);
        Ok(loaded)
    }

    /// Makes a blob of `text`, the JSON of a blob that was made rather than read.
    ///
    /// Its property values are printed as they are spelled in `text`. It becomes part of the
    /// catalog with [`Fbc::push`].
    ///
    /// # Errors
    /// Fails when the text is no blob, or cannot be kept.
    pub fn make(&self, text: &str, limits: &Limits) -> io::Result<Blob> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
        let raw = Raw::parse(text, limits.depth).map_err(|error| invalid(error.to_string()))?;
        let refs = RefBase { root: None, directory: Path::new(""), limits };
        let envelope = decode::envelope(raw).map_err(|fault| invalid(fault.message))?;
        let content = decode::content(raw, &envelope, &refs).map_err(|fault| invalid(fault.message))?;
        let offset = self.store.put(text.as_bytes())?;
        Ok(Blob {
            package: owner(&envelope).into(),
            schema: envelope.schema.into(),
            name: envelope.name.into(),
            content,
            origin: None,
            text: TextAt::Made { offset, length: text.len() },
        })
    }

    /// Adds a blob that [`Fbc::make`] made behind what is loaded already.
    pub fn push(&mut self, blob: Blob) {
        self.blobs.push(blob);
    }

    /// Adds a blob made of `text`: [`Fbc::make`] and [`Fbc::push`] in one.
    ///
    /// # Errors
    /// Fails when the text is no blob, or cannot be kept.
    pub fn add_made(&mut self, text: &str, limits: &Limits) -> io::Result<()> {
        let blob = self.make(text, limits)?;
        self.push(blob);
        Ok(())
    }
}

/// The package that a blob is grouped under.
fn owner<'a>(envelope: &'a decode::Envelope<'_>) -> &'a str {
    if envelope.schema == PACKAGE { &envelope.name } else { &envelope.package }
}

/// One file to load.
struct Task<'a> {
    file: FileId,
    root: &'a Path,
    path: &'a Path,
    size: u64,
    store: &'a Store,
    options: &'a LoadOptions<'a>,
}

#[derive(Default)]
struct FileOutcome {
    stamp: Option<(u64, std::time::SystemTime)>,
    blobs: Vec<Blob>,
    problems: Vec<Problem>,
    incomplete: bool,
}

impl FileOutcome {
    fn unreadable(task: &Task<'_>, error: &io::Error) -> FileOutcome {
        let message = format!("read {}: {error}", task.path.display());
        let problem =
            Problem::new("file-readable", Stage::Load, message).at(Place { file: task.file, spot: Spot::File });
        FileOutcome { problems: vec![problem], incomplete: true, ..FileOutcome::default() }
    }

    fn add(&mut self, done: Done) {
        self.blobs.extend(done.blob);
        self.problems.extend(done.problems);
    }
}

/// A value that was found to be JSON, and its part of the list of long values.
struct Checked {
    range: Range<usize>,
    spans: Range<usize>,
}

/// What became of one document.
struct Done {
    blob: Option<Blob>,
    problems: Vec<Problem>,
}

/// The text of a document, and where it came from.
enum Source {
    /// It stands in the file as JSON.
    File,
    /// It was made from YAML.
    Converted,
}

impl Task<'_> {
    fn limits(&self) -> &Limits {
        &self.options.limits
    }

    fn load(&self) -> FileOutcome {
        let mut outcome = FileOutcome::default();
        match self.read(&mut outcome) {
            Ok(()) => outcome,
            Err(error) => {
                let unreadable = FileOutcome::unreadable(self, &error);
                outcome.problems.extend(unreadable.problems);
                outcome.incomplete = true;
                outcome
            }
        }
    }

    fn read(&self, outcome: &mut FileOutcome) -> io::Result<()> {
        if self.size > self.limits().file_size {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("file is larger than the limit of {} bytes", self.limits().file_size),
            ));
        }
        let file = File::open(self.root.join(self.path))?;
        let metadata = file.metadata()?;
        outcome.stamp = Some((metadata.len(), metadata.modified()?));
        let mut window = Window::new(file.take(self.limits().file_size));
        window.fill(FORMAT_PREFIX)?;
        // A byte order mark says nothing, neither about the content nor about its format.
        if window.bytes().starts_with("\u{feff}".as_bytes()) {
            window.consume(3);
            window.fill(FORMAT_PREFIX)?;
        }
        let prefix = &window.bytes()[..window.bytes().len().min(FORMAT_PREFIX)];
        if prefix.trim_ascii_start().first() == Some(&b'{') {
            self.read_json(window, outcome)
        } else {
            let (offset, text) = window.into_rest()?;
            self.read_yaml(offset, &text, outcome)
        }
    }

    /// Reads values until the file ends or stops being JSON.
    fn read_json(&self, mut window: Window, outcome: &mut FileOutcome) -> io::Result<()> {
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
                if text[at..].trim_ascii_start().is_empty() {
                    at = text.len();
                    break None;
                }
                let first_span = spans.len();
                match json::check_indexed(text, at, self.limits().depth, &mut spans) {
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
        let (offset, text) = window.into_rest()?;
        let mut as_yaml = FileOutcome::default();
        self.read_yaml(offset, &text, &mut as_yaml)?;
        if as_yaml.incomplete && as_yaml.blobs.is_empty() {
            // Not YAML either: what looked like JSON was meant to be JSON.
            let base = offset - start as u64;
            outcome.problems.push(self.json_fault(base, error));
            outcome.incomplete = true;
        } else {
            outcome.blobs.extend(as_yaml.blobs);
            outcome.problems.extend(as_yaml.problems);
            outcome.incomplete |= as_yaml.incomplete;
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

    /// Reads the YAML documents of `text`, which starts `base` bytes into the file.
    fn read_yaml(&self, base: u64, text: &[u8], outcome: &mut FileOutcome) -> io::Result<()> {
        let documents: Vec<_> = yaml::documents(text).collect();
        if documents.len() > self.limits().documents {
            outcome.problems.push(self.too_many_documents(base));
            outcome.incomplete = true;
            return Ok(());
        }
        let convert = |document: &Result<yaml::Document<'_>, yaml::BadSeparator>| -> Result<Done, Box<Problem>> {
            let document = document.as_ref().map_err(|error| Box::new(self.yaml_fault(base, error.offset, error)))?;
            let offset = base + document.offset as u64;
            let mut converted = Vec::new();
            yaml::to_json(document.text, &self.limits().yaml(), &mut converted)
                .map_err(|error| Box::new(self.yaml_fault(offset, error.offset, &error)))?;
            let converted = std::str::from_utf8(&converted).map_err(|_| Box::new(self.not_utf8(offset)))?;
            Ok(self.decode(Raw::from_checked(converted), offset, Source::Converted))
        };
        for batch in documents.chunks(YAML_BATCH) {
            let done: Vec<_> = match batch {
                [one] => vec![convert(one)],
                batch => batch.par_iter().map(convert).collect(),
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
        }
        if let Some(progress) = self.options.progress {
            progress(text.len() as u64);
        }
        Ok(())
    }

    /// Turns the document that starts at `offset` into a blob.
    fn decode(&self, raw: Raw<'_>, offset: u64, source: Source) -> Done {
        let mut problems = Vec::new();
        let envelope = match decode::envelope(raw) {
            Ok(envelope) => envelope,
            Err(fault) => {
                return Done { blob: None, problems: vec![self.blob_fault(offset, fault)] };
            }
        };
        let refs = RefBase {
            root: Some(self.root),
            directory: self.path.parent().unwrap_or(Path::new("")),
            limits: self.limits(),
        };
        let (package, bundle) = (owner(&envelope).to_owned(), envelope.name.to_string());
        let content = decode::content(raw, &envelope, &refs).unwrap_or_else(|fault| {
            problems.push(self.blob_fault(offset, fault).about(&package, "", &bundle));
            Content::Broken
        });
        let mut blob = Blob {
            package: package.as_str().into(),
            schema: envelope.schema.into(),
            name: envelope.name.into(),
            content,
            origin: Some((self.file, offset)),
            text: TextAt::Dropped,
        };
        if let Some(inspect) = self.options.inspect {
            inspect(&blob, raw, &mut problems);
        }
        let kept = self.keep(&mut blob, raw, offset, &source, &refs);
        if let Err(message) = kept {
            let problem = Problem::new("migration", Stage::Load, message).about(&package, "", &bundle);
            problems.push(problem.at(self.place(Spot::Offset(offset))));
        }
        Done { blob: Some(blob), problems }
    }

    /// Decides where the text of the blob is to be found later.
    fn keep(
        &self,
        blob: &mut Blob,
        raw: Raw<'_>,
        offset: u64,
        source: &Source,
        refs: &RefBase<'_>,
    ) -> Result<(), String> {
        let put = |text: &[u8]| self.store.put(text).map_err(|error| format!("scratch file: {error}"));
        if let (true, Content::Bundle(bundle)) = (self.options.migrate, &mut blob.content)
            && let Some(text) = migrate::bundle(raw, bundle, refs)?
        {
            blob.text = TextAt::Made { offset: put(&text)?, length: text.len() };
            return Ok(());
        }
        if self.options.keep_text {
            blob.text = match source {
                Source::File => TextAt::File { offset, length: raw.text().len() },
                Source::Converted => TextAt::Store { offset: put(raw.text().as_bytes())?, length: raw.text().len() },
            };
        }
        Ok(())
    }

    fn place(&self, spot: Spot) -> Place {
        Place { file: self.file, spot }
    }

    fn blob_fault(&self, document: u64, fault: decode::Fault) -> Problem {
        let place = self.place(Spot::Value { document, path: fault.path });
        let mut problem = Problem::new(fault.rule, Stage::Load, fault.message).at(place);
        problem.help = fault.help;
        problem
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

    fn not_utf8(&self, offset: u64) -> Problem {
        Problem::new("utf-8", Stage::Load, format!("invalid UTF-8 at byte {offset}"))
            .at(self.place(Spot::Offset(offset)))
            .help("catalog files are UTF-8 text; name other files in a .indexignore file")
    }

    fn too_many_documents(&self, offset: u64) -> Problem {
        let message = format!("file holds more than {} documents", self.limits().documents);
        Problem::new("limits", Stage::Load, message).at(self.place(Spot::Offset(offset)))
    }

    fn blob_too_large(&self, offset: u64) -> Problem {
        let message = format!("blob is larger than the limit of {} bytes", self.limits().blob_size);
        Problem::new("limits", Stage::Load, message).at(self.place(Spot::Offset(offset)))
    }
}

/// A stretch of a file in memory.
struct Window {
    file: io::Take<File>,
    buffer: Vec<u8>,
    /// How much of the buffer's start is done with.
    done: usize,
    /// Where the rest of the buffer stands in the file.
    offset: u64,
    /// Whether the file has no more.
    ended: bool,
}

thread_local! {
    /// The buffer of the last file, for the next one: fresh memory costs more than reading into it.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.capacity() <= 2 * WINDOW {
            buffer.clear();
            SPARE.set(buffer);
        }
    }
}

impl Window {
    fn new(file: io::Take<File>) -> Window {
        Window { file, buffer: SPARE.take(), done: 0, offset: 0, ended: false }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.done..]
    }

    /// Reads until there are `wanted` bytes or no more.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let have = self.bytes().len();
        if self.ended || have >= wanted {
            return Ok(());
        }
        self.buffer.drain(..self.done);
        self.done = 0;
        let missing = (wanted - have) as u64;
        let read = (&mut self.file).take(missing).read_to_end(&mut self.buffer)?;
        self.ended = (read as u64) < missing;
        Ok(())
    }

    fn consume(&mut self, count: usize) {
        self.done += count;
        self.offset += count as u64;
    }

    /// Returns all that is left, and where it starts.
    fn into_rest(mut self) -> io::Result<(u64, Vec<u8>)> {
        self.buffer.drain(..self.done);
        if !self.ended {
            self.file.read_to_end(&mut self.buffer)?;
        }
        Ok((self.offset, std::mem::take(&mut self.buffer)))
    }
}

/// Tells whether `path` is a directory that holds a bundle rather than a catalog.
pub fn is_bundle_dir(path: &Path) -> bool {
    let has = |name: &str| path.join(name).is_dir();
    has("manifests") && has("metadata")
}
