//! Shared by `opm index` commands: extracts the database from an image and builds a new image.

use std::path::{Path, PathBuf};

use image::{Descriptor, Location};
use legacy::index_image::{DEFAULT_BINARY, DEFAULT_TAG, IfExists, IndexDockerfile, Staged};
use legacy::{Changed, Database, DatabaseTarget, IfMissing};
use source::{ContainerTool, Delivery, Fetcher, IndexImageError, IndexImageRequest, SourceError, build_index_image};

use crate::commands::build::{USER, output, program_layer, reference, source_date_epoch};
use crate::database;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags, container_tool};
use crate::printer::Printer;

/// How to build an image from the changed database.
#[derive(clap::Args)]
pub(crate) struct BuildArgs {
    /// Base image with opm; defaults to quay.io/operator-framework/opm:latest, or with --container-tool none to an
    /// image of this binary alone. 'scratch' builds an image of the database alone
    #[arg(short = 'i', long, value_name = "REF")]
    binary_image: Option<String>,
    /// Write the database and a Dockerfile to the current directory without building an image
    #[arg(long)]
    generate: bool,
    /// With --generate, overwrite an existing database and Dockerfile
    #[arg(long, requires = "generate")]
    overwrite: bool,
    /// Name of the Dockerfile; defaults to index.Dockerfile
    #[arg(short = 'd', long, value_name = "FILE")]
    out_dockerfile: Option<PathBuf>,
    /// Name of the new image; defaults to operator-registry-index:latest
    #[arg(short, long, value_name = "REF")]
    tag: Option<String>,
    /// Push the image to the registry in --tag; requires --container-tool none
    #[arg(long)]
    push: bool,
    /// Write the image to oci:DIR, oci-archive:FILE or docker-archive:FILE; requires --container-tool none
    #[arg(long, value_name = "WHERE", value_parser = output)]
    image_output: Option<Location>,
    #[command(flatten)]
    pull: PullFlags,
    /// Enable debug logging
    #[arg(long, hide = true)]
    debug: bool,
}

/// The flags for separate pull and build programs.
#[derive(clap::Args)]
pub(crate) struct ToolArgs {
    /// Program to pull and build images with
    #[arg(short, long, value_name = "TOOL", value_parser = container_tool())]
    container_tool: Option<ContainerTool>,
    /// Program to build the image with; defaults to podman or docker, or none if neither is installed
    #[arg(short = 'u', long, value_name = "TOOL", value_parser = container_tool())]
    build_tool: Option<ContainerTool>,
    /// Program to pull images with; defaults to none
    #[arg(short, long, value_name = "TOOL", value_parser = container_tool())]
    pull_tool: Option<ContainerTool>,
}

/// The programs that pull and build.
pub(crate) struct Tools {
    pub(crate) pull: ContainerTool,
    build: ContainerTool,
}

impl ToolArgs {
    pub(crate) fn tools(&self) -> Result<Tools, Failure> {
        let (pull, build) = match (self.container_tool, self.pull_tool, self.build_tool) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                return Err(Failure::message("container-tool cannot be set alongside pull-tool or build-tool"));
            }
            (Some(both), ..) => (both, both),
            (None, pull, build) => (pull.unwrap_or(ContainerTool::None), build.unwrap_or_else(images::installed_tool)),
        };
        Ok(Tools { pull, build })
    }
}

/// The flag for one pull and build program.
#[derive(clap::Args)]
pub(crate) struct OneToolArgs {
    /// Program to pull and build images with; by default opm pulls, and podman or docker builds, or opm if neither is
    /// installed
    #[arg(short, long, value_name = "TOOL", value_parser = container_tool())]
    container_tool: Option<ContainerTool>,
}

impl OneToolArgs {
    pub(crate) fn tools(&self) -> Result<Tools, Failure> {
        let build = self.container_tool.unwrap_or_else(images::installed_tool);
        Ok(Tools { pull: self.container_tool.unwrap_or(ContainerTool::None), build })
    }
}

