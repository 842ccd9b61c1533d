//! Reads a bundle as OLM v1 does: every document of every manifest.
//!
//! Catalogs, OLM v0 and all validators read only the first document of a file and ignore documents that are not
//! objects. This module keeps or rejects them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fbc::Limits;
use fbc::spans::Spans;
use serde_json::Value;

use crate::document::{self, DocumentError};
use crate::error::Error;
use crate::file::{self, ReadOutcome};
use crate::metadata::PACKAGE;

const CSV: &str = fbc::csv::KIND;

/// The complete content of a bundle directory.
#[derive(Debug, Clone, Default)]
pub struct ParsedBundle {
    /// The package in `metadata/annotations.yaml`; empty if there is none.
    pub package: String,
    /// The annotations of that file.
    pub annotations: Vec<(String, String)>,
    /// The objects of all manifests in file order; lists are expanded.
    pub objects: Vec<BundleObject>,
    /// The properties in `metadata/properties.yaml`.
    pub properties: Vec<Value>,
    /// The dependencies in `metadata/dependencies.yaml`.
    pub dependencies: Vec<Value>,
    pub files: Vec<BundleFile>,
    /// The error of OLM v1, word for word, if it rejects the directory.
    pub refused: Option<String>,
}

/// An object and its location.
#[derive(Debug, Clone)]
pub struct BundleObject {
    /// The file, as `manifests/NAME`.
    pub file: String,
    /// The index of its document in the file.
    pub document: usize,
    /// The line on which the document starts, from 1.
    pub line: usize,
    /// The index in a list, if it is part of one.
    pub item: Option<usize>,
    /// The object.
    pub value: Value,
}

/// A file and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFile {
    /// The path in the bundle.
    pub name: String,
    /// The size in bytes.
    pub size: u64,
}

impl ParsedBundle {
    /// Returns the ClusterServiceVersion: the first that catalogs read, or else the first of all.
    ///
    /// A bundle must not have another one, see [`ParsedBundle::several_csvs`].
    pub fn csv(&self) -> Option<&BundleObject> {
        self.csv_index().map(|index| &self.objects[index])
    }

    /// Returns the index of [`ParsedBundle::csv`] among the objects.
    pub fn csv_index(&self) -> Option<usize> {
        let csvs = || (0..self.objects.len()).filter(|index| self.objects[*index].kind() == CSV);
        csvs().find(|index| self.objects[*index].is_first()).or_else(|| csvs().next())
    }

    /// Returns the error for a bundle with several ClusterServiceVersions.
    ///
    /// Catalogs take the first and OLM v1 the last, so clusters would not run what the catalog describes.
    pub fn several_csvs(&self) -> Option<String> {
        let csvs: Vec<&BundleObject> = self.of_kind(CSV).collect();
        (csvs.len() > 1).then(|| several_csvs(csvs.iter().map(|csv| csv.file.as_str())))
    }

    /// Returns what OLM v0 reads: the first document of each file that is not hidden.
    #[must_use]
    pub fn first_documents(mut self) -> ParsedBundle {
        self.objects.retain(BundleObject::is_first);
        self
    }

    /// Returns whether OLM v0 reads all objects.
    pub fn has_first_documents_only(&self) -> bool {
        self.objects.iter().all(BundleObject::is_first)
    }

    /// Returns the first document of a manifest, if it is an object.
    pub(crate) fn first_of(&self, file: &str) -> Option<&Value> {
        let at = self.objects.partition_point(|object| *object.file < *file);
        let found = self.objects.get(at).filter(|object| object.file == file)?;
        (found.document == 0 && found.item.is_none()).then_some(&found.value)
    }

    /// Collects objects that come from no file, such as those of a catalog.
    pub fn of_values(values: impl IntoIterator<Item = Value>) -> ParsedBundle {
        let object = |value| BundleObject { file: String::new(), document: 0, line: 0, item: None, value };
        ParsedBundle { objects: values.into_iter().map(object).collect(), ..ParsedBundle::default() }
    }

