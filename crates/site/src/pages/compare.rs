//! Compares two versions: what the newer one requires, provides and removes.

mod facts;
mod lines;

use edit::diff::changes::ChangeKind;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{crumbs, tabs};
use crate::frame::{ConsoleSection as Place, Page, PageContext};
use crate::manifest::VersionManifest;
use crate::summary::{PackageSummary, VersionSummary};
use crate::text::{count, t};

pub use facts::{differences, gained};

/// The section that is shown as text.
const TEXT: &str = "Description";

/// A section of the comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparisonSection {
    /// What is compared.
    pub title: &'static str,
    pub lines: Vec<DifferenceLine>,
    /// Why it cannot be compared.
    pub unknown: Option<&'static str>,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferenceLine {
    /// Whether it was added, removed or changed.
    pub what: ChangeKind,
    /// Whether it removes something from users, or requires more of a cluster.
    pub notable: bool,
    /// The description.
    pub text: String,
}

/// Renders the page; `back` compares the newer version with the older one, as for a downgrade.
pub fn page(
    context: &PageContext<'_>,
    package: &PackageSummary,
    older: (&VersionSummary, &VersionManifest),
    newer: (&VersionSummary, &VersionManifest),
    back: bool,
) -> Page {
    let (first, second) = if back { (newer, older) } else { (older, newer) };
    let sections = differences((package, first.0, first.1), (package, second.0, second.1));
    let (from, to) = (first.0.full_version(), second.0.full_version());
    let swapped = if back { "" } else { "&swap=1" };
    let name = &package.row.name;
    let address = |from: &VersionSummary, to: &VersionSummary| {
        format!(
            "{}?from={}&to={}",
            context.links.of_package(name, "compare"),
            fbc::spelling::percent::encode(&from.name),
            fbc::spelling::percent::encode(&to.name)
        )
    };
    let body = html! {
        h1 { "Compare " (t(&from)) " with " (t(&to)) }
        p.soft { "Versions of " a href=(context.links.package(name)) { (t(package.title())) } ", the " @if back { "newer" } @else { "older" } " one first." }
        (tabs(context, package, "compare"))
        (picker(context, package, Some(first.0), Some(second.0)))
        nav.actions.section aria-label="Other pairs" {
            a.button #swap href={ (address(older.0, newer.0)) (swapped) } { "Swap" }
            @if let Some(before) = package.before(&older.0.name) { a.button data-key="[" href=(address(before, older.0)) { "← " (t(&before.full_version())) " to " (t(&older.0.full_version())) } }
            @if let Some(after) = package.after(&newer.0.name) { a.button data-key="]" href=(address(newer.0, after)) { (t(&newer.0.full_version())) " to " (t(&after.full_version())) " →" } }
        }
        (show(&sections, true))
        p.small { "Download: " @for (place, format) in ["json", "md"].iter().enumerate() { @if place > 0 { " · " } a href={ (context.links.part(&format!("d/{}/compare.{format}", crate::links::package_path(name)))) "?from=" (fbc::spelling::percent::encode(&older.0.name)) "&to=" (fbc::spelling::percent::encode(&newer.0.name)) } download { (format) } } }
    };
    Page {
        title: format!("{} {from} and {to}", package.title()),
        section: Place::Packages,
        crumbs: crumbs(context, package, &[("Compare", None)]),
        body,
        name: "compare",
    }
}

/// A form to choose two versions.
pub fn picker(
    context: &PageContext<'_>,
    package: &PackageSummary,
    from: Option<&VersionSummary>,
    to: Option<&VersionSummary>,
) -> Markup {
    let select = |id: &str, label: &str, chosen: Option<&VersionSummary>| {
        html! {
            label { (label)
                select.field name=(id) {
                    @for bundle in &package.detail.bundles { option value=(t(&bundle.name)) selected[chosen.is_some_and(|chosen| chosen.name == bundle.name)] { (t(&bundle.full_version())) } }
                }
            }
        }
    };
    html! {
        form.form action=(context.links.of_package(&package.row.name, "compare")) method="get" {
            (select("from", "From", from)) (select("to", "To", to))
            button.button.main type="submit" { "Compare" }
        }
    }
}

/// Shows differences, notable ones first.
pub fn show(sections: &[ComparisonSection], equal_too: bool) -> Markup {
    let notable: Vec<&DifferenceLine> =
        sections.iter().flat_map(|section| &section.lines).filter(|line| line.notable).collect();
    html! {
        @if !notable.is_empty() {
            div.note.warn { p { strong { (count(notable.len(), "change", "changes")) " to review: " } "it requires more, or removes something." } }
        }
        @for section in sections {
            @if !section.lines.is_empty() {
                @if equal_too { h2 { (section.title) " " span.pill { (section.lines.len()) } } }
                @else { h3 { (section.title) " " span.pill { (section.lines.len()) } } }
                @if section.title == TEXT {
                    pre.diff tabindex="0" { @for line in &section.lines {
                        @match line.what {
                            ChangeKind::Removed => del { "− " (t(&line.text)) "\n" },
                            _ => ins { "+ " (t(&line.text)) "\n" },
                        }
                    } }
                } @else {
                    ul.changed { @for line in &section.lines {
                        li { b.warn[line.notable] { (line.what.word()) } " " bdi { (t(&crate::text::summary(&line.text, 600))) } }
                    } }
                }
            }
        }
        @let equal: Vec<&str> = sections.iter().filter(|section| section.lines.is_empty() && section.unknown.is_none()).map(|section| section.title).collect();
        @if equal_too && !equal.is_empty() { p.soft { "No difference in: " (equal.join(", ")) "." } }
        @if sections.iter().all(|section| section.lines.is_empty()) && !equal_too { p.soft { "No differences in the compared parts." } }
        @for section in sections { @if let Some(reason) = section.unknown { p.soft { (section.title) ": " (reason) } } }
    }
}

/// Formats the comparison as Markdown.
pub fn markdown(sections: &[ComparisonSection], from: &str, to: &str) -> String {
    // Nothing in a line may be Markdown syntax, or invisible.
    let code = |text: &str| {
        let text = crate::text::shown(text);
        let fence = "`".repeat(text.split(|c| c != '`').map(str::len).max().unwrap_or_default() + 1);
        let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
        format!("{fence}{space}{text}{space}{fence}")
    };
    let mut out = format!("# {} to {}\n", code(from), code(to));
    for section in sections.iter().filter(|section| !section.lines.is_empty()) {
        out.push_str(&format!("\n## {}\n\n", section.title));
        for line in &section.lines {
            let mark = if line.notable { "**" } else { "" };
            out.push_str(&format!("- {mark}{}{mark} {}\n", line.what.word(), code(&line.text)));
        }
    }
    out
}

/// Returns the comparison as data.
pub fn data(sections: &[ComparisonSection], from: &str, to: &str) -> Value {
    let sections: Vec<Value> = sections
        .iter()
        .map(|section| {
            let line =
                |line: &DifferenceLine| json!({"what": line.what.word(), "notable": line.notable, "text": line.text});
            let lines: Vec<Value> = section.lines.iter().map(line).collect();
            json!({"title": section.title, "unknown": section.unknown, "lines": lines})
        })
        .collect();
    json!({"from": from, "to": to, "sections": sections})
}
