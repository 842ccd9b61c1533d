//! Compares the bundles of a package.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use catalog::Package;
use fbc::release::cmp_version_release;
use fbc::{Blob, Content, Fbc, property};
use review::facts::Crd;

use super::report::{BundleChange, Change, ChangeKind, CrdChange, Difference, FieldChange, PermissionChange};
use super::{Options, PackageSide, union};
use crate::diff::facts::{Contents, Crds, Grant, grants, served};
use crate::diff::path;

/// Compares the bundles of a package, sorted by version.
pub(super) fn changes(old: PackageSide<'_>, new: PackageSide<'_>, options: &Options) -> io::Result<Vec<BundleChange>> {
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
    options: &Options,
) -> io::Result<Option<BundleChange>> {
    let what = ChangeKind::of(old.bundle(name).is_some(), new.bundle(name).is_some());
    let version = new.version(name).or_else(|| old.version(name)).unwrap_or_default();
    let mut change = BundleChange::empty(name, what, version);
    change.image = Change::of(image(old.bundle(name)), image(new.bundle(name)));
    let limits = Some(&options.limits);
    match (old.bundle(name), new.bundle(name)) {
        (Some(before), Some(after)) => {
            if new.fbc.same_bundle(after, old.fbc, before)? {
                return Ok(None);
            }
            let before = Contents::of(old.fbc, before, limits)?;
            let after = Contents::of(new.fbc, after, limits)?;
            change.compare(&before, &after);
            // If empty else differs, the manifests differ in form only.
            change.manifests = before.manifests != after.manifests || !change.has_differences();
        }
        (None, Some(after)) => match predecessor(name, old, new).filter(|_| options.changelog) {
            Some((fbc, blob)) => {
                change.compared_with = Some(blob.name.to_string());
                let mut before = Contents::of(fbc, blob, limits)?;
                let mut after = Contents::of(new.fbc, after, limits)?;
                // A new bundle always has another version, which needs no report.
                for contents in [&mut before, &mut after] {
                    contents.properties.retain(|property| property.kind != property::PACKAGE);
                }
                change.compare(&before, &after);
            }
            None => change.compare(&Contents::default(), &Contents::of(new.fbc, after, None)?),
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

    fn compare(&mut self, old: &Contents, new: &Contents) {
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
                self.fields = fields(old, new);
                self.crd_verdicts = review::crd::compare(definitions.0, definitions.1);
            }
            (.., Some(old), Some(new)) => self.crds = crd_changes(old, new, (&[], &[])),
            _ => {}
        }
    }

    /// Compares two bundles of one package, the older one first.
    pub fn between(old: &Contents, new: &Contents) -> BundleChange {
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
        Content::Bundle(bundle) => Some(bundle.image.to_string()),
        _ => None,
    }
}

/// Finds the predecessor of a new bundle: the one it replaces, preferably in the default channel, or else the highest
/// lower version. The new catalog may no longer contain it.
fn predecessor<'a>(name: &str, old: PackageSide<'a>, new: PackageSide<'a>) -> Option<(&'a Fbc, &'a Blob)> {
    let package = new.package?;
    let found = |name: &str| {
        let bundle_in = |side: PackageSide<'a>| side.bundle(name).map(|blob| (side.fbc, blob));
        bundle_in(new).or_else(|| bundle_in(old))
    };
    let channels = [package.default_channel()].into_iter().chain(package.channels());
    let mut replaced = channels.filter_map(|channel| channel.entries().get(path::position(channel, name)?));
    if let Some(found) = replaced.find_map(|entry| found(&entry.replaces)) {
        return Some(found);
    }
    let own = package.bundle(name)?;
    let sides = [new.package, old.package].into_iter().flatten();
    let older = sides.flat_map(Package::bundles).filter(|(_, bundle)| {
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

fn crd_changes(old: &Crds, new: &Crds, definitions: (&[Crd], &[Crd])) -> Vec<CrdChange> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let versions = |crds: &Crds, name: &String| -> Vec<String> {
        crds.get(name).map(|it| it.iter().cloned().collect()).unwrap_or_default()
    };
    let stored = |crds: &[Crd], name: &String| crds.iter().find(|crd| crd.name == *name)?.stored.clone();
    let change = |name: &String| {
        let both = old.contains_key(name) && new.contains_key(name);
        let stored = Change::of(stored(definitions.0, name), stored(definitions.1, name)).filter(|_| both);
        let versions = Change { old: versions(old, name), new: versions(new, name) };
        (versions.old != versions.new || stored.is_some()).then(|| CrdChange { name: name.clone(), versions, stored })
    };
    names.into_iter().filter_map(change).collect()
}

/// Compares the fields of CRDs that both bundles define.
fn fields(old: &[Crd], new: &[Crd]) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    for crd in new {
        let Some(before) = old.iter().find(|before| before.name == crd.name) else { continue };
        crd_fields(before, crd, &mut changes);
    }
    changes
}

fn crd_fields(old: &Crd, new: &Crd, changes: &mut Vec<FieldChange>) {
    let mut add = |what, path: &str, narrows, detail: String| {
        changes.push(FieldChange { crd: new.name.clone(), path: path.to_owned(), what, narrows, detail });
    };
    // Added and removed versions are reported separately.
    let version = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
    let versions = |crd: &Crd| -> BTreeSet<String> { crd.fields.keys().map(|path| version(path)).collect() };
    let (before, after) = (versions(old), versions(new));
    for (path, field) in &new.fields {
        match old.fields.get(path) {
            None if before.contains(&version(path)) => {
                let required = if field.required { ", required" } else { "" };
                add(ChangeKind::Added, path, field.required, format!("{}{required}", field.kind));
            }
            None => {}
            Some(was) => {
                if was.kind != field.kind {
                    add(ChangeKind::Changed, path, true, format!("is {} instead of {}", field.kind, was.kind));
                }
                if field.required && !was.required {
                    add(ChangeKind::Changed, path, true, "is required now".to_owned());
                }
                let gone: Vec<&str> = was.values.difference(&field.values).map(String::as_str).collect();
                if !field.values.is_empty() && (!gone.is_empty() || was.values.is_empty()) {
                    let detail = match gone.as_slice() {
                        [] => "allows only some values now".to_owned(),
                        gone => format!("no longer allows {}", gone.join(", ")),
                    };
                    add(ChangeKind::Changed, path, true, detail);
                }
            }
        }
    }
    for path in old.fields.keys().filter(|path| !new.fields.contains_key(*path)) {
        // The report of a removed field covers its nested fields.
        let parent = path.rsplit_once('.').map(|(parent, _)| parent);
        let with_it = parent.is_some_and(|parent| old.fields.contains_key(parent) && !new.fields.contains_key(parent));
        if after.contains(&version(path)) && !with_it {
            add(ChangeKind::Removed, path, true, String::new());
        }
    }
}
