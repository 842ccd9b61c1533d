//! One package of a cache: its bundles encoded and compressed, or reused from an older cache.

use std::collections::HashMap;
use std::io;

use fbc::blob::TextBuffer;
use fbc::json::Raw;
use fbc::{Blob, Fbc, Limits};

use zstd::zstd_safe::{CCtx, compress_bound};

use super::Cache;
use super::bundle::{self, BundleFault, Parts};
use super::data::ExtentReader;
use super::format::{self, ContentDigest, Extent, NONE, checksum};
use crate::load::CheckedCatalog;
use site::summarize::{Summarized, Summarizer};

/// The compression level of bodies: the lowest, since the base does most of the work.
pub(super) const LEVEL: i32 = 1;
/// The compression level of summaries: they are small, and read often.
const SUMMARY_LEVEL: i32 = 3;
/// The number of bundles that share a base. Distant versions have little in common.
const GROUP: usize = 64;

/// The records of a package, ready to be stored; its data is separate.
pub(super) struct Encoded {
    /// Its bundles by name. Bases are relative to the first of them.
    pub(super) bundles: Vec<EncodedBundle>,
    pub(super) summary: Extent,
    pub(super) summary_length: u32,
    pub(super) icon: Extent,
}

/// The data of a package. The slim parts of all packages are stored together, apart from the bodies: listing all
/// bundles then touches few pages.
#[derive(Default)]
pub(super) struct PackageData {
    pub(super) slims: Vec<u8>,
    pub(super) bodies: Vec<u8>,
    /// Page data and icon, stored together too.
    pub(super) summaries: Vec<u8>,
}

/// A bundle of an [`Encoded`] package.
pub(super) struct EncodedBundle {
    pub(super) record: format::Bundle,
    /// The provided APIs: group, version, kind.
    pub(super) apis: Vec<[String; 3]>,
}

impl Encoded {
    /// Moves the offsets of the package by those of its data in the file.
    pub(super) fn shift(&mut self, slims: u64, bodies: u64, summaries: u64) {
        self.summary.offset += summaries;
        self.icon.offset += summaries;
        for bundle in &mut self.bundles {
            bundle.record.slim.offset += slims;
            bundle.record.body.offset += bodies;
        }
    }
}

/// Blobs other than bundles, by package.
pub(super) type Others<'a> = HashMap<&'a str, Vec<&'a Blob>>;

/// Groups the blobs of a catalog other than bundles by package.
pub(super) fn others(fbc: &Fbc) -> Others<'_> {
    let mut others = Others::new();
    for blob in fbc.blobs().iter().filter(|blob| &*blob.schema != fbc::blob::BUNDLE) {
        others.entry(&*blob.package).or_default().push(blob);
    }
    others
}

/// Encodes packages one after the other.
pub(super) struct Encoder<'a> {
    content: &'a CheckedCatalog,
    limits: &'a Limits,
    summarize: bool,
    /// Blobs other than bundles, by package.
    others: &'a Others<'a>,
    compressor: CCtx<'static>,
    text: TextBuffer,
    package_text: TextBuffer,
}

/// Why a package cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// A text of the catalog cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A bundle has no blob.
    #[error("bundle has no blob")]
    NoBlob,
    /// A bundle cannot be encoded.
    #[error("bundle {bundle:?}: {source}")]
    Bundle {
        bundle: String,
        /// Why.
        source: BundleFault,
    },
    /// A bundle is larger than the format allows.
    #[error("bundle is too large")]
    BundleTooLarge,
    /// The page data of the package is larger than the format allows.
    #[error("package is too large")]
    PackageTooLarge,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(
        content: &'a CheckedCatalog,
        limits: &'a Limits,
        summarize: bool,
        others: &'a Others<'a>,
    ) -> Encoder<'a> {
        let (text, package_text) = Default::default();
        Encoder { content, limits, summarize, others, compressor: CCtx::create(), text, package_text }
    }

    /// Encodes a package: its records, and its data.
    ///
    /// # Errors
    /// Fails with the problem of one of its bundles.
    pub(super) fn encode(&mut self, package: &catalog::Package) -> Result<(Encoded, PackageData), EncodeError> {
        let fbc = &self.content.fbc;
        let others = self.others.get(package.name()).map(Vec::as_slice).unwrap_or_default();
        let mut summarizer = self.summarize.then(|| Summarizer::new(package));
        let package_text = match others.iter().find(|blob| &*blob.schema == fbc::blob::PACKAGE) {
            Some(blob) => Some(fbc.text(blob, &mut self.package_text)?),
            None => None,
        };
        let mut order: Vec<(usize, &str, &catalog::Bundle)> =
            package.bundles().enumerate().map(|(i, (name, bundle))| (i, name, bundle)).collect();
        order.sort_by(|a, b| a.2.version.cmp_precedence(&b.2.version));
        let mut bundles: Vec<Option<EncodedBundle>> = order.iter().map(|_| None).collect();
        let mut data = PackageData::default();
        let mut packed = Vec::new();
        for group in order.chunks(GROUP) {
            let mut base: Option<(usize, Vec<u8>)> = None;
            for (index, name, bundle) in group {
                let named = |source| EncodeError::Bundle { bundle: (*name).to_owned(), source };
                let blob = fbc.blobs().get(bundle.blob).ok_or(EncodeError::NoBlob)?;
                let text = fbc.text(blob, &mut self.text).map_err(|error| named(error.into()))?;
                let summarize = |csv: Option<Raw<'_>>| {
                    if let Some(summarizer) = &mut summarizer {
                        summarizer.bundle(name, bundle, text, csv);
                    }
                };
                let parts =
                    bundle::encode(fbc, self.limits, blob, bundle, text, package_text, summarize).map_err(named)?;
                let dictionary = base.as_ref().map_or(&[][..], |(_, bytes)| bytes);
                packed.clear();
                packed.reserve(compress_bound(parts.body.len()));
                self.compressor
                    .compress_using_dict(&mut packed, &parts.body, dictionary, LEVEL)
                    .map_err(|code| named(BundleFault::Compression(zstd::zstd_safe::get_error_name(code))))?;
                let mut record = row(&parts, &bundle.image, &mut data, &packed)?;
                record.base = base.as_ref().map_or(NONE, |(index, _)| *index as u32);
                bundles[*index] = Some(EncodedBundle { record, apis: bundle::provided_apis(&parts.slim) });
                if base.is_none() && !parts.body.is_empty() {
                    base = Some((*index, parts.body));
                }
            }
        }
        let bundles = bundles.into_iter().flatten().collect();
        let (summary, summary_length, icon) = match summarizer {
            Some(summarizer) => summary(&summarizer.finish(fbc, others.iter().copied())?, &mut data)?,
            None => Default::default(),
        };
        Ok((Encoded { bundles, summary, summary_length, icon }, data))
    }
}