    /// Returns the values of all objects.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().map(|object| &object.value)
    }

    /// Returns the objects of a kind.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a BundleObject> {
        self.objects.iter().filter(move |object| object.kind() == kind)
    }
}

impl BundleObject {
    /// Returns whether OLM v0 reads it: the first document of a file that is not hidden.
    fn is_first(&self) -> bool {
        self.document == 0 && self.item.is_none() && !self.file.starts_with("manifests/.")
    }

    /// Returns the kind.
    pub fn kind(&self) -> &str {
        self.value.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Why a text is not a list of Kubernetes objects.
#[derive(Debug, thiserror::Error)]
pub enum ObjectListError {
    /// A document cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The document on this line is not an object.
    #[error("line {0}: not a Kubernetes object")]
    NotObject(usize),
    /// The document on this line has no kind.
    #[error("line {0}: Object 'Kind' is missing")]
    NoKind(usize),
}

/// Returns the error for the files of several ClusterServiceVersions.
pub(crate) fn several_csvs<'a>(files: impl Iterator<Item = &'a str>) -> String {
    format!("invalid bundle: contains multiple CSVs: {}", files.collect::<Vec<_>>().join(", "))
}

/// Reads all of the bundle in `dir`.
///
/// # Errors
/// Fails if the directory cannot be read or exceeds the limits.
pub fn read_whole(dir: &Path, limits: &Limits) -> Result<ParsedBundle, Error> {
    read_files(BundleFiles::In(dir), limits)
}

/// The files of a bundle.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BundleFiles<'a> {
    /// Those of a directory.
    In(&'a Path),
    /// These, by path.
    Given(&'a BTreeMap<String, Vec<u8>>),
}

impl BundleFiles<'_> {
    /// Returns the names of the manifests in byte order.
    fn manifests(self, limits: &Limits) -> Result<Vec<OsString>, Error> {
        match self {
            BundleFiles::In(dir) => file::names(&dir.join("manifests"), limits),
            BundleFiles::Given(files) => {
                let names = files.keys().filter_map(|path| path.strip_prefix("manifests/"));
                Ok(names.map(OsString::from).collect())
            }
        }
    }

    /// Reads a file into `text`.
    pub(crate) fn read(self, path: &Path, limits: &Limits, text: &mut Vec<u8>) -> Result<ReadOutcome, Error> {
        match self {
            BundleFiles::In(dir) => file::read(&dir.join(path), limits, text),
            BundleFiles::Given(files) => {
                text.clear();
                let Some(given) = path.to_str().and_then(|path| files.get(path)) else {
                    return Ok(ReadOutcome::Unreadable(io::Error::from(io::ErrorKind::NotFound).into()));
                };
                text.extend_from_slice(given);
                Ok(ReadOutcome::Read)
            }
        }
    }
}

/// Reads all of a bundle.
pub(crate) fn read_files(files: BundleFiles<'_>, limits: &Limits) -> Result<ParsedBundle, Error> {
    let mut whole = ParsedBundle::default();
    let mut text = Vec::new();
    read_annotations(files, limits, &mut whole, &mut text)?;
    let mut total = 0;
    for name in files.manifests(limits)? {
        let shown = format!("manifests/{}", name.display());
        match files.read(&Path::new("manifests").join(&name), limits, &mut text)? {
            ReadOutcome::Directory => {
                whole.refuse(format!(
                    "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found \"{shown}\""
                ));
                continue;
            }
            ReadOutcome::Unreadable(reason) => {
                whole.refuse(format!("open {shown}: {reason}"));
                continue;
            }
            ReadOutcome::Read => {}
        }
        whole.files.push(BundleFile { name: shown.clone(), size: text.len() as u64 });
        total += text.len() as u64;
        if total > limits.file_size {
            let path = match files {
                BundleFiles::In(dir) => dir.join("manifests"),
                BundleFiles::Given(_) => "manifests".into(),
            };
            return Err(Error::TooLarge { path, limit: limits.file_size });
        }
        if let Err(reason) = add(&text, &shown, limits, &mut whole.objects) {
            whole.refuse(format!("error parsing objects in \"{shown}\": {reason}"));
        }
    }
    if whole.csv().is_none() {
        whole.refuse("no ClusterServiceVersion found in \"manifests\"".into());
    }
    whole.properties = listed(files, "properties", limits, &mut whole, &mut text)?;
    whole.dependencies = listed(files, "dependencies", limits, &mut whole, &mut text)?;
    Ok(whole)
}

impl ParsedBundle {
    /// Records the first reason.
    fn refuse(&mut self, reason: String) {
        self.refused.get_or_insert(reason);
    }
}

fn read_annotations(
    files: BundleFiles<'_>,
    limits: &Limits,
    whole: &mut ParsedBundle,
    text: &mut Vec<u8>,
) -> Result<(), Error> {
    const FILE: &str = "metadata/annotations.yaml";
    match files.read(FILE.as_ref(), limits, text)? {
        ReadOutcome::Read => {}
        _ => {
            whole.refuse(format!("open {FILE}: no such file or directory"));
            return Ok(());
        }
    }
    whole.files.push(BundleFile { name: FILE.into(), size: text.len() as u64 });
    let root = match first(text, limits) {
        Ok(root) => root,
        Err(reason) => {
            whole.refuse(format!("error converting YAML to JSON: {reason}"));
            return Ok(());
        }
    };
    for (key, value) in root.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        if let Some(value) = value.as_str() {
            whole.annotations.push((key.clone(), value.to_owned()));
            if key == PACKAGE {
                whole.package = value.to_owned();
            }
        }
    }
    Ok(())
}

