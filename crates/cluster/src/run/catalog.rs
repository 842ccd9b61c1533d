//! The catalog of a run: pulls bundles and indexes, combines and checks them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use catalog::{DATABASE_LABEL, Warnings};
use edit::EditRefusal;
use edit::run_bundle::{self, Additions, ChannelEdit};
use fbc::blob::TextBuffer;
use fbc::fault::{Class, Fault};
use fbc::scratch::TempFolder;
use fbc::{Fbc, Limits, Problem};
use image::{
    CONFIGS, CONFIGS_LABEL, CatalogImages, ConfigFile, Platform, ProgramChoice, ProgramError, Programs, Reference,
    Store, find_program,
};
use source::{Delivery, Images, LoadedCatalog, NamedSource, SourceError, SourceOptions};

use super::documents::{as_written, printed, shown, write_catalog};
use super::facts::CsvFacts;
use super::partition::{self, CatalogDocument, Language, PartitionError};
use super::pod::{CatalogPodContent, IndexItem};
use crate::Watcher;

/// The default index image, which stands for no index. It contains opm, which serves catalogs.
pub const NO_INDEX: &str = "quay.io/operator-framework/opm:latest";
/// Index images with this prefix use the add mode `semver`.
const SEMVER_PREFIX: &str = "quay.io/operator-framework/opm:";
/// The default path of the database of an index image, for empty labels.
const DATABASE: &str = "/database/index.db";

/// How to handle a database index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseHandling {
    /// The pod adds bundles to the database and serves it.
    Pod,
    /// It is migrated to a file-based catalog.
    Migrate,
}

/// The consumer of the catalog of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogConsumer {
    /// A pod that serves it to OLM v0.
    Pod,
    /// OLM v1, which reads an image that holds only the catalog.
    Image {
        /// Whether to push the image; otherwise only its digest is computed.
        push: bool,
        /// Whether to strip dependencies from bundles, because OLM v1 does not install them.
        ignore_dependencies: bool,
    },
}

/// How the catalog of a run is built.
#[derive(Clone)]
pub struct CatalogOptions<'a> {
    /// The mode in which a pod adds bundles to a database; empty for the default.
    pub mode: String,
    /// How to handle a database index; `None` for the default.
    pub database: Option<DatabaseHandling>,
    /// The name of the image to push, instead of sending the catalog in ConfigMaps.
    pub registry: Option<Reference>,
    /// Whether the pushed image has a base image.
    pub has_base: bool,
    /// The image that unpacks ConfigMaps.
    pub decompression_image: String,
    /// Whether to include complete manifests, instead of only CSV metadata.
    pub bundle_objects: bool,
    /// Whether to pin the bundle image to its current digest.
    pub pin: bool,
    /// Pulls and pushes images.
    pub images: &'a Images,
    /// Builds the image to push.
    pub builder: &'a dyn CatalogImages,
    /// The running binary, which the image gets.
    pub running: PathBuf,
    /// Limits for untrusted input.
    pub limits: Limits,
}

impl CatalogOptions<'_> {
    /// Returns a bundle with the mode in which it is added to an index.
    pub(crate) fn item(&self, image: &str, index_image: &str) -> IndexItem {
        let mode = match self.mode.as_str() {
            "" if index_image.starts_with(SEMVER_PREFIX) => "semver",
            "" => "replaces",
            mode => mode,
        };
        IndexItem { image: image.to_owned(), mode: mode.to_owned() }
    }
}

