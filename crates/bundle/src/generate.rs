//! Generates the annotations and Dockerfile that turn a directory of manifests into a bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use fbc::json::Text;
use fbc::{Limits, csv};
use serde_json::Value;

use crate::check::{MANIFESTS, MEDIA_TYPE, METADATA, MediaType, read};
use crate::error::{Error, ReadError};
use crate::metadata::{CHANNELS, DEFAULT_CHANNEL, PACKAGE};
use crate::pointer::{list, text};

/// The annotations of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotations {
    /// The content type of the bundle.
    pub media_type: MediaType,
    pub package: String,
    /// The channels, separated by commas.
    pub channels: String,
    /// The default channel; empty to omit it.
    pub default_channel: String,
}

impl Annotations {
    /// Returns the annotations in Dockerfile order.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![
            (MEDIA_TYPE, self.media_type.to_string()),
            (MANIFESTS, "manifests/".to_owned()),
            (METADATA, "metadata/".to_owned()),
            (PACKAGE, self.package.clone()),
            (CHANNELS, self.channels.clone()),
        ];
        if !self.default_channel.is_empty() {
            all.push((DEFAULT_CHANNEL, self.default_channel.clone()));
        }
        all
    }

    /// Renders the annotations file.
    pub fn to_yaml(&self) -> String {
        let sorted: BTreeMap<&str, String> = self.list().into_iter().collect();
        let json = Text::object(|document| {
            document.object("annotations", |annotations| {
                for (key, value) in &sorted {
                    annotations.string(key, value);
                }
            });
        });
        fbc::yaml::document(json.raw())
    }

    /// Renders a Dockerfile that copies the directories `manifests` and `metadata`, given relative to its context.
    pub fn to_dockerfile(&self, base: &str, manifests: &str, metadata: &str) -> String {
        let mut out = format!("FROM {base}\n\n");
        for (key, value) in self.list() {
            out += &format!("LABEL {key}={value}\n");
        }
        if !self.default_channel.is_empty() {
            out.push('\n');
        }
        out += &format!("COPY {manifests} /manifests/\nCOPY {metadata} /metadata/\n");
        out
    }

    /// Returns how the annotations file at `path` differs from these; additional annotations are ignored.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn differences(&self, path: &Path, limits: &Limits) -> Result<Vec<String>, FileError> {
        let found = read(path, limits).map_err(|error| FileError { path: path.to_owned(), source: Box::new(error) })?;
        let mut differences = Vec::new();
        for (key, want) in self.list() {
            match found.get("annotations").and_then(|all| all.get(key)) {
                None => differences.push(format!("Missing field: {key}")),
                Some(have) => {
                    let have = have.as_str().map_or_else(|| have.to_string(), str::to_owned);
                    if have != want {
                        differences
                            .push(format!("Expect field \"{key}\" to have value \"{want}\" instead of \"{have}\""));
                    }
                }
            }
        }
        Ok(differences)
    }
}

/// Why an existing file cannot be compared.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct FileError {
    path: PathBuf,
    source: Box<ReadError>,
}

/// Why the metadata of a bundle cannot be inferred.
#[derive(Debug, thiserror::Error)]
pub enum InferError {
    /// The directory cannot be resolved.
    #[error("{}: {source}", directory.display())]
    Directory { directory: PathBuf, source: io::Error },
    /// The directories around the manifests have another layout.
    #[error(
        "please manually input channels and packageName, error interpreting bundle from directory {}, {fault}",
        directory.display()
    )]
    Layout {
        directory: PathBuf,
        /// How it differs.
        fault: LayoutFault,
    },
    /// No channel contains the bundle.
    #[error("error interpreting channels, please manually input channels instead")]
    NoChannel,
}

