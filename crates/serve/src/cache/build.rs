//! Writes cache files.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use catalog::query::message;
use fbc::release::cmp_version_release;
use fbc::{BlobContent, Limits};

use super::Cache;
use super::format::{
    self, Checksum, ContentDigest, Extent, HEADER_SIZE, KINDS, RecordField, Section, SectionKind, Span, Text,
};
use super::package::{self, Encoded, PackageData};
use super::sources::Stamp;
use crate::load::{CheckedCatalog, LoadError};

/// The input of a cache build.
pub(super) struct Input<'a> {
    pub(super) content: &'a CheckedCatalog,
    pub(super) limits: &'a Limits,
    pub(super) stamps: &'a [Stamp],
    pub(super) digests: &'a [ContentDigest],
    pub(super) sources: ContentDigest,
    /// Extracts page data, if pages are served.
    pub(super) summarize: bool,
    /// A previous cache whose unchanged packages are reused.
    pub(super) old: Option<&'a Cache>,
}

/// The reason why a cache could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes a whole cache file; returns the number of packages reused from the previous one.
pub(super) fn write<W: Write + Seek + Send>(input: &Input<'_>, out: &mut W) -> Result<usize, WriteError> {
    out.write_all(&[0; HEADER_SIZE])?;
    let mut data = Data { out, length: 0, checksum: Checksum::new() };
    let (encoded, reused) = encode_packages(input, &mut data)?;
    let mut tables = Tables::default();
    for (package, encoded) in input.content.catalog.packages().iter().zip(encoded) {
        let digest = input.content.packages.get(package.name()).copied().unwrap_or_default();
        tables.add_package(package, digest, encoded, &mut data)?;
    }
    add_customs(input, &mut tables, &mut data)?;
    add_sources(input, &mut tables);
    let Data { out, length, checksum } = data;
    let mut sections = [Section::default(); KINDS];
    sections[SectionKind::Data as usize] = Section { offset: HEADER_SIZE as u64, length, checksum: checksum.finish() };
    let mut at = HEADER_SIZE as u64 + length;
    for (kind, bytes) in tables.finish()? {
        let checksum = format::checksum(&bytes);
        sections[kind as usize] = Section { offset: at, length: bytes.len() as u64, checksum };
        out.write_all(&bytes)?;
        at += bytes.len() as u64;
    }
    out.seek(SeekFrom::Start(0))?;
    out.write_all(&format::write_header(&sections, at))?;
    out.flush()?;
    Ok(reused)
}

/// The data section while it is written.
struct Data<'a, W> {
    out: &'a mut W,
    length: u64,
    checksum: Checksum,
}

impl<W: Write> Data<'_, W> {
    /// Appends `bytes` and returns their offset.
    fn put(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.length;
        self.out.write_all(bytes)?;
        self.checksum.add(bytes);
        self.length += bytes.len() as u64;
        Ok(at)
    }

    fn put_extent(&mut self, bytes: &[u8]) -> io::Result<Extent> {
        let length = u32::try_from(bytes.len()).map_err(|_| too_large())?;
        Ok(Extent { offset: self.put(bytes)?, length, checksum: format::checksum(bytes) })
    }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "catalog is too large for a cache file")
}

