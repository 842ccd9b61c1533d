//! Other edges for an entry of a channel.

use std::collections::HashSet;

use fbc::range::VersionRange;

use crate::outline::{Outline, near};
use crate::refusal::Refusal;

/// What changes of the edges of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edges {
    /// The bundle it replaces from now on; an empty name takes the edge away.
    pub replaces: Option<String>,
    /// The bundles it skips from now on, in place of those it skips.
    pub skips: Option<Vec<String>>,
    /// Bundles it skips too.
    pub add_skips: Vec<String>,
    /// Bundles it does not skip any more.
    pub remove_skips: Vec<String>,
    /// The versions that upgrade to it directly; an empty range takes them away.
    pub skip_range: Option<String>,
}

/// Changes the edges of the entry of `bundle` in `channel`.
///
/// # Errors
/// Refuses when there is no such entry, or the edges make no sense.
pub fn set_edge(
    outline: &mut Outline,
    package: Option<&str>,
    channel: &str,
    bundle: &str,
    edges: &Edges,
) -> Result<(), Refusal> {
    let package_name = outline.package_of(package, bundle)?;
    let package = outline.package_mut(&package_name)?;
    let channel_of = package.channel_mut(&package_name, channel)?;
    let known: Vec<String> = channel_of.entries.iter().map(|entry| entry.name.to_string()).collect();
    let Some(entry) = channel_of.entry_mut(bundle) else {
        return Err(Refusal::new(format!("channel {channel:?} of package {package_name:?} has no entry {bundle:?}"))
            .help(near(bundle, known.iter())));
    };
    check_range(edges.skip_range.as_deref())?;
    let names = edges.replaces.iter().chain(edges.skips.iter().flatten()).chain(&edges.add_skips);
    if names.into_iter().any(|name| name == bundle) {
        return Err(Refusal::new(format!("{bundle:?} cannot upgrade itself")).help("name an older bundle"));
    }
    if let Some(replaces) = &edges.replaces {
        entry.replaces = replaces.as_str().into();
    }
    if let Some(skips) = &edges.skips {
        let mut wanted: Vec<Box<str>> =
            entry.skips.iter().filter(|skip| skips.iter().any(|it| **it == ***skip)).cloned().collect();
        add(&mut wanted, skips);
        entry.skips = wanted;
    }
    if let Some(name) = edges.remove_skips.iter().find(|name| !entry.skips.iter().any(|skip| **skip == ***name)) {
        return Err(Refusal::new(format!("{bundle:?} does not skip {name:?} in channel {channel:?}")));
    }
    entry.skips.retain(|skip| !edges.remove_skips.iter().any(|name| **name == **skip));
    add(&mut entry.skips, &edges.add_skips);
    if let Some(range) = &edges.skip_range {
        entry.skip_range = range.as_str().into();
    }
    Ok(())
}

/// Adds names to a list of skips, each once.
pub(crate) fn add(skips: &mut Vec<Box<str>>, names: &[String]) {
    let mut known: HashSet<Box<str>> = skips.iter().cloned().collect();
    for name in names.iter().filter(|name| !name.is_empty()) {
        if known.insert(name.as_str().into()) {
            skips.push(name.as_str().into());
        }
    }
}

/// Checks a range of versions that the user gave.
pub(crate) fn check_range(range: Option<&str>) -> Result<(), Refusal> {
    match range.filter(|range| !range.is_empty()).map(VersionRange::parse) {
        Some(Err(error)) => {
            Err(Refusal::new(format!("{:?} is no range of versions: {error}", range.unwrap_or_default()))
                .help("ranges are written like '>=1.0.0 <1.2.0' or '>=1.0.0 <1.2.0 || 2.0.1'"))
        }
        _ => Ok(()),
    }
}