/// How directories differ from the package manifest layout.
#[derive(Debug, thiserror::Error)]
pub enum LayoutFault {
    /// The directory has no ClusterServiceVersion.
    #[error("it contains no ClusterServiceVersion")]
    NoCsv,
    /// A directory has several ClusterServiceVersions.
    #[error("more than one ClusterServiceVersion is found in bundle")]
    SeveralCsvs,
    /// The directory has no parent.
    #[error("it has no parent directory")]
    NoParent,
    /// The parent has no package manifest.
    #[error("{} has no package manifest", .0.display())]
    NoPackage(PathBuf),
    /// The parent has several package manifests.
    #[error("there are several package manifests")]
    SeveralPackages,
    /// A directory cannot be listed.
    #[error(transparent)]
    Unreadable(#[from] Box<Error>),
}

/// Bundle metadata inferred from the surrounding directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inferred {
    pub package: String,
    /// The channels that contain the bundle, sorted and separated by commas.
    pub channels: String,
    /// The default channel, or an empty string.
    pub default_channel: String,
}

/// Infers the package and channels of the manifests in `dir`.
///
/// The parent directory is read in the package manifest layout that preceded bundles: a directory per version, and one
/// file with the version that each channel points to.
///
/// # Errors
/// Fails if the layout is different, or if no channel contains the bundle.
pub fn infer(dir: &Path, limits: &Limits) -> Result<Inferred, InferError> {
    let dir =
        crate::file::canonical(dir).map_err(|source| InferError::Directory { directory: dir.to_owned(), source })?;
    let wrong = |fault| InferError::Layout { directory: dir.clone(), fault };
    let csv = csv_of(&dir, limits).map_err(wrong)?.ok_or_else(|| wrong(LayoutFault::NoCsv))?;
    let above = dir.parent().ok_or_else(|| wrong(LayoutFault::NoParent))?;
    let entries = |path: &Path| -> Result<Vec<PathBuf>, LayoutFault> {
        let names = crate::file::names(path, limits).map_err(Box::new)?;
        Ok(names.into_iter().map(|name| path.join(name)).collect())
    };
    let mut csvs: BTreeMap<String, Value> = BTreeMap::new();
    let mut package = None;
    for path in entries(above).map_err(wrong)? {
        if crate::file::is_directory(&path) {
            // Directories without a CSV, such as the metadata of the bundle, are not versions.
            if let Some(csv) = csv_of(&path, limits).map_err(wrong)? {
                csvs.insert(text(&csv, "/metadata/name").to_owned(), csv);
            }
        } else if let Ok(document) = read(&path, limits)
            && !text(&document, "/packageName").is_empty()
            && package.replace(document).is_some()
        {
            return Err(wrong(LayoutFault::SeveralPackages));
        }
    }
    let package = package.ok_or_else(|| wrong(LayoutFault::NoPackage(above.to_owned())))?;
    let wanted = text(&csv, "/metadata/name");
    let mut channels: Vec<&str> = list(&package, "/channels")
        .iter()
        .filter(|channel| leads_to(&csvs, text(channel, "/currentCSV"), wanted))
        .map(|channel| text(channel, "/name"))
        .collect();
    channels.sort_unstable();
    if channels.is_empty() {
        return Err(InferError::NoChannel);
    }
    let default = match (text(&package, "/defaultChannel"), list(&package, "/channels")) {
        ("", [only]) => text(only, "/name"),
        (default, _) => default,
    };
    Ok(Inferred {
        package: text(&package, "/packageName").into(),
        channels: channels.join(","),
        default_channel: default.into(),
    })
}

/// Returns whether the upgrade chain from `head` down contains `wanted`.
fn leads_to(csvs: &BTreeMap<String, Value>, head: &str, wanted: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut pending = vec![head];
    while let Some(name) = pending.pop() {
        if name == wanted {
            return true;
        }
        if let Some(csv) = csvs.get(name).filter(|_| seen.insert(name.to_owned())) {
            pending.extend(list(csv, "/spec/skips").iter().filter_map(Value::as_str));
            pending.push(text(csv, "/spec/replaces"));
        }
    }
    false
}

