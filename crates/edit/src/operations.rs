//! Edits of a catalog directory, each from a request to a report.

mod add_bundle;

use std::path::PathBuf;

use crate::deprecate::{self, DeprecationTarget};
use crate::edited::Edited;
use crate::error::EditError;
use crate::filter::KeptPart;
use crate::merge::MergeSide;
use crate::outline::Outline;
use crate::promote::Promotion;
use crate::refusal::EditRefusal;
use crate::remove::Removal;
use crate::set_edge::Edges;
use crate::transaction::{EditOptions, EditableCatalog, NewPackageLayout, Notices, Texts, Transaction};
use crate::verify::Purpose;

pub(crate) use add_bundle::render_bundle;
pub use add_bundle::{AddBundle, add_bundle};

/// A request to add a bundle of the catalog to a channel.
#[derive(Debug, Clone)]
pub struct Promote {
    /// The catalog and the destination.
    pub options: EditOptions,
    /// The package, required if several have a bundle of that name.
    pub package: Option<String>,
    pub bundle: String,
    pub channel: String,
    /// The position and the edges of the new entry.
    pub promotion: Promotion,
}

/// Adds a bundle of the catalog to a channel.
///
/// # Errors
/// Fails as [`EditError`] says; the catalog is then as it was.
pub fn promote(request: &Promote, notices: &dyn Notices) -> Result<Edited, EditError> {
    let Promote { options, package, bundle, channel, promotion } = request;
    change(options, Purpose::Keep, notices, |outline| {
        crate::promote::promote(outline, package.as_deref(), bundle, channel, promotion).map(|()| Vec::new())
    })
}

/// A request to set the default channel of a package.
#[derive(Debug, Clone)]
pub struct SetDefault {
    /// The catalog and the destination.
    pub options: EditOptions,
    pub package: String,
    /// Its new default channel.
    pub channel: String,
}

/// Sets the default channel of a package.
///
/// # Errors
/// Fails as [`EditError`] says; the catalog is then as it was.
pub fn set_default(request: &SetDefault, notices: &dyn Notices) -> Result<Edited, EditError> {
    change(&request.options, Purpose::Keep, notices, |outline| {
        crate::set_default::set_default(outline, &request.package, &request.channel).map(|()| Vec::new())
    })
}

/// A request to change the edges of a channel entry.
#[derive(Debug, Clone)]
pub struct SetEdge {
    /// The catalog and the destination.
    pub options: EditOptions,
    /// The package, required if several have a bundle of that name.
    pub package: Option<String>,
    pub channel: String,
    /// The bundle of the entry.
    pub bundle: String,
    /// The changes.
    pub edges: Edges,
}

/// Changes the edges of a channel entry.
///
/// # Errors
/// Fails as [`EditError`] says; the catalog is then as it was.
pub fn set_edge(request: &SetEdge, notices: &dyn Notices) -> Result<Edited, EditError> {
    let SetEdge { options, package, channel, bundle, edges } = request;
    change(options, Purpose::Unskip(&edges.remove_skips), notices, |outline| {
        crate::set_edge::set_edge(outline, package.as_deref(), channel, bundle, edges).map(|()| Vec::new())
    })
}

/// A request to deprecate a package, channel or bundle.
#[derive(Debug, Clone)]
pub struct Deprecate {
    /// The catalog and the destination.
    pub options: EditOptions,
    /// The package, channel or bundle.
    pub target: DeprecationTarget,
    /// The message for users; `None` removes the deprecation.
    pub message: Option<String>,
}

/// Deprecates a package, channel or bundle, or removes its deprecation.
///
/// # Errors
/// Fails as [`EditError`] says; the catalog is then as it was.
pub fn deprecate(request: &Deprecate, notices: &dyn Notices) -> Result<Edited, EditError> {
    change(&request.options, Purpose::Keep, notices, |outline| {
        match &request.message {
            Some(message) => deprecate::deprecate(outline, &request.target, message),
            None => deprecate::undo(outline, &request.target),
        }
        .map(|()| Vec::new())
    })
}

/// A request to remove a package, channel or bundle.
#[derive(Debug, Clone)]
pub struct Remove {
    /// The catalog and the destination.
    pub options: EditOptions,
    /// The package, channel or bundle.
    pub target: DeprecationTarget,
    /// How to remove it.
    pub removal: Removal,
}

/// Removes a package, channel or bundle and reconnects the upgrade edges.
///
/// # Errors
/// Fails as [`EditError`] says; the catalog is then as it was.
pub fn remove(request: &Remove, notices: &dyn Notices) -> Result<Edited, EditError> {
    let Remove { options, target, removal } = request;
    change(options, Purpose::Remove { target, forget: removal.forget }, notices, |outline| {
        crate::remove::remove(outline, target, removal)
    })
}

/// A request to keep only a part of a catalog.
#[derive(Debug, Clone)]
pub struct Filter {
    /// The catalog and the destination.
    pub options: EditOptions,
    /// The part to keep.
    pub selection: KeptPart,
}

/// Removes everything from a catalog that is not selected.
///
/// # Errors
/// Fails as [`EditError`] says; the catalog is then as it was.
pub fn filter(request: &Filter, notices: &dyn Notices) -> Result<Edited, EditError> {
    let Filter { options, selection } = request;
    let transaction = Transaction::open(options, false, notices)?;
    let mut outline = transaction.outline();
    let bundles = transaction.catalog().source.bundles.iter();
    let facts = bundles.map(|bundle| ((bundle.package.clone(), bundle.name.clone()), bundle.facts.clone())).collect();
    let notes = crate::filter::filter(&mut outline, selection, &facts)?;
    transaction.commit(&outline, notes, Purpose::Select(selection), NewPackageLayout::Usual)
}

/// A request to merge another catalog into a catalog.
#[derive(Debug, Clone)]
pub struct Merge {
    /// The catalog and the destination.
    pub options: EditOptions,
    /// The directory of the other catalog.
    pub other: PathBuf,
    /// Whether the content of the first catalog wins conflicts, instead of the edit being refused.
    pub prefer_first: bool,
}

/// Merges another catalog into a catalog.
///
/// # Errors
/// Fails as [`EditError`] says; the catalog is then as it was.
pub fn merge(request: &Merge, notices: &dyn Notices) -> Result<Edited, EditError> {
    let other = EditableCatalog::load(&request.other, &request.options.limits, true)?;
    let transaction = Transaction::open(&request.options, true, notices)?;
    let (first, second) = (Texts::new(transaction.catalog()), Texts::new(&other));
    let (first, second) = (|blob: usize| first.of(blob), |blob: usize| second.of(blob));
    let (merged, notes) = crate::merge::merge(
        MergeSide { outline: &transaction.catalog().outline, text: &first },
        MergeSide { outline: &other.outline, text: &second },
        request.prefer_first,
    )?;
    transaction.commit(&merged, notes, Purpose::Keep, NewPackageLayout::Usual)
}

/// Applies an edit that needs only the outline; `verb` returns notes for the user.
fn change(
    options: &EditOptions,
    purpose: Purpose<'_>,
    notices: &dyn Notices,
    verb: impl FnOnce(&mut Outline) -> Result<Vec<String>, EditRefusal>,
) -> Result<Edited, EditError> {
    let transaction = Transaction::open(options, false, notices)?;
    let mut outline = transaction.outline();
    let notes = verb(&mut outline)?;
    transaction.commit(&outline, notes, purpose, NewPackageLayout::Usual)
}
