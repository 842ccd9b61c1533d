//! One version: what it provides, its permissions, its content.

mod apis;
mod changes;
mod rules;

use std::cell::RefCell;
use std::collections::HashMap;

use fbc::property;
use maud::{Markup, html};
use serde_json::Value;

use super::{crumbs, deprecations, hero_of};
use crate::frame::{ConsoleSection, Page, PageContext, block, copyable, date};
use crate::manifest::{VersionManifest, yaml};
use crate::permissions::Permissions;
use crate::summary::{PackageSummary, VersionSummary};
use crate::text::{count, size, t};
use bundle::BundleObject;

/// A longer blob is offered as a download only.
const RAW: usize = 256 << 10;

/// A shorter section is repeated rather than linked.
const MIN_LINKED: usize = 240;

/// The blob of a bundle, if it could be read.
pub enum BundleText<'a> {
    /// It was read.
    Read(&'a VersionManifest),
    /// It cannot be read now, for this reason.
    Unread(String),
}

/// The sections on pages of other versions of the package, by digest: bundle, version and anchor.
///
/// Most versions repeat descriptions and kinds of the previous one. An export writes them once.
#[derive(Debug, Default)]
pub struct SharedSections(RefCell<HashMap<String, (String, String, String)>>);

impl SharedSections {
    /// Returns the page of another version with the same section; if there is none, records this one.
    fn elsewhere(&self, what: &str, bundle: &VersionSummary, id: &str) -> Option<(String, String, String)> {
        use std::collections::hash_map::Entry;
        match self.0.borrow_mut().entry(crate::summary::digest(what.as_bytes())) {
            Entry::Occupied(there) => Some(there.get().clone()).filter(|(name, ..)| *name != bundle.name),
            Entry::Vacant(free) => {
                free.insert((bundle.name.clone(), bundle.full_version(), id.to_owned()));
                None
            }
        }
    }
}

/// Shows a section, or a link to the same section of another version.
fn once(
    context: &PageContext<'_>,
    package: &PackageSummary,
    bundle: &VersionSummary,
    shared: Option<&SharedSections>,
    id: &str,
    part: Markup,
) -> Markup {
    let Some(shared) = shared.filter(|_| part.0.len() > MIN_LINKED) else { return part };
    match shared.elsewhere(&part.0, bundle, id) {
        Some((name, version, id)) => html! {
            p.still { "The same as in " a href=[context.links.version(&package.row.name, &name).map(|page| format!("{page}#{id}"))] { (t(&version)) } "." }
        },
        None => html! { div id=(id) { (part) } },
    }
}

