//! Writes the metadata of a bundle, and builds its image without a container engine.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use bundle::{
    Annotations, BundleAnnotations, BundleDockerfile, BundleDockerfileError, Copied, FileError, InferError, Inferred,
};
use fbc::fault::{Class, Fault};
use fbc::scratch::parent;
use fbc::{Limits, Members, Unportable};
use image::{BaseImage, Descriptor, ImagePlan, Layer, LayerModes, Platform, Store};
use serde::Serialize;

use crate::error::{SourceError, at};
use crate::images::Images;

/// The Dockerfile of the bundle, in the current directory.
pub const BUNDLE_DOCKERFILE: &str = "bundle.Dockerfile";

/// The metadata of a bundle to write.
#[derive(Debug, Clone)]
pub struct GenerateBundle<'a> {
    /// The directory of the manifests or of the bundle.
    pub directory: &'a Path,
    /// The package; empty to infer it from the parent directories or the annotations.
    pub package: &'a str,
    /// The channels, separated by commas; empty to infer them.
    pub channels: &'a str,
    /// The default channel of the package.
    pub default_channel: &'a str,
    /// The directory to write the bundle to, including the manifests; defaults to the parent of the manifests.
    pub output_dir: Option<&'a Path>,
    /// The base image of the bundle.
    pub base_image: &'a str,
    /// Whether to overwrite existing annotations and the Dockerfile.
    pub overwrite: bool,
    /// Limits for untrusted input.
    pub limits: &'a Limits,
}

/// The files to write.
pub struct PlannedBundle<'a> {
    request: &'a GenerateBundle<'a>,
    annotations: Annotations,
    /// The directory of the manifests after writing.
    manifests: PathBuf,
    /// The directory of the annotations.
    metadata: PathBuf,
    /// The directory to copy the manifests from, if any.
    copied_from: Option<PathBuf>,
    dockerfile: String,
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeneratedBundle {
    /// The manifests that were left out, because they are hidden.
    pub left_out: Vec<PathBuf>,
    /// Whether the existing Dockerfile was kept.
    pub kept_dockerfile: bool,
}

/// The Dockerfile that a bundle image is built from.
pub struct ChosenDockerfile {
    /// The Dockerfile.
    pub dockerfile: BundleDockerfile,
    /// The manifests that the existing one does not copy, if it is for another bundle.
    pub other: Option<PathBuf>,
}

/// Why the metadata or the image of a bundle cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum BundleImageError {
    /// The manifests are not a directory.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The type of the bundle is unknown.
    #[error(transparent)]
    Bundle(#[from] bundle::Error),
    /// The names of the bundle cannot be inferred.
    #[error(transparent)]
    Infer(#[from] InferError),
    /// The output directory is that of the manifests.
    #[error("cannot copy the manifests into themselves: choose another --output-dir")]
    IntoThemselves,
    /// The existing annotations cannot be read.
    #[error(transparent)]
    Annotations(#[from] FileError),
    /// The existing annotations differ.
    #[error("{}: [{}]", path.display(), differences.join(", "))]
    Differs {
        /// Their file.
        path: PathBuf,
        /// The differences.
        differences: Vec<String>,
    },
    /// An image cannot contain a file.
    #[error("{} {reason}", path.display())]
    Unportable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: Unportable,
    },
    /// Only container engines can build the Dockerfile.
    #[error(
        "{BUNDLE_DOCKERFILE}: {0}\nhelp: build it with a container engine (--image-builder docker, podman or buildah), or \
         replace it with --overwrite"
    )]
    Dockerfile(#[from] BundleDockerfileError),
    /// An instruction to copy files is not supported.
    #[error("{BUNDLE_DOCKERFILE}: COPY {} {}: {reason}", copied.from, copied.to)]
    Copy {
        /// The instruction.
        copied: Copied,
        /// The reason.
        reason: &'static str,
    },
    /// An image or a file cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A file cannot be read or written; the error names it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Fault for BundleImageError {
    fn class(&self) -> Class {
        match self {
            BundleImageError::IntoThemselves => Class::Usage,
            BundleImageError::Source(error) => error.class(),
            BundleImageError::Io(_) => Class::World,
            _ => Class::Refused,
        }
    }
}