/// Encodes the packages on all threads and writes their data in order, so that the same catalog always produces the
/// same file.
fn encode_packages<W: Write + Send>(
    input: &Input<'_>,
    data: &mut Data<'_, W>,
) -> Result<(Vec<Encoded>, usize), WriteError> {
    struct InOrder<'a, 'b, W> {
        data: &'a mut Data<'b, W>,
        /// Packages that finished before an earlier one.
        waiting: BTreeMap<usize, (Encoded, PackageData)>,
        done: Vec<Encoded>,
        /// Held back until all bodies are written.
        slims: Vec<u8>,
        summaries: Vec<u8>,
        failed: BTreeMap<usize, WriteError>,
    }
    let packages = input.content.catalog.packages();
    let others = package::others(&input.content.fbc);
    let next = AtomicUsize::new(0);
    let reused = AtomicUsize::new(0);
    let in_order = Mutex::new(InOrder {
        data,
        waiting: BTreeMap::new(),
        done: Vec::with_capacity(packages.len()),
        slims: Vec::new(),
        summaries: Vec::new(),
        failed: BTreeMap::new(),
    });
    let lock = || in_order.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        let mut encoder = package::Encoder::new(input.content, input.limits, input.summarize, &others);
        while let Some((number, package)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, packages.get(n)?)))
        {
            let digest = input.content.packages.get(package.name());
            let old =
                input.old.zip(digest).and_then(|(old, digest)| package::reuse(old, package, digest, input.summarize));
            if old.is_some() {
                reused.fetch_add(1, Ordering::Relaxed);
            }
            let outcome = old.map_or_else(|| encoder.encode(package), Ok);
            let mut guard = lock();
            let state = &mut *guard;
            match outcome {
                Err(source) => {
                    let package = package.name().to_owned();
                    state.failed.insert(number, LoadError::Package { package, source }.into());
                    return;
                }
                Ok(ready) => state.waiting.insert(number, ready),
            };
            while let Some((mut encoded, data)) = state.waiting.remove(&state.done.len()) {
                match state.data.put(&data.bodies) {
                    Ok(at) => encoded.shift(state.slims.len() as u64, at, state.summaries.len() as u64),
                    Err(error) => {
                        state.failed.insert(number, error.into());
                        return;
                    }
                }
                state.slims.extend_from_slice(&data.slims);
                state.summaries.extend_from_slice(&data.summaries);
                state.done.push(encoded);
            }
        }
    };
    rayon::scope(|scope| (0..rayon::current_num_threads()).for_each(|_| scope.spawn(|_| work())));
    let mut state = in_order.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = state.failed.into_values().next() {
        return Err(error);
    }
    let slims = state.data.put(&state.slims)?;
    let summaries = state.data.put(&state.summaries)?;
    state.done.iter_mut().for_each(|encoded| encoded.shift(slims, 0, summaries));
    Ok((state.done, reused.into_inner()))
}

/// The tables while they are built.
#[derive(Default)]
struct Tables {
    texts: Vec<u8>,
    known: HashMap<String, Text>,
    about: Vec<u8>,
    packages: Vec<u8>,
    channels: Vec<format::Channel>,
    entries: Vec<format::Entry>,
    skips: Vec<Text>,
    bundles: Vec<format::Bundle>,
    /// For each entry: channel, package, bundle.
    order: Vec<([Text; 3], u32)>,
    apis: BTreeMap<[String; 3], Vec<u32>>,
    replaced: BTreeMap<String, Vec<u32>>,
    customs: Vec<u8>,
    custom_blobs: Vec<format::CustomBlob>,
    sources: Vec<u8>,
}

