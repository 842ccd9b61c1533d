//! Routes requests to pages.

mod data;
mod index;
mod packages;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use fbc::spelling::percent;

use crate::assets::ASSETS;
use crate::frame::{Notice, Page, PageContext, frame};
use crate::history::History;
use crate::links::Links;
use crate::pages::changes::ComparedCatalog;
use crate::pages::problems::{ProblemRow, UnservedPackage};
use crate::pages::{about, changes, images, kinds, list, problems, wrong};
use crate::rank::{self, PackageQuery};

pub use data::{changes_data, package_data};
pub use index::PageIndex;

/// The data of a console: one catalog that does not change.
pub trait ConsoleStore: Sync {
    /// Returns the digest of its content.
    fn revision(&self) -> String;
    /// Returns the names of its packages, in order.
    fn packages(&self) -> Vec<String>;
    /// Returns the page data of a package.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    fn summary(&self, package: &str) -> io::Result<Vec<u8>>;
    /// Returns the icon of a package.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    fn icon(&self, package: &str) -> io::Result<Vec<u8>>;
    /// Returns the JSON of a bundle's blob.
    ///
    /// # Errors
    /// Fails with the reason why it cannot be read, or not yet.
    fn bundle(&self, package: &str, bundle: &str) -> io::Result<String>;
}

/// A request.
#[derive(Debug, Clone, Default)]
pub struct ConsoleRequest<'a> {
    /// The path, without the slash at its start.
    pub path: &'a str,
    /// The query, without the question mark.
    pub query: &'a str,
    /// Whether the client prefers HTML.
    pub html: bool,
}

/// The state of the server.
#[derive(Clone, Default)]
pub struct ServerStatus {
    /// Notices on every page.
    pub notices: Vec<Notice>,
    /// Packages that are not served.
    pub left_out: Vec<UnservedPackage>,
    /// Why the last update was refused.
    pub refused: Option<String>,
    /// The problems that validation found, if it ran.
    pub found: Option<Vec<ProblemRow>>,
    /// The comparison with other catalogs, if requested.
    pub compared: Option<Arc<Vec<ComparedCatalog>>>,
}

/// The kind of a reply, which decides its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyKind {
    /// A page of the console.
    Page,
    /// A script, a style or the favicon: its name changes with its bytes.
    Asset,
    /// An icon from the catalog: its name changes with its bytes.
    Icon,
    /// Data for scripts and programs.
    Data,
}

/// A reply.
#[derive(Debug, Clone)]
pub struct ConsoleReply {
    pub status: u16,
    pub media_type: &'static str,
    /// The kind of content.
    pub kind: ReplyKind,
    /// The target of a redirect, relative to the request.
    pub location: Option<String>,
    /// The content.
    pub body: Vec<u8>,
}

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

impl ConsoleReply {
    fn page(status: u16, html: String) -> ConsoleReply {
        ConsoleReply { status, media_type: HTML, kind: ReplyKind::Page, location: None, body: html.into_bytes() }
    }

    fn data(media_type: &'static str, body: impl Into<Vec<u8>>) -> ConsoleReply {
        ConsoleReply { status: 200, media_type, kind: ReplyKind::Data, location: None, body: body.into() }
    }

    fn moved(location: String) -> ConsoleReply {
        ConsoleReply {
            status: 302,
            media_type: HTML,
            kind: ReplyKind::Page,
            location: Some(location),
            body: Vec::new(),
        }
    }
}

/// A console: its settings, and an index of the current catalog.
#[derive(Default)]
pub struct Console {
    /// The name of the catalog.
    pub name: String,
    /// The image of the catalog, if it came from one.
    pub image: String,
    /// Whether this is a preview of a catalog under development.
    pub preview: bool,
    /// Whether there is a page of changes: the catalog can change, or is compared with another.
    pub changes: bool,
    index: Mutex<Option<Arc<PageIndex>>>,
    history: Mutex<History>,
}

impl Console {
    /// Creates a console.
    pub fn new(name: &str, image: &str, preview: bool) -> Console {
        Console { name: name.to_owned(), image: image.to_owned(), preview, ..Console::default() }
    }

    /// Returns the index of a catalog, rebuilt when the catalog changed.
    ///
    /// # Errors
    /// Fails when the page data cannot be read.
    pub fn index(&self, store: &dyn ConsoleStore) -> io::Result<Arc<PageIndex>> {
        let revision = store.revision();
        let mut cached = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = cached.as_ref().filter(|index| index.facts.revision == revision) {
            return Ok(Arc::clone(index));
        }
        let index = Arc::new(PageIndex::read(self, store)?);
        *cached = Some(Arc::clone(&index));
        Ok(index)
    }

