//! The environment in which tests run commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A temporary directory with an empty home; commands run in it.
pub(crate) struct TestEnv {
    directory: tempfile::TempDir,
}

impl TestEnv {
    pub(crate) fn new() -> TestEnv {
        TestEnv { directory: tempfile::tempdir().expect("a scratch directory") }
    }

    /// Writes a file, and creates its parent directories.
    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &TestEnv {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
        self
    }

    /// Copies a directory of the project.
    pub(crate) fn copy_of(&self, project_path: &str) -> &TestEnv {
        let name = Path::new(project_path).file_name().expect("a name");
        copy(&project(project_path), &self.directory.path().join(name));
        self
    }

    /// Creates another environment with copies of files and directories.
    pub(crate) fn clone_of(&self, paths: &[&str]) -> TestEnv {
        let other = TestEnv::new();
        for path in paths {
            if self.path(path).is_dir() {
                copy(&self.path(path), &other.path(path));
            } else {
                fs::copy(self.path(path), other.path(path)).expect("a copy");
            }
        }
        other
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns the names in a directory, sorted.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(path))
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opm"));
        command
            .current_dir(self.directory.path())
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null());
        command
    }

    /// Runs `opm` and returns exit code, stdout and stderr as text.
    pub(crate) fn opm(&self, arguments: &[&str]) -> String {
        self.show(self.command().args(arguments).output().expect("opm runs"))
    }

    /// Runs `opm`, which must succeed, and returns stdout.
    pub(crate) fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.command().args(arguments).output().expect("opm runs");
        assert!(output.status.success(), "{}", self.show(output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Returns the commands below a command that have no subcommands, from its help.
    pub(crate) fn commands(&self, above: &[&str]) -> Vec<String> {
        let help = self.stdout(&[above, &["--help"]].concat());
        // The program itself lists its commands in groups.
        let first = if above.is_empty() { "Author:" } else { "Commands:" };
        let names = help.lines().skip_while(|line| *line != first).skip(1);
        let names = names.take_while(|line| !line.starts_with("Topics") && (above.is_empty() || !line.is_empty()));
        let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names: Vec<&str> =
            names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
        match names.is_empty() {
            true => vec![above.join(" ")],
            false => names.iter().flat_map(|name| self.commands(&[above, &[name]].concat())).collect(),
        }
    }

    /// Returns exit code, stdout and stderr of a command as text.
    pub(crate) fn show(&self, output: Output) -> String {
        let scratch = self.directory.path().display().to_string();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&scratch, "[SCRATCH]");
        let code = output.status.code().map_or("signal".into(), |code| code.to_string());
        format!("exit {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
    }
}

/// Returns a path of the project.
pub(crate) fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Copies a directory.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// A small valid catalog.
pub(crate) const SMALL: &str = "\
schema: olm.package
name: foo
defaultChannel: stable
---
schema: olm.channel
package: foo
name: stable
entries:
- name: foo.v1.0.0
---
schema: olm.bundle
name: foo.v1.0.0
package: foo
image: registry.example.com/foo:v1.0.0
properties:
- type: olm.package
  value:
    packageName: foo
    version: 1.0.0
";

/// A process that is killed on drop.
pub(crate) struct Stopped(pub(crate) Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
