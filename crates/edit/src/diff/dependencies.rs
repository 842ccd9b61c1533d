//! Adds the transitive dependencies of bundles.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use catalog::{Bundle, Catalog};
use fbc::blob::TextBuffer;
use fbc::json::Raw;
use fbc::property;
use fbc::range::VersionRange;
use fbc::release::cmp_version_release;
use rayon::prelude::*;

use super::{ByName, DiffError, DiffSide, EntrySelection, path};

/// A kind of object that a bundle provides or requires: group, version, kind.
type Api = (String, String, String);
/// The indices of a package, a channel and an entry.
type Member = (usize, usize, usize);

/// The provided and required APIs and packages of a bundle.
#[derive(Default)]
struct Needs {
    provided: Vec<Api>,
    apis: Vec<Api>,
    /// The required packages with the accepted versions; `None` accepts any version.
    packages: Vec<(String, Option<VersionRange>)>,
}

/// The needs of all bundles of a catalog, by package index and bundle name.
type AllNeeds<'a> = HashMap<(usize, &'a str), Needs>;

/// Adds the dependencies of the bundles in `selection`, with their upgrade paths to the heads, unless `old` has them.
///
/// A dependency without a provider is ignored.
pub(super) fn add<'a>(
    old: &ByName<'_>,
    new: DiffSide<'_, 'a>,
    selection: &mut EntrySelection<'a>,
) -> Result<(), DiffError> {
    let catalog = new.catalog;
    let chosen = read(new, selection.bundles())?;
    if chosen.values().all(|needs| needs.apis.is_empty() && needs.packages.is_empty()) {
        return Ok(());
    }
    let all = catalog.packages().iter().enumerate();
    let all = all.flat_map(|(p, package)| package.bundles().map(move |(name, _)| (p, name)));
    let needs = read(new, all)?;
    let providers = providers(catalog, &needs);

    let mut remembered = BTreeSet::new();
    let mut visited = HashSet::new();
    let mut current: Vec<Member> = selection.members().collect();
    loop {
        let mut apis: BTreeSet<&Api> = BTreeSet::new();
        let mut packages: HashMap<&str, BTreeMap<&str, Option<&VersionRange>>> = HashMap::new();
        for &(p, c, e) in &current {
            let entry = &catalog.packages()[p].channels()[c].entries()[e];
            let Some(needs) = needs.get(&(p, &*entry.name)) else { continue };
            apis.extend(&needs.apis);
            for (package, range) in &needs.packages {
                let text = range.as_ref().map_or("", VersionRange::as_str);
                packages.entry(package).or_default().insert(text, range.as_ref());
            }
        }
        let mut found: BTreeSet<Member> = BTreeSet::new();
        // The first package by name that provides an API is selected.
        found.extend(apis.into_iter().filter_map(|api| providers.get(api)));
        for (p, package) in catalog.packages().iter().enumerate() {
            for range in packages.remove(package.name()).unwrap_or_default().into_values() {
                let fits = |bundle: &Bundle| range.is_none_or(|range| range.contains(&bundle.version));
                found.extend(best(catalog, p, fits));
            }
        }
        current = found.into_iter().filter(|member| visited.insert(*member)).collect();
        if current.is_empty() {
            break;
        }
        remembered.extend(current.iter().copied().filter(|&(p, c, e)| {
            let package = &catalog.packages()[p];
            let channel = &package.channels()[c];
            let before = old.get(package.name());
            !before.is_some_and(|before| path::member(before, channel.name(), &channel.entries()[e].name))
        }));
    }
    complete(catalog, remembered, selection)
}

/// Adds the upgrade paths from dependencies to the heads of their channels.
fn complete<'a>(
    catalog: &'a Catalog,
    found: BTreeSet<Member>,
    selection: &mut EntrySelection<'a>,
) -> Result<(), DiffError> {
    let bundle = |&(p, c, e): &Member| {
        let package = &catalog.packages()[p];
        package.bundle(&package.channels()[c].entries()[e].name)
    };
    let mut found: Vec<Member> = found.into_iter().collect();
    found.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| compare(bundle(a), bundle(b))));
    for (p, c, e) in found {
        if selection.has(p, c, e) {
            continue;
        }
        let package = &catalog.packages()[p];
        let channel = &package.channels()[c];
        let name = &channel.entries()[e].name;
        let way = path::to_head(channel, e).ok_or_else(|| DiffError::NotReachable {
            channel: channel.name().to_owned(),
            head: channel.head().name.to_string(),
            bundle: name.to_string(),
        })?;
        let note = format!(
            "dependency {name} of package {}, channel {}: {} bundles",
            package.name(),
            channel.name(),
            way.len()
        );
        selection.notes.push(note);
        selection.add_all(p, c, way);
    }
    Ok(())
}

