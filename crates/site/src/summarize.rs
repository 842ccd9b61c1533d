//! Extracts the page data of a package while its blobs are in memory.

use std::collections::{BTreeSet, HashMap};
use std::io;

use fbc::blob::{PACKAGE, TextBuffer};
use fbc::json::Raw;
use fbc::release::cmp_version_release;
use fbc::{Blob, BlobContent, Fbc, property};
use serde_json::Value;

use crate::csv::CsvDescription;
use crate::icon::{self, IconError};
use crate::rank;
use crate::summary::{ChannelSummary, Detail, EntrySummary, Icon, PackageSummary, Row, VersionSummary, digest};
use crate::text::summary;

/// The maximum length of the one-line summary, in characters.
const SUMMARY: usize = 130;
/// A longer blob of another schema is listed without its content.
const CUSTOM: usize = 16 << 10;
/// The maximum number of those blobs per package.
const CUSTOMS: usize = 50;
/// A longer description is not stored: pages would show it as plain text only.
const DESCRIPTION: usize = 256 << 10;

/// The maximum number of image repositories per package for search.
const IMAGES: usize = 200;
/// The maximum number of required packages per package.
const NEEDS: usize = 200;

/// The page data of a package, and the bytes of its icon.
pub struct Summarized {
    pub package: PackageSummary,
    /// Its icon; empty if it has none that can be used.
    pub icon: Vec<u8>,
}

/// Extracts the page data of a package from its bundles, passed one by one while their texts are in memory.
pub struct Summarizer<'a> {
    package: &'a catalog::Package,
    head: CsvDescription,
    head_icon: Option<Value>,
    bundles: Vec<ReadVersion<'a>>,
}

/// The page data of a bundle, and its related images: image, name.
struct ReadVersion<'a> {
    bundle: &'a catalog::Bundle,
    data: VersionSummary,
    images: Vec<(String, String)>,
}

impl<'a> Summarizer<'a> {
    /// Starts with a package.
    pub fn new(package: &'a catalog::Package) -> Summarizer<'a> {
        Summarizer { package, head: CsvDescription::default(), head_icon: None, bundles: Vec::new() }
    }

    /// Adds a bundle: its text, and its CSV or the CSV metadata in the catalog. Bundles arrive in any order.
    pub fn bundle(&mut self, name: &str, bundle: &'a catalog::Bundle, text: Raw<'_>, csv: Option<Raw<'_>>) {
        if name == &*self.package.default_channel().head().name {
            let value = csv.and_then(|csv| serde_json::from_str::<Value>(csv.text()).ok()).unwrap_or_default();
            self.head = CsvDescription::of(&value);
            self.head_icon = Some(value["spec"]["icon"][0].clone()).filter(|icon| !icon.is_null());
        }
        let (date, kube) = csv.map(dates).unwrap_or_default();
        let mut images = Vec::new();
        for image in text.get_items("relatedImages") {
            let of = |name: &str| image.get_str(name).into_owned();
            images.push((of("image"), of("name")));
        }
        let data = VersionSummary {
            name: name.to_owned(),
            version: bundle.version.to_string(),
            release: bundle.release.as_ref().map(ToString::to_string).unwrap_or_default(),
            date,
            kube,
            image: bundle.image.clone(),
            size: text.text().len() as u64,
            digest: digest(text.text().as_bytes()),
            deprecation: bundle.deprecation.clone(),
            properties: property::served(text).into_string(),
            images: Vec::new(),
        };
        self.bundles.push(ReadVersion { bundle, data, images });
    }

    /// Returns the page data. `blobs` are those of the package; bundles among them are ignored.
    ///
    /// # Errors
    /// Fails when files of the catalog changed.
    pub fn finish<'b>(mut self, fbc: &Fbc, blobs: impl IntoIterator<Item = &'b Blob>) -> io::Result<Summarized> {
        let package = self.package;
        let mut detail = Detail {
            default_channel: package.default_channel().name().to_owned(),
            deprecation: package.deprecation().map(str::to_owned),
            channels: package.channels().iter().map(channel).collect(),
            ..Detail::default()
        };
        self.bundles.sort_by(|a, b| a.data.name.cmp(&b.data.name));
        number_images(&mut self.bundles, &mut detail.images);
        self.bundles.sort_by(|a, b| {
            let [a, b] = [a.bundle, b.bundle];
            cmp_version_release((&b.version, b.release.as_ref()), (&a.version, a.release.as_ref()))
        });
        detail.bundles = self.bundles.into_iter().map(|read| read.data).collect();

        let mut problems = Vec::new();
        let package_icon = blobs_of(fbc, blobs, &mut detail)?;
        let (picture, icon) = choose_icon(self.head_icon.as_ref(), package_icon.as_ref(), &mut problems);
        let mut head = self.head;
        if head.description.len() > DESCRIPTION {
            problems.push(format!("the description has {} bytes and is not shown", head.description.len()));
            head.description.truncate(0);
        }
        let row = row(package, &detail, &head, picture, problems);
        detail.head = head.for_shelf();
        Ok(Summarized { package: PackageSummary { row, detail }, icon })
    }
}

