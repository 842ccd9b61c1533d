//! Delivery of a built image.

use fbc::fault::Fault;
use image::{Client, Descriptor, Location, Reference, Store};
use source::Images;

use crate::exit::{CommandResult, Failure};

/// Writes an image to a file or directory and pushes it to a registry, as requested.
pub(crate) fn deliver(
    tag: Option<&Reference>,
    push: bool,
    output: Option<&Location>,
    store: &Store,
    image: &Descriptor,
    images: &Images,
) -> CommandResult {
    let mut options = images.client()?.options().clone();
    options.store = store.clone();
    let client = Client::new(options).map_err(Failure::fault)?;
    let name = || tag.and_then(Reference::tag).map(str::to_owned);
    let output = output.cloned().map(|output| match output {
        Location::Layout { path, tag: None } => Location::Layout { path, tag: name() },
        Location::LayoutArchive { path, tag: None } => Location::LayoutArchive { path, tag: name() },
        Location::DockerArchive { path, reference: None } => {
            Location::DockerArchive { path, reference: tag.map(ToString::to_string) }
        }
        named => named,
    });
    let registry = tag.filter(|_| push).cloned().map(Location::Registry);
    let _line = images.show("pushing");
    for place in output.into_iter().chain(registry) {
        client.push(&image.digest, &place).map_err(|error| {
            let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
            Failure::new(error.class(), format!("{error}{help}"))
        })?;
    }
    Ok(())
}
