//! TLS, client certificates, renewed certificates, and sockets in the file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serve::listen::Address;
use serve::probe::ProbeTls;
use serve::tls::TlsFiles;

use crate::harness::{Server, probe};

/// An authority, and where its certificate is.
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

    /// Writes a certificate for this machine and its key.
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
            look_every: Duration::from_secs(10),
        });
    })
    .await;
    let client = |name: &str| Some((path(&format!("{name}.pem")), path(&format!("{name}.key"))));
    server.probe(Some(ProbeTls { client: client("client"), ..trusting(&ours) })).await.unwrap();
    assert!(server.probe(Some(trusting(&ours))).await.is_err(), "a client must show a certificate");
    assert!(server.probe(Some(ProbeTls { client: client("stranger"), ..trusting(&ours) })).await.is_err());
    assert!(server.probe(Some(ProbeTls { client: client("client"), ..trusting(&theirs) })).await.is_err());
    assert!(server.probe(None).await.is_err(), "plain text is not answered");
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn renewed_certificates_are_used_and_broken_ones_are_not() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name);
    let (old, new) = (Authority::new(files.path(), "old"), Authority::new(files.path(), "new"));
    let (certificate, key) = (path("server.pem"), path("server.key"));
    old.issue(&certificate, &key);
    let tls = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_ca: None,
        look_every: Duration::from_millis(20),
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
async fn a_socket_in_the_file_system_answers_and_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("catalog.sock");
    // One that a server left behind is in nobody's way.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let server = Server::start(|plan| plan.address = Address::Unix(socket.clone())).await;
    probe(format!("unix:{}", socket.display()), None).await.unwrap();
    assert!(server.end().await.1.is_ok());
    assert!(!socket.exists());
}