/// Reads a list in `metadata/`; a missing file is an empty list.
fn listed(
    files: BundleFiles<'_>,
    field: &str,
    limits: &Limits,
    whole: &mut ParsedBundle,
    text: &mut Vec<u8>,
) -> Result<Vec<Value>, Error> {
    let name = format!("metadata/{field}.yaml");
    if !matches!(files.read(name.as_ref(), limits, text)?, ReadOutcome::Read) {
        return Ok(Vec::new());
    }
    whole.files.push(BundleFile { name: name.clone(), size: text.len() as u64 });
    match first(text, limits) {
        Ok(root) => Ok(root.get(field).and_then(Value::as_array).cloned().unwrap_or_default()),
        Err(reason) if field == "properties" => {
            whole.refuse(format!("failed to unmarshal {name}: {reason}"));
            Ok(Vec::new())
        }
        Err(_) => Ok(Vec::new()),
    }
}

fn first(text: &[u8], limits: &Limits) -> Result<Value, DocumentError> {
    document::first(text, limits)?.body.to_value(limits)
}

/// Parses the objects in the text of a file.
///
/// # Errors
/// Returns the reason if the text is not a list of Kubernetes objects.
pub fn objects_of(text: &[u8], file: &str, limits: &Limits) -> Result<Vec<BundleObject>, ObjectListError> {
    let mut objects = Vec::new();
    add(text, file, limits, &mut objects)?;
    Ok(objects)
}

/// Adds the objects in the text of a file.
fn add(text: &[u8], file: &str, limits: &Limits, objects: &mut Vec<BundleObject>) -> Result<(), ObjectListError> {
    for (document, found) in document::all(text, limits)?.into_iter().enumerate() {
        let value = found.body.to_value(limits)?;
        let line = found.line + 1;
        let kind = match &value {
            Value::Null => continue,
            Value::Object(fields) => fields.get("kind").and_then(Value::as_str).unwrap_or_default(),
            _ => return Err(ObjectListError::NotObject(line)),
        };
        if kind.is_empty() {
            return Err(ObjectListError::NoKind(line));
        }
        let file = file.to_owned();
        match value.get("items").and_then(Value::as_array) {
            Some(items) if kind.ends_with("List") => {
                for (item, value) in items.iter().enumerate() {
                    let value = value.clone();
                    objects.push(BundleObject { file: file.clone(), document, line, item: Some(item), value });
                }
            }
            _ => objects.push(BundleObject { file, document, line, item: None, value }),
        }
    }
    Ok(())
}

