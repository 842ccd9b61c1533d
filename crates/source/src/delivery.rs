//! Writes and pushes built images, and fetches the images that they are built on.

use image::{Client, Descriptor, Image, Location, Reference, Store};

use crate::error::SourceError;
use crate::images::Images;

/// Where a built image goes.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// Its name.
    pub name: Option<&'a Reference>,
    /// Whether to push it to the registry of its name.
    pub push: bool,
    /// The file or directory to write it to.
    pub output: Option<&'a Location>,
}

impl Delivery<'_> {
    /// Returns the file or directory and the registry, in this order.
    fn places(&self) -> impl Iterator<Item = Location> {
        let tag = || self.name.and_then(Reference::tag).map(str::to_owned);
        let output = self.output.cloned().map(|output| match output {
            Location::Layout { path, tag: None } => Location::Layout { path, tag: tag() },
            Location::LayoutArchive { path, tag: None } => Location::LayoutArchive { path, tag: tag() },
            Location::DockerArchive { path, reference: None } => {
                Location::DockerArchive { path, reference: self.name.map(ToString::to_string) }
            }
            named => named,
        });
        let registry = self.name.filter(|_| self.push).cloned().map(Location::Registry);
        output.into_iter().chain(registry)
    }
}

impl Images {
    /// Writes a built image to a file or directory and pushes it to a registry, as requested.
    ///
    /// # Errors
    /// Fails when a file cannot be written, or the registry refuses the image.
    pub fn deliver(&self, delivery: &Delivery<'_>, store: &Store, image: &Descriptor) -> Result<(), SourceError> {
        let mut options = self.client()?.options().clone();
        options.store = store.clone();
        let client = Client::new(options)?;
        let _line = self.show("pushing");
        delivery
            .places()
            .try_for_each(|place| client.push(&image.digest, &place))
            .map_err(|source| SourceError::Delivery { source })
    }

    /// Pulls a base image into the store of the image that is built on it.
    ///
    /// # Errors
    /// Fails when the image cannot be pulled.
    pub fn base(&self, reference: &str, store: &Store) -> Result<Image, SourceError> {
        let pulled = || {
            let image = self.fetch_one(reference)?.image;
            let here = Location::Layout { path: store.root().into(), tag: Some("base".into()) };
            self.client()?.push(&image.manifest_digest, &here)?;
            Ok(image)
        };
        pulled().map_err(|source| SourceError::Base { reference: reference.to_owned(), source: Box::new(source) })
    }
}
