//! The parts of a catalog as they are written: blobs, still as text, with their headers decoded.

use std::io;
use std::path::{Path, PathBuf};

use crate::files::{self, Stamp, Store};
use crate::json::{self, Object, Raw, Text};
use crate::limits::{Limits, MAX_DEPTH};
use crate::object::{self, RefBase};
use crate::oldform::OldForm;
use crate::problem::{FileId, Place, Spot};

/// The schema of package blobs.
pub const PACKAGE: &str = "olm.package";
/// The schema of channel blobs.
pub const CHANNEL: &str = "olm.channel";
/// The schema of bundle blobs.
pub const BUNDLE: &str = "olm.bundle";
/// The schema of deprecation blobs.
pub const DEPRECATIONS: &str = "olm.deprecations";

/// File-based catalogs as they are written: one or several, in the order they were given.
///
/// The text of a blob stays in its file until somebody asks for it with [`Fbc::text`].
#[derive(Default)]
pub struct Fbc {
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) files: Vec<SourceFile>,
    pub(crate) blobs: Vec<Blob>,
    pub(crate) store: Store,
    /// The bounds that the catalogs were loaded with.
    pub(crate) limits: Limits,
}

/// A file that catalog content was read from.
pub(crate) struct SourceFile {
    /// Index of its catalog in [`Fbc::roots`].
    pub(crate) root: usize,
    /// Its path below that root.
    pub(crate) path: PathBuf,
    /// What it looked like when it was read.
    pub(crate) stamp: Option<Stamp>,
}

/// Room for the text of a blob, to be used for one after the other.
#[derive(Default)]
pub struct TextBuffer {
    bytes: Vec<u8>,
    spans: Vec<json::Span>,
}

/// One object of a catalog.
#[derive(Debug)]
pub struct Blob {
    /// The schema, never empty.
    pub schema: Box<str>,
    /// The package it belongs to; for packages their own name, as groups are made by it.
    pub package: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// What is decoded at once.
    pub content: Content,
    /// Where it was read; nowhere for what was made.
    pub origin: Option<(FileId, u64)>,
    pub(crate) text: TextAt,
    /// What is known of that text, if it was checked when it was loaded and can be read again.
    pub(crate) known: Option<KnownText>,
    /// Whether it may have fields that its schema does not know.
    pub(crate) strange: bool,
}

/// A text that was checked once and is known again, so that reading it a second time costs no second check.
#[derive(Debug)]
pub(crate) struct KnownText {
    digest: u128,
    outline: Box<[json::Span]>,
}

impl KnownText {
    pub(crate) fn of(text: Raw<'_>) -> KnownText {
        KnownText { digest: digest(text.text()), outline: text.outline() }
    }
}

fn digest(text: &str) -> u128 {
    twox_hash::XxHash3_128::oneshot(text.as_bytes())
}

/// Where the JSON text of a blob is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TextAt {
    /// In its file, as it is.
    File { offset: u64, length: usize },
    /// In the store, made from YAML.
    Store { offset: u64, length: usize },
    /// In the store, and its property values are to be printed as they are spelled there.
    Made { offset: u64, length: usize },
    /// Nowhere: nobody is going to ask.
    Dropped,
}

/// The part of a blob that is decoded when it is loaded.
#[derive(Debug)]
pub enum Content {
    /// An `olm.package`.
    Package {
        /// The channel that is followed unless another is asked for.
        default_channel: Box<str>,
    },
    /// An `olm.channel`.
    Channel {
        /// Its entries, as listed.
        entries: Vec<Entry>,
    },
    /// An `olm.bundle`.
    Bundle(Box<Bundle>),
    /// An `olm.deprecations`.
    Deprecations {
        /// What is deprecated, as listed.
        entries: Vec<Deprecation>,
    },
    /// A blob of any other schema.
    Other,
    /// A blob of a known schema that could not be decoded.
    Broken,
}

/// A bundle's place in a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The name of the bundle.
    pub name: Box<str>,
    /// The bundle it replaces, or nothing.
    pub replaces: Box<str>,
    /// The bundles that can be left out on the way to it.
    pub skips: Vec<Box<str>>,
    /// The versions that can upgrade to it directly.
    pub skip_range: Box<str>,
}

/// What is known of a bundle without its properties' values.
#[derive(Debug, Default)]
pub struct Bundle {
    /// The pull spec of its image.
    pub image: Box<str>,
    /// The values of its `olm.package` properties that are objects of strings.
    pub package_properties: Vec<PackageProperty>,
    /// How many objects it carries.
    pub objects: u32,
    /// The files that its objects are in, as it names them; none for objects that it holds itself.
    pub references: Vec<Box<str>>,
    /// How many `olm.csv.metadata` properties it has.
    pub csv_metadata: u32,
    /// Channels, skips and skip ranges given by properties, as the first format had them.
    pub(crate) old_form: Option<Box<OldForm>>,
}

/// The value of an `olm.package` property.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageProperty {
    /// Its index among the properties.
    pub index: u32,
    /// The package that the bundle says it belongs to.
    pub package_name: Box<str>,
    /// The version, not yet parsed.
    pub version: Box<str>,
    /// The release, not yet parsed; empty when there is none.
    pub release: Box<str>,
}

