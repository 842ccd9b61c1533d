//! Connections, directly or through a proxy.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tower::Service;

use super::{HttpFailure, causes, host_of, tls};
use crate::Environment;

/// Maximum size of the header of a proxy's response to `CONNECT`.
const PROXY_HEAD: usize = 16 << 10;

/// The proxies set in the environment.
pub(crate) struct Proxies(Matcher);

/// Why a variable sets no proxy. The value can contain a password anywhere, so no part of it is printed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ProxyError {
    /// The value is not the URL of a proxy.
    #[error(
        "{0}: not the URL of a proxy: expected http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with special \
         characters of the password encoded, such as %23 for #"
    )]
    Invalid(&'static str),
    /// The proxy has another protocol.
    #[error("{0}: only http:// and https:// proxies are supported")]
    Scheme(&'static str),
}

impl Proxies {
    /// Reads the proxies from the environment. A proxy is often there to keep connections from leaving a network, so
    /// an invalid one is an error and does not mean a direct connection.
    pub(crate) fn new(environment: &Environment) -> Result<Proxies, ProxyError> {
        let get = |upper: &'static str, lower: &'static str| {
            let named = |name: &'static str| environment.get(name).map(|value| (name, value));
            named(upper).or_else(|| named(lower))
        };
        let proxy = |upper, lower| get(upper, lower).map_or(Ok(""), |(name, value)| check_proxy(name, value));
        let matcher = Matcher::builder()
            .all(proxy("ALL_PROXY", "all_proxy")?)
            .http(proxy("HTTP_PROXY", "http_proxy")?)
            .https(proxy("HTTPS_PROXY", "https_proxy")?)
            .no(get("NO_PROXY", "no_proxy").map_or("", |(_, value)| value))
            .build();
        Ok(Proxies(matcher))
    }

    /// Returns the proxy for a URL. Loopback addresses bypass proxies.
    pub(crate) fn intercept(&self, uri: &Uri) -> Option<Intercept> {
        let host = uri.host().unwrap_or_default();
        let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
            return None;
        }
        self.0.intercept(uri)
    }
}

/// Returns the value of a variable if it is the URL of a proxy; `http://` can be omitted.
fn check_proxy<'a>(name: &'static str, value: &'a str) -> Result<&'a str, ProxyError> {
    let rest = match value.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") => rest,
        Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            return Err(ProxyError::Scheme(name));
        }
        Some(_) => return Err(ProxyError::Invalid(name)),
        None => value,
    };
    // Other special characters of a password end the host or start a path, unless they are percent-encoded.
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let parsed = authority.parse::<http::uri::Authority>().ok().filter(|_| authority.matches('@').count() <= 1);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let port = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map(|(_, port)| port);
    let valid_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    match parsed {
        Some(parsed) if !parsed.host().is_empty() && valid_port => Ok(value),
        _ => Err(ProxyError::Invalid(name)),
    }
}

/// A connect failure, wrapped so that it passes through hyper.
#[derive(Debug)]
pub(crate) struct ConnectFailure(pub(crate) HttpFailure);

impl std::fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ConnectFailure {}

/// Opens connections.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: Option<Arc<ClientConfig>>,
    proxies: Arc<Proxies>,
    tcp: HttpConnector,
    limit: Duration,
}

impl Connector {
    pub(crate) fn new(tls: Option<Arc<ClientConfig>>, proxies: Arc<Proxies>, limit: Duration) -> Connector {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(limit));
        Connector { tls, proxies, tcp, limit }
    }

    async fn connect(mut self, uri: Uri) -> Result<HyperStream, HttpFailure> {
        let host = host_of(&uri).to_owned();
        let secure = uri.scheme_str() == Some("https");
        let proxy = self.proxies.intercept(&uri);
        let near = proxy.as_ref().map_or(&uri, |proxy| proxy.uri()).clone();
        let tcp = self.tcp.call(near.clone()).await.map_err(|error| HttpFailure::Connect(reason(&near, &error)))?;
        let mut io: Box<dyn Io> = Box::new(tcp.into_inner());
        let mut proxied = false;
        if let Some(proxy) = &proxy {
            if near.scheme_str() == Some("https") {
                let roots = self.tls.clone().ok_or_else(|| {
                    HttpFailure::Permanent("a proxy with an https:// URL supports only registries with TLS".into())
                })?;
                io = handshake(roots, near.host().unwrap_or_default(), io).await?;
            }
            if secure {
                io = tunnel(io, &uri, proxy).await?;
            } else {
                proxied = true;
            }
        }
        if secure {
            let config = self.tls.ok_or_else(|| HttpFailure::Permanent(format!("no TLS for {host}")))?;
            io = handshake(config, uri.host().unwrap_or_default(), io).await?;
        }
        Ok(HyperStream { io: TokioIo::new(io), proxied })
    }
}

