//! Reading of a package what the shelf keeps, while its blobs are at hand.

use std::collections::{BTreeSet, HashMap};
use std::io;

use fbc::blob::{PACKAGE, TextBuffer};
use fbc::json::Raw;
use fbc::release::cmp_version_release;
use fbc::{Content, Fbc, Limits, property};
use serde_json::Value;

use crate::csv::Csv;
use crate::icon;
use crate::shelf::{Bundle, Channel, Detail, Entry, Icon, Package, Row, digest};
use crate::text::summary;

/// The most characters of the line that says what a package does.
const SUMMARY: usize = 130;
/// A longer blob of another schema is named, not kept.
const CUSTOM: usize = 16 << 10;
/// The most of those blobs that are kept of a package.
const CUSTOMS: usize = 50;
/// A longer description is not kept: no page shows it but as plain text.
const DESCRIPTION: usize = 256 << 10;

/// A package for the shelf, and the bytes of its picture.
pub struct Shelved {
    /// The package.
    pub package: Package,
    /// Its picture; empty if it has none that can be used.
    pub icon: Vec<u8>,
}

/// Reads a package.
///
/// # Errors
/// Fails when files of the catalog changed.
pub fn shelve(fbc: &Fbc, package: &catalog::Package, limits: &Limits) -> io::Result<Shelved> {
    let name = package.name();
    let mut buffer = TextBuffer::default();
    let mut detail = Detail {
        default_channel: package.default_channel().name().to_owned(),
        deprecation: package.deprecation().map(str::to_owned),
        channels: package.channels().iter().map(channel).collect(),
        ..Detail::default()
    };
    let head_name = package.default_channel().head().name.to_string();
    let (mut head, mut head_icon) = (Csv::default(), None);
    let mut images: HashMap<String, u32> = HashMap::new();
    let mut bundles: Vec<(&catalog::Bundle, Bundle)> = Vec::new();
    for (bundle_name, bundle) in package.bundles() {
        let Some(blob) = fbc.blobs().get(bundle.blob) else { continue };
        let text = fbc.text(blob, &mut buffer)?;
        let csv = read_csv(fbc, blob, text, limits);
        if bundle_name == head_name {
            let value = csv.as_deref().and_then(|csv| serde_json::from_str::<Value>(csv).ok()).unwrap_or_default();
            head = Csv::of(&value);
            head_icon = Some(value["spec"]["icon"][0].clone()).filter(|icon| !icon.is_null());
        }
        let (date, kube) = csv.as_deref().map(dates).unwrap_or_default();
        let mut related = Vec::new();
        for image in text.get("relatedImages").into_iter().flat_map(Raw::items) {
            let of = |name: &str| image.get(name).and_then(Raw::as_str).unwrap_or_default().into_owned();
            let next = images.len() as u32;
            let place = *images.entry(of("image")).or_insert(next);
            related.push((place, of("name")));
        }
        let shelved = Bundle {
            name: bundle_name.to_owned(),
            version: bundle.version.to_string(),
            release: bundle.release.as_ref().map(ToString::to_string).unwrap_or_default(),
            date,
            kube,
            image: bundle.image.clone(),
            size: text.text().len() as u64,
            deprecation: bundle.deprecation.clone(),
            properties: property::served(text).into_string(),
            images: related,
        };
        bundles.push((bundle, shelved));
    }
    bundles.sort_by(|(a, a_name), (b, b_name)| {
        cmp_version_release((&b.version, b.release.as_ref()), (&a.version, a.release.as_ref()))
            .then_with(|| a_name.name.cmp(&b_name.name))
    });
    detail.bundles = bundles.into_iter().map(|(_, bundle)| bundle).collect();
    let mut listed: Vec<(String, u32)> = images.into_iter().collect();
    listed.sort_by_key(|(_, place)| *place);
    detail.images = listed.into_iter().map(|(image, _)| image).collect();

    let mut problems = Vec::new();
    let package_icon = blobs_of(fbc, name, &mut detail, &mut buffer)?;
    let (picture, icon) = choose_icon(head_icon.as_ref(), package_icon.as_ref(), &mut problems);
    if head.description.len() > DESCRIPTION {
        problems.push(format!("the description has {} bytes and is not shown", head.description.len()));
        head.description.truncate(0);
    }
    let row = row(package, &detail, &head, picture, problems);
    detail.head = head.for_shelf();
    Ok(Shelved { package: Package { row, detail }, icon })
}

