//! A part of a catalog: chosen, with the images it needs, and written as a catalog of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use catalog::needs::Facts;
use edit::Outline;
use edit::deprecate::Target;
use edit::filter::AllFacts;
use edit::filter::image_set::{self, Request};
use edit::remove::{Removal, remove};
use edit::upgrades::{self, Forbidden, Side, Unmet};
use fbc::blob::{BUNDLE, TextBuffer};
use fbc::json::Raw;
use fbc::{Blob, Fbc, Format, LoadOptions, Problem};
use image::Digest;

use crate::lock::LockedPackage;

/// How many bundles a note names.
const SHOWN: usize = 3;

/// A catalog that was read, and what is kept of it.
pub struct Part {
    fbc: Fbc,
    limits: fbc::Limits,
    /// What is kept.
    pub outline: Outline,
    /// What else the user should know.
    pub notes: Vec<String>,
    /// What its bundles offer and need; of those that are kept, once the choice is made.
    facts: AllFacts,
}

/// An image that a bundle needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// The image, as the bundle names it.
    pub image: String,
    /// It is the image of the bundle itself.
    pub is_bundle: bool,
    /// The package of the bundle.
    pub package: String,
    /// The bundle.
    pub bundle: String,
}

impl Part {
    /// Reads a catalog, all of which is kept so far.
    ///
    /// # Errors
    /// Fails with every reason when the catalog cannot be read.
    pub fn read(root: &Path, limits: &fbc::Limits) -> Result<Part, Vec<String>> {
        let facts: Mutex<AllFacts> = Mutex::new(HashMap::new());
        let look = |blob: &Blob, text: Raw<'_>, _: &mut Vec<Problem>| {
            if &*blob.schema == BUNDLE {
                let read = Facts::read(text);
                let mut facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
                facts.entry((blob.package.to_string(), blob.name.to_string())).or_insert(read);
            }
        };
        let mut fbc = Fbc::default();
        let options =
            LoadOptions { limits: limits.clone(), keep_text: true, inspect: Some(&look), ..LoadOptions::default() };
        let loaded = fbc.load_dir(root, &options).map_err(|error| vec![format!("{}: {error}", root.display())])?;
        if !loaded.problems.is_empty() {
            return Err(loaded.problems.iter().map(|problem| problem.message.clone()).collect());
        }
        let outline = Outline::new(&fbc);
        let facts = facts.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Part { fbc, limits: limits.clone(), outline, notes: Vec::new(), facts })
    }

    /// Takes the parts that are asked for of catalogs that a cluster has at once; with nothing asked for, all of one.
    /// Returns what is wrong with each.
    pub fn choose(parts: &mut [(&mut Part, Option<&Request>)]) -> Vec<Vec<String>> {
        let before: Vec<Outline> = parts.iter().map(|(part, _)| part.outline.clone()).collect();
        let mut sides: Vec<image_set::Side<'_>> = parts
            .iter_mut()
            .map(|(part, request)| {
                let Part { outline, facts, .. } = &mut **part;
                image_set::Side { outline, request: *request, facts }
            })
            .collect();
        let outcomes = image_set::choose_all(&mut sides);
        let mut wrong = Vec::new();
        for (((part, _), before), outcome) in parts.iter_mut().zip(before).zip(outcomes) {
            let shown = |refusal: edit::Refusal| match refusal.help {
                Some(help) => format!("{}; {help}", refusal.message),
                None => refusal.message,
            };
            wrong.push(match outcome {
                Ok(notes) => {
                    part.notes = notes;
                    part.notes.extend(stranded(before, &part.outline, "the mirror"));
                    Vec::new()
                }
                Err(refused) => refused.into_iter().map(shown).collect(),
            });
            // The rest has done its work, and catalogs are large.
            let Part { outline, facts, .. } = &mut **part;
            facts.retain(|(package, bundle), _| {
                outline.packages.get(package).is_some_and(|package| package.bundles.contains_key(bundle))
            });
            facts.shrink_to_fit();
        }
        wrong
    }

    /// Reports who found an upgrade in another catalog, which was mirrored before, and finds none in this one.
    pub fn stranded_since(&self, root: &Path) -> Vec<String> {
        let mut fbc = Fbc::default();
        let options = LoadOptions { limits: self.limits.clone(), ..LoadOptions::default() };
        match fbc.load_dir(root, &options) {
            Ok(loaded) if loaded.problems.is_empty() => {
                stranded(Outline::new(&fbc), &self.outline, "this set, and found one in the last")
            }
            // There is no earlier one, or not all of it.
            _ => Vec::new(),
        }
    }

    /// Returns the images of all kept bundles: their own, and those they name.
    ///
    /// # Errors
    /// Fails when the catalog cannot be read any more.
    pub fn images(&self) -> io::Result<BTreeSet<Needed>> {
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
                let related = text.get("relatedImages").into_iter().flat_map(Raw::items);
                for image in related.filter_map(|image| image.get("image").and_then(Raw::as_str)) {
                    if *image != *own {
                        found.insert(needed(image.into_owned(), false));
                    }
                }
                // A bundle can carry all it consists of, and then has no image.
                if !own.is_empty() {
                    found.insert(needed(own, true));
                }
            }
        }
        Ok(found)
    }

    /// Returns what is kept, as a lock has it.
    pub fn packages(&self) -> BTreeMap<String, LockedPackage> {
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

    /// Removes bundles, as `opm edit remove` does: the entry that replaced one takes over its edges.
    ///
    /// # Errors
    /// Fails when that would leave nothing.
    pub fn drop_bundles(&mut self, bundles: &BTreeSet<(String, String)>) -> Result<(), String> {
        let before = self.outline.clone();
        for (package, bundle) in bundles {
            let Some(kept) = self.outline.packages.get(package) else { continue };
            if !kept.bundles.contains_key(bundle) {
                continue;
            }
            let gone: BTreeSet<&str> = bundles.iter().filter(|(of, _)| of == package).map(|(_, it)| &**it).collect();
            if kept.bundles.keys().all(|name| gone.contains(name.as_str())) {
                self.notes.push(format!("package {package:?} goes: images of all its bundles are missing"));
                self.outline.packages.remove(package);
                continue;
            }
            // A default channel without bundles goes, and another one takes its place.
            let stays = |channel: &edit::outline::Channel| channel.entries.iter().any(|entry| *entry.name != **bundle);
            let default_stays = kept.channels.get(&kept.default_channel).is_some_and(stays);
            let other = kept.channels.iter().find(|(_, channel)| stays(channel)).map(|(name, _)| name.clone());
            let default_channel = if default_stays { None } else { other };
            let target = Target::Bundle { package: Some(package.clone()), bundle: bundle.clone() };
            let removal = Removal { default_channel, ..Removal::default() };
            match remove(&mut self.outline, &target, &removal) {
                Ok(notes) => self.notes.extend(notes),
                Err(refusal) => return Err(refusal.message),
            }
            self.notes.push(format!("{package}: {bundle:?} goes: an image of it is missing"));
        }
        if self.outline.packages.is_empty() {
            return Err("nothing of the catalog is left: every bundle lacks an image".to_owned());
        }
        self.notes.extend(stranded(before, &self.outline, "the mirror, for want of images"));
        Ok(())
    }

    /// Returns what bundles of these catalogs need that none of them has.
    pub fn unmet(parts: &[&Part]) -> BTreeSet<String> {
        image_set::unmet(&parts.iter().map(|part| (&part.outline, &part.facts)).collect::<Vec<_>>())
    }

    /// Writes what is kept as a catalog, a directory for each package, and checks it.
    ///
    /// # Errors
    /// Fails when it cannot be written, or would not be valid.
    pub fn write(&self, directory: &Path) -> Result<Digest, String> {
        let named = |error: io::Error| format!("{}: {error}", directory.display());
        fs::create_dir_all(directory).map_err(named)?;
        let mut sums = String::new();
        for (package, blobs) in self.blobs().map_err(named)? {
            let place = match package.as_str() {
                "" => directory.to_owned(),
                name if name.contains(['/', '\0']) || name.starts_with('.') => {
                    return Err(format!("{name:?} is no name of a directory"));
                }
                name => directory.join(name),
            };
            fs::create_dir_all(&place).map_err(named)?;
            let file = fs::File::create(place.join("catalog.json")).map_err(named)?;
            let all: Vec<&Blob> = blobs.iter().map(SetBlob::blob).collect();
            let mut out = BufWriter::new(file);
            self.fbc.write(&all, Format::Json, &mut out).map_err(named)?;
            out.flush().map_err(named)?;
            let text = fs::read(place.join("catalog.json")).map_err(named)?;
            sums += &format!("{}  {package}/catalog.json\n", Digest::of(&text).hex());
        }
        let rules = catalog::inspect(catalog::Warnings::Off);
        let options = LoadOptions { limits: self.limits.clone(), inspect: Some(&rules), ..LoadOptions::default() };
        let mut written = Fbc::default();
        let loaded = written.load_dir(directory, &options).map_err(named)?;
        let checked = catalog::check(&written, loaded, catalog::Warnings::Off);
        let errors: Vec<String> = checked.errors().map(|problem| problem.message.clone()).collect();
        match errors.is_empty() {
            true => Ok(Digest::of(sums.as_bytes())),
            false => Err(format!("what is kept would not be a valid catalog:\n  {}", errors.join("\n  "))),
        }
    }

    /// Returns the blobs of each package, changed where what is kept differs.
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

/// Reports who comes to the newest bundle with the whole catalog and not with what is kept of it.
fn stranded(mut before: Outline, kept: &Outline, place: &str) -> Vec<String> {
    before.packages.retain(|name, _| kept.packages.contains_key(name));
    for (name, package) in &mut before.packages {
        package.channels.retain(|channel, _| kept.packages[name].channels.contains_key(channel));
    }
    let (forbidden, unmet) = (Forbidden::new(), Unmet::new());
    let side = |outline| Side { outline, forbidden: &forbidden, unmet: &unmet };
    let reports = upgrades::check(side(&before), side(kept));
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

/// A blob of what is kept.
enum SetBlob<'a> {
    /// As it was.
    Same(&'a Blob),
    /// Changed.
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

/// Returns the entries of a channel that are kept: as they are written, unless their edges were changed.
fn entries(written: &serde_json::Value, kept: &[fbc::blob::Entry]) -> serde_json::Value {
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
