//! Stores a bundle in a ConfigMap and reads it back.
//!
//! OLM unpacks bundle images with this command, so the format is the one that OLM expects.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fbc::Limits;
use fbc::base64;
use fbc::fault::{Class, Fault};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use kube::api::{DynamicObject, PostParams};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::has_code;
use crate::request::{ObjectName, Requests};
use crate::views::{ConfigMap, Identity, View};
use crate::watcher::NoReports;
use crate::{Cluster, Error, ResourceKind};

/// The file whose content becomes annotations.
const ANNOTATIONS_FILE: &str = "annotations.yaml";
/// The keys in that file, after [`PREFIX`].
const ANNOTATIONS: [&str; 6] =
    ["mediatype.v1", "manifests.v1", "metadata.v1", "package.v1", "channels.v1", "channel.default.v1"];
const PREFIX: &str = "operators.operatorframework.io.bundle.";
const SOURCE_IMAGE: &str = "olm.sourceImage";
const ENCODING: &str = "olm.contentEncoding";
const GZIP: &str = "gzip+base64";
/// Maximum size of the decompressed values of a ConfigMap, in bytes.
const UNPACKED_BYTES: u64 = 256 << 20;
/// The timeout for reading or writing.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of retries after a write conflict.
const CONFLICT_RETRIES: usize = 5;

/// How a bundle is written to a ConfigMap.
#[derive(Debug, Clone)]
pub struct BundleMapPlan<'a> {
    /// The bundle directory, with `manifests` and `metadata`.
    pub root: &'a Path,
    /// The ConfigMap, which must exist.
    pub name: &'a str,
    /// Whether to compress files.
    pub gzip: bool,
    /// Maximum total size of the values in bytes.
    pub limit: usize,
    /// The image of the bundle.
    pub source_image: Option<&'a str>,
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenBundle {
    /// The keys, sorted.
    pub keys: Vec<String>,
    /// Total size of the values in bytes.
    pub size: usize,
    /// Files dropped because another file has the same key.
    pub lost: Vec<PathBuf>,
}

/// Why files or values are no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleMapError {
    /// A link would publish a file from elsewhere.
    #[error("the link leads out of the bundle")]
    Outside,
    /// ConfigMaps hold text.
    #[error("not UTF-8 text, which only --gzip can store")]
    NotText,
    /// The annotations file is not YAML.
    #[error(transparent)]
    Yaml(#[from] fbc::stream::StreamError),
    /// The annotations file is not JSON after its conversion.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// An annotation has another type.
    #[error("annotation {0} is not a string")]
    Annotation(String),
    /// A value is not what the encoding of the ConfigMap says.
    #[error("{key}: {source}")]
    Value {
        /// Its key.
        key: String,
        /// The cause.
        source: DecompressError,
    },
}

impl Fault for BundleMapError {
    fn class(&self) -> Class {
        Class::Refused
    }
}

/// Why a compressed value cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// It lacks the encoding of the API.
    #[error("not base64")]
    Outer,
    /// It lacks the encoding of the bundle.
    #[error("not base64 inside")]
    Inner,
    /// It is not compressed.
    #[error("not gzip: {0}")]
    Gzip(std::io::Error),
    /// All values together exceed the limit.
    #[error("larger than {UNPACKED_BYTES} bytes in all")]
    TooLarge,
}

/// A bundle that was read from a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredBundle {
    pub annotations: BTreeMap<String, String>,
    /// The files, by key.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The files of a bundle in their stored form.
#[derive(Debug, Default)]
struct Files {
    annotations: Option<BTreeMap<String, String>>,
    /// The stored value and the file it comes from.
    values: BTreeMap<String, (PathBuf, Vec<u8>)>,
    lost: Vec<PathBuf>,
}