/// A position in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    pub line: usize,
    /// The column, in bytes.
    pub column: usize,
}

/// Resolves JSON pointers of documents to positions in a file of a bundle, which is read once.
///
/// A missing value resolves to its nearest existing ancestor.
pub(crate) fn positions(dir: &Path, file: &str, wanted: &[(usize, &str)], limits: &Limits) -> Vec<Option<Position>> {
    let nowhere = || vec![None; wanted.len()];
    let path: PathBuf = dir.join(file);
    if path.as_os_str().as_bytes().contains(&0) {
        return nowhere();
    }
    let mut text = Vec::new();
    let Ok(ReadOutcome::Read) = file::read(&path, limits, &mut text) else { return nowhere() };
    let Ok(documents) = document::all(&text, limits) else { return nowhere() };
    let lines = document::Lines::of(&text);
    let mut spans: BTreeMap<usize, Option<Spans>> = BTreeMap::new();
    let mut find = |(number, pointer): &(usize, &str)| {
        let document = documents.get(*number)?;
        let spans = spans.entry(*number).or_insert_with(|| document::spans(document));
        document::position(&lines, document, spans.as_ref()?, pointer)
    };
    wanted.iter().map(&mut find).collect()
}

#[cfg(test)]
mod tests {
    use testkit::BundleDir;

    use super::*;

    #[test]
    fn all_documents_are_read_and_lists_are_expanded() {
        let bundle = BundleDir::new()
            .manifest("a.yaml", "# head\n---\nkind: A\nmetadata: {name: one}\n---\n---\nkind: B\n")
            .manifest("b.json", "{\"kind\":\"C\"} {\"kind\":\"D\"}")
            .manifest("c.yaml", "kind: List\nitems:\n- {kind: E}\n- {kind: F}\n")
            .manifest(".hidden.yaml", "kind: G\n");
        let whole = read_whole(bundle.path(), &Limits::default()).unwrap();
        assert_eq!(whole.refused, None);
        let kinds: Vec<_> = whole.objects.iter().map(|object| (object.kind(), object.line)).collect();
        assert_eq!(kinds[..7], [("G", 1), ("A", 3), ("B", 6), ("C", 1), ("D", 1), ("E", 1), ("F", 1)]);
        assert_eq!(whole.package, "foo");
    }

    #[test]
    fn a_directory_that_olm_v1_refuses_has_a_reason() {
        let refused = |bundle: &BundleDir| read_whole(bundle.path(), &Limits::default()).unwrap().refused.unwrap();
        insta::assert_snapshot!(refused(&BundleDir::new().manifest("sub/a.yaml", "kind: A\n")), @r#"subdirectories are not allowed within the "manifests" directory of the bundle image filesystem: found "manifests/sub""#);
        insta::assert_snapshot!(refused(&BundleDir::new().manifest("a.yaml", "a: 1\n")), @r#"error parsing objects in "manifests/a.yaml": line 1: Object 'Kind' is missing"#);
        insta::assert_snapshot!(refused(&BundleDir::empty()), @"open metadata/annotations.yaml: no such file or directory");
    }

    #[test]
    fn positions_are_found_in_every_document() {
        let bundle =
            BundleDir::new().manifest("a.yaml", "kind: A\n---\nkind: B\nspec:\n  list:\n  - {x: 1}\n  - z: 2\n");
        let at = |document, pointer| {
            let found = positions(bundle.path(), "manifests/a.yaml", &[(document, pointer)], &Limits::default());
            let found = found[0].unwrap();
            (found.line, found.column)
        };
        assert_eq!(at(0, "/kind"), (1, 7));
        assert_eq!(at(1, "/spec/list/1/z"), (7, 8));
        assert_eq!(at(1, "/spec/nothing/here"), (5, 3));
    }
}
