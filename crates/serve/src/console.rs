//! The web console of a server: the pages of `site` for the served catalog.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use fbc::spelling::calendar;
use site::console::{Console, ConsoleReply, ConsoleRequest, ConsoleStore, ServerStatus};
use site::frame::Notice;
use site::others::OtherCatalogs;
use site::pages::changes::ComparedCatalog;
use site::pages::problems::{ProblemRow, UnservedPackage};

use crate::live::ServerState;
use crate::pages::{PackageSummaries, Pages};

/// The pages of the catalog being served.
pub struct ServedConsole {
    console: Console,
    /// The catalogs to compare with.
    others: Option<OtherCatalogs>,
    /// The last comparison, with its revision.
    compared: Mutex<Option<(String, Arc<Vec<ComparedCatalog>>)>>,
    /// The problems of a previewed catalog; `None` for a server.
    found: Mutex<Option<Vec<ProblemRow>>>,
    /// The number of changes so far.
    changes: AtomicU64,
}

impl ServedConsole {
    /// Creates the pages of a catalog; `image` is its image, or empty for a directory.
    pub fn new(name: &str, image: &str, preview: bool) -> ServedConsole {
        ServedConsole {
            console: Console::new(name, image, preview),
            others: None,
            compared: Mutex::default(),
            found: Mutex::default(),
            changes: AtomicU64::new(0),
        }
    }

    /// Enables the pages about changes: since the start, if the server watches the catalog, and against other catalogs.
    pub fn with_changes(mut self, watching: bool, others: OtherCatalogs) -> ServedConsole {
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
        let compared = Arc::new(summaries.compare(others));
        // Do not cache failures: they can be transient.
        if compared.iter().all(|one| one.outcome.is_ok()) {
            *kept = Some((revision, Arc::clone(&compared)));
        }
        Some(compared)
    }

    /// Updates the problems page and reloads open pages.
    pub(crate) fn set_found(&self, found: Vec<ProblemRow>) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        self.changed();
    }

    /// Records a change of the page content.
    fn changed(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    fn state(&self, state: &ServerState) -> ServerStatus {
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
        ServerStatus {
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
        request: &ConsoleRequest<'_>,
        summaries: Option<&PackageSummaries>,
        state: &ServerState,
    ) -> Option<ConsoleReply> {
        let mut state = self.state(state);
        if matches!(request.path, "changes" | "changes.html" | "-/d/changes.json") {
            state.compared = summaries.and_then(|summaries| self.compared(summaries));
        }
        self.console.answer(request, summaries.map(|summaries| summaries as &dyn ConsoleStore), &state)
    }

    fn event(&self, summaries: Option<&PackageSummaries>, state: &ServerState) -> Option<String> {
        let request = ConsoleRequest { path: "-/d/revision.json", query: "", html: false };
        let reply = self.answer(&request, summaries, state).filter(|reply| reply.status == 200)?;
        String::from_utf8(reply.body).ok()
    }

    fn swapped(&self, old: &PackageSummaries, new: &PackageSummaries) {
        if !self.console.changes {
            return;
        }
        let when = calendar::rfc3339(calendar::now());
        if let Err(error) = self.console.swapped(old, new, &when) {
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