impl Tables {
    fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let new = Text { start: self.texts.len() as u32, length: text.len() as u32 };
        self.texts.extend_from_slice(text.as_bytes());
        self.known.insert(text.to_owned(), new);
        new
    }

    fn add_package<W: Write>(
        &mut self,
        package: &catalog::Package,
        content: ContentDigest,
        encoded: Encoded,
        data: &mut Data<'_, W>,
    ) -> io::Result<()> {
        let number = (self.packages.len() / format::Package::SIZE) as u32;
        let first_bundle = self.bundles.len() as u32;
        let first_channel = self.channels.len() as u32;
        let name = self.text(package.name());
        let mut versions: Vec<(&str, &catalog::Bundle)> = package.bundles().collect();
        versions.sort_by(|a, b| {
            cmp_version_release((&a.1.version, a.1.release.as_ref()), (&b.1.version, b.1.release.as_ref()))
        });
        let ranks: HashMap<&str, u32> = versions.iter().zip(0..).map(|((name, _), rank)| (*name, rank)).collect();
        let mut numbers = HashMap::new();
        for (i, ((bundle_name, _), bundle)) in package.bundles().zip(&encoded.bundles).enumerate() {
            numbers.insert(bundle_name, (first_bundle + i as u32, &bundle.apis));
            let mut record = bundle.record;
            record.name = self.text(bundle_name);
            record.package = number;
            record.rank = ranks.get(bundle_name).copied().unwrap_or_default();
            if record.base != format::NONE {
                record.base += first_bundle;
            }
            self.bundles.push(record);
        }
        for channel in package.channels() {
            let channel_name = self.text(channel.name());
            let channel_number = self.channels.len() as u32;
            let first = self.entries.len() as u32;
            let mut head = first;
            for entry in channel.entries() {
                let Some((bundle, apis)) = numbers.get(&*entry.name) else { continue };
                let entry_number = self.entries.len() as u32;
                if entry.name == channel.head().name {
                    head = entry_number;
                }
                for api in *apis {
                    let list = self.apis.entry(api.clone()).or_default();
                    if list.last() != Some(&entry_number) {
                        list.push(entry_number);
                    }
                }
                self.replaced.entry(entry.replaces.to_string()).or_default().push(entry_number);
                for skip in entry.skips.iter().filter(|skip| **skip != entry.replaces) {
                    self.replaced.entry(skip.to_string()).or_default().push(entry_number);
                }
                let skips = Span { first: self.skips.len() as u32, count: entry.skips.len() as u32 };
                for skip in &entry.skips {
                    let skip = self.text(skip);
                    self.skips.push(skip);
                }
                let (replaces, skip_range) = (self.text(&entry.replaces), self.text(&entry.skip_range));
                let bundle_name = self.text(&entry.name);
                self.order.push(([channel_name, name, bundle_name], entry_number));
                self.entries.push(format::Entry {
                    bundle: *bundle,
                    channel: channel_number,
                    replaces,
                    skips,
                    skip_range,
                });
            }
            let entries = Span { first, count: self.entries.len() as u32 - first };
            self.channels.push(format::Channel { name: channel_name, package: number, entries, head });
        }
        let default = package.channels().iter().position(|channel| std::ptr::eq(channel, package.default_channel()));
        let record = format::Package {
            name,
            content,
            reply: data.put_extent(&package_message(package))?,
            summary: encoded.summary,
            summary_length: encoded.summary_length,
            icon: encoded.icon,
            channels: Span { first: first_channel, count: package.channels().len() as u32 },
            bundles: Span { first: first_bundle, count: encoded.bundles.len() as u32 },
            default_channel: first_channel + default.unwrap_or_default() as u32,
        };
        record.put(&mut self.packages);
        Ok(())
    }

    /// Returns the sections in the order they are written.
    fn finish(mut self) -> io::Result<Vec<(SectionKind, Vec<u8>)>> {
        let mut order = std::mem::take(&mut self.order);
        let texts = std::mem::take(&mut self.texts);
        let bytes = |text: &Text| &texts[text.start as usize..(text.start + text.length) as usize];
        order.sort_by(|(a, _), (b, _)| a.iter().map(bytes).cmp(b.iter().map(bytes)));
        self.texts = texts;
        let order: Vec<u32> = order.into_iter().map(|(_, entry)| entry).collect();
        let (mut apis, mut api_entries) = (Vec::new(), Vec::new());
        for ([group, version, kind], entries) in std::mem::take(&mut self.apis) {
            let span = Span { first: api_entries.len() as u32, count: entries.len() as u32 };
            let (group, version, kind) = (self.text(&group), self.text(&version), self.text(&kind));
            apis.push(format::Api { group, version, kind, entries: span });
            api_entries.extend(entries);
        }
        let (mut replaced, mut replaced_entries) = (Vec::new(), Vec::new());
        for (name, entries) in std::mem::take(&mut self.replaced) {
            let span = Span { first: replaced_entries.len() as u32, count: entries.len() as u32 };
            replaced.push(format::Replaced { name: self.text(&name), entries: span });
            replaced_entries.extend(entries);
        }
        if u32::try_from(self.texts.len()).is_err() {
            return Err(too_large());
        }
        Ok(vec![
            (SectionKind::Texts, self.texts),
            (SectionKind::About, self.about),
            (SectionKind::Packages, self.packages),
            (SectionKind::Channels, table(&self.channels)),
            (SectionKind::Entries, table(&self.entries)),
            (SectionKind::Skips, table(&self.skips)),
            (SectionKind::Bundles, table(&self.bundles)),
            (SectionKind::ListOrder, table(&order)),
            (SectionKind::Apis, table(&apis)),
            (SectionKind::ApiEntries, table(&api_entries)),
            (SectionKind::Replaced, table(&replaced)),
            (SectionKind::ReplacedEntries, table(&replaced_entries)),
            (SectionKind::Customs, self.customs),
            (SectionKind::CustomBlobs, table(&self.custom_blobs)),
            (SectionKind::Sources, self.sources),
        ])
    }
}

