//! HTTP requests: connections, proxies, certificates, timeouts and redirects.

mod body;
mod connect;
mod origin;
mod tls;
mod uri;

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

pub(crate) use body::{Reached, RequestBody};
pub(crate) use connect::ProxyError;
use connect::{ConnectFailure, Proxies};
pub(crate) use origin::{Authorization, HttpOrigin};
use tls::TlsError;
pub use tls::presented_certificate;
pub(crate) use tls::{HostCertificates, Roots};
pub(crate) use uri::{encode, join};

use crate::signature::certificate::CertificateNames;
use crate::{BlobError, Environment, Error, ErrorKind};

const MAX_REDIRECTS: usize = 10;

/// Minimum average transfer rate of a response, in bytes per second.
const MIN_RATE: u64 = 512;

/// Timeouts of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, including its handshakes.
    pub connect: Duration,
    /// For the next chunk of a response.
    pub idle: Duration,
    /// For a credential helper.
    pub helper: Duration,
    /// How long a response may stay below 512 bytes per second on average.
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

/// How server certificates are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TlsTrust {
    /// Certificates must be valid.
    Verified,
    /// Any certificate is accepted.
    Any,
}

/// A request. It can be sent several times.
#[derive(Debug, Clone)]
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: RequestBody,
    pub(crate) trust: TlsTrust,
    /// Credentials, bound to the server that they belong to.
    pub(crate) authorization: Option<Authorization>,
}

impl HttpRequest {
    /// Creates a GET request without credentials.
    pub(crate) fn get(uri: Uri, trust: TlsTrust) -> HttpRequest {
        HttpRequest {
            method: Method::GET,
            uri,
            headers: HeaderMap::new(),
            body: RequestBody::Empty,
            trust,
            authorization: None,
        }
    }
}

/// Why there is no response.
#[derive(Debug, Clone)]
pub(crate) enum HttpFailure {
    /// The server is unreachable.
    Connect(String),
    /// The server speaks plain HTTP.
    PlainHttp,
    /// Its certificate is not trusted.
    Certificate(String, Option<CertificateNames>),
    /// The connection broke or timed out.
    Broken(String),
    /// A permanent failure: a retry cannot succeed.
    Permanent(String),
    /// The blob to send cannot be read, or is damaged.
    Blob(Error),
}

impl From<TlsError> for HttpFailure {
    fn from(error: TlsError) -> HttpFailure {
        HttpFailure::Permanent(error.to_string())
    }
}

impl HttpFailure {
    /// Returns whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, HttpFailure::Connect(_) | HttpFailure::Broken(_))
    }

    pub(crate) fn into_error(self, roots: usize) -> Error {
        let text = self.to_string();
        match self {
            HttpFailure::Blob(error) => error,
            HttpFailure::Certificate(..) if roots == 0 => Error::new(ErrorKind::Certificate, text)
                .hint("this system has no root certificates; set SSL_CERT_FILE or --ca-file, or add some to certs.d"),
            HttpFailure::Certificate(_, names) => {
                const WAYS: &str =
                    "with --ca-file, SSL_CERT_FILE or certs.d, or skip verification with --skip-tls-verify";
                Error::new(ErrorKind::Certificate, text).hint(match names {
                    None => format!("trust its authority {WAYS}"),
                    Some(names) => format!("{names}; trust its authority {WAYS}"),
                })
            }
            HttpFailure::PlainHttp => {
                Error::new(ErrorKind::Network, text).hint("add --use-http for a registry without TLS")
            }
            _ => Error::new(ErrorKind::Network, text),
        }
    }
}

impl std::fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HttpFailure::Blob(error) => write!(f, "{error}"),
            HttpFailure::PlainHttp => f.write_str("http: server gave HTTP response to HTTPS client"),
            HttpFailure::Certificate(text, _) => write!(f, "tls: failed to verify certificate: {text}"),
            HttpFailure::Connect(text) | HttpFailure::Broken(text) | HttpFailure::Permanent(text) => f.write_str(text),
        }
    }
}

type HyperClient = Client<connect::Connector, RequestBody>;

/// Connections are shared by requests with the same key: the trust, which plain HTTP does not have, and the host if
/// it has its own certificates.
type Key = (Option<TlsTrust>, Option<String>);

