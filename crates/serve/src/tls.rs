//! TLS for gRPC and HTTP, with certificates that are reloaded when they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

/// The default interval of polling certificate files for changes.
pub const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Paths of certificates and keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server certificate, with its intermediate certificates.
    pub certificate: PathBuf,
    /// The private key of the server.
    pub key: PathBuf,
    /// CA certificates that client certificates must chain to; without it, clients need no certificate.
    pub client_ca: Option<PathBuf>,
    /// The interval of polling the files for changes.
    pub poll_interval: Duration,
}

/// The protocol inside TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// gRPC.
    Http2,
    /// The catalog API.
    Http1,
}

/// The TLS configuration, reloadable.
#[derive(Clone)]
pub struct Tls {
    files: Arc<TlsFiles>,
    configs: Arc<RwLock<Configs>>,
}

struct Configs {
    http2: Arc<ServerConfig>,
    http1: Arc<ServerConfig>,
    /// The modification times of the files, taken before they were read.
    times: Vec<Option<SystemTime>>,
}

impl Tls {
    /// Reads the certificates.
    ///
    /// # Errors
    /// Fails when they cannot be used.
    pub fn read(files: TlsFiles) -> io::Result<Tls> {
        let configs = Arc::new(RwLock::new(files.read()?));
        Ok(Tls { files: Arc::new(files), configs })
    }

    /// Polls the files and reloads the certificates when they change.
    pub(crate) async fn follow(self) {
        let mut reported = None;
        loop {
            tokio::time::sleep(self.files.poll_interval).await;
            let files = Arc::clone(&self.files);
            let Ok(now) = tokio::task::spawn_blocking(move || files.times()).await else { continue };
            let seen = self.configs.read().unwrap_or_else(PoisonError::into_inner).times == now;
            // Unusable files are read again, since one of the pair may be written later; one report is enough.
            if !seen && self.reload(reported.as_ref() != Some(&now)).await.is_err() {
                reported = Some(now);
            }
        }
    }

    /// Reloads the certificates; keeps the previous ones if the new ones cannot be used.
    pub(crate) async fn reload(&self, report: bool) -> io::Result<()> {
        let files = Arc::clone(&self.files);
        let read = tokio::task::spawn_blocking(move || files.read()).await;
        match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(new) => {
                *self.configs.write().unwrap_or_else(PoisonError::into_inner) = new;
                tracing::info!("reloaded certificates");
                Ok(())
            }
            Err(error) => {
                if report {
                    tracing::warn!(%error, "cannot use the changed certificates, keeping the previous ones");
                }
                Err(error)
            }
        }
    }

    pub(crate) fn acceptor(&self, protocol: Protocol) -> TlsAcceptor {
        let configs = self.configs.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(match protocol {
            Protocol::Http2 => &configs.http2,
            Protocol::Http1 => &configs.http1,
        }))
    }
}

impl TlsFiles {
    fn times(&self) -> Vec<Option<SystemTime>> {
        let time = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()]
            .into_iter()
            .map(|path| path.and_then(|path| time(path)))
            .collect()
    }

    fn read(&self) -> io::Result<Configs> {
        let times = self.times();
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| in_file(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| in_file(path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|error| in_file(path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(certificates(&self.certificate)?, key)
            .map_err(|error| in_file(&self.certificate, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let mut http1 = config.clone();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Configs { http2: Arc::new(config), http1: Arc::new(http1), times })
    }
}

/// Reads the certificates of a file.
pub(crate) fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| in_file(path, &error))?;
    let certificates: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| in_file(path, &error))?;
    if certificates.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{}: contains no certificate", path.display())));
    }
    Ok(certificates)
}

fn in_file(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
}
