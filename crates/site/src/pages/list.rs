//! All packages of the catalog.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::frame::{ConsoleSection, Page, PageContext, date, icon};
use crate::rank::{self, FACETS, PackageQuery, QueryResult, Sort};
use crate::summary::Row;
use crate::text::{count, grouped, t};

/// Values of a facet that are shown at once; the others unfold.
const OPEN: usize = 8;
/// Longer lists are shown in parts.
const PART: usize = 1000;
const WHOLE: usize = 2000;

/// Makes the list.
pub fn page(
    context: &PageContext<'_>,
    rows: &[Row],
    query: &PackageQuery,
    descriptions: &[String],
    part: usize,
) -> Page {
    let found = rank::find_in(rows, query, descriptions);
    let files = context.links.are_files();
    let total = found.places.len();
    let (start, end) = match rows.len() > WHOLE && !files {
        true => (part.saturating_mul(PART).min(total), part.saturating_add(1).saturating_mul(PART).min(total)),
        false => (0, total),
    };
    let shown = &found.places[start..end];
    let body = html! {
        div.intro {
            h1 { "Packages" }
            p.soft { "What is in " strong { (t(&context.facts.catalog)) } ", how it upgrades and which permissions it requires." }
        }
        div.shelf.rows[query.rows] #list {
            details.filters open {
                summary { "Filters" }
                form.facets action=(context.links.list()) method="get" aria-label="Filters" {
                    @if !query.words.is_empty() { input type="hidden" name="q" value=(t(&query.words)); }
                    @for (facet, heading) in FACETS { (facet_list(facet, heading, &found, query)) }
                    button.button type="submit" { "Apply filters" }
                }
            }
            div {
                div.tools-row {
                    output #count for="q" role="status" { (summary(total, rows.len(), query)) }
                    (orders(context, query))
                }
                @if shown.is_empty() { (nothing(context, rows, query)) }
                ol.tiles #tiles aria-label="Packages" {
                    @for place in shown { (tile(context, &rows[*place], *place)) }
                }
                @if found.hidden > 0 {
                    p.soft.small #hidden { (count(found.hidden, "dependency", "dependencies")) " hidden, " a href=(with(context, query, "all", "1")) { "show" } "." }
                }
                @if end < total || start > 0 { (parts(context, query, part, total)) }
            }
        }
    };
    Page { title: "Packages".to_owned(), section: ConsoleSection::Packages, crumbs: Vec::new(), body, name: "list" }
}

fn summary(found: usize, all: usize, query: &PackageQuery) -> String {
    match query.words.is_empty() && query.chosen.is_empty() {
        true => count(found, "package", "packages"),
        false => format!("{} of {}", grouped(found), count(all, "package", "packages")),
    }
}

fn tile(context: &PageContext<'_>, row: &Row, place: usize) -> Markup {
    let links = &context.links;
    html! {
        li.tile data-n=(place) {
            header {
                (icon(links, row.icon.as_ref(), row.title(), 44))
                div {
                    h2 { a href=(links.package(&row.name)) { (t(row.title())) } }
                    p.by { @if row.title.is_empty() || row.title == row.name { (t(&row.provider)) } @else { (t(&row.name)) @if !row.provider.is_empty() { " · " (t(&row.provider)) } } }
                }
            }
            @if !row.summary.is_empty() { p.what dir="auto" { (t(&row.summary)) } }
            p.end {
                span.ver { (t(&row.version)) }
                span.pill.chan { (t(&row.channel)) }
                @if row.deprecated { span.pill.warn { "deprecated" } }
                @if row.heads > 1 { span.pill { (row.channels) " channels" } }
                @if !row.problems.is_empty() { span.pill.warn { (count(row.problems.len(), "problem", "problems")) } }
                (date(&row.date))
            }
        }
    }
}

fn facet_list(facet: &'static str, heading: &str, found: &QueryResult, query: &PackageQuery) -> Markup {
    let empty = BTreeMap::new();
    let counts = found.counts.get(facet).unwrap_or(&empty);
    let chosen = |value: &str| query.chosen.get(facet).is_some_and(|values| values.contains(value));
    let mut values: Vec<(&str, usize)> = counts.iter().map(|(value, count)| (value.as_str(), *count)).collect();
    for value in query.chosen.get(facet).into_iter().flatten() {
        if !counts.contains_key(value) {
            values.push((value, 0));
        }
    }
    match facet {
        "year" | "kube" => values.sort_by_key(|(value, _)| std::cmp::Reverse(rank_of(value))),
        "capability" => values.sort_by_key(|(value, _)| crate::csv::LEVELS.iter().position(|level| level == value)),
        _ => values.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0))),
    }
    if values.is_empty() {
        return html! {};
    }
    if facet == "provider" {
        return html! {
            fieldset {
                legend { (heading) }
                label.vh for="f-provider" { (heading) }
                select.field #f-provider name="provider" data-facet="provider" {
                    option value="" { "Any" }
                    @for (value, count) in &values { option value=(t(value)) selected[chosen(value)] { (t(value)) " (" (count) ")" } }
                }
            }
        };
    }
    let open = matches!(facet, "category" | "capability" | "state") || query.chosen.contains_key(facet);
    let line = |value: &str, count: usize| {
        html! { label { input type="checkbox" name=(facet) value=(t(value)) checked[chosen(value)]; span { (t(value)) } small { (count) } } }
    };
    html! {
        details open[open] data-facet=(facet) {
            summary { (heading) }
            fieldset {
                legend.vh { (heading) }
                @for (value, count) in values.iter().take(OPEN.max(if facet == "category" { 14 } else { OPEN })) { (line(value, *count)) }
                @if values.len() > OPEN && facet != "category" || values.len() > 14 {
                    details {
                        summary { "more" }
                        @for (value, count) in values.iter().skip(if facet == "category" { 14 } else { OPEN }) { (line(value, *count)) }
                    }
                }
            }
        }
    }
}

