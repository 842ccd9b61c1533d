//! Index images: a database in an image, with a program that serves it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use catalog::{DATABASE_LABEL, INDEX_LAYERS};
use fbc::scratch::{self, TempFolder};
use image::{BaseImage, Descriptor, Image, ImagePlan, Layer, Platform, Store};

use crate::change::date;
use crate::error::OperationError;
use crate::fetch::Fetch;
use crate::open::Database;

/// The base image of generated Dockerfiles.
pub const DEFAULT_BINARY: &str = "quay.io/operator-framework/opm:latest";
/// The name of an image that a container tool builds.
pub const DEFAULT_TAG: &str = "operator-registry-index:latest";
/// The name of the Dockerfile.
const DEFAULT_DOCKERFILE: &str = "index.Dockerfile";
/// The path of the database in the build context and in the image.
const DATABASE: &str = "database/index.db";

/// A Dockerfile of an index image.
#[derive(Debug, Clone, Copy)]
pub struct IndexDockerfile<'a> {
    /// The base image, which contains opm.
    pub binary: &'a str,
    /// Its path; defaults to `index.Dockerfile`.
    pub path: Option<&'a Path>,
}

/// What [`Staged::write`] does with a database that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// Replace its content.
    Overwrite,
    /// Fail: other commands use it as the current index.
    Reject,
}

impl IndexDockerfile<'_> {
    fn text(&self, database: &str) -> String {
        let binary = self.binary;
        format!(
            "FROM {binary}\n\
             LABEL {DATABASE_LABEL}=/{DATABASE}\n\
             ADD {database} /{DATABASE}\n\
             EXPOSE 50051\n\
             ENTRYPOINT [\"/bin/opm\"]\n\
             CMD [\"registry\", \"serve\", \"--database\", \"/{DATABASE}\"]\n"
        )
    }

    fn path(&self) -> &Path {
        self.path.unwrap_or(Path::new(DEFAULT_DOCKERFILE))
    }

    /// Rejects files that [`Staged::write`] would overwrite: other commands use them as the current index.
    ///
    /// # Errors
    /// Fails when there is a database, or a Dockerfile with other content.
    pub fn check_absent(&self) -> Result<(), OperationError> {
        let (path, text) = (self.path(), self.text(DATABASE));
        let differs = path.exists() && fs::read(path).ok().as_deref() != Some(text.as_bytes());
        for (file, exists) in [(Path::new(DATABASE), Path::new(DATABASE).exists()), (path, differs)] {
            if exists {
                return Err(OperationError::Generated(file.to_owned()));
            }
        }
        Ok(())
    }
}

/// The database of an index image in a temporary directory of the current one.
pub struct Staged {
    folder: TempFolder,
    database: PathBuf,
}

impl Staged {
    /// Extracts the database of an image, or creates an empty one.
    ///
    /// # Errors
    /// Fails when the image has none, or a file cannot be written.
    pub fn new(from_index: Option<&str>, images: &dyn Fetch) -> Result<Staged, OperationError> {
        let here = Path::new(".");
        let folder = TempFolder::inside(here, "index_build_tmp").map_err(OperationError::file(here))?;
        let (database, directory) = (folder.path().join(DATABASE), folder.path().join("database"));
        fs::create_dir(&directory).map_err(OperationError::file(&directory))?;
        match from_index {
            Some(image) => images.database(image, &database)?,
            None => drop(fs::File::create_new(&database).map_err(OperationError::file(&database))?),
        }
        // A container can run as any user.
        set_mode(&directory, 0o777)?;
        set_mode(&database, 0o666)?;
        Ok(Staged { folder, database })
    }

    /// Returns the database.
    pub fn database(&self) -> &Path {
        &self.database
    }

    /// Writes the database and a Dockerfile to the current directory.
    ///
    /// # Errors
    /// Fails when one of them cannot be written, or a database must not be overwritten.
    pub fn write(self, dockerfile: &IndexDockerfile<'_>, exists: IfExists) -> Result<(), OperationError> {
        let target = Path::new(".").join(DATABASE);
        fs::create_dir_all("database").map_err(OperationError::file(&target))?;
        let database = Database::write(&self.database)?;
        match exists {
            IfExists::Overwrite => database.publish(&target)?,
            // Another command may have written one since the check.
            IfExists::Reject if !database.publish_new(&target)? => {
                return Err(OperationError::Generated(DATABASE.into()));
            }
            IfExists::Reject => {}
        }
        set_mode(&target, 0o666)?;
        let path = dockerfile.path();
        scratch::write_file(path, dockerfile.text(DATABASE).as_bytes()).map_err(OperationError::file(path))
    }