/// Writes a bundle to a ConfigMap, replacing its content; labels are kept.
///
/// # Errors
/// Fails if the ConfigMap does not exist, a file cannot be read or is outside the bundle, or the values exceed the
/// limit. The ConfigMap is unchanged then.
pub async fn write_bundle(
    cluster: &Cluster,
    plan: &BundleMapPlan<'_>,
    limits: &Limits,
) -> Result<WrittenBundle, Error> {
    let maps = cluster.objects(ResourceKind::CONFIG_MAP);
    let what = || format!("ConfigMap {}/{}", cluster.namespace, plan.name);
    // Check the cluster before the files, as users of the Go tool expect.
    let requests = Requests::within(cluster, &NoReports, TIMEOUT);
    let mut map = requests.retry(&what(), |_| maps.get(plan.name)).await?;
    let files = Files::read(plan, limits)?;
    let size = files.size();
    if size > plan.limit {
        return Err(Error::Failed(format!("bundle files exceeded {} bytes limit", plan.limit)));
    }
    let (mut tries, how) = (0, PostParams::default());
    loop {
        files.fill(&mut map, plan);
        match requests.retry(&what(), |_| maps.replace(plan.name, &how, &map)).await {
            Ok(_) => break,
            Err(Error::Api { source, .. }) if has_code(&source, 409) && tries < CONFLICT_RETRIES => {
                tries += 1;
                map = requests.retry(&what(), |_| maps.get(plan.name)).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(WrittenBundle { keys: files.values.keys().cloned().collect(), size, lost: files.lost })
}

impl Files {
    fn read(plan: &BundleMapPlan<'_>, limits: &Limits) -> Result<Files, Error> {
        let root = plan.root.canonicalize().map_err(Error::file(plan.root))?;
        let mut files = Files::default();
        for name in ["manifests", "metadata"] {
            let directory = root.join(name);
            let shown = plan.root.join(name);
            let entries = fs::read_dir(&directory).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
            let mut entries = entries.map_err(Error::file(&shown))?;
            if entries.len() > limits.files {
                return Err(Error::Failed(format!("{} holds more than {} files", shown.display(), limits.files)));
            }
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let shown = shown.join(entry.file_name());
                let path = entry.path().canonicalize().map_err(Error::file(&shown))?;
                // The bundle is untrusted: it must not make opm publish other files of this machine.
                if !["manifests", "metadata"].iter().any(|name| path.starts_with(root.join(name))) {
                    return Err(Error::bundle(&shown)(BundleMapError::Outside));
                }
                let text = read_file(&path, limits).map_err(Error::file(&shown))?;
                files.add(&entry.file_name().to_string_lossy(), shown, text, plan, limits)?;
            }
        }
        Ok(files)
    }

    fn add(
        &mut self,
        name: &str,
        shown: PathBuf,
        text: Vec<u8>,
        plan: &BundleMapPlan<'_>,
        limits: &Limits,
    ) -> Result<(), Error> {
        if name == ANNOTATIONS_FILE {
            self.annotations = Some(annotations(&text, limits).map_err(Error::bundle(&shown))?);
            return Ok(());
        }
        let value = if plan.gzip {
            base64(&gzip(&text).map_err(Error::file(&shown))?)
        } else if std::str::from_utf8(&text).is_ok() {
            text
        } else {
            return Err(Error::bundle(&shown)(BundleMapError::NotText));
        };
        if let Some((earlier, _)) = self.values.insert(key(name), (shown, value)) {
            self.lost.push(earlier);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.values.values().map(|(_, value)| value.len()).sum()
    }

    fn fill(&self, map: &mut DynamicObject, plan: &BundleMapPlan<'_>) {
        let (mut data, mut binary) = (Map::new(), Map::new());
        for (key, (_, value)) in &self.values {
            if plan.gzip {
                binary.insert(key.clone(), String::from_utf8_lossy(&base64(value)).into());
            } else {
                data.insert(key.clone(), String::from_utf8_lossy(value).into());
            }
        }
        for (field, values) in [("data", data), ("binaryData", binary)] {
            if let Some(content) = map.data.as_object_mut() {
                content.remove(field);
                if !values.is_empty() {
                    content.insert(field.to_owned(), Value::Object(values));
                }
            }
        }
        if let Some(found) = &self.annotations {
            map.metadata.annotations = Some(found.clone());
        }
        let annotations = map.metadata.annotations.get_or_insert_default();
        if let Some(image) = plan.source_image.filter(|image| !image.is_empty()) {
            annotations.insert(SOURCE_IMAGE.into(), image.into());
        }
        match plan.gzip {
            true => drop(annotations.insert(ENCODING.into(), GZIP.into())),
            // A leftover encoding annotation would make readers decompress uncompressed values.
            false => drop(annotations.remove(ENCODING)),
        }
    }
}

/// Reads a bundle from a ConfigMap.
///
/// # Errors
/// Fails if a value cannot be decompressed or is too large.
pub async fn read_bundle(cluster: &Cluster, name: &str) -> Result<StoredBundle, Error> {
    let what = format!("ConfigMap {}/{name}", cluster.namespace);
    let maps = cluster.objects(ResourceKind::CONFIG_MAP);
    StoredBundle::of_map(&Requests::within(cluster, &NoReports, TIMEOUT).retry(&what, |_| maps.get(name)).await?)
}

impl StoredBundle {
    /// Returns whether a ConfigMap is marked as a bundle.
    pub fn is_in(map: &DynamicObject) -> bool {
        let annotations = map.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.contains_key(ENCODING) || all.keys().any(|key| key.starts_with(PREFIX)))
    }

    /// Reads the bundle in a ConfigMap.
    ///
    /// # Errors
    /// Fails with the key if a value is not text or cannot be decompressed.
    pub fn of_map(map: &DynamicObject) -> Result<StoredBundle, Error> {
        let ConfigMap { metadata, data, binary_data, .. } = ConfigMap::of(map)?;
        let what = ObjectName::named(ResourceKind::CONFIG_MAP, &metadata).to_string();
        let annotations = metadata.annotations.unwrap_or_default();
        let packed = annotations.get(ENCODING).is_some_and(|encoding| encoding == GZIP);
        let mut files = BTreeMap::new();
        let mut left = UNPACKED_BYTES;
        for (key, text) in if packed { binary_data } else { data } {
            let content = match packed {
                true => unpack(&text, left).map_err(|source| Error::Bundle {
                    what: what.clone(),
                    source: BundleMapError::Value { key: key.clone(), source },
                })?,
                false => text.into_bytes(),
            };
            left = left.saturating_sub(content.len() as u64);
            files.insert(key, content);
        }
        Ok(StoredBundle { annotations, files })
    }

    /// Returns the image of the bundle, if known.
    pub fn source_image(&self) -> Option<&str> {
        self.annotations.get(SOURCE_IMAGE).map(String::as_str)
    }

    /// Returns the Kubernetes objects by key, as JSON; other values are skipped.
    pub fn objects(&self, limits: &Limits) -> Vec<(&str, Value)> {
        let object = |text: &[u8]| {
            let (_, json) = fbc::stream::first(text, limits).ok()??;
            let object: Value = serde_json::from_str(&json).ok()?;
            let Identity { api_version, kind, .. } = Identity::deserialize(&object).ok()?;
            (!api_version.is_empty() && !kind.is_empty()).then_some(object)
        };
        self.files.iter().filter_map(|(key, text)| Some((key.as_str(), object(text)?))).collect()
    }

    /// Returns the CSV; of several, the one with the last key.
    pub fn csv(&self, limits: &Limits) -> Option<Value> {
        let objects = self.objects(limits).into_iter().map(|(_, object)| object);
        objects.rev().find(|object| Identity::deserialize(object).is_ok_and(|it| it.kind == ResourceKind::CSV.kind))
    }

    /// Writes the bundle to a directory, which must not exist, in the usual bundle layout.
    ///
    /// # Errors
    /// Fails if a file cannot be written or a key is not a valid file name.
    pub fn write_to(&self, directory: &Path, limits: &Limits) -> Result<(), Error> {
        let (manifests, metadata) = (directory.join("manifests"), directory.join("metadata"));
        for path in [directory, &manifests, &metadata] {
            fs::create_dir(path).map_err(Error::file(path))?;
        }
        let objects: Vec<&str> = self.objects(limits).into_iter().map(|(key, _)| key).collect();
        for (key, text) in &self.files {
            if key.is_empty() || key.contains('/') || key == "." || key == ".." {
                return Err(Error::Failed(format!("key {key:?} is not a valid file name")));
            }
            let parent = if objects.contains(&key.as_str()) { &manifests } else { &metadata };
            let path = parent.join(key);
            fs::write(&path, text).map_err(Error::file(&path))?;
        }
        let pairs = self.annotations.iter().filter(|(key, value)| key.starts_with(PREFIX) && !value.is_empty());
        // JSON is valid YAML and can represent any value.
        let lines: String = pairs.map(|(key, value)| format!("  {key}: {}\n", Value::from(value.as_str()))).collect();
        let path = metadata.join(ANNOTATIONS_FILE);
        let text = if lines.is_empty() { "annotations: {}\n".to_owned() } else { format!("annotations:\n{lines}") };
        fs::write(&path, text).map_err(Error::file(&path))
    }
}

/// Reads the known annotations of the annotations file; missing ones are empty.
fn annotations(text: &[u8], limits: &Limits) -> Result<BTreeMap<String, String>, BundleMapError> {
    let json = fbc::stream::first(text, limits)?;
    let file: Value = match json {
        Some((_, json)) => serde_json::from_str(&json)?,
        None => Value::Null,
    };
    let given = file.get("annotations").unwrap_or(&Value::Null);
    let value = |key: &str| match given.get(key).unwrap_or(&Value::Null) {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Ok(String::new()),
        scalar @ (Value::Bool(_) | Value::Number(_)) => Ok(scalar.to_string()),
        _ => Err(BundleMapError::Annotation(key.to_owned())),
    };
    let pair = |name: &str| {
        let key = format!("{PREFIX}{name}");
        Ok((key.clone(), value(&key)?))
    };
    ANNOTATIONS.iter().map(|name| pair(name)).collect()
}

/// Converts a file name to a key.
fn key(name: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().map(|c| if kept(c) { c } else { '-' }).collect()
}

fn read_file(path: &Path, limits: &Limits) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a file"));
    }
    let mut text = Vec::new();
    file.take(limits.file_size.saturating_add(1)).read_to_end(&mut text)?;
    if text.len() as u64 > limits.file_size {
        return Err(std::io::Error::other(format!("larger than the limit of {} bytes", limits.file_size)));
    }
    Ok(text)
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    base64::encode(bytes, &mut text);
    text
}

