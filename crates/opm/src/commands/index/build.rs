//! Shared by `opm index` commands: extracts the database from an image and builds a new image.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use image::{Base, Descriptor, ImagePlan, Layer, Location, Platform, Store, find_program};
use legacy::Database;
use source::{ContainerTool, DATABASE_LABEL, Fetcher, INDEX_LAYERS, SourceError};

use crate::commands::build::{USER, base_image, deliver, output, program_layer, reference, source_date_epoch};
use crate::database::{self, Missing};
use crate::exit::{Failure, Outcome};
use crate::images::{self, PullFlags, TlsFlags, container_tool};
use crate::interrupt::Unfinished;
use crate::printer::Printer;

const DEFAULT_BINARY: &str = "quay.io/operator-framework/opm:latest";
const DEFAULT_TAG: &str = "operator-registry-index:latest";
const DEFAULT_DOCKERFILE: &str = "index.Dockerfile";
/// The path of the database in the build context and in the image.
const DATABASE: &str = "database/index.db";

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
    fn check(&self, tools: &Tools) -> Outcome {
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
            (_, true, false) if !self.overwrite => self.check_generated(),
            _ => Ok(()),
        }
    }

    /// Rejects files that --generate would overwrite: other commands use them as the current index.
    fn check_generated(&self) -> Outcome {
        let dockerfile = self.dockerfile();
        let text = dockerfile_text(self.binary(), DATABASE);
        let differs = dockerfile.exists() && fs::read(dockerfile).ok().as_deref() != Some(text.as_bytes());
        for (file, exists) in [(Path::new(DATABASE), Path::new(DATABASE).exists()), (dockerfile, differs)] {
            if exists {
                return Err(Failure::message(format!(
                    "{} already exists: use --overwrite to replace it, or 'opm registry' commands to change a database",
                    file.display()
                )));
            }
        }
        Ok(())
    }

    fn dockerfile(&self) -> &Path {
        self.out_dockerfile.as_deref().unwrap_or(Path::new(DEFAULT_DOCKERFILE))
    }

    /// Extracts the database of an image, or creates an empty one, changes it, and builds an image.
    ///
    /// Writes nothing to the current directory before the change succeeds. Returns the digest if opm builds the image.
    pub(crate) fn rebuild(
        &self,
        from_index: Option<&str>,
        fetcher: &Fetcher,
        tools: &Tools,
        tls: &TlsFlags,
        change: impl FnOnce(&Database) -> Outcome,
    ) -> Result<Built, Failure> {
        self.check(tools)?;
        let here = Path::new(".");
        let in_path = |path: &Path, error: std::io::Error| Failure::message(format!("{}: {error}", path.display()));
        let staging = Unfinished::create(here, "index_build_tmp").map_err(|error| in_path(here, error))?;
        let database = staging.path().join(DATABASE);
        let directory = staging.path().join("database");
        fs::create_dir(&directory).map_err(|error| in_path(&directory, error))?;
        match from_index.filter(|image| !image.is_empty()) {
            Some(image) => fetcher.database(image, &database)?,
            None => drop(fs::File::create_new(&database).map_err(|error| in_path(&database, error))?),
        }
        // A container can run as any user.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777))
            .map_err(|error| in_path(&directory, error))?;
        fs::set_permissions(&database, fs::Permissions::from_mode(0o666)).map_err(|error| in_path(&database, error))?;
        database::change(&database, Missing::Create, change)?;
        if self.generate {
            let target = here.join(DATABASE);
            fs::create_dir_all(here.join("database")).map_err(|error| in_path(&target, error))?;
            Database::write(&database).and_then(|database| database.publish(&target)).map_err(database::failure)?;
            fs::set_permissions(&target, fs::Permissions::from_mode(0o666)).map_err(|error| in_path(&target, error))?;
            let name = self.dockerfile();
            fs::write(name, dockerfile_text(self.binary(), DATABASE)).map_err(|error| in_path(name, error))?;
            return Ok(Built(None));
        }
        if tools.build == ContainerTool::None {
            return self.build(&database, tls).map(|image| Built(Some(image.digest.to_string())));
        }
        let source = database.strip_prefix(here).unwrap_or(&database).to_string_lossy().into_owned();
        let name = match &self.out_dockerfile {
            Some(name) => name.clone(),
            None => staging.path().join(DEFAULT_DOCKERFILE),
        };
        fs::write(&name, dockerfile_text(self.binary(), &source)).map_err(|error| in_path(&name, error))?;
        let tag = self.tag.as_deref().unwrap_or(DEFAULT_TAG);
        tools.build.build(&name, tag).map_err(SourceError::from)?;
        Ok(Built(None))
    }

    fn binary(&self) -> &str {
        self.binary_image.as_deref().unwrap_or(DEFAULT_BINARY)
    }

    /// Builds the image without a container engine, reproducibly.
    fn build(&self, database: &Path, tls: &TlsFlags) -> Result<Descriptor, Failure> {
        let time = source_date_epoch()?;
        let scratch = Unfinished::private("opm-index-")?;
        let store = Store::open(&scratch.path().join("image"))?;
        let images = images::open(tls, &self.pull);
        let mut layers = Vec::new();
        let mut history = Vec::new();
        let base = match self.binary_image.as_deref() {
            None | Some("scratch") => None,
            Some(reference) => Some(base_image(reference, &images, &store)?),
        };
        let platform = match (&self.pull.platform, &base) {
            (Some(platform), _) => platform.clone(),
            (None, Some(base)) => Platform {
                os: base.config.os.clone(),
                architecture: base.config.architecture.clone(),
                variant: base.config.variant.clone(),
                ..Platform::default()
            },
            (None, None) if self.binary_image.is_none() => Platform::host(),
            (None, None) => Platform { os: "linux".into(), architecture: "amd64".into(), ..Platform::default() },
        };
        if self.binary_image.is_none() {
            let program = std::env::current_exe()?;
            let program = find_program(&[], &program, &platform, true).map_err(|error| {
                Failure::message(format!(
                    "{error}\n  help: use --binary-image with an image that contains opm, or 'scratch' for an image of \
                     the database alone"
                ))
            })?;
            layers.push(program_layer(&program)?.write(&store, time, &|_| {})?);
            history.push(INDEX_LAYERS[0].to_owned());
        }
        legacy::date(database, time).map_err(|error| Failure::message(error.to_string()))?;
        let mut layer = Layer::new();
        layer.directory("/database", 0o777);
        layer.file(&format!("/{DATABASE}"), database, 0o666)?;
        layers.push(layer.write(&store, time, &|_| {})?);
        history.push(INDEX_LAYERS[1].to_owned());
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let file = format!("/{DATABASE}");
        let runs = self.binary_image.as_deref() != Some("scratch");
        let plan = ImagePlan {
            platform,
            labels: [(DATABASE_LABEL.to_owned(), file.clone())].into(),
            entrypoint: runs.then(|| words(&["/bin/opm"])).flatten(),
            cmd: runs.then(|| words(&["registry", "serve", "--database", &file])).flatten(),
            ports: if runs { vec!["50051/tcp".into()] } else { Vec::new() },
            user: (runs && base.is_none()).then(|| USER.to_owned()),
            created: time,
            history,
            ..ImagePlan::default()
        };
        let base = base.as_ref().map(|base| Base { manifest: &base.manifest, config: &base.config });
        let image = image::build(&store, &plan, &layers, base)?;
        let tag = self.tag.as_deref().map(reference).transpose().map_err(Failure::message)?;
        deliver(tag.as_ref(), self.push, self.image_output.as_ref(), &store, &image, &images)?;
        Ok(image)
    }
}