fn table<R: RecordField>(records: &[R]) -> Vec<u8> {
    let mut out = Vec::with_capacity(records.len() * R::SIZE);
    records.iter().for_each(|record| record.put(&mut out));
    out
}

fn add_customs<W: Write>(input: &Input<'_>, tables: &mut Tables, data: &mut Data<'_, W>) -> Result<(), WriteError> {
    let fbc = &input.content.fbc;
    let mut customs: BTreeMap<(&str, &str), Vec<&fbc::Blob>> = BTreeMap::new();
    for blob in fbc.blobs().iter().filter(|blob| matches!(blob.content, BlobContent::Other)) {
        customs.entry((&blob.schema, &blob.package)).or_default().push(blob);
    }
    let mut buffer = fbc::blob::TextBuffer::default();
    for ((schema, package), blobs) in customs {
        let span = Span { first: tables.custom_blobs.len() as u32, count: blobs.len() as u32 };
        let (schema, package) = (tables.text(schema), tables.text(package));
        format::Custom { schema, package, blobs: span }.put(&mut tables.customs);
        for blob in blobs {
            let message = super::bundle::encode_struct(fbc.text(blob, &mut buffer)?);
            let packed = zstd::bulk::compress(&message, package::LEVEL)?;
            let length = u32::try_from(message.len()).map_err(|_| too_large())?;
            let stored = data.put_extent(if packed.len() < message.len() { &packed } else { &message })?;
            tables.custom_blobs.push(format::CustomBlob { stored, length });
        }
    }
    Ok(())
}

fn add_sources(input: &Input<'_>, tables: &mut Tables) {
    let about = format::About {
        sources: input.sources,
        unowned: input.content.unowned,
        quarantined: input.content.quarantined.len() as u32,
    };
    about.put(&mut tables.about);
    for (stamp, content) in input.stamps.iter().zip(input.digests) {
        // Paths need not be UTF-8, so they are not interned among the texts.
        let path = stamp.path.as_os_str().as_bytes();
        let text = Text { start: tables.texts.len() as u32, length: path.len() as u32 };
        tables.texts.extend_from_slice(path);
        let source = format::Source {
            path: text,
            size: stamp.size,
            modified: stamp.modified.0,
            modified_nanos: stamp.modified.1,
            changed: stamp.changed.0,
            changed_nanos: stamp.changed.1,
            inode: stamp.inode,
            content: *content,
        };
        source.put(&mut tables.sources);
    }
}

/// Encodes a `Package` reply.
fn package_message(package: &catalog::Package) -> Vec<u8> {
    let mut out = Vec::new();
    message::string(&mut out, 1, package.name());
    for channel in package.channels() {
        let mut one = Vec::new();
        message::string(&mut one, 1, channel.name());
        message::string(&mut one, 2, &channel.head().name);
        message::deprecation(&mut one, 3, channel.deprecation());
        message::item(&mut out, 2, &one);
    }
    message::string(&mut out, 3, package.default_channel().name());
    message::deprecation(&mut out, 4, package.deprecation());
    out
}
