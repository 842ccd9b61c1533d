//! `opm serve`: serves the registry API from a catalog.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::TypedValueParser;
use image::Location;
use serve::cache::store::{Integrity, PrepareError};
use serve::console::ServedConsole;
use serve::http::{directory_name, image_name};
use serve::listen::{Address, AddressError};
use serve::load::{Empty, LoadError, OnInvalid, ServedDirectory};
use serve::pages::Pages;
use serve::run::{CatalogOrigin, RunError, ServePlan};
use serve::server::ServerLimits;
use serve::termination::TerminationLog;
use serve::tls::{POLL_INTERVAL, TlsFiles};
use signal_hook::consts::SIGHUP;
use source::Followed;

use crate::choice::{InvalidValue, choice};
use crate::compared;
use crate::exit::{CommandResult, Failure};
use crate::followed::FollowedImage;
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::runtime::{self, EndSignals};
use crate::{catalogs, interrupt, limits, log, report};

/// Serve a catalog over gRPC
#[derive(clap::Args)]
#[command(
    long_about = "Serve a catalog over gRPC.\n\n\
        The port opens at once; the health API reports when the catalog is ready. Without --watch, opm does not pick up \
        changes to the directory, or a new image under the same tag, until it restarts or receives SIGHUP.\n\n\
        With --cache-dir and a cache built earlier by --cache-only, the server starts within milliseconds. The cache must \
        match the catalog; with --cache-enforce-integrity=false, opm rebuilds a stale cache.",
    after_help = "Examples:\n  \
        opm serve my-catalog\n  \
        opm serve my-catalog --watch --on-invalid=quarantine\n  \
        opm serve quay.io/example/catalog:latest --poll-interval 1m\n  \
        opm serve my-catalog --address 127.0.0.1 --port 0     # a free port; see the log\n  \
        opm serve my-catalog --address unix:/run/catalog.sock\n  \
        opm serve my-catalog --http :8080                      # then open http://localhost:8080/\n  \
        opm serve my-catalog --http :8080 --previous quay.io/example/catalog:latest\n\n\
        Build a cache, then serve it:\n  \
        opm serve my-catalog --cache-dir /tmp/cache --cache-only\n  \
        opm serve my-catalog --cache-dir /tmp/cache"
)]
pub(crate) struct ServeArgs {
    /// Catalog directory or image
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Port to listen on; 0 picks a free port and logs it
    #[arg(short, long, value_name = "PORT", default_value_t = 50051)]
    port: u16,
    /// Address to listen on: HOST or unix:PATH; defaults to all interfaces
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true)]
    address: String,
    /// File to write the cause of a failure to; empty for none
    #[arg(short, long, value_name = "FILE", default_value = "/dev/termination-log")]
    termination_log: String,
    /// Cache directory; defaults to a temporary directory
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Update the cache and exit
    #[arg(long)]
    cache_only: bool,
    /// Exit if the cache is missing or stale; the default for --cache-dir without --cache-only
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = crate::cli::parse_bool
    )]
    cache_enforce_integrity: Option<bool>,
    /// Reload the catalog when the directory or image changes; an invalid catalog is rejected
    #[arg(long)]
    watch: bool,
    /// Poll for changes at this interval; implies --watch; defaults to 2s for directories and 1m for images
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    poll_interval: Option<Duration>,
    /// On an invalid catalog, fail, or quarantine the broken packages
    #[arg(long, value_name = "WHAT", default_value = "fail", value_parser = on_invalid())]
    on_invalid: OnInvalid,
    /// Accept a directory whose files contain no blobs
    #[arg(long)]
    allow_empty: bool,
    /// PEM certificate for gRPC and HTTP over TLS; reloaded when the file changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// CA certificates that client certificates must chain to
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Maximum number of concurrent gRPC connections
    #[arg(long, value_name = "COUNT", default_value_t = ServerLimits::default().connections)]
    max_connections: usize,
    /// Maximum number of concurrent HTTP connections
    #[arg(long, value_name = "COUNT", default_value_t = HTTP_CONNECTIONS)]
    max_http_connections: usize,
    /// Maximum number of concurrent calls per connection
    #[arg(long, value_name = "COUNT", default_value_t = ServerLimits::default().streams)]
    max_streams: u32,
    /// Maximum size of a request in bytes
    #[arg(long, value_name = "BYTES", default_value_t = ServerLimits::default().request_size)]
    max_request_size: usize,
    /// Close connections that have been idle for this long; unlimited by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_connection_idle: Option<Duration>,
    /// Maximum age of a connection before the server asks the client to reconnect; unlimited by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_connection_age: Option<Duration>,
    /// Grace period for calls in flight on an expired or idle connection; unlimited by default
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_connection_age_grace: Option<Duration>,
    /// Grace period for calls in flight when the server shuts down
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    drain_timeout: Duration,
    /// Also serve the catalog over HTTP on this address: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    http: Option<Address>,
    /// Name of the catalog in HTTP paths; defaults to the name of the directory or image
    #[arg(long, value_name = "NAME", value_parser = catalog_name, requires = "http")]
    http_catalog: Option<String>,
    /// Serve only the API over HTTP, without the web console
    #[arg(long, requires = "http")]
    no_console: bool,
    /// Additional Host header to accept on a loopback address, for proxies; can be repeated
    #[arg(long, value_name = "HOST", requires = "http")]
    http_host: Vec<String>,
    /// Previous version of this catalog; a page shows the changes and stranded bundles
    #[arg(long, value_name = "SOURCE", requires = "http", conflicts_with = "no_console")]
    previous: Option<String>,
    /// Another catalog to compare with on a page; can be repeated
    #[arg(long, value_name = "NAME=SOURCE", requires = "http", conflicts_with = "no_console", value_parser = compared::named)]
    compare: Vec<(String, String)>,
    /// Serve metrics and the command line for debugging on this HTTP address: HOST:PORT; empty for none
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    pprof_addr: String,
    /// Log every call with its headers
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    pull: PullFlags,
}

