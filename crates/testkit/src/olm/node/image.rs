//! Images of local registries.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A pulled image.
#[derive(Debug, Clone)]
pub(super) struct Image {
    /// The image by digest, as nodes report it.
    pub(super) id: String,
    /// The layer files, in order.
    layers: Vec<PathBuf>,
    /// The default command.
    pub(super) entrypoint: Vec<String>,
}

/// Returns whether an image is in a local registry; others are not available.
pub(super) fn is_local(reference: &str) -> bool {
    reference.starts_with("127.0.0.1:") || reference.starts_with("localhost:")
}

/// Pulls an image into a directory, or returns why that failed.
pub(super) fn pull(
    program: &Path,
    registries: Option<&Path>,
    reference: &str,
    directory: &Path,
) -> Result<Image, String> {
    let copied = Command::new(program)
        .envs(registries.map(|path| ("CONTAINERS_REGISTRIES_CONF", path)))
        .args(["copy", "--use-http", &format!("docker://{reference}"), &format!("oci:{}", directory.display())])
        .env("HOME", directory.parent().unwrap_or(directory))
        .output()
        .map_err(|error| error.to_string())?;
    if !copied.status.success() {
        return Err(String::from_utf8_lossy(&copied.stderr).trim().to_owned());
    }
    let blob = |digest: &str| directory.join("blobs").join(digest.replace(':', "/"));
    let read = |path: PathBuf| -> Result<Value, String> {
        let text = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let digest_of = |value: &Value| value["digest"].as_str().unwrap_or_default().to_owned();
    let index = read(directory.join("index.json"))?;
    let digest = digest_of(&index["manifests"][0]);
    let mut manifest = read(blob(&digest))?;
    if manifest["manifests"].is_array() {
        manifest = read(blob(&digest_of(&manifest["manifests"][0])))?;
    }
    let config = read(blob(&digest_of(&manifest["config"])))?;
    let words = |name: &str| -> Vec<String> {
        let words = config["config"][name].as_array().cloned().unwrap_or_default();
        words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let layers = manifest["layers"].as_array().cloned().unwrap_or_default();
    let repository = reference.split('@').next().unwrap_or_default();
    let repository = match repository.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => repository,
    };
    Ok(Image {
        id: format!("{repository}@{digest}"),
        layers: layers.iter().map(|layer| blob(&digest_of(layer))).collect(),
        entrypoint: [words("Entrypoint"), words("Cmd")].concat(),
    })
}

impl Image {
    /// Unpacks the image to a directory.
    pub(super) fn unpack(&self, root: &Path) -> Result<(), String> {
        std::fs::create_dir_all(root).map_err(|error| error.to_string())?;
        for layer in &self.layers {
            let mut tar = Command::new("tar");
            tar.args(["-x", "-z", "--no-same-owner", "-C"]).arg(root).arg("-f").arg(layer);
            let unpacked = tar.output().map_err(|error| error.to_string())?;
            if !unpacked.status.success() {
                return Err(String::from_utf8_lossy(&unpacked.stderr).into_owned());
            }
        }
        Ok(())
    }
}
