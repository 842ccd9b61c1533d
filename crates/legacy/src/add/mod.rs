//! Adds bundles to an index.

mod replaces;
mod rows;
mod sanity;
mod semver;
mod spool;
mod substitutes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use bundle::BundleSummary;
use fbc::Limits;
use rusqlite::{Connection, params};

use crate::change::Changed;
use crate::error::{Error, OperationError};
use crate::fetch::Fetch;
use crate::open::Database;
use crate::order::by_version;
use crate::remove::{Strictness, with_savepoint};
use crate::value;
use spool::Spool;

pub(crate) use rows::{NewChannels, insert, insert_entry, rebuild, set_manifests};
pub(crate) use spool::columns;

/// A bundle to add.
#[derive(Debug, Clone)]
pub struct BundleToAdd {
    /// Its image reference, stored unchanged; empty for a bundle without an image.
    pub image: String,
    /// The directory with its files.
    pub directory: PathBuf,
}

/// How the upgrade graph is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddMode {
    /// From `replaces` and `skips` of the bundles.
    Replaces,
    /// Each version replaces the previous one.
    Semver,
    /// Like [`AddMode::Semver`], but only the last patch of each minor version is replaced, and it skips the earlier
    /// ones.
    SkipPatch,
}

/// Why a text is not a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid channel update mode {0} specified")]
pub struct ModeError(String);

impl AddMode {
    /// Parses a mode as given on the command line.
    ///
    /// # Errors
    /// Fails for any other text.
    pub fn parse(text: &str) -> Result<AddMode, ModeError> {
        match text.to_ascii_lowercase().as_str() {
            "replaces" => Ok(AddMode::Replaces),
            "semver" => Ok(AddMode::Semver),
            "semver-skippatch" => Ok(AddMode::SkipPatch),
            _ => Err(ModeError(text.to_owned())),
        }
    }

    /// Returns the mode as given on the command line.
    pub fn name(self) -> &'static str {
        match self {
            AddMode::Replaces => "replaces",
            AddMode::Semver => "semver",
            AddMode::SkipPatch => "semver-skippatch",
        }
    }
}

/// Options for adding bundles.
#[derive(Debug, Clone)]
pub struct AddOptions {
    /// How the upgrade graph is built.
    pub mode: AddMode,
    /// The packages whose graph is built in another mode.
    pub modes: BTreeMap<String, AddMode>,
    /// How failures are handled.
    pub strictness: Strictness,
    /// Whether to replace a bundle of the same name if it is the head of its channels.
    pub overwrite_latest: bool,
    /// Whether to allow `substitutesFor`.
    pub enable_alpha: bool,
    /// Whether only channel heads keep their manifests, whatever the mode.
    pub heads_only: bool,
    /// Whether, in semver modes, a bundle that is not the latest may change the default channel.
    pub older_moves_default: bool,
    /// Size limits.
    pub limits: Limits,
}

/// A reason why bundles cannot be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddRefusal {
    /// The image is already in the index.
    ImageExists(String),
    /// The bundle is already in the index, from another image.
    BundleExists(String),
    /// Anything else.
    Other(String),
}

/// Why bundles were not added; the index is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddError {
    /// All reasons.
    pub refusals: Vec<AddRefusal>,
}

impl AddError {
    /// Returns the recorded exit code for the reason, which scripts rely on.
    pub fn exit_code(&self) -> u8 {
        let any = |test: fn(&AddRefusal) -> bool| self.refusals.iter().any(test);
        if any(|refusal| matches!(refusal, AddRefusal::ImageExists(_))) {
            2
        } else if any(|refusal| matches!(refusal, AddRefusal::BundleExists(_))) {
            3
        } else {
            1
        }
    }
}

impl fmt::Display for AddRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (AddRefusal::ImageExists(text) | AddRefusal::BundleExists(text) | AddRefusal::Other(text)) = self;
        f.write_str(text)
    }
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refusals[..] {
            [one] => write!(f, "{one}"),
            several => {
                let texts: Vec<String> = several.iter().map(AddRefusal::to_string).collect();
                write!(f, "[{}]", texts.join(", "))
            }
        }
    }
}

impl std::error::Error for AddError {}

impl From<Error> for AddError {
    fn from(error: Error) -> AddError {
        AddError { refusals: vec![AddRefusal::Other(error.to_string())] }
    }
}

impl From<rusqlite::Error> for AddError {
    fn from(error: rusqlite::Error) -> AddError {
        Error::from(error).into()
    }
}

/// A bundle that was read; its manifests are in the spool.
pub(crate) struct Incoming {
    pub(crate) image: String,
    /// Everything but the manifests.
    pub(crate) contents: BundleSummary,
    manifests: spool::SpoolEntry,
}

impl Database {
    /// Adds images and bundle directories: all or none, or in permissive mode those that it accepts.
    ///
    /// All images are pulled before the change begins. In permissive mode, a failed pull adds nothing.
    ///
    /// # Errors
    /// Fails with all errors.
    pub fn add_images(
        &self,
        references: &[String],
        options: &AddOptions,
        images: &dyn Fetch,
    ) -> Result<Changed, OperationError> {
        match (images.bundles(references), options.strictness) {
            (Ok(bundles), _) => Ok(self.add(&bundles, options)?),
            (Err(error), Strictness::Strict) => Err(error.into()),
            (Err(error), Strictness::Permissive) => {
                self.migrate()?;
                Ok(Changed { skipped: vec![error.to_string()], ..Changed::default() })
            }
        }
    }

