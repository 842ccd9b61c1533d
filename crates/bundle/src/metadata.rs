//! Reads `metadata/`: the package of a bundle, its dependencies and its properties.

use std::path::Path;

use fbc::Limits;
use fbc::json::{JsonKind, Raw, Text};

use crate::document::{self, DocumentBody, DocumentError};
use crate::error::Error;
use crate::file::{self, ReadOutcome, Unreadable};
use crate::properties::{BundleProperty, ListedProperties};

/// The annotation with the package.
pub(crate) const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
pub(crate) const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
pub(crate) const DEFAULT_CHANNEL: &str = "operators.operatorframework.io.bundle.channel.default.v1";

/// The content of the files in `metadata/`; the first file that defines an item wins.
pub(crate) struct Metadata {
    pub(crate) package: String,
    /// The channels, split at commas without further trimming.
    pub(crate) channels: Vec<String>,
    /// The default channel; empty if none is set.
    pub(crate) default_channel: String,
    /// The file that defines the package or its channels.
    pub(crate) annotations_file: String,
    pub(crate) dependencies: ListedProperties,
    pub(crate) properties: ListedProperties,
}

impl Metadata {
    /// Reads the files in `dir`, regardless of their names.
    ///
    /// Unreadable files are skipped with a warning.
    pub(crate) fn read(dir: &Path, limits: &Limits, warnings: &mut Vec<String>) -> Result<Metadata, Error> {
        let skipped = warnings.len();
        let mut annotations = None;
        let (mut dependencies, mut properties) = (ListedProperties::default(), ListedProperties::default());
        let mut bytes = Vec::new();
        for name in file::names(dir, limits)? {
            let shown = format!("metadata/{}", name.display());
            let document = match file::read(&dir.join(&name), limits, &mut bytes)? {
                ReadOutcome::Directory => continue,
                ReadOutcome::Unreadable(reason) => Err(reason.into()),
                ReadOutcome::Read => MetadataFile::read(&bytes, limits),
            };
            let document = match document {
                Ok(document) => document,
                Err(reason) => {
                    warnings.push(format!("{shown} is left out: {reason}"));
                    continue;
                }
            };
            if document.more {
                warnings.push(format!("found more than one document inside {shown}, using only the first one"));
            }
            let mut warn = |reason: Invalid| warnings.push(format!("{shown}: {reason}"));
            if annotations.is_none() {
                match document.annotations() {
                    Ok(found) => annotations = found.map(|found| (found, shown.clone())),
                    Err(reason) => warn(reason),
                }
            }
            for (field, list) in [("dependencies", &mut dependencies), ("properties", &mut properties)] {
                if list.properties.is_empty() {
                    match document.properties(field) {
                        Ok(properties) => *list = ListedProperties { file: shown.clone(), properties },
                        Err(reason) => warn(reason),
                    }
                }
            }
        }
        let ([package, channels, default_channel], annotations_file) =
            annotations.ok_or_else(|| Error::NoAnnotations { skipped: warnings[skipped..].to_vec() })?;
        let channels = channels.split(',').filter(|channel| !channel.is_empty()).map(str::to_owned).collect();
        Ok(Metadata { package, channels, default_channel, annotations_file, dependencies, properties })
    }
}

