//! What `opm index` commands share: a database out of an image, a new image around it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::container::{ContainerTool, container_tool};
use crate::exit::{Failure, Outcome};
use crate::fetch::Fetcher;
use crate::images::{PullFlags, TlsFlags};
use crate::interrupt::Unfinished;

const DEFAULT_BINARY: &str = "quay.io/operator-framework/opm:latest";
const DEFAULT_TAG: &str = "operator-registry-index:latest";
const DEFAULT_DOCKERFILE: &str = "index.Dockerfile";
/// Where the database is, below the directory that is built.
const DATABASE: &str = "database/index.db";

/// What becomes of a changed database.
#[derive(clap::Args)]
pub(crate) struct BuildArgs {
    /// Image that brings the program of the new image
    #[arg(short = 'i', long, value_name = "REF", default_value = DEFAULT_BINARY)]
    binary_image: String,
    /// Leave the database and a Dockerfile in the current directory, and build nothing
    #[arg(long)]
    generate: bool,
    /// Name of the Dockerfile; index.Dockerfile if not given
    #[arg(short = 'd', long, value_name = "FILE")]
    out_dockerfile: Option<PathBuf>,
    /// Name of the new image
    #[arg(short, long, value_name = "REF", default_value = DEFAULT_TAG)]
    tag: String,
    #[command(flatten)]
    pull: PullFlags,
    /// Log in detail
    #[arg(long, hide = true)]
    debug: bool,
}

/// The programs that pull and build, where both can be chosen.
#[derive(clap::Args)]
pub(crate) struct ToolArgs {
    /// Program to pull and build images with (docker|podman)
    #[arg(short, long, value_name = "TOOL", value_parser = container_tool)]
    container_tool: Option<ContainerTool>,
    /// Program to build the image with (docker|podman); podman if not given
    #[arg(short = 'u', long, value_name = "TOOL", value_parser = container_tool)]
    build_tool: Option<ContainerTool>,
    /// Program to pull images with (none|docker|podman); none if not given
    #[arg(short, long, value_name = "TOOL", value_parser = container_tool)]
    pull_tool: Option<ContainerTool>,
}

/// The programs that pull and build.
pub(crate) struct Tools {
    pub(crate) pull: ContainerTool,
    build: ContainerTool,
}

impl ToolArgs {
    pub(crate) fn tools(&self, command: &str) -> Result<Tools, Failure> {
        let (pull, build) = match (self.container_tool, self.pull_tool, self.build_tool) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                return Err(Failure::message("container-tool cannot be set alongside pull-tool or build-tool"));
            }
            (Some(both), ..) => (both, both),
            (None, pull, build) => (pull.unwrap_or(ContainerTool::None), build.unwrap_or(ContainerTool::Podman)),
        };
        refuse_none(build, command)?;
        Ok(Tools { pull, build })
    }
}

/// The one program of commands that pull and build with the same.
#[derive(clap::Args)]
pub(crate) struct OneToolArgs {
    /// Program to pull and build images with (docker|podman); without it podman builds and nothing is needed to pull
    #[arg(short, long, value_name = "TOOL", value_parser = container_tool)]
    container_tool: Option<ContainerTool>,
}

impl OneToolArgs {
    pub(crate) fn tools(&self, command: &str) -> Result<Tools, Failure> {
        let build = self.container_tool.unwrap_or(ContainerTool::Podman);
        refuse_none(build, command)?;
        Ok(Tools { pull: self.container_tool.unwrap_or(ContainerTool::None), build })
    }
}

fn refuse_none(build: ContainerTool, command: &str) -> Outcome {
    match build {
        ContainerTool::None => Err(Failure::message(format!("none is not a valid container-tool for index {command}"))),
        _ => Ok(()),
    }
}

impl BuildArgs {
    pub(crate) fn fetcher(&self, tls: &TlsFlags, tools: &Tools) -> Result<Fetcher, Failure> {
        Fetcher::new(tls, &self.pull, tools.pull)
    }

    /// Takes the database out of an image, or an empty one, changes it, and builds an image of it.
    ///
    /// Nothing appears before the change is made.
    pub(crate) fn rebuild(
        &self,
        from_index: Option<&str>,
        fetcher: &Fetcher,
        tools: &Tools,
        change: impl FnOnce(&Path) -> Outcome,
    ) -> Outcome {
        let here = Path::new(".");
        let in_path = |path: &Path, error: std::io::Error| Failure::message(format!("{}: {error}", path.display()));
        let aside = Unfinished::create(here, "index_build_tmp").map_err(|error| in_path(here, error))?;
        let database = aside.path().join(DATABASE);
        let directory = aside.path().join("database");
        fs::create_dir(&directory).map_err(|error| in_path(&directory, error))?;
        match from_index.filter(|image| !image.is_empty()) {
            Some(image) => fetcher.database(image, &database).map_err(Failure::Message)?,
            None => drop(fs::File::create_new(&database).map_err(|error| in_path(&database, error))?),
        }
        // A container may run as anybody.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777))
            .map_err(|error| in_path(&directory, error))?;
        fs::set_permissions(&database, fs::Permissions::from_mode(0o666)).map_err(|error| in_path(&database, error))?;
        change(&database)?;
        if self.generate {
            let target = here.join(DATABASE);
            fs::create_dir_all(here.join("database")).map_err(|error| in_path(&target, error))?;
            fs::rename(&database, &target).map_err(|error| in_path(&target, error))?;
            let name = self.out_dockerfile.as_deref().unwrap_or(Path::new(DEFAULT_DOCKERFILE));
            let text = dockerfile(&self.binary_image, DATABASE);
            return fs::write(name, text).map_err(|error| in_path(name, error));
        }
        let source = database.strip_prefix(here).unwrap_or(&database).to_string_lossy().into_owned();
        let name = match &self.out_dockerfile {
            Some(name) => name.clone(),
            None => aside.path().join(DEFAULT_DOCKERFILE),
        };
        fs::write(&name, dockerfile(&self.binary_image, &source)).map_err(|error| in_path(&name, error))?;
        tools.build.build(&name, &self.tag).map_err(Failure::Message)
    }
}

fn dockerfile(binary: &str, database: &str) -> String {
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
    fn the_dockerfile_is_the_one_that_users_know() {
        let expected = "FROM quay.io/operator-framework/opm:latest\n\
            LABEL operators.operatorframework.io.index.database.v1=/database/index.db\n\
            ADD database/index.db /database/index.db\n\
            EXPOSE 50051\n\
            ENTRYPOINT [\"/bin/opm\"]\n\
            CMD [\"registry\", \"serve\", \"--database\", \"/database/index.db\"]\n";
        assert_eq!(dockerfile(DEFAULT_BINARY, DATABASE), expected);
    }
}
