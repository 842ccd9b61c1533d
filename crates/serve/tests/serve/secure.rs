//! TLS, client certificates, renewed certificates, and sockets in the file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serve::listen::Address;
use serve::probe::ProbeTls;
use serve::tls::TlsFiles;

use crate::catalogs::write_package;
use crate::harness::{Server, probe};

/// A certificate authority, and the path of its certificate.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = directory.join(format!("{name}.crt"));
        fs::write(&file, issuer.pem()).unwrap();
        Authority { issuer, file }
    }

    /// Writes a certificate for localhost and its key.
    fn issue(&self, certificate: &Path, key: &Path) {
        let params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
        let pair = KeyPair::generate().unwrap();
        fs::write(certificate, params.signed_by(&pair, &self.issuer).unwrap().pem()).unwrap();
        fs::write(key, pair.serialize_pem()).unwrap();
    }
}

fn trusting(authority: &Authority) -> ProbeTls {
    ProbeTls { ca: Some(authority.file.clone()), ..ProbeTls::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_checked_on_both_sides() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name);
    let (ours, theirs) = (Authority::new(files.path(), "ours"), Authority::new(files.path(), "theirs"));
    ours.issue(&path("server.pem"), &path("server.key"));
    ours.issue(&path("client.pem"), &path("client.key"));
    theirs.issue(&path("stranger.pem"), &path("stranger.key"));
    let server = Server::start(|plan| {
        plan.tls = Some(TlsFiles {
            certificate: path("server.pem"),
            key: path("server.key"),
            client_ca: Some(ours.file.clone()),
            poll_interval: Duration::from_secs(10),
        });
    })
    .await;
    let client = |name: &str| Some((path(&format!("{name}.pem")), path(&format!("{name}.key"))));
    server.probe(Some(ProbeTls { client: client("client"), ..trusting(&ours) })).await.unwrap();
    assert!(server.probe(Some(trusting(&ours))).await.is_err(), "a client without a certificate is accepted");
    assert!(server.probe(Some(ProbeTls { client: client("stranger"), ..trusting(&ours) })).await.is_err());
    assert!(server.probe(Some(ProbeTls { client: client("client"), ..trusting(&theirs) })).await.is_err());
    assert!(server.probe(None).await.is_err(), "plain text gets a reply");
    let page = "/catalogs/test/api/v1/metas?schema=olm.package";
    // The catalog is served over gRPC first.
    let reply = loop {
        let reply = secure_get(server.http, page, &ours, client("client")).await.unwrap();
        if !reply.contains("the catalog is still being loaded") {
            break reply;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("\"name\":\"beta\""), "{reply}");
    assert!(secure_get(server.http, page, &ours, None).await.is_err(), "HTTP accepts a client without a certificate");
    assert!(secure_get(server.http, page, &theirs, client("client")).await.is_err());
    assert!(!server.get(page, "").await.starts_with("HTTP/1.1 200"), "plain text gets a reply");
    assert!(server.end().await.1.is_ok());
}

/// Sends a request over TLS, and returns the whole response.
async fn secure_get(
    port: u16,
    path: &str,
    trusted: &Authority,
    client: Option<(PathBuf, PathBuf)>,
) -> std::io::Result<String> {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&trusted.file).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(ServerName::try_from("localhost").unwrap(), socket).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_catalog_are_reloaded_on_request() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name);
    let (old, new) = (Authority::new(files.path(), "old"), Authority::new(files.path(), "new"));
    old.issue(&path("server.pem"), &path("server.key"));
    let server = Server::start(|plan| {
        plan.tls = Some(TlsFiles {
            certificate: path("server.pem"),
            key: path("server.key"),
            client_ca: None,
            poll_interval: Duration::from_secs(3600),
        });
    })
    .await;
    server.probe(Some(trusting(&old))).await.unwrap();
    new.issue(&path("server.pem"), &path("server.key"));
    write_package(&server.root(), "delta", 2, "new");
    server.reload.notify_one();
    let delta = "/catalogs/test/api/v1/packages/delta";
    for _ in 0..300 {
        let reply = secure_get(server.http, delta, &new, None).await.unwrap_or_default();
        if reply.starts_with("HTTP/1.1 200") {
            server.probe(Some(trusting(&new))).await.unwrap();
            assert!(server.end().await.1.is_ok());
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("certificates and catalog are not reloaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn renewed_certificates_are_used_and_broken_ones_are_ignored() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name);
    let (old, new) = (Authority::new(files.path(), "old"), Authority::new(files.path(), "new"));
    let (certificate, key) = (path("server.pem"), path("server.key"));
    old.issue(&certificate, &key);
    let tls = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_ca: None,
        poll_interval: Duration::from_millis(20),
    };
    let server = Server::start(|plan| plan.tls = Some(tls)).await;
    server.probe(Some(trusting(&old))).await.unwrap();
    fs::write(&certificate, "no certificate").unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.probe(Some(trusting(&old))).await.unwrap();
    new.issue(&certificate, &key);
    for _ in 0..300 {
        if server.probe(Some(trusting(&new))).await.is_ok() {
            assert!(server.probe(Some(trusting(&old))).await.is_err());
            assert!(server.end().await.1.is_ok());
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the renewed certificate is not used");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_in_the_file_system_serves_and_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("catalog.sock");
    // A stale socket file is replaced.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let server = Server::start(|plan| plan.address = Address::Unix(socket.clone())).await;
    probe(format!("unix:{}", socket.display()), None).await.unwrap();
    assert!(server.end().await.1.is_ok());
    assert!(!socket.exists());
}
