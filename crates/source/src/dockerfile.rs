//! Dockerfiles of catalog images.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use fbc::fault::{Class, Fault};
use fbc::scratch::TempFile;
use fbc::{Fbc, Limits, LoadOptions};

/// The image that contains opm unless another one is given.
pub const DEFAULT_IMAGE: &str = "quay.io/operator-framework/opm:latest";

/// A Dockerfile to write.
#[derive(Debug, Clone, Copy)]
pub struct DockerfileRequest<'a> {
    /// The directory of the catalog; the file gets its name and is written next to it.
    pub directory: &'a Path,
    /// The base image of the catalog image; `scratch` for an image without opm.
    pub base: &'a str,
    /// The image that builds the cache.
    pub builder: &'a str,
    /// Labels as `KEY=VALUE`.
    pub labels: &'a [String],
}

/// Why a Dockerfile is not written.
#[derive(Debug, thiserror::Error)]
pub enum DockerfileError {
    /// The builder image has no program.
    #[error("invalid builder image: \"scratch\" cannot build the cache")]
    Builder,
    /// A label has no value.
    #[error("invalid label {0:?}: expected KEY=VALUE")]
    Label(String),
    /// The path is not a directory.
    #[error("\"{}\" is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The directory cannot be added.
    #[error("\"{}\" is outside the build context {}: run the command in a directory above it", directory.display(), here.display())]
    Outside {
        directory: PathBuf,
        /// The build context.
        here: PathBuf,
    },
    /// The Dockerfile exists.
    #[error("path \"{}\": file already exists", .0.display())]
    Exists(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
    /// The path of a directory cannot be resolved.
    #[error(transparent)]
    Path(#[from] io::Error),
}

impl Fault for DockerfileError {
    fn class(&self) -> Class {
        match self {
            DockerfileError::Path(_) => Class::World,
            _ => Class::Refused,
        }
    }
}

/// Writes `DIR.Dockerfile` next to the directory of a catalog.
///
/// # Errors
/// Fails when the file exists or cannot be written, or the request is wrong.
pub fn write_dockerfile(request: &DockerfileRequest<'_>) -> Result<(), DockerfileError> {
    let &DockerfileRequest { directory, base, builder, .. } = request;
    if builder == "scratch" {
        return Err(DockerfileError::Builder);
    }
    let mut labels = BTreeMap::new();
    for label in request.labels {
        let (key, value) = label.split_once('=').ok_or_else(|| DockerfileError::Label(label.clone()))?;
        labels.insert(key, value);
    }
    check_directory(directory)?;
    let directory = cleaned(directory)?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = directory.with_file_name(format!("{name}.Dockerfile"));
    let text = if base == "scratch" { data_only(builder, &name) } else { with_program(base, builder, &name) };
    let labels: String = labels.iter().map(|(key, value)| format!("LABEL \"{key}\"=\"{value}\"\n")).collect();
    let labels = if labels.is_empty() { labels } else { format!("\n# Set other custom labels\n{labels}") };
    create(&file, &format!("{text}{labels}"))
}

/// Writes the `index.Dockerfile` of the first file-based catalogs to the current directory; replaces one that was
/// written by this function.
///
/// # Errors
/// Fails when another file has the name, the directory is outside the current one, or the file cannot be written.
pub fn write_index_dockerfile(directory: &Path) -> Result<(), DockerfileError> {
    check_directory(directory)?;
    let (before, after) = INDEX_DOCKERFILE;
    let text = format!("{before}{}{after}", in_context(directory)?);
    let file = Path::new("index.Dockerfile");
    let is_ours = |text: String| text.strip_prefix(before)?.strip_suffix(after).map(|name| !name.contains('\n'));
    match std::fs::read_to_string(file).ok().and_then(is_ours) {
        Some(true) => replace(file, &text),
        _ => create(file, &text),
    }
}

/// Lists what a Dockerfile adds although it does not belong to the catalog; empty for a directory that is no catalog.
pub fn surplus_files(directory: &Path, limits: &Limits) -> BTreeSet<PathBuf> {
    let options = LoadOptions { limits: limits.clone(), keep_text: false, ..LoadOptions::default() };
    let mut fbc = Fbc::default();
    match fbc.load_dir(directory, &options) {
        Ok(loaded) if !fbc.blobs().is_empty() => loaded.members.others().unwrap_or_default(),
        _ => BTreeSet::new(),
    }
}

/// The text before and after the directory.
const INDEX_DOCKERFILE: (&str, &str) = (
    "FROM quay.io/operator-framework/upstream-opm-builder\n\
     LABEL operators.operatorframework.io.index.configs.v1=/configs\n\
     ADD ",
    " /configs\n\
     EXPOSE 50051\n\
     ENTRYPOINT [\"/bin/opm\"]\n\
     CMD [\"serve\",\"/configs\"]\n",
);

/// Returns a directory relative to the current one, which is the build context.
fn in_context(directory: &Path) -> Result<String, DockerfileError> {
    let (here, real) = (std::env::current_dir()?.canonicalize()?, directory.canonicalize()?);
    let plain: PathBuf = directory.components().filter(|part| *part != Component::CurDir).collect();
    let inside = plain.components().all(|part| matches!(part, Component::Normal(_)));
    let path = match real.strip_prefix(&here) {
        // As the user typed it, if it does not leave the current directory.
        Ok(_) if inside && !plain.as_os_str().is_empty() => plain,
        Ok(path) if path.as_os_str().is_empty() => PathBuf::from("."),
        Ok(path) => path.to_path_buf(),
        Err(_) => return Err(DockerfileError::Outside { directory: directory.to_owned(), here }),
    };
    Ok(path.to_string_lossy().into_owned())
}

/// Replaces a file atomically.
fn replace(file: &Path, text: &str) -> Result<(), DockerfileError> {
    let failed = |source| DockerfileError::File { path: file.to_owned(), source };
    let mut temporary = TempFile::create(Path::new("."), ".opm-").map_err(failed)?;
    temporary.file().write_all(text.as_bytes()).map_err(failed)?;
    let mode = std::fs::metadata(file).map_err(failed)?.permissions().mode();
    temporary.finish(file, mode & 0o7777).map_err(failed)?;
    Ok(())
}

fn check_directory(directory: &Path) -> Result<(), DockerfileError> {
    match directory.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(DockerfileError::NotADirectory(directory.to_owned())),
        Err(source) => Err(DockerfileError::File { path: directory.to_owned(), source }),
    }
}

/// Returns the path in a form that ends with a name, not with `.` or `..`.
fn cleaned(directory: &Path) -> io::Result<PathBuf> {
    let plain: PathBuf = directory.components().filter(|part| *part != Component::CurDir).collect();
    match plain.components().next_back() {
        Some(Component::Normal(_)) => Ok(plain),
        _ => directory.canonicalize(),
    }
}

fn create(file: &Path, text: &str) -> Result<(), DockerfileError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => DockerfileError::Exists(file.to_owned()),
        _ => DockerfileError::File { path: file.to_owned(), source },
    };
    let mut created = OpenOptions::new().write(true).create_new(true).open(file).map_err(failed)?;
    created.write_all(text.as_bytes()).map_err(|error| {
        // A partial file would block the next attempt.
        let _ = std::fs::remove_file(file);
        failed(error)
    })
}

