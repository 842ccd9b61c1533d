//! Serves the pages of a catalog or bundle directory while the user edits it.

mod bundle_dir;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use catalog::Warnings;
use fbc::{Fbc, Limits, LoadOptions, locate};
use site::pages::problems::ProblemRow;

use crate::cache::store::{Fingerprint, Integrity};
use crate::console::ServedConsole;
use crate::http;
use crate::listen::Address;
use crate::load::{Empty, OnInvalid, ServedDirectory};
use crate::run::{self, CatalogOrigin, OriginError, RunError, ServePlan};
use crate::server::ServerLimits;
use bundle_dir::BundleDir;

/// The interval between polls of the directory.
const POLL: Duration = Duration::from_millis(300);

/// What to preview, and where.
pub struct Preview {
    /// The catalog or bundle.
    pub directory: PathBuf,
    /// Limits for reading it.
    pub limits: Limits,
    /// Which directories without a single blob are accepted.
    pub empty: Empty,
    /// The address of the pages.
    pub http: Address,
}

impl Preview {
    /// Serves the pages until `stop` is ready. Open pages reload when a file changes.
    ///
    /// # Errors
    /// Fails like [`run::run`], and when a temporary directory cannot be created.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), RunError> {
        let Preview { directory, limits, empty, http } = self;
        let is_bundle = fbc::load::is_bundle_dir(&directory);
        let find: Find = if is_bundle { bundle_dir::problems } else { problems };
        let origin = match is_bundle {
            true => {
                let made = BundleDir::new(&directory, limits.clone());
                Some(Arc::new(made.map_err(|error| RunError::Origin(OriginError::from(error)))?)
                    as Arc<dyn CatalogOrigin>)
            }
            false => None,
        };
        let name = http::directory_name(&directory);
        let console = Arc::new(ServedConsole::new(&name, "", true));
        let plan = ServePlan {
            directory: ServedDirectory {
                root: directory.clone(),
                limits: limits.clone(),
                on_invalid: OnInvalid::Quarantine,
                empty,
                summarize: true,
            },
            origin,
            cache_dir: None,
            integrity: Integrity::Rebuild,
            address: Address::Tcp("127.0.0.1".to_owned(), 0),
            tls: None,
            limits: ServerLimits::default(),
            watch: Some(POLL),
            http: Some((http, name)),
            http_connections: 64,
            pages: Some(console.clone()),
            http_hosts: Vec::new(),
            debug: None,
            drain: Duration::from_secs(1),
            reload: Arc::default(),
        };
        std::thread::spawn(move || watch(&directory, &limits, find, &console));
        run::run(plan, stop).await
    }
}

/// Finds the problems of a directory.
type Find = fn(&Path, &Limits) -> Vec<ProblemRow>;

/// Checks the directory whenever it changes, and notifies the pages.
fn watch(directory: &Path, limits: &Limits, find: Find, console: &ServedConsole) {
    let mut last: Option<Fingerprint> = None;
    loop {
        if let Ok(now) = Fingerprint::at(directory)
            && last.as_ref() != Some(&now)
        {
            console.set_found(find(directory, limits));
            last = Some(now);
        }
        std::thread::sleep(POLL);
    }
}

/// Returns the problems of a catalog with their positions.
fn problems(directory: &Path, limits: &Limits) -> Vec<ProblemRow> {
    let rules = catalog::inspect(Warnings::On);
    let limits = limits.clone();
    let options = LoadOptions { limits, keep_text: false, migrate: false, inspect: Some(&rules), progress: None };
    let mut fbc = Fbc::default();
    let loaded = match fbc.load_dir(directory, &options) {
        Ok(loaded) => loaded,
        Err(error) => return vec![ProblemRow { message: error.to_string(), ..ProblemRow::default() }],
    };
    let checked = catalog::check(&fbc, loaded, Warnings::On);
    locate::find(&fbc, checked.problems()).iter().map(ProblemRow::of_problem).collect()
}
