//! Requests over HTTP: connections, proxies, certificates, time-outs, redirects.

mod body;
mod connect;
mod origin;
mod tls;
mod uri;
mod validity;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

pub(crate) use body::Body;
use connect::{ConnectFailure, Proxies};
pub(crate) use origin::{Authorization, Origin};
pub(crate) use tls::{HostCertificates, Roots};
pub(crate) use uri::{encode, join};

use crate::{Environment, Error, ErrorKind};

const REDIRECTS: usize = 10;

/// What an answer has to reach in a second, in the long run.
const SLOWEST: u64 = 512;

/// How long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, with its handshake.
    pub connect: Duration,
    /// For the next piece of an answer.
    pub idle: Duration,
    /// For a program that keeps credentials.
    pub helper: Duration,
    /// For an answer that comes, but hardly: slower than 512 bytes in a second, for longer than this.
    pub crawl: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(15),
            idle: Duration::from_secs(60),
            helper: Duration::from_secs(30),
            crawl: Duration::from_secs(120),
        }
    }
}

/// Whose word is believed about who a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Trust {
    /// Certificates must be right.
    Verified,
    /// Anyone's.
    Anyone,
}

/// What is asked. It can be asked again.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) trust: Trust,
    /// Who we are, for the server that it belongs to.
    pub(crate) authorization: Option<Authorization>,
}

impl Ask {
    /// Asks for what is at an address, without a name.
    pub(crate) fn get(uri: Uri, trust: Trust) -> Ask {
        Ask { method: Method::GET, uri, headers: HeaderMap::new(), body: Body::Empty, trust, authorization: None }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The server cannot be reached.
    Connect(String),
    /// It speaks HTTP without TLS.
    Plain,
    /// Its certificate is not trusted.
    Certificate(String),
    /// The connection broke, or nothing came for too long.
    Broken(String),
    /// Trying again would not help.
    Final(String),
}

impl Failure {
    /// Returns whether it may work the next time.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Failure::Connect(_) | Failure::Broken(_))
    }

    pub(crate) fn into_error(self, roots: usize) -> Error {
        let text = self.to_string();
        match self {
            Failure::Certificate(_) if roots == 0 => Error::new(ErrorKind::Certificate, text)
                .hint("this system has no root certificates; name some with SSL_CERT_FILE, --ca-file or certs.d"),
            Failure::Certificate(_) => Error::new(ErrorKind::Certificate, text).hint(
                "trust its authority with --ca-file, SSL_CERT_FILE or certs.d, or do without checks with --skip-tls-verify",
            ),
            Failure::Plain => Error::new(ErrorKind::Network, text).hint("use --use-http for a registry without TLS"),
            _ => Error::new(ErrorKind::Network, text),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Plain => f.write_str("http: server gave HTTP response to HTTPS client"),
            Failure::Certificate(text) => write!(f, "tls: failed to verify certificate: {text}"),
            Failure::Connect(text) | Failure::Broken(text) | Failure::Final(text) => f.write_str(text),
        }
    }
}

type HyperClient = Client<connect::Connector, Body>;

/// What connections have in common: none but plain ones go without trust, and hosts with
/// certificates of their own are named.
type Key = (Option<Trust>, Option<String>);

/// Sends requests; connections are kept for the next ones.
pub(crate) struct Http {
    environment: Environment,
    timeouts: Timeouts,
    ca_files: Vec<std::path::PathBuf>,
    proxies: Arc<Proxies>,
    roots: OnceLock<Arc<Roots>>,
    clients: Mutex<HashMap<Key, HyperClient>>,
}

impl Http {
    pub(crate) fn new(environment: Environment, timeouts: Timeouts, ca_files: Vec<std::path::PathBuf>) -> Http {
        let proxies = Arc::new(Proxies::new(&environment));
        Http { environment, timeouts, ca_files, proxies, roots: OnceLock::new(), clients: Mutex::default() }
    }

    /// Returns how many root certificates are known.
    pub(crate) fn root_count(&self) -> usize {
        self.roots().map(|roots| roots.len()).unwrap_or_default()
    }

    /// Returns the roots: the system's and those of `--ca-file`.
    pub(crate) fn roots(&self) -> Result<Arc<Roots>, String> {
        if let Some(roots) = self.roots.get() {
            return Ok(Arc::clone(roots));
        }
        let loaded = Roots::load(&self.environment, &self.ca_files)?;
        Ok(Arc::clone(self.roots.get_or_init(|| Arc::new(loaded))))
    }

    /// Returns the proxy that is used for an address.
    pub(crate) fn proxy_for(&self, uri: &Uri) -> Option<Uri> {
        self.proxies.intercept(uri).map(|proxy| proxy.uri().clone())
    }