/// Sends requests and pools connections.
pub(crate) struct Http {
    environment: Environment,
    timeouts: Timeouts,
    ca_files: Vec<std::path::PathBuf>,
    proxies: Arc<Proxies>,
    roots: OnceLock<Arc<Roots>>,
    clients: Mutex<HashMap<Key, HyperClient>>,
}

impl Http {
    /// Creates the client.
    ///
    /// # Errors
    /// Fails when the environment sets an invalid proxy.
    pub(crate) fn new(
        environment: Environment,
        timeouts: Timeouts,
        ca_files: Vec<std::path::PathBuf>,
    ) -> Result<Http, ProxyError> {
        let proxies = Arc::new(Proxies::new(&environment)?);
        Ok(Http { environment, timeouts, ca_files, proxies, roots: OnceLock::new(), clients: Mutex::default() })
    }

    /// Returns the number of root certificates.
    pub(crate) fn root_count(&self) -> usize {
        self.roots().map(|roots| roots.len()).unwrap_or_default()
    }

    /// Returns the root certificates: the system's and those of `--ca-file`.
    pub(crate) fn roots(&self) -> Result<Arc<Roots>, TlsError> {
        if let Some(roots) = self.roots.get() {
            return Ok(Arc::clone(roots));
        }
        let loaded = Roots::load(&self.environment, &self.ca_files)?;
        Ok(Arc::clone(self.roots.get_or_init(|| Arc::new(loaded))))
    }

    /// Returns the proxy for a URL.
    pub(crate) fn proxy_for(&self, uri: &Uri) -> Option<Uri> {
        self.proxies.intercept(uri).map(|proxy| proxy.uri().clone())
    }

    fn client(&self, uri: &Uri, trust: TlsTrust) -> Result<HyperClient, HttpFailure> {
        let trust = (uri.scheme_str() == Some("https")).then_some(trust);
        let own = trust.and_then(|_| HostCertificates::find(&self.environment, host_of(uri)));
        let key = (trust, own.as_ref().map(|_| host_of(uri).to_owned()));
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let config = match trust {
            None => None,
            Some(TlsTrust::Any) => Some(tls::config(None, own.as_ref())?),
            Some(TlsTrust::Verified) => {
                let roots = self.roots()?;
                Some(tls::config(Some(&roots), own.as_ref())?)
            }
        };
        let connector = connect::Connector::new(config, Arc::clone(&self.proxies), self.timeouts.connect);
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(32).build(connector);
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// Sends a request, follows redirects, and returns the response with its final URL.
    ///
    /// # Errors
    /// Fails when there is no response. Any status counts as a response.
    pub(crate) async fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpFailure> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send_once(&request).await?;
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
                return Ok(HttpResponse {
                    response,
                    uri: request.uri,
                    timeouts: self.timeouts,
                    begun: Instant::now(),
                    received: 0,
                    _held: None,
                });
            };
            let next = join(&request.uri, location)
                .ok_or_else(|| HttpFailure::Permanent("redirected to an invalid URL".into()))?;
            // Without verification, plain HTTP is allowed too, but not for content that the user sends with TLS.
            let kept_to_tls = request.trust == TlsTrust::Verified || request.body.size() > 0;
            if kept_to_tls && HttpOrigin::of(&request.uri).is_some_and(|origin| origin.leaves_tls(&next)) {
                return Err(HttpFailure::Permanent(format!("redirected from HTTPS to HTTP at {}", host_of(&next))));
            }
            let elsewhere = HttpOrigin::of(&next) != HttpOrigin::of(&request.uri);
            if elsewhere && matches!(request.body, RequestBody::Private(_)) {
                let text = format!("{} redirected credentials to {}", host_of(&request.uri), host_of(&next));
                return Err(HttpFailure::Permanent(text));
            }
            if status == StatusCode::SEE_OTHER && request.method != Method::HEAD {
                request.method = Method::GET;
                request.body = RequestBody::Empty;
            }
            request.uri = next;
        }
        Err(HttpFailure::Permanent(format!("stopped after {MAX_REDIRECTS} redirects")))
    }

    async fn send_once(&self, request: &HttpRequest) -> Result<Response<Incoming>, HttpFailure> {
        let client = self.client(&request.uri, request.trust)?;
        let body = request.body.clone();
        let mut built = Request::builder().method(request.method.clone()).uri(request.uri.clone());
        if let Some(headers) = built.headers_mut() {
            *headers = request.headers.clone();
            if let Some(value) = request.authorization.as_ref().and_then(|it| it.for_request(&request.uri)) {
                headers.insert(AUTHORIZATION, value);
            }
            headers.insert(USER_AGENT, HeaderValue::from_static("opm/alpha"));
            if request.uri.scheme_str() == Some("http")
                && let Some(proxy) = self.proxies.intercept(&request.uri)
                && let Some(secret) = proxy.basic_auth()
            {
                headers.insert(http::header::PROXY_AUTHORIZATION, secret.clone());
            }
        }
        let built = built.body(body).map_err(|error| HttpFailure::Permanent(error.to_string()))?;
        // The timeout allows for sending the body at 64 KiB/s; the response must start soon after.
        let size = Duration::from_secs(request.body.size() / (64 << 10));
        let wait = self.timeouts.connect + self.timeouts.idle + size + request.body.delay();
        match tokio::time::timeout(wait, client.request(built)).await {
            Err(_) => Err(HttpFailure::Broken(format!("no response within {} seconds", wait.as_secs()))),
            Ok(Err(error)) => Err(failure(&error)),
            Ok(Ok(response)) => Ok(response),
        }
    }
}

