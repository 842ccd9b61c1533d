//! Loads catalogs from disk.

mod read;
mod referenced;

use std::io;
use std::path::Path;

use rayon::prelude::*;

use crate::blob::{Blob, BlobContent, Fbc, KnownText, PACKAGE, SourceFile, TextAt};
use crate::decode;
use crate::files::members::Members;
use crate::files::{self, TextStore, Walked, single, walk};
use crate::json::Raw;
use crate::legacy;
use crate::limits::Limits;
use crate::migrate::{self, MigrateError};
use crate::object::{self, RefBase};
use crate::problem::{FileId, Place, Problem, ProblemStage, Spot};

/// A callback for each blob while its text is available.
pub type Inspect<'a> = dyn Fn(&Blob, Raw<'_>, &mut Vec<Problem>) + Sync + 'a;

/// The options for loading.
#[derive(Default)]
pub struct LoadOptions<'a> {
    /// Limits for untrusted input.
    pub limits: Limits,
    /// Whether to keep texts for [`Fbc::text`].
    pub keep_text: bool,
    /// Whether to replace the objects of bundles with `olm.csv.metadata`.
    pub migrate: bool,
    /// A callback for each blob.
    pub inspect: Option<&'a Inspect<'a>>,
    /// Receives the number of further processed bytes.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

/// The result of loading: the problems, and whether content is missing.
#[derive(Debug, Default)]
pub struct LoadReport {
    /// All problems with the files and their blobs, ordered by position.
    pub problems: Vec<Problem>,
    /// Warnings about keys that are written twice.
    pub repeated: Vec<Problem>,
    /// Whether some documents could not be read, so that names may be missing.
    pub incomplete: bool,
    /// The files that belong to the catalog.
    pub members: Members,
}

/// Why the text of a blob cannot be kept.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    #[error("temporary file: {0}")]
    TemporaryFile(#[from] io::Error),
}

impl Fbc {
    /// Loads the catalog in the directory `root` and appends it.
    ///
    /// Files are read in parallel; blobs and problems are ordered by path and position.
    ///
    /// # Errors
    /// Fails if `root` is not a readable directory; the result contains all other problems.
    pub fn load_dir(&mut self, root: &Path, options: &LoadOptions<'_>) -> io::Result<LoadReport> {
        Ok(self.load_walked(root, walk(root, &options.limits)?, options))
    }

    /// Loads a catalog that is a single file and appends it. Nothing else in its directory belongs to it.
    ///
    /// # Errors
    /// Fails if `file` is not a file; the result contains all other problems.
    pub fn load_file(&mut self, file: &Path, options: &LoadOptions<'_>) -> io::Result<LoadReport> {
        let root = file.parent().unwrap_or(Path::new(""));
        let walked = single(root, file.file_name().unwrap_or_default())?;
        Ok(self.load_walked(root, walked, options))
    }

    fn load_walked(&mut self, root: &Path, walked: Walked, options: &LoadOptions<'_>) -> LoadReport {
        let Walked { found, ignore_files } = walked;
        let first_file = self.files.len();
        let first_blob = self.blobs.len();
        self.roots.push(root.to_path_buf());
        self.limits = options.limits.clone();
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
        // The largest files come first, so that no thread ends up alone with one.
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
        let paths: Vec<&Path> = found.iter().map(|found| found.path.as_path()).collect();
        let mut members = Members::new(root);
        members.extend_existing(referenced::paths(&paths, &outcomes));
        members.extend(ignore_files);
        members.extend(found.iter().filter(|found| found.outcome.is_ok()).map(|found| found.path.clone()));
        referenced::drop_referenced_files(&paths, &mut outcomes);

        let mut loaded = LoadReport { members, ..LoadReport::default() };
        for (found, (_, outcome)) in found.into_iter().zip(outcomes) {
            self.files.push(SourceFile { root: self.roots.len() - 1, path: found.path, stamp: outcome.stamp });
            self.blobs.extend(outcome.blobs);
            loaded.problems.extend(outcome.problems);
            loaded.repeated.extend(outcome.repeated);
            loaded.incomplete |= outcome.incomplete;
        }
        legacy::convert(self, first_blob, &mut loaded.problems);
        loaded.problems.sort_by(Problem::order);
        loaded
    }

    /// Builds a blob from `text`, the JSON of a generated blob.
    ///
    /// Its property values are printed as written in `text`. [`Fbc::push`] adds it to the catalog.
    ///
    /// # Errors
    /// Fails if the text is not a blob or cannot be stored.
    pub fn generated_blob(&self, text: &str, limits: &Limits) -> io::Result<Blob> {
        self.blob(text, limits, |offset, length| TextAt::Generated { offset, length })
    }

