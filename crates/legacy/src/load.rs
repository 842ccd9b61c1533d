//! Loads manifests without an image: package directories and ConfigMaps.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use bundle::BundleSummary;
use fbc::json::{JsonKind, Raw, Text};
use fbc::{Limits, stream};
use rusqlite::Connection;

use crate::add::{NewChannels, insert, rebuild};
use crate::change::Changed;
use crate::error::Error;
use crate::open::Database;
use crate::remove::{Strictness, with_savepoint};

/// Maximum nesting depth of directories.
const MAX_NESTING: usize = 32;

impl Database {
    /// Loads package directories: each has a directory per version, and a file that names the channels.
    ///
    /// # Errors
    /// Fails with all errors, unless in permissive mode.
    pub fn load_directories(
        &self,
        directories: &[PathBuf],
        limits: &Limits,
        strictness: Strictness,
    ) -> Result<Changed, Error> {
        let mut packages = Vec::new();
        for directory in directories {
            let mut files = Vec::new();
            walk(directory, limits, 0, &mut files)?;
            packages.push(files);
        }
        self.load(strictness, "directory", |connection, problems| {
            packages.iter().try_for_each(|files| load_files(connection, files, limits, problems))
        })
    }

    /// Loads a ConfigMap: lists of CRDs, CSVs and packages, each as text.
    ///
    /// # Errors
    /// Fails with all errors, unless in permissive mode.
    pub fn load_config_map(&self, text: &[u8], limits: &Limits, strictness: Strictness) -> Result<Changed, Error> {
        let empty = || Error::Message("unexpected end of JSON input".to_owned());
        let json = first(text, limits).map_err(|error| Error::Message(error.to_string()))?.ok_or_else(empty)?;
        let root = json.raw();
        let data = root.get("data").unwrap_or(root);
        let list = |key: &str| -> Result<Text, Error> {
            let text = data.get(key).and_then(Raw::as_str);
            let text = text.ok_or_else(|| Error::Message(format!("couldn't find expected key {key} in configmap")))?;
            let json = first(text.as_bytes(), limits).map_err(|error| Error::Message(format!("{key}: {error}")))?;
            Ok(json.unwrap_or_else(|| Text::list([])))
        };
        let (crds, csvs, packages) =
            (list("customResourceDefinitions")?, list("clusterServiceVersions")?, list("packages")?);
        self.load(strictness, "configmap", |connection, problems| {
            let mut defined: BTreeMap<[String; 4], &str> = BTreeMap::new();
            for crd in crds.raw().items() {
                for key in keys_of(crd) {
                    let shown = format!("{}/{}/{} ({})", key[0], key[1], key[2], key[3]);
                    if defined.insert(key, crd.text()).is_some() {
                        problems.push(format!("can't add the same CRD twice in one configmap: {shown}"));
                    }
                }
            }
            for csv in csvs.raw().items() {
                let mut objects = vec![csv.text()];
                for key in fbc::csv::owned_crds(csv) {
                    match defined.get(&key) {
                        Some(crd) if !objects.contains(crd) => objects.push(crd),
                        Some(_) => {}
                        None => problems.push(format!(
                            "couldn't find owned CRD in crd list {}/{}/{} ({})",
                            key[0], key[1], key[2], key[3]
                        )),
                    }
                }
                let contents = bundle::of_objects(objects.iter().map(|object| object.as_bytes()), limits);
                add_contents(connection, contents, problems);
            }
            for package in packages.raw().items() {
                load_package(connection, package, problems);
            }
            Ok(())
        })
    }

    fn load(
        &self,
        strictness: Strictness,
        what: &str,
        work: impl FnOnce(&Connection, &mut Vec<String>) -> Result<(), Error>,
    ) -> Result<Changed, Error> {
        self.change(|connection| {
            let mut problems = Vec::new();
            work(connection, &mut problems)?;
            if !problems.is_empty() && strictness == Strictness::Strict {
                return Err(Error::Message(format!("error loading manifests from {what}: [{}]", problems.join(", "))));
            }
            Ok(Changed { skipped: problems, ..Changed::default() })
        })
    }
}

/// Loads the files of a package directory.
fn load_files(
    connection: &Connection,
    files: &[PathBuf],
    limits: &Limits,
    problems: &mut Vec<String>,
) -> Result<(), Error> {
    let directories: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    for directory in directories {
        load_bundles(connection, directory, files, limits, problems)?;
    }
    for file in files {
        let shown = file.display();
        match read(file, limits).and_then(|text| first(&text, limits)) {
            Ok(Some(json)) => load_package(connection, json.raw(), problems),
            Ok(None) => {}
            Err(reason) => {
                problems.push(format!("could not decode contents of file {shown} into package: {reason}"));
            }
        }
    }
    Ok(())
}

