//! The blobs of a catalog: text with decoded headers.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::{self, Stamp, TextStore};
use crate::json::{self, JsonObject, Raw, Text};
use crate::legacy::LegacyProperties;
use crate::limits::{Limits, MAX_DEPTH};
use crate::object::{self, RefBase};
use crate::problem::{FileId, Place, Spot};

/// The schema of package blobs.
pub const PACKAGE: &str = "olm.package";
/// The schema of channel blobs.
pub const CHANNEL: &str = "olm.channel";
/// The schema of bundle blobs.
pub const BUNDLE: &str = "olm.bundle";
/// The schema of deprecation blobs.
pub const DEPRECATIONS: &str = "olm.deprecations";

/// The source of file-based catalogs: one or several, in the given order.
///
/// The text of a blob stays in its file until [`Fbc::text`] reads it.
#[derive(Default)]
pub struct Fbc {
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) files: Vec<SourceFile>,
    pub(crate) blobs: Vec<Blob>,
    pub(crate) store: TextStore,
    /// The limits that the catalogs were loaded with.
    pub(crate) limits: Limits,
}

// For errors that keep a catalog; its content can be large.
impl fmt::Debug for Fbc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fbc").field("roots", &self.roots).field("blobs", &self.blobs.len()).finish_non_exhaustive()
    }
}

/// A file that catalog content was read from.
pub(crate) struct SourceFile {
    /// The index of its catalog in [`Fbc::roots`].
    pub(crate) root: usize,
    /// The path relative to that root.
    pub(crate) path: PathBuf,
    /// The state of the file when it was read.
    pub(crate) stamp: Option<Stamp>,
}

/// A reusable buffer for the texts of blobs.
#[derive(Default)]
pub struct TextBuffer {
    bytes: Vec<u8>,
    spans: Vec<json::LongValue>,
}

/// One object of a catalog.
#[derive(Debug)]
pub struct Blob {
    /// The schema, never empty.
    pub schema: Box<str>,
    /// The package it belongs to; for packages their own name, which is the grouping key.
    pub package: Box<str>,
    pub name: Box<str>,
    /// The content decoded while loading.
    pub content: BlobContent,
    /// The source position; `None` for generated blobs.
    pub origin: Option<(FileId, u64)>,
    pub(crate) text: TextAt,
    /// The digest and outline of the text, if it was validated while loading and can be read again.
    pub(crate) known: Option<KnownText>,
    /// Whether it may have fields that its schema does not know.
    pub(crate) may_have_unknown_fields: bool,
}

/// The identity of a validated text, so that reading it again needs no second validation.
#[derive(Debug)]
pub(crate) struct KnownText {
    digest: u128,
    outline: Box<[json::LongValue]>,
}

impl KnownText {
    pub(crate) fn of(text: Raw<'_>) -> KnownText {
        KnownText { digest: digest(text.text()), outline: text.outline() }
    }
}

fn digest(text: &str) -> u128 {
    twox_hash::XxHash3_128::oneshot(text.as_bytes())
}

/// The location of the JSON text of a blob.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TextAt {
    /// In its file, unchanged.
    File { offset: u64, length: usize },
    /// In the store, converted from YAML.
    Store { offset: u64, length: usize },
    /// In the store; its property values are printed as written there.
    Generated { offset: u64, length: usize },
    /// Not kept: [`LoadOptions`](crate::load::LoadOptions) did not request texts.
    Dropped,
}

/// The part of a blob that is decoded while loading.
#[derive(Debug)]
pub enum BlobContent {
    /// An `olm.package`.
    Package { default_channel: Box<str> },
    /// An `olm.channel`.
    Channel {
        /// The entries, in source order.
        entries: Vec<ChannelEntry>,
    },
    /// An `olm.bundle`.
    Bundle(Box<Bundle>),
    /// An `olm.deprecations`.
    Deprecations {
        /// The deprecations, in source order.
        entries: Vec<Deprecation>,
    },
    /// A blob of any other schema.
    Other,
    /// A blob of a known schema that could not be decoded.
    Broken,
}