    /// Builds a blob from `text`, the JSON of a blob from outside a catalog directory.
    ///
    /// It is printed like blobs of a directory. [`Fbc::push`] adds it to the catalog.
    ///
    /// # Errors
    /// Fails if the text is not a blob or cannot be stored.
    pub fn stored_blob(&self, text: &str, limits: &Limits) -> io::Result<Blob> {
        self.blob(text, limits, |offset, length| TextAt::Store { offset, length })
    }

    fn blob(&self, text: &str, limits: &Limits, at: fn(u64, usize) -> TextAt) -> io::Result<Blob> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
        let raw = Raw::parse(text, limits.depth).map_err(|error| invalid(error.to_string()))?;
        let refs = RefBase { root: None, directory: Path::new(""), limits };
        let envelope = decode::envelope(raw).map_err(|fault| invalid(fault.message))?;
        let decoded = decode::content(raw, &envelope, &refs).map_err(|fault| invalid(fault.message))?;
        let offset = self.store.put(text.as_bytes())?;
        Ok(Blob {
            package: owner(&envelope).into(),
            schema: envelope.schema.into(),
            name: envelope.name.into(),
            content: decoded.content,
            origin: None,
            text: at(offset, text.len()),
            known: None,
            may_have_unknown_fields: decoded.may_have_unknown_fields,
        })
    }

    /// Appends a blob from [`Fbc::generated_blob`] or [`Fbc::stored_blob`].
    pub fn push(&mut self, blob: Blob) {
        self.blobs.push(blob);
    }

    /// Replaces the blob at `index` of [`Fbc::blobs`].
    ///
    /// # Panics
    /// Panics if there is no such blob.
    pub fn replace(&mut self, index: usize, blob: Blob) {
        self.blobs[index] = blob;
    }

    /// Appends a blob generated from `text`: [`Fbc::generated_blob`] and [`Fbc::push`] in one.
    ///
    /// # Errors
    /// Fails if the text is not a blob or cannot be stored.
    pub fn add_generated(&mut self, text: &str, limits: &Limits) -> io::Result<()> {
        let blob = self.generated_blob(text, limits)?;
        self.push(blob);
        Ok(())
    }
}

/// Returns the package that a blob is grouped under.
fn owner<'a>(envelope: &'a decode::Envelope<'_>) -> &'a str {
    if envelope.schema == PACKAGE { &envelope.name } else { &envelope.package }
}

/// One file to load.
struct Task<'a> {
    file: FileId,
    root: &'a Path,
    path: &'a Path,
    size: u64,
    store: &'a TextStore,
    options: &'a LoadOptions<'a>,
}

#[derive(Default)]
struct FileOutcome {
    stamp: Option<files::Stamp>,
    blobs: Vec<Blob>,
    problems: Vec<Problem>,
    repeated: Vec<Problem>,
    incomplete: bool,
    /// The files that undecodable bundles refer to.
    referenced: Vec<Box<str>>,
}

impl FileOutcome {
    fn unreadable(task: &Task<'_>, error: &io::Error) -> FileOutcome {
        let message = format!("read {}: {error}", task.path.display());
        let mut problem =
            Problem::new("file-readable", ProblemStage::Load, message).at(Place { file: task.file, spot: Spot::File });
        if error.kind() == io::ErrorKind::FileTooLarge {
            problem = problem.help(LIMITS);
        }
        FileOutcome { problems: vec![problem], incomplete: true, ..FileOutcome::default() }
    }

    fn add(&mut self, done: DocumentOutcome) {
        // The intended content of a document without an envelope is unknown.
        self.incomplete |= done.blob.is_none();
        self.blobs.extend(done.blob);
        self.problems.extend(done.problems);
        self.repeated.extend(done.repeated);
        self.referenced.extend(done.referenced);
    }
}

/// The result of one document.
struct DocumentOutcome {
    blob: Option<Blob>,
    problems: Vec<Problem>,
    /// A key that is written twice.
    repeated: Option<Problem>,
    referenced: Vec<Box<str>>,
}

