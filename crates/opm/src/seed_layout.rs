//! The first layout of file-based catalogs: a file for each package, and each object of a bundle in a file of its own.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use fbc::blob::TextBuffer;
use fbc::json::{Layout, Raw, write_as_written};
use fbc::{Blob, Fbc, blob};

use crate::commands::add::blobs;
use crate::commands::edit::attached::{IGNORE_FILE, OBJECTS_IGNORED};
use crate::exit::{Failure, Outcome, in_path};

/// Writes a catalog below `root`: `<package>/<package>.json`, and `<package>/objects/<bundle>/<object>.yaml` with a
/// `.indexignore` that names them.
pub(crate) fn write(fbc: &Fbc, root: &Path) -> Outcome {
    let blobs = fbc.in_order();
    for group in blobs.chunk_by(|a, b| a.package == b.package) {
        let package = element(&group[0].package)?;
        let directory = root.join(package);
        fs::create_dir(&directory).map_err(|error| in_path(&directory, &error))?;
        let path = directory.join(format!("{package}.json"));
        let file = fs::File::create_new(&path).map_err(|error| in_path(&path, &error))?;
        let mut out = BufWriter::new(file);
        let mut buffer = TextBuffer::default();
        for blob in group {
            let text = fbc.text(blob, &mut buffer)?;
            let json =
                if &*blob.schema == blob::BUNDLE { bundle(blob, text, &directory)? } else { text.text().to_owned() };
            let mut printed = Vec::new();
            write_as_written(Raw::from_checked(&json), Layout::Indented(4), 0, &mut printed);
            printed.push(b'\n');
            out.write_all(&printed).map_err(|error| in_path(&path, &error))?;
        }
        out.flush().map_err(|error| in_path(&path, &error))?;
        if directory.join("objects").exists() {
            // In the folder of the package, so that it can be copied as it is.
            let ignore = directory.join(IGNORE_FILE);
            fs::write(&ignore, OBJECTS_IGNORED).map_err(|error| in_path(&ignore, &error))?;
        }
    }
    Ok(())
}

/// Refuses names that would lead out of their directory.
fn element(name: &str) -> Result<&str, Failure> {
    match name {
        "" | "." | ".." => Err(Failure::message(format!("invalid name {name:?}: must be a single local path element"))),
        name if name.contains(['/', '\0']) => {
            Err(Failure::message(format!("invalid name {name:?}: must be a single local path element")))
        }
        name => Ok(name),
    }
}

/// Writes the objects of a bundle to files, and returns its text with references to them.
fn bundle(blob: &Blob, text: Raw<'_>, package: &Path) -> Result<String, Failure> {
    let directory = package.join("objects").join(element(&blob.name)?);
    let (json, files) = blobs::bundle(text.text(), &blob.name)
        .map_err(|error| Failure::message(format!("bundle {:?}: {error}", blob.name)))?;
    if !files.is_empty() {
        fs::create_dir_all(&directory).map_err(|error| in_path(&directory, &error))?;
    }
    for (name, content) in files {
        let path = directory.join(name);
        fs::write(&path, content).map_err(|error| in_path(&path, &error))?;
    }
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_reads_the_same_in_this_layout() {
        let limits = fbc::Limits::default();
        let mut data = Vec::new();
        let csv = r#"{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"foo.v1"}}"#;
        fbc::base64::encode(csv.as_bytes(), &mut data);
        let data = String::from_utf8(data).unwrap();
        let mut fbc = Fbc::default();
        for text in [
            r#"{"schema":"olm.package","name":"foo","defaultChannel":"stable"}"#.to_owned(),
            r#"{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"foo.v1"}]}"#.to_owned(),
            format!(
                r#"{{"schema":"olm.bundle","name":"foo.v1","package":"foo","image":"r.test/foo:v1","properties":[{{"type":"olm.package","value":{{"packageName":"foo","version":"1.0.0"}}}},{{"type":"olm.bundle.object","value":{{"data":"{data}"}}}},{{"type":"olm.bundle.object","value":{{"data":"{data}"}}}}]}}"#
            ),
        ] {
            fbc.add_made(&text, &limits).unwrap();
        }
        let root = tempfile::tempdir().unwrap();
        write(&fbc, root.path()).unwrap();
        let objects = root.path().join("foo/objects/foo.v1");
        assert_eq!(fs::read_dir(objects).unwrap().count(), 2);
        let mut again = Fbc::default();
        let options = fbc::LoadOptions { limits: limits.clone(), keep_text: true, ..fbc::LoadOptions::default() };
        let loaded = again.load_dir(root.path(), &options).unwrap();
        assert_eq!(again.blobs().len(), 3, "{:?}", loaded.problems);
        let bundle = again.blobs().iter().find(|blob| &*blob.schema == blob::BUNDLE).unwrap();
        let csv_again = again.csv(bundle, &limits).unwrap().unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&csv_again).unwrap(),
            serde_json::from_str::<serde_json::Value>(csv).unwrap()
        );
    }
}
