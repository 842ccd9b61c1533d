//! `opm generate`: writes Dockerfiles for catalog images.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use clap::Subcommand;
use fbc::scratch::TempFile;
use fbc::{Fbc, LoadOptions};

use crate::exit::{Failure, Outcome};
use crate::limits;
use crate::printer::Printer;

const DEFAULT_IMAGE: &str = "quay.io/operator-framework/opm:latest";

/// Write Dockerfiles for catalog images
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "With only a directory, writes the older single-stage 'index.Dockerfile' to the current directory. Overwrites \
        an existing file only if opm wrote it.\n\n\
        Examples:\n  opm generate dockerfile my-catalog\n  opm generate my-catalog"
)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    command: Option<GenerateCommand>,
    /// Catalog directory
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Write Dockerfiles for catalog images
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct AlphaGenerateArgs {
    #[command(subcommand)]
    command: GenerateCommand,
}

#[derive(Subcommand)]
enum GenerateCommand {
    Dockerfile(DockerfileArgs),
}

/// Write a Dockerfile for a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Write a Dockerfile for a catalog.\n\n\
        Writes DIR.Dockerfile next to DIR. Never overwrites an existing file.",
    after_help = "Examples:\n  \
        opm generate dockerfile my-catalog\n  \
        opm generate dockerfile my-catalog --base-image scratch --extra-labels version=1.2,team=storage"
)]
struct DockerfileArgs {
    /// Catalog directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Base image of the catalog image; 'scratch' for an image without opm
    #[arg(short = 'i', long, value_name = "IMAGE", conflicts_with = "binary_image")]
    base_image: Option<String>,
    /// Image that builds the cache
    #[arg(short, long, value_name = "IMAGE")]
    builder_image: Option<String>,
    /// Deprecated: sets both --base-image and --builder-image
    #[arg(long, value_name = "IMAGE")]
    binary_image: Option<String>,
    /// Image label as KEY=VALUE; can be repeated
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_delimiter = ',')]
    extra_labels: Vec<String>,
}

pub(crate) fn run(args: &GenerateArgs, printer: &mut Printer) -> Outcome {
    match (&args.command, &args.directory) {
        (Some(GenerateCommand::Dockerfile(args)), _) => dockerfile(args, printer),
        (None, Some(directory)) => index_dockerfile(directory, printer),
        (None, None) => Err(Failure::message("a directory is required")),
    }
}

pub(crate) fn run_alpha(args: &AlphaGenerateArgs, printer: &mut Printer) -> Outcome {
    let GenerateCommand::Dockerfile(args) = &args.command;
    dockerfile(args, printer)
}

fn dockerfile(args: &DockerfileArgs, printer: &mut Printer) -> Outcome {
    if args.binary_image.is_some() {
        printer.warning("flag --binary-image is deprecated, use --base-image and --builder-image instead");
    }
    let base = args.binary_image.as_deref().or(args.base_image.as_deref()).unwrap_or(DEFAULT_IMAGE);
    let builder = args.builder_image.as_deref().or(args.binary_image.as_deref()).unwrap_or(DEFAULT_IMAGE);
    if builder == "scratch" {
        return Err(Failure::message("invalid builder image: \"scratch\" cannot build the cache"));
    }
    let mut labels = BTreeMap::new();
    for label in &args.extra_labels {
        let (key, value) = label
            .split_once('=')
            .ok_or_else(|| Failure::message(format!("invalid label {label:?}: expected KEY=VALUE")))?;
        labels.insert(key, value);
    }
    check_directory(&args.directory)?;
    let directory = cleaned(&args.directory)?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = directory.with_file_name(format!("{name}.Dockerfile"));
    let text = if base == "scratch" { data_only(builder, &name) } else { with_program(base, builder, &name) };
    let labels: String = labels.iter().map(|(key, value)| format!("LABEL \"{key}\"=\"{value}\"\n")).collect();
    let labels = if labels.is_empty() { labels } else { format!("\n# Set other custom labels\n{labels}") };
    create(&file, &format!("{text}{labels}"))?;
    warn_of_others(&args.directory, printer);
    Ok(())
}