impl GenerateBundle<'_> {
    /// Plans the files to write, before any is written.
    ///
    /// # Errors
    /// Fails if the manifests cannot be read, or the names of the bundle are unknown.
    pub fn plan(&self) -> Result<PlannedBundle<'_>, BundleImageError> {
        let mut directory = absolute(self.directory)?;
        if fbc::load::is_bundle_dir(&directory) {
            directory.push("manifests");
        }
        if !directory.is_dir() {
            return Err(BundleImageError::NotADirectory(self.directory.to_path_buf()));
        }
        let mut annotations = Annotations {
            media_type: bundle::media_type(&directory, self.limits)?,
            package: self.package.to_owned(),
            channels: self.channels.to_owned(),
            default_channel: self.default_channel.to_owned(),
        };
        if annotations.package.is_empty() || annotations.channels.is_empty() {
            let inferred = match (bundle::infer(&directory, self.limits), annotated(&directory, self.limits)) {
                (Ok(inferred), _) | (Err(_), Some(inferred)) => inferred,
                (Err(error), None) => return Err(error.into()),
            };
            let fill = |field: &mut String, value: String| {
                if field.is_empty() {
                    *field = value;
                }
            };
            fill(&mut annotations.package, inferred.package);
            fill(&mut annotations.channels, inferred.channels);
            fill(&mut annotations.default_channel, inferred.default_channel);
        }
        let (out, copied_from) = match self.output_dir {
            None => (parent(&directory).to_path_buf(), None),
            Some(out) => (absolute(out)?, Some(directory.clone())),
        };
        let manifests = if copied_from.is_some() { out.join("manifests") } else { directory.clone() };
        if copied_from.is_some() && (manifests.starts_with(&directory) || directory.starts_with(&manifests)) {
            return Err(BundleImageError::IntoThemselves);
        }
        let metadata = out.join("metadata");
        let here = absolute(Path::new("."))?;
        let dockerfile =
            annotations.to_dockerfile(self.base_image, &relative(&here, &manifests), &relative(&here, &metadata));
        Ok(PlannedBundle { request: self, annotations, manifests, metadata, copied_from, dockerfile })
    }
}

/// Reads the names from the annotations of an existing bundle. An unrelated bundle next to the manifests does not count.
fn annotated(manifests: &Path, limits: &Limits) -> Option<Inferred> {
    let annotated = bundle::find_annotations(&parent(manifests).join("metadata"), limits).ok()?;
    let BundleAnnotations { package, channels, default_channel, .. } = annotated;
    (!channels.is_empty()).then(|| Inferred { package, channels: channels.join(","), default_channel })
}

impl PlannedBundle<'_> {
    fn keeps(&self, path: &Path) -> bool {
        !self.request.overwrite && path.exists()
    }

    /// Returns the Dockerfile to build: the existing one if it copies the manifests of this bundle, or else the
    /// generated one.
    ///
    /// Builds of several bundles in one directory find the Dockerfile of the first.
    ///
    /// # Errors
    /// Fails if only a container engine can build it.
    pub fn dockerfile(&self) -> Result<ChosenDockerfile, BundleImageError> {
        let path = Path::new(BUNDLE_DOCKERFILE);
        let mut other = None;
        if self.keeps(path) {
            let dockerfile = BundleDockerfile::parse(&fs::read_to_string(path).map_err(at(path))?)?;
            let manifests = self.manifests.canonicalize().unwrap_or_else(|_| self.manifests.clone());
            let copies = |copied: &Copied| {
                context_path(&copied.from).canonicalize().is_ok_and(|from| manifests.starts_with(from))
            };
            if dockerfile.copies.iter().any(copies) {
                return Ok(ChosenDockerfile { dockerfile, other });
            }
            other = Some(self.manifests.clone());
        }
        Ok(ChosenDockerfile { dockerfile: BundleDockerfile::parse(&self.dockerfile)?, other })
    }

    /// Writes the files. Existing annotations that are not overwritten must match.
    ///
    /// # Errors
    /// Fails if they differ, or a file cannot be written.
    pub fn write(&self) -> Result<GeneratedBundle, BundleImageError> {
        let annotations = self.metadata.join("annotations.yaml");
        let mut written = GeneratedBundle::default();
        let keeps_annotations = self.keeps(&annotations);
        if keeps_annotations {
            let differences = self.annotations.differences(&annotations, self.request.limits)?;
            if !differences.is_empty() {
                return Err(BundleImageError::Differs { path: annotations, differences });
            }
        }
        if let Some(from) = &self.copied_from {
            let mut members = Members::below(from, &[PathBuf::new()], self.request.limits.files)?;
            written.left_out = leave_out_hidden(&mut members, from)?;
            for path in members.paths() {
                replaceable(&self.manifests.join(path))?;
            }
            members.copy_to(&self.manifests)?;
        }
        if !keeps_annotations {
            fs::create_dir_all(&self.metadata).map_err(at(&self.metadata))?;
            write_file(&annotations, &self.annotations.to_yaml())?;
        }
        let dockerfile = Path::new(BUNDLE_DOCKERFILE);
        written.kept_dockerfile = self.keeps(dockerfile);
        if !written.kept_dockerfile {
            write_file(dockerfile, &self.dockerfile)?;
        }
        Ok(written)
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), SourceError> {
    fbc::scratch::write_file(path, text.as_bytes()).map_err(at(path))
}

/// Removes the manifest of an earlier run, so that a copy does not write through a link.
fn replaceable(path: &Path) -> Result<(), SourceError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

