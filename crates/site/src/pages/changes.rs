//! The changes against other catalogs, and while the server ran.

use edit::diff::changes::{CatalogChanges, ChangeKind, LinePart, ReportLine, package_lines, summary};
use edit::upgrades::{ChannelReport, regressions};
use maud::{Markup, html};

use crate::frame::{ConsoleSection, Page, PageContext};
use crate::history::{PackageSwap, Swap};
use crate::text::{count, t};

/// The maximum number of lines per package.
const LINES: usize = 400;
/// More packages than this are collapsed.
const OPEN: usize = 5;
/// The maximum number of versions of a package that a swap names.
const NAMED: usize = 40;

/// The comparison with another catalog.
pub struct ComparedCatalog {
    /// The name of the other catalog.
    pub name: String,
    /// The differences, or the reason why they are unknown.
    pub outcome: Result<CatalogDifferences, String>,
}

/// The differences between two catalogs.
pub struct CatalogDifferences {
    pub changes: CatalogChanges,
    /// The consequences for clusters that use the other catalog.
    pub upgrades: Vec<ChannelReport>,
}

/// Renders the page.
pub fn page(context: &PageContext<'_>, compared: &[ComparedCatalog], swaps: &[Swap], since: Option<&str>) -> Page {
    let body = html! {
        div.intro { h1 { "Changes" } p.soft { "Added, removed and changed objects, and the versions that are stranded." } }
        @for one in compared { (other(context, one)) }
        @if !context.links.are_files() { (swapped(context, swaps, since)) }
    };
    Page { title: "Changes".to_owned(), section: ConsoleSection::Changes, crumbs: Vec::new(), body, name: "changes" }
}

fn other(context: &PageContext<'_>, compared: &ComparedCatalog) -> Markup {
    html! {
        section.section {
            h2 { "Against " (t(&compared.name)) }
            @match &compared.outcome {
                Err(reason) => div.note.bad { p { "Cannot compare the catalogs: " (t(reason)) } },
                Ok(outcome) => {
                    (stranded(context, &outcome.upgrades))
                    @if outcome.changes.is_empty() { p { "No differences." } }
                    @else { p.soft { (summary(&outcome.changes)) "." } }
                    @for (place, package) in outcome.changes.packages.iter().enumerate() {
                        @let lines = package_lines(package);
                        details.fold.diff open[place < OPEN && lines.len() < 60] data-package=(t(&package.name)) {
                            summary { (t(&package.name)) (pill(Some(package.what))) small { (counts(&lines)) } }
                            @if package.what != ChangeKind::Removed { p { a.button href=(context.links.package(&package.name)) { "Open " (t(&package.name)) } } }
                            (list(lines.get(1..).unwrap_or_default()))
                        }
                    }
                    @if !outcome.changes.others.is_empty() {
                        details.fold { summary { (count(outcome.changes.others.len(), "other blob", "other blobs")) }
                            ul { @for other in &outcome.changes.others { li { (pill(Some(other.what))) " " code { (t(&other.schema)) } " " (t(&other.name)) @if !other.package.is_empty() { " of " (t(&other.package)) } } } }
                        }
                    }
                },
            }
        }
    }
}

/// The bundles that can no longer upgrade to the newest version.
fn stranded(context: &PageContext<'_>, reports: &[ChannelReport]) -> Markup {
    let all: usize = reports.iter().map(|report| report.outcomes.len()).sum();
    let lost = regressions(reports);
    if lost == 0 {
        return html! { div.note { p { "No version is stranded: " (count(all, "bundle", "bundles")) " in " (count(reports.len(), "channel", "channels")) " checked." } } };
    }
    let worse = reports.iter().filter(|report| report.outcomes.iter().any(|outcome| outcome.is_regression()));
    html! {
        div.note.bad #stranded {
            p { strong { (lost) " of " (count(all, "bundle", "bundles")) " lose their upgrade." } }
            @for report in worse {
                p { a href=(context.links.package(&report.package)) { (t(&report.package)) } ", channel " code { (t(&report.channel)) } }
                ul { @for outcome in report.outcomes.iter().filter(|outcome| outcome.is_regression()) {
                    li { code { (t(&outcome.bundle)) } " " (t(&outcome.words())) }
                } }
                @if let Some(advice) = report.advice("CATALOG") { p.small { "Fix: " code { (t(&advice)) } } }
            }
        }
    }
}

fn counts(lines: &[ReportLine]) -> String {
    count(lines.len().saturating_sub(1), "difference", "differences")
}

fn pill(what: Option<ChangeKind>) -> Markup {
    html! { @match what {
        Some(ChangeKind::Added) => span.pill.good { "added" },
        Some(ChangeKind::Removed) => span.pill.bad { "removed" },
        Some(ChangeKind::Changed) => span.pill { "changed" },
        None => {},
    } }
}

fn list(lines: &[ReportLine]) -> Markup {
    html! {
        ul.lines { @for line in lines.iter().take(LINES) {
            li.{ "d" (line.depth.min(3)) } {
                (pill(line.what)) " "
                @for part in &line.parts { @match part { LinePart::Word(word) => (word), LinePart::Name(name) => code { (t(name)) } } }
            }
        } }
        @if lines.len() > LINES { p.soft { "and " (lines.len() - LINES) " more: " code { "opm diff" } " shows all" } }
    }
}

fn swapped(context: &PageContext<'_>, swaps: &[Swap], since: Option<&str>) -> Markup {
    html! {
        section.section.live #swaps {
            h2 { "While this server ran" }
            @if let Some(since) = since { p.soft { "Since revision " code { (t(since)) } ". " a href=(context.links.top("changes")) { "Show all" } } }
            @if swaps.is_empty() { p.soft { "The server has recorded no changes of the catalog." } }
            @for swap in swaps {
                article.swap {
                    h3 { time { (t(&swap.when)) } " " span.pill { (count(swap.count, "package", "packages")) } }
                    p.small.soft { "Revision " code { (t(&swap.from)) } " became " code { (t(&swap.to)) } "." }
                    ul { @for package in &swap.packages { li { (one(context, package)) } } }
                    @if swap.count > swap.packages.len() { p.soft { "and " (swap.count - swap.packages.len()) " more" } }
                }
            }
        }
    }
}

fn one(context: &PageContext<'_>, package: &PackageSwap) -> Markup {
    let named = |list: &[(ChangeKind, String)], what: &str| {
        html! {
            @for became in [ChangeKind::Added, ChangeKind::Removed, ChangeKind::Changed] {
                @let names: Vec<&str> = list.iter().filter(|(one, _)| *one == became).map(|(_, name)| name.as_str()).collect();
                @if !names.is_empty() {
                    ", " (what) " " (became.word()) ": "
                    @for (place, name) in names.iter().take(NAMED).enumerate() { @if place > 0 { ", " } code { (t(name)) } }
                    @if names.len() > NAMED { " and " (names.len() - NAMED) " more" }
                }
            }
        }
    };
    html! {
        @if package.what == ChangeKind::Removed { strong { (t(&package.name)) } } @else { a href=(context.links.package(&package.name)) { (t(&package.name)) } }
        " " (package.what.word())
        (named(&package.channels, "channels")) (named(&package.bundles, "versions"))
    }
}
