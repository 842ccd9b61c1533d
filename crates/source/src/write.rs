//! Writes a catalog as a directory: in today's layout, as a single file, or in the legacy layouts.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use edit::legacy::{self, IGNORE_FILE, OBJECTS_IGNORED};
use fbc::json::{JsonLayout as Spacing, Text};
use fbc::limits::MAX_DEPTH;
use fbc::scratch::TempFolder;
use fbc::{Arrangement, Blob, Fbc, Format, blob};

use crate::error::{SourceError, at};

/// The file for blobs without a package, in the legacy layouts.
const GLOBAL: &str = "__global.json";

/// The files of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogLayout {
    /// `<package>/catalog.json` or `.yaml`, and a file at the top for blobs without a package.
    Catalog(Format),
    /// `catalog.json`, with all objects inline.
    Single,
    /// `<package>/<package>.json`, and each object of a bundle in `<package>/objects/<bundle>/<object>.yaml`.
    Package,
    /// The same, but each bundle in `<package>/bundles/<bundle>.json`, with `objects` next to it.
    Bundle,
}

/// Writes a catalog to a directory that appears only when it is complete.
///
/// # Errors
/// Fails when a name cannot be that of a file, or a file cannot be written.
pub fn write_new(fbc: &Fbc, target: &Path, layout: CatalogLayout) -> Result<(), SourceError> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(at(parent))?;
    let aside = TempFolder::inside(parent, ".opm-migrate-").map_err(at(parent))?;
    write(fbc, aside.path(), layout)?;
    aside.finish(target).map_err(at(target))
}

/// Writes a catalog below `root`. In the legacy layouts, blobs without a package go to `__global.json`, and a package
/// with objects gets an `.indexignore` that lists them.
///
/// # Errors
/// Fails when a name cannot be that of a file, or a file cannot be written.
pub fn write(fbc: &Fbc, root: &Path, layout: CatalogLayout) -> Result<(), SourceError> {
    match layout {
        CatalogLayout::Catalog(format) => write_packages(fbc, root, format),
        CatalogLayout::Single => write_whole(fbc, &fbc.in_order(), &root.join("catalog.json")),
        CatalogLayout::Package | CatalogLayout::Bundle => write_legacy(fbc, root, layout),
    }
}

fn write_packages(fbc: &Fbc, root: &Path, format: Format) -> Result<(), SourceError> {
    let name = match format {
        Format::Json => "catalog.json",
        Format::Yaml => "catalog.yaml",
    };
    let blobs = fbc.in_order();
    for group in blobs.chunk_by(|a, b| a.package == b.package) {
        let package = &*group[0].package;
        let place = match package {
            "" => root.to_path_buf(),
            name if !fbc::is_file_name(name) => return Err(SourceError::PackageName(name.to_owned())),
            name => root.join(name),
        };
        if !package.is_empty() {
            fs::create_dir(&place).map_err(at(&place))?;
        }
        write_file(fbc, group, &place.join(name), format)?;
    }
    Ok(())
}

fn write_file(fbc: &Fbc, blobs: &[&Blob], path: &Path, format: Format) -> Result<(), SourceError> {
    let file = fs::File::create_new(path).map_err(at(path))?;
    let mut out = BufWriter::new(file);
    fbc.write_arranged(blobs, format, Arrangement::Complete, &mut out).map_err(at(path))
}

fn write_legacy(fbc: &Fbc, root: &Path, layout: CatalogLayout) -> Result<(), SourceError> {
    let blobs = fbc.in_order();
    for group in blobs.chunk_by(|a, b| a.package == b.package) {
        if group[0].package.is_empty() {
            write_whole(fbc, group, &root.join(GLOBAL))?;
            continue;
        }
        let package = element(&group[0].package)?;
        let directory = root.join(package);
        let bundles = if layout == CatalogLayout::Bundle { directory.join("bundles") } else { directory.clone() };
        fs::create_dir_all(&bundles).map_err(at(&bundles))?;
        let mut file = CatalogFile::create(&directory.join(format!("{package}.json")))?;
        let mut has_objects = false;
        for blob in group {
            let text = text(fbc, blob)?;
            if &*blob.schema != blob::BUNDLE {
                file.add(&text)?;
                continue;
            }
            let (json, objects) = bundle(blob, &text, &bundles)?;
            has_objects |= objects;
            if layout == CatalogLayout::Bundle {
                let mut own = CatalogFile::create(&bundles.join(format!("{}.json", element(&blob.name)?)))?;
                own.add(&json)?;
                own.finish()?;
            } else {
                file.add(&json)?;
            }
        }
        file.finish()?;
        if has_objects {
            // In the directory of the package, so that it can be copied alone.
            let ignore = directory.join(IGNORE_FILE);
            fs::write(&ignore, OBJECTS_IGNORED).map_err(at(&ignore))?;
        }
    }
    Ok(())
}

/// Writes blobs with inline objects.
fn write_whole(fbc: &Fbc, blobs: &[&Blob], path: &Path) -> Result<(), SourceError> {
    let mut file = CatalogFile::create(path)?;
    for blob in blobs {
        file.add(&text(fbc, blob)?)?;
    }
    file.finish()
}

/// Returns the JSON of a blob with all its fields and inline objects.
fn text(fbc: &Fbc, blob: &Blob) -> Result<Text, SourceError> {
    let mut text = Vec::new();
    fbc.write_arranged(&[blob], Format::Json, Arrangement::Complete, &mut text)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    Ok(Text::parse(&text, MAX_DEPTH).map_err(|error| io::Error::other(error.to_string()))?)
}

/// A file of a catalog that is being written.
struct CatalogFile {
    path: PathBuf,
    out: BufWriter<fs::File>,
}

