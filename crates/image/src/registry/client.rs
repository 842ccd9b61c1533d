//! Requests to registries, and trying again.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::sync::OnceCell;

use super::challenge::{Actions, Challenge};
use super::endpoint::{Endpoint, Source};
use super::hosts::Hosts;
use super::refusal::Refusal;
use super::token::Token;
use crate::auth::Auth;
use crate::http::{Answer, Ask, Body, Http, Origin};
use crate::pace::Pace;
use crate::progress::{Event, Progress};
use crate::{Digest, Error, ErrorKind};

/// How often to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// How often, after the first time.
    pub count: u32,
    /// How long to wait the first time; then twice as long, and so on.
    pub first: Duration,
    /// How long to wait at most, also when the registry asks for more.
    pub longest: Duration,
    /// Wait no longer the next time than the first.
    pub constant: bool,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries { count: 4, first: Duration::from_millis(250), longest: Duration::from_secs(120), constant: false }
    }
}

pub(crate) struct Settings {
    pub(crate) use_http: bool,
    pub(crate) skip_tls_verify: bool,
    /// Hosts whose certificates count or do not, whatever holds for others.
    pub(crate) certificates: BTreeMap<String, bool>,
    pub(crate) retries: Retries,
    pub(crate) retry_statuses: Vec<u16>,
    pub(crate) progress: Arc<dyn Progress>,
    /// How fast blobs may move.
    pub(crate) pace: Option<Arc<Pace>>,
}

/// Registries that are being or have been called, by host and by whether certificates matter.
type Endpoints = HashMap<(String, bool), Arc<OnceCell<Endpoint>>>;

/// All registries.
pub(crate) struct Registry {
    pub(crate) http: Http,
    pub(crate) auth: Arc<Auth>,
    pub(crate) settings: Settings,
    endpoints: Mutex<Endpoints>,
    hosts: Hosts,
    pub(super) tokens: Mutex<HashMap<(Origin, String), Token>>,
    pub(super) flights: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
}

/// What is asked of a repository.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    /// What follows the repository, or a whole address.
    pub(crate) path: &'a str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) actions: Actions,
    /// Whether it may be asked again after a failure.
    pub(crate) retry: bool,
}

impl<'a> Call<'a> {
    /// Returns whether the answer is a whole blob.
    fn is_long(&self) -> bool {
        self.method == Method::GET && self.path.starts_with("blobs/")
    }

    pub(crate) fn get(path: &'a str) -> Call<'a> {
        Call {
            method: Method::GET,
            path,
            headers: HeaderMap::new(),
            body: Body::Empty,
            actions: Actions::Pull,
            retry: true,
        }
    }
}

impl Registry {
    pub(crate) fn new(http: Http, auth: Auth, settings: Settings) -> Registry {
        let auth = Arc::new(auth);
        Registry {
            http,
            auth,
            settings,
            endpoints: Mutex::default(),
            hosts: Hosts::default(),
            tokens: Mutex::default(),
            flights: Mutex::default(),
        }
    }

    /// Returns whether a registry has failed so often that nothing more is worth beginning.
    pub(crate) fn is_away(&self, source: &Source) -> bool {
        self.hosts.of(source.reference.host()).is_away()
    }

    /// Returns how a registry is talked to. It is called once.
    pub(crate) async fn endpoint(&self, source: &Source) -> Result<Endpoint, Error> {
        let key = (source.reference.host().to_owned(), source.insecure);
        let cell = {
            let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(endpoints.entry(key).or_default())
        };
        cell.get_or_try_init(|| self.call(source.reference.host(), source.insecure)).await.cloned()
    }

