//! What this is, and where its data are.

use maud::html;

use crate::frame::{Context, Page, Section};
use crate::text::{grouped, t};

/// Makes the page.
pub fn page(context: &Context<'_>) -> Page {
    let facts = context.facts;
    let files = context.links.are_files();
    let body = html! {
        div.intro { h1 { "About" } p.soft { "The catalog " strong { (t(&facts.catalog)) } " as pages, made by opm " (env!("CARGO_PKG_VERSION")) "." } }
        dl.facts {
            div { dt { "Revision" } dd { code { (facts.revision) } } }
            div { dt { "Packages" } dd { (grouped(facts.packages)) } }
            div { dt { "Channels" } dd { (grouped(facts.channels)) } }
            div { dt { "Versions" } dd { (grouped(facts.bundles)) } }
        }
        section.section { h2 { "Data" }
            p { "Everything that pages say is also there as JSON: " a href=(context.links.part("d/index.json")) { "all packages" } "." }
            @if !files { p.live { "The catalog itself: " a href=(context.links.file("openapi.json")) { "API" } "." } }
            @else { p.still { "Comparing any two versions and resolving need the program: " code { "opm serve CATALOG --http :8080" } ", " code { "opm diff" } ", " code { "opm resolve" } "." } }
        }
        section.section { h2 { "Privacy" } p { "Pages load nothing from elsewhere, set no cookies and store nothing but your choice of theme and keys, in this browser." } }
    };
    Page { title: "About".to_owned(), section: Section::Other, crumbs: Vec::new(), body, name: "about" }
}