/// Leaves hidden files out of a bundle, and returns them. Anything else that an image cannot contain is an error.
fn leave_out_hidden(members: &mut Members, root: &Path) -> Result<Vec<PathBuf>, BundleImageError> {
    let left_out = members.remove_unportable(root)?.into_iter().map(|(path, reason)| (root.join(path), reason));
    let hidden = |(path, reason)| match reason {
        Unportable::Hidden => Ok(path),
        reason => Err(BundleImageError::Unportable { path, reason }),
    };
    left_out.map(hidden).collect()
}

/// Returns an absolute path without `.` and `..`; does not follow links.
fn absolute(path: &Path) -> Result<PathBuf, SourceError> {
    let full = std::path::absolute(path).map_err(at(path))?;
    let mut clean = PathBuf::new();
    for part in full.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    Ok(clean)
}

/// Returns the relative path from one directory to another.
fn relative(from: &Path, to: &Path) -> String {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| PathBuf::from(".."));
    let down = to.components().skip(common).map(|part| PathBuf::from(part.as_os_str()));
    let path: PathBuf = up.chain(down).collect();
    if path.as_os_str().is_empty() { ".".into() } else { path.display().to_string() }
}

/// Returns a source of COPY as a path: the root of the context is the current directory.
fn context_path(from: &str) -> &Path {
    match from.trim_start_matches('/') {
        "" => Path::new("."),
        path => Path::new(path),
    }
}

/// A bundle image to build.
pub struct BuildBundle<'a> {
    /// Its Dockerfile.
    pub dockerfile: &'a BundleDockerfile,
    /// Its platform; defaults to that of the base image.
    pub platform: Option<&'a Platform>,
    /// The timestamp of all files and layers.
    pub time: u64,
    /// Limits for untrusted input.
    pub limits: &'a Limits,
    /// Pulls the base image.
    pub images: &'a Images,
}

impl BuildBundle<'_> {
    /// Builds the image into a store, with a layer for each COPY; `scratch` receives copies of the files. Returns the
    /// hidden files that were left out, too.
    ///
    /// # Errors
    /// Fails if a file cannot be in the image, or the base image cannot be pulled.
    pub fn build(&self, store: &Store, scratch: &Path) -> Result<(Descriptor, Vec<PathBuf>), BundleImageError> {
        let (mut layers, mut history, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for (number, copied) in self.dockerfile.copies.iter().enumerate() {
            let (path, layer) = self.layer(copied, &scratch.join(format!("copy-{number}")), &mut left_out)?;
            layers.push(layer.write(store, self.time, &|_| {})?);
            history.push(format!("opm bundle build: {path}"));
        }
        let base = match self.dockerfile.base.as_str() {
            "scratch" => None,
            reference => Some(self.images.base(reference, store)?),
        };
        // A bundle is platform-independent; these are the defaults of container engines.
        let platform = match (self.platform, &base) {
            (Some(platform), _) => platform.clone(),
            (None, Some(base)) => Platform {
                os: base.config.os.clone(),
                architecture: base.config.architecture.clone(),
                variant: base.config.variant.clone(),
                ..Platform::default()
            },
            (None, None) => Platform::of_data(),
        };
        let labels = self.dockerfile.labels.clone();
        let plan = ImagePlan { platform, labels, created: self.time, history, ..ImagePlan::default() };
        let base = base.as_ref().map(|base| BaseImage { manifest: &base.manifest, config: &base.config });
        Ok((image::build(store, &plan, &layers, base)?, left_out))
    }

    /// Copies the files of a COPY, and returns their path in the image and their layer.
    fn layer(
        &self,
        copied: &Copied,
        copy: &Path,
        left_out: &mut Vec<PathBuf>,
    ) -> Result<(String, Layer), BundleImageError> {
        let refused = |reason| Err(BundleImageError::Copy { copied: copied.clone(), reason });
        let Copied { from, to } = copied;
        let parts: Vec<&str> = to.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if !parts.iter().all(|part| fbc::is_file_name(part)) {
            return refused("the destination is hidden or leads out");
        }
        let source = context_path(from);
        let (mut members, boundary, path) = match source.is_dir() {
            true => (Members::below(source, &[PathBuf::new()], self.limits.files)?, source, parts.join("/")),
            false => {
                let name = source.file_name().unwrap_or_default();
                let members = Members::of(parent(source), [PathBuf::from(name)]);
                // A file can get another name.
                let renamed = !to.ends_with('/') && parts.last().is_some_and(|last| *last != name);
                if renamed {
                    return refused(
                        "COPY of a file to another name is not supported; name the directory with a final slash",
                    );
                }
                let directory = if to.ends_with('/') { &parts[..] } else { &parts[..parts.len().saturating_sub(1)] };
                (members, parent(source), directory.join("/"))
            }
        };
        left_out.extend(leave_out_hidden(&mut members, boundary)?);
        members.copy_to(copy)?;
        let mut layer = Layer::new();
        layer.tree(&path, copy, LayerModes::default())?;
        Ok((path, layer))
    }
}