fn builder_stage(builder: &str, directory: &str) -> String {
    format!(
        r#"# The builder image is expected to contain
# /bin/opm (with serve subcommand)
FROM {builder} as builder

# Copy FBC root into image at /configs and pre-populate serve cache
ADD {directory} /configs
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]
"#
    )
}

const CONTENT: &str = "
COPY --from=builder /configs /configs
COPY --from=builder /tmp/cache /tmp/cache

# Set FBC-specific label for the location of the FBC root directory
# in the image
LABEL operators.operatorframework.io.index.configs.v1=/configs
";

fn with_program(base: &str, builder: &str, directory: &str) -> String {
    format!(
        r#"{}
FROM {base}
# The base image is expected to contain
# /bin/opm (with serve subcommand) and /bin/grpc_health_probe

# Configure the entrypoint and command
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
{CONTENT}"#,
        builder_stage(builder, directory)
    )
}

fn data_only(builder: &str, directory: &str) -> String {
    format!(
        "{}
FROM scratch
# OLMv0 CatalogSources that use binary-less images must set:
# spec:
#   grpcPodConfig:
#     extractContent:
#       catalogDir: /configs
#       cacheDir: /tmp/cache
{CONTENT}",
        builder_stage(builder, directory)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dockerfile_is_written_next_to_the_catalog_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("catalog");
        std::fs::create_dir(&directory).unwrap();
        let labels = ["b=2".to_owned(), "a=1".to_owned()];
        let request =
            DockerfileRequest { directory: &directory, base: "scratch", builder: DEFAULT_IMAGE, labels: &labels };
        write_dockerfile(&request).unwrap();
        let text = std::fs::read_to_string(folder.path().join("catalog.Dockerfile")).unwrap();
        assert!(text.ends_with("LABEL \"a\"=\"1\"\nLABEL \"b\"=\"2\"\n"), "{text}");
        assert!(write_dockerfile(&request).unwrap_err().to_string().ends_with("file already exists"));
        let wrong = DockerfileRequest { builder: "scratch", ..request };
        assert!(matches!(write_dockerfile(&wrong), Err(DockerfileError::Builder)));
        let labels = ["a".to_owned()];
        assert!(matches!(
            write_dockerfile(&DockerfileRequest { labels: &labels, ..request }),
            Err(DockerfileError::Label(_))
        ));
    }

    #[test]
    fn files_that_do_not_belong_to_the_catalog_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        std::fs::write(folder.path().join(".git/config"), "").unwrap();
        assert!(surplus_files(folder.path(), &Limits::default()).is_empty());
        std::fs::write(folder.path().join("catalog.yaml"), "schema: olm.package\nname: foo\n").unwrap();
        assert_eq!(surplus_files(folder.path(), &Limits::default()).len(), 1);
    }
}