/// Adds the page data of a package.
fn summary(made: &Summarized, data: &mut PackageData) -> Result<(Extent, u32, Extent), EncodeError> {
    let summary = made.package.write();
    let packed = zstd::bulk::compress(&summary, SUMMARY_LEVEL)?;
    let length = u32::try_from(summary.len()).map_err(|_| EncodeError::PackageTooLarge)?;
    Ok((put(&mut data.summaries, &packed)?, length, put(&mut data.summaries, &made.icon)?))
}

fn number(length: usize) -> Result<u32, EncodeError> {
    u32::try_from(length).map_err(|_| EncodeError::BundleTooLarge)
}

fn put(data: &mut Vec<u8>, bytes: &[u8]) -> Result<Extent, EncodeError> {
    let offset = data.len() as u64;
    data.extend_from_slice(bytes);
    Ok(Extent { offset, length: number(bytes.len())?, checksum: checksum(bytes) })
}

fn row(parts: &Parts, image: &str, data: &mut PackageData, packed: &[u8]) -> Result<format::Bundle, EncodeError> {
    Ok(format::Bundle {
        has_image: u32::from(!image.is_empty()),
        slim: put(&mut data.slims, &parts.slim)?,
        before_skip_range: number(parts.before_skip_range)?,
        before_replaces: number(parts.before_replaces)?,
        body: put(&mut data.bodies, packed)?,
        body_length: number(parts.body.len())?,
        objects_length: number(parts.objects_length)?,
        csv_start: number(parts.csv_start)?,
        csv_length: number(parts.csv_length)?,
        ..format::Bundle::default()
    })
}

/// Copies a package from an older cache, if it is present with the same content and undamaged.
///
/// A package without a summary is encoded again if a summary is needed. A summary that is not needed is kept.
pub(super) fn reuse(
    old: &Cache,
    package: &catalog::Package,
    content: &ContentDigest,
    summarized: bool,
) -> Option<(Encoded, PackageData)> {
    let (_, found) = old.find_package(package.name())?;
    if summarized && found.summary_length == 0 {
        return None;
    }
    if found.content != *content || found.bundles.count as usize != package.bundles().count() {
        return None;
    }
    let mut data = PackageData::default();
    let mut reader = ExtentReader::default();
    let mut bundles = Vec::new();
    for ((name, _), (_, mut record)) in package.bundles().zip(old.bundles_of(&found)) {
        if old.text(record.name) != Some(name) {
            return None;
        }
        let apis = bundle::provided_apis(reader.extent(old, &record.slim, 0).ok()?);
        for (extent, data) in [(&mut record.slim, &mut data.slims), (&mut record.body, &mut data.bodies)] {
            let bytes = reader.extent(old, extent, 0).ok()?;
            extent.offset = data.len() as u64;
            data.extend_from_slice(bytes);
        }
        if record.base != NONE {
            record.base = record.base.checked_sub(found.bundles.first)?;
        }
        bundles.push(EncodedBundle { record, apis });
    }
    let [summary, icon] = [found.summary, found.icon].map(|extent| {
        let bytes = reader.extent(old, &extent, 0).ok()?;
        put(&mut data.summaries, bytes).ok()
    });
    let (summary, icon, summary_length) = (summary?, icon?, found.summary_length);
    let whole = bundles.len() == found.bundles.count as usize;
    whole.then_some((Encoded { bundles, summary, summary_length, icon }, data))
}
