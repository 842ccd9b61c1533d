//! Loading what is served: answers and blobs of one reading of the directory.

use std::io;
use std::sync::Arc;

use registry_api::Query;

use crate::cache::Cache;
use crate::cache::store::{self, Integrity, PrepareError, Prepared, Reading};
use crate::content::Content;
use crate::live::{Blobs, Snapshot};
use crate::load::{Directory, LeftOut};
use crate::run::Plan;

/// A catalog that can be served, and what its files looked like before they were read.
pub(crate) struct Loaded {
    pub(crate) snapshot: Snapshot,
    pub(crate) cache: Arc<Cache>,
    pub(crate) reading: Reading,
}

/// Why a catalog that is served has no blobs.
pub(crate) enum NoBlobs {
    /// The directory holds another catalog by now.
    Changed,
    /// They cannot be had.
    Failed(String),
}

/// Makes answers ready.
pub(crate) async fn prepare(plan: &Plan, integrity: Integrity) -> Result<Prepared, PrepareError> {
    let plan = plan.clone();
    blocking(move || prepare_now(&plan, integrity)).await?
}

/// Makes everything ready that is served.
pub(crate) async fn load(plan: &Plan, integrity: Integrity) -> Result<Loaded, PrepareError> {
    let plan = plan.clone();
    blocking(move || {
        let mut prepared = prepare_now(&plan, integrity)?;
        let blobs = match plan.http {
            None => Blobs::Loading,
            Some(_) => match blobs_of(&plan.directory, &prepared.cache, &mut prepared.reading) {
                Ok(content) => Blobs::Ready(Arc::new(content)),
                Err(NoBlobs::Changed) => {
                    let path = plan.directory.root.display();
                    return Err(io::Error::other(format!("{path}: catalog keeps changing while it is read")).into());
                }
                Err(NoBlobs::Failed(reason)) => return Err(io::Error::other(reason).into()),
            },
        };
        let catalog = Arc::clone(&prepared.cache) as Arc<dyn Query>;
        let shelves = Some(Arc::clone(&prepared.cache));
        let snapshot = Snapshot { catalog, shelves, blobs, left_out: prepared.left_out };
        Ok(Loaded { snapshot, cache: prepared.cache, reading: prepared.reading.outline() })
    })
    .await?
}

/// Makes the blobs of a catalog ready that is served already: from what was loaded for it, else from its directory.
pub(crate) async fn blobs(
    directory: &Directory,
    cache: &Arc<Cache>,
    reading: Option<Reading>,
) -> Result<Content, NoBlobs> {
    let (directory, cache) = (directory.clone(), Arc::clone(cache));
    let made = blocking(move || {
        let failed = |error: PrepareError| NoBlobs::Failed(error.to_string());
        let mut reading = reading.map_or_else(|| Reading::start(&directory), Ok).map_err(failed)?;
        blobs_of(&directory, &cache, &mut reading)
    });
    made.await.map_err(|error| NoBlobs::Failed(error.to_string()))?
}

/// Makes the blobs of the catalog that `cache` is of; what is loaded for them is dropped at once.
pub(crate) fn blobs_of(directory: &Directory, cache: &Cache, reading: &mut Reading) -> Result<Content, NoBlobs> {
    let failed = |reading: &Reading, error: String| match reading.holds(directory) {
        true => NoBlobs::Failed(error),
        false => NoBlobs::Changed,
    };
    if let Err(error) = reading.load(directory) {
        return Err(failed(reading, error.to_string()));
    }
    if !reading.is_of(cache) {
        return Err(NoBlobs::Changed);
    }
    let Some(sound) = reading.sound.take() else { return Err(NoBlobs::Changed) };
    match Content::of(&sound.fbc) {
        Err(error) => Err(failed(reading, error.to_string())),
        Ok(content) if reading.holds(directory) => Ok(content),
        Ok(_) => Err(NoBlobs::Changed),
    }
}

fn prepare_now(plan: &Plan, integrity: Integrity) -> Result<Prepared, PrepareError> {
    match store::prepare(&plan.directory, plan.cache_dir.as_deref(), integrity) {
        Err(PrepareError::Io(error)) if integrity == Integrity::Rebuild && plan.cache_dir.is_some() => {
            // The cache is a convenience: a directory that cannot be written is no reason to be down.
            tracing::warn!(%error, "cache cannot be kept, building one for this run");
            store::prepare(&plan.directory, None, integrity)
        }
        outcome => outcome,
    }
}

/// Says which packages are not served.
pub(crate) fn tell_left_out(left_out: &[LeftOut]) {
    for left_out in left_out {
        tracing::error!(package = left_out.package, reason = left_out.reason, "package is broken and left out");
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PrepareError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| PrepareError::Io(io::Error::other(error)))
}
