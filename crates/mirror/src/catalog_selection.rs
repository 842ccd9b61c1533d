//! A part of a catalog: selected, with the images it needs, and written as a catalog.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::slice;
use std::sync::{Mutex, PoisonError};

use catalog::needs::BundleNeeds;
use edit::Outline;
use edit::deprecate::DeprecationTarget;
use edit::filter::AllFacts;
use edit::filter::image_set::{self, ImageSetRequest};
use edit::remove::{Removal, remove};
use edit::upgrades::{self, ChannelReport, Offered};
use fbc::blob::{BUNDLE, TextBuffer};
use fbc::json::Raw;
use fbc::{Blob, Fbc, Format, LoadOptions, Problem};
use image::Digest;
use resolve::input::{CatalogInput, InputReader};
use source::Invalid;

use crate::MirrorError;
use crate::error::at;
use crate::lock::LockedPackage;

/// Maximum number of bundles in a note.
const SHOWN: usize = 3;

/// A loaded catalog and its selected part.
pub(crate) struct CatalogSelection {
    fbc: Fbc,
    limits: fbc::Limits,
    /// The selected packages, channels and bundles.
    pub(crate) outline: Outline,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
    /// What bundles provide and require; after the selection, of the selected bundles only.
    facts: AllFacts,
}

/// An image that a bundle needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needed {
    /// The image, as referenced by the bundle.
    pub(crate) image: String,
    /// Whether it is the bundle image itself.
    pub(crate) is_bundle: bool,
    /// The package of the bundle.
    pub(crate) package: String,
    pub(crate) bundle: String,
}

impl CatalogSelection {
    /// Loads a catalog; everything is selected at first. With a reader, the catalog must be valid, and is also returned as
    /// clusters see it.
    ///
    /// # Errors
    /// Fails with all errors when the catalog cannot be loaded.
    pub(crate) fn read(
        root: &Path,
        limits: &fbc::Limits,
        reader: Option<InputReader>,
    ) -> Result<(CatalogSelection, Option<CatalogInput>), MirrorError> {
        let rules = catalog::inspect(catalog::Warnings::Off);
        let facts: Mutex<AllFacts> = Mutex::new(HashMap::new());
        let look = |blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>| {
            if let Some(reader) = &reader {
                rules(blob, text, problems);
                reader.add(blob, text);
            }
            if &*blob.schema == BUNDLE {
                let read = BundleNeeds::read(text);
                let mut facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
                facts.entry((blob.package.to_string(), blob.name.to_string())).or_insert(read);
            }
        };
        let mut fbc = Fbc::default();
        let options =
            LoadOptions { limits: limits.clone(), keep_text: true, inspect: Some(&look), ..LoadOptions::default() };
        let loaded = fbc.load_dir(root, &options).map_err(at(root))?;
        let served = match reader {
            Some(reader) => {
                let checked = catalog::check(&fbc, loaded, catalog::Warnings::Off);
                if let Err(problems) = checked.catalog {
                    return Err(MirrorError::Rules(Box::new(Invalid { fbc, problems })));
                }
                Some(reader.finish(&fbc))
            }
            None if loaded.problems.is_empty() => None,
            None => {
                let problems = loaded.problems.into_iter().map(|problem| MirrorError::Problem(problem.message));
                return Err(MirrorError::Several(problems.collect()));
            }
        };
        let outline = Outline::new(&fbc);
        let facts = facts.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((CatalogSelection { fbc, limits: limits.clone(), outline, notes: Vec::new(), facts }, served))
    }

    /// Selects the requested parts of catalogs that a cluster installs together; without a request, all of a catalog.
    /// Returns the problems of each catalog.
    pub(crate) fn choose(parts: &mut [(&mut CatalogSelection, Option<&ImageSetRequest>)]) -> Vec<Vec<String>> {
        let before: Vec<Outline> = parts.iter().map(|(part, _)| part.outline.clone()).collect();
        let mut sides: Vec<image_set::ImageSetCatalog<'_>> = parts
            .iter_mut()
            .map(|(part, request)| {
                let CatalogSelection { outline, facts, .. } = &mut **part;
                image_set::ImageSetCatalog { outline, request: *request, facts }
            })
            .collect();
        let outcomes = image_set::choose_all(&mut sides);
        let complete = outcomes.iter().all(Result::is_ok);
        let mut problems = Vec::new();
        for ((part, _), outcome) in parts.iter_mut().zip(outcomes) {
            let shown = |refusal: edit::EditRefusal| match refusal.help {
                Some(help) => format!("{}; {help}", refusal.message),
                None => refusal.message,
            };
            problems.push(match outcome {
                Ok(notes) => {
                    part.notes = notes;
                    Vec::new()
                }
                Err(refused) => refused.into_iter().map(shown).collect(),
            });
            // Drop the facts of the other bundles, because catalogs are large.
            let CatalogSelection { outline, facts, .. } = &mut **part;
            facts.retain(|(package, bundle), _| {
                outline.packages.get(package).is_some_and(|package| package.bundles.contains_key(bundle))
            });
            facts.shrink_to_fit();
        }
        if complete && parts.iter().any(|(_, request)| request.is_some()) {
            let chosen: Vec<&CatalogSelection> = parts.iter().map(|(part, _)| &**part).collect();
            match stranded(&chosen, before, "the mirror") {
                Ok(notes) => parts.iter_mut().zip(notes).for_each(|((part, _), notes)| part.notes.extend(notes)),
                Err(error) => problems.iter_mut().for_each(|problems| problems.push(error.to_string())),
            }
        }
        problems
    }

