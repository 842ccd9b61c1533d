//! The bundles that `opm rehearse` names, and the files of their objects.

use std::fs;
use std::path::Path;

use bundle::LoadedBundle;
use bundle::rehearse::Rehearse;
use fbc::fault::{Class, Fault};
use fbc::scratch::{OutputDirError, TempFolder, check_empty, parent};
use fbc::{Limits, yaml};
use resolve::request::InstallRequest;
use serde_json::Value;

use crate::bundles;
use crate::catalog_bundles::{self, BundleOrCatalog, CatalogBundles, Pair, RehearsedBundle};
use crate::error::{SourceError, at};
use crate::images::Images;

/// What is to be rehearsed.
#[derive(Debug, Clone, Copy)]
pub struct RehearsedSource<'a> {
    /// A bundle or a catalog.
    pub source: &'a str,
    pub bundles: RehearsedBundles<'a>,
    /// The previous bundle, or its version in the catalog.
    pub from: Option<&'a str>,
}

/// Which bundles of the source are to be rehearsed.
#[derive(Debug, Clone, Copy)]
pub enum RehearsedBundles<'a> {
    /// The source itself is the bundle.
    Source,
    /// A bundle of the catalog.
    One(&'a InstallRequest),
    /// Every bundle of the catalog.
    All {
        /// Whether to pull the images of bundles whose objects are not in the catalog.
        pull: bool,
    },
}

/// The opened bundles.
pub enum OpenedRehearsal {
    /// A bundle, and its predecessor.
    Pair(Box<Pair>),
    /// Which OLM installs each bundle of a catalog.
    All(Vec<RehearsedBundle>),
}

/// Why nothing can be rehearsed, or the objects cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum RehearseSourceError {
    /// A bundle has no packages.
    #[error("{0} is a bundle: PACKAGE and --all require a catalog")]
    IsBundle(String),
    /// A catalog has many bundles.
    #[error("{0} is a catalog: give a package or --all")]
    IsCatalog(String),
    /// The bundle has no objects.
    #[error("bundle \"{0}\" has no objects")]
    NoObjects(String),
    #[error(transparent)]
    Output(#[from] OutputDirError),
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Fault for RehearseSourceError {
    fn class(&self) -> Class {
        match self {
            RehearseSourceError::IsBundle(_) | RehearseSourceError::IsCatalog(_) => Class::Usage,
            RehearseSourceError::NoObjects(_) => Class::Refused,
            RehearseSourceError::Output(error) => error.class(),
            RehearseSourceError::Source(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<std::borrow::Cow<'_, str>> {
        match self {
            RehearseSourceError::Source(error) => error.hint(),
            _ => None,
        }
    }
}

/// Reads the bundle to rehearse and its predecessor, or rehearses all bundles of a catalog.
///
/// # Errors
/// Fails if the source has no such bundle, or a bundle cannot be read.
pub fn open_rehearsal(
    what: &RehearsedSource<'_>,
    request: &Rehearse,
    images: &Images,
    limits: &Limits,
) -> Result<OpenedRehearsal, RehearseSourceError> {
    let named = what.source.to_owned();
    let read = |from: &str| bundles::read(from, images, limits);
    match (catalog_bundles::open(what.source, images, limits)?, what.bundles) {
        (BundleOrCatalog::Bundle(new), RehearsedBundles::Source) => {
            let old = what.from.map(read).transpose()?;
            Ok(OpenedRehearsal::Pair(Box::new(Pair { old, new: *new })))
        }
        (BundleOrCatalog::Bundle(_), _) => Err(RehearseSourceError::IsBundle(named)),
        (BundleOrCatalog::Catalog(_), RehearsedBundles::Source) => Err(RehearseSourceError::IsCatalog(named)),
        (BundleOrCatalog::Catalog(catalog), RehearsedBundles::All { pull }) => {
            Ok(OpenedRehearsal::All(catalog.rehearse_all(request, pull)?))
        }
        (BundleOrCatalog::Catalog(catalog), RehearsedBundles::One(wish)) => {
            let pair = pair(&catalog, wish, what.from, read)?;
            Ok(OpenedRehearsal::Pair(Box::new(pair)))
        }
    }
}

fn pair(
    catalog: &CatalogBundles<'_>,
    wish: &InstallRequest,
    from: Option<&str>,
    read: impl Fn(&str) -> Result<LoadedBundle, SourceError>,
) -> Result<Pair, RehearseSourceError> {
    let package = catalog.package(&wish.package)?;
    let bundle = |name: &str| {
        let found = catalog.read(package, name, true)?;
        found.ok_or_else(|| RehearseSourceError::NoObjects(name.to_owned()))
    };
    let new = bundle(catalog.choose(package, wish.channel.as_deref(), wish.version.as_deref())?)?;
    let old = match from {
        None => None,
        Some(version) => Some(match catalog.choose(package, None, Some(version)) {
            Ok(name) => bundle(name)?,
            // A value that is not a version of the package can be a bundle directory or image.
            Err(unknown) if !Path::new(version).is_dir() && !version.contains('/') => return Err(unknown.into()),
            Err(_) => read(version)?,
        }),
    };
    Ok(Pair { old, new })
}

/// Writes each object to a file whose name starts with its position in the order of application. The directory appears
/// only when it is complete.
///
/// # Errors
/// Fails if the directory has files, or a file cannot be written.
pub fn write_objects(objects: &[Value], target: &Path) -> Result<(), RehearseSourceError> {
    check_empty(target)?;
    let parent = parent(target);
    fs::create_dir_all(parent).map_err(at(parent))?;
    let aside = TempFolder::inside(parent, ".opm-rehearse-").map_err(at(parent))?;
    for (place, object) in objects.iter().enumerate() {
        let path = aside.path().join(file_name(place, object));
        fs::write(&path, yaml::object(object)).map_err(at(&path))?;
    }
    // The rename replaces an empty directory.
    Ok(aside.finish(target).map_err(at(target))?)
}

fn file_name(place: usize, object: &Value) -> String {
    let field = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let name = match field("/metadata/name") {
        "" => field("/metadata/generateName"),
        name => name,
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let name: String = format!("{}-{name}", field("/kind")).chars().map(plain).take(150).collect();
    format!("{:03}-{}.yaml", place + 1, name.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_written_in_order_and_replace_nothing() {
        let target = tempfile::tempdir().unwrap();
        let out = target.path().join("a/out");
        let role = json!({"kind": "Role", "metadata": {"generateName": "x:y-"}});
        write_objects(&[json!({"kind": "Namespace", "metadata": {"name": "ns"}}), role], &out).unwrap();
        let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["001-namespace-ns.yaml", "002-role-x-y.yaml"]);
        let again = write_objects(&[], &out).expect_err("the directory has files").to_string();
        assert!(again.starts_with("output dir \"") && again.ends_with("\" must be empty"), "{again}");
    }
}
