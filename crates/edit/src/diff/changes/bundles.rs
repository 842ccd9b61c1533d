//! What differs in the bundles of a package.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use catalog::Package;
use fbc::blob::TextBuffer;
use fbc::release::cmp_version_release;
use fbc::same::related_images;
use fbc::{Blob, Content, Fbc, property};

use super::report::{BundleChange, Change, CrdChange, Difference, PermissionChange, Property, RelatedImage, What};
use super::{Options, PackageSide, union};
use crate::diff::facts::{Crds, Facts, Grant};
use crate::diff::path;

/// Compares the bundles of a package; they come by version.
pub(super) fn changes(old: PackageSide<'_>, new: PackageSide<'_>, options: &Options) -> io::Result<Vec<BundleChange>> {
    let mut changes = Vec::new();
    for name in union(old.package, new.package, |package| package.bundles().map(|(name, _)| name).collect()) {
        changes.extend(change(name, old, new, options)?);
    }
    let version = |change: &BundleChange| {
        let half = if change.what == What::Removed { old } else { new };
        half.package.and_then(|package| package.bundle(&change.name))
    };
    changes.sort_by(|a, b| match (version(a), version(b)) {
        (Some(a), Some(b)) => cmp_version_release((&a.version, a.release.as_ref()), (&b.version, b.release.as_ref())),
        (a, b) => a.is_some().cmp(&b.is_some()),
    });
    Ok(changes)
}

fn change(
    name: &str,
    old: PackageSide<'_>,
    new: PackageSide<'_>,
    options: &Options,
) -> io::Result<Option<BundleChange>> {
    let mut change = BundleChange {
        name: name.to_owned(),
        what: What::of(old.bundle(name).is_some(), new.bundle(name).is_some()),
        version: new.version(name).or_else(|| old.version(name)).unwrap_or_default(),
        compared_with: None,
        image: Change::of(image(old.bundle(name)), image(new.bundle(name))),
        related_images: Difference::default(),
        properties: Difference::default(),
        permissions: Vec::new(),
        crds: Vec::new(),
        manifests: false,
    };
    match (old.bundle(name), new.bundle(name)) {
        (Some(before), Some(after)) => {
            if new.fbc.same_bundle(after, old.fbc, before)? {
                return Ok(None);
            }
            let before = Contents::of(old.fbc, before, Some(options))?;
            let after = Contents::of(new.fbc, after, Some(options))?;
            change.tell(&before, &after);
            // What is the same in all other ways is spelled in another way there.
            change.manifests = before.manifests != after.manifests || !change.tells_something();
        }
        (None, Some(after)) => match predecessor(name, old, new).filter(|_| options.changelog) {
            Some((fbc, blob)) => {
                change.compared_with = Some(blob.name.to_string());
                let mut before = Contents::of(fbc, blob, Some(options))?;
                let mut after = Contents::of(new.fbc, after, Some(options))?;
                // Another bundle has another version; that says nothing new.
                for contents in [&mut before, &mut after] {
                    contents.properties.retain(|property| property.kind != property::PACKAGE);
                }
                change.tell(&before, &after);
            }
            None => change.tell(&Contents::default(), &Contents::of(new.fbc, after, None)?),
        },
        (_, None) => {}
    }
    Ok(Some(change))
}

impl BundleChange {
    fn tells_something(&self) -> bool {
        self.image.is_some()
            || !self.related_images.is_empty()
            || !self.properties.is_empty()
            || !self.permissions.is_empty()
            || !self.crds.is_empty()
    }

    fn tell(&mut self, old: &Contents, new: &Contents) {
        self.related_images = Difference::of(&old.related_images, &new.related_images);
        self.properties = Difference::of(&old.properties, &new.properties);
        if let (Some(old), Some(new)) = (&old.facts.permissions, &new.facts.permissions) {
            self.permissions = permissions(old, new);
        }
        let crds = match (&old.facts, &new.facts) {
            (Facts { served: Some(old), .. }, Facts { served: Some(new), .. }) => Some((old, new)),
            (Facts { owned: Some(old), .. }, Facts { owned: Some(new), .. }) => Some((old, new)),
            _ => None,
        };
        self.crds = crds.map(|(old, new)| crd_changes(old, new)).unwrap_or_default();
    }
}