/// Why the catalog of a run cannot be built.
#[derive(thiserror::Error)]
pub enum RunCatalogError {
    /// A bundle cannot be pulled.
    #[error("pull bundle image: {0}")]
    Pull(SourceError),
    /// The annotations of a bundle cannot be read.
    #[error("load bundle metadata: {0}")]
    Metadata(String),
    /// A bundle lacks a channel.
    #[error("load bundle metadata: the bundle has no channel, but a database index requires one")]
    NoChannel,
    /// The manifests of a bundle cannot be read.
    #[error("load bundle: {0}")]
    Bundle(String),
    /// An image cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The catalog of an index image cannot be read.
    #[error("index image {image:?}: {source}")]
    Index {
        /// The image.
        image: String,
        /// The cause.
        source: Box<SourceError>,
    },
    /// The pod cannot add bundles to the database.
    #[error(
        "{0} has no shell, but the pod needs one to add the bundle to the database\n  help: use --sqlite migrate, which \
         serves the content as a file-based catalog"
    )]
    NoShell(String),
    /// A mode was given for an index that is not a database.
    #[error("specifying the bundle add mode is not supported for File-Based Catalog bundles and index images")]
    Mode,
    /// A database cannot be pushed.
    #[error("--registry builds an image of a file-based catalog: add --sqlite=migrate for a database index")]
    PushedDatabase,
    /// The index has no room for the bundle.
    #[error(
        "error generating File-Based Catalog with bundle {bundle:?}: error adding bundle image {image:?} to index image \
         {index_image:?}: {refusal}{}",
        refusal.help.as_ref().map(|help| format!("\n  help: {help}")).unwrap_or_default()
    )]
    Refused {
        /// The bundle.
        bundle: String,
        /// Its image.
        image: String,
        /// The index image.
        index_image: String,
        /// The reason.
        refusal: Box<EditRefusal>,
    },
    /// A blob of the index or of a bundle cannot be changed.
    #[error(transparent)]
    Edit(#[from] EditRefusal),
    /// A new blob breaks a limit.
    #[error(transparent)]
    Blob(io::Error),
    /// A file of the index was removed.
    #[error("a file of the index was removed")]
    Removed,
    /// A file of the index changed.
    #[error("a file of the index changed while opm was reading it")]
    Changed,
    /// The catalog does not fit into ConfigMaps.
    #[error("{0}\n  help: use --registry REF to push the catalog instead")]
    Partition(#[from] PartitionError),
    /// The image cannot contain the program.
    #[error(
        "{source}\n  help: {}without --registry, ConfigMaps carry the catalog",
        if matches!(source, ProgramError::Dynamic { .. }) {
            "name an image that has libraries with --registry-base REF; "
        } else {
            ""
        }
    )]
    Program {
        /// The reason.
        #[from]
        source: ProgramError,
    },
    /// The image cannot be built.
    #[error("{0}")]
    Build(Box<dyn Fault>),
    /// The catalog of the index, or the one to serve, is invalid.
    #[error("{title}")]
    Invalid {
        /// Which catalog it is.
        title: String,
        /// Its blobs.
        fbc: Box<Fbc>,
        /// What is wrong.
        problems: Vec<Problem>,
    },
    /// Blobs are lost.
    #[error("only {read} of the {count} blobs of the catalog can be read back")]
    Lost {
        /// The number of blobs that can be read.
        read: usize,
        /// The number of blobs that were written.
        count: usize,
    },
    /// OLM v1 reads only images.
    #[error("--olm v1 requires --registry REF: OLM v1 reads catalogs only from images, so opm must push one")]
    NoRegistry,
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl std::fmt::Debug for RunCatalogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Fault for RunCatalogError {
    fn class(&self) -> Class {
        match self {
            RunCatalogError::Pull(error) if error.class() != Class::World => Class::Refused,
            RunCatalogError::Pull(_) | RunCatalogError::Io(_) => Class::World,
            RunCatalogError::Source(error) => error.class(),
            RunCatalogError::Build(error) => error.class(),
            RunCatalogError::NoRegistry => Class::Usage,
            _ => Class::Refused,
        }
    }
}

type Result<T, E = RunCatalogError> = std::result::Result<T, E>;

/// Runs work that blocks. Images are pulled by a runtime of their own, which cannot be entered from this one.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// The kind of an index image.
pub(crate) enum IndexKind {
    /// No index image.
    None,
    /// A file-based catalog at this path, and the program of the image.
    Catalog(String, IndexProgram),
    /// A database at this path, which the pod adds bundles to.
    Database(String),
    /// A database at this path that is migrated to a file-based catalog.
    Migrated(String),
}

/// The program of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexProgram {
    /// opm at this path; the image may have no shell.
    Opm(String),
    /// None: the image only holds data.
    Nothing,
    /// Another program.
    Other,
}

impl IndexProgram {
    fn of(config: &ConfigFile) -> IndexProgram {
        let entrypoint = config.config.as_ref().and_then(|config| config.entrypoint.as_ref()?.first());
        match entrypoint {
            Some(program) if program.rsplit('/').next() == Some("opm") => IndexProgram::Opm(program.clone()),
            _ if config.has_program() => IndexProgram::Other,
            _ => IndexProgram::Nothing,
        }
    }
}

/// A pulled bundle.
pub(crate) struct PulledBundle {
    pub(crate) facts: CsvFacts,
    pub(crate) directory: PathBuf,
    /// Its image, as the catalog names it.
    image: String,
}

/// Builds the catalog of a run.
pub(crate) struct RunCatalog<'a> {
    pub(crate) consumer: CatalogConsumer,
    pub(crate) options: &'a CatalogOptions<'a>,
    pub(crate) watcher: &'a dyn Watcher,
}

