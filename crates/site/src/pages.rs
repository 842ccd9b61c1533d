//! The pages, one file each.

pub mod about;
pub mod changes;
pub mod compare;
pub mod graph;
pub mod images;
pub mod install;
pub mod kinds;
pub mod list;
pub mod package;
pub mod path;
pub mod problems;
pub mod version;
pub mod why;
pub mod wrong;

use maud::{Markup, html};

use crate::frame::{Crumb, PageContext, icon};
use crate::summary::{PackageSummary, VersionSummary};
use crate::text::t;

/// The breadcrumbs of the pages of a package.
fn crumbs(context: &PageContext<'_>, package: &PackageSummary, rest: &[(&str, Option<String>)]) -> Vec<Crumb> {
    let mut crumbs = vec![("Packages".to_owned(), Some(context.links.list()))];
    let name = package.row.name.clone();
    crumbs.push((name.clone(), (!rest.is_empty()).then(|| context.links.package(&name))));
    crumbs.extend(rest.iter().map(|(label, target)| ((*label).to_owned(), target.clone())));
    crumbs
}

/// The header of the pages of a package.
fn hero(context: &PageContext<'_>, package: &PackageSummary, heading: &str) -> Markup {
    hero_of(context, package, heading, None)
}

/// The header of a page of a package, or of one of its versions.
fn hero_of(
    context: &PageContext<'_>,
    package: &PackageSummary,
    heading: &str,
    version: Option<&VersionSummary>,
) -> Markup {
    let row = &package.row;
    let is_head = version.is_some_and(|version| version.name == row.head);
    html! {
        header.hero {
            (icon(&context.links, row.icon.as_ref(), row.title(), 76))
            div {
                h1 { (t(heading)) }
                p.sub {
                    @if heading != row.name { code { (t(&row.name)) } }
                    @if !row.provider.is_empty() { span { "by " (t(&row.provider)) } }
                    @match version {
                        None => {
                            span { span.ver { (t(&row.version)) } " in " (t(&row.channel)) }
                            (crate::frame::date(&row.date))
                        },
                        Some(version) => (crate::frame::date(&version.date)),
                    }
                    @if row.deprecated { span.pill.warn { "deprecated" } }
                }
            }
            div.actions {
                @if let Some(page) = context.links.version(&row.name, &row.head).filter(|_| !is_head) {
                    a.button href=(page) { @if version.is_some() { "Head " } @else { "Version " } (t(&row.version)) }
                }
                a.button.main href=(context.links.of_package(&row.name, "install")) { "Install" }
            }
        }
    }
}

/// The tabs of a package.
fn tabs(context: &PageContext<'_>, package: &PackageSummary, current: &str) -> Markup {
    let name = &package.row.name;
    let links = &context.links;
    let tabs = [
        ("overview", "Overview", links.package(name)),
        ("graph", "Upgrade graph", links.of_package(name, "graph")),
        ("path", "Upgrade path", links.of_package(name, "path")),
        ("why", "Why", links.of_package(name, "why")),
        ("install", "Install", links.of_package(name, "install")),
    ];
    html! {
        nav.tabs aria-label="Package" {
            @for (key, label, target) in tabs {
                a href=(target) aria-current=[(key == current).then_some("page")] { (label) }
            }
        }
    }
}

/// Shows deprecation messages in full.
fn deprecations(messages: &[(&str, Option<&str>)]) -> Markup {
    html! {
        @for (what, message) in messages {
            @if let Some(message) = message {
                div.note.warn dir="auto" {
                    p { strong { (what) " is deprecated." } " " (t(message)) }
                }
            }
        }
    }
}
