//! Registry requests and retries.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::sync::OnceCell;

use super::challenge::{Actions, Challenge};
use super::endpoint::{Endpoint, RegistrySource};
use super::hosts::Hosts;
use super::refusal::ErrorResponse;
use super::token::Token;
use crate::auth::Auth;
use crate::http::{Http, HttpOrigin, HttpRequest, HttpResponse, RequestBody, host_of};
use crate::progress::{TransferEvent, TransferProgress};
use crate::rate_limit::RateLimiter;
use crate::{Digest, Error, ErrorKind};

/// Retry settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Maximum number of retries.
    pub count: u32,
    /// The first delay; it doubles with each retry.
    pub first_delay: Duration,
    /// Maximum delay, even if the registry asks for more.
    pub max_delay: Duration,
    /// Keeps the first delay instead of doubling it.
    pub constant: bool,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries {
            count: 4,
            first_delay: Duration::from_millis(250),
            max_delay: Duration::from_secs(120),
            constant: false,
        }
    }
}

pub(crate) struct ClientSettings {
    pub(crate) use_http: bool,
    pub(crate) skip_tls_verify: bool,
    /// Per-host overrides of certificate verification.
    pub(crate) certificates: BTreeMap<String, bool>,
    pub(crate) retries: Retries,
    pub(crate) retry_statuses: Vec<u16>,
    pub(crate) progress: Arc<dyn TransferProgress>,
    /// The rate limiter for blobs.
    pub(crate) rate_limiter: Option<Arc<RateLimiter>>,
}

/// Endpoints, ready or being probed, by host and by whether certificates are skipped.
type Endpoints = HashMap<(String, bool), Arc<OnceCell<Endpoint>>>;

/// The client for all registries.
pub(crate) struct Registry {
    pub(crate) http: Http,
    pub(crate) auth: Arc<Auth>,
    pub(crate) settings: ClientSettings,
    endpoints: Mutex<Endpoints>,
    pub(super) hosts: Hosts,
    pub(super) tokens: Mutex<HashMap<(HttpOrigin, String), Token>>,
    pub(super) downloads: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
}

/// A request to a repository.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    /// The path below the repository, or a whole URL.
    pub(crate) path: &'a str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: RequestBody,
    pub(crate) actions: Actions,
    /// Whether failures may be retried.
    pub(crate) retry: bool,
}

impl<'a> Call<'a> {
    /// Returns whether the response is a whole blob.
    fn is_blob(&self) -> bool {
        self.method == Method::GET && self.path.starts_with("blobs/")
    }

    pub(crate) fn get(path: &'a str) -> Call<'a> {
        Call {
            method: Method::GET,
            path,
            headers: HeaderMap::new(),
            body: RequestBody::Empty,
            actions: Actions::Pull,
            retry: true,
        }
    }
}

impl Registry {
    pub(crate) fn new(http: Http, auth: Auth, settings: ClientSettings) -> Registry {
        let auth = Arc::new(auth);
        Registry {
            http,
            auth,
            settings,
            endpoints: Mutex::default(),
            hosts: Hosts::default(),
            tokens: Mutex::default(),
            downloads: Mutex::default(),
        }
    }

    /// Returns whether a registry has failed so often that new requests are pointless.
    pub(crate) fn is_down(&self, source: &RegistrySource) -> bool {
        self.hosts.of(source.reference.host()).is_down()
    }

    /// Returns the endpoint of a registry, probing it once.
    pub(crate) async fn endpoint(&self, source: &RegistrySource) -> Result<Endpoint, Error> {
        let key = (source.reference.host().to_owned(), source.insecure);
        let cell = {
            let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(endpoints.entry(key).or_default())
        };
        let host = source.reference.host();
        cell.get_or_try_init(|| self.call(host, source.insecure)).await.cloned().map_err(|error| error.at(host))
    }

    /// Sends a request with the credentials that the registry requires, and retries transient failures. The caller
    /// handles other statuses.
    pub(crate) async fn request(&self, source: &RegistrySource, call: &Call<'_>) -> Result<HttpResponse, Error> {
        self.send_request(source, call).await.map_err(|error| error.at(source.reference.host()))
    }