/// Formats a connect error with its host.
fn reason(uri: &Uri, error: &(dyn std::error::Error + 'static)) -> String {
    let text = causes(error);
    // The connector's own message says only that it was connecting.
    let text = text.rsplit(": ").next().unwrap_or(&text);
    format!("dial tcp {}: {text}", host_of(uri))
}

async fn handshake(config: Arc<ClientConfig>, host: &str, io: Box<dyn Io>) -> Result<Box<dyn Io>, HttpFailure> {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name =
        ServerName::try_from(host.clone()).map_err(|_| HttpFailure::Permanent(format!("invalid host name {host}")))?;
    match TlsConnector::from(config).connect(name, io).await {
        Ok(io) => Ok(Box::new(io)),
        Err(error) => Err(tls::failure(&host, &error)),
    }
}

/// Opens a tunnel to a registry through a proxy.
async fn tunnel(io: Box<dyn Io>, uri: &Uri, proxy: &Intercept) -> Result<Box<dyn Io>, HttpFailure> {
    let target = format!("{}:{}", uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(443));
    let name = host_of(proxy.uri());
    let mut request = Request::connect(&target).header(HOST, &target).header(USER_AGENT, "opm/alpha");
    if let Some(secret) = proxy.basic_auth() {
        request = request.header(PROXY_AUTHORIZATION, secret);
    }
    let request = request.body(Empty::<Bytes>::new());
    let request = request.map_err(|error| HttpFailure::Permanent(format!("proxy {name}: {error}")))?;
    let broken = |error: hyper::Error| match error.is_parse() {
        true => HttpFailure::Permanent(format!("proxy {name}: {}", causes(&error))),
        false => HttpFailure::Connect(format!("proxy {name}: {}", causes(&error))),
    };
    let handshake = http1::Builder::new().max_buf_size(PROXY_HEAD).handshake(TokioIo::new(io)).await;
    let (mut sender, connection) = handshake.map_err(broken)?;
    // Ends with the tunnel, or with the sender if there is none.
    tokio::spawn(connection.with_upgrades());
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(Box::new(TokioIo::new(hyper::upgrade::on(response).await.map_err(broken)?)));
    }
    let text = format!("proxy {name} refused a connection to {target}: {status}");
    Err(if status.is_server_error() { HttpFailure::Connect(text) } else { HttpFailure::Permanent(text) })
}

impl Service<Uri> for Connector {
    type Response = HyperStream;
    type Error = ConnectFailure;
    type Future = Pin<Box<dyn Future<Output = Result<HyperStream, ConnectFailure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectFailure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let limit = connector.limit;
            let late = || HttpFailure::Connect(format!("no connection within {} seconds", limit.as_secs()));
            let outcome = tokio::time::timeout(limit, connector.connect(uri)).await;
            outcome.unwrap_or_else(|_| Err(late())).map_err(ConnectFailure)
        })
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection in the form that hyper expects.
pub(crate) struct HyperStream {
    io: TokioIo<Box<dyn Io>>,
    proxied: bool,
}

impl Connection for HyperStream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.proxied)
    }
}

impl Read for HyperStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for HyperStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_proxy_is_an_error_that_prints_no_password() {
        let proxies = |value: &str| {
            Proxies::new(&Environment::isolated(std::path::Path::new("/nonexistent"), &[("https_proxy", value)]))
        };
        for valid in [
            "http://proxy.test:3128",
            "proxy.test:3128",
            "HTTPS://proxy.test/",
            "http://name:secret@proxy.test:3128/",
            "http://name:se%23cret@[::1]:3128",
            "http://[::1]",
        ] {
            let found = proxies(valid).unwrap().intercept(&"https://reg.test/v2/".parse().unwrap());
            assert!(found.is_some(), "{valid}");
        }
        for invalid in [
            "ftp://name:secret@proxy.test",
            "socks5://proxy.test:1080",
            "http://name:sec ret@proxy.test:3128",
            "http://name:12#secret@proxy.test:3128",
            "http://name:sec/ret@proxy.test:3128",
            "http://name:sec?ret@proxy.test:3128",
            "http://name:sec@ret@proxy.test:3128",
            "http://name:secret@:3128",
            "http://proxy.test:port",
            "http://",
            "secret://x y://proxy",
        ] {
            let error = proxies(invalid).err().unwrap_or_else(|| panic!("{invalid}")).to_string();
            assert!(error.starts_with("https_proxy: ") && !error.contains("sec") && !error.contains("12"), "{error}");
        }
    }
}