/// The digest of the image, if opm built one.
#[must_use]
pub(crate) struct Built(Option<String>);

impl Built {
    pub(crate) fn print(self, printer: &mut Printer) -> Outcome {
        if let Some(digest) = self.0 {
            writeln!(printer.data(), "{digest}")?;
        }
        Ok(())
    }
}

fn dockerfile_text(binary: &str, database: &str) -> String {
    format!(
        "FROM {binary}\n\
         LABEL operators.operatorframework.io.index.database.v1=/{DATABASE}\n\
         ADD {database} /{DATABASE}\n\
         EXPOSE 50051\n\
         ENTRYPOINT [\"/bin/opm\"]\n\
         CMD [\"registry\", \"serve\", \"--database\", \"/{DATABASE}\"]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dockerfile_matches_the_existing_tool() {
        let expected = "FROM quay.io/operator-framework/opm:latest\n\
            LABEL operators.operatorframework.io.index.database.v1=/database/index.db\n\
            ADD database/index.db /database/index.db\n\
            EXPOSE 50051\n\
            ENTRYPOINT [\"/bin/opm\"]\n\
            CMD [\"registry\", \"serve\", \"--database\", \"/database/index.db\"]\n";
        assert_eq!(dockerfile_text(DEFAULT_BINARY, DATABASE), expected);
    }
}
