//! What is new in a catalog: the part of it that another catalog, or a mirror, does not have yet.
//!
//! [`diff`] chooses bundles of channels of the new catalog, by itself or as an [`Include`] says, and
//! adds what they depend on. The result is a [`Selection`], which becomes a catalog of its own.
//! [`changes`] shows people what differs.

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

pub use include::{Include, IncludeError, IncludedChannel, IncludedPackage, SHAPE as INCLUDE_SHAPE, Wanted};
pub use selection::Selection;

/// A catalog: what is written, and what it means.
#[derive(Clone, Copy)]
pub struct Side<'f, 'c> {
    /// What is written, with its text kept.
    pub fbc: &'f Fbc,
    /// What it means.
    pub catalog: &'c Catalog,
}

/// What is asked for.
#[derive(Debug, Default)]
pub struct Options {
    /// Take the heads of channels, and not all that is new.
    pub heads_only: bool,
    /// Take these.
    pub include: Option<Include>,
    /// Take what is included beside all else, and not instead of it.
    pub include_additive: bool,
    /// Do not add what the bundles depend on.
    pub skip_dependencies: bool,
}

/// Why there is no difference to be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Things that are to be included are not there; a message for each.
    #[error("error including items: [{}]", .0.join(", "))]
    Include(Vec<String>),
    /// A dependency has no way to the head of its channel.
    #[error("channel {channel}: head {} not reachable from bundle {}", quote(head), quote(bundle))]
    NotReachable {
        /// The channel.
        channel: String,
        /// Its head.
        head: String,
        /// The dependency.
        bundle: String,
    },
    /// A bundle requires versions of a package by something that is no range.
    #[error("bundle {}: property olm.package.required: invalid range {}: {reason}", quote(bundle), quote(range))]
    Range {
        /// The bundle.
        bundle: String,
        /// What should be a range.
        range: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A text cannot be read again.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The packages of a catalog by name.
type ByName<'a> = HashMap<&'a str, &'a Package>;

fn by_name<'a>(old: Option<Side<'_, 'a>>) -> ByName<'a> {
    let packages = old.map(|old| old.catalog.packages()).unwrap_or_default();
    packages.iter().map(|package| (package.name(), package)).collect()
}

/// Chooses what of `new` is not in `old`, or what else `options` ask for.
///
/// A bundle of a channel is in `old` if the same channel there has the same bundle, whatever its upgrade edges are.
///
/// # Errors
/// Fails when something to be included is not there, when a dependency has no way to the head of its channel, and
/// when files have changed since they were read.
pub fn diff<'a>(old: Option<Side<'_, '_>>, new: Side<'_, 'a>, options: &Options) -> Result<Selection<'a>, Error> {
    let mut selection = Selection::new(new.catalog);
    match &options.include {
        Some(include) => {
            let heads_only = options.heads_only && !options.include_additive;
            include.apply(heads_only, &mut selection).map_err(Error::Include)?;
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

/// Adds the head of every channel of which nothing is there.
fn add_heads(selection: &mut Selection<'_>) {
    for (p, package) in selection.catalog().packages().iter().enumerate() {
        for (c, channel) in package.channels().iter().enumerate() {
            if !selection.has_channel(p, c) {
                selection.add(p, c, path::head(channel));
            }
        }
    }
}

/// Adds all of every package of which nothing is there.
fn add_packages(selection: &mut Selection<'_>) {
    for (p, package) in selection.catalog().packages().iter().enumerate() {
        if !selection.has_package(p) {
            for (c, channel) in package.channels().iter().enumerate() {
                selection.add_all(p, c, 0..channel.entries().len());
            }
        }
    }
}

/// Removes what `old` has, too.
fn prune(old: Side<'_, '_>, new: Side<'_, '_>, selection: &mut Selection<'_>) -> io::Result<()> {
    let packages = by_name(Some(old));
    let bundles = selection.bundles();
    // Two bundles of one name may stand in several channels; they are compared once.
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
        let there = package.is_some_and(|package| path::member(package, channel.name(), &entry.name));
        !there || !same.get(&(p, &*entry.name)).copied().unwrap_or(false)
    });
    Ok(())
}

#[cfg(test)]
mod tests;
