//! TLS: trusted roots and client certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, InvalidMessage, OtherError, RootCertStore, SignatureScheme,
};

use super::HttpFailure;
use crate::Environment;
use crate::signature::certificate::{CertificateNames, is_valid_at};

/// Why TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: the file contains no certificate", .0.display())]
    NoCertificate(PathBuf),
    #[error("{}: {source}", path.display())]
    Pem { path: PathBuf, source: pem::Error },
    #[error("{}: {source}", path.display())]
    Key { path: PathBuf, source: rustls::Error },
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
    #[error(transparent)]
    Protocol(#[from] rustls::Error),
}

/// The trusted root certificates.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// Loads the system's roots, or those of SSL_CERT_FILE and SSL_CERT_DIR, and `files`.
    pub(crate) fn load(environment: &Environment, files: &[PathBuf]) -> Result<Roots, TlsError> {
        let own_file = environment.dir("SSL_CERT_FILE");
        let own_dir = environment.dir("SSL_CERT_DIR");
        let mut found = if own_file.is_none() && own_dir.is_none() {
            rustls_native_certs::load_native_certs()
        } else {
            // SSL_CERT_DIR may list several directories, as in Go.
            let mut found = rustls_native_certs::load_certs_from_paths(own_file.as_deref(), None);
            for dir in own_dir.iter().flat_map(|dirs| std::env::split_paths(dirs)) {
                let more = rustls_native_certs::load_certs_from_paths(None, Some(&dir));
                found.certs.extend(more.certs);
            }
            found
        };
        // Users cannot fix bad files among the system's roots, so they are skipped; a missing file adds no root.
        for file in files {
            found.certs.extend(read_certificates(file)?);
        }
        Ok(Roots { certificates: found.certs })
    }

    pub(crate) fn len(&self) -> usize {
        self.certificates.len()
    }
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = fs::read(file).map_err(|source| TlsError::File { path: file.to_owned(), source })?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(TlsError::NoCertificate(file.to_owned())),
        Err(source) => Err(TlsError::Pem { path: file.to_owned(), source }),
    }
}

/// The certificates of a host in a `certs.d` directory.
#[derive(Debug, Default)]
pub(crate) struct HostCertificates {
    pub(crate) directory: PathBuf,
    /// CA certificates: `*.crt`.
    pub(crate) authorities: Vec<PathBuf>,
    /// Client certificates: `*.cert` with the `*.key` of the same name.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl HostCertificates {
    /// Returns the directories to search for certificates of `host`, in order.
    pub(crate) fn directories(environment: &Environment, host: &str) -> Vec<PathBuf> {
        let user = environment.config_home().map(|config| config.join("containers/certs.d"));
        let system = ["containers/certs.d", "docker/certs.d"].map(|path| environment.etc().join(path));
        // The host must be a single path component.
        let single = !host.is_empty() && !host.contains('/') && host != "." && host != "..";
        user.into_iter().chain(system).filter(|_| single).map(|path| path.join(host)).collect()
    }

    /// Finds the first directory with certificates for `host`.
    pub(crate) fn find(environment: &Environment, host: &str) -> Option<HostCertificates> {
        HostCertificates::directories(environment, host).into_iter().find_map(|directory| {
            let mut names: Vec<PathBuf> = fs::read_dir(&directory).ok()?.flatten().map(|entry| entry.path()).collect();
            names.sort();
            let with = |extension: &str| {
                names.iter().filter(move |path| path.extension().is_some_and(|it| it == extension)).cloned().collect()
            };
            let authorities: Vec<PathBuf> = with("crt");
            let certificates: Vec<PathBuf> = with("cert");
            let identity = certificates.into_iter().find_map(|certificate| {
                let key = certificate.with_extension("key");
                key.exists().then_some((certificate, key))
            });
            let some = !authorities.is_empty() || identity.is_some();
            some.then_some(HostCertificates { directory, authorities, identity })
        })
    }
}

/// Creates a configuration that trusts `roots` and the host's own CA certificates; without `roots`, it trusts any
/// server.
pub(crate) fn config(roots: Option<&Roots>, own: Option<&HostCertificates>) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let trusted_certificates = match roots {
        None => None,
        Some(roots) => {
            let mut trusted = roots.certificates.clone();
            for file in own.iter().flat_map(|own| &own.authorities) {
                trusted.extend(read_certificates(file)?);
            }
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(trusted.iter().cloned());
            let usual = if store.is_empty() {
                None
            } else {
                let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider));
                Some(builder.build()?)
            };
            Some(TrustedCertificates { usual, trusted })
        }
    };
    let verifier = Verifier { trusted_certificates, provider };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let config = match own.and_then(|own| own.identity.as_ref()) {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = read_certificates(certificate)?;
            let secret =
                PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Pem { path: key.clone(), source })?;
            builder
                .with_client_auth_cert(chain, secret)
                .map_err(|source| TlsError::Key { path: key.clone(), source })?
        }
    };
    Ok(Arc::new(config))
}

