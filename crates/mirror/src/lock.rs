//! The lock: every selected image by digest, with the bundles that need it and its destination.
//!
//! The same catalogs and the same file give the same lock, byte for byte: everything is sorted, and it contains
//! neither times nor local paths.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use image::{Digest, Hasher, Platform, Reference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::destination::is_path;

/// The version of the format.
const VERSION: u32 = 1;
/// Maximum size of a lock.
pub const LIMIT: u64 = 256 << 20;
/// Maximum number of images in a lock.
const IMAGES: usize = 200_000;

/// Why a lock is invalid.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// It is too large.
    #[error("the lock has more than {LIMIT} bytes")]
    TooLarge,
    /// It is no lock.
    #[error("not a mirror lock: {0}")]
    Syntax(#[from] serde_json::Error),
    /// Another opm wrote it.
    #[error("the lock has version {0}, this opm supports {VERSION}")]
    Version(u32),
    /// It has too many images.
    #[error("the lock has more than {IMAGES} images")]
    TooManyImages,
    /// The digest of an image is invalid.
    #[error("{image}: {text:?} is not a digest")]
    ImageDigest {
        image: String,
        /// Its digest.
        text: String,
    },
    /// The digest of something else is invalid.
    #[error("{0:?} is not a digest")]
    NotADigest(String),
    /// The lock does not record what was requested.
    #[error("the lock has no valid digest of its request")]
    NoRequest,
    /// A value of an image is invalid.
    #[error("{image}: invalid value {text:?}")]
    Value {
        image: String,
        /// The value.
        text: String,
    },
    /// An image or a catalog cannot have this destination.
    #[error("{source_name}: {path}:{tag} is not a valid destination")]
    Destination {
        /// The image or the catalog.
        source_name: String,
        /// The repository.
        path: String,
        tag: String,
    },
    /// Different images have the same destination.
    #[error("two images have the destination {path}:{tag}")]
    SameDestination {
        /// The repository.
        path: String,
        tag: String,
    },
    /// The name of a catalog is not a directory name, or another catalog has it.
    #[error("catalog name {0:?} is invalid or duplicate")]
    CatalogName(String),
    /// The lock does not list the image of a catalog.
    #[error("the image of catalog {0} is not in the list of images")]
    CatalogImage(String),
    /// A catalog has neither a reference nor a path.
    #[error("catalog {0}: the lock has no source for it")]
    CatalogSource(String),
}

/// The selected content.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    /// The version of the format.
    pub version: u32,
    /// The digest of the request file and of the flags that affect the selection.
    pub request: String,
    pub catalogs: Vec<LockedCatalog>,
    /// All images, including catalogs, sorted by destination.
    pub images: Vec<LockedImage>,
    /// Excluded content, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A selected catalog.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedCatalog {
    /// The catalog, as named in the file.
    pub source: String,
    /// Its digest.
    pub digest: String,
    /// The directory of its selected part, and its name in reports.
    pub name: String,
    /// The digest of the selected content; empty until it is written.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// The digest of its image at the destination; empty until it is built.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Whether the catalog is mirrored unchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// The destination repository.
    pub path: String,
    /// The destination tag.
    pub tag: String,
    /// The CatalogSource template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<serde_json::Value>,
    /// The directory of the catalog in its image, if the image has no program to serve it: clusters extract the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract_content: Option<String>,
    /// The selected packages.
    pub packages: BTreeMap<String, LockedPackage>,
}

/// A selected package.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedPackage {
    /// Its default channel.
    pub default_channel: String,
    /// The selected bundles of each channel.
    pub channels: BTreeMap<String, Vec<String>>,
}

/// The role of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Bundle,
    /// An image that a bundle references.
    Related,
    /// An additional image from the file.
    Additional,
    Catalog,
}

/// A selected image.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedImage {
    /// The image, as referenced by its source.
    pub source: String,
    /// The pinned digest.
    pub digest: String,
    pub media_type: String,
    /// The total size in bytes, including referrers.
    pub bytes: u64,
    /// The platforms to mirror; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<String>,
    /// Signatures and other referrers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub referrers: Vec<LockedReferrer>,
    /// The destination repository, without the registry.
    pub path: String,
    /// The destination tag.
    pub tag: String,
    pub role: Role,
    /// The bundles that need it, as `package/bundle`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
}