/// Lists every image once, in the order of the bundles, and replaces the images of bundles by indexes into that list.
fn number_images(bundles: &mut [ReadVersion<'_>], listed: &mut Vec<String>) {
    let mut places: HashMap<String, u32> = HashMap::new();
    for read in bundles {
        for (image, name) in std::mem::take(&mut read.images) {
            let next = places.len() as u32;
            let place = *places.entry(image).or_insert_with_key(|image| {
                listed.push(image.clone());
                next
            });
            read.data.images.push((place, name));
        }
    }
}

fn channel(channel: &catalog::Channel) -> ChannelSummary {
    ChannelSummary {
        name: channel.name().to_owned(),
        head: channel.head().name.to_string(),
        deprecation: channel.deprecation().map(str::to_owned),
        entries: channel
            .entries()
            .iter()
            .map(|entry| EntrySummary {
                name: entry.name.to_string(),
                replaces: entry.replaces.to_string(),
                skips: entry.skips.iter().map(|skip| skip.to_string()).collect(),
                skip_range: entry.skip_range.to_string(),
            })
            .collect(),
    }
}

/// Returns the creation date of a bundle, and the minimum version of Kubernetes.
fn dates(csv: Raw<'_>) -> (String, String) {
    let string = |value: Option<Raw<'_>>| value.and_then(Raw::as_str).unwrap_or_default().trim().to_owned();
    let (meta, spec) = (csv.get("metadata").unwrap_or(csv), csv.get("spec").unwrap_or(csv));
    let date = meta.get("annotations").and_then(|all| all.get("createdAt"));
    (string(date), string(spec.get("minKubeVersion")))
}

/// Reads the package blob and those of other schemas; returns the icon of the package.
fn blobs_of<'b>(
    fbc: &Fbc,
    blobs: impl IntoIterator<Item = &'b Blob>,
    detail: &mut Detail,
) -> io::Result<Option<Value>> {
    let mut icon = None;
    let buffer = &mut TextBuffer::default();
    for blob in blobs {
        match &blob.content {
            BlobContent::Package { .. } if &*blob.schema == PACKAGE => {
                let text = fbc.text(blob, buffer)?;
                detail.description = text.get_str("description").into_owned();
                icon = text.get("icon").and_then(|icon| serde_json::from_str(icon.text()).ok());
            }
            BlobContent::Other if detail.customs.len() < CUSTOMS => {
                let text = fbc.text(blob, buffer)?.text();
                let value = match text.len() {
                    0..=CUSTOM => serde_json::from_str(text).unwrap_or_default(),
                    _ => Value::Null,
                };
                detail.customs.push((blob.schema.to_string(), blob.name.to_string(), value));
            }
            _ => {}
        }
    }
    Ok(icon)
}

/// Chooses the first usable icon.
fn choose_icon(head: Option<&Value>, package: Option<&Value>, problems: &mut Vec<String>) -> (Option<Icon>, Vec<u8>) {
    for (icon, key) in [(head, "base64data"), (package, "base64data")] {
        let Some(data) = icon.and_then(|icon| icon[key].as_str().or_else(|| icon["data"].as_str())) else { continue };
        if data.trim().is_empty() {
            continue;
        }
        let packed: String = data.split_ascii_whitespace().collect();
        let judged = match fbc::base64::decode(&packed) {
            Err(_) => Err(IconError::NotBase64),
            Ok(bytes) => icon::check(&bytes).map(|format| (format, bytes)),
        };
        match judged {
            Ok((format, bytes)) => return (Some(Icon { digest: digest(&bytes), format }), bytes),
            Err(reason) => problems.push(format!("the icon is not shown: {reason}")),
        }
    }
    (None, Vec::new())
}