    /// Adds all bundles or none; in permissive mode, bundles that cannot be added are skipped.
    ///
    /// # Errors
    /// Fails with all errors.
    pub fn add(&self, bundles: &[BundleToAdd], options: &AddOptions) -> Result<Changed, AddError> {
        let mut added = Changed::default();
        let mut spool = Spool::default();
        let mut incoming = read_all(bundles, options, &mut spool, &mut added)?;
        // Sorted, so that the same bundles give the same index in any order.
        incoming.sort_by(|a, b| {
            let order = a.contents.package.cmp(&b.contents.package);
            order
                .then_with(|| by_version(&a.contents.version, &b.contents.version))
                .then_with(|| a.contents.name.cmp(&b.contents.name))
        });
        self.change(|connection| {
            connection.execute_batch("SAVEPOINT adding")?;
            match (add_all(connection, &incoming, &spool, options), options.strictness) {
                // SQLite rolls back the whole change on a full disk.
                (Ok(skipped), _) if connection.is_autocommit() => return Err(Error::Message(skipped.join("\n")).into()),
                (Err(error), _) if connection.is_autocommit() => return Err(error),
                (Ok(skipped), _) => added.skipped.extend(skipped),
                (Err(error), Strictness::Strict) => return Err(error),
                (Err(error), Strictness::Permissive) => {
                    connection.execute_batch("ROLLBACK TO adding")?;
                    added.skipped.push(error.to_string());
                }
            }
            connection.execute_batch("RELEASE adding")?;
            Ok(())
        })?;
        Ok(added)
    }
}

fn read_all(
    bundles: &[BundleToAdd],
    options: &AddOptions,
    spool: &mut Spool,
    added: &mut Changed,
) -> Result<Vec<Incoming>, AddError> {
    let mut incoming = Vec::new();
    let mut refusals = Vec::new();
    let mut seen = BTreeSet::new();
    for BundleToAdd { image, directory } in bundles {
        if !seen.insert((image.clone(), directory.clone()))
            || !image.is_empty() && !seen.insert((image.clone(), PathBuf::new()))
        {
            continue;
        }
        let shown = if image.is_empty() { directory.display().to_string() } else { image.clone() };
        let read = bundle::read(directory, &options.limits).map_err(|error| error.to_string());
        let read = read.and_then(|mut contents| {
            if contents.version.is_empty() {
                let missing = format!("{}: spec.version is missing", contents.csv_file);
                let mode = options.modes.get(&contents.package).unwrap_or(&options.mode);
                if *mode != AddMode::Replaces {
                    return Err(format!("{missing}: write it in full, as in 1.2.3"));
                }
                // The existing tool accepts it in this mode.
                contents.warnings.push(format!("{missing}: 'opm migrate' and OLM v1 refuse the bundle"));
            }
            Ok(contents)
        });
        match read {
            Ok(mut contents) => {
                added.warnings.extend(contents.warnings.drain(..).map(|warning| format!("{shown}: {warning}")));
                let manifests = spool
                    .put(&mut contents)
                    .map_err(|error| Error::Message(format!("keeping the manifests of {shown} aside: {error}")))?;
                incoming.push(Incoming { image: image.clone(), contents, manifests });
            }
            Err(error) => {
                let text = format!("error loading bundle {shown}: {error}");
                match options.strictness {
                    Strictness::Strict => refusals.push(AddRefusal::Other(text)),
                    Strictness::Permissive => added.skipped.push(text),
                }
            }
        }
    }
    if refusals.is_empty() { Ok(incoming) } else { Err(AddError { refusals }) }
}

/// Adds the bundles; returns the skipped failures.
fn add_all(
    connection: &Connection,
    incoming: &[Incoming],
    spool: &Spool,
    options: &AddOptions,
) -> Result<Vec<String>, AddError> {
    sanity::check(connection, incoming, options)?;
    let mut packages: BTreeMap<&str, Vec<&Incoming>> = BTreeMap::new();
    for bundle in incoming {
        packages.entry(&bundle.contents.package).or_default().push(bundle);
    }
    let mut problems: Vec<String> = Vec::new();
    let mut heads_only = options.heads_only;
    for (package, bundles) in packages {
        let mode = options.modes.get(package).copied().unwrap_or(options.mode);
        heads_only |= mode != AddMode::Replaces;
        match mode {
            AddMode::Replaces => {
                let added = with_savepoint(connection, || replaces::add(connection, package, &bundles, spool, options));
                problems.extend(added.err().map(|error| error.to_string()));
            }
            AddMode::Semver | AddMode::SkipPatch => {
                problems.extend(semver::add(connection, package, &bundles, spool, mode, options)?);
            }
        }
    }
    if !problems.is_empty() && options.strictness == Strictness::Strict {
        return Err(AddError { refusals: problems.into_iter().map(AddRefusal::Other).collect() });
    }
    if heads_only || options.mode != AddMode::Replaces {
        drop_manifests(connection)?;
    }
    Ok(problems)
}

/// Removes the manifests of bundles that have an image and are not the head of a channel.
pub(crate) fn drop_manifests(connection: &Connection) -> Result<(), Error> {
    connection.execute(
        "UPDATE operatorbundle SET csv = NULL, bundle = NULL WHERE name IN (
             SELECT name FROM operatorbundle INDEXED BY opm_bundle_body
             WHERE (csv IS NOT NULL OR bundle IS NOT NULL) AND bundlepath <> ''
               AND NOT EXISTS (SELECT 1 FROM channel WHERE head_operatorbundle_name = operatorbundle.name))",
        params![],
    )?;
    Ok(())
}

/// Returns the deprecated bundles.
pub(crate) fn deprecated(connection: &Connection) -> Result<BTreeSet<String>, Error> {
    Ok(value::strings(connection, "SELECT operatorbundle_name FROM deprecated", [])?.into_iter().collect())
}
