//! Container tools: external programs that pull, unpack and build images on request.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use image::{Digest, DigestError, Reference};
use serde_json::Value;

/// The tool that pulls or builds images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerTool {
    /// opm itself.
    None,
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

/// Why a container tool failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The program cannot be started.
    #[error("error {what}: . {tool}: {source}")]
    Start {
        /// What it was started for.
        what: &'static str,
        /// Its name.
        tool: &'static str,
        source: io::Error,
    },
    /// The program failed.
    #[error("error {what}: {}. {status}", output.trim())]
    Failed {
        /// What it was started for.
        what: &'static str,
        /// What it printed.
        output: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// Links that lead out of the unpacked image cannot be removed.
    #[error("{}: {source}", directory.display())]
    Links {
        /// The directory of the image.
        directory: PathBuf,
        source: io::Error,
    },
    /// The description of an image is not JSON.
    #[error("error inspecting image: {0}")]
    Description(serde_json::Error),
    /// An image has no digest.
    #[error("error inspecting image: {0}: it has no digest")]
    NoDigest(String),
    /// The digest of an image is none.
    #[error("error inspecting image: {image}: {source}")]
    Digest { image: String, source: DigestError },
}

impl ContainerTool {
    /// Returns the name of the program.
    pub fn name(self) -> &'static str {
        match self {
            ContainerTool::None => "none",
            ContainerTool::Docker => "docker",
            ContainerTool::Podman => "podman",
        }
    }

    /// Returns the default build tool: the first one that is installed in `path`, or opm itself.
    pub fn detect(path: &OsStr) -> ContainerTool {
        let tools = [ContainerTool::Podman, ContainerTool::Docker];
        let is_installed =
            |tool: &ContainerTool| std::env::split_paths(path).any(|folder| folder.join(tool.name()).is_file());
        tools.into_iter().find(is_installed).unwrap_or(ContainerTool::None)
    }

    /// Runs the program and returns its output.
    fn run(self, what: &'static str, arguments: &[&str]) -> Result<String, ToolError> {
        let output = Command::new(self.name()).args(arguments).output().map_err(|source| ToolError::Start {
            what,
            tool: self.name(),
            source,
        })?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Err(ToolError::Failed { what, output: text, status: output.status })
    }

    /// Returns what the program knows about a pulled image.
    fn inspect(self, image: &str) -> Result<Value, ToolError> {
        let text = self.run("inspecting image", &["inspect", image])?;
        serde_json::from_str(&text).map_err(ToolError::Description)
    }

    /// Pulls an image.
    ///
    /// # Errors
    /// Fails when the program does.
    pub fn pull(self, image: &str, plain_http: bool) -> Result<(), ToolError> {
        let mut arguments = vec!["pull"];
        if plain_http && self == ContainerTool::Podman {
            arguments.push("--tls-verify=false");
        }
        arguments.push(image);
        self.run("pulling image", &arguments).map(drop)
    }

    /// Returns the labels of a pulled image.
    ///
    /// # Errors
    /// Fails when the program does.
    pub fn labels(self, image: &str) -> Result<BTreeMap<String, String>, ToolError> {
        let inspected = self.inspect(image)?;
        let pointer = if self == ContainerTool::Docker { "/0/Config/Labels" } else { "/0/Labels" };
        let labels = inspected.pointer(pointer).and_then(Value::as_object);
        let labels =
            labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        Ok(labels.collect())
    }

    /// Returns the registry digest of a pulled image.
    ///
    /// # Errors
    /// Fails when the program does.
    pub fn digest(self, image: &str) -> Result<Digest, ToolError> {
        let inspected = self.inspect(image)?;
        let named = inspected.pointer("/0/RepoDigests").and_then(Value::as_array).into_iter().flatten();
        let mut named = named.filter_map(|name| name.as_str()?.split_once('@'));
        let name = Reference::parse(image).map(|reference| reference.name().to_owned()).unwrap_or_default();
        let found = named.clone().find(|(of, _)| *of == name).or_else(|| named.next());
        let (_, digest) = found.ok_or_else(|| ToolError::NoDigest(image.to_owned()))?;
        digest.parse().map_err(|source| ToolError::Digest { image: image.to_owned(), source })
    }

    /// Unpacks a pulled image into a directory.
    ///
    /// # Errors
    /// Fails when the program does.
    pub fn unpack(self, image: &str, directory: &Path) -> Result<(), ToolError> {
        let id = self.run("creating container", &["create", image, ""])?;
        let id = id.trim();
        let target = directory.to_string_lossy();
        let copied = self.run("copying container directory", &["cp", &format!("{id}:/."), &target]);
        let removed = self.run("removing container", &["rm", id]);
        copied.and(removed)?;
        drop_links(directory, directory)
            .map_err(|source| ToolError::Links { directory: directory.to_path_buf(), source })
    }

    /// Builds an image from a Dockerfile in the current directory.
    ///
    /// # Errors
    /// Fails when the program does.
    pub fn build(self, dockerfile: &Path, tag: &str) -> Result<(), ToolError> {
        let file = dockerfile.to_string_lossy();
        let mut arguments = vec!["build"];
        if self == ContainerTool::Podman {
            arguments.extend(["--format", "docker"]);
        }
        arguments.extend(["-f", &file, "-t", tag, "."]);
        self.run("building image", &arguments).map(drop)
    }
}

/// Removes links that lead out of `root`: container tools copy them unchanged.
fn drop_links(root: &Path, directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            drop_links(root, &entry.path())?;
        } else if kind.is_symlink() && !entry.path().canonicalize().is_ok_and(|real| real.starts_with(root)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