/// A channel entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelEntry {
    /// The name of the bundle.
    pub name: Box<str>,
    /// The bundle it replaces, or an empty string.
    pub replaces: Box<str>,
    /// The bundles it skips.
    pub skips: Vec<Box<str>>,
    /// The version range that upgrades to it directly.
    pub skip_range: Box<str>,
}

/// The facts about a bundle, without the values of its properties.
#[derive(Debug, Default)]
pub struct Bundle {
    /// The pull spec of its image.
    pub image: Box<str>,
    /// The values of its `olm.package` properties, if they are objects of strings.
    pub package_properties: Vec<PackageProperty>,
    /// The number of objects in it.
    pub objects: u32,
    /// The files of its objects, as referenced; embedded objects have none.
    pub references: Vec<Box<str>>,
    /// The number of its `olm.csv.metadata` properties.
    pub csv_metadata: u32,
    /// Channels, skips and skip ranges from properties, as in the legacy format.
    pub(crate) old_form: Option<Box<LegacyProperties>>,
}

/// The value of an `olm.package` property.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageProperty {
    /// The index among the properties.
    pub index: u32,
    /// The declared package of the bundle.
    pub package_name: Box<str>,
    /// The version, unparsed.
    pub version: Box<str>,
    /// The release, unparsed; empty if there is none.
    pub release: Box<str>,
}

/// One entry of a deprecations blob.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deprecation {
    /// The schema of the deprecated blob.
    pub schema: Box<str>,
    /// The name; empty for the package.
    pub name: Box<str>,
    /// The message for users.
    pub message: Box<str>,
}

impl ChannelEntry {
    /// Converts the entry to JSON, without empty fields.
    pub fn to_json(&self) -> JsonObject {
        let object = JsonObject::new().string("name", &self.name).string_if_any("replaces", &self.replaces);
        let object = match self.skips.is_empty() {
            true => object,
            false => object.strings("skips", self.skips.iter().map(|skip| &**skip)),
        };
        object.string_if_any("skipRange", &self.skip_range)
    }
}

/// Builds the JSON of a channel blob.
pub fn channel_json(package: &str, name: &str, entries: &[ChannelEntry], properties: Option<Raw<'_>>) -> Text {
    let object = JsonObject::new()
        .string("schema", CHANNEL)
        .string("name", name)
        .string("package", package)
        .objects("entries", entries.iter().map(ChannelEntry::to_json));
    match properties {
        Some(properties) => object.value("properties", properties).end(),
        None => object.end(),
    }
}

impl Blob {
    /// Returns the position of a value of this blob in the files.
    pub fn place(&self, path: json::JsonPath) -> Option<Place> {
        self.origin.map(|(file, document)| Place { file, spot: Spot::Value { document, path } })
    }

    /// Returns a digest of its text (XXH3, 128 bits), if the text was read and kept.
    pub fn digest(&self) -> Option<u128> {
        self.known.as_ref().map(|known| known.digest)
    }

    /// Returns whether [`unknown_fields::fields`](crate::unknown_fields::fields) may find fields; `false` is definite.
    pub fn may_have_unknown_fields(&self) -> bool {
        self.may_have_unknown_fields
    }
}

impl Fbc {
    /// Returns the blobs, ordered by catalog, path and position.
    pub fn blobs(&self) -> &[Blob] {
        &self.blobs
    }

    /// Returns the first of its directories that is a bundle rather than a catalog.
    pub fn bundle_directory(&self) -> Option<&Path> {
        self.roots.iter().map(PathBuf::as_path).find(|root| files::is_bundle_dir(root))
    }

    /// Returns a path that can be opened.
    pub fn full_path_of(&self, file: FileId) -> Option<PathBuf> {
        let file = self.files.get(file.0 as usize)?;
        Some(self.roots[file.root].join(&file.path))
    }

