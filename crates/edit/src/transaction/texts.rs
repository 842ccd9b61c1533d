//! The original text of blobs.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;

use fbc::blob::TextBuffer;
use fbc::json::Text;
use fbc::{Blob, BlobContent, Fbc, FileId};

use super::EditableCatalog;
use crate::new_blob::{AttachedContent, AttachedFile, NewBlob};
use crate::refusal::EditRefusal;
use crate::rewrite;

/// The original text of the blobs of a catalog that was catalog with its text. Reads each file once.
pub(crate) struct Texts<'a> {
    catalog: &'a EditableCatalog,
    texts: RefCell<HashMap<FileId, TextFile>>,
}

/// A file and the spans of its YAML documents by start offset.
struct TextFile {
    /// The text; empty if the file has no YAML document.
    text: String,
    documents: BTreeMap<u64, Range<usize>>,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(catalog: &'a EditableCatalog) -> Texts<'a> {
        Texts { catalog, texts: RefCell::default() }
    }

    /// Returns the text of a blob as JSON, and as YAML if the file is YAML.
    pub(crate) fn of(&self, blob: usize) -> Result<NewBlob, EditRefusal> {
        let fbc = &self.catalog.fbc;
        let blob = &fbc.blobs()[blob];
        let files = attached(self.catalog, blob)?;
        let mut buffer = TextBuffer::default();
        let json = Text::from(fbc.text(blob, &mut buffer).map_err(|error| EditRefusal::new(error.to_string()))?);
        let Some((id, start)) = blob.origin else { return Ok(NewBlob { files, ..NewBlob::json(json) }) };
        let mut texts = self.texts.borrow_mut();
        let TextFile { text, documents } = match texts.entry(id) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(TextFile::read(fbc, id)?),
        };
        let yaml = documents.get(&start).and_then(|range| {
            let own = text.get(range.clone())?;
            Some(own.trim_end_matches(['\n', '\r']).replace("\r\n", "\n") + "\n")
        });
        Ok(NewBlob { json, yaml, files })
    }
}

/// Returns the files that a blob refers to.
fn attached(catalog: &EditableCatalog, blob: &Blob) -> Result<Vec<AttachedFile>, EditRefusal> {
    let BlobContent::Bundle(bundle) = &blob.content else { return Ok(Vec::new()) };
    let mut files: Vec<AttachedFile> = Vec::new();
    for (reference, below) in bundle.references.iter().zip(catalog.fbc.referenced(blob)) {
        if files.iter().any(|file| file.reference == **reference) {
            continue;
        }
        let path = catalog.root.join(below);
        let bytes = fs::read(&path).map_err(|error| EditRefusal::new(format!("{}: {error}", path.display())))?;
        files.push(AttachedFile { reference: reference.to_string(), content: AttachedContent::copy_of(path, &bytes) });
    }
    Ok(files)
}

impl TextFile {
    fn read(fbc: &Fbc, id: FileId) -> Result<TextFile, EditRefusal> {
        let path = fbc.full_path_of(id).unwrap_or_default();
        let wrong = |error: &dyn std::fmt::Display| EditRefusal::new(format!("{}: {error}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| wrong(&error))?;
        let documents = rewrite::yaml_documents(&text).map_err(|refusal| wrong(&refusal))?;
        let text = if documents.is_empty() { String::new() } else { text };
        Ok(TextFile { text, documents })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_file_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.yaml");
        fs::write(&path, "schema: a\n---\nschema: b # note\n").unwrap();
        let catalog = EditableCatalog::load(directory.path(), &fbc::Limits::default(), true).unwrap();
        let yaml = |blob| Texts::new(&catalog).of(blob).map(|blob_text| blob_text.yaml);
        assert_eq!(yaml(1).unwrap().unwrap(), "schema: b # note\n");
        fs::write(&path, "schema: a\n--- x\nschema: b # note\n").unwrap();
        assert!(yaml(1).is_err());
        fs::remove_file(&path).unwrap();
        assert!(yaml(1).is_err());
    }
}
