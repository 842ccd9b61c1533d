//! A spool file for the manifests of many bundles.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use bundle::BundleSummary;

/// The spool file.
#[derive(Default)]
pub(crate) struct Spool {
    file: Option<File>,
    size: u64,
}

/// The position of one bundle's manifests.
pub(crate) struct SpoolEntry {
    at: u64,
    csv: usize,
    objects: usize,
}

impl Spool {
    /// Moves the manifests of a bundle into the spool.
    pub(crate) fn put(&mut self, contents: &mut BundleSummary) -> io::Result<SpoolEntry> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        let (csv, objects) = columns(contents);
        contents.csv = String::new();
        contents.objects = Vec::new();
        file.write_all(csv.as_bytes())?;
        file.write_all(objects.as_bytes())?;
        let place = SpoolEntry { at: self.size, csv: csv.len(), objects: objects.len() };
        self.size += (csv.len() + objects.len()) as u64;
        Ok(place)
    }

    /// Reads the manifests of a bundle: the CSV, and all objects.
    pub(crate) fn get(&self, place: &SpoolEntry) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let (mut csv, mut objects) = (vec![0; place.csv], vec![0; place.objects]);
        file.read_exact_at(&mut csv, place.at)?;
        file.read_exact_at(&mut objects, place.at + place.csv as u64)?;
        Ok((csv, objects))
    }
}

/// Returns the manifests in the form of their columns: one line per object.
pub(crate) fn columns(contents: &BundleSummary) -> (String, String) {
    let mut objects = String::with_capacity(contents.objects.iter().map(|object| object.len() + 1).sum());
    for object in &contents.objects {
        objects.push_str(object);
        objects.push('\n');
    }
    (format!("{}\n", contents.csv), objects)
}
