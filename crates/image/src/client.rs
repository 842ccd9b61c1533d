//! The client: everything that moves images.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

use crate::auth::Auth;
use crate::http::{Http, Timeouts};
use crate::manifest::Platform;
use crate::policy::LoadedPolicy;
use crate::progress::{NoEvents, TransferProgress};
use crate::rate_limit::RateLimiter;
use crate::registry::{ClientSettings, Registry, RegistrySource, Retries};
use crate::scheduler::CONCURRENCY;
use crate::{
    Environment, Error, ErrorKind, ImageLimits, ImageReferenceError, Location, Reference, RegistriesConf, Store,
};

/// Additional HTTP statuses to retry.
const RETRY_STATUSES: &str = "OPM_RETRY_STATUS";

/// If `true`, opm ignores `policy.json`.
pub(crate) const INSECURE_POLICY: &str = "OPM_INSECURE_POLICY";

/// Options of a [`Client`].
#[derive(Clone)]
pub struct ClientOptions {
    /// The store for all blobs.
    pub store: Store,
    /// Allows plain HTTP and skips certificate verification.
    pub use_http: bool,
    /// Skips certificate verification and allows plain HTTP.
    pub skip_tls_verify: bool,
    /// Per-host overrides of certificate verification.
    pub certificates: BTreeMap<String, bool>,
    /// CA certificates in addition to the system's.
    pub ca_files: Vec<PathBuf>,
    /// The platform to select from an index; defaults to this machine's, then linux/amd64.
    pub platform: Option<Platform>,
    /// Ignores `policy.json`, including its signature requirements.
    pub insecure_policy: bool,
    /// The policy file; defaults to the user's or the system's `policy.json`.
    pub policy: Option<PathBuf>,
    /// Forbids network access.
    pub offline: bool,
    /// Maximum number of concurrent blob transfers.
    pub parallel: usize,
    /// Size limits.
    pub limits: ImageLimits,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Retry settings.
    pub retries: Retries,
    /// Additional HTTP statuses to retry, for registries that use them under load.
    pub retry_statuses: Vec<u16>,
    /// The source of credentials, certificates and other settings.
    pub environment: Environment,
    /// Receives progress events.
    pub progress: Arc<dyn TransferProgress>,
    /// Maximum transfer rate of blobs in bytes per second, over all connections.
    pub rate: Option<u64>,
}

impl ClientOptions {
    /// Returns the default options with this process's environment.
    pub fn new(store: Store) -> ClientOptions {
        ClientOptions {
            store,
            use_http: false,
            skip_tls_verify: false,
            certificates: BTreeMap::new(),
            ca_files: Vec::new(),
            platform: None,
            insecure_policy: false,
            policy: None,
            offline: false,
            parallel: 8,
            limits: ImageLimits::default(),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            retry_statuses: Vec::new(),
            environment: Environment::current(),
            progress: Arc::new(NoEvents),
            rate: None,
        }
    }
}

/// Moves images between registries, files and a store.
///
/// Its methods block on any thread; those named `_async` return futures.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    handle: Handle,
    /// Shuts down with the last client.
    _runtime: Arc<OwnedRuntime>,
}

pub(crate) struct Inner {
    pub(crate) options: ClientOptions,
    pub(crate) registry: Registry,
    conf: OnceLock<RegistriesConf>,
    /// Limits concurrent blob transfers.
    pub(crate) blobs: Semaphore,
    /// Limits concurrent images.
    pub(crate) images: Semaphore,
}

/// A runtime that can be dropped in any context.
struct OwnedRuntime(Option<Runtime>);