    /// Reports bundles that have an upgrade in an earlier mirrored catalog but not in this one.
    ///
    /// # Errors
    /// Fails when a catalog can no longer be read.
    pub(crate) fn stranded_since(&self, root: &Path) -> io::Result<Vec<String>> {
        let mut fbc = Fbc::default();
        let options = LoadOptions { limits: self.limits.clone(), keep_text: true, ..LoadOptions::default() };
        match fbc.load_dir(root, &options) {
            Ok(loaded) if loaded.problems.is_empty() => {
                let earlier = Outline::new(&fbc);
                let earlier_source = upgrades::source_of(&fbc, &earlier)?;
                let earlier = kept_channels(earlier, &self.outline);
                let source = upgrades::source_of(&self.fbc, &self.outline)?;
                let reports = upgrades::compare(
                    Offered { outlines: &[earlier], sources: &[earlier_source] },
                    Offered { outlines: slice::from_ref(&self.outline), sources: &[source] },
                );
                Ok(notes(&reports.concat(), "this set, and found one in the last"))
            }
            // There is no complete earlier catalog.
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the images of all selected bundles: bundle images and related images.
    ///
    /// # Errors
    /// Fails when the catalog can no longer be read.
    pub(crate) fn images(&self) -> io::Result<BTreeSet<Needed>> {
        let mut found = BTreeSet::new();
        let mut buffer = TextBuffer::default();
        for (package, kept) in &self.outline.packages {
            for (name, bundle) in &kept.bundles {
                let Some(blob) = bundle.blob.and_then(|index| self.fbc.blobs().get(index)) else { continue };
                let text = self.fbc.text(blob, &mut buffer)?;
                let needed = |image: String, is_bundle: bool| Needed {
                    image,
                    is_bundle,
                    package: package.clone(),
                    bundle: name.clone(),
                };
                let own = text.get("image").and_then(Raw::as_str).map(|image| image.into_owned()).unwrap_or_default();
                let related = text.get_items("relatedImages");
                for image in related.filter_map(|image| image.get("image").and_then(Raw::as_str)) {
                    if *image != *own {
                        found.insert(needed(image.into_owned(), false));
                    }
                }
                // A bundle can embed its manifests and then has no image.
                if !own.is_empty() {
                    found.insert(needed(own, true));
                }
            }
        }
        Ok(found)
    }

    /// Returns the selected packages in the form of a lock.
    pub(crate) fn packages(&self) -> BTreeMap<String, LockedPackage> {
        let packages = self.outline.packages.iter().map(|(name, package)| {
            let channels = package.channels.iter().map(|(name, channel)| {
                let mut entries: Vec<String> = channel.entries.iter().map(|entry| entry.name.to_string()).collect();
                entries.sort();
                (name.clone(), entries)
            });
            let locked =
                LockedPackage { default_channel: package.default_channel.clone(), channels: channels.collect() };
            (name.clone(), locked)
        });
        packages.collect()
    }

    /// Removes bundles like `opm edit remove`: the entry that replaces one inherits its edges.
    ///
    /// # Errors
    /// Fails when nothing would be left.
    pub(crate) fn drop_bundles(&mut self, bundles: &BTreeSet<(String, String)>) -> Result<(), MirrorError> {
        let before = self.outline.clone();
        for (package, bundle) in bundles {
            let Some(kept) = self.outline.packages.get(package) else { continue };
            if !kept.bundles.contains_key(bundle) {
                continue;
            }
            let gone: BTreeSet<&str> = bundles.iter().filter(|(of, _)| of == package).map(|(_, it)| &**it).collect();
            if kept.bundles.keys().all(|name| gone.contains(name.as_str())) {
                self.notes.push(format!("package {package:?} is dropped: images of all its bundles are missing"));
                self.outline.packages.remove(package);
                continue;
            }
            // A default channel without bundles is dropped, and another channel becomes the default.
            let stays =
                |channel: &edit::outline::OutlineChannel| channel.entries.iter().any(|entry| *entry.name != **bundle);
            let default_stays = kept.channels.get(&kept.default_channel).is_some_and(stays);
            let other = kept.channels.iter().find(|(_, channel)| stays(channel)).map(|(name, _)| name.clone());
            let default_channel = if default_stays { None } else { other };
            let target = DeprecationTarget::Bundle { package: Some(package.clone()), bundle: bundle.clone() };
            let removal = Removal { default_channel, ..Removal::default() };
            self.notes.extend(remove(&mut self.outline, &target, &removal)?);
            self.notes.push(format!("{package}: {bundle:?} is dropped: one of its images is missing"));
        }
        if self.outline.packages.is_empty() {
            return Err(MirrorError::EmptyCatalog);
        }
        let place = "the mirror, because images are missing";
        let notes = stranded(&[&*self], vec![before], place)?;
        self.notes.extend(notes.into_iter().flatten());
        Ok(())
    }

    /// Returns the requirements of selected bundles that no bundle of these catalogs provides.
    pub(crate) fn unmet(parts: &[&CatalogSelection]) -> BTreeSet<String> {
        image_set::unmet(&parts.iter().map(|part| (&part.outline, &part.facts)).collect::<Vec<_>>())
    }

    /// Writes the selected part as a catalog, with a directory per package, and validates it.
    ///
    /// # Errors
    /// Fails when it cannot be written or is not valid.
    pub(crate) fn write(&self, directory: &Path) -> Result<Digest, MirrorError> {
        let named = at(directory);
        fs::create_dir_all(directory).map_err(&named)?;
        let mut sums = String::new();
        for (package, blobs) in self.blobs().map_err(&named)? {
            let place = match package.as_str() {
                "" => directory.to_owned(),
                name if !fbc::is_file_name(name) => {
                    return Err(MirrorError::PackageName(name.to_owned()));
                }
                name => directory.join(name),
            };
            fs::create_dir_all(&place).map_err(&named)?;
            let file = image::create_file(&place.join("catalog.json")).map_err(&named)?;
            let all: Vec<&Blob> = blobs.iter().map(SetBlob::blob).collect();
            let mut out = BufWriter::new(file);
            self.fbc.write(&all, Format::Json, &mut out).map_err(&named)?;
            out.flush().map_err(&named)?;
            let text = fs::read(place.join("catalog.json")).map_err(&named)?;
            sums += &format!("{}  {package}/catalog.json\n", Digest::of(&text).hex());
        }
        let rules = catalog::inspect(catalog::Warnings::Off);
        let options = LoadOptions { limits: self.limits.clone(), inspect: Some(&rules), ..LoadOptions::default() };
        let mut written = Fbc::default();
        let loaded = written.load_dir(directory, &options).map_err(&named)?;
        let checked = catalog::check(&written, loaded, catalog::Warnings::Off);
        let errors: Vec<String> = checked.errors().map(|problem| problem.message.clone()).collect();
        match errors.is_empty() {
            true => Ok(Digest::of(sums.as_bytes())),
            false => Err(MirrorError::InvalidPart(errors)),
        }
    }

    /// Returns the blobs of each package, modified where the selection requires it.
    fn blobs(&self) -> io::Result<BTreeMap<String, Vec<SetBlob<'_>>>> {
        let mut found: BTreeMap<String, Vec<SetBlob<'_>>> = BTreeMap::new();
        let plain = |index: &usize| SetBlob::Same(&self.fbc.blobs()[*index]);
        found.insert(String::new(), self.outline.globals.iter().map(plain).collect());
        let mut buffer = TextBuffer::default();
        for (name, package) in &self.outline.packages {
            let mut blobs = Vec::new();
            let mut text_of = |index: usize| -> io::Result<serde_json::Value> {
                let text = self.fbc.text(&self.fbc.blobs()[index], &mut buffer)?;
                serde_json::from_str(text.text()).map_err(io::Error::other)
            };
            let make = |value: &serde_json::Value| {
                self.fbc.generated_blob(&value.to_string(), &self.limits).map(SetBlob::Changed)
            };
            if let Some(index) = package.blob {
                let mut text = text_of(index)?;
                if text["defaultChannel"] != *package.default_channel {
                    text["defaultChannel"] = package.default_channel.clone().into();
                    blobs.push(make(&text)?);
                } else {
                    blobs.push(plain(&index));
                }
            }
            for channel in package.channels.values() {
                let Some(index) = channel.blob else { continue };
                let mut text = text_of(index)?;
                text["entries"] = entries(&text["entries"], &channel.entries);
                blobs.push(make(&text)?);
            }
            for bundle in package.bundles.values() {
                blobs.extend(bundle.blob.as_ref().map(plain));
            }
            if let Some(deprecations) = &package.deprecations
                && let Some(index) = deprecations.blob
            {
                let mut text = text_of(index)?;
                let kept = |value: &serde_json::Value| {
                    deprecations.entries.iter().any(|entry| {
                        let reference = &value["reference"];
                        reference["schema"] == *entry.schema
                            && reference["name"].as_str().unwrap_or_default() == &*entry.name
                    })
                };
                if let Some(list) = text["entries"].as_array_mut() {
                    list.retain(kept);
                }
                blobs.push(make(&text)?);
            }
            blobs.extend(package.others.iter().map(plain));
            found.insert(name.clone(), blobs);
        }
        found.retain(|_, blobs| !blobs.is_empty());
        Ok(found)
    }
}

/// Reports for each catalog the installed bundles that reached the head before, but not with the selected parts, which
/// clusters use together.
fn stranded(parts: &[&CatalogSelection], before: Vec<Outline>, place: &str) -> io::Result<Vec<Vec<String>>> {
    let mut old_sources = Vec::new();
    let mut old_outlines = Vec::new();
    let mut new_sources = Vec::new();
    for (part, before) in parts.iter().zip(before) {
        old_sources.push(upgrades::source_of(&part.fbc, &before)?);
        new_sources.push(upgrades::source_of(&part.fbc, &part.outline)?);
        old_outlines.push(kept_channels(before, &part.outline));
    }
    let new_outlines: Vec<Outline> = parts.iter().map(|part| part.outline.clone()).collect();
    let reports = upgrades::compare(
        Offered { outlines: &old_outlines, sources: &old_sources },
        Offered { outlines: &new_outlines, sources: &new_sources },
    );
    Ok(reports.iter().map(|reports| notes(reports, place)).collect())
}

/// Returns the packages and channels of a catalog that another one has too: the user did not choose the others.
fn kept_channels(mut before: Outline, kept: &Outline) -> Outline {
    before.packages.retain(|name, _| kept.packages.contains_key(name));
    for (name, package) in &mut before.packages {
        package.channels.retain(|channel, _| kept.packages[name].channels.contains_key(channel));
    }
    before
}

fn notes(reports: &[ChannelReport], place: &str) -> Vec<String> {
    let notes = reports.iter().filter_map(|report| {
        let lost: Vec<&str> =
            report.outcomes.iter().filter(|it| it.is_regression()).map(|it| it.bundle.as_str()).collect();
        let more = if lost.len() > SHOWN { format!(" and {} others", lost.len() - SHOWN) } else { String::new() };
        let names = lost.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
        let (package, channel) = (&report.package, &report.channel);
        (!lost.is_empty()).then(|| {
            format!("{package}: clusters that run {names}{more} find no upgrade in channel {channel:?} of {place}")
        })
    });
    notes.collect()
}

/// A blob of the selected part.
enum SetBlob<'a> {
    /// Unchanged.
    Same(&'a Blob),
    /// Modified.
    Changed(Blob),
}

impl SetBlob<'_> {
    fn blob(&self) -> &Blob {
        match self {
            SetBlob::Same(blob) => blob,
            SetBlob::Changed(blob) => blob,
        }
    }
}

/// Returns the selected entries of a channel: as written, unless their edges changed.
fn entries(written: &serde_json::Value, kept: &[fbc::blob::ChannelEntry]) -> serde_json::Value {
    let list = kept.iter().map(|entry| {
        let old = written.as_array().into_iter().flatten().find(|old| old["name"] == *entry.name);
        let mut value = old.cloned().unwrap_or_else(|| serde_json::json!({"name": &*entry.name}));
        if value["replaces"].as_str().unwrap_or_default() != &*entry.replaces {
            value["replaces"] = (*entry.replaces).into();
        }
        let skips: Vec<&str> = value["skips"].as_array().into_iter().flatten().filter_map(|it| it.as_str()).collect();
        if !skips.iter().copied().eq(entry.skips.iter().map(|skip| &**skip)) {
            value["skips"] = entry.skips.iter().map(|skip| skip.to_string()).collect::<Vec<_>>().into();
        }
        if value["skipRange"].as_str().unwrap_or_default() != &*entry.skip_range {
            value["skipRange"] = (*entry.skip_range).into();
        }
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        value
    });
    serde_json::Value::Array(list.collect())
}