    /// Records that a catalog replaced another.
    ///
    /// # Errors
    /// Fails when one of them cannot be read.
    pub fn swapped(&self, old: &dyn ConsoleStore, new: &dyn ConsoleStore, when: &str) -> io::Result<()> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).record(old, new, when)
    }

    /// Drops data that was not used for a while, and returns whether there was any.
    pub fn tidy(&self) -> bool {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|index| index.tidy())
    }

    /// Answers a request; `None` if the path is unknown and the client does not prefer HTML.
    pub fn answer(
        &self,
        request: &ConsoleRequest<'_>,
        store: Option<&dyn ConsoleStore>,
        state: &ServerStatus,
    ) -> Option<ConsoleReply> {
        if let Some(name) = request.path.strip_prefix("-/a/") {
            let found = ASSETS.iter().find(|asset| asset.name == name);
            return found.map(|asset| ConsoleReply {
                status: 200,
                media_type: asset.media_type,
                kind: ReplyKind::Asset,
                location: None,
                body: asset.text.as_bytes().to_vec(),
            });
        }
        let ours = is_ours(request.path);
        if !ours && !request.html {
            return None;
        }
        let Some(store) = store else {
            return Some(ConsoleReply { status: 503, ..ConsoleReply::page(503, wrong::loading()) });
        };
        let index = match self.index(store) {
            Ok(index) => index,
            Err(error) => {
                let notice = [Notice { bad: true, text: format!("The catalog cannot be read: {error}") }];
                let facts = crate::frame::CatalogFacts { catalog: self.name.clone(), ..Default::default() };
                let context = PageContext {
                    facts: &facts,
                    links: Links::at(request.path, false),
                    notices: &notice,
                    preview: false,
                };
                let page = wrong::invalid(&context, &error.to_string());
                return Some(ConsoleReply::page(500, frame(&context, &page)));
            }
        };
        let mut facts = index.facts.clone();
        facts.changes = self.changes;
        facts.problems +=
            state.left_out.len() + usize::from(state.refused.is_some()) + state.found.as_ref().map_or(0, Vec::len);
        let context = PageContext {
            facts: &facts,
            links: Links::at(request.path, false),
            notices: &state.notices,
            preview: self.preview,
        };
        Handler { console: self, store, index: &index, state, request, context }.answer()
    }
}

/// Returns whether a path belongs to the console.
fn is_ours(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    matches!(
        first.strip_suffix(".html").unwrap_or(first),
        "" | "p" | "apis" | "images" | "changes" | "problems" | "about" | "-" | "index"
    ) || matches!(path, "images.txt" | "images.csv")
}

/// One request with all data that answers it.
struct Handler<'a> {
    console: &'a Console,
    store: &'a dyn ConsoleStore,
    index: &'a PageIndex,
    state: &'a ServerStatus,
    request: &'a ConsoleRequest<'a>,
    context: PageContext<'a>,
}

impl Handler<'_> {
    fn answer(&self) -> Option<ConsoleReply> {
        let path = self.request.path;
        let parts: Vec<&str> = path.split('/').collect();
        Some(match parts.as_slice() {
            ["" | "index.html"] => {
                let part = self.parameter("part").and_then(|part| part.parse().ok()).unwrap_or_default();
                let query = PackageQuery::read(self.request.query);
                let descriptions = query.in_descriptions().then(|| self.index.descriptions(self.store));
                let descriptions = descriptions.as_deref().map(Vec::as_slice).unwrap_or_default();
                self.shown(&list::page(&self.context, &self.index.rows, &query, descriptions, part))
            }
            ["p", package] => self.package(package)?,
            ["p", package, ""] => ConsoleReply::moved(format!("../{package}")),
            ["p", package, "v", bundle] => self.version(package, bundle)?,
            ["p", package, page] => self.of_package(package, page)?,
            ["apis" | "apis.html"] => {
                let words = self.parameter("q").unwrap_or_default();
                self.shown(&kinds::all(&self.context, &self.index.survey(self.store).kinds, &words))
            }
            ["apis", group, kind] => self.kind(group, kind)?,
            ["images" | "images.html"] => {
                let parameters = images::ImagesParameters::read(self.request.query);
                self.shown(&images::page(&self.context, &self.index.images(self.store), &parameters))
            }
            ["images.txt"] => {
                ConsoleReply::data("text/plain; charset=utf-8", images::text(&self.index.images(self.store)))
            }
            ["images.csv"] => {
                ConsoleReply::data("text/csv; charset=utf-8", images::csv(&self.index.images(self.store)))
            }
            ["changes" | "changes.html"] if self.console.changes => {
                let since = self.parameter("since");
                let swaps = self.console.history.lock().unwrap_or_else(PoisonError::into_inner).since(since.as_deref());
                let compared = self.state.compared.as_deref().map(Vec::as_slice).unwrap_or_default();
                self.shown(&changes::page(&self.context, compared, &swaps, since.as_deref()))
            }
            ["problems" | "problems.html"] => {
                let (state, rows) = (self.state, &self.index.rows);
                self.shown(&problems::page(
                    &self.context,
                    rows,
                    &state.left_out,
                    state.refused.as_deref(),
                    state.found.as_deref(),
                ))
            }
            ["about" | "about.html"] => self.shown(&about::page(&self.context)),
            ["-", rest @ ..] => self.part(rest)?,
            _ => self.unknown(&format!("There is no page /{path}."))?,
        })
    }

    fn parameter(&self, name: &str) -> Option<String> {
        rank::pairs(self.request.query).find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
    }

    fn shown(&self, page: &Page) -> ConsoleReply {
        ConsoleReply::page(200, frame(&self.context, page))
    }

    /// Answers that something does not exist; pages suggest similar names.
    fn unknown(&self, what: &str) -> Option<ConsoleReply> {
        if !self.request.html {
            return None;
        }
        let last = self.request.path.rsplit('/').next().unwrap_or_default();
        let last = percent::decode(last.strip_suffix(".html").unwrap_or(last)).unwrap_or_default();
        let near = rank::nearest(self.index.rows.iter().map(|row| row.name.as_str()), &last);
        let near: Vec<(String, String)> =
            near.iter().map(|name| ((*name).to_owned(), self.context.links.package(name))).collect();
        Some(ConsoleReply::page(404, frame(&self.context, &wrong::unknown(&self.context, what, &near))))
    }

    fn kind(&self, group: &str, kind: &str) -> Option<ConsoleReply> {
        let survey = self.index.survey(self.store);
        let kind = kind.strip_suffix(".html").unwrap_or(kind);
        let path = format!("apis/{group}/{kind}");
        match survey.kind_at(&path) {
            Some(((group, _), found)) => Some(self.shown(&kinds::one(&self.context, group, found))),
            None => self.unknown("No package of the catalog provides or requires this kind."),
        }
    }
}