impl RunCatalog<'_> {
    /// Pulls a bundle and reads its metadata.
    pub(crate) fn pull(&self, reference: &str) -> Result<PulledBundle> {
        let pulled = self.options.images.pinned_bundle(reference);
        self.bundle(reference, pulled)
    }

    /// Pulls bundles and reads their metadata.
    fn pull_all(&self, references: &[&str]) -> Result<Vec<PulledBundle>> {
        let pulled = references.iter().zip(self.options.images.pinned_bundles(references));
        pulled.map(|(reference, pulled)| self.bundle(reference, pulled)).collect()
    }

    /// Pulls the bundles that earlier runs added, and puts the new one after them.
    pub(crate) fn with_earlier(&self, items: &[IndexItem], newest: PulledBundle) -> Result<Vec<PulledBundle>> {
        let images: Vec<&str> = items.iter().map(|item| item.image.as_str()).collect();
        let mut bundles = self.pull_all(&images)?;
        bundles.push(newest);
        Ok(bundles)
    }

    fn bundle(&self, reference: &str, pulled: Result<(PathBuf, String), SourceError>) -> Result<PulledBundle> {
        let limits = &self.options.limits;
        let (directory, pinned) = pulled.map_err(RunCatalogError::Pull)?;
        let hidden =
            |error: &dyn std::error::Error| error.to_string().replace(&directory.display().to_string(), reference);
        let annotated =
            bundle::find_annotations(&directory, limits).map_err(|error| RunCatalogError::Metadata(hidden(&error)))?;
        let manifests = source::inside(&directory, &annotated.manifests)
            .map_err(|error| RunCatalogError::Bundle(hidden(&error)))?;
        let contents =
            bundle::read_manifests(&manifests, limits).map_err(|error| RunCatalogError::Bundle(hidden(&error)))?;
        let facts = CsvFacts::read(&annotated.package, &annotated.channels, &contents.csv)
            .map_err(|error| RunCatalogError::Bundle(hidden(&error)))?;
        // Pin the digest: OLM installs the checked image, even if the tag moves.
        let image = if self.options.pin { self.pinned(pinned) } else { reference.to_owned() };
        Ok(PulledBundle { facts, directory, image })
    }

    /// Returns an image reference with digest that the consumer of the catalog accepts.
    fn pinned(&self, image: String) -> String {
        let parsed = match self.consumer {
            CatalogConsumer::Pod => return image,
            // OLM v1 rejects references with both a tag and a digest.
            CatalogConsumer::Image { .. } => Reference::parse(&image).ok(),
        };
        let short = parsed.and_then(|parsed| Some(parsed.with_digest(*parsed.digest()?).to_string()));
        short.unwrap_or(image)
    }

    /// Determines the kind of an index image from its labels, and refuses a mode that applies only to databases.
    pub(crate) fn index(&self, image: &str, migrated_before: bool) -> Result<IndexKind> {
        let kind = self.index_kind(image, migrated_before)?;
        match kind {
            IndexKind::Database(_) => Ok(kind),
            _ if self.options.mode.is_empty() => Ok(kind),
            _ => Err(RunCatalogError::Mode),
        }
    }

    fn index_kind(&self, image: &str, migrated_before: bool) -> Result<IndexKind> {
        if image == NO_INDEX {
            return Ok(IndexKind::None);
        }
        let config = self.options.images.config(image)?;
        let (labels, program) = (config.labels(), IndexProgram::of(&config));
        let path = |label: &str, default: &str| {
            let path = labels.get(label).filter(|path| !path.is_empty());
            path.map_or(default, String::as_str).to_owned()
        };
        if labels.contains_key(CONFIGS_LABEL) {
            return Ok(IndexKind::Catalog(path(CONFIGS_LABEL, CONFIGS), program));
        }
        self.watcher.warn(&format!(
            "{image} is a SQLite index image. SQLite based index images are being deprecated and will be removed in \
             a future release, please migrate your catalogs to the new File-Based Catalog format"
        ));
        let default = if migrated_before { DatabaseHandling::Migrate } else { DatabaseHandling::Pod };
        let path = path(DATABASE_LABEL, DATABASE);
        match self.options.database.unwrap_or(default) {
            DatabaseHandling::Migrate => Ok(IndexKind::Migrated(path)),
            DatabaseHandling::Pod if source::is_index_from_scratch(&config) => {
                Err(RunCatalogError::NoShell(image.to_owned()))
            }
            DatabaseHandling::Pod => Ok(IndexKind::Database(path)),
        }
    }

    /// Returns the content of a pod that adds the bundles to a database.
    fn database(&self, image: &str, path: &str) -> Result<CatalogPodContent> {
        if self.options.registry.is_some() {
            return Err(RunCatalogError::PushedDatabase);
        }
        let settings = self.options.images.settings();
        Ok(CatalogPodContent::Database {
            image: image.to_owned(),
            path: path.to_owned(),
            skip_tls_verify: settings.skip_tls_verify,
            use_http: settings.use_http,
        })
    }

    /// Loads the catalog of an index image.
    fn load(&self, image: &str, index: &IndexKind) -> Result<Fbc> {
        let mut fbc = Fbc::default();
        let path = match index {
            IndexKind::None => return Ok(fbc),
            IndexKind::Catalog(path, _) | IndexKind::Database(path) | IndexKind::Migrated(path) => path,
        };
        let images = self.options.images;
        let options = SourceOptions { keep_text: true, ..SourceOptions::catalogs(self.options.limits.clone(), images) };
        let named = |source| RunCatalogError::Index { image: image.to_owned(), source: Box::new(source) };
        let fetched = images.fetch_one(image)?;
        let place = images.index(&fetched.image, path)?.path;
        if !matches!(index, IndexKind::Catalog(..)) {
            source::database::load_database(&mut fbc, &place, &options).map_err(named)?;
            return Ok(fbc);
        }
        let loaded = source::load_catalog(&mut fbc, &place, &options).map_err(|error| named(error.into()))?;
        match loaded.problems.is_empty() {
            true => Ok(fbc),
            false => Err(RunCatalogError::Invalid {
                title: format!("index image {image:?}:"),
                fbc: Box::new(fbc),
                problems: loaded.problems,
            }),
        }
    }

    /// Adds a bundle to the catalog of an index, checks it, and prepares its content for the cluster. A database is left
    /// to the pod.
    ///
    /// `bundles` are those to add, the new one last, and `additions` decides from their names what the catalog lacks.
    pub(crate) fn serve(
        &self,
        index: &IndexKind,
        index_image: &str,
        reference: &str,
        bundles: Vec<PulledBundle>,
        additions: impl FnOnce(&Fbc, &[String]) -> Result<Additions, EditRefusal>,
    ) -> Result<CatalogPodContent> {
        if let IndexKind::Database(path) = index {
            return self.database(index_image, path);
        }
        let mut catalog = self.load(index_image, index)?;
        let names: Vec<String> = bundles.iter().map(|bundle| bundle.facts.csv.clone()).collect();
        let added = additions(&catalog, &names).map_err(|refusal| RunCatalogError::Refused {
            bundle: names.last().cloned().unwrap_or_default(),
            image: reference.to_owned(),
            index_image: index_image.to_owned(),
            refusal: Box::new(refusal),
        })?;
        let documents = self.documents(&mut catalog, &added, &bundles)?;
        let scratch = TempFolder::private("opm-run-")?;
        if let Some(name) = &self.options.registry {
            write_catalog(&documents, scratch.path())?;
            self.check(scratch.path(), documents.len())?;
            return self.push(scratch.path(), name).map(CatalogPodContent::Image);
        }
        let count = documents.len();
        let parts = partition::partition(&documents)?;
        drop(documents);
        for (number, part) in parts.iter().enumerate() {
            let text = partition::unpack(part)?;
            fs::write(scratch.path().join(format!("{number:04}.yaml")), text)?;
        }
        self.check(scratch.path(), count)?;
        let (image, program) = match index {
            IndexKind::Catalog(_, IndexProgram::Opm(program)) => (index_image.to_owned(), Some(program.clone())),
            IndexKind::Catalog(_, IndexProgram::Nothing) => {
                self.watcher.done(&format!("{index_image} has no program; {NO_INDEX} serves its catalog"));
                (self.default_image(), None)
            }
            IndexKind::Catalog(_, IndexProgram::Other) => (index_image.to_owned(), None),
            // The program in a database image can be too old to serve a file-based catalog.
            _ => (self.default_image(), None),
        };
        let decompression_image = self.options.decompression_image.clone();
        Ok(CatalogPodContent::ConfigMaps { image, program, decompression_image, parts })
    }

    /// Builds the image of the catalog in a directory, pushes it, and returns its name with the digest.
    fn push(&self, directory: &Path, name: &Reference) -> Result<String> {
        let (options, push) = (self.options, !matches!(self.consumer, CatalogConsumer::Image { push: false, .. }));
        let layout = TempFolder::private("opm-build-")?;
        let store = Store::open(&layout.path().join("image"))?;
        let built = options.builder.build(directory, &store, &self.programs()?).map_err(RunCatalogError::Build)?;
        let image = name.with_digest(built.digest);
        if push {
            options.images.deliver(&Delivery { name: Some(name), push, output: None }, &store, &built)?;
            self.watcher.done(&format!("Pushed the catalog image {image}"));
        }
        Ok(image.to_string())
    }

    /// Returns the platform and the program of the pushed image: a pod runs it, OLM v1 only reads its content.
    fn programs(&self) -> Result<Programs> {
        let platform = self.options.images.settings().platform.clone();
        if self.consumer != CatalogConsumer::Pod {
            return Ok(ProgramChoice::none(platform.as_slice()));
        }
        let platform = platform.unwrap_or_else(Platform::host);
        let program = find_program(&[], &self.options.running, &platform, !self.options.has_base)?;
        Ok(vec![(platform, Some(program))])
    }

    /// Returns the default image that serves catalogs, pinned to its current digest.
    fn default_image(&self) -> String {
        if !self.options.pin {
            return NO_INDEX.to_owned();
        }
        match self.options.images.by_digest(NO_INDEX) {
            Ok(pinned) => {
                self.watcher.done(&format!("{NO_INDEX} resolves to {pinned}, which serves the catalog"));
                pinned
            }
            Err(error) => {
                let error = error.to_string();
                let error = error.lines().next().unwrap_or_default();
                self.watcher.warn(&format!(
                    "cannot pin {NO_INDEX}; the cluster serves the catalog with the version it pulls: {error}"
                ));
                NO_INDEX.to_owned()
            }
        }
    }

    /// Returns the blobs of a catalog with the new bundles. Existing blobs keep their original text.
    fn documents(
        &self,
        catalog: &mut Fbc,
        additions: &Additions,
        bundles: &[PulledBundle],
    ) -> Result<Vec<CatalogDocument>> {
        let limits = &self.options.limits;
        let mut new = Fbc::default();
        if let Some(package) = &additions.package {
            new.add_generated(package, limits).map_err(RunCatalogError::Blob)?;
        }
        let mut longer = None;
        match &additions.channel {
            ChannelEdit::New(text) => new.add_generated(text, limits).map_err(RunCatalogError::Blob)?,
            ChannelEdit::Extended(place, entries) => {
                let mut buffer = TextBuffer::default();
                let text = catalog.text(&catalog.blobs()[*place], &mut buffer)?.text().to_owned();
                longer = Some((*place, run_bundle::extended(&text, entries)?));
            }
        }
        for bundle in bundles.iter().filter(|bundle| additions.bundles.contains(&bundle.facts.csv)) {
            let options = bundle::RenderOptions {
                image: &bundle.image,
                image_template: None,
                migrate: !self.options.bundle_objects,
                limits: limits.clone(),
            };
            let rendered = bundle::render(&bundle.directory, &options)
                .map_err(|error| RunCatalogError::Bundle(error.to_string()))?;
            rendered.warnings.iter().for_each(|warning| self.watcher.warn(warning));
            let json = match self.consumer {
                CatalogConsumer::Image { ignore_dependencies: true, .. } => {
                    run_bundle::without_dependencies(&rendered.json)?
                }
                _ => rendered.json,
            };
            new.add_generated(&json, limits).map_err(RunCatalogError::Blob)?;
        }
        let mut documents = Vec::new();
        for blob in new.in_order() {
            documents.push(CatalogDocument { name: shown(blob), language: Language::Yaml, text: printed(&new, blob)? });
        }
        documents.extend(as_written(catalog, longer)?);
        Ok(documents)
    }

    /// Checks a catalog by loading it like the server.
    fn check(&self, directory: &Path, count: usize) -> Result<()> {
        let options = SourceOptions::catalogs(self.options.limits.clone(), self.options.images);
        let found = NamedSource::Catalog(directory.to_path_buf());
        let LoadedCatalog { fbc, checked } =
            source::read(&directory.to_string_lossy(), &found, &options, Warnings::Off)?;
        if let Err(problems) = checked.catalog {
            return Err(RunCatalogError::Invalid {
                title: "error validating and converting the declarative config object to a string format:".to_owned(),
                fbc: Box::new(fbc),
                problems: problems.into_errors(),
            });
        }
        let read = fbc.blobs().iter().filter(|blob| blob.origin.is_some()).count();
        if read != count {
            return Err(RunCatalogError::Lost { read, count });
        }
        self.watcher.done("Generated a valid File-Based Catalog");
        Ok(())
    }
}
