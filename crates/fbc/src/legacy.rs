//! The original catalog format, in which bundles declare their channels as properties.

use std::collections::{BTreeMap, BTreeSet};

use crate::blob::{Blob, BlobContent, Bundle, CHANNEL, ChannelEntry, Fbc, TextAt, channel_json};
use crate::json::{JsonKind, Raw};
use crate::path;
use crate::problem::{Problem, ProblemStage};
use crate::property;
use crate::shape::Shape;

/// The channels, skips and skip ranges of one bundle, with the index of each property.
#[derive(Debug, Default)]
pub(crate) struct LegacyProperties {
    channels: Vec<(usize, Option<OldChannel>)>,
    skips: Vec<(usize, Option<Box<str>>)>,
    skip_ranges: Vec<(usize, Option<Box<str>>)>,
    /// Whether the properties were converted to channel blobs and must not be printed.
    pub(crate) consumed: bool,
}

#[derive(Debug)]
struct OldChannel {
    name: Box<str>,
    replaces: Box<str>,
}

impl LegacyProperties {
    /// Records a property; a value of the wrong type is reported only if the package uses the legacy format.
    pub(crate) fn add(&mut self, index: usize, kind: &str, value: Option<Raw<'_>>) {
        let fits = |shape: Shape| value.is_some_and(|value| shape.check(value, &path![]).is_ok());
        let string = || {
            let text = value.filter(|_| fits(property::FIRST_FORM_TEXT)).and_then(Raw::as_str);
            text.map(|text| text.as_ref().into())
        };
        match kind {
            property::SKIPS => self.skips.push((index, string())),
            property::SKIP_RANGE => self.skip_ranges.push((index, string())),
            _ => {
                let object = value.filter(|value| value.kind() == JsonKind::Object);
                if object.is_some_and(|value| value.get("name").is_none()) {
                    return; // today's internal form
                }
                let channel = object.filter(|_| fits(property::FIRST_FORM_CHANNEL));
                let channel = channel.map(|value| OldChannel {
                    name: value.get_str("name").into(),
                    replaces: value.get_str("replaces").into(),
                });
                self.channels.push((index, channel));
            }
        }
    }

    pub(crate) fn into_option(self) -> Option<Box<LegacyProperties>> {
        let empty = self.channels.is_empty() && self.skips.is_empty() && self.skip_ranges.is_empty();
        (!empty).then(|| Box::new(self))
    }

    /// Returns the indexes and types of the properties, unless they were converted.
    fn unused(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let channels = self.channels.iter().map(|(index, _)| (*index, property::CHANNEL));
        let skips = self.skips.iter().map(|(index, _)| (*index, property::SKIPS));
        let ranges = self.skip_ranges.iter().map(|(index, _)| (*index, property::SKIP_RANGE));
        channels.chain(skips).chain(ranges).filter(|_| !self.consumed)
    }

    fn names_a_channel(&self) -> bool {
        self.channels.iter().any(|(_, channel)| channel.is_some())
    }
}

impl Bundle {
    /// Returns the indexes and types of the properties that declare channels, skips and skip ranges as in the original
    /// format, unless they became channel blobs.
    pub fn unused_legacy(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.old_form.iter().flat_map(|old| old.unused())
    }
}

/// The entries of a package's channels, by channel name.
type Channels = BTreeMap<Box<str>, BTreeMap<Box<str>, ChannelEntry>>;

