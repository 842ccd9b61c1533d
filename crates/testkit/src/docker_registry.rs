//! A real registry for tests.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::certificates::{create_authority, issue_certificate};
use crate::needs::installed;

/// The program, as named by Debian.
const PROGRAM: &str = "docker-registry";

/// `user` with the password `secret`, as written by `htpasswd -B`.
const PASSWORDS: &str = "user:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

/// The security settings of a registry.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegistryPlan {
    /// Uses TLS with a certificate of a new authority.
    pub tls: bool,
    /// Requires a client certificate of the same authority.
    pub client_certificate: bool,
    /// Requires a password: `user` and `secret`.
    pub password: bool,
}

/// Debian's `docker-registry` on a free local port, stopped on drop.
#[derive(Debug)]
pub struct DockerRegistry {
    child: Option<Child>,
    host: String,
    dir: TempDir,
}

impl DockerRegistry {
    /// Starts a registry; `None` if a program is not installed, which is a failure with `CI` set.
    pub fn start(plan: RegistryPlan) -> Option<DockerRegistry> {
        if !installed(PROGRAM) || plan.tls && !installed("openssl") {
            return None;
        }
        let dir = tempfile::tempdir().expect("scratch directory");
        let root = dir.path();
        let mut config = format!(
            "version: 0.1\nlog: {{level: info, accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: {}}}, delete: {{enabled: true}}}}\nhttp:\n  addr: 127.0.0.1:{}\n",
            root.join("data").display(),
            crate::free_port()
        );
        if plan.tls {
            create_authority(root);
            issue_certificate(root, "server", "/CN=server", "serverAuth");
            issue_certificate(root, "client", "/CN=client", "clientAuth");
            let file = |name: &str| root.join(name).display().to_string();
            config += &format!("  tls:\n    certificate: {}\n    key: {}\n", file("server.crt"), file("server.key"));
            if plan.client_certificate {
                config += &format!("    clientcas: [{}]\n", file("ca.crt"));
            }
        }
        if plan.password {
            let passwords = root.join("passwords");
            fs::write(&passwords, PASSWORDS).expect("password file");
            config += &format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", passwords.display());
        }
        fs::write(root.join("config.yml"), config).expect("config of the registry");
        let (child, host) = launch(root);
        Some(DockerRegistry { child: Some(child), host, dir })
    }

    /// Kills the process, as a power failure would.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Restarts it with its data at the same address.
    pub fn restart(&mut self) {
        self.stop();
        let (child, host) = launch(self.dir.path());
        assert_eq!(host, self.host);
        self.child = Some(child);
    }

    /// Runs the registry's garbage collection.
    pub fn collect_garbage(&mut self) {
        self.stop();
        let config = self.dir.path().join("config.yml");
        let output = Command::new(PROGRAM).arg("garbage-collect").arg(config).output().expect("the registry runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.restart();
    }

    /// Returns its data directory.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Returns the address with the port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the certificate of its authority.
    pub fn authority(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    /// Returns a client certificate of the same authority, and its key.
    pub fn client_certificate(&self) -> (PathBuf, PathBuf) {
        (self.dir.path().join("client.crt"), self.dir.path().join("client.key"))
    }

    /// Returns the file of a blob's content.
    pub fn blob_file(&self, hex: &str) -> PathBuf {
        self.data().join("docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data")
    }
}

/// Starts the process with the config in a directory; returns it with its address.
fn launch(root: &Path) -> (Child, String) {
    let child = Command::new(PROGRAM)
        .args(["serve".as_ref(), root.join("config.yml").as_os_str()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("the registry starts");
    let mut log = BufReader::new(child.stderr.take().expect("log of the registry"));
    let mut text = String::new();
    let host = loop {
        let start = text.len();
        let count = log.read_line(&mut text).expect("log of the registry");
        assert!(count > 0, "the registry ended:\n{text}");
        if let Some((_, rest)) = text[start..].split_once("listening on ") {
            let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.' && char != ':');
            break rest[..end.unwrap_or(rest.len())].to_owned();
        }
    };
    // Drain the log, or the registry blocks when the pipe is full.
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    (child, host)
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        self.stop();
    }
}
