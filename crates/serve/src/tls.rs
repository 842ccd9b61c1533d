//! TLS for the gRPC port, with certificates that are read again when they are renewed.

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

/// How often certificate files are looked at, usually.
pub const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Where certificates are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server, with those between it and the root.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Roots of the certificates that clients must show; none have to without.
    pub client_ca: Option<PathBuf>,
    /// How often they are looked at.
    pub look_every: Duration,
}

/// Makes TLS of connections.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl Tls {
    /// Reads the certificates, and reads them again whenever the files change.
    ///
    /// # Errors
    /// Fails when they cannot be used.
    pub(crate) fn start(files: TlsFiles) -> io::Result<Tls> {
        let tls = Tls { config: Arc::new(RwLock::new(Arc::new(files.read()?))) };
        let config = Arc::downgrade(&tls.config);
        tokio::spawn(async move {
            let mut seen = files.times();
            loop {
                tokio::time::sleep(files.look_every).await;
                let Some(config) = config.upgrade() else { return };
                let now = files.times();
                if now == seen {
                    continue;
                }
                match files.read() {
                    Ok(new) => {
                        *config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                        seen = now;
                        tracing::info!("certificates were renewed");
                    }
                    Err(error) => tracing::warn!(%error, "renewed certificates cannot be used, keeping the old ones"),
                }
            }
        });
        Ok(tls)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner)))
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

    fn read(&self) -> io::Result<ServerConfig> {
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
        Ok(config)
    }
}

/// Reads the certificates of a file.
pub(crate) fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| in_file(path, &error))?;
    let certificates: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| in_file(path, &error))?;
    if certificates.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{}: no certificate in it", path.display())));
    }
    Ok(certificates)
}

fn in_file(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
}
