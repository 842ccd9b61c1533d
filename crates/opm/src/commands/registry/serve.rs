//! `opm registry serve`: serves the registry API from a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use catalog::query::Query;
use legacy::DatabaseIndex;
use serve::listen::Address;
use serve::server::Services;
use serve::termination::TerminationLog;

use crate::choice::InvalidValue;
use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;
use crate::runtime::{self, EndSignals};
use crate::{database, interrupt, log};

/// How long calls in flight may take to finish at shutdown.
const DRAIN: Duration = Duration::from_secs(10);

/// Serve a database index
#[derive(clap::Args)]
#[command(
    long_about = "Serve a database index.\n\n\
        The server offers the registry API over gRPC, with health and reflection. It serves a copy of the database: it \
        never changes the file, and does not pick up changes to it.",
    after_help = "Examples:\n  opm registry serve -d index.db\n  opm registry serve -d index.db -p 0 -t ''"
)]
pub(crate) struct ServeArgs {
    /// Database to serve
    #[arg(short, long, value_name = "FILE", default_value = "bundles.db")]
    database: PathBuf,
    /// Port to listen on; 0 picks a free port and logs it
    #[arg(short, long, value_name = "PORT", default_value_t = 50051)]
    port: u16,
    /// File to write the cause of a failure to; empty for none
    #[arg(short, long, value_name = "FILE", default_value = "/dev/termination-log")]
    termination_log: String,
    /// Do not migrate an older database before serving it
    #[arg(long)]
    skip_migrate: bool,
    /// Stop after this many seconds (infinite, or 0 to 65535)
    #[arg(long, value_name = "SECONDS", default_value = "infinite", value_parser = timeout)]
    timeout_seconds: Timeout,
    /// Log every call with its headers
    #[arg(long)]
    debug: bool,
}

/// How long a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timeout(Option<Duration>);

fn timeout(text: &str) -> Result<Timeout, InvalidValue> {
    match (text, text.parse::<u16>()) {
        ("infinite", _) => Ok(Timeout(None)),
        (_, Ok(seconds)) => Ok(Timeout(Some(Duration::from_secs(seconds.into())))),
        _ => Err("expected infinite, or a number from 0 to 65535".into()),
    }
}

impl ServeArgs {
    /// Returns the database to serve.
    pub(crate) fn database(&self) -> &Path {
        &self.database
    }
}

pub(crate) fn run(args: &ServeArgs, printer: &mut Printer) -> CommandResult {
    database::notice(printer);
    run_prepared(args, || Ok(None))
}

/// Runs `prepare`, which may build the database or return a catalog to serve instead, then serves. The cause of a
/// failure goes to the termination log.
pub(crate) fn run_prepared(
    args: &ServeArgs,
    prepare: impl FnOnce() -> Result<Option<Arc<dyn Query>>, Failure>,
) -> CommandResult {
    log::start(args.debug);
    let termination_log = TerminationLog::open(&args.termination_log);
    let outcome = prepare().and_then(|instead| {
        let catalog = match instead {
            Some(catalog) => catalog,
            None => Arc::new(DatabaseIndex::open(&args.database, args.skip_migrate)?),
        };
        let Timeout(timeout) = args.timeout_seconds;
        serve_query(catalog, args.port, timeout)
    });
    if let Some(text) = outcome.as_ref().err().and_then(Failure::text) {
        termination_log.write(&text);
    }
    outcome
}

/// Serves a catalog until a signal arrives or the timeout expires.
fn serve_query(catalog: Arc<dyn Query>, port: u16, timeout: Option<Duration>) -> CommandResult {
    interrupt::hand_over_signals();
    let address = Address::Tcp(String::new(), port);
    runtime::block_on(async {
        let mut signals = EndSignals::listen()?;
        let stop = async move {
            let over = async move {
                match timeout {
                    Some(timeout) => tokio::time::sleep(timeout).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = signals.next() => {}
                () = over => {}
            }
        };
        let served = serve::run::run_query(catalog, &address, Services::RegistryOnly, DRAIN, stop).await;
        served.map_err(|error| Failure::message(error.to_string()))
    })?
}