fn row(
    package: &catalog::Package,
    detail: &Detail,
    head: &CsvDescription,
    icon: Option<Icon>,
    mut problems: Vec<String>,
) -> Row {
    let channel = package.default_channel();
    let name = &*channel.head().name;
    let bundle = detail.bundles.iter().find(|bundle| bundle.name == name);
    let mut kinds: Vec<String> = head.owned.iter().map(|api| api.kind.clone()).collect();
    for value in bundle.map(|bundle| bundle.values(property::GVK)).unwrap_or_default() {
        kinds.push(crate::csv::text(&value["kind"]));
    }
    let kinds: BTreeSet<String> = kinds.into_iter().filter(|kind| !kind.is_empty()).collect();
    let short = match (head.short(), head.description.as_str()) {
        ("", "") => detail.description.as_str(),
        ("", long) => long,
        (short, _) => short,
    };
    let date = bundle.map(|bundle| bundle.date.clone()).unwrap_or_default();
    if !date.is_empty() && crate::date::Day::read(&date).is_none() {
        problems.push(format!("createdAt is not a date: {}", summary(&date, 60)));
    }
    for name in ["alm-examples", "operatorframework.io/initialization-resource"] {
        let text = head.annotation(name);
        if !text.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            problems.push(format!("the annotation {name} is not valid JSON"));
        }
    }
    let heads: BTreeSet<&str> = package.channels().iter().map(|channel| &*channel.head().name).collect();
    Row {
        name: package.name().to_owned(),
        title: summary(&head.title, 120),
        provider: summary(&head.provider, 120),
        summary: summary(&plain(short), SUMMARY),
        version: bundle.map(VersionSummary::full_version).unwrap_or_default(),
        head: name.to_owned(),
        channel: channel.name().to_owned(),
        date,
        keywords: head.keywords.iter().take(50).map(|word| summary(word, 60)).collect(),
        kinds: kinds.into_iter().take(200).collect(),
        images: repositories(detail),
        categories: head.categories(),
        capability: head.capability(),
        modes: head.supported_modes().into_iter().map(str::to_owned).collect(),
        features: head.features(),
        arches: head.supported("operatorframework.io/arch.", "amd64"),
        kube: head.kube.clone(),
        deprecated: package.deprecation().is_some()
            || channel.deprecation().is_some()
            || bundle.is_some_and(|bundle| bundle.deprecation.is_some()),
        dependency: head.annotation("operators.operatorframework.io/operator-type") == "non-standalone",
        versions: detail.bundles.len() as u32,
        channels: package.channels().len() as u32,
        heads: heads.len() as u32,
        icon,
        needs: bundle.map(needed_packages).unwrap_or_default(),
        problems,
    }
}

/// Returns the packages that a bundle requires, with the requirement.
fn needed_packages(bundle: &VersionSummary) -> Vec<(String, String)> {
    let needs = crate::pages::package::needs(bundle).into_iter();
    needs
        .filter_map(|(words, target)| Some((target.filter(|(_, kind)| kind.is_none())?.0, words)))
        .take(NEEDS)
        .collect()
}

/// Returns the repositories of all images of a package.
fn repositories(detail: &Detail) -> Vec<String> {
    let own = detail.bundles.iter().map(|bundle| &bundle.image);
    let all: BTreeSet<&str> = detail.images.iter().chain(own).map(|image| rank::repository(image)).collect();
    all.into_iter().filter(|image| !image.is_empty()).take(IMAGES).map(str::to_owned).collect()
}

/// Strips the most common Markdown syntax, for a line of plain text.
fn plain(text: &str) -> String {
    let start = &text[..text.floor_char_boundary(4000)];
    let mut out = String::new();
    for line in start.lines() {
        let line = line.trim();
        // Headings repeat the name.
        if line.starts_with('#') || line.starts_with("---") || line.starts_with("===") || line.starts_with("![") {
            continue;
        }
        out.push_str(&line.replace(['*', '`'], ""));
        out.push(' ');
    }
    out
}
