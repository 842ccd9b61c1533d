//! Opens what a user names: a directory, an image or a database, with a catalog or a bundle.
//!
//! [`resolve`](mod@crate::resolve) decides what a name means; images are pulled and unpacked by [`Images`]. [`load`](mod@load) renders sources as one
//! catalog, [`open`] checks a single one, [`bundles`] and [`catalog_bundles`] read bundles.
//!
//! Nothing is printed, and nothing is read from the environment: callers pass settings, and get typed errors.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bundle_image;
pub mod bundles;
pub mod catalog_bundles;
mod check;
mod composite;
mod container;
pub mod database;
mod delivery;
mod directory;
mod dockerfile;
mod error;
mod fetch;
mod followed;
mod images;
mod index_image;
mod inputs;
mod load;
mod new_files;
mod progress;
mod rehearse;
mod resolve;
mod site_folder;
mod template;
mod unpack;
mod unpack_bundle;
mod write;

pub use self::resolve::{NamedSource, is_database, no_source, resolve, resolve_one};
pub use bundle_image::{
    BUNDLE_DOCKERFILE, BuildBundle, BundleImageError, ChosenDockerfile, GenerateBundle, GeneratedBundle, PlannedBundle,
};
pub use catalog::DATABASE_LABEL;
pub use check::{CheckBundles, CheckBundlesError, check_bundles};
pub use composite::{CompositeError, CompositeRequest, InvalidDirectories, InvalidDirectory, render_composite};
pub use container::{ContainerTool, ToolError};
pub use delivery::Delivery;
pub use directory::{CatalogDirectory, directory};
pub use dockerfile::{
    DEFAULT_IMAGE, DockerfileError, DockerfileRequest, surplus_files, write_dockerfile, write_index_dockerfile,
};
pub use error::{Invalid, SourceError};
pub use fetch::Fetcher;
pub use followed::{Followed, FollowedChange};
pub use image::{CONFIGS, CONFIGS_LABEL};
pub use images::{
    Fetched, ImageKind, Images, PullSettings, RegistrySettings, UnpackedIndex, data_only_catalog, inside,
    is_index_from_scratch,
};
pub use index_image::{IndexImageError, IndexImageRequest, build_index_image};
pub use inputs::{CatalogInputError, catalog_inputs};
pub use load::{Failed, LoadedCatalog, Rejected, SourceOptions, load, load_catalog, open, read, read_unchecked};
pub use new_files::NewFiles;
pub use progress::{NoProgress, RunningStage, SourceProgress, SourceStage};
pub use rehearse::{
    OpenedRehearsal, RehearseSourceError, RehearsedBundles, RehearsedSource, open_rehearsal, write_objects,
};
pub use site_folder::{SITE_MARK, SiteFolder, SiteFolderError};
pub use template::{TemplateReferenceError, template_bundles};
pub use unpack::{CatalogUnpackError, UnpackReport, UnpackRequest, UnpackedFiles, unpack_directory, unpack_image};
pub use unpack_bundle::{UnpackBundle, UnpackBundleError, UnpackedBundle, unpack_bundle};
pub use write::{CatalogLayout, write, write_new};
