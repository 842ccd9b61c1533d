//! Kinds: the packages that provide and require them.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use crate::csv::text;
use crate::frame::{ConsoleSection, Page, PageContext};
use crate::summary::PackageSummary;
use crate::text::{count, t};

/// All kinds, by group and kind in lower case.
pub type ApiRows = BTreeMap<(String, String), ApiRow>;

/// A kind and its packages.
#[derive(Debug, Clone, Default)]
pub struct ApiRow {
    /// Its spellings.
    pub spelled: BTreeSet<String>,
    /// Packages that provide it, with the provided versions, those of their heads marked.
    pub offered: BTreeMap<String, BTreeMap<String, bool>>,
    /// Packages that require it.
    pub needed: BTreeSet<String>,
}

/// Adds the kinds that a package provides and requires.
pub fn add(kinds: &mut ApiRows, package: &PackageSummary) {
    for bundle in &package.detail.bundles {
        let head = bundle.name == package.row.head;
        for (property, value) in bundle.properties() {
            let offered = match property.as_str() {
                fbc::property::GVK => true,
                fbc::property::GVK_REQUIRED => false,
                _ => continue,
            };
            let (group, kind) = (text(&value["group"]), text(&value["kind"]));
            if kind.is_empty() {
                continue;
            }
            let entry = kinds.entry((group, kind.to_lowercase())).or_default();
            entry.spelled.insert(kind);
            if offered {
                let versions = entry.offered.entry(package.row.name.clone()).or_default();
                *versions.entry(text(&value["version"])).or_default() |= head;
            } else {
                entry.needed.insert(package.row.name.clone());
            }
        }
    }
}

/// Renders the page of all kinds.
pub fn all(context: &PageContext<'_>, kinds: &ApiRows, words: &str) -> Page {
    let lower = words.to_lowercase();
    let fits = |(group, kind): &(String, String)| {
        lower.split_whitespace().all(|word| kind.contains(word) || group.to_lowercase().contains(word))
    };
    let shown: Vec<(&(String, String), &ApiRow)> =
        kinds.iter().filter(|(key, kind)| !kind.offered.is_empty() && fits(key)).collect();
    let mut by_kind = shown.clone();
    by_kind.sort_by(|a, b| a.0.1.cmp(&b.0.1).then(a.0.0.cmp(&b.0.0)));
    let body = html! {
        div.intro { h1 { "Kinds" } p.soft { "Every kind that packages of the catalog offer." } }
        @if !context.links.are_files() { (search(context, "apis", words, "Kind or group")) }
        div.scroll tabindex="0" role="group" aria-label="Kinds" {
            table.sortable data-filter="kinds" {
                caption { (count(shown.len(), "kind", "kinds")) }
                thead { tr { th scope="col" { "Kind" } th scope="col" { "Group" } th scope="col" { "Offered by" } } }
                tbody { @for ((group, key), kind) in by_kind {
                    tr {
                        th scope="row" { a.kind href=(context.links.kind(group, key)) { (t(&spelled(kind))) } }
                        td { (t(group)) }
                        td { @for (name, _) in &kind.offered { a href=(context.links.package(name)) { (t(name)) } " " } @if kind.offered.len() > 1 { span.pill.warn { (kind.offered.len()) " providers" } } }
                    }
                } }
            }
        }
        @if shown.is_empty() { p.soft { "No kind matches." } }
    };
    Page { title: "Kinds".to_owned(), section: ConsoleSection::Kinds, crumbs: Vec::new(), body, name: "kinds" }
}

/// A search form.
pub fn search(context: &PageContext<'_>, page: &str, words: &str, label: &str) -> Markup {
    html! {
        form.form.live action=(context.links.top(page)) method="get" {
            label { (label) input.field name="q" type="search" value=(t(words)); }
            button.button type="submit" { "Show" }
        }
    }
}

fn spelled(kind: &ApiRow) -> String {
    kind.spelled.iter().cloned().collect::<Vec<_>>().join(", ")
}

/// Renders the page of one kind.
pub fn one(context: &PageContext<'_>, group: &str, kind: &ApiRow) -> Page {
    let title = spelled(kind);
    let body = html! {
        header.intro { h1 { (t(&title)) } p.soft { code { (t(if group.is_empty() { "core" } else { group })) } } }
        @if kind.offered.len() > 1 { div.note.warn { p { "Several packages offer this kind. A cluster installs only one of them." } } }
        section.section {
            h2 #offered { "Offered by" }
            @if kind.offered.is_empty() { p.soft { "No package of the catalog offers it." } }
            ul { @for (name, versions) in &kind.offered {
                li { a href=(context.links.package(name)) { (t(name)) } " " @for (version, head) in versions { span.pill.head[*head] { (t(version)) } " " } }
            } }
        }
        section.section {
            h2 #needed { "Needed by" }
            @if kind.needed.is_empty() { p.soft { "No package of the catalog needs it." } }
            ul { @for name in &kind.needed { li { a href=(context.links.package(name)) { (t(name)) } } } }
        }
    };
    let crumbs = vec![("Kinds".to_owned(), Some(context.links.top("apis"))), (title.clone(), None)];
    Page { title, section: ConsoleSection::Kinds, crumbs, body, name: "kind" }
}