    fn client(&self, uri: &Uri, trust: Trust) -> Result<HyperClient, Failure> {
        let trust = (uri.scheme_str() == Some("https")).then_some(trust);
        let own = trust.and_then(|_| HostCertificates::find(&self.environment, host_of(uri)));
        let key = (trust, own.as_ref().map(|_| host_of(uri).to_owned()));
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let config = match trust {
            None => None,
            Some(Trust::Anyone) => Some(tls::config(None, own.as_ref()).map_err(Failure::Final)?),
            Some(Trust::Verified) => {
                let roots = self.roots().map_err(Failure::Final)?;
                Some(tls::config(Some(&roots), own.as_ref()).map_err(Failure::Final)?)
            }
        };
        let connector = connect::Connector::new(config, Arc::clone(&self.proxies), self.timeouts.connect);
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(32).build(connector);
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// Asks, follows redirects, and returns the answer with what was asked last.
    ///
    /// # Errors
    /// Fails when there is no answer. An answer of any status is one.
    pub(crate) async fn ask(&self, mut ask: Ask) -> Result<Answer, Failure> {
        for _ in 0..=REDIRECTS {
            let response = self.ask_once(&ask).await?;
            let status = response.status();
            let follows = matches!(
                status,
                StatusCode::MOVED_PERMANENTLY
                    | StatusCode::FOUND
                    | StatusCode::SEE_OTHER
                    | StatusCode::TEMPORARY_REDIRECT
                    | StatusCode::PERMANENT_REDIRECT
            );
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let (true, Some(location)) = (follows, location) else {
                return Ok(Answer {
                    response,
                    uri: ask.uri,
                    timeouts: self.timeouts,
                    begun: Instant::now(),
                    received: 0,
                    _held: None,
                });
            };
            let next = join(&ask.uri, location).ok_or_else(|| Failure::Final("redirected to no address".into()))?;
            if ask.uri.scheme_str() == Some("https")
                && next.scheme_str() != Some("https")
                && ask.trust == Trust::Verified
            {
                return Err(Failure::Final(format!("redirected from HTTPS to HTTP at {}", host_of(&next))));
            }
            let elsewhere = Origin::of(&next) != Origin::of(&ask.uri);
            if elsewhere && matches!(ask.body, Body::Private(_)) {
                let text = format!("{} redirected credentials to {}", host_of(&ask.uri), host_of(&next));
                return Err(Failure::Final(text));
            }
            if status == StatusCode::SEE_OTHER && ask.method != Method::HEAD {
                ask.method = Method::GET;
                ask.body = Body::Empty;
            }
            ask.uri = next;
        }
        Err(Failure::Final(format!("stopped after {REDIRECTS} redirects")))
    }

    async fn ask_once(&self, ask: &Ask) -> Result<Response<Incoming>, Failure> {
        let client = self.client(&ask.uri, ask.trust)?;
        let body = ask.body.clone();
        let mut request = Request::builder().method(ask.method.clone()).uri(ask.uri.clone());
        if let Some(headers) = request.headers_mut() {
            *headers = ask.headers.clone();
            if let Some(value) = ask.authorization.as_ref().and_then(|it| it.for_request(&ask.uri)) {
                headers.insert(AUTHORIZATION, value);
            }
            headers.insert(USER_AGENT, HeaderValue::from_static("opm/alpha"));
            if ask.uri.scheme_str() == Some("http")
                && let Some(proxy) = self.proxies.intercept(&ask.uri)
                && let Some(secret) = proxy.basic_auth()
            {
                headers.insert(http::header::PROXY_AUTHORIZATION, secret.clone());
            }
        }
        let request = request.body(body).map_err(|error| Failure::Final(error.to_string()))?;
        // A body takes as long as it takes to send; the answer has to begin soon after.
        let size = Duration::from_secs(ask.body.size() / (64 << 10));
        let wait = self.timeouts.connect + self.timeouts.idle + size + ask.body.delay();
        match tokio::time::timeout(wait, client.request(request)).await {
            Err(_) => Err(Failure::Broken(format!("no answer within {} seconds", wait.as_secs()))),
            Ok(Err(error)) => Err(failure(&error)),
            Ok(Ok(response)) => Ok(response),
        }
    }
}

/// An answer whose body is still to come.
pub(crate) struct Answer {
    response: Response<Incoming>,
    uri: Uri,
    timeouts: Timeouts,
    begun: Instant,
    received: u64,
    /// Lives as long as the answer.
    _held: Option<Box<dyn Send + Sync>>,
}

impl Answer {
    /// Keeps something until the answer is read or dropped.
    pub(crate) fn holding(self, held: impl Send + Sync + 'static) -> Answer {
        Answer { _held: Some(Box::new(held)), ..self }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Returns the address that answered, which is another after redirects.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the next piece of the body, or nothing at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let idle = self.timeouts.idle;
            match tokio::time::timeout(idle, self.response.body_mut().frame()).await {
                Err(_) => return Err(Failure::Broken(format!("nothing came for {} seconds", idle.as_secs()))),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(Failure::Broken(causes(&error))),
                Ok(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.received += data.len() as u64;
                    // Who sends a byte now and then could keep us for ever.
                    if self.begun.elapsed() > self.timeouts.crawl + Duration::from_secs(self.received / SLOWEST) {
                        return Err(Failure::Final("the answer comes too slowly".into()));
                    }
                    return Ok(Some(data));
                }
            }
        }
    }

    /// Reads the whole body, unless it is larger than `limit`.
    pub(crate) async fn whole(&mut self, limit: u64) -> Result<Vec<u8>, Failure> {
        let mut whole = Vec::new();
        while let Some(piece) = self.piece().await? {
            if (whole.len() + piece.len()) as u64 > limit {
                return Err(Failure::Final(format!("the answer is larger than {limit} bytes")));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }

    /// Reads at most `limit` bytes of the body, and forgets errors: for messages.
    pub(crate) async fn beginning(&mut self, limit: usize) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Ok(Some(piece)) = self.piece().await {
            whole.extend_from_slice(&piece[..piece.len().min(limit - whole.len())]);
            if whole.len() == limit {
                break;
            }
        }
        whole
    }
}

pub(crate) fn host_of(uri: &Uri) -> &str {
    uri.authority().map(|authority| authority.as_str()).unwrap_or_default()
}

fn failure(error: &hyper_util::client::legacy::Error) -> Failure {
    let mut next: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(cause) = next {
        if let Some(cause) = cause.downcast_ref::<ConnectFailure>() {
            return cause.0.clone();
        }
        next = cause.source();
    }
    if error.is_connect() { Failure::Connect(causes(error)) } else { Failure::Broken(causes(error)) }
}

/// Writes an error with its causes; hyper's own say little.
fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