fn gzip(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text)?;
    encoder.finish()
}

/// Decodes the base64 of the API, then the base64 and gzip of the bundle.
fn unpack(value: &str, limit: u64) -> Result<Vec<u8>, DecompressError> {
    let inner = base64::decode(value).map_err(|_| DecompressError::Outer)?;
    let inner = std::str::from_utf8(&inner).map_err(|_| DecompressError::Inner)?;
    let packed = base64::decode(inner).map_err(|_| DecompressError::Inner)?;
    let mut text = Vec::new();
    let decoder = MultiGzDecoder::new(packed.as_slice());
    decoder.take(limit + 1).read_to_end(&mut text).map_err(DecompressError::Gzip)?;
    if text.len() as u64 > limit { Err(DecompressError::TooLarge) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_are_not_text_are_not_read_as_empty_files() {
        let map = |fields: Value| {
            let mut map =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
            map.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            StoredBundle::of_map(&serde_json::from_value(map).unwrap())
        };
        insta::assert_snapshot!(
            map(json!({"data": {"a.yaml": 3}})).unwrap_err(),
            @"ConfigMap ns/a: the field data.a.yaml cannot be read: invalid type: integer `3`, expected a string"
        );
        assert!(map(json!({"data": ["a"]})).is_err());
        assert_eq!(map(json!({"data": null})).unwrap().files, BTreeMap::new());
        assert_eq!(
            map(json!({"data": {"a.yaml": ""}})).unwrap().files,
            BTreeMap::from([("a.yaml".into(), Vec::new())])
        );
    }
}
