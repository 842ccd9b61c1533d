//! A client of the health API.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::tls::certificates;

/// A health probe.
#[derive(Debug, Clone)]
pub struct Probe {
    /// `host:port` or `unix:PATH`.
    pub address: String,
    /// The service to check; empty for the server as a whole.
    pub service: String,
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout for the call.
    pub rpc_timeout: Duration,
    /// TLS settings; plain text without.
    pub tls: Option<ProbeTls>,
}

/// TLS settings of a probe.
#[derive(Debug, Clone, Default)]
pub struct ProbeTls {
    /// CA certificates that the server's certificate must chain to.
    pub ca: Option<PathBuf>,
    /// The client certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The name that the server's certificate must have; defaults to the host of the address.
    pub server_name: Option<String>,
    /// Whether to skip verification of the server's certificate.
    pub no_verify: bool,
}

/// The reason why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The settings are invalid.
    #[error("{0}")]
    Invalid(String),
    /// The connection failed.
    #[error("{0}")]
    Connect(String),
    /// The call failed.
    #[error("{0}")]
    Rpc(String),
    /// The server reported another status than serving.
    #[error("service unhealthy (responded with {0:?})")]
    Unhealthy(String),
}

impl Probe {
    /// Sends one health check.
    ///
    /// # Errors
    /// Fails unless the server reports that it is serving.
    pub async fn run(&self) -> Result<(), ProbeError> {
        let connecting = tokio::time::timeout(self.connect_timeout, self.connect());
        let channel = connecting.await.map_err(|_| {
            ProbeError::Connect(format!(
                "timeout: failed to connect service {:?} within {:?}",
                self.address, self.connect_timeout
            ))
        })??;
        let mut client = HealthClient::new(channel);
        let asking = client.check(HealthCheckRequest { service: self.service.clone() });
        let answer = tokio::time::timeout(self.rpc_timeout, asking)
            .await
            .map_err(|_| {
                ProbeError::Rpc(format!("timeout: health rpc did not complete within {:?}", self.rpc_timeout))
            })?
            .map_err(|status| match std::error::Error::source(&status) {
                // The peer does not speak gRPC, or not to this client.
                Some(cause) => ProbeError::Connect(format!("failed to connect service at {:?}: {cause}", self.address)),
                None => ProbeError::Rpc(format!("health rpc failed: {}", status.message())),
            })?;
        match answer.get_ref().status() {
            ServingStatus::Serving => Ok(()),
            other => Err(ProbeError::Unhealthy(other.as_str_name().to_owned())),
        }
    }

    async fn connect(&self) -> Result<Channel, ProbeError> {
        let tls = self.tls.as_ref().map(|tls| self.connector(tls)).transpose()?;
        let address = self.address.clone();
        let connector = tower::service_fn(move |_| {
            let (address, tls) = (address.clone(), tls.clone());
            async move { dial(&address, tls).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://probe.invalid");
        let failed = |error: tonic::transport::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            ProbeError::Connect(format!("failed to connect service at {:?}: {cause}", self.address))
        };
        endpoint.connect_with_connector(connector).await.map_err(failed)
    }

    fn connector(&self, tls: &ProbeTls) -> Result<(TlsConnector, ServerName<'static>), ProbeError> {
        let invalid = |error: &dyn std::fmt::Display| ProbeError::Invalid(error.to_string());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(&error))?;
        let builder = if tls.no_verify {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        } else {
            let mut roots = RootCertStore::empty();
            let path = tls.ca.as_ref().ok_or_else(|| invalid(&"-tls needs -tls-ca-cert or -tls-no-verify"))?;
            for certificate in certificates(path).map_err(|error| invalid(&error))? {
                roots.add(certificate).map_err(|error| invalid(&error))?;
            }
            builder.with_root_certificates(roots)
        };
        let mut config = match &tls.client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| invalid(&error))?;
                let certificates = certificates(certificate).map_err(|error| invalid(&error))?;
                builder.with_client_auth_cert(certificates, key).map_err(|error| invalid(&error))?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        let name = tls.server_name.clone().unwrap_or_else(|| match host.trim_matches(['[', ']']) {
            "" => "localhost".to_owned(),
            host => host.to_owned(),
        });
        let name = ServerName::try_from(name).map_err(|error| invalid(&error))?;
        Ok((TlsConnector::from(Arc::new(config)), name))
    }
}

/// A byte stream: TCP or Unix socket, with or without TLS.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

async fn dial(address: &str, tls: Option<(TlsConnector, ServerName<'static>)>) -> io::Result<Box<dyn Wire>> {
    let wire: Box<dyn Wire> = match address.strip_prefix("unix:") {
        Some(path) => Box::new(UnixStream::connect(path.strip_prefix("//").unwrap_or(path)).await?),
        None => Box::new(match this_machine(address) {
            Some(addresses) => TcpStream::connect(&addresses[..]).await?,
            None => TcpStream::connect(address).await?,
        }),
    };
    match tls {
        None => Ok(wire),
        Some((connector, name)) => Ok(Box::new(connector.connect(name, wire).await?)),
    }
}

/// Returns the loopback addresses if the host is `localhost` or empty: an image built from scratch has no `/etc/hosts`.
fn this_machine(address: &str) -> Option<[SocketAddr; 2]> {
    let port = address.strip_prefix("localhost").unwrap_or(address).strip_prefix(':')?.parse().ok()?;
    Some([(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()])
}

/// Accepts any certificate, for `-tls-no-verify`.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let supported = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, supported)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let supported = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, supported)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