/// A response whose body is not read yet.
pub(crate) struct HttpResponse {
    response: Response<Incoming>,
    uri: Uri,
    timeouts: Timeouts,
    begun: Instant,
    received: u64,
    /// Dropped with the response.
    _held: Option<Box<dyn Send + Sync>>,
}

impl HttpResponse {
    /// Keeps a value alive until the response is dropped.
    pub(crate) fn keep_alive(self, held: impl Send + Sync + 'static) -> HttpResponse {
        HttpResponse { _held: Some(Box::new(held)), ..self }
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

    /// Returns the final URL, after redirects.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the next chunk of the body, or `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpFailure> {
        loop {
            let idle = self.timeouts.idle;
            match tokio::time::timeout(idle, self.response.body_mut().frame()).await {
                Err(_) => return Err(HttpFailure::Broken(format!("no data received for {} seconds", idle.as_secs()))),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(HttpFailure::Broken(causes(&error))),
                Ok(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.received += data.len() as u64;
                    // A server that sends single bytes could block us forever.
                    if self.begun.elapsed() > self.timeouts.crawl + Duration::from_secs(self.received / MIN_RATE) {
                        return Err(HttpFailure::Permanent("the response is too slow".into()));
                    }
                    return Ok(Some(data));
                }
            }
        }
    }

    /// Reads the whole body, up to `limit` bytes.
    pub(crate) async fn read_all(&mut self, limit: u64) -> Result<Vec<u8>, HttpFailure> {
        let mut whole = Vec::new();
        while let Some(piece) = self.chunk().await? {
            if (whole.len() + piece.len()) as u64 > limit {
                return Err(HttpFailure::Permanent(format!("the response is larger than {limit} bytes")));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }

    /// Reads at most `limit` bytes of the body for an error message, ignoring failures.
    pub(crate) async fn read_prefix(&mut self, limit: usize) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Ok(Some(piece)) = self.chunk().await {
            whole.extend_from_slice(&piece[..piece.len().min(limit - whole.len())]);
            if whole.len() == limit {
                break;
            }
        }
        whole
    }
}

/// Returns the host and port of a URL, without user name and password.
pub(crate) fn host_of(uri: &Uri) -> &str {
    uri.authority().and_then(|authority| authority.as_str().rsplit('@').next()).unwrap_or_default()
}

fn failure(error: &hyper_util::client::legacy::Error) -> HttpFailure {
    let mut next: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(cause) = next {
        if let Some(cause) = cause.downcast_ref::<ConnectFailure>() {
            return cause.0.clone();
        }
        if let Some(cause) = cause.downcast_ref().filter(|error| BlobError::of(error).is_some()) {
            return HttpFailure::Blob(Error::blob(cause));
        }
        next = cause.source();
    }
    if error.is_connect() { HttpFailure::Connect(causes(error)) } else { HttpFailure::Broken(causes(error)) }
}

/// Formats an error with its causes; hyper's top-level messages say little.
fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