/// A referrer of an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedReferrer {
    /// The digest of its manifest.
    pub digest: String,
    /// Its tag; `None` if registries list it by its subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Its subject, if registries list it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// Excluded content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeftOut {
    /// The image or bundle.
    pub source: String,
    pub reason: String,
    /// The bundles that reference it, as `package/bundle`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
}

impl LockedCatalog {
    /// Returns its bundles, as `package/bundle`; one of several channels comes several times.
    pub(crate) fn bundles(&self) -> impl Iterator<Item = String> + '_ {
        self.packages.iter().flat_map(|(name, package)| {
            package.channels.values().flatten().map(move |bundle| format!("{name}/{bundle}"))
        })
    }
}

impl LockedImage {
    /// Returns the parsed digest.
    ///
    /// # Errors
    /// Fails when the digest is invalid.
    pub fn digest(&self) -> Result<Digest, LockError> {
        let invalid = |_| LockError::ImageDigest { image: self.source.clone(), text: self.digest.clone() };
        self.digest.parse().map_err(invalid)
    }

    /// Sorts its lists.
    pub(crate) fn sort(&mut self) {
        self.referrers.sort();
        self.referrers.dedup();
        self.used_by.sort();
        self.used_by.dedup();
    }

    /// Compares the places of two images in a lock.
    pub(crate) fn order(&self, other: &LockedImage) -> Ordering {
        let Self { path, tag, digest, source, .. } = other;
        (&self.path, &self.tag, &self.digest, &self.source).cmp(&(path, tag, digest, source))
    }

    /// Returns the platforms to mirror.
    pub fn platforms(&self) -> Vec<Platform> {
        self.platforms.iter().filter_map(|platform| platform.parse().ok()).collect()
    }

    /// Returns the digests of its manifest and its referrers.
    pub fn tops(&self) -> impl Iterator<Item = Digest> + '_ {
        let all = std::iter::once(&self.digest).chain(self.referrers.iter().map(|referrer| &referrer.digest));
        all.filter_map(|digest| digest.parse().ok())
    }
}

impl Lock {
    /// Creates an empty lock.
    pub fn new(request: Digest) -> Lock {
        Lock { version: VERSION, request: request.to_string(), ..Lock::default() }
    }

    /// Sorts everything, so that the same selection gives the same bytes.
    pub fn sort(&mut self) {
        self.catalogs.sort_by(|a, b| (&a.path, &a.tag).cmp(&(&b.path, &b.tag)));
        self.images.iter_mut().for_each(LockedImage::sort);
        self.images.sort_by(LockedImage::order);
        self.left_out.sort();
        self.left_out.dedup();
    }

    /// Returns the serialized lock.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Returns the digest of the lock, which identifies its content.
    pub fn digest(&self) -> Digest {
        let mut hashing = Hashing(Hasher::new());
        // Neither hashing nor serializing a lock can fail.
        let _ = serde_json::to_writer_pretty(&mut hashing, self);
        hashing.0.update(b"\n");
        hashing.0.finish()
    }

    /// Parses an untrusted lock.
    ///
    /// # Errors
    /// Fails when the text is not a lock or contains invalid values.
    pub fn read(text: &[u8]) -> Result<Lock, LockError> {
        if text.len() as u64 > LIMIT {
            return Err(LockError::TooLarge);
        }
        let lock: Lock = serde_json::from_slice(text)?;
        if lock.version != VERSION {
            return Err(LockError::Version(lock.version));
        }
        if lock.images.len() > IMAGES {
            return Err(LockError::TooManyImages);
        }
        let mut places: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for image in &lock.images {
            image.digest()?;
            check_place(&image.source, &image.path, &image.tag)?;
            let to_error = |text: &String| LockError::Value { image: image.source.clone(), text: text.clone() };
            if let Some(platform) = image.platforms.iter().find(|it| it.parse::<Platform>().is_err()) {
                return Err(to_error(platform));
            }
            for referrer in &image.referrers {
                let digests = std::iter::once(&referrer.digest).chain(&referrer.subject);
                if let Some(bad) = digests.into_iter().find(|digest| digest.parse::<Digest>().is_err()) {
                    return Err(to_error(bad));
                }
                if let Some(tag) = &referrer.tag {
                    check_place(&image.source, &image.path, tag)?;
                }
            }
            if let Some(other) = places.insert((&image.path, &image.tag), &image.digest)
                && other != image.digest
            {
                return Err(LockError::SameDestination { path: image.path.clone(), tag: image.tag.clone() });
            }
        }
        let mut names = BTreeSet::new();
        for catalog in &lock.catalogs {
            check_place(&catalog.source, &catalog.path, &catalog.tag)?;
            if !is_name(&catalog.name) || !names.insert(&catalog.name) {
                return Err(LockError::CatalogName(catalog.name.clone()));
            }
            if !catalog.image.is_empty() && !lock.images.iter().any(|image| image.digest == catalog.image) {
                return Err(LockError::CatalogImage(catalog.name.clone()));
            }
        }
        Ok(lock)
    }