/// One entry of a deprecations blob.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deprecation {
    /// The schema of what is deprecated.
    pub schema: Box<str>,
    /// Its name; empty for the package.
    pub name: Box<str>,
    /// What users see.
    pub message: Box<str>,
}

impl Entry {
    /// Writes the entry as JSON, without the fields that are empty.
    pub fn to_json(&self) -> Object {
        let object = Object::new().string("name", &self.name).string_if_any("replaces", &self.replaces);
        let object = match self.skips.is_empty() {
            true => object,
            false => object.strings("skips", self.skips.iter().map(|skip| &**skip)),
        };
        object.string_if_any("skipRange", &self.skip_range)
    }
}

/// Writes the blob of a channel as JSON.
pub fn channel_json(package: &str, name: &str, entries: &[Entry], properties: Option<Raw<'_>>) -> Text {
    let object = Object::new()
        .string("schema", CHANNEL)
        .string("name", name)
        .string("package", package)
        .objects("entries", entries.iter().map(Entry::to_json));
    match properties {
        Some(properties) => object.value("properties", properties).end(),
        None => object.end(),
    }
}

impl Blob {
    /// Returns where in the files a value of this blob stands.
    pub fn place(&self, path: json::Path) -> Option<Place> {
        self.origin.map(|(file, document)| Place { file, spot: Spot::Value { document, path } })
    }

    /// Returns a digest of its text (XXH3, 128 bits), if that was read and kept.
    pub fn digest(&self) -> Option<u128> {
        self.known.as_ref().map(|known| known.digest)
    }

    /// Returns whether [`unknown::fields`](crate::unknown::fields) may find fields of it; `false` is certain.
    pub fn may_have_unknown_fields(&self) -> bool {
        self.strange
    }
}

impl Fbc {
    /// Returns the blobs: in order of path and position, and of catalogs if there are several.
    pub fn blobs(&self) -> &[Blob] {
        &self.blobs
    }

    /// Returns a file's path as it can be opened.
    pub fn full_path_of(&self, file: FileId) -> Option<PathBuf> {
        let file = self.files.get(file.0 as usize)?;
        Some(self.roots[file.root].join(&file.path))
    }

    /// Reads the JSON text of a blob into `buffer` and returns it.
    ///
    /// # Errors
    /// Fails when the file is gone or is not what it was when the catalog was loaded.
    pub fn text<'a>(&self, blob: &Blob, buffer: &'a mut TextBuffer) -> io::Result<Raw<'a>> {
        let TextBuffer { bytes: buffer, spans } = buffer;
        match blob.text {
            TextAt::File { offset, length } => {
                let (file, _) = blob.origin.ok_or(io::ErrorKind::NotFound)?;
                self.read_file(file, offset, length, buffer)?;
            }
            TextAt::Store { offset, length } | TextAt::Made { offset, length } => {
                buffer.resize(length, 0);
                self.store.read(offset, buffer)?;
            }
            TextAt::Dropped => return Err(io::Error::other("text was not kept")),
        }
        let text = std::str::from_utf8(buffer).map_err(|_| files::changed())?;
        spans.clear();
        if let Some(known) = &blob.known {
            // Whatever the file's stamp says: another text was not checked.
            if known.digest != digest(text) {
                return Err(files::changed());
            }
            spans.extend_from_slice(&known.outline);
            return Ok(Raw::from_indexed(text, 0..text.len(), spans));
        }
        Raw::parse_indexed(text, 0, MAX_DEPTH, spans).map_err(|_| files::changed())
    }

    /// Returns the JSON text of a bundle's CSV: the first of its objects that is one.
    ///
    /// # Errors
    /// Fails as [`Fbc::text`] does.
    pub fn csv(&self, blob: &Blob, limits: &Limits) -> io::Result<Option<String>> {
        let mut buffer = TextBuffer::default();
        let text = self.text(blob, &mut buffer)?;
        Ok(object::csv(text, &self.ref_base(blob, limits)))
    }

    /// Returns the JSON text of each object that a bundle carries, in order.
    ///
    /// `text` is what [`Fbc::text`] gave for `blob`. Objects that cannot be read are left out;
    /// loading has reported them.
    pub fn objects(&self, blob: &Blob, text: Raw<'_>, limits: &Limits) -> Vec<String> {
        object::objects(text, &self.ref_base(blob, limits)).collect()
    }

    /// Returns the files that the objects of a blob are in, by their paths below its catalog.
    pub fn referenced(&self, blob: &Blob) -> Vec<PathBuf> {
        let Content::Bundle(bundle) = &blob.content else { return Vec::new() };
        let Some(file) = blob.origin.and_then(|(file, _)| self.files.get(file.0 as usize)) else { return Vec::new() };
        let directory = file.path.parent().unwrap_or(Path::new(""));
        bundle.references.iter().filter_map(|reference| object::resolve(directory, reference).ok()).collect()
    }

    /// Returns whether the files that were loaded still look as they did then.
    pub fn is_current(&self) -> bool {
        self.files.iter().all(|file| {
            let now = files::stamp(&self.roots[file.root].join(&file.path));
            now.is_ok_and(|now| file.stamp == Some(now))
        })
    }

    /// Keeps only the blobs that `keep` says yes to.
    pub fn retain(&mut self, keep: impl FnMut(&Blob) -> bool) {
        self.blobs.retain(keep);
    }

    /// Returns where references in a blob lead to.
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
