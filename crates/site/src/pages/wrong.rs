//! Pages for what does not exist, or does not exist yet.

use maud::html;

use crate::frame::{ConsoleSection, Page, PageContext};
use crate::text::t;

/// Renders the page for an unknown path.
pub fn unknown(context: &PageContext<'_>, what: &str, near: &[(String, String)]) -> Page {
    let body = html! {
        h1 { "Not found" }
        p { (t(what)) }
        @if !near.is_empty() {
            p { "Perhaps one of these:" }
            ul { @for (label, target) in near { li { a href=(target) { (t(label)) } } } }
        }
        p { a.button href=(context.links.list()) { "All packages" } }
    };
    Page { title: "Not found".to_owned(), section: ConsoleSection::Other, crumbs: Vec::new(), body, name: "wrong" }
}

/// Renders the page of a package that is not served.
pub fn left_out(context: &PageContext<'_>, package: &str, reason: &str) -> Page {
    let body = html! {
        h1 { (t(package)) }
        div.note.bad { p { strong { "This package is not served." } " It has errors:" } }
        (crate::frame::block("Message", reason))
        p { a.button href=(context.links.top("problems")) { "All problems" } }
    };
    Page { title: package.to_owned(), section: ConsoleSection::Packages, crumbs: Vec::new(), body, name: "left-out" }
}

/// Renders the page for an invalid request.
pub(crate) fn invalid(context: &PageContext<'_>, reason: &str) -> Page {
    let body = html! { h1 { "Invalid request" } div.note.bad { p { (t(reason)) } } p { a.button href=(context.links.list()) { "All packages" } } };
    Page {
        title: "Invalid request".to_owned(),
        section: ConsoleSection::Other,
        crumbs: Vec::new(),
        body,
        name: "wrong",
    }
}

/// Renders the page of a catalog that is still loading.
pub fn loading() -> String {
    html! {
        (maud::DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta http-equiv="refresh" content="1"; meta name="viewport" content="width=device-width, initial-scale=1"; title { "Loading" } link rel="stylesheet" href={ "-/a/" (crate::assets::style()) }; }
            body { main { h1 { "The catalog is being loaded" } p { "This page reloads every second." } } }
        }
    }
    .into_string()
}
