//! The flags that select bundles of a catalog.

use resolve::request::{self, InstallRequest};

/// Bundle selection
#[derive(clap::Args)]
pub(crate) struct BundleSelectionArgs {
    /// Package of the catalog, optionally with channel or version
    #[arg(short, long, value_name = "PACKAGE[@CHANNEL][=VERSION]", value_parser = request::parse)]
    pub(crate) package: Option<InstallRequest>,
    /// Installed version or bundle of the package
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: Option<String>,
    /// New version or bundle of the package; defaults to the channel head
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: Option<String>,
    /// Skip bundles whose objects are only in their images, instead of pulling the images
    #[arg(long)]
    pub(crate) no_pull: bool,
}

impl BundleSelectionArgs {
    /// Returns the selection.
    pub(crate) fn picked(&self) -> source::catalog_bundles::BundleSelector<'_> {
        let wish = self.package.as_ref();
        source::catalog_bundles::BundleSelector {
            package: wish.map(|wish| wish.package.as_str()),
            channel: wish.and_then(|wish| wish.channel.as_deref()),
            from: self.from.as_deref(),
            to: self.to.as_deref().or(wish.and_then(|wish| wish.version.as_deref())),
            pull: !self.no_pull,
        }
    }
}
