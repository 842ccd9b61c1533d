//! The documents of an index with their original text.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use fbc::blob::TextBuffer;
use fbc::limits::MAX_DEPTH;
use fbc::{Blob, Fbc, FileId, Format, property};

use super::catalog::RunCatalogError;
use super::partition::{CatalogDocument, Language};

pub(super) fn shown(blob: &Blob) -> String {
    match (&*blob.package, &*blob.name) {
        ("", name) => format!("{} {name:?}", blob.schema),
        (package, name) => format!("{} {name:?} of package {package:?}", blob.schema),
    }
}

pub(super) fn printed(fbc: &Fbc, blob: &Blob) -> Result<Vec<u8>, RunCatalogError> {
    let mut text = Vec::new();
    fbc.write(&[blob], Format::Yaml, &mut text)?;
    // The separator is added when documents are joined.
    Ok(text.strip_prefix(b"---\n").map(<[u8]>::to_vec).unwrap_or(text))
}

/// Returns the blobs of a catalog with their original text; `longer` is the index and new text of the changed channel.
pub(super) fn as_written(
    catalog: &Fbc,
    longer: Option<(usize, String)>,
) -> Result<Vec<CatalogDocument>, RunCatalogError> {
    // Blobs created while loading replace original ones. In that case, print all blobs.
    let all_printed = catalog.blobs().iter().any(|blob| blob.origin.is_none());
    let mut documents = Vec::with_capacity(catalog.blobs().len());
    let mut files: HashMap<FileId, (Vec<u8>, HashMap<u64, fbc::documents::Document>)> = HashMap::new();
    let mut buffer = TextBuffer::default();
    for (place, blob) in catalog.blobs().iter().enumerate() {
        let name = shown(blob);
        if let Some((_, text)) = longer.as_ref().filter(|(longer, _)| *longer == place) {
            documents.push(CatalogDocument { name, language: Language::Json, text: text.clone().into_bytes() });
            continue;
        }
        let text = catalog.text(blob, &mut buffer)?;
        let refers = property::of(text).any(|(kind, value)| {
            kind == property::BUNDLE_OBJECT && value.is_some_and(|value| value.get("ref").is_some())
        });
        let (Some((file, start)), false, false) = (blob.origin, all_printed, refers) else {
            documents.push(CatalogDocument { name, language: Language::Yaml, text: printed(catalog, blob)? });
            continue;
        };
        if !files.contains_key(&file) {
            // Blobs are ordered by file, so one cached file is enough.
            files.clear();
            let path = catalog.full_path_of(file).ok_or(RunCatalogError::Removed)?;
            let bytes = fs::read(&path)?;
            let found = fbc::documents::of(&bytes, MAX_DEPTH).map_err(|_| RunCatalogError::Changed)?;
            let places = found.into_iter().map(|found| (found.start as u64, found)).collect();
            files.insert(file, (bytes, places));
        }
        let (bytes, places) = &files[&file];
        let found = places.get(&start).ok_or(RunCatalogError::Changed)?;
        let (language, text) = match found.format {
            Format::Json => (Language::Json, text.text().as_bytes()),
            Format::Yaml => (Language::Yaml, &bytes[found.range()]),
        };
        documents.push(CatalogDocument { name, language, text: text.to_vec() });
    }
    Ok(documents)
}

/// Writes documents to a catalog directory, one file per language.
pub(super) fn write_catalog(documents: &[CatalogDocument], directory: &Path) -> std::io::Result<()> {
    for (language, name) in [(Language::Yaml, "catalog.yaml"), (Language::Json, "catalog.json")] {
        let mut text = Vec::new();
        for document in documents.iter().filter(|document| document.language == language) {
            if language == Language::Yaml {
                text.extend_from_slice(b"---\n");
            }
            text.extend_from_slice(&document.text);
            if !document.text.ends_with(b"\n") {
                text.push(b'\n');
            }
        }
        if !text.is_empty() {
            fs::write(directory.join(name), text)?;
        }
    }
    Ok(())
}