/// Returns the provider of each API: the highest version in the first package that provides it.
fn providers<'n>(catalog: &'n Catalog, needs: &'n AllNeeds<'_>) -> HashMap<&'n Api, Member> {
    let mut first: HashMap<&Api, usize> = HashMap::new();
    for ((p, _), needs) in needs {
        for api in &needs.provided {
            first.entry(api).and_modify(|first| *first = (*first).min(*p)).or_insert(*p);
        }
    }
    let mut providers: HashMap<&Api, Member> = HashMap::new();
    for (p, package) in catalog.packages().iter().enumerate() {
        for (c, channel) in package.channels().iter().enumerate() {
            for (e, entry) in channel.entries().iter().enumerate() {
                let provided = needs.get(&(p, &*entry.name)).map(|needs| needs.provided.as_slice());
                for api in provided.unwrap_or_default().iter().filter(|api| first.get(api) == Some(&p)) {
                    let known = providers.entry(api).or_insert((p, c, e));
                    if is_better(catalog, (p, c, e), *known) {
                        *known = (p, c, e);
                    }
                }
            }
        }
    }
    providers
}

/// Returns the highest version of a package that `fits`, preferably in the default channel.
fn best(catalog: &Catalog, p: usize, fits: impl Fn(&Bundle) -> bool) -> Option<Member> {
    let package = &catalog.packages()[p];
    let mut best: Option<Member> = None;
    for (c, channel) in package.channels().iter().enumerate() {
        for (e, entry) in channel.entries().iter().enumerate() {
            let fit = package.bundle(&entry.name).is_some_and(&fits);
            if fit && best.is_none_or(|known| is_better(catalog, (p, c, e), known)) {
                best = Some((p, c, e));
            }
        }
    }
    best
}

/// Returns whether `member` is a better choice than `known`.
fn is_better(catalog: &Catalog, member: Member, known: Member) -> bool {
    let package = &catalog.packages()[member.0];
    let bundle = |(_, c, e): Member| package.bundle(&package.channels()[c].entries()[e].name);
    let default = |(_, c, _): Member| package.channels()[c].name() == package.default_channel().name();
    compare(bundle(member), bundle(known)).then(default(member).cmp(&default(known))).is_gt()
}

fn compare(a: Option<&Bundle>, b: Option<&Bundle>) -> std::cmp::Ordering {
    match (a, b) {
        (Some(a), Some(b)) => cmp_version_release((&a.version, a.release.as_ref()), (&b.version, b.release.as_ref())),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Reads the needs of bundles.
fn read<'a>(
    new: DiffSide<'_, 'a>,
    bundles: impl IntoIterator<Item = (usize, &'a str)>,
) -> Result<AllNeeds<'a>, DiffError> {
    let bundles: Vec<_> = bundles.into_iter().collect();
    bundles
        .into_par_iter()
        .map_init(TextBuffer::default, |buffer, (p, name)| {
            let bundle =
                new.catalog.packages()[p].bundle(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            let text = new.fbc.text(&new.fbc.blobs()[bundle.blob], buffer)?;
            Ok(((p, name), needs_of(name, text)?))
        })
        .collect()
}

fn needs_of(name: &str, bundle: Raw<'_>) -> Result<Needs, DiffError> {
    let mut needs = Needs::default();
    for (kind, value) in property::of(bundle) {
        let field = |name| value.and_then(|value| value.get(name)?.as_str()).unwrap_or_default().into_owned();
        let api = || (field("group"), field("version"), field("kind"));
        match &*kind {
            property::GVK => needs.provided.push(api()),
            property::GVK_REQUIRED => needs.apis.push(api()),
            property::PACKAGE_REQUIRED => {
                let range = field("versionRange");
                let parsed = if range.is_empty() { Ok(None) } else { VersionRange::parse(&range).map(Some) };
                let range = parsed.map_err(|error| DiffError::Range {
                    bundle: name.to_owned(),
                    range,
                    reason: error.to_string(),
                })?;
                needs.packages.push((field("packageName"), range));
            }
            _ => {}
        }
    }
    Ok(needs)
}
