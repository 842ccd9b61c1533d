//! Objects of bundles: manifests as base64, or in a referenced file.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use crate::base64;
use crate::files::{self, FileReferenceError};
use crate::json::{JsonPath, Raw};
use crate::limits::Limits;
use crate::property;
use crate::shape::Mismatch;
use crate::yaml::{self, YamlError};

/// Why the value of an `olm.bundle.object` property is not an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectError {
    #[error("parse property as bundle object: value is missing")]
    Missing,
    #[error("parse property as bundle object: {0}")]
    Shape(#[from] Mismatch),
    #[error("parse property as bundle object: illegal base64 data at input byte {0}")]
    NotBase64(usize),
    #[error("fields 'ref' and 'data' are mutually exclusive (ref {0:?})")]
    Both(String),
    #[error(transparent)]
    Reference(#[from] FileReferenceError),
    #[error("convert bundle object property to JSON: {0}")]
    Yaml(#[from] YamlError),
    #[error("not UTF-8")]
    NotUtf8,
}

/// The base for resolving references from a file.
pub(crate) struct RefBase<'a> {
    /// The root of the catalog, which references must not leave; `None` without a directory.
    pub(crate) root: Option<&'a Path>,
    /// The directory of the file, relative to the root.
    pub(crate) directory: &'a Path,
    /// Limits for reading.
    pub(crate) limits: &'a Limits,
}

/// Checks that the value of an `olm.bundle.object` property is an object that can be served.
pub(crate) fn check(value: Option<Raw<'_>>, refs: &RefBase<'_>) -> Result<(), ObjectError> {
    let parts = Parts::of(value)?;
    if let Some(reference) = &parts.reference {
        let bytes = refs.read(reference)?;
        return to_json(&bytes, refs.limits).map(drop);
    }
    let data = parts.data.unwrap_or_default();
    base64::check(&data).map_err(ObjectError::NotBase64)?;
    // A value that starts like JSON is used unchanged, so its beginning is sufficient.
    let beginning = data.get(..data.len().min(64) / 4 * 4).unwrap_or_default();
    match base64::decode(beginning).ok().and_then(|bytes| bytes.trim_ascii_start().first().copied()) {
        Some(b'{') => Ok(()),
        _ => to_json(&base64::decode(&data).map_err(ObjectError::NotBase64)?, refs.limits).map(drop),
    }
}

/// Returns the JSON text of each object of a bundle, in order; unreadable ones are omitted.
pub(crate) fn objects<'a>(bundle: Raw<'a>, refs: &'a RefBase<'a>) -> impl Iterator<Item = String> + 'a {
    property::of(bundle).filter(|(kind, _)| kind == property::BUNDLE_OBJECT).filter_map(|(_, value)| {
        let bytes = contents(Parts::of(value).ok()?, refs).ok()?;
        to_json(&bytes, refs.limits).ok().map(Cow::into_owned)
    })
}

/// Returns the files that a bundle refers to, as written, even if it is otherwise invalid.
pub(crate) fn references(bundle: Raw<'_>) -> Vec<Box<str>> {
    let objects = property::of(bundle).filter(|(kind, _)| kind == property::BUNDLE_OBJECT);
    let named = objects.filter_map(|(_, value)| value?.get("ref")?.as_str());
    named.filter(|name| !name.is_empty()).map(Into::into).collect()
}

/// Returns the JSON text of a bundle's CSV: the first object of that kind.
pub(crate) fn csv(bundle: Raw<'_>, refs: &RefBase<'_>) -> Option<String> {
    objects(bundle, refs).find(|object| {
        let kind = Raw::parse(object, refs.limits.depth).ok().and_then(|object| object.get("kind")?.as_str());
        kind.is_some_and(|kind| kind == crate::csv::KIND)
    })
}

/// Returns the base64 text of a referenced object; `None` if the object is embedded.
pub(crate) fn inlined(value: Raw<'_>, refs: &RefBase<'_>) -> Result<Option<Vec<u8>>, ObjectError> {
    match Parts::of(Some(value))?.reference {
        None => Ok(None),
        Some(reference) => {
            let mut out = Vec::new();
            base64::encode(&refs.read(&reference)?, &mut out);
            Ok(Some(out))
        }
    }
}

fn contents(parts: Parts<'_>, refs: &RefBase<'_>) -> Result<Vec<u8>, ObjectError> {
    match parts.reference {
        Some(reference) => Ok(refs.read(&reference)?),
        None => base64::decode(&parts.data.unwrap_or_default()).map_err(ObjectError::NotBase64),
    }
}

/// The two forms of an object.
struct Parts<'a> {
    data: Option<Cow<'a, str>>,
    reference: Option<Cow<'a, str>>,
}

impl<'a> Parts<'a> {
    fn of(value: Option<Raw<'a>>) -> Result<Parts<'a>, ObjectError> {
        let Some(value) = value else { return Err(ObjectError::Missing) };
        property::shape(property::BUNDLE_OBJECT).check(value, &JsonPath::default())?;
        let field = |name| value.get(name).and_then(Raw::as_str);
        let (data, reference) = (field("data"), field("ref").filter(|reference| !reference.is_empty()));
        match (&data, &reference) {
            (Some(data), Some(reference)) if !data.is_empty() => Err(ObjectError::Both(reference.clone().into_owned())),
            _ => Ok(Parts { data, reference }),
        }
    }
}

/// Returns an object as JSON: unchanged if it starts like JSON, otherwise converted from YAML.
fn to_json<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Cow<'a, str>, ObjectError> {
    if bytes.trim_ascii_start().first() == Some(&b'{') {
        return Ok(String::from_utf8_lossy(bytes));
    }
    let mut out = Vec::new();
    yaml::to_json(bytes, &limits.yaml(), &mut out)?;
    String::from_utf8(out).map(Cow::Owned).map_err(|_| ObjectError::NotUtf8)
}

impl RefBase<'_> {
    /// Reads a referenced file, which must be inside the catalog.
    fn read(&self, reference: &str) -> Result<Vec<u8>, FileReferenceError> {
        let root = self.root.ok_or_else(|| FileReferenceError::NoDirectory(reference.to_owned()))?;
        let path = resolve(self.directory, reference)?;
        files::read_inside(root, &path, reference, self.limits.blob_size)
    }
}

/// Resolves a reference from a file in `directory` to a path relative to the root, without accessing the disk.
pub(crate) fn resolve(directory: &Path, reference: &str) -> Result<PathBuf, FileReferenceError> {
    let mut path = directory.to_path_buf();
    for component in Path::new(reference).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            Component::ParentDir => return Err(FileReferenceError::Outside(reference.to_owned())),
            Component::RootDir | Component::Prefix(_) => {
                return Err(FileReferenceError::Absolute(reference.to_owned()));
            }
        }
    }
    Ok(path)
}