fn channel(channel: &catalog::Channel) -> Channel {
    Channel {
        name: channel.name().to_owned(),
        head: channel.head().name.to_string(),
        deprecation: channel.deprecation().map(str::to_owned),
        entries: channel
            .entries()
            .iter()
            .map(|entry| Entry {
                name: entry.name.to_string(),
                replaces: entry.replaces.to_string(),
                skips: entry.skips.iter().map(|skip| skip.to_string()).collect(),
                skip_range: entry.skip_range.to_string(),
            })
            .collect(),
    }
}

/// Returns the JSON of a bundle's CSV, or of what the catalog keeps of it.
fn read_csv(fbc: &Fbc, blob: &fbc::Blob, text: Raw<'_>, limits: &Limits) -> Option<String> {
    if matches!(&blob.content, Content::Bundle(bundle) if bundle.objects > 0)
        && let Ok(Some(csv)) = fbc.csv(blob, limits)
    {
        return Some(csv);
    }
    property::of(text)
        .find(|(kind, value)| kind == property::CSV_METADATA && value.is_some())
        .and_then(|(_, value)| Some(value?.text().to_owned()))
}

/// Returns when a bundle was made, and the least version of Kubernetes.
fn dates(csv: &str) -> (String, String) {
    let Ok(csv) = Raw::parse(csv, fbc::limits::MAX_DEPTH) else { return Default::default() };
    let string = |value: Option<Raw<'_>>| value.and_then(Raw::as_str).unwrap_or_default().trim().to_owned();
    let (meta, spec) = (csv.get("metadata").unwrap_or(csv), csv.get("spec").unwrap_or(csv));
    let date = meta.get("annotations").and_then(|all| all.get("createdAt"));
    (string(date), string(spec.get("minKubeVersion")))
}

/// Reads the package blob and those of other schemas; returns the icon of the package.
fn blobs_of(fbc: &Fbc, name: &str, detail: &mut Detail, buffer: &mut TextBuffer) -> io::Result<Option<Value>> {
    let mut icon = None;
    for blob in fbc.blobs().iter().filter(|blob| &*blob.package == name) {
        match &blob.content {
            Content::Package { .. } if &*blob.schema == PACKAGE => {
                let text = fbc.text(blob, buffer)?;
                detail.description = text.get("description").and_then(Raw::as_str).unwrap_or_default().into_owned();
                icon = text.get("icon").and_then(|icon| serde_json::from_str(icon.text()).ok());
            }
            Content::Other if detail.customs.len() < CUSTOMS => {
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

/// Chooses the first picture that can be used.
fn choose_icon(head: Option<&Value>, package: Option<&Value>, problems: &mut Vec<String>) -> (Option<Icon>, Vec<u8>) {
    for (icon, key) in [(head, "base64data"), (package, "base64data")] {
        let Some(data) = icon.and_then(|icon| icon[key].as_str().or_else(|| icon["data"].as_str())) else { continue };
        if data.trim().is_empty() {
            continue;
        }
        let packed: String = data.split_ascii_whitespace().collect();
        let judged = match fbc::base64::decode(&packed) {
            Err(_) => Err("it is no base64".to_owned()),
            Ok(bytes) => icon::judge(&bytes).map(|format| (format, bytes)),
        };
        match judged {
            Ok((format, bytes)) => return (Some(Icon { digest: digest(&bytes), format }), bytes),
            Err(reason) => problems.push(format!("the icon is not shown: {reason}")),
        }
    }
    (None, Vec::new())
}

fn row(package: &catalog::Package, detail: &Detail, head: &Csv, icon: Option<Icon>, mut problems: Vec<String>) -> Row {
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
        problems.push(format!("createdAt is no date: {}", summary(&date, 60)));
    }
    for name in ["alm-examples", "operatorframework.io/initialization-resource"] {
        let text = head.annotation(name);
        if !text.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            problems.push(format!("the annotation {name} is no JSON"));
        }
    }
    let heads: BTreeSet<&str> = package.channels().iter().map(|channel| &*channel.head().name).collect();
    Row {
        name: package.name().to_owned(),
        title: summary(&head.title, 120),
        provider: summary(&head.provider, 120),
        summary: summary(&plain(short), SUMMARY),
        version: bundle.map(Bundle::full_version).unwrap_or_default(),
        head: name.to_owned(),
        channel: channel.name().to_owned(),
        date,
        keywords: head.keywords.iter().take(50).map(|word| summary(word, 60)).collect(),
        kinds: kinds.into_iter().take(200).collect(),
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
        problems,
    }
}

/// Takes the most common marks out of Markdown, for a line of plain text.
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
