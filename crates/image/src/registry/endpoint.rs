//! Probes the endpoint of a registry.

use http::Uri;

use super::challenge::Challenge;
use super::client::Registry;
use crate::http::{HttpFailure, HttpOrigin, HttpRequest, TlsTrust};
use crate::{Error, ErrorKind, Reference};

/// Maximum number of retries for a registry that was never reached: a typo in a host name should fail fast.
const RETRIES: u32 = 2;

/// A source or target of an image: the registry it names, or a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegistrySource {
    pub(crate) reference: Reference,
    /// Whether the configuration marks it as insecure.
    pub(crate) insecure: bool,
}

impl RegistrySource {
    pub(crate) fn new(reference: Reference) -> RegistrySource {
        RegistrySource { reference, insecure: false }
    }
}

/// A registry that responded.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// Scheme and host.
    pub(crate) base: String,
    /// The origin that credentials are bound to.
    pub(crate) origin: HttpOrigin,
    pub(crate) trust: TlsTrust,
    /// Whether the user allows plain HTTP for it: skipping certificates does not.
    pub(crate) plain_http: bool,
    /// The authentication challenge of its response, if any.
    pub(crate) challenge: Option<Challenge>,
    pub(crate) status: u16,
    /// Whether it stores signatures itself.
    pub(crate) has_signatures: bool,
}

impl Endpoint {
    /// Returns the URL of a path in a repository.
    pub(crate) fn uri(&self, repository: &str, path: &str) -> Result<Uri, Error> {
        let text = format!("{}/v2/{repository}/{path}", self.base);
        text.parse().map_err(|_| Error::new(ErrorKind::Reference, format!("invalid URL {text}")))
    }
}

/// Returns the host to contact for a registry.
pub(crate) fn address(host: &str) -> &str {
    if host == "docker.io" { "registry-1.docker.io" } else { host }
}

impl Registry {
    /// Probes a registry with TLS and, if certificates are skipped, also without.
    pub(crate) async fn call(&self, host: &str, insecure: bool) -> Result<Endpoint, Error> {
        let own = self.settings.certificates.get(host);
        let plain_http = insecure || own.is_none() && self.settings.use_http;
        let loose = match own {
            Some(count) => !count,
            None => self.settings.use_http || self.settings.skip_tls_verify,
        };
        let schemes: &[(&str, TlsTrust)] = if insecure || loose {
            &[("https", TlsTrust::Any), ("http", TlsTrust::Any)]
        } else {
            &[("https", TlsTrust::Verified)]
        };
        let mut tries = 0;
        let state = self.hosts.of(host);
        // Earlier requests have already waited for a registry that was never reached.
        let retries = if state.has_failed() { 0 } else { self.settings.retries.count.min(RETRIES) };
        loop {
            let (failure, uri) = match self.call_once(host, schemes, plain_http).await {
                Ok(endpoint) => return Ok(endpoint),
                Err(failure) => failure,
            };
            if failure.is_transient() && tries < retries {
                self.wait(&format!("{host} does not respond"), &failure.to_string(), tries, None).await?;
                tries += 1;
                continue;
            }
            state.record_failure();
            let roots = if matches!(failure, HttpFailure::Certificate(..)) { self.http.root_count() } else { 1 };
            let what = format!("pinging container registry {host}: Get {:?}", uri.to_string());
            return Err(failure.into_error(roots).context(what));
        }
    }

    async fn call_once(
        &self,
        host: &str,
        schemes: &[(&str, TlsTrust)],
        plain_http: bool,
    ) -> Result<Endpoint, (HttpFailure, Uri)> {
        let mut last: Option<(HttpFailure, Uri)> = None;
        for (scheme, trust) in schemes {
            let base = format!("{scheme}://{}", address(host));
            let Ok(uri) = format!("{base}/v2/").parse::<Uri>() else { continue };
            let Some(origin) = HttpOrigin::of(&uri) else { continue };
            match self.http.send(HttpRequest::get(uri.clone(), *trust)).await {
                Ok(mut response) => {
                    let status = response.status().as_u16();
                    // A server that the registry redirects to cannot set the challenge.
                    let own = status == 401 && origin.matches(response.uri());
                    let challenge = Challenge::of(response.headers()).filter(|_| own);
                    let has_signatures = response.header("x-registry-supports-signatures") == Some("1");
                    // Read the body, so that the connection can be reused.
                    response.read_prefix(64 << 10).await;
                    // TLS servers answer plain HTTP like this; the earlier TLS failure is the real error.
                    if status == 400 && last.is_some() {
                        break;
                    }
                    return Ok(Endpoint { base, origin, trust: *trust, plain_http, challenge, status, has_signatures });
                }
                Err(failure) => last = Some((failure, uri)),
            }
        }
        Err(last.unwrap_or_else(|| (HttpFailure::Permanent(format!("invalid host {host}")), Uri::default())))
    }
}
