//! The web console of a server: connects the pages of `site` to the catalogs of `serve`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use fbc::json::Raw;
use fbc::spelling::calendar;
use fbc::{Blob, Fbc};
use serve::live::ServerState;
use serve::load::{EncodedSummary, SummaryEncoder};
use serve::pages::{PackageSummaries, PageKind, PageReply, PageRequest, Pages};
use site::console::{self, Console, ConsoleStore};
use site::frame::Notice;
use site::others::OtherCatalogs;
use site::pages::changes::ComparedCatalog;
use site::pages::problems::{ProblemRow, UnservedPackage};

use crate::compared;

/// Starts to collect the data of a package for its pages.
pub(crate) fn summarize(package: &catalog::Package) -> Box<dyn SummaryEncoder<'_> + '_> {
    Box::new(SiteSummarizer(site::summarize::Summarizer::new(package)))
}

/// Adapts the summarizer of `site` to the interface of `serve`.
struct SiteSummarizer<'a>(site::summarize::Summarizer<'a>);

impl<'a> SummaryEncoder<'a> for SiteSummarizer<'a> {
    fn bundle(&mut self, name: &str, bundle: &'a catalog::Bundle, text: Raw<'_>, csv: Option<Raw<'_>>) {
        self.0.bundle(name, bundle, text, csv);
    }

    fn finish(self: Box<Self>, fbc: &Fbc, blobs: &[&Blob]) -> io::Result<EncodedSummary> {
        let made = self.0.finish(fbc, blobs.iter().copied())?;
        Ok(EncodedSummary { summary: made.package.write(), icon: made.icon })
    }
}

/// The pages of the catalog being served.
pub(crate) struct ServedConsole {
    console: Console,
    /// The catalogs to compare with.
    others: Option<OtherCatalogs>,
    /// The last comparison, with its revision.
    compared: Mutex<Option<(String, Arc<Vec<ComparedCatalog>>)>>,
    /// The problems of a previewed catalog; `None` for a server.
    pub(crate) found: Mutex<Option<Vec<ProblemRow>>>,
    /// The number of changes so far.
    changes: AtomicU64,
}

impl ServedConsole {
    /// Creates the pages of a catalog; `image` is its image, or empty for a directory.
    pub(crate) fn new(name: &str, image: &str, preview: bool) -> ServedConsole {
        ServedConsole {
            console: Console::new(name, image, preview),
            others: None,
            compared: Mutex::default(),
            found: Mutex::default(),
            changes: AtomicU64::new(0),
        }
    }

    /// Enables the pages about changes: since the start, if the server watches the catalog, and against other catalogs.
    pub(crate) fn with_changes(mut self, watching: bool, others: OtherCatalogs) -> ServedConsole {
        self.console.changes = watching || !others.is_empty();
        self.others = Some(others).filter(|others| !others.is_empty());
        self
    }

    /// Compares the catalog with the others, once per revision.
    fn compared(&self, summaries: &PackageSummaries) -> Option<Arc<Vec<ComparedCatalog>>> {
        let others = self.others.as_ref()?;
        let revision = summaries.revision();
        let mut kept = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, compared)) = kept.as_ref().filter(|(of, _)| *of == revision) {
            return Some(Arc::clone(compared));
        }
        let compared = Arc::new(compared::compare(others, summaries));
        // Do not cache failures: they can be transient.
        if compared.iter().all(|one| one.outcome.is_ok()) {
            *kept = Some((revision, Arc::clone(&compared)));
        }
        Some(compared)
    }

    /// Records a change of the page content.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    fn state(&self, state: &ServerState) -> console::ServerStatus {
        let mut notices = Vec::new();
        let mut note = |bad: bool, text: String| notices.push(Notice { bad, text });
        if state.draining {
            note(true, "The server is shutting down.".to_owned());
        }
        if let Some(reason) = &state.refused {
            let first = reason.lines().next().unwrap_or_default();
            note(true, format!("The last update was refused; this page shows the previous catalog: {first}"));
        }
        if let Some(reason) = &state.unreachable {
            note(false, format!("Cannot check for a newer catalog: {reason}"));
        }
        if let Some(reason) = &state.without_http {
            note(true, format!("Cannot read versions: {reason}"));
        }
        if !state.quarantined.is_empty() {
            let names: Vec<&str> = state.quarantined.iter().map(|one| one.package.as_str()).collect();
            note(true, format!("Not served because of errors: {}", names.join(", ")));
        }
        let left_out = state.quarantined.iter();
        let left_out = left_out.map(|one| UnservedPackage { package: one.package.clone(), reason: one.reason.clone() });
        console::ServerStatus {
            notices,
            left_out: left_out.collect(),
            refused: state.refused.clone(),
            found: self.found.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            compared: None,
        }
    }
}

impl Pages for ServedConsole {
    fn answer(
        &self,
        request: &PageRequest<'_>,
        summaries: Option<&PackageSummaries>,
        state: &ServerState,
    ) -> Option<PageReply> {
        let store = summaries.map(ServedStore);
        let store = store.as_ref().map(|store| store as &dyn ConsoleStore);
        let mut state = self.state(state);
        if matches!(request.path, "changes" | "changes.html" | "-/d/changes.json") {
            state.compared = summaries.and_then(|summaries| self.compared(summaries));
        }
        let request = console::ConsoleRequest { path: request.path, query: request.query, html: request.html };
        let answer = self.console.answer(&request, store, &state)?;
        Some(PageReply {
            status: answer.status,
            media_type: answer.media_type,
            kind: match answer.kind {
                console::ReplyKind::Page => PageKind::Page,
                console::ReplyKind::Asset => PageKind::Asset,
                console::ReplyKind::Icon => PageKind::Picture,
                console::ReplyKind::Data => PageKind::Data,
            },
            location: answer.location,
            body: answer.body,
        })
    }

    fn event(&self, summaries: Option<&PackageSummaries>, state: &ServerState) -> Option<String> {
        let request = PageRequest { path: "-/d/revision.json", query: "", html: false };
        let reply = self.answer(&request, summaries, state).filter(|reply| reply.status == 200)?;
        String::from_utf8(reply.body).ok()
    }

    fn swapped(&self, old: &PackageSummaries, new: &PackageSummaries) {
        if !self.console.changes {
            return;
        }
        let when = calendar::rfc3339(calendar::now());
        if let Err(error) = self.console.swapped(&ServedStore(old), &ServedStore(new), &when) {
            tracing::warn!(%error, "failed to compute the changes of the catalog");
        }
        self.changed();
    }

    fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    fn tidy(&self) -> bool {
        self.console.tidy()
    }
}

/// The served catalog as a store for pages.
pub(crate) struct ServedStore<'a>(pub(crate) &'a PackageSummaries);

impl ConsoleStore for ServedStore<'_> {
    fn revision(&self) -> String {
        self.0.revision()
    }

    fn packages(&self) -> Vec<String> {
        self.0.packages()
    }

    fn summary(&self, package: &str) -> io::Result<Vec<u8>> {
        self.0.summary(package)
    }

    fn icon(&self, package: &str) -> io::Result<Vec<u8>> {
        self.0.icon(package)
    }

    fn bundle(&self, package: &str, bundle: &str) -> io::Result<String> {
        self.0.bundle(package, bundle)
    }
}