/// Why a file, or a part of it, is ignored.
#[derive(Debug, thiserror::Error)]
enum Invalid {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("expected an object, found {0}")]
    NotObject(JsonKind),
    #[error("annotations must be an object, found {0}")]
    Annotations(JsonKind),
    #[error("annotation {0} must be a string")]
    Annotation(&'static str),
    #[error("{field} must be a list, found {found}")]
    NotList { field: &'static str, found: JsonKind },
    #[error("{field}[{index}] must be an object, found {found}")]
    NotItem { field: &'static str, index: usize, found: JsonKind },
    #[error("{field}[{index}].type must be a string")]
    ItemType { field: &'static str, index: usize },
}

/// A file as JSON.
struct MetadataFile {
    json: Text,
    /// Whether numbers and booleans are accepted as strings, as in YAML.
    lenient: bool,
    more: bool,
}

impl MetadataFile {
    fn read(text: &[u8], limits: &Limits) -> Result<MetadataFile, Invalid> {
        let first = document::first(text, limits)?;
        let (json, lenient) = match first.body {
            // Values keep their source form.
            DocumentBody::Json(value) => (value.into(), false),
            DocumentBody::Replaced(text) => (text, false),
            DocumentBody::Yaml { .. } => (first.body.to_json(limits)?, true),
        };
        let document = MetadataFile { json, lenient, more: first.more };
        match document.root().kind() {
            JsonKind::Object | JsonKind::Null => Ok(document),
            kind => Err(Invalid::NotObject(kind)),
        }
    }

    fn root(&self) -> Raw<'_> {
        self.json.raw()
    }

    /// Returns package, channels and default channel, if at least one of these annotations exists.
    fn annotations(&self) -> Result<Option<[String; 3]>, Invalid> {
        let Some(annotations) = self.root().get("annotations").filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        if annotations.kind() != JsonKind::Object {
            return Err(Invalid::Annotations(annotations.kind()));
        }
        let text = |key| self.text(annotations.get(key)).ok_or(Invalid::Annotation(key));
        let found = [text(PACKAGE)?, text(CHANNELS)?, text(DEFAULT_CHANNEL)?];
        let any = found.iter().any(|text| !text.is_empty());
        Ok(any.then_some(found))
    }

    /// Returns the list of types and values under `field`.
    fn properties(&self, field: &'static str) -> Result<Vec<BundleProperty>, Invalid> {
        let Some(list) = self.root().get(field).filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
        if list.kind() != JsonKind::Array {
            return Err(Invalid::NotList { field, found: list.kind() });
        }
        let property = |(index, item): (usize, Raw<'_>)| match item.kind() {
            JsonKind::Object | JsonKind::Null => {
                let kind = self.text(item.get("type"));
                let kind = kind.ok_or(Invalid::ItemType { field, index })?;
                Ok(BundleProperty::new(kind, item.get("value")))
            }
            found => Err(Invalid::NotItem { field, index, found }),
        };
        list.items().enumerate().map(property).collect()
    }

    /// Returns a string; empty if absent.
    fn text(&self, value: Option<Raw<'_>>) -> Option<String> {
        let Some(value) = value else { return Some(String::new()) };
        match value.kind() {
            JsonKind::Null => Some(String::new()),
            JsonKind::String => value.as_str().map(|text| text.into_owned()),
            JsonKind::Number | JsonKind::Bool if self.lenient => Some(value.text().to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use testkit::BundleDir;

    use crate::testing::{lines, rendered};

    const PREFIX: &str = "operators.operatorframework.io.bundle";

    fn annotated(annotations: &str) -> BundleDir {
        BundleDir::new().metadata("annotations.yaml", annotations.replace("PREFIX", PREFIX))
    }

    #[test]
    fn the_first_file_with_annotations_is_used_whatever_its_name() {
        let late = r#"{"annotations": {"PREFIX.package.v1": "late"}, "properties": [{"type": "late"}]}"#;
        let bundle = annotated("annotations: {PREFIX.package.v1: first}\n---\nx: y\n")
            .metadata(".a", "annotations: {other: x}\nproperties: [{type: early, value: 1}]\n")
            .metadata("b.json", late.replace("PREFIX", PREFIX))
            .metadata("a.txt", "text\n")
            .metadata("sub/a.yaml", "annotations: {}\n");
        assert_snapshot!(lines(&bundle, &["first", "early", "late", "warning"]), @r#"
        first foo.v1.2.3
        early 1
        warning: metadata/a.txt is left out: expected an object, found string
        warning: found more than one document inside metadata/annotations.yaml, using only the first one
        "#);
    }

    #[test]
    fn a_file_with_only_channels_is_used_too() {
        let bundle = annotated("annotations: {PREFIX.channels.v1: stable}\n")
            .metadata("b.yaml", format!("annotations: {{{PREFIX}.package.v1: late}}\n"));
        assert_snapshot!(rendered(&bundle), @r#"package name must be set for bundle "foo.v1.2.3" (annotation operators.operatorframework.io.bundle.package.v1 in metadata/annotations.yaml)"#);
    }

    #[test]
    fn yaml_numbers_and_booleans_are_accepted_as_strings() {
        assert_snapshot!(lines(&annotated("annotations: {PREFIX.package.v1: 4.20}\n"), &["4"]), @"4.2 foo.v1.2.3");
        assert_snapshot!(lines(&annotated("annotations: {PREFIX.package.v1: yes}\n"), &["true"]), @"true foo.v1.2.3");
        assert_snapshot!(rendered(&annotated("annotations: {PREFIX.package.v1: [foo]}\n")), @"Could not find annotations file: metadata/annotations.yaml: annotation operators.operatorframework.io.bundle.package.v1 must be a string");
        assert_snapshot!(rendered(&annotated(r#"{"annotations": {"PREFIX.package.v1": 42}}"#)), @"Could not find annotations file: metadata/annotations.yaml: annotation operators.operatorframework.io.bundle.package.v1 must be a string");
    }

    #[test]
    fn annotations_are_required() {
        assert_snapshot!(rendered(&annotated("annotations: {PREFIX.mediatype.v1: registry+v1}\n")), @"Could not find annotations file");
        assert_snapshot!(rendered(&BundleDir::new().without("metadata/annotations.yaml")), @"Could not find annotations file");
    }

    #[test]
    fn lists_of_other_types_are_omitted_with_a_warning() {
        let bundle = BundleDir::new()
            .metadata("a.yaml", "properties: {}\ndependencies: [x]\n")
            .metadata("b.yaml", "properties: [{type: [x], value: 1}]\n");
        assert_snapshot!(lines(&bundle, &["warning"]), @r#"
        warning: metadata/a.yaml: dependencies[0] must be an object, found string
        warning: metadata/a.yaml: properties must be a list, found object
        warning: metadata/b.yaml: properties[0].type must be a string
        "#);
    }
}
