//! Downloads from Debian's archive, of suites that this machine does not install from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools::apt;
use crate::workspace::output;

/// The keyring of Debian's signatures.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// An apt with its own package sources and state, which verifies signatures as the machine's apt does.
pub(crate) struct PrivateApt {
    tree: PathBuf,
}

impl PrivateApt {
    /// Configures apt in a directory for the named suites, from the archive that this machine uses. `kind` is `deb` or
    /// `deb-src`.
    pub(crate) fn new(tree: &Path, kind: &str, suites: &[&str]) -> Result<PrivateApt> {
        let signed = if Path::new(KEYS).exists() { format!("[signed-by={KEYS}] ") } else { String::new() };
        let mut sources = String::new();
        for uri in archives()? {
            sources.extend(suites.iter().map(|suite| format!("{kind} {signed}{uri} {suite} main\n")));
        }
        for directory in ["lists/partial", "cache/archives/partial", "download"] {
            fs::create_dir_all(tree.join(directory)).with_context(|| format!("creating {directory}"))?;
        }
        fs::write(tree.join("sources.list"), sources)?;
        Ok(PrivateApt { tree: tree.to_owned() })
    }

    /// Returns the directory that [`PrivateApt::command`] downloads to.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.tree.join("download")
    }

    /// Returns a command of apt with this configuration.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.downloads());
        for (option, path) in
            [("Dir::Etc::sourcelist", "sources.list"), ("Dir::State::lists", "lists"), ("Dir::Cache", "cache")]
        {
            command.arg("-o").arg(format!("{option}={}", self.tree.join(path).display()));
        }
        // The directory is private, so apt's sandbox user may not enter it.
        for option in ["Dir::Etc::sourceparts=/dev/null", "Acquire::Retries=3", "APT::Sandbox::User=root"] {
            command.args(["-o", option]);
        }
        command
    }
}

/// Returns the Debian archives that this machine installs from.
fn archives() -> Result<Vec<String>> {
    let list = || {
        let format = "$(LABEL) $(COMPONENT) $(REPO_URI)";
        output(Command::new("apt-get").args(["indextargets", "--format", format, "Created-By: Packages"]))
    };
    let mut listed = list()?;
    if !listed.lines().any(|line| line.starts_with("Debian main ")) {
        // Labels are known only after the lists were read once.
        apt(&["update"])?;
        listed = list()?;
    }
    let mut uris: Vec<String> =
        listed.lines().filter_map(|line| line.strip_prefix("Debian main ")).map(str::to_owned).collect();
    uris.dedup();
    if uris.is_empty() {
        bail!("this machine has no Debian package source");
    }
    Ok(uris)
}