    /// Reads the JSON text of a blob into `buffer` and returns it.
    ///
    /// # Errors
    /// Fails if the file is missing or has changed since the catalog was loaded.
    pub fn text<'a>(&self, blob: &Blob, buffer: &'a mut TextBuffer) -> io::Result<Raw<'a>> {
        let TextBuffer { bytes: buffer, spans } = buffer;
        match blob.text {
            TextAt::File { offset, length } => {
                let (file, _) = blob.origin.ok_or(io::ErrorKind::NotFound)?;
                self.read_file(file, offset, length, buffer)?;
            }
            TextAt::Store { offset, length } | TextAt::Generated { offset, length } => {
                buffer.resize(length, 0);
                self.store.read(offset, buffer)?;
            }
            TextAt::Dropped => return Err(io::Error::other("text was not kept")),
        }
        let text = std::str::from_utf8(buffer).map_err(|_| files::changed())?;
        spans.clear();
        if let Some(known) = &blob.known {
            // Validated by digest, regardless of the file's stamp: a different text has not been checked.
            if known.digest != digest(text) {
                return Err(files::changed());
            }
            spans.extend_from_slice(&known.outline);
            return Ok(Raw::from_indexed(text, 0..text.len(), spans));
        }
        Raw::parse_indexed(text, 0, MAX_DEPTH, spans).map_err(|_| files::changed())
    }

    /// Returns the JSON text of a bundle's CSV: the first object of that kind.
    ///
    /// # Errors
    /// Fails as [`Fbc::text`] does.
    pub fn csv(&self, blob: &Blob, limits: &Limits) -> io::Result<Option<String>> {
        let mut buffer = TextBuffer::default();
        let text = self.text(blob, &mut buffer)?;
        Ok(object::csv(text, &self.ref_base(blob, limits)))
    }

    /// Returns the JSON text of each object of a bundle, in order.
    ///
    /// `text` is the result of [`Fbc::text`] for `blob`. Unreadable objects are omitted; loading has reported them.
    pub fn objects(&self, blob: &Blob, text: Raw<'_>, limits: &Limits) -> Vec<String> {
        object::objects(text, &self.ref_base(blob, limits)).collect()
    }

    /// Returns the files that the objects of a blob refer to, relative to its catalog.
    pub fn referenced(&self, blob: &Blob) -> Vec<PathBuf> {
        let BlobContent::Bundle(bundle) = &blob.content else { return Vec::new() };
        let Some(file) = blob.origin.and_then(|(file, _)| self.files.get(file.0 as usize)) else { return Vec::new() };
        let directory = file.path.parent().unwrap_or(Path::new(""));
        bundle.references.iter().filter_map(|reference| object::resolve(directory, reference).ok()).collect()
    }

    /// Returns whether the loaded files are unchanged.
    pub fn is_current(&self) -> bool {
        self.files.iter().all(|file| {
            let now = files::stamp(&self.roots[file.root].join(&file.path));
            now.is_ok_and(|now| file.stamp == Some(now))
        })
    }

    /// Keeps only the blobs for which `keep` returns `true`.
    pub fn retain(&mut self, keep: impl FnMut(&Blob) -> bool) {
        self.blobs.retain(keep);
    }

    /// Returns the base for references in a blob.
    pub(crate) fn ref_base<'a>(&'a self, blob: &Blob, limits: &'a Limits) -> RefBase<'a> {
        let file = blob.origin.map(|(file, _)| &self.files[file.0 as usize]);
        RefBase {
            root: file.map(|file| self.roots[file.root].as_path()),
            directory: file.and_then(|file| file.path.parent()).unwrap_or(Path::new("")),
            limits,
        }
    }

    fn read_file(&self, id: FileId, offset: u64, length: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
        let path = self.full_path_of(id).ok_or(io::ErrorKind::NotFound)?;
        files::read_at(&path, self.files[id.0 as usize].stamp, offset, length, buffer)
    }
}