/// Renders the page of a version; `before` is the previous version, if it was read.
pub fn page(
    context: &PageContext<'_>,
    package: &PackageSummary,
    bundle: &VersionSummary,
    blob: &BundleText<'_>,
    before: Option<(&VersionSummary, &VersionManifest)>,
    shared: Option<&SharedSections>,
) -> Page {
    let manifest = match blob {
        BundleText::Read(manifest) => Some(*manifest),
        BundleText::Unread(_) => None,
    };
    let permissions = manifest.and_then(Permissions::of);
    let version = bundle.full_version();
    let sections = [
        ("overview", "Overview"),
        ("apis", "APIs"),
        ("permissions", "Permissions"),
        ("images", "Images"),
        ("changes", "Changes"),
        ("dependencies", "Dependencies"),
        ("raw", "Raw"),
    ];
    let body = html! {
        (hero_of(context, package, &format!("{} {version}", package.title()), Some(bundle)))
        (deprecations(&[("This package", package.detail.deprecation.as_deref()), ("This version", bundle.deprecation.as_deref())]))
        @if let BundleText::Unread(reason) = blob { div.note.warn { p { "This version cannot be read completely right now: " (t(reason)) } } }
        (neighbours(context, package, bundle))
        div.two {
            div {
                section.section { h2 #overview { "Overview" } (overview(context, package, bundle, manifest, shared)) }
                section.section { h2 #apis { "APIs" } (apis::section(context, package, bundle, manifest, shared)) }
                section.section { h2 #permissions { "Permissions" } (rules::section(bundle, manifest, permissions.as_ref())) }
                section.section { h2 #images { "Images" } (images(context, package, bundle)) }
                section.section { h2 #changes { "Changes" } (changes::section(context, package, bundle, manifest, before)) }
                section.section {
                    h2 #dependencies { "Dependencies" }
                    @let needs = super::package::needs(bundle);
                    @if needs.is_empty() { p.soft { "It requires nothing from other operators." } }
                    @else { (super::package::need_list(context, &needs)) }
                }
                section.section.live.still { h2 #raw { "Raw" } (raw(context, bundle, manifest)) }
            }
            aside {
                nav.menu aria-label="Sections of this page" { ol { @for (id, label) in sections { li { a href={ "#" (id) } { (label) } } } } }
            }
        }
    };
    Page {
        title: format!("{} {version}", package.title()),
        section: ConsoleSection::Packages,
        crumbs: crumbs(context, package, &[(version.as_str(), None)]),
        body,
        name: "version",
    }
}

fn neighbours(context: &PageContext<'_>, package: &PackageSummary, bundle: &VersionSummary) -> Markup {
    let name = &package.row.name;
    let links = &context.links;
    let (older, newer) = (package.before(&bundle.name), package.after(&bundle.name));
    let page = |bundle: Option<&VersionSummary>| {
        links.version(name, &bundle?.name).zip(bundle.map(VersionSummary::full_version))
    };
    html! {
        nav.actions.section aria-label="Other versions" {
            @if let Some((page, version)) = page(older) { a.button rel="prev" data-key="[" href=(page) { "← " (t(&version)) } }
            @if let Some((page, version)) = page(newer) { a.button rel="next" data-key="]" href=(page) { (t(&version)) " →" } }
            @if let Some(older) = older.filter(|_| !links.are_files()) {
                a.button.live data-key="c" href={ (links.of_package(name, "compare")) "?from=" (fbc::spelling::percent::encode(&older.name)) "&to=" (fbc::spelling::percent::encode(&bundle.name)) } { "Compare with " (t(&older.full_version())) }
            }
            a.button data-key="u" href={ (links.of_package(name, "path")) "?from=" (fbc::spelling::percent::encode(&bundle.name)) } { "Path to newest" }
            a.button href=(links.package(name)) { "All versions" }
        }
    }
}

fn overview(
    context: &PageContext<'_>,
    package: &PackageSummary,
    bundle: &VersionSummary,
    manifest: Option<&VersionManifest>,
    shared: Option<&SharedSections>,
) -> Markup {
    let row = |name: &str, value: Markup| html! { tr { th scope="row" { (name) } td { (value) } } };
    html! {
        div.scroll tabindex="0" role="group" aria-label="Facts" {
            table { tbody {
                (row("Bundle", html! { span data-key="y" { (copyable(&bundle.name)) } }))
                (row("Version", html! { span.ver { (t(&bundle.version)) } @if !bundle.release.is_empty() { ", release " (t(&bundle.release)) } }))
                @if !bundle.date.is_empty() { (row("Created", date(&bundle.date))) } @else { (row("Created", html! { span.soft { "unknown" } })) }
                (row("Channels", html! { ul.pills { @for (channel, head) in package.channels_of(&bundle.name) { li.pill.head[head] { (t(&channel.name)) @if head { " head" } } } } }))
                @if package.is_skipped(&bundle.name) { (row("Skipped", html! { "A newer version skips it, so clusters upgrade past it." })) }
                @if !bundle.image.is_empty() { (row("Bundle image", copyable(&bundle.image))) }
                @if !bundle.kube.is_empty() { (row("Minimum Kubernetes", html! { (t(&bundle.kube)) })) }
                @if let Some(manifest) = manifest {
                    @let modes = manifest.csv.modes_in_words();
                    @if !modes.is_empty() { (row("Install modes", html! { (modes) })) }
                    @if !manifest.csv.maturity.is_empty() { (row("Maturity", html! { (t(&manifest.csv.maturity)) })) }
                }
                @for value in bundle.values("olm.maxOpenShiftVersion") { (row("Maximum OpenShift", html! { (t(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))) })) }
            } }
        }
        @if let Some(manifest) = manifest {
            @if manifest.csv.description.is_empty() { p.soft { "The catalog holds no description of this version." } }
            @else if manifest.csv.description == package.detail.head.description {
                p { "The description is that of " a href=(context.links.package(&package.row.name)) { "the package" } "." }
            } @else { (once(context, package, bundle, shared, "words", super::package::words(&manifest.csv.description, manifest.csv.annotation("repository")))) }
        }
    }
}

fn images(context: &PageContext<'_>, package: &PackageSummary, bundle: &VersionSummary) -> Markup {
    let mut uses = vec![0usize; package.detail.images.len()];
    for other in &package.detail.bundles {
        let mut seen: Vec<u32> = other.images.iter().map(|(place, _)| *place).collect();
        seen.sort_unstable();
        seen.dedup();
        for place in seen {
            if let Some(count) = uses.get_mut(place as usize) {
                *count += 1;
            }
        }
    }
    let listed: Vec<(&str, &str, usize)> = bundle
        .images
        .iter()
        .filter_map(|(place, name)| {
            Some((package.detail.images.get(*place as usize)?.as_str(), name.as_str(), uses[*place as usize]))
        })
        .collect();
    let tagged = listed.iter().filter(|(image, ..)| !image.contains("@sha256:")).count();
    let all: Vec<&str> = listed.iter().map(|(image, ..)| *image).collect();
    html! {
        @if listed.is_empty() { p.soft { "The catalog lists no related images." } }
        @else {
            @if tagged > 0 { p { span.pill.warn { (count(tagged, "image", "images")) " by tag" } " A tag can point to another image after the release." } }
            div.scroll tabindex="0" role="group" aria-label="Images" {
                table.images {
                    thead { tr { th scope="col" { "Image" } th scope="col" { "Name" } th scope="col" { "By" } th scope="col" { "Versions" } } }
                    tbody { @for (image, name, uses) in &listed { tr {
                        th scope="row" { (copyable(image)) }
                        td { (t(name)) }
                        td { @if image.contains("@sha256:") { span.pill.good { "digest" } } @else { span.pill.warn { "tag" } } }
                        td.num { (uses) }
                    } } }
                }
            }
            @if !context.links.are_files() { details.fold.live { summary { "As a list" } (block("Images", &all.join("\n"))) } }
        }
    }
}

fn raw(context: &PageContext<'_>, bundle: &VersionSummary, manifest: Option<&VersionManifest>) -> Markup {
    let Some(manifest) = manifest else { return html! { p.soft { "The blob cannot be read now." } } };
    html! {
        p.soft { "The blob has " (size(bundle.size)) "." @if !context.links.are_files() { " The API serves it whole." } }
        @if context.links.are_files() { (unknown(manifest)) } @else { (blob(manifest)) }
        @let others: Vec<&BundleObject> = manifest.others().collect();
        @if !others.is_empty() {
            details.fold { summary { (count(others.len(), "other manifest", "other manifests")) } ul { @for other in others { li { (t(other.kind())) " " code { (t(other.name())) } } } } }
        }
    }
}

/// Shows the blob without manifests, which have their own sections, and are mostly base64 here.
fn blob(manifest: &VersionManifest) -> Markup {
    let mut blob = manifest.blob.clone();
    if let Some(list) = blob["properties"].as_array_mut() {
        list.retain(|one| one["type"] != property::BUNDLE_OBJECT);
    }
    let text = format!("{blob:#}");
    html! {
        @if text.len() <= RAW {
            details.fold { summary { "JSON " small { "without manifests" } } (block("olm.bundle", &text)) }
            details.fold { summary { "YAML " small { "without manifests" } } (block("olm.bundle", &yaml(&blob))) }
        } @else { p { "It is too large to be shown here." } }
    }
}

/// Shows the properties that no section above covers: thousands of files need not repeat the others.
fn unknown(manifest: &VersionManifest) -> Markup {
    let known = [
        property::PACKAGE,
        property::PACKAGE_REQUIRED,
        property::GVK,
        property::GVK_REQUIRED,
        property::BUNDLE_OBJECT,
        property::CSV_METADATA,
        "olm.constraint",
        "olm.maxOpenShiftVersion",
    ];
    let all = crate::csv::items(&manifest.blob["properties"]);
    let others: Vec<&Value> =
        all.iter().filter(|one| !known.contains(&one["type"].as_str().unwrap_or_default())).collect();
    let text = serde_json::to_string_pretty(&others).unwrap_or_default();
    html! {
        @if others.is_empty() { p.soft { "The sections above show all its properties." } }
        @else if text.len() <= RAW { details.fold { summary { (count(others.len(), "other property", "other properties")) } (block("JSON", &text)) } }
        @else { p { "Its other properties are too large to be shown here." } }
    }
}
