//! Packages of an index as directories of manifests.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::OperationError;
use crate::fetch::Fetch;
use crate::inspect::PackageInfo;
use crate::open::Database;

impl Database {
    /// Returns the packages of these names, or all without names.
    ///
    /// # Errors
    /// Fails when a package does not exist, or the database cannot be read.
    pub fn select_packages(&self, names: &[String]) -> Result<Vec<PackageInfo>, OperationError> {
        let mut packages = self.packages()?;
        if let Some(unknown) = names.iter().find(|name| !packages.iter().any(|package| package.name == **name)) {
            return Err(OperationError::UnknownPackage(unknown.clone()));
        }
        packages.retain(|package| names.is_empty() || names.contains(&package.name));
        Ok(packages)
    }

    /// Writes packages below `root`: a directory for each, with the manifests of each version and a `package.yaml`
    /// that lists its channels.
    ///
    /// # Errors
    /// Fails when an image cannot be fetched, a name is not that of a directory, or a file cannot be written.
    pub fn export(&self, packages: &[PackageInfo], images: &dyn Fetch, root: &Path) -> Result<(), OperationError> {
        packages.iter().try_for_each(|package| write_package(self, package, images, root))
    }
}

fn write_package(
    database: &Database,
    package: &PackageInfo,
    images: &dyn Fetch,
    root: &Path,
) -> Result<(), OperationError> {
    let directory = root.join(element(&package.name)?);
    fs::create_dir_all(&directory).map_err(OperationError::file(&directory))?;
    let mut bundles: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for bundle in package.channels.iter().flat_map(|channel| &channel.bundles) {
        bundles.insert(&bundle.name, (&bundle.version, &bundle.image));
    }
    let wanted: Vec<&str> = bundles.values().map(|(_, image)| *image).filter(|image| !image.is_empty()).collect();
    let mut failures = Vec::new();
    let mut unpacked: BTreeMap<&str, PathBuf> = BTreeMap::new();
    for (image, outcome) in wanted.iter().zip(images.unpack(&wanted)) {
        match outcome {
            Ok(directory) => drop(unpacked.insert(image, directory)),
            Err(error) => failures.push(((*image).to_owned(), error)),
        }
    }
    if !failures.is_empty() {
        return Err(OperationError::Export(failures));
    }
    for (name, (version, image)) in bundles {
        let target = directory.join(element(if version.is_empty() { name } else { version })?);
        fs::create_dir_all(&target).map_err(OperationError::file(&target))?;
        match unpacked.get(image) {
            Some(bundle) => copy_files(&bundle.join("manifests"), &target).map_err(OperationError::file(&target))?,
            None => {
                for (i, object) in database.objects(name)?.iter().enumerate() {
                    let file = target.join(format!("{i:04}.json"));
                    fs::write(&file, object).map_err(OperationError::file(&file))?;
                }
            }
        }
    }
    let file = directory.join("package.yaml");
    fs::write(&file, package_yaml(package)).map_err(OperationError::file(&file))
}

/// Rejects names that cannot be those of directories.
fn element(name: &str) -> Result<&str, OperationError> {
    match fbc::is_file_name(name) {
        true => Ok(name),
        false => Err(OperationError::DirectoryName(name.to_owned())),
    }
}

/// Copies the files of a directory, without hidden ones, links and subdirectories.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && !entry.file_name().as_encoded_bytes().starts_with(b".") {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn package_yaml(package: &PackageInfo) -> String {
    let mut out = format!("packageName: {}\n", scalar(&package.name));
    out.push_str(if package.channels.is_empty() { "channels: []\n" } else { "channels:\n" });
    for channel in &package.channels {
        out.push_str(&format!("    - name: {}\n      currentCSV: {}\n", scalar(&channel.name), scalar(&channel.head)));
    }
    out.push_str(&format!("defaultChannel: {}\n", scalar(&package.default_channel)));
    out
}

/// Encodes text as YAML: plain if it is unambiguous, or else quoted.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain);
    let reserved = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    if word && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}