/// The default poll intervals.
const POLL_DIRECTORY: Duration = Duration::from_secs(2);
const POLL_REGISTRY: Duration = Duration::from_secs(60);
/// Each connection can buffer a chunk of a reply, about 100 KiB.
const HTTP_CONNECTIONS: usize = 1024;

pub(crate) fn run(args: &ServeArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    log::start(args.debug);
    let termination_log = TerminationLog::open(&args.termination_log);
    let outcome = plan(args, tls, printer)
        .and_then(|plan| if args.cache_only { prepare(&plan, printer) } else { serve(plan, printer) });
    if let Some(text) = outcome.as_ref().err().and_then(Failure::text) {
        termination_log.write(&text);
    }
    outcome
}

fn plan(args: &ServeArgs, tls: &TlsFlags, printer: &Printer) -> Result<ServePlan, Failure> {
    let integrity = match (args.cache_enforce_integrity, &args.cache_dir) {
        (Some(true), None) => {
            return Err(Failure::usage("--cache-dir must be specified with --cache-enforce-integrity"));
        }
        (Some(true), Some(_)) => Integrity::Enforced,
        (None, Some(_)) if !args.cache_only => Integrity::Implied,
        (Some(false) | None, _) => Integrity::Rebuild,
    };
    let address = match args.address.strip_prefix("unix:") {
        Some(path) => Address::Unix(PathBuf::from(path)),
        None => Address::Tcp(args.address.trim_matches(['[', ']']).to_owned(), args.port),
    };
    let certificates = args.tls_cert.clone().zip(args.tls_key.clone());
    let certificates = certificates.map(|(certificate, key)| TlsFiles {
        certificate,
        key,
        client_ca: args.tls_client_ca.clone(),
        poll_interval: POLL_INTERVAL,
    });
    let path = Path::new(&args.source);
    if path.is_file() {
        let help = match source::is_database(path) {
            true => {
                format!("'opm registry serve -d {0}' serves a database, 'opm migrate {0} DIR' converts it", args.source)
            }
            false => {
                format!(
                    "to serve the catalog that the file belongs to: opm serve {}",
                    fbc::scratch::parent(path).display()
                )
            }
        };
        return Err(Failure::message(format!("\"{}\" is not a directory\nhelp: {help}", args.source)));
    }
    let limits = limits::from_env()?;
    let origin = (!path.exists() && Location::is_image(&args.source)).then(|| {
        let followed = Followed::new(images::open(tls, &args.pull), &args.source, limits.clone());
        Arc::new(FollowedImage(followed)) as Arc<dyn CatalogOrigin>
    });
    let name = args.http_catalog.clone().unwrap_or_else(|| match &origin {
        None => directory_name(path),
        Some(_) => image_name(&args.source),
    });
    let image = if origin.is_some() { args.source.as_str() } else { "" };
    let interval = if origin.is_some() { POLL_REGISTRY } else { POLL_DIRECTORY };
    let watch = args.poll_interval.or_else(|| args.watch.then_some(interval));
    let others = args.previous.iter().map(|source| ("the catalog before".to_owned(), source.clone()));
    let others: Vec<(String, String)> = others.chain(args.compare.iter().cloned()).collect();
    let pages = match args.no_console || args.cache_only {
        true => None,
        false => {
            let others = compared::load(&others, &images::open(tls, &args.pull), &limits, printer)?;
            let console = ServedConsole::new(&name, image, false).with_changes(watch.is_some(), others);
            Some(Arc::new(console) as Arc<dyn Pages>)
        }
    };
    // A cache that is built ahead may be served with pages later.
    let summarize = !args.no_console && (args.cache_only || args.http.is_some());
    let command_line = || std::env::args().collect::<Vec<_>>().join("\0");
    let debug = match args.pprof_addr.as_str() {
        "" => None,
        address => Some((address.parse().map_err(|error: AddressError| Failure::message(error))?, command_line())),
    };
    Ok(ServePlan {
        directory: ServedDirectory {
            root: path.into(),
            limits,
            on_invalid: args.on_invalid,
            empty: if args.allow_empty { Empty::Accepted } else { Empty::WithoutFiles },
            summarize,
        },
        origin,
        cache_dir: args.cache_dir.clone(),
        integrity,
        address,
        tls: certificates,
        limits: ServerLimits {
            connections: args.max_connections,
            streams: args.max_streams,
            request_size: args.max_request_size,
            max_idle: args.max_connection_idle,
            max_age: args.max_connection_age,
            max_age_grace: args.max_connection_age_grace,
            ..ServerLimits::default()
        },
        watch,
        http: args.http.clone().map(|address| (address, name)),
        http_connections: args.max_http_connections,
        pages,
        http_hosts: args.http_host.clone(),
        debug,
        drain: args.drain_timeout,
        reload: Arc::default(),
    })
}

