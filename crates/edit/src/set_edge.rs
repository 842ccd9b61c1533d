//! Changes the edges of a channel entry.

use std::collections::HashSet;

use fbc::range::VersionRange;

use crate::outline::{Outline, suggestions};
use crate::refusal::EditRefusal;

/// The changes to the edges of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edges {
    /// The new `replaces`; an empty name removes the edge.
    pub replaces: Option<String>,
    /// The new `skips`, which replace the current ones.
    pub skips: Option<Vec<String>>,
    /// Bundles to add to `skips`.
    pub add_skips: Vec<String>,
    /// Bundles to remove from `skips`.
    pub remove_skips: Vec<String>,
    /// The new `skipRange`; an empty range removes it.
    pub skip_range: Option<String>,
}

/// Changes the edges of the entry of `bundle` in `channel`.
///
/// # Errors
/// Refuses if the entry does not exist or the edges are invalid.
pub fn set_edge(
    outline: &mut Outline,
    package: Option<&str>,
    channel: &str,
    bundle: &str,
    edges: &Edges,
) -> Result<(), EditRefusal> {
    let package_name = outline.package_of(package, bundle)?;
    let package = outline.package_mut(&package_name)?;
    let channel_of = package.channel_mut(&package_name, channel)?;
    let known: Vec<String> = channel_of.entries.iter().map(|entry| entry.name.to_string()).collect();
    let Some(entry) = channel_of.entry_mut(bundle) else {
        return Err(EditRefusal::new(format!(
            "channel {channel:?} of package {package_name:?} has no entry {bundle:?}"
        ))
        .help(suggestions(bundle, known.iter())));
    };
    check_range(edges.skip_range.as_deref())?;
    let names = edges.replaces.iter().chain(edges.skips.iter().flatten()).chain(&edges.add_skips);
    if names.into_iter().any(|name| name == bundle) {
        return Err(EditRefusal::new(format!("{bundle:?} cannot upgrade to itself")).help("name an older bundle"));
    }
    if let Some(replaces) = &edges.replaces {
        entry.replaces = replaces.as_str().into();
    }
    if let Some(skips) = &edges.skips {
        let kept: HashSet<&str> = skips.iter().map(String::as_str).collect();
        let mut wanted: Vec<Box<str>> = entry.skips.iter().filter(|skip| kept.contains(&***skip)).cloned().collect();
        add(&mut wanted, skips);
        entry.skips = wanted;
    }
    let skipped: HashSet<&str> = entry.skips.iter().map(|skip| &**skip).collect();
    if let Some(name) = edges.remove_skips.iter().find(|name| !skipped.contains(name.as_str())) {
        return Err(EditRefusal::new(format!("{bundle:?} does not skip {name:?} in channel {channel:?}")));
    }
    let removed: HashSet<&str> = edges.remove_skips.iter().map(String::as_str).collect();
    entry.skips.retain(|skip| !removed.contains(&**skip));
    add(&mut entry.skips, &edges.add_skips);
    if let Some(range) = &edges.skip_range {
        entry.skip_range = range.as_str().into();
    }
    Ok(())
}

/// Adds names to a list of skips, without duplicates.
pub(crate) fn add(skips: &mut Vec<Box<str>>, names: &[String]) {
    let mut known: HashSet<Box<str>> = skips.iter().cloned().collect();
    for name in names.iter().filter(|name| !name.is_empty()) {
        if known.insert(name.as_str().into()) {
            skips.push(name.as_str().into());
        }
    }
}

/// Checks a version range given by the user.
pub(crate) fn check_range(range: Option<&str>) -> Result<(), EditRefusal> {
    match range.filter(|range| !range.is_empty()).map(VersionRange::parse) {
        Some(Err(error)) => {
            Err(EditRefusal::new(format!("{:?} is not a version range: {error}", range.unwrap_or_default()))
                .help("write it like '>=1.0.0 <1.2.0' or '>=1.0.0 <1.2.0 || 2.0.1'"))
        }
        _ => Ok(()),
    }
}
