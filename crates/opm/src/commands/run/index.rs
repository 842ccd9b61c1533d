//! Builds the catalog of a run: pulls bundles and indexes, combines and checks them.

mod documents;

use std::fs;
use std::path::{Path, PathBuf};

use cluster::run::CsvFacts;
use cluster::run::partition::{self, CatalogDocument, Language};
use cluster::run::pod::{CatalogPodContent, IndexItem};
use edit::run_bundle::{self, Additions, ChannelEdit};
use fbc::blob::TextBuffer;
use fbc::fault::{Class, Fault};
use fbc::{Fbc, Limits};
use image::{CatalogImages, Platform, ProgramChoice, ProgramError, Programs, Reference, Store, find_program};
use source::{CONFIGS, CONFIGS_LABEL, DATABASE_LABEL, Delivery, Images, LoadedCatalog, NamedSource, SourceError};

use super::flags::{Database, NO_INDEX, ServeFlags};
use crate::commands::build::CatalogImageBuilder;
use crate::exit::{CommandResult, Failure};
use crate::images::TlsFlags;
use crate::interrupt::Unfinished;
use crate::printer::Printer;
use crate::report;
use documents::{as_written, printed, shown, write_catalog};

/// The default path of the database of an index image, for empty labels.
const DATABASE: &str = "/database/index.db";

/// The kind of an index image.
pub(super) enum IndexKind {
    /// No index image.
    None,
    /// A file-based catalog at this path, and the program of the image.
    Catalog(String, Program),
    /// A database at this path, which the pod adds bundles to.
    Database(String),
    /// A database at this path that is migrated to a file-based catalog.
    Migrated(String),
}

/// The program of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Program {
    /// opm at this path; the image may have no shell.
    Opm(String),
    /// None: the image only holds data.
    Nothing,
    /// Another program.
    Other,
}

impl Program {
    fn of(config: &image::ConfigFile) -> Program {
        let entrypoint = config.config.as_ref().and_then(|config| config.entrypoint.as_ref()?.first());
        match entrypoint {
            Some(program) if program.rsplit('/').next() == Some("opm") => Program::Opm(program.clone()),
            _ if config.has_program() => Program::Other,
            _ => Program::Nothing,
        }
    }
}

/// The consumer of the catalog of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CatalogConsumer {
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

/// Builds the catalog of a run.
pub(super) struct CatalogBuilder<'a> {
    pub(super) reader: CatalogConsumer,
    pub(super) flags: &'a ServeFlags,
    pub(super) tls: &'a TlsFlags,
    pub(super) images: &'a Images,
    pub(super) limits: Limits,
    pub(super) decompression_image: &'a str,
    pub(super) printer: &'a Printer,
}

/// A pulled bundle.
pub(super) struct Pulled {
    pub(super) facts: CsvFacts,
    pub(super) directory: PathBuf,
    image: String,
}

/// Why a bundle cannot be pulled or read.
#[derive(Debug, thiserror::Error)]
enum BundleError {
    #[error("pull bundle image: {0}")]
    Pull(SourceError),
    #[error("load bundle metadata: {0}")]
    Metadata(String),
    #[error("load bundle: {0}")]
    Load(String),
}

impl Fault for BundleError {
    fn class(&self) -> Class {
        match self {
            BundleError::Pull(error) if error.class() == Class::World => Class::World,
            _ => Class::Refused,
        }
    }
}

