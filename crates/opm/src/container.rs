//! Container tools: external programs that pull, unpack and build images on request.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use clap::builder::TypedValueParser;
use image::{Digest, Reference};
use serde_json::Value;

use crate::choice::choice;

/// The tool that pulls or builds images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerTool {
    /// opm itself.
    None,
    Docker,
    Podman,
}

/// Parses the name of a container tool.
pub(crate) fn container_tool() -> impl TypedValueParser<Value = ContainerTool> {
    choice([("none", ContainerTool::None), ("docker", ContainerTool::Docker), ("podman", ContainerTool::Podman)])
}

impl ContainerTool {
    /// Returns the name of the program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ContainerTool::None => "none",
            ContainerTool::Docker => "docker",
            ContainerTool::Podman => "podman",
        }
    }

    /// Returns the default build tool: the first installed one, or opm itself.
    pub(crate) fn detect() -> ContainerTool {
        let tools = [ContainerTool::Podman, ContainerTool::Docker];
        tools.into_iter().find(|tool| tool.is_installed()).unwrap_or(ContainerTool::None)
    }

    fn is_installed(self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(self.name()).is_file())
    }

    /// Runs the program and returns its output.
    fn run(self, what: &str, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(self.name())
            .args(arguments)
            .output()
            .map_err(|error| format!("error {what}: . {}: {error}", self.name()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Err(format!("error {what}: {}. {}", text.trim(), output.status))
    }

    /// Pulls an image.
    pub(crate) fn pull(self, image: &str, plain_http: bool) -> Result<(), String> {
        let mut arguments = vec!["pull"];
        if plain_http && self == ContainerTool::Podman {
            arguments.push("--tls-verify=false");
        }
        arguments.push(image);
        self.run("pulling image", &arguments).map(drop)
    }

    /// Returns the labels of a pulled image.
    pub(crate) fn labels(self, image: &str) -> Result<BTreeMap<String, String>, String> {
        let text = self.run("inspecting image", &["inspect", image])?;
        let inspected: Value =
            serde_json::from_str(&text).map_err(|error| format!("error inspecting image: {error}"))?;
        let pointer = if self == ContainerTool::Docker { "/0/Config/Labels" } else { "/0/Labels" };
        let labels = inspected.pointer(pointer).and_then(Value::as_object);
        let labels =
            labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        Ok(labels.collect())
    }

    /// Returns the registry digest of a pulled image.
    pub(crate) fn digest(self, image: &str) -> Result<Digest, String> {
        let failed = |error: &dyn std::fmt::Display| format!("error inspecting image: {image}: {error}");
        let text = self.run("inspecting image", &["inspect", image])?;
        let inspected: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        let named = inspected.pointer("/0/RepoDigests").and_then(Value::as_array).into_iter().flatten();
        let mut named = named.filter_map(|name| name.as_str()?.split_once('@'));
        let name = Reference::parse(image).map(|reference| reference.name().to_owned()).unwrap_or_default();
        let found = named.clone().find(|(of, _)| *of == name).or_else(|| named.next());
        let (_, digest) = found.ok_or_else(|| failed(&"it has no digest"))?;
        digest.parse().map_err(|error| failed(&error))
    }

    /// Unpacks a pulled image into a directory.
    pub(crate) fn unpack(self, image: &str, directory: &Path) -> Result<(), String> {
        let id = self.run("creating container", &["create", image, ""])?;
        let id = id.trim();
        let target = directory.to_string_lossy();
        let copied = self.run("copying container directory", &["cp", &format!("{id}:/."), &target]);
        let removed = self.run("removing container", &["rm", id]);
        copied.and(removed).map(drop)
    }

    /// Builds an image from a Dockerfile in the current directory.
    pub(crate) fn build(self, dockerfile: &Path, tag: &str) -> Result<(), String> {
        let file = dockerfile.to_string_lossy();
        let mut arguments = vec!["build"];
        if self == ContainerTool::Podman {
            arguments.extend(["--format", "docker"]);
        }
        arguments.extend(["-f", &file, "-t", tag, "."]);
        self.run("building image", &arguments).map(drop)
    }
}