    /// Writes a Dockerfile that adds the staged database, for a container tool that runs in the current directory;
    /// returns its path.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn write_dockerfile(&self, dockerfile: &IndexDockerfile<'_>) -> Result<PathBuf, OperationError> {
        // Relative to the build context: that is what a path in a Dockerfile is.
        let folder = Path::new(self.folder.path().file_name().unwrap_or_default());
        let source = folder.join(DATABASE).to_string_lossy().into_owned();
        let path = match dockerfile.path {
            Some(path) => path.to_owned(),
            None => self.folder.path().join(DEFAULT_DOCKERFILE),
        };
        scratch::write_file(&path, dockerfile.text(&source).as_bytes()).map_err(OperationError::file(&path))?;
        Ok(path)
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), OperationError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(OperationError::file(path))
}

/// What an index image contains besides the database.
pub enum IndexImageContent<'a> {
    /// A layer with the program, as the only other one.
    Program(Layer),
    /// Another image, which contains the program.
    Base(&'a Image),
    /// Nothing.
    Database,
}

impl IndexImageContent<'_> {
    /// Returns the platform of the image unless the user names one.
    fn platform(&self) -> Platform {
        match self {
            IndexImageContent::Program(_) => Platform::host(),
            IndexImageContent::Base(base) => Platform {
                os: base.config.os.clone(),
                architecture: base.config.architecture.clone(),
                variant: base.config.variant.clone(),
                ..Platform::default()
            },
            IndexImageContent::Database => {
                Platform { os: "linux".into(), architecture: "amd64".into(), ..Platform::default() }
            }
        }
    }
}

/// How to build an index image.
pub struct BuildOptions<'a> {
    /// What it contains besides the database.
    pub content: IndexImageContent<'a>,
    /// Its platform; defaults to that of the content.
    pub platform: Option<Platform>,
    /// The user that an image without a base runs as.
    pub user: &'a str,
    /// The time of the image and of all its files, in seconds since 1970.
    pub time: u64,
}

/// Builds an index image into a store, without a container engine and reproducibly: it sets the migration time of the
/// database, too.
///
/// # Errors
/// Fails when a file cannot be read or written.
pub fn build(store: &Store, database: &Path, options: &BuildOptions<'_>) -> Result<Descriptor, OperationError> {
    let time = options.time;
    let (mut layers, mut history) = (Vec::new(), Vec::new());
    if let IndexImageContent::Program(program) = &options.content {
        layers.push(program.write(store, time, &|_| {})?);
        history.push(INDEX_LAYERS[0].to_owned());
    }
    date(database, time)?;
    let mut layer = Layer::new();
    layer.directory("/database", 0o777);
    layer.file(&format!("/{DATABASE}"), database, 0o666)?;
    layers.push(layer.write(store, time, &|_| {})?);
    history.push(INDEX_LAYERS[1].to_owned());
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let file = format!("/{DATABASE}");
    let runs = !matches!(options.content, IndexImageContent::Database);
    let plan = ImagePlan {
        platform: options.platform.clone().unwrap_or_else(|| options.content.platform()),
        labels: [(DATABASE_LABEL.to_owned(), file.clone())].into(),
        entrypoint: runs.then(|| words(&["/bin/opm"])).flatten(),
        cmd: runs.then(|| words(&["registry", "serve", "--database", &file])).flatten(),
        ports: if runs { vec!["50051/tcp".into()] } else { Vec::new() },
        user: matches!(options.content, IndexImageContent::Program(_)).then(|| options.user.to_owned()),
        created: time,
        history,
        ..ImagePlan::default()
    };
    let base = match &options.content {
        IndexImageContent::Base(base) => Some(BaseImage { manifest: &base.manifest, config: &base.config }),
        _ => None,
    };
    Ok(image::build(store, &plan, &layers, base)?)
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
        assert_eq!(IndexDockerfile { binary: DEFAULT_BINARY, path: None }.text(DATABASE), expected);
    }

    #[test]
    fn the_same_database_gives_the_same_image() {
        let folder = tempfile::tempdir().unwrap();
        let built: Vec<Descriptor> = ["a", "b"]
            .map(|name| {
                let (database, store) = (folder.path().join(format!("{name}.db")), folder.path().join(name));
                Database::create(&database).unwrap();
                let store = Store::open(&store).unwrap();
                let options =
                    BuildOptions { content: IndexImageContent::Database, platform: None, user: "1001", time: 7 };
                build(&store, &database, &options).unwrap()
            })
            .into();
        assert_eq!(built[0].digest, built[1].digest);
    }
}