impl CatalogFile {
    fn create(path: &Path) -> Result<CatalogFile, SourceError> {
        let file = fs::File::create_new(path).map_err(at(path))?;
        Ok(CatalogFile { path: path.to_path_buf(), out: BufWriter::new(file) })
    }

    fn add(&mut self, json: &Text) -> Result<(), SourceError> {
        let printed = Text::as_written(json.raw(), Spacing::Indented(4));
        writeln!(self.out, "{printed}").map_err(at(&self.path))
    }

    fn finish(mut self) -> Result<(), SourceError> {
        self.out.flush().map_err(at(&self.path))
    }
}

/// Rejects names that would escape their directory or hide in it.
fn element(name: &str) -> Result<&str, SourceError> {
    match fbc::is_file_name(name) {
        true => Ok(name),
        false => Err(SourceError::FileName(name.to_owned())),
    }
}

/// Writes the objects of a bundle to files; returns its text with references to them, and whether it has any.
fn bundle(blob: &Blob, text: &Text, parent: &Path) -> Result<(Text, bool), SourceError> {
    let directory = parent.join("objects").join(element(&blob.name)?);
    let (json, files) = legacy::split(text.raw(), &blob.name)
        .map_err(|source| SourceError::Object { bundle: blob.name.to_string(), source })?;
    if files.is_empty() {
        return Ok((json, false));
    }
    fs::create_dir_all(&directory).map_err(at(&directory))?;
    for (name, content) in files {
        let path = directory.join(name);
        fs::write(&path, content).map_err(at(&path))?;
    }
    Ok((json, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Fbc, &'static str) {
        let limits = fbc::Limits::default();
        let mut data = Vec::new();
        let csv = r#"{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"foo.v1"}}"#;
        fbc::base64::encode(csv.as_bytes(), &mut data);
        let data = String::from_utf8(data).unwrap();
        let mut fbc = Fbc::default();
        for text in [
            r#"{"schema":"olm.package","name":"foo","defaultChannel":"stable","vendor":"me"}"#.to_owned(),
            r#"{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"foo.v1"}]}"#.to_owned(),
            r#"{"schema":"example.com/thing","name":"x","free":[1,{"a":null}]}"#.to_owned(),
            format!(
                r#"{{"schema":"olm.bundle","name":"foo.v1","package":"foo","image":"r.test/foo:v1","properties":[{{"type":"olm.package","value":{{"packageName":"foo","version":"1.0.0"}}}},{{"type":"olm.bundle.object","value":{{"data":"{data}"}}}},{{"type":"olm.bundle.object","value":{{"data":"{data}"}}}}]}}"#
            ),
        ] {
            fbc.add_generated(&text, &limits).unwrap();
        }
        (fbc, csv)
    }

    #[test]
    fn a_catalog_reads_the_same_in_every_layout() {
        let limits = fbc::Limits::default();
        let (fbc, csv) = sample();
        for (layout, file, objects) in [
            (CatalogLayout::Single, "catalog.json", None),
            (CatalogLayout::Package, "foo/foo.json", Some("foo/objects/foo.v1")),
            (CatalogLayout::Bundle, "foo/bundles/foo.v1.json", Some("foo/bundles/objects/foo.v1")),
        ] {
            let root = tempfile::tempdir().unwrap();
            write(&fbc, root.path(), layout).unwrap();
            assert!(root.path().join(file).is_file(), "{layout:?}");
            assert_eq!(root.path().join(GLOBAL).is_file(), layout != CatalogLayout::Single);
            if let Some(objects) = objects {
                assert_eq!(fs::read_dir(root.path().join(objects)).unwrap().count(), 2);
            }
            let mut again = Fbc::default();
            let options = fbc::LoadOptions { limits: limits.clone(), keep_text: true, ..fbc::LoadOptions::default() };
            let loaded = again.load_dir(root.path(), &options).unwrap();
            assert_eq!(again.blobs().len(), 4, "{layout:?}: {:?}", loaded.problems);
            let of = |schema: &str| again.blobs().iter().find(|blob| &*blob.schema == schema).unwrap();
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            let csv_again = again.csv(of(blob::BUNDLE), &limits).unwrap().unwrap();
            assert_eq!(value(&csv_again), value(csv), "{layout:?}");
            assert_eq!(value(&text(&again, of(blob::PACKAGE)).unwrap())["vendor"], "me", "{layout:?}");
            assert_eq!(value(&text(&again, of("example.com/thing")).unwrap())["free"][1], value(r#"{"a":null}"#));
        }
    }

    #[test]
    fn names_that_lead_outside_are_rejected() {
        for name in ["..", "a/b", ""] {
            assert!(element(name).is_err(), "{name}");
        }
    }

    #[test]
    fn an_object_that_is_no_json_is_written_unchanged() {
        let mut fbc = Fbc::default();
        // "kind: A\n", YAML, and "{oops", which only starts like JSON.
        for (name, data) in [("foo.v1", "a2luZDogQQo="), ("foo.v2", "e29vcHM=")] {
            let text = format!(
                r#"{{"schema":"olm.bundle","name":"{name}","package":"foo","properties":[{{"type":"olm.bundle.object","value":{{"data":"{data}"}}}}]}}"#
            );
            fbc.add_generated(&text, &fbc::Limits::default()).unwrap();
        }
        let root = tempfile::tempdir().unwrap();
        write(&fbc, root.path(), CatalogLayout::Package).unwrap();
        let content =
            |bundle: &str| fs::read_to_string(root.path().join(format!("foo/objects/{bundle}/obj0000.yaml"))).unwrap();
        assert_eq!((content("foo.v1").as_str(), content("foo.v2").as_str()), ("kind: A\n", "{oops"));
    }
}
