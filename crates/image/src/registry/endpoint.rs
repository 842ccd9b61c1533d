//! Where a registry answers, and how.

use http::Uri;

use super::challenge::Challenge;
use super::client::Registry;
use crate::http::{Ask, Failure, Origin, Trust};
use crate::{Error, ErrorKind, Reference};

/// How often a registry that was never reached is called again: a wrong name should not take long.
const CALLS: u32 = 2;

/// A place to get an image from or bring it to: the one that was named, or a mirror of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) reference: Reference,
    /// Whether the configuration does without certificates here.
    pub(crate) insecure: bool,
}

impl Source {
    pub(crate) fn new(reference: Reference) -> Source {
        Source { reference, insecure: false }
    }
}

/// A registry that answered.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// The scheme and the host.
    pub(crate) base: String,
    /// The same, as credentials know it.
    pub(crate) origin: Origin,
    pub(crate) trust: Trust,
    /// How it wants to be shown who we are, if it said so when it was called.
    pub(crate) challenge: Option<Challenge>,
    pub(crate) status: u16,
    /// It keeps signatures itself.
    #[cfg_attr(not(feature = "signatures"), expect(dead_code, reason = "nothing asks for signatures"))]
    pub(crate) has_signatures: bool,
}

impl Endpoint {
    /// Returns the address of something in a repository.
    pub(crate) fn uri(&self, repository: &str, path: &str) -> Result<Uri, Error> {
        let text = format!("{}/v2/{repository}/{path}", self.base);
        text.parse().map_err(|_| Error::new(ErrorKind::Reference, format!("{text} is no address")))
    }
}

/// Returns the host that is asked for a registry.
pub(crate) fn address(host: &str) -> &str {
    if host == "docker.io" { "registry-1.docker.io" } else { host }
}

impl Registry {
    /// Calls a registry: with TLS, and, if certificates do not matter, also without.
    pub(crate) async fn call(&self, host: &str, insecure: bool) -> Result<Endpoint, Error> {
        let loose = match self.settings.certificates.get(host) {
            Some(count) => !count,
            None => self.settings.use_http || self.settings.skip_tls_verify,
        };
        let schemes: &[(&str, Trust)] = if insecure || loose {
            &[("https", Trust::Anyone), ("http", Trust::Anyone)]
        } else {
            &[("https", Trust::Verified)]
        };
        let mut tries = 0;
        loop {
            let (failure, uri) = match self.call_once(host, schemes).await {
                Ok(endpoint) => return Ok(endpoint),
                Err(failure) => failure,
            };
            if failure.is_passing() && tries < self.settings.retries.count.min(CALLS) {
                self.wait(&format!("{host} does not answer"), &failure.to_string(), tries, None).await?;
                tries += 1;
                continue;
            }
            let roots = if matches!(failure, Failure::Certificate(_)) { self.http.root_count() } else { 1 };
            let what = format!("pinging container registry {host}: Get {:?}", uri.to_string());
            return Err(failure.into_error(roots).context(what));
        }
    }

    async fn call_once(&self, host: &str, schemes: &[(&str, Trust)]) -> Result<Endpoint, (Failure, Uri)> {
        let mut last: Option<(Failure, Uri)> = None;
        for (scheme, trust) in schemes {
            let base = format!("{scheme}://{}", address(host));
            let Ok(uri) = format!("{base}/v2/").parse::<Uri>() else { continue };
            let Some(origin) = Origin::of(&uri) else { continue };
            match self.http.ask(Ask::get(uri.clone(), *trust)).await {
                Ok(mut answer) => {
                    let status = answer.status().as_u16();
                    // Only its own challenge counts, not that of a server it redirects to.
                    let own = status == 401 && origin.has(answer.uri());
                    let challenge = Challenge::of(answer.headers()).filter(|_| own);
                    let has_signatures = answer.header("x-registry-supports-signatures") == Some("1");
                    // Read to its end, so that the connection can be used again.
                    answer.beginning(64 << 10).await;
                    // This is how servers with TLS answer to plain HTTP: what they said before counts.
                    if status == 400 && last.is_some() {
                        break;
                    }
                    return Ok(Endpoint { base, origin, trust: *trust, challenge, status, has_signatures });
                }
                Err(failure) => last = Some((failure, uri)),
            }
        }
        Err(last.unwrap_or_else(|| (Failure::Final(format!("{host} is no host")), Uri::default())))
    }
}
