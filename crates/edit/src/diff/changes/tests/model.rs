//! A catalog as a value that differences can be applied to.

use super::*;

/// The content of a catalog, as far as differences cover it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Model(pub(super) BTreeMap<String, ModelPackage>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ModelPackage {
    pub(super) default_channel: Option<String>,
    pub(super) channels: BTreeMap<String, BTreeMap<String, ModelEntry>>,
    pub(super) bundles: BTreeMap<String, ModelBundle>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ModelEntry {
    pub(super) replaces: Option<String>,
    pub(super) skips: BTreeSet<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ModelBundle {
    pub(super) image: Option<String>,
    pub(super) properties: BTreeSet<PropertyDifference>,
}

impl Model {
    pub(super) fn of(sample: &Sample) -> Model {
        let mut model = Model::default();
        for package in sample.catalog.packages() {
            let model = model.0.entry(package.name().to_owned()).or_default();
            model.default_channel = Some(package.default_channel().name().to_owned());
            for channel in package.channels() {
                let entries = model.channels.entry(channel.name().to_owned()).or_default();
                for entry in channel.entries() {
                    let replaces = Some(entry.replaces.to_string()).filter(|it| !it.is_empty());
                    entries.insert(
                        entry.name.to_string(),
                        ModelEntry { replaces, skips: entry.skips.iter().map(|skip| skip.to_string()).collect() },
                    );
                }
            }
            for (name, bundle) in package.bundles() {
                let blob = &sample.fbc.blobs()[bundle.blob];
                let mut buffer = TextBuffer::default();
                let text = sample.fbc.text(blob, &mut buffer).unwrap();
                model.bundles.insert(
                    name.to_owned(),
                    ModelBundle { image: Some(bundle.image.clone()), properties: properties(text) },
                );
            }
        }
        model
    }

    pub(super) fn apply(&mut self, changes: &CatalogChanges) {
        for change in &changes.packages {
            if change.what == ChangeKind::Removed {
                self.0.remove(&change.name);
                continue;
            }
            let package = self.0.entry(change.name.clone()).or_default();
            if let Some(default) = &change.default_channel {
                package.default_channel.clone_from(&default.new);
            }
            for channel in &change.channels {
                if channel.what == ChangeKind::Removed {
                    package.channels.remove(&channel.name);
                    continue;
                }
                let entries = package.channels.entry(channel.name.clone()).or_default();
                for entry in &channel.entries {
                    if entry.what == ChangeKind::Removed {
                        entries.remove(&entry.bundle);
                        continue;
                    }
                    let model = entries.entry(entry.bundle.clone()).or_default();
                    if let Some(replaces) = &entry.replaces {
                        model.replaces.clone_from(&replaces.new);
                    }
                    apply(&mut model.skips, &entry.skips);
                }
            }
            for bundle in &change.bundles {
                if bundle.what == ChangeKind::Removed {
                    package.bundles.remove(&bundle.name);
                    continue;
                }
                let model = package.bundles.entry(bundle.name.clone()).or_default();
                if let Some(image) = &bundle.image {
                    model.image.clone_from(&image.new);
                }
                apply(&mut model.properties, &bundle.properties);
            }
        }
    }
}

fn apply<T: Ord + Clone>(set: &mut BTreeSet<T>, difference: &Difference<T>) {
    difference.removed.iter().for_each(|item| assert!(set.remove(item), "only existing items can be removed"));
    difference.added.iter().for_each(|item| assert!(set.insert(item.clone()), "only new items can be added"));
}
