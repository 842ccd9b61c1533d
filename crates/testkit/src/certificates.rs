//! Certificates for test servers and their clients.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::Command;

const KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/// Creates an authority: `ca.crt` and `ca.key`.
pub(crate) fn create_authority(root: &Path) {
    let rest = ["-days", "30", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.crt"];
    openssl(root, &[&["req", "-x509"][..], &KEY, &rest].concat());
}

/// Issues a certificate signed by the authority in `root`: `NAME.crt` and `NAME.key`.
pub(crate) fn issue_certificate(root: &Path, name: &str, subject: &str, usage: &str) {
    let names = if usage == "serverAuth" { "subjectAltName=IP:127.0.0.1,DNS:localhost\n" } else { "" };
    let (extension, request) = (format!("{name}.ext"), format!("{name}.csr"));
    let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
    let text = format!("{names}extendedKeyUsage={usage}\nbasicConstraints=CA:FALSE\n");
    fs::write(root.join(&extension), text).expect("extension file");
    openssl(root, &[&["req"][..], &KEY, &["-subj", subject, "-keyout", &key, "-out", &request]].concat());
    // Tests issue certificates in parallel, so the numbers are random: a counter in a file would be read half written.
    let number = format!("{:#x}", RandomState::new().hash_one(name) >> 1);
    let sign = ["x509", "-req", "-in", &request, "-CA", "ca.crt", "-CAkey", "ca.key", "-set_serial", &number];
    let sign = [&sign[..], &["-days", "30"]].concat();
    openssl(root, &[&sign[..], &["-extfile", &extension, "-out", &certificate]].concat());
}

pub(crate) fn openssl(root: &Path, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).current_dir(root).output().expect("openssl runs");
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