/// Lists files, skipping hidden files and directories.
fn walk(directory: &Path, limits: &Limits, nesting: usize, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    if nesting > MAX_NESTING {
        return Err(Error::Message(format!("{}: directories are nested too deeply", directory.display())));
    }
    let mut entries: Vec<fs::DirEntry> =
        fs::read_dir(directory).and_then(|entries| entries.collect()).map_err(Error::io(directory))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, limits, nesting + 1, files)?;
        } else if path.is_file() {
            if files.len() == limits.files {
                return Err(Error::Message(format!("directory holds more than {} files", limits.files)));
            }
            files.push(path);
        }
    }
    Ok(())
}

/// Why a file has no document.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    #[error(transparent)]
    Syntax(#[from] stream::StreamError),
}

fn read(path: &Path, limits: &Limits) -> Result<Vec<u8>, ReadError> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(limits.file_size.saturating_add(1)).read_to_end(&mut text)?;
    if text.len() as u64 > limits.file_size {
        return Err(ReadError::TooLarge(limits.file_size));
    }
    Ok(text)
}

/// Returns the first document of a text as JSON.
fn first(text: &[u8], limits: &Limits) -> Result<Option<Text>, ReadError> {
    Ok(stream::first(text, limits)?.map(|(_, json)| json))
}

/// Loads the bundles of a directory: one per CSV, with all other objects there.
fn load_bundles(
    connection: &Connection,
    directory: &Path,
    files: &[PathBuf],
    limits: &Limits,
    problems: &mut Vec<String>,
) -> Result<(), Error> {
    let mut texts: Vec<(bool, Vec<u8>)> = Vec::new();
    for file in files.iter().filter(|file| file.parent() == Some(directory)) {
        let Ok(text) = read(file, limits) else { continue };
        let Ok(Some(json)) = first(&text, limits) else { continue };
        let is_csv = json.raw().get("kind").and_then(Raw::as_str).is_some_and(|kind| kind == fbc::csv::KIND);
        texts.push((is_csv, text));
    }
    for (place, _) in texts.iter().enumerate().filter(|(_, (is_csv, _))| *is_csv) {
        let objects = texts.iter().enumerate().filter(|(at, (is_csv, _))| !is_csv || *at == place);
        let contents = bundle::of_objects(objects.map(|(_, (_, text))| text.as_slice()), limits);
        let contents = contents.map_err(|error| format!("{}: {error}", directory.display()));
        add_contents(connection, contents, problems);
    }
    Ok(())
}

/// Writes the rows of a bundle without an image.
fn add_contents(
    connection: &Connection,
    contents: Result<BundleSummary, impl fmt::Display>,
    problems: &mut Vec<String>,
) {
    let contents = match contents {
        Ok(contents) => contents,
        Err(error) => return problems.push(error.to_string()),
    };
    problems.extend(contents.problems.iter().cloned());
    let added = with_savepoint(connection, || {
        let (csv, objects) = crate::add::columns(&contents);
        insert(connection, "", &contents, (csv.as_bytes(), objects.as_bytes()), true)
    });
    problems.extend(added.err().map(|error| error.to_string()));
}

/// Creates a package from a document that names one.
fn load_package(connection: &Connection, document: Raw<'_>, problems: &mut Vec<String>) {
    let text = |value: Raw<'_>, name: &str| value.get_str(name).into_owned();
    let package = text(document, "packageName");
    if package.is_empty() {
        return;
    }
    let mut heads = BTreeMap::new();
    for channel in
        document.get("channels").filter(|list| list.kind() == JsonKind::Array).into_iter().flat_map(Raw::items)
    {
        heads.insert(text(channel, "name"), text(channel, "currentCSV"));
    }
    let mut default_channel = text(document, "defaultChannel");
    if let (true, Some(only)) = (default_channel.is_empty() && heads.len() == 1, heads.keys().next()) {
        default_channel.clone_from(only);
    }
    let graph = NewChannels { package: &package, default_channel: &default_channel, heads };
    let rebuilt = with_savepoint(connection, || rebuild(connection, &graph));
    problems.extend(rebuilt.err().map(|error| format!("error adding package {package}: {error}")));
}

/// Returns group, version, kind and plural of each version of a CRD.
fn keys_of(crd: Raw<'_>) -> Vec<[String; 4]> {
    let Some(spec) = crd.get("spec") else { return Vec::new() };
    let text = |value: Option<Raw<'_>>| value.and_then(Raw::as_str).unwrap_or_default().into_owned();
    let names = spec.get("names");
    let name = |field: &str| text(names.and_then(|names| names.get(field)));
    let mut versions: BTreeSet<String> = spec.get_items("versions").map(|version| text(version.get("name"))).collect();
    versions.insert(text(spec.get("version")));
    versions.retain(|version| !version.is_empty());
    let key = |version| [text(spec.get("group")), version, name("kind"), name("plural")];
    versions.into_iter().map(key).collect()
}
