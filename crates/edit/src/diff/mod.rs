//! Selects what is new in a catalog: the part that another catalog or a mirror does not have yet.
//!
//! [`diff`] selects channel entries of the new catalog, by comparison or as an [`Include`] specifies, and adds their
//! dependencies. The resulting [`EntrySelection`] can be turned into a catalog. [`changes`] reports differences for users.

pub mod changes;
mod dependencies;
mod facts;
mod include;
mod path;
#[cfg(test)]
mod sample;
mod selection;

use std::collections::HashMap;
use std::io;

use catalog::{Catalog, Package};
use fbc::Fbc;
use fbc::quote::quote;
use rayon::prelude::*;

pub use include::{Include, IncludeError, IncludedBundles, IncludedChannel, IncludedPackage};
pub use selection::EntrySelection;

/// A catalog as source blobs and as a validated model.
#[derive(Clone, Copy)]
pub struct DiffSide<'f, 'c> {
    /// The blobs, with their text.
    pub fbc: &'f Fbc,
    /// The validated model.
    pub catalog: &'c Catalog,
}

/// The options of a diff.
#[derive(Debug, Default)]
pub struct DiffOptions {
    /// Select only the heads of channels instead of everything new.
    pub heads_only: bool,
    /// Select these bundles.
    pub include: Option<Include>,
    /// Select included bundles in addition to everything else, not instead of it.
    pub include_additive: bool,
    /// Do not add dependencies.
    pub skip_dependencies: bool,
}

/// The reason why a diff fails.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// Included items are missing; one message per item.
    #[error("error including items: [{}]", .0.join(", "))]
    Include(Vec<String>),
    /// A dependency has no upgrade path to the head of its channel.
    #[error("channel {channel}: head {} not reachable from bundle {}", quote(head), quote(bundle))]
    NotReachable {
        channel: String,
        head: String,
        /// The dependency.
        bundle: String,
    },
    /// The version range of a required package is invalid.
    #[error("bundle {}: property olm.package.required: invalid range {}: {reason}", quote(bundle), quote(range))]
    Range {
        bundle: String,
        /// The invalid range.
        range: String,
        /// The parse error.
        reason: String,
    },
    /// A text can no longer be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The packages of a catalog by name.
type ByName<'a> = HashMap<&'a str, &'a Package>;

fn by_name<'a>(old: Option<DiffSide<'_, 'a>>) -> ByName<'a> {
    let packages = old.map(|old| old.catalog.packages()).unwrap_or_default();
    packages.iter().map(|package| (package.name(), package)).collect()
}

/// Selects the part of `new` that is not in `old`, or as specified by `options`.
///
/// `old` has a channel entry if the same channel contains the same bundle, regardless of upgrade edges.
///
/// # Errors
/// Fails if an included item does not exist, if a dependency has no upgrade path to the head of its channel, or if
/// files have changed since they were read.
pub fn diff<'a>(
    old: Option<DiffSide<'_, '_>>,
    new: DiffSide<'_, 'a>,
    options: &DiffOptions,
) -> Result<EntrySelection<'a>, DiffError> {
    let mut selection = EntrySelection::new(new.catalog);
    match &options.include {
        Some(include) => {
            let heads_only = options.heads_only && !options.include_additive;
            include.apply(heads_only, &mut selection).map_err(DiffError::Include)?;
            match (options.include_additive, options.heads_only) {
                (true, true) => add_heads(&mut selection),
                (true, false) => add_packages(&mut selection),
                (false, _) => {}
            }
        }
        None if options.heads_only => add_heads(&mut selection),
        None => add_packages(&mut selection),
    }
    if let (false, Some(old)) = (options.heads_only, old) {
        prune(old, new, &mut selection)?;
    }
    selection.drop_empty();
    if !options.skip_dependencies {
        dependencies::add(&by_name(old), new, &mut selection)?;
    }
    Ok(selection)
}

/// Adds the head of every channel without selected entries.
fn add_heads(selection: &mut EntrySelection<'_>) {
    for (p, package) in selection.catalog().packages().iter().enumerate() {
        for (c, channel) in package.channels().iter().enumerate() {
            if !selection.has_channel(p, c) {
                selection.add(p, c, path::head(channel));
            }
        }
    }
}

/// Adds every package without selected entries as a whole.
fn add_packages(selection: &mut EntrySelection<'_>) {
    for (p, package) in selection.catalog().packages().iter().enumerate() {
        if !selection.has_package(p) {
            for (c, channel) in package.channels().iter().enumerate() {
                selection.add_all(p, c, 0..channel.entries().len());
            }
        }
    }
}

/// Removes the entries that `old` has too.
fn prune(old: DiffSide<'_, '_>, new: DiffSide<'_, '_>, selection: &mut EntrySelection<'_>) -> io::Result<()> {
    let packages = by_name(Some(old));
    let bundles = selection.bundles();
    // One bundle may be in several channels; it is compared once.
    let same: HashMap<(usize, &str), bool> = bundles
        .into_par_iter()
        .filter_map(|(p, name)| {
            let package = &new.catalog.packages()[p];
            let before = packages.get(package.name())?.bundle(name)?;
            Some(((p, name), (package.bundle(name)?.blob, before.blob)))
        })
        .map(|(key, (now, before))| {
            let same = new.fbc.same_bundle(&new.fbc.blobs()[now], old.fbc, &old.fbc.blobs()[before])?;
            Ok((key, same))
        })
        .collect::<io::Result<_>>()?;
    selection.retain(|p, channel, entry| {
        let package = packages.get(new.catalog.packages()[p].name());
        let exists_in_old = package.is_some_and(|package| path::member(package, channel.name(), &entry.name));
        !exists_in_old || !same.get(&(p, &*entry.name)).copied().unwrap_or(false)
    });
    Ok(())
}

#[cfg(test)]
mod tests;