/// What of a bundle is compared.
#[derive(Default)]
struct Contents {
    related_images: BTreeSet<RelatedImage>,
    properties: BTreeSet<Property>,
    facts: Facts,
    /// Its objects and metadata, canonical.
    manifests: Vec<String>,
}

impl Contents {
    /// Reads a bundle, with its manifests if there are `options` for that.
    fn of(fbc: &Fbc, blob: &Blob, options: Option<&Options>) -> io::Result<Contents> {
        let mut buffer = TextBuffer::default();
        let text = fbc.text(blob, &mut buffer)?;
        let images = related_images(text).into_iter();
        let properties = fbc.plain_properties(blob, text)?.into_iter();
        let mut contents = Contents {
            related_images: images.map(|it| RelatedImage { name: it.name, image: it.image }).collect(),
            properties: properties.map(|it| Property { kind: it.kind, value: it.value }).collect(),
            ..Contents::default()
        };
        if let Some(options) = options {
            contents.facts = Facts::of(fbc, blob, text, &options.limits);
            contents.manifests = fbc.objects(blob, text, &options.limits);
            let metadata = property::of(text).filter(|(kind, _)| kind == property::CSV_METADATA);
            contents.manifests.extend(metadata.filter_map(|(_, value)| value).map(super::canonical));
        }
        Ok(contents)
    }
}

fn image(blob: Option<&Blob>) -> Option<String> {
    match &blob?.content {
        Content::Bundle(bundle) => Some(bundle.image.to_string()),
        _ => None,
    }
}

/// Finds the bundle that a new one follows: what it replaces, first by the default channel, else the highest version
/// below it. It may be gone from the new catalog.
fn predecessor<'a>(name: &str, old: PackageSide<'a>, new: PackageSide<'a>) -> Option<(&'a Fbc, &'a Blob)> {
    let package = new.package?;
    let found = |name: &str| {
        let there = |half: PackageSide<'a>| half.bundle(name).map(|blob| (half.fbc, blob));
        there(new).or_else(|| there(old))
    };
    let channels = [package.default_channel()].into_iter().chain(package.channels());
    let mut replaced = channels.filter_map(|channel| channel.entries().get(path::position(channel, name)?));
    if let Some(found) = replaced.find_map(|entry| found(&entry.replaces)) {
        return Some(found);
    }
    let own = package.bundle(name)?;
    let halves = [new.package, old.package].into_iter().flatten();
    let older = halves.flat_map(Package::bundles).filter(|(_, bundle)| {
        cmp_version_release((&bundle.version, bundle.release.as_ref()), (&own.version, own.release.as_ref())).is_lt()
    });
    let highest = older.max_by(|(_, a), (_, b)| {
        cmp_version_release((&a.version, a.release.as_ref()), (&b.version, b.release.as_ref()))
    });
    found(highest?.0)
}

fn permissions(
    old: &BTreeMap<Grant, BTreeSet<String>>,
    new: &BTreeMap<Grant, BTreeSet<String>>,
) -> Vec<PermissionChange> {
    let none = BTreeSet::new();
    let grants: BTreeSet<&Grant> = old.keys().chain(new.keys()).collect();
    let changes = grants.into_iter().map(|grant| PermissionChange {
        scope: grant.0,
        service_account: grant.1.clone(),
        resource: grant.2.clone(),
        verbs: Difference::of(old.get(grant).unwrap_or(&none), new.get(grant).unwrap_or(&none)),
    });
    changes.filter(|change| !change.verbs.is_empty()).collect()
}

fn crd_changes(old: &Crds, new: &Crds) -> Vec<CrdChange> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let versions =
        |crds: &Crds, name: &String| crds.get(name).map(|it| it.iter().cloned().collect()).unwrap_or_default();
    let change = |name: &String| {
        let versions = Change::of(versions(old, name), versions(new, name))?;
        Some(CrdChange { name: name.clone(), versions })
    };
    names.into_iter().filter_map(change).collect()
}