impl CatalogBuilder<'_> {
    /// Pulls bundles and reads their metadata.
    pub(super) fn bundles(&self, references: &[&str]) -> Result<Vec<Pulled>, Failure> {
        let pulled = references.iter().zip(self.images.pinned_bundles(references));
        pulled.map(|(reference, pulled)| self.bundle(reference, pulled).map_err(Failure::fault)).collect()
    }

    fn bundle(&self, reference: &str, pulled: Result<(PathBuf, String), SourceError>) -> Result<Pulled, BundleError> {
        let (directory, pinned) = pulled.map_err(BundleError::Pull)?;
        let hidden =
            |error: &dyn std::error::Error| error.to_string().replace(&directory.display().to_string(), reference);
        let annotated = bundle::find_annotations(&directory, &self.limits)
            .map_err(|error| BundleError::Metadata(hidden(&error)))?;
        let manifests =
            source::inside(&directory, &annotated.manifests).map_err(|error| BundleError::Load(hidden(&error)))?;
        let contents =
            bundle::read_manifests(&manifests, &self.limits).map_err(|error| BundleError::Load(hidden(&error)))?;
        let facts = CsvFacts::read(&annotated.package, &annotated.channels, &contents.csv)
            .map_err(|error| BundleError::Load(hidden(&error)))?;
        // Pin the digest: OLM installs the checked image, even if the tag moves.
        let image = if self.flags.pin { self.pinned(pinned) } else { reference.to_owned() };
        Ok(Pulled { facts, directory, image })
    }

    /// Returns an image reference with digest that the consumer of the catalog accepts.
    fn pinned(&self, image: String) -> String {
        let parsed = match self.reader {
            CatalogConsumer::Pod => return image,
            // OLM v1 rejects references with both a tag and a digest.
            CatalogConsumer::Image { .. } => Reference::parse(&image).ok(),
        };
        let short = parsed.and_then(|parsed| Some(parsed.with_digest(*parsed.digest()?).to_string()));
        short.unwrap_or(image)
    }

    /// Determines the kind of an index image from its labels.
    pub(super) fn index(&self, image: &str, migrated_before: bool) -> Result<IndexKind, Failure> {
        if image == NO_INDEX {
            return Ok(IndexKind::None);
        }
        let config = self.images.config(image)?;
        let (labels, program) = (config.labels(), Program::of(&config));
        let path = |label: &str, default: &str| {
            let path = labels.get(label).filter(|path| !path.is_empty());
            path.map_or(default, String::as_str).to_owned()
        };
        if labels.contains_key(CONFIGS_LABEL) {
            return Ok(IndexKind::Catalog(path(CONFIGS_LABEL, CONFIGS), program));
        }
        self.printer.warning(&format!(
            "{image} is a SQLite index image. SQLite based index images are being deprecated and will be removed in \
             a future release, please migrate your catalogs to the new File-Based Catalog format"
        ));
        let default = if migrated_before { Database::Migrate } else { Database::Pod };
        let path = path(DATABASE_LABEL, DATABASE);
        match self.flags.sqlite.unwrap_or(default) {
            Database::Migrate => Ok(IndexKind::Migrated(path)),
            Database::Pod if source::is_index_from_scratch(&config) => Err(Failure::message(format!(
                "{image} has no shell, but the pod needs one to add the bundle to the database\n  help: use --sqlite \
                 migrate, which serves the content as a file-based catalog"
            ))),
            Database::Pod => Ok(IndexKind::Database(path)),
        }
    }

    /// Refuses flags that apply only to database indexes.
    pub(super) fn check_mode(&self, index: &IndexKind) -> CommandResult {
        match index {
            IndexKind::Database(_) => Ok(()),
            _ if self.flags.mode.is_empty() => Ok(()),
            _ => Err(Failure::message(
                "specifying the bundle add mode is not supported for File-Based Catalog bundles and index images",
            )),
        }
    }

    /// Returns the content of a pod that adds the bundles to a database.
    pub(super) fn database(&self, image: &str, path: &str) -> Result<CatalogPodContent, Failure> {
        if self.flags.registry.is_some() {
            return Err(Failure::message(
                "--registry builds an image of a file-based catalog: add --sqlite=migrate for a database index",
            ));
        }
        Ok(CatalogPodContent::Database {
            image: image.to_owned(),
            path: path.to_owned(),
            skip_tls_verify: self.tls.skips_verification(),
            use_http: self.tls.uses_http(),
        })
    }

    /// Loads the catalog of an index image.
    pub(super) fn load(&self, image: &str, index: &IndexKind) -> Result<Fbc, Failure> {
        let mut fbc = Fbc::default();
        let path = match index {
            IndexKind::None => return Ok(fbc),
            IndexKind::Catalog(path, _) | IndexKind::Database(path) | IndexKind::Migrated(path) => path,
        };
        let options = source::SourceOptions {
            keep_text: true,
            ..source::SourceOptions::catalogs(self.limits.clone(), self.images)
        };
        let named = |error: String| Failure::message(format!("index image {image:?}: {error}"));
        let fetched = self.images.fetch_one(image)?;
        let place = self.images.index(&fetched.image, path)?.path;
        if !matches!(index, IndexKind::Catalog(..)) {
            source::database::load_database(&mut fbc, &place, &options).map_err(|error| named(error.to_string()))?;
            return Ok(fbc);
        }
        let loaded = source::load_catalog(&mut fbc, &place, &options).map_err(|error| named(error.to_string()))?;
        if !loaded.problems.is_empty() {
            self.printer.error(&format!("index image {image:?}:"));
            report::show(self.printer, &report::find(&fbc, &loaded.problems));
            return Err(Failure::Reported);
        }
        Ok(fbc)
    }

    /// Adds bundles to a catalog, checks it, and prepares its content for the cluster.
    pub(super) fn serve(
        &self,
        mut catalog: Fbc,
        additions: &Additions,
        bundles: &[Pulled],
        index: &IndexKind,
        index_image: &str,
    ) -> Result<CatalogPodContent, Failure> {
        let documents = self.documents(&mut catalog, additions, bundles)?;
        let scratch = Unfinished::private("opm-run-")?;
        if let Some(name) = &self.flags.registry {
            write_catalog(&documents, scratch.path())?;
            self.check(scratch.path(), documents.len())?;
            let push = !matches!(self.reader, CatalogConsumer::Image { push: false, .. });
            let base = self.flags.registry_base.as_deref().map(|base| (base, self.images));
            let layout = Unfinished::private("opm-build-")?;
            let store = Store::open(&layout.path().join("image"))?;
            let built = CatalogImageBuilder { base }.build(scratch.path(), &store, &self.programs()?);
            let built = built.map_err(|error| Failure::Fault(Vec::new(), error))?;
            let image = name.with_digest(built.digest);
            if push {
                self.images.deliver(&Delivery { name: Some(name), push, output: None }, &store, &built)?;
                self.printer.report(&format!("Pushed the catalog image {image}"));
            }
            return Ok(CatalogPodContent::Image(image.to_string()));
        }
        let count = documents.len();
        let parts = partition::partition(&documents).map_err(|unfit| {
            Failure::message(format!("{unfit}\n  help: use --registry REF to push the catalog instead"))
        })?;
        drop(documents);
        for (number, part) in parts.iter().enumerate() {
            let text = partition::unpack(part)?;
            fs::write(scratch.path().join(format!("{number:04}.yaml")), text)?;
        }
        self.check(scratch.path(), count)?;
        let (image, program) = match index {
            IndexKind::Catalog(_, Program::Opm(program)) => (index_image.to_owned(), Some(program.clone())),
            IndexKind::Catalog(_, Program::Nothing) => {
                self.printer.report(&format!("{index_image} has no program; {NO_INDEX} serves its catalog"));
                (self.default_image(), None)
            }
            IndexKind::Catalog(_, Program::Other) | IndexKind::Database(_) => (index_image.to_owned(), None),
            // The program in a database image can be too old to serve a file-based catalog.
            IndexKind::Migrated(_) | IndexKind::None => (self.default_image(), None),
        };
        let decompression_image = self.decompression_image.to_owned();
        Ok(CatalogPodContent::ConfigMaps { image, program, decompression_image, parts })
    }

    /// Returns the platform and the program of the pushed image: a pod runs it, OLM v1 only reads its content.
    fn programs(&self) -> Result<Programs, Failure> {
        let platform = self.flags.pull.platform.clone();
        if self.reader != CatalogConsumer::Pod {
            return Ok(ProgramChoice::none(platform.as_slice()));
        }
        let platform = platform.unwrap_or_else(Platform::host);
        let alone = self.flags.registry_base.is_none();
        match find_program(&[], &std::env::current_exe()?, &platform, alone) {
            Ok(program) => Ok(vec![(platform, Some(program))]),
            Err(error) => {
                let without = "without --registry, ConfigMaps carry the catalog";
                let help = match error {
                    ProgramError::Dynamic { .. } => {
                        format!("name an image that has libraries with --registry-base REF; {without}")
                    }
                    _ => without.to_owned(),
                };
                Err(Failure::message(format!("{error}\n  help: {help}")))
            }
        }
    }

    /// Returns the default image that serves catalogs, pinned to its current digest.
    fn default_image(&self) -> String {
        if !self.flags.pin {
            return NO_INDEX.to_owned();
        }
        match self.images.digest_of(NO_INDEX) {
            Ok(digest) => {
                // Some nodes reject references with both a tag and a digest.
                let repository = NO_INDEX.rsplit_once(':').map_or(NO_INDEX, |(repository, _)| repository);
                let pinned = format!("{repository}@{digest}");
                self.printer.report(&format!("{NO_INDEX} resolves to {pinned}, which serves the catalog"));
                pinned
            }
            Err(error) => {
                let error = error.to_string();
                let error = error.lines().next().unwrap_or_default();
                self.printer.warning(&format!(
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
        bundles: &[Pulled],
    ) -> Result<Vec<CatalogDocument>, Failure> {
        let mut new = Fbc::default();
        let made = |error: std::io::Error| Failure::message(error.to_string());
        if let Some(package) = &additions.package {
            new.add_generated(package, &self.limits).map_err(made)?;
        }
        let mut longer = None;
        match &additions.channel {
            ChannelEdit::New(text) => new.add_generated(text, &self.limits).map_err(made)?,
            ChannelEdit::Extended(place, entries) => {
                let mut buffer = TextBuffer::default();
                let text = catalog.text(&catalog.blobs()[*place], &mut buffer)?.text().to_owned();
                let text = run_bundle::extended(&text, entries).map_err(|refusal| Failure::message(refusal.message))?;
                longer = Some((*place, text));
            }
        }
        for bundle in bundles.iter().filter(|bundle| additions.bundles.contains(&bundle.facts.csv)) {
            let options = bundle::RenderOptions {
                image: &bundle.image,
                image_template: None,
                migrate: !self.flags.bundle_objects,
                limits: self.limits.clone(),
            };
            let rendered = bundle::render(&bundle.directory, &options)
                .map_err(|error| Failure::message(format!("load bundle: {error}")))?;
            rendered.warnings.iter().for_each(|warning| self.printer.warning(warning));
            let json = match self.reader {
                CatalogConsumer::Image { ignore_dependencies: true, .. } => {
                    edit::run_bundle::without_dependencies(&rendered.json)
                        .map_err(|refusal| Failure::message(refusal.message))?
                }
                _ => rendered.json,
            };
            new.add_generated(&json, &self.limits).map_err(made)?;
        }
        let mut documents = Vec::new();
        for blob in new.in_order() {
            documents.push(CatalogDocument { name: shown(blob), language: Language::Yaml, text: printed(&new, blob)? });
        }
        documents.extend(as_written(catalog, longer)?);
        Ok(documents)
    }

    /// Checks a catalog by loading it like the server.
    fn check(&self, directory: &Path, count: usize) -> CommandResult {
        let options = source::SourceOptions::catalogs(self.limits.clone(), self.images);
        let found = NamedSource::Catalog(directory.to_path_buf());
        let LoadedCatalog { fbc, checked } =
            source::read(&directory.to_string_lossy(), &found, &options, catalog::Warnings::Off)?;
        if let Err(problems) = checked.catalog {
            self.printer.error("error validating and converting the declarative config object to a string format:");
            report::show(self.printer, &report::find(&fbc, problems.errors()));
            return Err(Failure::Reported);
        }
        let read = fbc.blobs().iter().filter(|blob| blob.origin.is_some()).count();
        if read != count {
            return Err(Failure::message(format!("only {read} of the {count} blobs of the catalog can be read back")));
        }
        self.printer.report("Generated a valid File-Based Catalog");
        Ok(())
    }
}

/// Formats the failure to add bundles to an index.
pub(super) fn generating(bundle: &str, image: &str, index_image: &str, refusal: &edit::EditRefusal) -> Failure {
    let help = refusal.help.as_ref().map(|help| format!("\n  help: {help}")).unwrap_or_default();
    Failure::message(format!(
        "error generating File-Based Catalog with bundle {bundle:?}: error adding bundle image {image:?} to index image \
         {index_image:?}: {}{help}",
        refusal.message
    ))
}

/// Returns the images of the items.
pub(super) fn images_of(items: &[IndexItem]) -> Vec<&str> {
    items.iter().map(|item| item.image.as_str()).collect()
}