    /// Returns the distinct bundles, as `package/bundle`.
    pub fn bundles(&self) -> BTreeSet<String> {
        self.catalogs.iter().flat_map(LockedCatalog::bundles).collect()
    }
}

/// A writer that only computes a digest.
struct Hashing(Hasher);

impl io::Write for Hashing {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0.update(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn check_place(source: &str, path: &str, tag: &str) -> Result<(), LockError> {
    let whole = format!("registry.invalid/{path}:{tag}");
    match is_path(path) && Reference::parse(&whole).is_ok() {
        true => Ok(()),
        false => Err(LockError::Destination { source_name: source.into(), path: path.into(), tag: tag.into() }),
    }
}

/// Returns whether a text can be a directory name.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty() && text.len() <= 200 && !text.starts_with('.') && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(path: &str, tag: &str, fill: &str) -> LockedImage {
        LockedImage {
            source: format!("quay.io/{path}:{tag}"),
            digest: format!("sha256:{}", fill.repeat(64)),
            media_type: image::media_type::OCI_MANIFEST.into(),
            bytes: 3,
            platforms: Vec::new(),
            referrers: Vec::new(),
            path: path.into(),
            tag: tag.into(),
            role: Role::Related,
            used_by: vec!["p/p.v1".into()],
        }
    }

    #[test]
    fn a_lock_is_read_back_and_invalid_ones_are_rejected() {
        let mut lock = Lock::new(Digest::of(b"request"));
        lock.images = vec![image("b/c", "v1", "1"), image("a", "v1", "0")];
        lock.sort();
        assert_eq!(lock.images[0].path, "a");
        assert_eq!(Lock::read(lock.to_text().as_bytes()).unwrap(), lock);
        assert_eq!(lock.digest(), Digest::of(lock.to_text().as_bytes()));
        // Locks of earlier versions do not record which catalogs only hold data, and neither does one without such.
        let mut one = lock.clone();
        let named = LockedCatalog { name: "a".into(), path: "a".into(), tag: "b".into(), ..LockedCatalog::default() };
        one.catalogs.push(named);
        assert!(!one.to_text().contains("extractContent"));
        one.catalogs[0].extract_content = Some("/configs".into());
        assert_eq!(Lock::read(one.to_text().as_bytes()).unwrap(), one);
        let refused = |change: &dyn Fn(&mut Lock)| {
            let mut other = lock.clone();
            change(&mut other);
            Lock::read(other.to_text().as_bytes()).unwrap_err().to_string()
        };
        assert!(refused(&|lock| lock.images[0].path = "../x".into()).contains("is not a valid destination"));
        assert!(refused(&|lock| lock.images[0].digest = "sha256:0".into()).contains("is not a digest"));
        assert!(refused(&|lock| lock.version = 9).contains("has version 9"));
        assert!(
            refused(&|lock| lock.images.push(image("a", "v1", "2"))).contains("two images have the destination a:v1")
        );
        let catalog =
            LockedCatalog { name: "../x".into(), path: "a".into(), tag: "b".into(), ..LockedCatalog::default() };
        assert!(refused(&|lock| lock.catalogs.push(catalog.clone())).contains("is invalid or duplicate"));
        assert!(Lock::read(b"{\"version\":1,\"more\":2}").is_err());
    }

    #[test]
    fn a_lock_has_limits() {
        let large = vec![b' '; usize::try_from(LIMIT).unwrap() + 1];
        assert!(Lock::read(&large).unwrap_err().to_string().contains("more than 268435456 bytes"));
        drop(large);
        let mut lock = Lock::new(Digest::of(b"request"));
        lock.images = vec![image("a", "v1", "0"); IMAGES + 1];
        let text = serde_json::to_vec(&lock).unwrap();
        assert!(Lock::read(&text).unwrap_err().to_string().contains("200000"), "{:?}", Lock::read(&text).err());
    }
}
