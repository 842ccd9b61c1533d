//! All images in the catalog.

use std::collections::BTreeMap;

use maud::html;

use crate::frame::{ConsoleSection, Page, PageContext};
use crate::summary::PackageSummary;
use crate::text::{count, grouped, t};

/// The maximum number of images that are shown at once.
const PART: usize = 1000;

/// Every image, with the packages and versions that use it.
pub type ImageUses = BTreeMap<String, Uses>;

/// The uses of an image.
#[derive(Debug, Clone, Default)]
pub struct Uses {
    /// The number of versions.
    pub versions: usize,
    pub packages: std::collections::BTreeSet<String>,
}

/// Adds the images of a package.
pub fn add(images: &mut ImageUses, package: &PackageSummary) {
    let mut note = |image: &str| {
        if !image.is_empty() {
            let uses = images.entry(image.to_owned()).or_default();
            uses.versions += 1;
            uses.packages.insert(package.row.name.clone());
        }
    };
    for bundle in &package.detail.bundles {
        let mut places: Vec<u32> = bundle.images.iter().map(|(place, _)| *place).collect();
        places.sort_unstable();
        places.dedup();
        let listed: Vec<&str> =
            places.iter().filter_map(|place| package.detail.images.get(*place as usize)).map(String::as_str).collect();
        listed.iter().for_each(|image| note(image));
        if !listed.contains(&bundle.image.as_str()) {
            note(&bundle.image);
        }
    }
}

/// The parameters of the page.
#[derive(Debug, Clone, Default)]
pub struct ImagesParameters {
    /// Words in the name.
    pub words: String,
    /// Only of this package.
    pub package: String,
    /// Only by tag or by digest.
    pub by: String,
}

impl ImagesParameters {
    /// Parses the query of a URL.
    pub fn read(query: &str) -> ImagesParameters {
        let mut parameters = ImagesParameters::default();
        for (key, value) in crate::rank::pairs(query) {
            match key.as_str() {
                "q" => parameters.words = value,
                "package" => parameters.package = value,
                "by" => parameters.by = value,
                _ => {}
            }
        }
        parameters
    }

    /// Returns whether an image matches.
    pub fn fits(&self, image: &str, uses: &Uses) -> bool {
        let lower = image.to_lowercase();
        self.words.to_lowercase().split_whitespace().all(|word| lower.contains(word))
            && (self.package.is_empty() || uses.packages.contains(&self.package))
            && match self.by.as_str() {
                "tag" => !by_digest(image),
                "digest" => by_digest(image),
                _ => true,
            }
    }
}

/// Returns whether an image is referenced by digest.
pub fn by_digest(image: &str) -> bool {
    image.contains("@sha256:")
}

/// Returns the registry of an image.
pub fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => "docker.io",
    }
}

/// Renders the page.
pub fn page(context: &PageContext<'_>, images: &ImageUses, parameters: &ImagesParameters) -> Page {
    let found: Vec<(&String, &Uses)> = images.iter().filter(|(image, uses)| parameters.fits(image, uses)).collect();
    let tags = images.keys().filter(|image| !by_digest(image)).count();
    let mut registries: BTreeMap<&str, usize> = BTreeMap::new();
    for image in images.keys() {
        *registries.entry(registry(image)).or_default() += 1;
    }
    let mut registries: Vec<(&str, usize)> = registries.into_iter().collect();
    registries.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let files = context.links.are_files();
    let export = |kind: &str| context.links.file(&format!("images.{kind}"));
    let body = html! {
        div.intro {
            h1 { "Images" }
            p.soft { (count(images.len(), "image", "images")) " in all, " (grouped(tags)) " of them by tag: a tag can point to another image after the release." }
        }
        @if !files {
            form.form.live action=(context.links.top("images")) method="get" {
                label { "Words" input.field name="q" type="search" value=(t(&parameters.words)); }
                label { "Package" input.field name="package" value=(t(&parameters.package)); }
                label { "Named by" select.field name="by" { @for (value, label) in [("", "tag or digest"), ("tag", "tag"), ("digest", "digest")] { option value=(value) selected[parameters.by == value] { (label) } } } }
                button.button type="submit" { "Show" }
            }
        }
        p { "All of them as " a href=(export("txt")) { "text" } " or " a href=(export("csv")) { "CSV" } "." }
        div.two {
            div.scroll tabindex="0" role="group" aria-label="Images" {
                table {
                    caption { (count(found.len(), "image", "images")) @if found.len() > PART { ", the first " (PART) } }
                    thead { tr { th scope="col" { "Image" } th scope="col" { "By" } th scope="col" { "Versions" } th scope="col" { "Packages" } } }
                    tbody { @for (image, uses) in found.iter().take(PART) {
                        tr {
                            th scope="row" { code { (t(image)) } }
                            td { @if by_digest(image) { span.pill.good { "digest" } } @else { span.pill.warn { "tag" } } }
                            td.num { (uses.versions) }
                            td { @for name in uses.packages.iter().take(3) { a href=(context.links.package(name)) { (t(name)) } " " } @if uses.packages.len() > 3 { "and " (uses.packages.len() - 3) " more" } }
                        }
                    } }
                }
            }
            aside aria-label="Registries" {
                dl.facts { @for (host, number) in registries.iter().take(20) { div { dt { (t(host)) } dd { (count(*number, "image", "images")) } } } }
            }
        }
    };
    Page { title: "Images".to_owned(), section: ConsoleSection::Images, crumbs: Vec::new(), body, name: "images" }
}

/// Lists all images, one per line.
pub fn text(images: &ImageUses) -> String {
    images.keys().map(|image| format!("{}\n", crate::text::shown(image))).collect()
}

/// Lists all images with the packages that use them.
pub fn csv(images: &ImageUses) -> String {
    let mut out = String::from("image,by,versions,packages\n");
    let quoted = |text: &str| {
        // A spreadsheet would interpret these as formulas.
        let text = crate::text::shown(text);
        let guard = if text.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    };
    for (image, uses) in images {
        let by = if by_digest(image) { "digest" } else { "tag" };
        let packages: Vec<&str> = uses.packages.iter().map(String::as_str).collect();
        out.push_str(&format!("{},{by},{},{}\n", quoted(image), uses.versions, quoted(&packages.join(" "))));
    }
    out
}
