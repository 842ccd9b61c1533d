//! Builds images of database indexes without a container engine.

use std::path::{Path, PathBuf};

use fbc::fault::{Class, Fault};
use fbc::scratch::TempFolder;
use image::{Descriptor, Layer, Platform, ProgramError, Store, find_program};
use legacy::OperationError;
use legacy::index_image::{BuildOptions, IndexImageContent, build};

use crate::delivery::Delivery;
use crate::error::SourceError;
use crate::images::Images;

/// The base image whose name stands for none.
const SCRATCH: &str = "scratch";

/// An index image to build.
pub struct IndexImageRequest<'a> {
    /// The database. Its migration time changes.
    pub database: &'a Path,
    /// The image to build on, which contains the program; `scratch` for an image of the database alone. Without one, the
    /// image contains the running program.
    pub base: Option<&'a str>,
    /// The platform of the image.
    pub platform: Option<Platform>,
    /// The running program.
    pub running: PathBuf,
    /// Packs the program.
    pub pack: &'a dyn Fn(&Path) -> std::io::Result<Layer>,
    /// The user that an image without a base runs as.
    pub user: &'a str,
    /// The time of the image and of all its files, in seconds since 1970.
    pub time: u64,
    /// Where the image goes.
    pub delivery: Delivery<'a>,
}

/// Why an index image is not built or delivered.
#[derive(Debug, thiserror::Error)]
pub enum IndexImageError {
    /// The running program cannot be in the image.
    #[error(
        "{0}\n  help: use --binary-image with an image that contains opm, or 'scratch' for an image of the database alone"
    )]
    Program(ProgramError),
    #[error(transparent)]
    Operation(#[from] OperationError),
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Fault for IndexImageError {
    fn class(&self) -> Class {
        match self {
            IndexImageError::Program(_) => Class::Refused,
            IndexImageError::Operation(error) => error.class(),
            IndexImageError::Source(error) => error.class(),
        }
    }
}

/// Builds the image and delivers it.
///
/// # Errors
/// Fails when the program cannot be in the image, the base cannot be pulled, or the image cannot be delivered.
pub fn build_index_image(request: &IndexImageRequest<'_>, images: &Images) -> Result<Descriptor, IndexImageError> {
    let scratch = TempFolder::private("opm-index-").map_err(SourceError::from)?;
    let store = Store::open(&scratch.path().join("image")).map_err(SourceError::from)?;
    let base = request.base.filter(|base| *base != SCRATCH).map(|base| images.base(base, &store)).transpose()?;
    let platform = request.platform.clone();
    let content = match (&base, request.base) {
        (Some(base), _) => IndexImageContent::Base(base),
        (None, Some(_)) => IndexImageContent::Database,
        (None, None) => {
            let platform = platform.clone().unwrap_or_else(Platform::host);
            let program = find_program(&[], &request.running, &platform, true).map_err(IndexImageError::Program)?;
            IndexImageContent::Program((request.pack)(&program).map_err(SourceError::from)?)
        }
    };
    let options = BuildOptions { content, platform, user: request.user, time: request.time };
    let image = build(&store, request.database, &options)?;
    images.deliver(&request.delivery, &store, &image)?;
    Ok(image)
}