/// Generates channel blobs for the packages among the blobs from `first` on that declare channels only as bundle
/// properties.
pub(crate) fn convert(fbc: &mut Fbc, first: usize, problems: &mut Vec<Problem>) {
    let names = |fbc: &Fbc, wanted: fn(&Blob) -> bool| -> BTreeSet<Box<str>> {
        fbc.blobs[first..].iter().filter(|blob| wanted(blob)).map(|blob| blob.package.clone()).collect()
    };
    let hints = names(fbc, |blob| match &blob.content {
        BlobContent::Bundle(bundle) => bundle.old_form.as_ref().is_some_and(|old| old.names_a_channel()),
        _ => false,
    });
    if hints.is_empty() {
        return;
    }
    let packages = names(fbc, |blob| &*blob.schema == crate::blob::PACKAGE);
    let with_channels = names(fbc, |blob| &*blob.schema == CHANNEL);
    let mut channels: BTreeMap<Box<str>, Channels> = hints
        .into_iter()
        .filter(|name| packages.contains(name) && !with_channels.contains(name))
        .map(|name| (name, BTreeMap::new()))
        .collect();
    for blob in &mut fbc.blobs[first..] {
        if let Some(channels) = channels.get_mut(&blob.package) {
            convert_bundle(blob, channels, problems);
        }
    }
    let generated = channels.into_iter().flat_map(|(package, channels)| {
        channels
            .into_iter()
            .map(move |(name, entries)| (package.clone(), name, entries.into_values().collect::<Vec<_>>()))
    });
    for (package, name, entries) in generated {
        let text = channel_json(&package, &name, &entries, None);
        let length = text.len();
        // Without the temporary file there is no text; reading it then reports an error.
        let text = fbc.store.put(text.as_bytes()).map_or(TextAt::Dropped, |offset| TextAt::Store { offset, length });
        fbc.blobs.push(Blob {
            schema: CHANNEL.into(),
            package,
            name,
            content: BlobContent::Channel { entries },
            origin: None,
            text,
            known: None,
            may_have_unknown_fields: false,
        });
    }
}

fn convert_bundle(blob: &mut Blob, channels: &mut Channels, problems: &mut Vec<Problem>) {
    crate::step_counter::step();
    let (package, name) = (blob.package.clone(), blob.name.clone());
    let origin = blob.origin;
    let mut report = |index: Option<usize>, rule, message: String, help: &str| {
        let path = index.map_or_else(|| path!["name"], |index| path!["properties", index]);
        let mut problem = Problem::new(rule, ProblemStage::Load, message).about(&package, "", &name).help(help);
        problem.place = origin.map(|(file, document)| crate::problem::Place {
            file,
            spot: crate::problem::Spot::Value { document, path },
        });
        problems.push(problem);
    };
    let BlobContent::Bundle(bundle) = &mut blob.content else { return };
    let mut none = LegacyProperties::default();
    let old = bundle.old_form.as_deref_mut().unwrap_or(&mut none);
    old.consumed = true;
    if old.channels.is_empty() {
        let message = format!("bundle \"{name}\" is missing channel information");
        report(None, "old-form-channel", message, "add an olm.channel property or an olm.channel blob");
    }
    let mut skips = Vec::new();
    for (index, skip) in &old.skips {
        match skip {
            Some(skip) if !skip.is_empty() => skips.push(skip.clone()),
            Some(_) => {
                let message = format!("bundle \"{name}\": property of type \"olm.skips\" is empty");
                report(Some(*index), "old-form-skips", message, "set it to the name of the skipped bundle");
            }
            None => {
                let message = format!("bundle \"{name}\": value of property \"olm.skips\" is not a string");
                report(Some(*index), "old-form-skips", message, "use one property per skipped bundle");
            }
        }
    }
    let mut skip_range = Box::default();
    for (number, (index, range)) in old.skip_ranges.iter().enumerate() {
        match range {
            Some(range) if number == 0 => skip_range = range.clone(),
            Some(_) => {
                let message = format!("bundle \"{name}\" has more than one property of type \"olm.skipRange\"");
                report(Some(*index), "old-form-skip-range", message, "join the ranges with \" || \"");
            }
            None => {
                let message = format!("bundle \"{name}\": value of property \"olm.skipRange\" is not a string");
                report(Some(*index), "old-form-skip-range", message, "write the range as a string");
            }
        }
    }
    for (index, channel) in &old.channels {
        let Some(channel) = channel else {
            let message = format!("bundle \"{name}\": value of property \"olm.channel\" is not an object of strings");
            report(Some(*index), "old-form-channel", message, "write {name: CHANNEL, replaces: BUNDLE}");
            continue;
        };
        if channel.name.is_empty() {
            let message = format!("bundle \"{name}\": property of type \"olm.channel\" has an empty name");
            report(Some(*index), "old-form-channel", message, "name the channel");
            continue;
        }
        let entry = ChannelEntry {
            name: name.clone(),
            replaces: channel.replaces.clone(),
            skips: skips.clone(),
            skip_range: skip_range.clone(),
        };
        if channels.entry(channel.name.clone()).or_default().insert(name.clone(), entry).is_some() {
            let message =
                format!("bundle \"{name}\" has two \"olm.channel\" properties for channel \"{}\"", channel.name);
            report(Some(*index), "old-form-channel", message, "keep one of them");
        }
    }
}
