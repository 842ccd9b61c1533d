//! What surrounds every page: the way around, the state of the server, the end.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assets;
use crate::links::Links;
use crate::text::{count, t};

/// What is true of all pages of one catalog.
#[derive(Debug, Clone, Default)]
pub struct CatalogFacts {
    /// The name of the catalog.
    pub catalog: String,
    /// The digest of its content.
    pub revision: String,
    /// How many packages there are.
    pub packages: usize,
    /// How many channels there are.
    pub channels: usize,
    /// How many bundles there are.
    pub bundles: usize,
    /// How many things the console or the rules complain about.
    pub problems: usize,
    /// The image of the catalog, if that is known.
    pub image: String,
    /// Whether there is something to compare the catalog with.
    pub changes: bool,
}

/// Where and for whom a page is made.
#[derive(Debug, Clone)]
pub struct PageContext<'a> {
    pub facts: &'a CatalogFacts,
    /// Its links.
    pub links: Links,
    /// What the server has to say, in one line each.
    pub notices: &'a [Notice],
    /// Whether the page follows an author's work.
    pub preview: bool,
}

/// Something that readers of any page should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether something is wrong.
    pub bad: bool,
    /// The words.
    pub text: String,
}

/// The parts of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleSection {
    /// Packages and versions.
    Packages,
    /// Kinds.
    Kinds,
    /// Images.
    Images,
    /// Changes of the catalog.
    Changes,
    /// Problems.
    Problems,
    /// None of them.
    Other,
}

/// A step on the way to a page: words, and address if it is another page.
pub type Crumb = (String, Option<String>);

/// The policy that pages are under, where a page has to say it itself.
///
/// Files ask for nothing, so that there is no `connect-src`.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    form-action 'self'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A page before it is put into its frame.
pub struct Page {
    pub title: String,
    /// Where it belongs.
    pub section: ConsoleSection,
    /// The way to it.
    pub crumbs: Vec<Crumb>,
    /// What it says, with one `h1`.
    pub body: Markup,
    /// A name that scripts know it by.
    pub name: &'static str,
}

/// Puts a page into its frame.
pub fn frame(context: &PageContext<'_>, page: &Page) -> String {
    let (links, facts) = (&context.links, context.facts);
    let asset = |name: &str| links.part(&format!("a/{name}"));
    let files = links.are_files();
    let sections = [
        (ConsoleSection::Packages, "Packages", links.list(), true),
        (ConsoleSection::Kinds, "Kinds", links.top("apis"), true),
        (ConsoleSection::Images, "Images", links.top("images"), true),
        (ConsoleSection::Changes, "Changes", links.top("changes"), facts.changes),
        (ConsoleSection::Problems, "Problems", links.top("problems"), true),
    ];
    let name = if facts.catalog.is_empty() { "catalog" } else { &facts.catalog };
    html! {
        (DOCTYPE)
        html lang="en" data-rev=[(!files).then_some(&facts.revision)] data-root=(links.root()) data-page=(page.name) data-files=[files.then_some("1")] data-preview=[context.preview.then_some("1")] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                @if files { meta http-equiv="Content-Security-Policy" content=(POLICY); }
                title { (t(&page.title)) " · " (t(name)) }
                meta name="color-scheme" content="light dark";
                script src=(asset(assets::theme())) {}
                link rel="stylesheet" href=(asset(assets::style()));
                link rel="icon" href=(asset(assets::mark()));
                @if files { script defer src=(links.part("d/index.js")) {} }
                script defer src=(asset(assets::script())) {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    div.bar {
                        a.brand href=(links.list()) { span { (t(name)) } }
                        form.search role="search" action=(links.list()) method="get" {
                            label.vh for="q" { "Search packages" }
                            input #q name="q" type="search" autocomplete="off" placeholder="Search packages, kinds, keywords" maxlength="200";
                            button.vh { "Search" }
                        }
                        nav.sections aria-label="Sections" {
                            @for (section, label, target, shown) in &sections {
                                @if *shown {
                                    a href=(target) aria-current=[(*section == page.section).then_some("page")] {
                                        (label)
                                        @if *section == ConsoleSection::Problems && facts.problems > 0 && !files { " " span.badge { (facts.problems) } }
                                    }
                                }
                            }
                        }
                        div.tools {}
                    }
                }
                @for notice in context.notices {
                    p.strip.bad[notice.bad] { (t(&notice.text)) }
                }
                @if page.crumbs.len() > 1 {
                    nav.crumbs aria-label="Breadcrumb" {
                        ol {
                            @for (label, target) in &page.crumbs {
                                li {
                                    @match target {
                                        Some(target) => a href=(target) { (t(label)) },
                                        None => span aria-current="page" { (t(label)) },
                                    }
                                }
                            }
                        }
                    }
                }
                main #main tabindex="-1" { (page.body) }
                footer.foot {
                    // What all files would say is in the index: a page changes when its package does, and not with others.
                    @if !files {
                        p {
                            (count(facts.packages, "package", "packages")) " · " (count(facts.channels, "channel", "channels")) " · "
                            (count(facts.bundles, "version", "versions"))
                        }
                    }
                    p {
                        @if !files { "Revision " code { (facts.revision) } " · " }
                        "opm " (env!("CARGO_PKG_VERSION"))
                        @if !files { " · " a href=(links.file("openapi.json")) { "API" } }
                        " · " a href=(links.top("about")) { "About" }
                    }
                }
            }
        }
    }
    .into_string()
}

/// Puts a drawing of ours into a page.
pub fn drawing(svg: String) -> Markup {
    PreEscaped(svg)
}

/// Shows a picture of a package, or a tile with its first letter.
pub fn icon(links: &Links, icon: Option<&crate::summary::Icon>, title: &str, size: u16) -> Markup {
    match icon {
        Some(icon) => {
            let source = links.part(&format!("i/{}.{}", icon.digest, icon.format.extension()));
            html! { span.icon { img src=(source) alt="" width=(size) height=(size) loading="lazy" decoding="async"; } }
        }
        None => {
            let letter: String =
                title.chars().find(|c| c.is_alphanumeric()).unwrap_or('?').to_uppercase().take(1).collect();
            let hue = title.bytes().fold(0u32, |sum, byte| (sum * 31 + u32::from(byte)) % 8);
            html! { span.icon.letter.{ "h" (hue) } aria-hidden="true" { (t(&letter)) } }
        }
    }
}

/// Shows a date as it stands, readable by scripts where it can be read.
pub fn date(written: &str) -> Markup {
    match crate::date::Day::read(written) {
        Some(day) => html! { time { (day) } },
        None if written.is_empty() => html! {},
        None => html! { span.raw-date { (t(&crate::text::summary(written, 40))) } },
    }
}

/// Shows text that is often copied; the button is made by the script.
pub(crate) fn copyable(text: &str) -> Markup {
    html! { code.copy { (t(text)) } }
}

/// Shows a block of text with a name.
pub fn block(label: &str, text: &str) -> Markup {
    html! {
        figure.code {
            figcaption { (t(label)) }
            pre tabindex="0" { code { (Lines(text)) } }
        }
    }
}

/// Text whose lines are kept.
struct Lines<'a>(&'a str);

impl maud::Render for Lines<'_> {
    fn render_to(&self, out: &mut String) {
        use std::fmt::Write;
        let mut out = maud::Escaper::new(out);
        for c in self.0.chars() {
            let _ = out.write_char(if c == '\n' { c } else { crate::text::visible(c) });
        }
    }
}
