//! Catalogs for tests in a compact notation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use catalog::{Catalog, Warnings};
use fbc::{Fbc, Limits, LoadReport};

use super::{DiffSide, EntrySelection};

/// An in-memory catalog for tests.
pub(super) struct Sample {
    pub(super) fbc: Fbc,
    pub(super) catalog: Catalog,
}

impl Sample {
    /// Builds a catalog from lines. `foo stable: 1 2<1 3<2-1` is a channel: version 2 replaces 1, version 3 replaces 2
    /// and skips 1; the bundles are named `foo.v1` and so on. The first channel of a package is the default. `foo.v2
    /// TYPE=VALUE` adds a property to a bundle, and `foo.v2 image=IMAGE` sets its image.
    pub(super) fn new(text: &str) -> Sample {
        let mut channels: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        let mut bundles: BTreeMap<String, (String, String, String)> = BTreeMap::new();
        let mut extras = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (first, rest) = line.split_once(' ').expect("two words");
            if let Some((channel, entries)) = rest.split_once(':').filter(|(channel, _)| !channel.contains('=')) {
                let entries: Vec<&str> = entries.split_whitespace().collect();
                for entry in &entries {
                    let version = entry.split(['<', '-']).next().expect("a version");
                    let name = format!("{first}.v{version}");
                    let image = format!("registry.example/{name}");
                    bundles.entry(name).or_insert((first.to_owned(), version.to_owned(), image));
                }
                channels.push((first, channel, entries));
            } else {
                extras.push((first, rest));
            }
        }
        let mut fbc = Fbc::default();
        let mut add = |json: String| {
            fbc.add_generated(&json, &Limits::default()).unwrap_or_else(|error| panic!("{error}: {json}"))
        };
        let mut seen = Vec::new();
        for (package, channel, entries) in channels {
            if !seen.contains(&package) {
                seen.push(package);
                add(format!(r#"{{"schema":"olm.package","name":"{package}","defaultChannel":"{channel}"}}"#));
            }
            let entries: Vec<String> = entries.iter().map(|entry| entry_json(package, entry)).collect();
            let entries = entries.join(",");
            add(format!(
                r#"{{"schema":"olm.channel","package":"{package}","name":"{channel}","entries":[{entries}]}}"#
            ));
        }
        for (name, (package, version, mut image)) in bundles {
            let mut properties =
                format!(r#"{{"type":"olm.package","value":{{"packageName":"{package}","version":"{version}.0.0"}}}}"#);
            for (_, extra) in extras.iter().filter(|(bundle, _)| *bundle == name) {
                match extra.split_once('=').expect("a value") {
                    ("image", value) => image = value.to_owned(),
                    (kind, value) => {
                        let _ = write!(properties, r#",{{"type":"{kind}","value":{value}}}"#);
                    }
                }
            }
            add(format!(
                r#"{{"schema":"olm.bundle","name":"{name}","package":"{package}","image":"{image}","properties":[{properties}]}}"#
            ));
        }
        let checked = catalog::check(&fbc, LoadReport::default(), Warnings::Off);
        let catalog = checked.catalog.unwrap_or_else(|problems| panic!("{problems:?}"));
        Sample { fbc, catalog }
    }

    pub(super) fn side(&self) -> DiffSide<'_, '_> {
        DiffSide { fbc: &self.fbc, catalog: &self.catalog }
    }
}

fn entry_json(package: &str, entry: &str) -> String {
    let parts = entry.split_inclusive(['<', '-']);
    let mut json = String::new();
    let (mut skips, mut sign) = (Vec::new(), ' ');
    for part in parts {
        let name = format!("{package}.v{}", part.trim_end_matches(['<', '-']));
        match sign {
            '<' => {
                let _ = write!(json, r#","replaces":"{name}""#);
            }
            '-' => skips.push(format!("\"{name}\"")),
            _ => {
                let _ = write!(json, r#""name":"{name}""#);
            }
        }
        sign = part.chars().last().unwrap_or(' ');
    }
    format!(r#"{{{json},"skips":[{}]}}"#, skips.join(","))
}

/// Formats a selection, one line per channel.
pub(super) fn shown(selection: &EntrySelection<'_>) -> String {
    let mut lines: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (package, channel, bundle) in selection.names() {
        lines
            .entry((package, channel))
            .or_default()
            .push(bundle.split_once('.').map_or(bundle, |(_, version)| version));
    }
    let lines =
        lines.into_iter().map(|((package, channel), bundles)| format!("{package} {channel}: {}\n", bundles.join(" ")));
    lines.collect()
}