/// The source of a document's text.
enum TextSource {
    /// JSON in the file.
    File,
    /// Converted from YAML.
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
        let (window, stamp) = files::open(&self.root.join(self.path), self.limits().file_size)?;
        outcome.stamp = Some(stamp);
        self.read_documents(window, outcome)
    }

    /// Converts the document that starts at `offset` to a blob.
    fn decode(&self, raw: Raw<'_>, offset: u64, source: TextSource) -> DocumentOutcome {
        let mut problems = Vec::new();
        let envelope = match decode::envelope(raw) {
            Ok(envelope) => envelope,
            Err(fault) => {
                return DocumentOutcome {
                    blob: None,
                    problems: vec![self.blob_fault(offset, fault)],
                    repeated: None,
                    referenced: Vec::new(),
                };
            }
        };
        let refs = RefBase {
            root: Some(self.root),
            directory: self.path.parent().unwrap_or(Path::new("")),
            limits: self.limits(),
        };
        let (package, bundle) = (owner(&envelope).to_owned(), envelope.name.to_string());
        let mut referenced = Vec::new();
        let decoded = decode::content(raw, &envelope, &refs).unwrap_or_else(|fault| {
            problems.push(self.blob_fault(offset, fault).about(&package, "", &bundle));
            referenced = object::references(raw);
            decode::Decoded { content: BlobContent::Broken, may_have_unknown_fields: true }
        });
        let mut blob = Blob {
            package: package.as_str().into(),
            schema: envelope.schema.into(),
            name: envelope.name.into(),
            content: decoded.content,
            origin: Some((self.file, offset)),
            text: TextAt::Dropped,
            known: None,
            may_have_unknown_fields: decoded.may_have_unknown_fields,
        };
        if let Some(inspect) = self.options.inspect {
            inspect(&blob, raw, &mut problems);
        }
        let kept = self.keep(&mut blob, raw, offset, &source, &refs);
        if let Err(error) = kept {
            let problem = Problem::new("migration", ProblemStage::Load, error.to_string()).about(&package, "", &bundle);
            problems.push(problem.at(self.place(Spot::Offset(offset))));
        }
        DocumentOutcome { blob: Some(blob), problems, repeated: None, referenced }
    }

    /// Decides where the text of the blob can be found later.
    fn keep(
        &self,
        blob: &mut Blob,
        raw: Raw<'_>,
        offset: u64,
        source: &TextSource,
        refs: &RefBase<'_>,
    ) -> Result<(), KeepError> {
        let put = |text: &[u8]| self.store.put(text);
        if let (true, BlobContent::Bundle(bundle)) = (self.options.migrate, &mut blob.content)
            && let Some(text) = migrate::bundle(raw, bundle, refs)?
        {
            blob.text = TextAt::Generated { offset: put(text.as_bytes())?, length: text.len() };
            return Ok(());
        }
        if self.options.keep_text {
            blob.text = match source {
                TextSource::File => TextAt::File { offset, length: raw.text().len() },
                TextSource::Converted => {
                    TextAt::Store { offset: put(raw.text().as_bytes())?, length: raw.text().len() }
                }
            };
            blob.known = Some(KnownText::of(raw));
        }
        Ok(())
    }

    fn place(&self, spot: Spot) -> Place {
        Place { file: self.file, spot }
    }

    fn blob_fault(&self, document: u64, fault: decode::DecodeFault) -> Problem {
        let place = self.place(Spot::Value { document, path: fault.path });
        let mut problem = Problem::new(fault.rule, ProblemStage::Load, fault.message).at(place);
        problem.help = fault.help;
        problem
    }

    fn not_utf8(&self, offset: u64) -> Problem {
        Problem::new("utf-8", ProblemStage::Load, format!("invalid UTF-8 at byte {offset}"))
            .at(self.place(Spot::Offset(offset)))
            .help(NOT_TEXT)
    }

    fn too_many_documents(&self, offset: u64) -> Problem {
        let message = format!("file holds more than {} documents", self.limits().documents);
        Problem::new("limits", ProblemStage::Load, message).at(self.place(Spot::Offset(offset))).help(LIMITS)
    }

    fn blob_too_large(&self, offset: u64) -> Problem {
        let message = format!("blob is larger than the limit of {} bytes", self.limits().blob_size);
        Problem::new("limits", ProblemStage::Load, message).at(self.place(Spot::Offset(offset))).help(LIMITS)
    }
}

const NOT_TEXT: &str = "catalog files are UTF-8 text; list other files in a .indexignore file";
const LIMITS: &str = "docs/limits.md lists the variables that raise a limit";

/// Returns whether `path` is a bundle directory rather than a catalog.
pub fn is_bundle_dir(path: &Path) -> bool {
    files::is_bundle_dir(path)
}
