//! `opm preview`: serves the pages of a catalog or bundle while the user edits it.

mod bundle_dir;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use catalog::Warnings;
use fbc::{Fbc, LoadOptions};
use serve::cache::store::{Fingerprint, Integrity};
use serve::listen::Address;
use serve::load::{Empty, OnInvalid, ServedDirectory};
use serve::run::{CatalogOrigin, ServePlan};
use serve::server::ServerLimits;
use site::pages::problems::ProblemRow;

use super::serve::{directory_name, failure, http_address};
use crate::console::{self, ServedConsole};
use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;
use crate::runtime::{self, EndSignals};
use crate::{interrupt, limits, log, report};
use bundle_dir::BundleDir;

/// The interval between polls of the directory.
const POLL: Duration = Duration::from_millis(300);

/// Preview a catalog or bundle in the browser, with live reload
#[derive(clap::Args)]
#[command(
    long_about = "Preview a catalog or bundle in the browser, with live reload.\n\n\
        The server listens on this machine only. Open pages reload when a file changes. The problems page shows the \
        findings of 'opm validate --warnings' or 'opm bundle validate'. Broken packages are left out until they are fixed.",
    after_help = "Examples:\n  \
        opm preview my-catalog\n  \
        opm preview bundle --http 127.0.0.1:9000"
)]
pub(crate) struct PreviewArgs {
    /// Catalog or bundle directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Accept a directory whose files contain no blobs
    #[arg(long)]
    allow_empty: bool,
    /// Address to serve the pages on: HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = http_address)]
    http: Address,
}

pub(crate) fn run(args: &PreviewArgs, printer: &mut Printer) -> CommandResult {
    if !args.directory.is_dir() {
        return Err(Failure::message(format!("\"{}\" is not a directory", args.directory.display())));
    }
    log::start(false);
    let is_bundle = fbc::load::is_bundle_dir(&args.directory);
    let name = directory_name(&args.directory);
    let console = Arc::new(ServedConsole::new(&name, "", true));
    let origin = match is_bundle {
        true => Some(Arc::new(BundleDir::new(&args.directory, limits::from_env()?)?) as Arc<dyn CatalogOrigin>),
        false => None,
    };
    let plan = ServePlan {
        directory: ServedDirectory {
            root: args.directory.clone(),
            limits: limits::from_env()?,
            on_invalid: OnInvalid::Quarantine,
            empty: if args.allow_empty { Empty::Accepted } else { Empty::WithoutFiles },
            summarize: Some(console::summarize),
        },
        origin,
        cache_dir: None,
        integrity: Integrity::Rebuild,
        address: Address::Tcp("127.0.0.1".to_owned(), 0),
        tls: None,
        limits: ServerLimits::default(),
        watch: Some(POLL),
        http: Some((args.http.clone(), name)),
        http_connections: 64,
        pages: Some(console.clone()),
        http_hosts: Vec::new(),
        debug: None,
        drain: Duration::from_secs(1),
        reload: Arc::default(),
    };
    let (directory, watched) = (args.directory.clone(), Arc::clone(&console));
    std::thread::spawn(move || watch(&directory, is_bundle, &watched));
    if let Address::Tcp(host, port) = &args.http {
        printer.report(&format!("http://{host}:{port}/"));
    }
    runtime::block_on(async {
        interrupt::hand_over_signals();
        let mut signals = EndSignals::listen()?;
        let stop = async move {
            signals.next().await;
        };
        serve::run::run(plan, stop).await.map_err(|error| failure(error, printer))
    })?
}

/// Checks the directory whenever it changes, and notifies the pages.
fn watch(directory: &Path, is_bundle: bool, console: &ServedConsole) {
    let mut last: Option<Fingerprint> = None;
    loop {
        if let Ok(now) = Fingerprint::at(directory)
            && last.as_ref() != Some(&now)
        {
            let found = if is_bundle { bundle_dir::problems(directory) } else { problems(directory) };
            console.set_found(found);
            last = Some(now);
        }
        std::thread::sleep(POLL);
    }
}

/// Returns the problems of a catalog with their positions.
fn problems(directory: &Path) -> Vec<ProblemRow> {
    let Ok(limits) = limits::from_env() else { return Vec::new() };
    let rules = catalog::inspect(Warnings::On);
    let options = LoadOptions { limits, keep_text: false, migrate: false, inspect: Some(&rules), progress: None };
    let mut fbc = Fbc::default();
    let loaded = match fbc.load_dir(directory, &options) {
        Ok(loaded) => loaded,
        Err(error) => return vec![ProblemRow { message: error.to_string(), ..ProblemRow::default() }],
    };
    let checked = catalog::check(&fbc, loaded, Warnings::On);
    let found = report::find(&fbc, checked.problems());
    found.iter().map(ProblemRow::of_problem).collect()
}

impl ServedConsole {
    /// Updates the problems page and reloads open pages.
    fn set_found(&self, found: Vec<ProblemRow>) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        self.changed();
    }
}