/// Verifies the certificates of registries.
#[derive(Debug)]
struct Verifier {
    /// The trusted certificates; `None` accepts any certificate, as requested by the user.
    trusted_certificates: Option<TrustedCertificates>,
    provider: Arc<CryptoProvider>,
}

/// CA certificates, and server certificates that are trusted themselves.
///
/// A registry's self-signed certificate is usually marked as a CA. webpki rejects a CA certificate as a server
/// certificate, even if the user trusts exactly this one.
#[derive(Debug)]
struct TrustedCertificates {
    usual: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(trusted_certificates) = &self.trusted_certificates else { return Ok(ServerCertVerified::assertion()) };
        let unknown = || Err(CertificateError::UnknownIssuer.into());
        let usual = trusted_certificates.usual.as_ref().map_or_else(unknown, |usual| {
            usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        });
        if usual.is_ok() || !trusted_certificates.trusted.iter().any(|trusted| trusted.as_ref() == end_entity.as_ref())
        {
            return usual.map_err(|error| UnknownAuthority::with_names(error, end_entity));
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        rustls::client::verify_server_name(&parsed, server_name)?;
        match i64::try_from(now.as_secs()).ok().and_then(|now| is_valid_at(end_entity, now)) {
            Some(true) => Ok(ServerCertVerified::assertion()),
            Some(false) => Err(CertificateError::Expired.into()),
            None => Err(CertificateError::BadEncoding.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Describes the certificate that the server of a URL presents, for the message about a failed verification. Nothing is
/// sent; `None` if there is no TLS connection.
pub async fn presented_certificate(url: &str) -> Option<String> {
    let uri: http::Uri = url.parse().ok().filter(|uri: &http::Uri| uri.scheme_str() == Some("https"))?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    let stream = tokio::net::TcpStream::connect((host.as_str(), uri.port_u16().unwrap_or(443))).await.ok()?;
    let connector = tokio_rustls::TlsConnector::from(config(None, None).ok()?);
    let stream = connector.connect(ServerName::try_from(host).ok()?, stream).await.ok()?;
    let names = CertificateNames::of(stream.get_ref().1.peer_certificates()?.first()?)?;
    Some(names.to_string())
}

/// A certificate whose authority is unknown.
#[derive(Debug, thiserror::Error)]
#[error("x509: certificate signed by unknown authority{}", if *itself { " (itself)" } else { "" })]
struct UnknownAuthority {
    /// Whether it is a CA certificate that the user did not add: self-signed.
    itself: bool,
    names: Option<CertificateNames>,
}

impl UnknownAuthority {
    /// Adds the names of the certificate to an error that means this.
    fn with_names(error: rustls::Error, certificate: &CertificateDer<'_>) -> rustls::Error {
        let itself = match &error {
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => false,
            rustls::Error::InvalidCertificate(CertificateError::Other(why))
                if format!("{why:?}").contains("CaUsedAsEndEntity") =>
            {
                true
            }
            _ => return error,
        };
        let names = CertificateNames::of(certificate);
        CertificateError::Other(OtherError(Arc::new(UnknownAuthority { itself, names }))).into()
    }
}

/// Describes a failed handshake, with the existing tools' messages where they have one.
pub(crate) fn failure(host: &str, error: &std::io::Error) -> HttpFailure {
    let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) else {
        return HttpFailure::Connect(format!("TLS handshake with {host}: {error}"));
    };
    match cause {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why)))
            if let Some(unknown) = why.downcast_ref::<UnknownAuthority>() =>
        {
            HttpFailure::Certificate(unknown.to_string(), unknown.names.clone())
        }
        rustls::Error::InvalidCertificate(why) => {
            let text = match why {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "x509: certificate has expired or is not yet valid".into()
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    format!("x509: certificate is not valid for {host}")
                }
                other => format!("x509: {other}"),
            };
            HttpFailure::Certificate(text, None)
        }
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => HttpFailure::PlainHttp,
        other => HttpFailure::Permanent(format!("TLS handshake with {host}: {other}")),
    }
}
