//! The changes of a version against the previous one.

use maud::{Markup, html};

use crate::frame::PageContext;
use crate::manifest::VersionManifest;
use crate::pages::compare;
use crate::summary::{PackageSummary, VersionSummary};
use crate::text::t;

pub(super) fn section(
    context: &PageContext<'_>,
    package: &PackageSummary,
    bundle: &VersionSummary,
    manifest: Option<&VersionManifest>,
    before: Option<(&VersionSummary, &VersionManifest)>,
) -> Markup {
    let (Some(manifest), Some((older, old))) = (manifest, before) else {
        return html! {
            @if package.before(&bundle.name).is_none() { p.soft { "It is the first version." } }
            @else { p.soft { "The version before it cannot be read now." } }
        };
    };
    let sections = compare::differences((package, older, old), (package, bundle, manifest));
    html! {
        p { "Against " a href=[context.links.version(&package.row.name, &older.name)] { (t(&older.full_version())) } ":" }
        (compare::show(&sections, false))
    }
}
