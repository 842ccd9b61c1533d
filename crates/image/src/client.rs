//! Everything that moves images, behind one value.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

use crate::auth::Auth;
use crate::http::{Http, Timeouts};
use crate::manifest::Platform;
use crate::pace::Pace;
use crate::policy::Policy;
use crate::progress::{Progress, Silent};
use crate::registry::{Registry, Retries, Settings, Source};
use crate::turns::MOST;
use crate::{Environment, Error, ErrorKind, Limits, Location, Reference, ReferenceError, RegistriesConf, Store};

/// Further statuses after which to try again.
const RETRY_STATUSES: &str = "OPM_RETRY_STATUS";

/// Set to `true`, what `policy.json` says does not count.
pub(crate) const INSECURE_POLICY: &str = "OPM_INSECURE_POLICY";

/// How images are moved.
#[derive(Clone)]
pub struct Options {
    /// Where they are kept.
    pub store: Store,
    /// Registries may do without TLS; certificates are not checked.
    pub use_http: bool,
    /// Certificates are not checked; registries may do without TLS.
    pub skip_tls_verify: bool,
    /// Hosts whose certificates count or do not, whatever holds for others.
    pub certificates: BTreeMap<String, bool>,
    /// Files with certificates of authorities, beside the system's.
    pub ca_files: Vec<PathBuf>,
    /// Which image of an index is taken; none is this machine's or linux/amd64.
    pub platform: Option<Platform>,
    /// Signatures that `policy.json` wants are not asked for, nor is anything else it says.
    pub insecure_policy: bool,
    /// The policy; none is the user's or the system's `policy.json`.
    pub policy: Option<PathBuf>,
    /// The network is not used.
    pub offline: bool,
    /// How many blobs are fetched at a time.
    pub parallel: usize,
    /// How large things may be.
    pub limits: Limits,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// How often to try again.
    pub retries: Retries,
    /// Further statuses after which to try again, for registries that use them when they are busy.
    pub retry_statuses: Vec<u16>,
    /// Where credentials, certificates and other settings are looked up.
    pub environment: Environment,
    /// Receives what is going on.
    pub progress: Arc<dyn Progress>,
    /// How many bytes of blobs may move in a second, over all connections.
    pub rate: Option<u64>,
}

impl Options {
    /// Returns the usual options, with this process's environment.
    pub fn new(store: Store) -> Options {
        Options {
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
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            retry_statuses: Vec::new(),
            environment: Environment::current(),
            progress: Arc::new(Silent),
            rate: None,
        }
    }
}

/// Moves images between registries, files and a store.
///
/// Its methods wait until they are done, on any thread; those named `_async` are for tasks.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    handle: Handle,
    /// Ends with the last client.
    _engine: Arc<Engine>,
}

pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    conf: OnceLock<RegistriesConf>,
    policy: OnceLock<Option<Arc<Policy>>>,
    /// How many blobs may be on their way.
    pub(crate) blobs: Semaphore,
    /// How many images may be.
    pub(crate) images: Semaphore,
}

/// A runtime that can be dropped anywhere.
struct Engine(Option<Runtime>);

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Makes a client. Nothing is asked of anyone yet.
    ///
    /// # Errors
    /// Fails when threads cannot be made, or the environment asks for something that makes no sense.
    pub fn new(mut options: Options) -> Result<Client, Error> {
        options.limits = options.limits.with_environment(&options.environment)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(2, |count| count.get().clamp(1, 8)))
            .thread_name("image")
            .enable_all()
            .build()
            .map_err(|error| Error::file("starting threads", &error))?;
        let http = Http::new(options.environment.clone(), options.timeouts, options.ca_files.clone());
        let mut retry_statuses = options.retry_statuses.clone();
        if let Some(list) = options.environment.get(RETRY_STATUSES) {
            for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                let status = word.parse().ok().filter(|status| (400..600).contains(status));
                let wrong =
                    || format!("{RETRY_STATUSES}: {word:?}: expected statuses from 400 to 599, such as 403,408");
                retry_statuses.push(status.ok_or_else(|| Error::new(ErrorKind::Unsupported, wrong()))?);
            }
        }
        let settings = Settings {
            retry_statuses,
            use_http: options.use_http,
            skip_tls_verify: options.skip_tls_verify,
            certificates: options.certificates.clone(),
            retries: options.retries,
            progress: Arc::clone(&options.progress),
            pace: options.rate.map(|rate| Arc::new(Pace::new(rate))),
        };
        let registry = Registry::new(http, Auth::new(options.environment.clone(), options.timeouts.helper), settings);
        let parallel = options.parallel.clamp(1, MOST);
        let inner = Inner {
            options,
            registry,
            conf: OnceLock::new(),
            policy: OnceLock::new(),
            blobs: Semaphore::new(parallel),
            images: Semaphore::new(parallel),
        };
        let handle = runtime.handle().clone();
        Ok(Client { inner: Arc::new(inner), handle, _engine: Arc::new(Engine(Some(runtime))) })
    }

    /// Returns the options it was made with.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }

    /// Waits for a future, also on a thread that belongs to another runtime.
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
    /// Returns whether nothing that the policy says counts.
    pub(crate) fn ignores_policy(&self) -> bool {
        let set = self.options.environment.get(INSECURE_POLICY).is_some_and(|value| value == "1" || value == "true");
        self.options.insecure_policy || set
    }

    /// Returns the policy, if there is one.
    pub(crate) fn policy(&self) -> Result<Option<&Arc<Policy>>, Error> {
        let load = || Policy::load(&self.options.environment, self.options.policy.as_deref());
        keep(&self.policy, || Ok(load()?.map(Arc::new))).map(Option::as_ref)
    }

    /// Returns the file of the policy, if there is one.
    pub(crate) fn policy_file(&self) -> Option<PathBuf> {
        self.policy().ok()?.map(|policy| policy.file().to_owned())
    }

    /// Returns what `registries.conf` says.
    pub(crate) fn conf(&self) -> Result<&RegistriesConf, Error> {
        keep(&self.conf, || RegistriesConf::load(&self.options.environment))
    }

    /// Tries the places that have an image, mirrors first, until one works.
    pub(crate) async fn at_each_source<T, F, W>(&self, reference: &Reference, work: F) -> Result<T, Error>
    where
        F: Fn(Source) -> W,
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
        let last = last.unwrap_or_else(|| Error::new(ErrorKind::NotFound, "there is no place to look for it"));
        Err(if failed.is_empty() {
            last
        } else {
            last.context(format!("(Mirrors also failed: {})", failed.join(", ")))
        })
    }
}

/// Returns what is kept, or keeps what can be loaded: a file that cannot be read now may be readable the next time.
fn keep<T>(kept: &OnceLock<T>, load: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
    match kept.get() {
        Some(kept) => Ok(kept),
        None => load().map(|loaded| kept.get_or_init(|| loaded)),
    }
}

impl Client {
    /// Finds the image that a text names; a name without a registry means what `registries.conf`
    /// makes of it.
    ///
    /// # Errors
    /// Fails when the text names nothing.
    pub fn locate(&self, text: &str) -> Result<Location, Error> {
        let refused = match Location::parse(text) {
            Err(error @ ReferenceError::NotCanonical) => error,
            other => return Ok(other?),
        };
        let names = self.inner.conf()?.full_names(text);
        let mut places = names.iter().filter_map(|name| Reference::parse(name).ok()).peekable();
        let mut first = None;
        while let Some(place) = places.next() {
            // Only one that is there can be meant, unless there is no other.
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
