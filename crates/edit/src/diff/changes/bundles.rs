//! Compares the bundles of a package.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bundle::review::facts::Crd;
use fbc::release::cmp_version_release;
use fbc::{Blob, BlobContent, Fbc, property};

use super::report::{BundleChange, ChangeKind, CrdChange, Difference, FieldDifference, PermissionChange, ValueChange};
use super::{CompareOptions, PackageSide, union};
use crate::diff::facts::{ComparedBundle, ComparedCrds, Grant, grants, served};

/// Compares the bundles of a package, sorted by version.
pub(super) fn changes(
    old: PackageSide<'_>,
    new: PackageSide<'_>,
    options: &CompareOptions,
) -> io::Result<Vec<BundleChange>> {
    let mut changes = Vec::new();
    for name in union(old.package, new.package, |package| package.bundles().map(|(name, _)| name).collect()) {
        changes.extend(change(name, old, new, options)?);
    }
    let version = |change: &BundleChange| {
        let side = if change.what == ChangeKind::Removed { old } else { new };
        side.package.and_then(|package| package.bundle(&change.name))
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
    options: &CompareOptions,
) -> io::Result<Option<BundleChange>> {
    let what = ChangeKind::of(old.bundle(name).is_some(), new.bundle(name).is_some());
    let version = new.version(name).or_else(|| old.version(name)).unwrap_or_default();
    let mut change = BundleChange::empty(name, what, version);
    change.image = ValueChange::of(image(old.bundle(name)), image(new.bundle(name)));
    let limits = Some(&options.limits);
    match (old.bundle(name), new.bundle(name)) {
        (Some(before), Some(after)) => {
            if new.fbc.same_bundle(after, old.fbc, before)? {
                return Ok(None);
            }
            let before = ComparedBundle::of(old.fbc, before, limits)?;
            let after = ComparedBundle::of(new.fbc, after, limits)?;
            change.compare(&before, &after);
            // If empty else differs, the manifests differ in form only.
            change.manifests = before.manifests != after.manifests || !change.has_differences();
        }
        (None, Some(after)) => match predecessor(name, old, new).filter(|_| options.changelog) {
            Some((fbc, blob)) => {
                change.compared_with = Some(blob.name.to_string());
                let mut before = ComparedBundle::of(fbc, blob, limits)?;
                let mut after = ComparedBundle::of(new.fbc, after, limits)?;
                // A new bundle always has another version, which needs no report.
                for contents in [&mut before, &mut after] {
                    contents.properties.retain(|property| property.kind != property::PACKAGE);
                }
                change.compare(&before, &after);
            }
            None => change.compare(&ComparedBundle::default(), &ComparedBundle::of(new.fbc, after, None)?),
        },
        (_, None) => {}
    }
    Ok(Some(change))
}

impl BundleChange {
    fn has_differences(&self) -> bool {
        self.image.is_some()
            || !self.related_images.is_empty()
            || !self.properties.is_empty()
            || !self.permissions.is_empty()
            || !self.crds.is_empty()
            || !self.fields.is_empty()
            || !self.crd_verdicts.is_empty()
    }

    fn compare(&mut self, old: &ComparedBundle, new: &ComparedBundle) {
        self.related_images = Difference::of(&old.related_images, &new.related_images);
        self.properties = Difference::of(&old.properties, &new.properties);
        let (old, new) = (&old.facts, &new.facts);
        let definitions = (&old.definitions, &new.definitions);
        if let (Some(old), Some(new)) = (&old.rules, &new.rules) {
            self.permissions = permissions(&grants(old), &grants(new));
        }
        match (&old.crds, &new.crds, &old.owned, &new.owned) {
            (Some(old), Some(new), ..) => {
                self.crds = crd_changes(&served(old), &served(new), (old, new));
                self.fields = bundle::review::crd::fields(definitions.0, definitions.1)
                    .into_iter()
                    .map(FieldDifference::from)
                    .collect();
                self.crd_verdicts = bundle::review::crd::compare(definitions.0, definitions.1);
            }
            (.., Some(old), Some(new)) => self.crds = crd_changes(old, new, (&[], &[])),
            _ => {}
        }
    }

    /// Compares two bundles of one package, the older one first.
    pub fn between(old: &ComparedBundle, new: &ComparedBundle) -> BundleChange {
        let mut change = BundleChange::empty("", ChangeKind::Changed, String::new());
        change.compare(old, new);
        change
    }

    fn empty(name: &str, what: ChangeKind, version: String) -> BundleChange {
        BundleChange {
            name: name.to_owned(),
            what,
            version,
            compared_with: None,
            image: None,
            related_images: Difference::default(),
            properties: Difference::default(),
            permissions: Vec::new(),
            crds: Vec::new(),
            fields: Vec::new(),
            crd_verdicts: Vec::new(),
            manifests: false,
        }
    }
}

fn image(blob: Option<&Blob>) -> Option<String> {
    match &blob?.content {
        BlobContent::Bundle(bundle) => Some(bundle.image.to_string()),
        _ => None,
    }
}

/// Finds the previous version of a new bundle. The new catalog may no longer contain it.
fn predecessor<'a>(name: &str, old: PackageSide<'a>, new: PackageSide<'a>) -> Option<(&'a Fbc, &'a Blob)> {
    let previous = new.package?.predecessor(name, old.package)?;
    let bundle_in = |side: PackageSide<'a>| side.bundle(previous).map(|blob| (side.fbc, blob));
    bundle_in(new).or_else(|| bundle_in(old))
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

fn crd_changes(old: &ComparedCrds, new: &ComparedCrds, definitions: (&[Crd], &[Crd])) -> Vec<CrdChange> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let versions = |crds: &ComparedCrds, name: &String| -> Vec<String> {
        crds.get(name).map(|it| it.iter().cloned().collect()).unwrap_or_default()
    };
    let stored = |crds: &[Crd], name: &String| crds.iter().find(|crd| crd.name == *name)?.stored.clone();
    let change = |name: &String| {
        let both = old.contains_key(name) && new.contains_key(name);
        let stored = ValueChange::of(stored(definitions.0, name), stored(definitions.1, name)).filter(|_| both);
        let versions = ValueChange { old: versions(old, name), new: versions(new, name) };
        (versions.old != versions.new || stored.is_some()).then(|| CrdChange { name: name.clone(), versions, stored })
    };
    names.into_iter().filter_map(change).collect()
}