    /// Asks something of a repository, with credentials if the registry wants them, and again if
    /// that may help. Answers of other kinds are the caller's.
    pub(crate) async fn request(&self, source: &Source, call: &Call<'_>) -> Result<Answer, Error> {
        let endpoint = self.endpoint(source).await?;
        let repository = source.reference.repository();
        let uri: Uri = if call.path.starts_with("http") && call.path.contains("://") {
            call.path.parse().map_err(|_| Error::new(ErrorKind::Network, format!("{:?} is no address", call.path)))?
        } else {
            endpoint.uri(repository, call.path)?
        };
        let mut challenge = endpoint.challenge.clone();
        let mut asked_again = false;
        let mut fresh = false;
        let host = self.hosts.of(source.reference.host());
        let most = if call.retry { self.settings.retries.count } else { 0 };
        let mut tries = 0;
        loop {
            // Others have waited for a registry that is away.
            let retries = if host.is_away() { 0 } else { most };
            let turn = host.turn().await;
            // An upload can lead to another server, which has its own ways.
            let authorization = match &challenge {
                Some(challenge) if endpoint.origin.has(&uri) => {
                    self.authorization(&endpoint, source, challenge, call.actions, fresh).await?
                }
                _ => None,
            };
            fresh = false;
            let ask = Ask {
                method: call.method.clone(),
                uri: uri.clone(),
                headers: call.headers.clone(),
                body: call.body.clone(),
                trust: endpoint.trust,
                authorization,
            };
            let what = || format!("{} {}", call.method, source.reference);
            let answer = match self.http.ask(ask).await {
                // Only what is long keeps its turn to its end: whoever waits for another turn holds none.
                Ok(answer) if call.is_long() => answer.holding(turn),
                Ok(answer) => answer,
                Err(failure) if failure.is_passing() && tries < retries => {
                    drop(turn);
                    self.wait(&what(), &failure.to_string(), tries, None).await?;
                    tries += 1;
                    continue;
                }
                Err(failure) => {
                    if failure.is_passing() {
                        host.silent();
                    }
                    return Err(failure.into_error(1).tried(tries + 1));
                }
            };
            let status = answer.status();
            // Another server, which a redirect led to, cannot ask for the credentials of this one.
            let at_home = endpoint.origin.has(answer.uri());
            if status == StatusCode::UNAUTHORIZED && !asked_again && at_home {
                let stated = Challenge::of(answer.headers());
                if stated.is_some() {
                    let mut answer = answer;
                    // Read to its end, so that the connection can be used again.
                    answer.beginning(64 << 10).await;
                    asked_again = true;
                    fresh = true;
                    challenge = stated;
                    continue;
                }
            }
            let asked_for = self.settings.retry_statuses.contains(&status.as_u16()) && tries < retries;
            if !asked_for && (status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN) {
                return Err(if at_home {
                    self.refused(source, answer).await
                } else {
                    self.refused_elsewhere(source, answer).await
                });
            }
            match status {
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => host.overburdened(),
                status if status.is_server_error() && tries >= retries => host.silent(),
                status if status.is_server_error() => {}
                _ => host.answered(),
            }
            if asked_for || status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
                let refusal = Refusal::read(answer).await;
                let asked = refusal.retry_after();
                let error = Error::from(refusal);
                let error = error.tried(tries + 1);
                if tries < retries {
                    self.wait(&what(), &error.to_string(), tries, asked).await.map_err(|_| error)?;
                    tries += 1;
                    continue;
                }
                return Err(error);
            }
            return Ok(answer);
        }
    }

    /// Waits before the next try, unless the registry asks for too much patience.
    pub(super) async fn wait(&self, what: &str, why: &str, tries: u32, asked: Option<Duration>) -> Result<(), Error> {
        let retries = &self.settings.retries;
        let growth = if retries.constant { 1 } else { 2u32.saturating_pow(tries.min(16)) };
        let usual = retries.first.saturating_mul(growth);
        // Some chance, so that those who failed together do not come back together.
        let chance = std::hash::RandomState::new().build_hasher().finish() % 256;
        let usual = usual.mul_f64(0.75 + 0.5 * chance as f64 / 256.0).min(retries.longest);
        let pause = asked.map_or(usual, |asked| asked.max(usual));
        if pause > retries.longest {
            let text = format!("{why}; it asks to wait {} seconds", pause.as_secs());
            return Err(Error::new(ErrorKind::Network, text));
        }
        self.settings.progress.on(&Event::Waiting { what, why, pause });
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