/// Returns the CSV in a directory.
fn csv_of(dir: &Path, limits: &Limits) -> Result<Option<Value>, LayoutFault> {
    let mut found = None;
    for name in crate::file::names(dir, limits).map_err(Box::new)? {
        let path = dir.join(name);
        if crate::file::is_directory(&path) {
            continue;
        }
        if let Ok(object) = read(&path, limits)
            && text(&object, "/kind") == csv::KIND
            && found.replace(object).is_some()
        {
            return Err(LayoutFault::SeveralCsvs);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn generated_annotations_have_the_expected_form() {
        let annotations = Annotations {
            media_type: MediaType::RegistryV1,
            package: "foo".into(),
            channels: "4.20".into(),
            default_channel: "stable".into(),
        };
        insta::assert_snapshot!(annotations.to_yaml(), @r#"
        annotations:
          operators.operatorframework.io.bundle.channel.default.v1: stable
          operators.operatorframework.io.bundle.channels.v1: "4.20"
          operators.operatorframework.io.bundle.manifests.v1: manifests/
          operators.operatorframework.io.bundle.mediatype.v1: registry+v1
          operators.operatorframework.io.bundle.metadata.v1: metadata/
          operators.operatorframework.io.bundle.package.v1: foo
        "#);
        insta::assert_snapshot!(annotations.to_dockerfile("scratch", "manifests", "../metadata"), @r"
        FROM scratch

        LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
        LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
        LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
        LABEL operators.operatorframework.io.bundle.package.v1=foo
        LABEL operators.operatorframework.io.bundle.channels.v1=4.20
        LABEL operators.operatorframework.io.bundle.channel.default.v1=stable

        COPY manifests /manifests/
        COPY ../metadata /metadata/
        ");
        let plain = Annotations { default_channel: String::new(), media_type: MediaType::Plain, ..annotations };
        insta::assert_snapshot!(plain.to_dockerfile("a:b", "m", "n"), @r"
        FROM a:b

        LABEL operators.operatorframework.io.bundle.mediatype.v1=plain
        LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
        LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
        LABEL operators.operatorframework.io.bundle.package.v1=foo
        LABEL operators.operatorframework.io.bundle.channels.v1=4.20
        COPY m /manifests/
        COPY n /metadata/
        ");
    }

    #[test]
    fn the_directories_around_a_bundle_determine_its_channels() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let write = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        let csv =
            |name: &str, spec: &str| format!("kind: ClusterServiceVersion\nmetadata: {{name: {name}}}\nspec: {spec}\n");
        write("1/csv.yaml", &csv("foo.v1", "{}"));
        write("2/csv.yaml", &csv("foo.v2", "{replaces: foo.v1}"));
        write("3/csv.yaml", &csv("foo.v3", "{replaces: foo.v0, skips: [foo.v2]}"));
        write("metadata/annotations.yaml", "annotations: {}\n");
        let channels =
            "channels: [{name: b, currentCSV: foo.v3}, {name: a, currentCSV: foo.v2}, {name: c, currentCSV: foo.v9}]\n";
        write("package.yaml", &format!("packageName: foo\ndefaultChannel: b\n{channels}"));
        let infer = |dir: &str| infer(&root.join(dir), &Limits::default());
        let inferred =
            |channels: &str| Inferred { package: "foo".into(), channels: channels.into(), default_channel: "b".into() };
        assert_eq!(infer("1").unwrap(), inferred("a,b"));
        assert_eq!(infer("3").unwrap(), inferred("b"));
        write("4/csv.yaml", &csv("foo.v4", "{}"));
        assert!(infer("4").unwrap_err().to_string().contains("please manually input channels instead"));
        write("4/other.yaml", &csv("foo.v4", "{}"));
        assert!(infer("4").unwrap_err().to_string().contains("more than one ClusterServiceVersion"));
        assert!(infer("metadata").unwrap_err().to_string().contains("please manually input channels and packageName"));
    }
}