/// Puts versions and years in order, what is no number last.
fn rank_of(value: &str) -> Option<Vec<u32>> {
    value.trim_start_matches('v').split('.').map(|part| part.parse().ok()).collect()
}

fn orders(context: &PageContext<'_>, query: &PackageQuery) -> Markup {
    let orders = [
        (Sort::Relevance, "", "Relevance"),
        (Sort::Name, "name", "Name"),
        (Sort::Date, "date", "Newest head"),
        (Sort::Versions, "versions", "Most versions"),
    ];
    html! {
        form.tools-row action=(context.links.list()) method="get" {
            @if !query.words.is_empty() { input type="hidden" name="q" value=(t(&query.words)); }
            @for (facet, values) in &query.chosen { @for value in values { input type="hidden" name=(facet) value=(t(value)); } }
            label.vh for="sort" { "Sort by" }
            select.field #sort name="sort" { @for (sort, value, label) in orders { option value=(value) selected[sort == query.sort] { (label) } } }
            label.vh for="view" { "Show as" }
            select.field #view name="view" { option value="" selected[!query.rows] { "Tiles" } option value="rows" selected[query.rows] { "Rows" } }
            noscript { button.button type="submit" { "Show" } }
        }
    }
}

/// What to do when nothing fits.
fn nothing(context: &PageContext<'_>, rows: &[Row], query: &PackageQuery) -> Markup {
    if rows.is_empty() {
        return html! { div.note { p { "This catalog holds no packages." } } };
    }
    let near = rank::nearest(rows.iter().map(|row| row.name.as_str()), &query.words);
    let without: Vec<(&str, usize)> = query
        .chosen
        .keys()
        .map(|facet| {
            let mut less = query.clone();
            less.chosen.remove(facet);
            (*facet, rank::find(rows, &less).places.len())
        })
        .filter(|(_, found)| *found > 0)
        .collect();
    html! {
        div.note #nothing {
            p { "No package fits." }
            @if !near.is_empty() {
                p { "Did you mean " @for (i, name) in near.iter().enumerate() { @if i > 0 { ", " } a href=(context.links.package(name)) { (t(name)) } } "?" }
            }
            @for (facet, found) in without { p { "Without the filter " strong { (facet) } " there would be " (found) "." } }
            @if !query.words.is_empty() && !query.in_descriptions() && !context.links.are_files() {
                @let deeper = fbc::spelling::percent::encode(&format!("{} in:description", query.words));
                p { a href={ (context.links.list()) "?q=" (deeper) } { "Search the whole descriptions" } }
            }
            p { a href=(context.links.list()) { "Show all packages" } }
        }
    }
}

fn parts(context: &PageContext<'_>, query: &PackageQuery, part: usize, total: usize) -> Markup {
    html! {
        nav.actions aria-label="Parts of the list" {
            @for number in 0..total.div_ceil(PART) {
                a.button href=(with(context, query, "part", &number.to_string())) aria-current=[(number == part).then_some("page")] { (number + 1) }
            }
        }
    }
}

/// Returns the address of the list with one more parameter.
fn with(context: &PageContext<'_>, query: &PackageQuery, key: &str, value: &str) -> String {
    use fbc::spelling::percent::encode as encoded;
    let mut pairs: Vec<String> = Vec::new();
    if !query.words.is_empty() {
        pairs.push(format!("q={}", encoded(&query.words)));
    }
    for (facet, values) in &query.chosen {
        pairs.extend(values.iter().map(|value| format!("{facet}={}", encoded(value))));
    }
    pairs.push(format!("{key}={}", encoded(value)));
    format!("{}?{}", context.links.list(), pairs.join("&"))
}

/// Returns what the script of the list knows of the packages.
pub fn index(rows: &[Row], facts: &crate::frame::CatalogFacts) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            let mut facets = serde_json::Map::new();
            for (facet, _) in FACETS {
                let values = rank::values(row, facet);
                if !values.is_empty() {
                    facets.insert(facet.to_owned(), values.into());
                }
            }
            serde_json::json!({
                "n": row.name, "t": row.title, "p": row.provider, "s": row.summary, "k": row.keywords, "g": row.kinds, "i": row.images,
                "v": row.version, "d": crate::date::Day::read(&row.date).map(|day| day.to_string()).unwrap_or_default(),
                "c": row.versions, "x": u8::from(row.deprecated), "h": u8::from(row.dependency),
                "a": crate::links::package_path(&row.name), "f": facets,
            })
        })
        .collect();
    serde_json::json!({"revision": facts.revision, "packages": facts.packages, "channels": facts.channels,
        "bundles": facts.bundles, "problems": facts.problems, "rows": rows})
}