    async fn send_request(&self, source: &RegistrySource, call: &Call<'_>) -> Result<HttpResponse, Error> {
        let endpoint = self.endpoint(source).await?;
        let repository = source.reference.repository();
        let uri: Uri = if call.path.starts_with("http") && call.path.contains("://") {
            call.path.parse().map_err(|_| Error::new(ErrorKind::Network, format!("invalid URL {:?}", call.path)))?
        } else {
            endpoint.uri(repository, call.path)?
        };
        if call.method != Method::GET && endpoint.origin.leaves_tls(&uri) {
            let (own, other) = (source.reference.host(), host_of(&uri));
            return Err(Error::new(ErrorKind::Forbidden, format!("{own} requests an upload to {other} without TLS"))
                .hint("nothing was sent; set the external URL of the registry, or X-Forwarded-Proto of its proxy"));
        }
        let mut challenge = endpoint.challenge.clone();
        let mut authenticated = false;
        let mut fresh = false;
        let host = self.hosts.of(source.reference.host());
        let max_retries = if call.retry { self.settings.retries.count } else { 0 };
        let mut tries = 0;
        loop {
            // Earlier requests have already waited for a registry that is down.
            let retries = if host.is_down() { 0 } else { max_retries };
            let permit = host.permit().await;
            // An upload URL can be on another server, which has its own authentication.
            let authorization = match &challenge {
                Some(challenge) if endpoint.origin.matches(&uri) => {
                    self.authorization(&endpoint, source, challenge, call.actions, fresh).await?
                }
                _ => None,
            };
            fresh = false;
            let request = HttpRequest {
                method: call.method.clone(),
                uri: uri.clone(),
                headers: call.headers.clone(),
                body: call.body.clone(),
                trust: endpoint.trust,
                authorization,
            };
            let operation = || format!("{} {}", call.method, source.reference);
            let response = match self.http.send(request).await {
                // Only blob downloads hold their permit until the body is read: a request that waits for a permit
                // must hold none.
                Ok(response) if call.is_blob() => response.keep_alive(permit),
                Ok(response) => response,
                Err(failure) if failure.is_transient() && tries < retries => {
                    drop(permit);
                    self.wait(&operation(), &failure.to_string(), tries, None).await?;
                    tries += 1;
                    continue;
                }
                Err(failure) => {
                    if failure.is_transient() {
                        host.record_failure();
                    }
                    return Err(failure.into_error(1).tried(tries + 1));
                }
            };
            let status = response.status();
            // A server that the registry redirected to cannot ask for the registry's credentials.
            let same_origin = endpoint.origin.matches(response.uri());
            if status == StatusCode::UNAUTHORIZED && !authenticated && same_origin {
                let stated = Challenge::of(response.headers());
                if stated.is_some() {
                    let mut response = response;
                    // Read the body, so that the connection can be reused.
                    response.read_prefix(64 << 10).await;
                    authenticated = true;
                    fresh = true;
                    challenge = stated;
                    continue;
                }
            }
            let is_retryable = self.settings.retry_statuses.contains(&status.as_u16()) && tries < retries;
            if !is_retryable && (status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN) {
                return Err(if same_origin {
                    self.denied(source, response).await
                } else {
                    self.denied_after_redirect(source, response).await
                });
            }
            match status {
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => host.record_overload(),
                status if status.is_server_error() && tries >= retries => host.record_failure(),
                status if status.is_server_error() => {}
                _ => host.record_success(),
            }
            if is_retryable || status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
                let error_response = ErrorResponse::read(response).await;
                let retry_after = error_response.retry_after();
                let error = Error::from(error_response);
                let error = error.tried(tries + 1);
                if tries < retries {
                    self.wait(&operation(), &error.to_string(), tries, retry_after).await.map_err(|_| error)?;
                    tries += 1;
                    continue;
                }
                return Err(error);
            }
            return Ok(response);
        }
    }

    /// Waits before the next attempt; fails if the registry asks for a longer delay than allowed.
    pub(super) async fn wait(
        &self,
        operation: &str,
        reason: &str,
        tries: u32,
        retry_after: Option<Duration>,
    ) -> Result<(), Error> {
        let retries = &self.settings.retries;
        let growth = if retries.constant { 1 } else { 2u32.saturating_pow(tries.min(16)) };
        let backoff = retries.first_delay.saturating_mul(growth);
        // Jitter, so that requests that failed together do not retry together.
        let jitter = std::hash::RandomState::new().build_hasher().finish() % 256;
        let backoff = backoff.mul_f64(0.75 + 0.5 * jitter as f64 / 256.0).min(retries.max_delay);
        let delay = retry_after.map_or(backoff, |retry_after| retry_after.max(backoff));
        if delay > retries.max_delay {
            let text = format!("{reason}; the registry asks to wait {} seconds", delay.as_secs());
            return Err(Error::new(ErrorKind::Network, text));
        }
        self.settings.progress.on(&TransferEvent::Retrying { operation, reason, delay });
        tokio::time::sleep(delay).await;
        Ok(())
    }
}