/// Writes the Dockerfile of the first file-based catalogs.
fn index_dockerfile(directory: &Path, printer: &Printer) -> Outcome {
    check_directory(directory)?;
    let (before, after) = INDEX_DOCKERFILE;
    let text = format!("{before}{}{after}", in_context(directory)?);
    let file = Path::new("index.Dockerfile");
    let is_ours = |text: String| text.strip_prefix(before)?.strip_suffix(after).map(|name| !name.contains('\n'));
    match std::fs::read_to_string(file).ok().and_then(is_ours) {
        Some(true) => replace(file, &text)?,
        _ => create(file, &text)?,
    }
    warn_of_others(directory, printer);
    Ok(())
}

/// The number of files that a warning names.
const NAMED: usize = 3;

/// Warns of files that `ADD` packs although they do not belong to the catalog.
fn warn_of_others(directory: &Path, printer: &Printer) {
    let others = others(directory).unwrap_or_default();
    if others.is_empty() {
        return;
    }
    let named: Vec<String> = others.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    let more = match others.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (shown, named) = (directory.display(), named.join(", "));
    printer.warning(&format!(
        "the Dockerfile adds all of {shown}, also what does not belong to the catalog: {named}{more}; exclude it in a \
         .dockerignore file, or use 'opm build {shown}', which leaves it out"
    ));
}

/// Lists what a directory contains besides its catalog; `None` if it is no catalog.
fn others(directory: &Path) -> Option<BTreeSet<PathBuf>> {
    let options = LoadOptions { limits: limits::from_env().ok()?, keep_text: false, ..LoadOptions::default() };
    let mut fbc = Fbc::default();
    let loaded = fbc.load_dir(directory, &options).ok()?;
    if fbc.blobs().is_empty() { None } else { loaded.members.others().ok() }
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
fn in_context(directory: &Path) -> Result<String, Failure> {
    let (here, real) = (std::env::current_dir()?.canonicalize()?, directory.canonicalize()?);
    let plain: PathBuf = directory.components().filter(|part| *part != Component::CurDir).collect();
    let inside = plain.components().all(|part| matches!(part, Component::Normal(_)));
    let path = match real.strip_prefix(&here) {
        // As the user typed it, if it does not leave the current directory.
        Ok(_) if inside && !plain.as_os_str().is_empty() => plain,
        Ok(path) if path.as_os_str().is_empty() => PathBuf::from("."),
        Ok(path) => path.to_path_buf(),
        Err(_) => {
            let (directory, here) = (directory.display(), here.display());
            return Err(Failure::message(format!(
                "\"{directory}\" is outside the build context {here}: run the command in a directory above it"
            )));
        }
    };
    Ok(path.to_string_lossy().into_owned())
}

/// Replaces a file atomically.
fn replace(file: &Path, text: &str) -> Outcome {
    let failed = |error: io::Error| Failure::message(format!("{}: {error}", file.display()));
    let mut temporary = TempFile::create(Path::new("."), ".opm-").map_err(failed)?;
    temporary.file().write_all(text.as_bytes()).map_err(failed)?;
    let mode = std::fs::metadata(file).map_err(failed)?.permissions().mode();
    temporary.finish(file, mode & 0o7777).map_err(failed)?;
    Ok(())
}

fn check_directory(directory: &Path) -> Outcome {
    match directory.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Failure::message(format!("\"{}\" is not a directory", directory.display()))),
        Err(error) => Err(Failure::message(format!("{}: {error}", directory.display()))),
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

fn create(file: &Path, text: &str) -> Outcome {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::message(format!("path \"{}\": file already exists", file.display())),
        _ => Failure::message(format!("{}: {error}", file.display())),
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