impl BuildArgs {
    pub(crate) fn fetcher(&self, tls: &TlsFlags, tools: &Tools) -> Result<Fetcher, Failure> {
        images::fetcher(tls, &self.pull, tools.pull)
    }

    /// Rejects conflicting flags before any work is done.
    fn check(&self, tools: &Tools) -> CommandResult {
        let placed = self.push || self.image_output.is_some();
        let refused = |text: &str| Err(Failure::message(text));
        match (tools.build, self.generate, placed) {
            (_, true, true) => {
                refused("--push and --image-output cannot be used with --generate, which builds no image")
            }
            (ContainerTool::Docker | ContainerTool::Podman, false, true) => {
                refused("--push and --image-output require --container-tool none")
            }
            (ContainerTool::None, false, false) => refused(
                "no destination for the image: use --push or --image-output oci:DIR, or a program that builds and stores \
                 images with --container-tool docker|podman",
            ),
            (ContainerTool::None, false, true) if self.push && self.tag.is_none() => {
                refused("--push requires an image name: use -t REF")
            }
            (_, true, false) if !self.overwrite => Ok(self.dockerfile().check_absent()?),
            _ => Ok(()),
        }
    }

    fn dockerfile(&self) -> IndexDockerfile<'_> {
        let binary = self.binary_image.as_deref().unwrap_or(DEFAULT_BINARY);
        IndexDockerfile { binary, path: self.out_dockerfile.as_deref() }
    }

    /// Extracts the database of an image, or creates an empty one, changes it, prints the report, and builds an image.
    ///
    /// Writes nothing to the current directory before the change succeeds. Returns the digest if opm builds the image.
    pub(crate) fn rebuild<E>(
        &self,
        from_index: Option<&str>,
        fetcher: &Fetcher,
        tools: &Tools,
        tls: &TlsFlags,
        printer: &Printer,
        change: impl FnOnce(&Database) -> Result<Changed, E>,
    ) -> Result<Built, Failure>
    where
        E: From<legacy::Error>,
        Failure: From<E>,
    {
        self.check(tools)?;
        let staged = Staged::new(from_index.filter(|image| !image.is_empty()), fetcher)?;
        database::change(&DatabaseTarget::in_place(staged.database(), IfMissing::Create), printer, change)?;
        if self.generate {
            let exists = if self.overwrite { IfExists::Overwrite } else { IfExists::Reject };
            staged.write(&self.dockerfile(), exists)?;
            return Ok(Built(None));
        }
        if tools.build == ContainerTool::None {
            return self.build(staged.database(), tls).map(|image| Built(Some(image.digest.to_string())));
        }
        let dockerfile = staged.write_dockerfile(&self.dockerfile())?;
        tools.build.build(&dockerfile, self.tag.as_deref().unwrap_or(DEFAULT_TAG)).map_err(SourceError::from)?;
        Ok(Built(None))
    }

    /// Builds the image without a container engine, and delivers it.
    fn build(&self, database: &Path, tls: &TlsFlags) -> Result<Descriptor, Failure> {
        let tag = self.tag.as_deref().map(reference).transpose().map_err(Failure::message)?;
        let request = IndexImageRequest {
            database,
            base: self.binary_image.as_deref(),
            platform: self.pull.platform.clone(),
            running: std::env::current_exe()?,
            pack: &program_layer,
            user: USER,
            time: source_date_epoch()?,
            delivery: Delivery { name: tag.as_ref(), push: self.push, output: self.image_output.as_ref() },
        };
        build_index_image(&request, &images::open(tls, &self.pull)).map_err(|error| match error {
            IndexImageError::Operation(error) => error.into(),
            IndexImageError::Source(error) => error.into(),
            error => Failure::fault(error),
        })
    }
}

/// The digest of the image, if opm built one.
#[must_use]
pub(crate) struct Built(Option<String>);

impl Built {
    pub(crate) fn print(self, printer: &mut Printer) -> CommandResult {
        if let Some(digest) = self.0 {
            writeln!(printer.data(), "{digest}")?;
        }
        Ok(())
    }
}