impl Drop for OwnedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Creates a client without sending any request.
    ///
    /// # Errors
    /// Fails when threads cannot be started or an environment variable is invalid.
    pub fn new(mut options: ClientOptions) -> Result<Client, Error> {
        options.limits = options.limits.with_environment(&options.environment)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(2, |count| count.get().clamp(1, 8)))
            .thread_name("image")
            .enable_all()
            .build()
            .map_err(|error| Error::file("starting threads", &error))?;
        let http = Http::new(options.environment.clone(), options.timeouts, options.ca_files.clone())
            .map_err(|error| Error::new(ErrorKind::Unsupported, error.to_string()))?;
        let mut retry_statuses = options.retry_statuses.clone();
        if let Some(list) = options.environment.get(RETRY_STATUSES) {
            for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                let status = word.parse().ok().filter(|status| (400..600).contains(status));
                let to_error =
                    || format!("{RETRY_STATUSES}: {word:?}: expected statuses from 400 to 599, such as 403,408");
                retry_statuses.push(status.ok_or_else(|| Error::new(ErrorKind::Unsupported, to_error()))?);
            }
        }
        let settings = ClientSettings {
            retry_statuses,
            use_http: options.use_http,
            skip_tls_verify: options.skip_tls_verify,
            certificates: options.certificates.clone(),
            retries: options.retries,
            progress: Arc::clone(&options.progress),
            rate_limiter: options.rate.map(|rate| Arc::new(RateLimiter::new(rate))),
        };
        let registry = Registry::new(http, Auth::new(options.environment.clone(), options.timeouts.helper), settings);
        let parallel = options.parallel.clamp(1, CONCURRENCY);
        let inner = Inner {
            options,
            registry,
            conf: OnceLock::new(),
            blobs: Semaphore::new(parallel),
            images: Semaphore::new(parallel),
        };
        let handle = runtime.handle().clone();
        Ok(Client { inner: Arc::new(inner), handle, _runtime: Arc::new(OwnedRuntime(Some(runtime))) })
    }

    /// Returns the client's options.
    pub fn options(&self) -> &ClientOptions {
        &self.inner.options
    }

    pub(crate) fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }

    /// Blocks on a future, even on a thread of another runtime.
    pub(crate) fn block_on<F>(&self, future: F) -> F::Output
    where
        F: Future + Send,
        F::Output: Send,
    {
        if Handle::try_current().is_err() {
            return self.handle.block_on(future);
        }
        std::thread::scope(|scope| match scope.spawn(|| self.handle.block_on(future)).join() {
            Ok(output) => output,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

impl Inner {
    /// Returns whether the policy is ignored.
    pub(crate) fn ignores_policy(&self) -> bool {
        let set = self.options.environment.get(INSECURE_POLICY).is_some_and(|value| value == "1" || value == "true");
        self.options.insecure_policy || set
    }

    /// Loads the policy, if one exists. A server runs for long, so each image is checked against the current one.
    pub(crate) fn policy(&self) -> Result<Option<LoadedPolicy>, Error> {
        LoadedPolicy::load(&self.options.environment, self.options.policy.as_deref())
    }

    /// Returns the path of the policy, if one exists.
    pub(crate) fn policy_file(&self) -> Option<PathBuf> {
        self.policy().ok()?.map(|policy| policy.file().to_owned())
    }

    /// Returns the settings of `registries.conf`.
    pub(crate) fn conf(&self) -> Result<&RegistriesConf, Error> {
        get_or_load(&self.conf, || RegistriesConf::load(&self.options.environment))
    }

    /// Tries the sources of an image, mirrors first, until one succeeds.
    pub(crate) async fn try_sources<T, F, W>(&self, reference: &Reference, work: F) -> Result<T, Error>
    where
        F: Fn(RegistrySource) -> W,
        W: Future<Output = Result<T, Error>>,
    {
        let mut failed = Vec::new();
        let mut last = None;
        for candidate in self.conf()?.candidates(reference)? {
            let place = candidate.source.reference.to_string();
            match work(candidate.source).await {
                Ok(output) => return Ok(output),
                Err(error) if candidate.mirror => failed.push(format!("[{place}: {error}]")),
                Err(error) => last = Some(error),
            }
        }
        let last = last.unwrap_or_else(|| Error::new(ErrorKind::Forbidden, "no source is configured for the image"));
        Err(if failed.is_empty() {
            last
        } else {
            last.context(format!("(Mirrors also failed: {})", failed.join(", ")))
        })
    }
}

/// Returns the cached value or loads it. Failures are not cached: a file may become readable later.
fn get_or_load<T>(kept: &OnceLock<T>, load: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
    match kept.get() {
        Some(kept) => Ok(kept),
        None => load().map(|loaded| kept.get_or_init(|| loaded)),
    }
}

impl Client {
    /// Resolves an image name; `registries.conf` expands names without a registry.
    ///
    /// # Errors
    /// Fails when the text is not an image name.
    pub fn locate(&self, text: &str) -> Result<Location, Error> {
        let refused = match Location::parse(text) {
            Err(error @ ImageReferenceError::NotCanonical) => error,
            other => return Ok(other?),
        };
        let names = self.inner.conf()?.full_names(text);
        let mut places = names.iter().filter_map(|name| Reference::parse(name).ok()).peekable();
        let mut first = None;
        while let Some(place) = places.next() {
            // The first candidate that exists wins; a single candidate needs no check.
            if first.is_none() && places.peek().is_none() || self.head(&place).is_ok() {
                return Ok(Location::Registry(place));
            }
            first.get_or_insert(place);
        }
        first.map(Location::Registry).ok_or_else(|| {
            Error::from(refused)
                .hint(format!("write {text:?} with its registry, or give it an alias in registries.conf"))
        })
    }
}