fn prepare(plan: &ServePlan, printer: &Printer) -> CommandResult {
    serve::run::prepare_only(plan).map_err(|error| failure(error, printer))
}

fn serve(plan: ServePlan, printer: &Printer) -> CommandResult {
    runtime::block_on(async {
        interrupt::hand_over_signals();
        let mut signals = EndSignals::listen()?;
        let reload = Arc::clone(&plan.reload);
        let stop = async move {
            while signals.next().await == SIGHUP {
                reload.notify_one();
            }
        };
        serve::run::run(plan, stop).await.map_err(|error| failure(error, printer))
    })?
}

/// Reports the problems of a catalog with their positions, and returns a short failure.
pub(crate) fn failure(error: RunError, printer: &Printer) -> Failure {
    let text = error.to_string();
    if let RunError::Prepare(PrepareError::Catalog(empty @ LoadError::Empty(_))) = &error {
        return Failure::message(empty).hint(Some("--allow-empty accepts a catalog without any blobs"));
    }
    if let RunError::Prepare(PrepareError::Catalog(LoadError::Invalid { fbc, problems })) = &error {
        if let Some(failure) = catalogs::bundle_instead(fbc) {
            return failure;
        }
        report::show(printer, &report::find(fbc, problems));
    }
    Failure::message(text)
}

/// Parses a duration in Go notation: `10s`, `500ms`, `1m30s`.
pub(crate) fn duration(text: &str) -> Result<Duration, InvalidValue> {
    Ok(fbc::spelling::duration::parse(text)
        .ok_or_else(|| format!("invalid duration {text:?}; write it like 500ms, 10s or 1m30s"))?)
}

pub(crate) fn catalog_name(text: &str) -> Result<String, InvalidValue> {
    match serve::http::is_subdomain(text) {
        true => Ok(text.to_owned()),
        false => Err("expected lower case letters, digits, '-' and '.'".into()),
    }
}

fn on_invalid() -> impl TypedValueParser<Value = OnInvalid> {
    choice([("fail", OnInvalid::Fail), ("quarantine", OnInvalid::Quarantine)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_like_in_go() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert!(duration("10").is_err());
        assert!(duration("").is_err());
        assert!(duration("99999999999999999999h").is_err());
    }
}
