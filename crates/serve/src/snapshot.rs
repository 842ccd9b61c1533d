//! Loads snapshots: answers and blobs from one reading of the directory.

use std::io;
use std::sync::Arc;

use catalog::query::Query;

use crate::cache::Cache;
use crate::cache::store::{self, Integrity, PrepareError, Prepared, Reading};
use crate::content::CatalogContent;
use crate::live::{Blobs, Snapshot};
use crate::load::{Quarantined, ServedDirectory};
use crate::run::ServePlan;

/// A catalog that is ready to be served, and the state of its files before they were read.
pub(crate) struct ReadyCatalog {
    pub(crate) snapshot: Snapshot,
    pub(crate) cache: Arc<Cache>,
    pub(crate) reading: Reading,
}

/// The reason why a served catalog has no blobs.
pub(crate) enum NoBlobs {
    /// The directory holds another catalog by now.
    Changed,
    /// Loading failed.
    Failed(String),
}

/// Loads the answers of a catalog.
pub(crate) async fn prepare(plan: &ServePlan, integrity: Integrity) -> Result<Prepared, PrepareError> {
    let plan = plan.clone();
    blocking(move || prepare_now(&plan, integrity)).await?
}

/// Loads the answers and blobs of a catalog.
pub(crate) async fn load(plan: &ServePlan, integrity: Integrity) -> Result<ReadyCatalog, PrepareError> {
    let plan = plan.clone();
    blocking(move || {
        let mut prepared = prepare_now(&plan, integrity)?;
        let blobs = match plan.http {
            None => Blobs::Loading,
            Some(_) => match blobs_of(&plan.directory, &prepared.cache, &mut prepared.reading) {
                Ok(content) => Blobs::Ready(Arc::new(content)),
                Err(NoBlobs::Changed) => {
                    let path = plan.directory.root.display();
                    return Err(
                        io::Error::other(format!("{path}: the catalog keeps changing while opm reads it")).into()
                    );
                }
                Err(NoBlobs::Failed(reason)) => return Err(io::Error::other(reason).into()),
            },
        };
        let catalog = Arc::clone(&prepared.cache) as Arc<dyn Query>;
        let summaries = Some(Arc::clone(&prepared.cache));
        let snapshot = Snapshot { catalog, summaries, blobs, quarantined: prepared.quarantined };
        Ok(ReadyCatalog { snapshot, cache: prepared.cache, reading: prepared.reading.without_catalog() })
    })
    .await?
}

/// Loads the blobs of a catalog that is already served: from `reading` if given, else from the directory.
pub(crate) async fn blobs(
    directory: &ServedDirectory,
    cache: &Arc<Cache>,
    reading: Option<Reading>,
) -> Result<CatalogContent, NoBlobs> {
    let (directory, cache) = (directory.clone(), Arc::clone(cache));
    let built = blocking(move || {
        let failed = |error: PrepareError| NoBlobs::Failed(error.to_string());
        let mut reading = reading.map_or_else(|| Reading::start(&directory), Ok).map_err(failed)?;
        blobs_of(&directory, &cache, &mut reading)
    });
    built.await.map_err(|error| NoBlobs::Failed(error.to_string()))?
}

/// Writes the blobs of the catalog that `cache` was built from; drops the loaded catalog at once.
pub(crate) fn blobs_of(
    directory: &ServedDirectory,
    cache: &Cache,
    reading: &mut Reading,
) -> Result<CatalogContent, NoBlobs> {
    let failed = |reading: &Reading, error: String| match reading.is_current(directory) {
        true => NoBlobs::Failed(error),
        false => NoBlobs::Changed,
    };
    if let Err(error) = reading.load(directory) {
        return Err(failed(reading, error.to_string()));
    }
    if !reading.matches(cache) {
        return Err(NoBlobs::Changed);
    }
    let Some(checked) = reading.checked.take() else { return Err(NoBlobs::Changed) };
    match CatalogContent::of(&checked.fbc) {
        Err(error) => Err(failed(reading, error.to_string())),
        Ok(content) if reading.is_current(directory) => Ok(content),
        Ok(_) => Err(NoBlobs::Changed),
    }
}

fn prepare_now(plan: &ServePlan, integrity: Integrity) -> Result<Prepared, PrepareError> {
    match store::prepare(&plan.directory, plan.cache_dir.as_deref(), integrity) {
        Err(PrepareError::Io(error)) if integrity == Integrity::Rebuild && plan.cache_dir.is_some() => {
            // The cache is an optimization: an unwritable directory must not keep the server down.
            tracing::warn!(%error, "cannot write the cache directory, building a temporary cache");
            store::prepare(&plan.directory, None, integrity)
        }
        outcome => outcome,
    }
}

/// Logs the packages that are not served.
pub(crate) fn log_quarantined(quarantined: &[Quarantined]) {
    for quarantined in quarantined {
        tracing::error!(
            package = quarantined.package,
            reason = quarantined.reason,
            "package is invalid, quarantining it"
        );
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PrepareError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| PrepareError::Io(io::Error::other(error)))
}
