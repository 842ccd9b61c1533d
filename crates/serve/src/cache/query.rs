//! Answers queries from the cache.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::io::Cursor;
use std::sync::{Arc, PoisonError};

use catalog::query::message;
use catalog::query::{ApiType, CatalogCounts, Query, QueryAnswer, QueryError, QueryMessage, Rows};
use zstd::zstd_safe::DCtx;

use super::data::ExtentReader;
use super::format::{self, Extent, NONE, SectionKind, Span, Text};
use super::{BASES_SIZE, Cache, damaged};
use crate::buffer_pool;

/// The maximum size of a message, more than any client accepts.
const MAX_BODY: usize = 1 << 28;

/// Read-ahead for lists of bundles: their slim parts are adjacent.
const AHEAD: usize = 16 << 10;

thread_local! {
    static SLIMS: RefCell<ExtentReader> = RefCell::default();
    static LISTED: RefCell<ExtentReader> = RefCell::default();
    static UNPACKER: RefCell<Unpacker> = RefCell::new(Unpacker { context: DCtx::create(), reader: ExtentReader::default() });
}

/// Decompresses stored bytes.
struct Unpacker {
    context: DCtx<'static>,
    reader: ExtentReader,
}

/// The optional parts of a `Bundle` reply.
#[derive(Clone, Copy)]
struct Shape {
    body: bool,
    edges: bool,
}

impl Cache {
    fn string(&self, text: Text) -> Result<&str, QueryError> {
        self.text(text).ok_or_else(damaged)
    }

    fn entry(&self, number: u32) -> Result<format::Entry, QueryError> {
        self.table(SectionKind::Entries).get(number as usize).ok_or_else(damaged)
    }

    fn channel_at(&self, number: u32) -> Result<format::Channel, QueryError> {
        self.table(SectionKind::Channels).get(number as usize).ok_or_else(damaged)
    }

    fn package_at(&self, number: u32) -> Result<format::Package, QueryError> {
        self.table(SectionKind::Packages).get(number as usize).ok_or_else(damaged)
    }

    fn bundle_at(&self, number: u32) -> Result<format::Bundle, QueryError> {
        self.table(SectionKind::Bundles).get(number as usize).ok_or_else(damaged)
    }

    fn find_channel(&self, package: &format::Package, name: &str) -> Option<format::Channel> {
        self.table::<format::Channel>(SectionKind::Channels)
            .search(package.channels, |channel| self.text_bytes(channel.name).cmp(&Some(name.as_bytes())))
            .map(|(_, channel)| channel)
    }

    fn find_entry(&self, channel: &format::Channel, name: &str) -> Option<(u32, format::Entry)> {
        let order = |entry: &format::Entry| -> Ordering {
            let bundle = self.bundle_at(entry.bundle).ok();
            bundle.and_then(|bundle| self.text_bytes(bundle.name)).cmp(&Some(name.as_bytes()))
        };
        let found = self.table::<format::Entry>(SectionKind::Entries).search(channel.entries, order);
        found.map(|(number, entry)| (number as u32, entry))
    }

    fn channel(&self, package: &str, channel: &str) -> Result<format::Channel, QueryError> {
        let (_, found) = self.find_package(package).ok_or_else(|| QueryError::no_package(package))?;
        self.find_channel(&found, channel).ok_or_else(|| QueryError::no_channel(package, channel))
    }

    /// Assembles a `Bundle` reply with its body.
    fn whole(&self, entry: &format::Entry) -> QueryAnswer {
        SLIMS.with_borrow_mut(|slims| self.reply(entry, Shape { body: true, edges: false }, slims))
    }

    /// Assembles a `Bundle` reply.
    fn reply(&self, entry: &format::Entry, shape: Shape, slims: &mut ExtentReader) -> QueryAnswer {
        let bundle = self.bundle_at(entry.bundle)?;
        let channel = self.channel_at(entry.channel)?;
        let package = self.package_at(channel.package)?;
        let slim = slims.extent(self, &bundle.slim, if shape.body { 0 } else { AHEAD })?;
        let body = shape.body || bundle.has_image == 0;
        let body_room = if body { bundle.body_length as usize + bundle.csv_length as usize } else { 0 };
        if body_room > MAX_BODY {
            return Err(damaged());
        }
        let mut out = buffer_pool::buffer(slim.len() + body_room + 512);
        message::string(&mut out, 1, self.string(bundle.name)?);
        message::string(&mut out, 2, self.string(package.name)?);
        message::string(&mut out, 3, self.string(channel.name)?);
        if body {
            self.put_body(&bundle, &mut out)?;
        }
        let (first, second) = (bundle.before_skip_range as usize, bundle.before_replaces as usize);
        out.extend_from_slice(slim.get(..first).ok_or_else(damaged)?);
        message::string(&mut out, 10, self.string(entry.skip_range)?);
        out.extend_from_slice(slim.get(first..second).ok_or_else(damaged)?);
        if shape.edges {
            message::string(&mut out, 13, self.string(entry.replaces)?);
            for (_, skip) in self.table::<Text>(SectionKind::Skips).span(entry.skips) {
                message::item(&mut out, 14, self.string(skip)?.as_bytes());
            }
        }
        out.extend_from_slice(slim.get(second..).ok_or_else(damaged)?);
        Ok(out)
    }

    /// Appends `csvJson` and `object`.
    fn put_body(&self, bundle: &format::Bundle, out: &mut Vec<u8>) -> Result<(), QueryError> {
        if bundle.body_length == 0 {
            return Ok(());
        }
        let base = if bundle.base == NONE { None } else { Some(self.base(bundle.base)?) };
        let base = base.as_ref().map_or(&[][..], |base| base.as_slice());
        let (csv_start, csv_length) = (bundle.csv_start as usize, bundle.csv_length as usize);
        let (objects_length, body_length) = (bundle.objects_length as usize, bundle.body_length as usize);
        if csv_start.checked_add(csv_length).is_none_or(|end| end > body_length) || objects_length > body_length {
            return Err(damaged());
        }
        // The objects stay where the body was decompressed; the CSV is copied in front of them.
        if csv_length > 0 {
            message::header(out, 4, csv_length);
        }
        let csv_at = out.len();
        let body_at = csv_at + csv_length;
        out.resize(body_at, 0);
        self.unpack(&bundle.body, base, body_length, out)?;
        out.copy_within(body_at + csv_start..body_at + csv_start + csv_length, csv_at);
        out.truncate(body_at + objects_length);
        Ok(())
    }

    /// Returns a body that others are compressed against.
    fn base(&self, number: u32) -> Result<Arc<Vec<u8>>, QueryError> {
        let mut bases = self.bases.lock().unwrap_or_else(PoisonError::into_inner);
        bases.clock += 1;
        let clock = bases.clock;
        if let Some((used, body)) = bases.bodies.get_mut(&number) {
            *used = clock;
            return Ok(Arc::clone(body));
        }
        drop(bases);
        let bundle = self.bundle_at(number)?;
        let length = bundle.body_length as usize;
        if bundle.base != NONE || length > MAX_BODY {
            return Err(damaged());
        }
        let mut body = Vec::new();
        self.unpack(&bundle.body, &[], length, &mut body)?;
        let body = Arc::new(body);
        let mut bases = self.bases.lock().unwrap_or_else(PoisonError::into_inner);
        bases.size += length;
        if let Some((_, replaced)) = bases.bodies.insert(number, (clock, Arc::clone(&body))) {
            bases.size -= replaced.len();
        }
        while bases.size > BASES_SIZE {
            let Some(oldest) = bases.bodies.iter().min_by_key(|(_, (used, _))| *used).map(|(number, _)| *number) else {
                break;
            };
            if let Some((_, dropped)) = bases.bodies.remove(&oldest) {
                bases.size -= dropped.len();
            }
        }
        Ok(body)
    }

    /// Decompresses the `length` bytes of `extent` and appends them to `out`.
    fn unpack(&self, extent: &Extent, base: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), QueryError> {
        if extent.length as usize > MAX_BODY {
            return Err(damaged());
        }
        let start = out.len();
        out.reserve(length);
        let mut end = Cursor::new(out);
        end.set_position(start as u64);
        let written = UNPACKER.with_borrow_mut(|unpacker| {
            let packed = unpacker.reader.extent(self, extent, 0)?;
            unpacker.context.decompress_using_dict(&mut end, packed, base).map_err(|_| damaged())
        });
        if written? == length { Ok(()) } else { Err(damaged()) }
    }

    /// Returns the bytes of an extent as they are.
    fn stored(&self, extent: &Extent) -> QueryAnswer {
        if extent.length as usize > MAX_BODY {
            return Err(damaged());
        }
        UNPACKER.with_borrow_mut(|unpacker| Ok(unpacker.reader.extent(self, extent, 0)?.to_vec()))
    }

    fn entry_message(&self, entry: &format::Entry, replaces: Text) -> QueryAnswer {
        let channel = self.channel_at(entry.channel)?;
        let package = self.string(self.package_at(channel.package)?.name)?;
        let bundle = self.string(self.bundle_at(entry.bundle)?.name)?;
        Ok(message::channel_entry(package, self.string(channel.name)?, bundle, self.string(replaces)?))
    }

    fn find_api(&self, api: &ApiType) -> Option<Span> {
        let apis = self.table::<format::Api>(SectionKind::Apis);
        let wanted = [Some(api.group.as_bytes()), Some(api.version.as_bytes()), Some(api.kind.as_bytes())];
        let key = |api: &format::Api| [api.group, api.version, api.kind].map(|text| self.text_bytes(text));
        apis.search(apis.all(), |api| key(api).cmp(&wanted)).map(|(_, api)| api.entries)
    }

    /// Iterates over the names that an entry upgrades from: the replaced one, then the skipped ones.
    fn edges(&self, entry: &format::Entry) -> impl Iterator<Item = Text> {
        let replaces = entry.replaces;
        let of = self.text_bytes(replaces).unwrap_or_default().to_vec();
        let skips = self.table::<Text>(SectionKind::Skips).span(entry.skips);
        let skips = skips.map(|(_, skip)| skip).filter(move |skip| self.text_bytes(*skip) != Some(&of));
        std::iter::once(replaces).chain(skips)
    }

    /// Iterates over the heads among the entries of `span`.
    fn heads(&self, span: Span) -> impl Iterator<Item = (u32, format::Entry, format::Channel)> {
        self.table::<u32>(SectionKind::ApiEntries).span(span).filter_map(|(_, number)| {
            let entry = self.entry(number).ok()?;
            let channel = self.channel_at(entry.channel).ok()?;
            (channel.head == number).then_some((number, entry, channel))
        })
    }
}

impl Query for Cache {
    fn packages(self: Arc<Self>) -> Rows {
        let count = self.table::<format::Package>(SectionKind::Packages).len();
        Box::new((0..count).map(move |number| {
            let package = self.package_at(number as u32)?;
            Ok(message::package_name(self.string(package.name)?))
        }))
    }

    fn package(&self, name: &str) -> QueryAnswer {
        let (_, package) = self.find_package(name).ok_or_else(|| QueryError::no_package(name))?;
        self.stored(&package.reply)
    }

    fn bundle(&self, package: &str, channel: &str, name: &str) -> QueryAnswer {
        let found = self.channel(package, channel)?;
        let (_, entry) = self.find_entry(&found, name).ok_or_else(|| QueryError::no_bundle(package, channel, name))?;
        self.whole(&entry)
    }

    fn head(&self, package: &str, channel: &str) -> QueryAnswer {
        let channel = self.channel(package, channel)?;
        self.whole(&self.entry(channel.head)?)
    }

    fn replacements(self: Arc<Self>, name: &str) -> Result<Rows, QueryError> {
        let replaced = self.table::<format::Replaced>(SectionKind::Replaced);
        let found = replaced.search(replaced.all(), |one| self.text_bytes(one.name).cmp(&Some(name.as_bytes())));
        let (_, found) = found.ok_or_else(|| QueryError::no_replacements(name))?;
        Ok(rows(&self, SectionKind::ReplacedEntries, found.entries, |cache, number, rows| {
            let entry = cache.entry(number)?;
            rows.push(cache.entry_message(&entry, entry.replaces)?);
            Ok(())
        }))
    }

    fn replacement(&self, name: &str, package: &str, channel: &str) -> QueryAnswer {
        let (_, found) = self.find_package(package).ok_or_else(|| QueryError::no_package_unquoted(package))?;
        let found = self.find_channel(&found, channel).ok_or_else(|| QueryError::no_channel(package, channel))?;
        let wanted = Some(name.as_bytes());
        let mut best: Option<((bool, u32), format::Entry)> = None;
        for (_, entry) in self.table::<format::Entry>(SectionKind::Entries).span(found.entries) {
            let replaces = self.text_bytes(entry.replaces) == wanted;
            let skips = || {
                let mut skips = self.table::<Text>(SectionKind::Skips).span(entry.skips);
                skips.any(|(_, skip)| self.text_bytes(skip) == wanted)
            };
            if replaces || skips() {
                let value = (replaces, self.bundle_at(entry.bundle)?.rank);
                if best.as_ref().is_none_or(|(best, _)| value > *best) {
                    best = Some((value, entry));
                }
            }
        }
        let (_, entry) = best.ok_or_else(|| QueryError::no_replacement(package, channel))?;
        self.whole(&entry)
    }

    fn providers(self: Arc<Self>, api: &ApiType) -> Result<Rows, QueryError> {
        let span = self.find_api(api).ok_or_else(|| QueryError::no_providers(api))?;
        Ok(rows(&self, SectionKind::ApiEntries, span, |cache, number, rows| {
            let entry = cache.entry(number)?;
            for replaces in cache.edges(&entry) {
                rows.push(cache.entry_message(&entry, replaces)?);
            }
            Ok(())
        }))
    }

    fn latest_providers(self: Arc<Self>, api: &ApiType) -> Result<Rows, QueryError> {
        let none = || QueryError::no_providers(api);
        let span = self.find_api(api).ok_or_else(none)?;
        if self.heads(span).next().is_none() {
            return Err(none());
        }
        Ok(rows(&self, SectionKind::ApiEntries, span, |cache, number, rows| {
            let entry = cache.entry(number)?;
            let channel = cache.channel_at(entry.channel)?;
            if channel.head != number {
                return Ok(());
            }
            for (i, replaces) in cache.edges(&entry).enumerate() {
                if i == 0 || cache.find_entry(&channel, cache.string(replaces)?).is_some() {
                    rows.push(cache.entry_message(&entry, replaces)?);
                }
            }
            Ok(())
        }))
    }

    fn default_provider(&self, api: &ApiType) -> QueryAnswer {
        let span = self.find_api(api).ok_or_else(|| QueryError::no_providers(api))?;
        let mut any = false;
        for (number, entry, channel) in self.heads(span) {
            any = true;
            let package = self.package_at(channel.package)?;
            if self.channel_at(package.default_channel)?.head == number {
                return self.whole(&entry);
            }
        }
        Err(if any { QueryError::no_default_provider(api) } else { QueryError::no_providers(api) })
    }

    fn bundles(self: Arc<Self>) -> Rows {
        let count = self.table::<u32>(SectionKind::ListOrder).len();
        Box::new((0..count).map(move |place| {
            let number = self.table::<u32>(SectionKind::ListOrder).get(place).ok_or_else(damaged)?;
            let entry = self.entry(number)?;
            LISTED.with_borrow_mut(|slims| self.reply(&entry, Shape { body: false, edges: true }, slims))
        }))
    }

    fn custom(self: Arc<Self>, schema: &str, package: &str) -> Rows {
        let customs = self.table::<format::Custom>(SectionKind::Customs);
        let wanted = [Some(schema.as_bytes()), Some(package.as_bytes())];
        let key = |custom: &format::Custom| [custom.schema, custom.package].map(|text| self.text_bytes(text));
        let Some((_, found)) = customs.search(customs.all(), |custom| key(custom).cmp(&wanted)) else {
            return Box::new(std::iter::empty());
        };
        let first = found.blobs.first as usize;
        Box::new((first..first.saturating_add(found.blobs.count as usize)).map(move |number| {
            let blob: format::CustomBlob = self.table(SectionKind::CustomBlobs).get(number).ok_or_else(damaged)?;
            if blob.stored.length == blob.length {
                return self.stored(&blob.stored);
            }
            if blob.length as usize > MAX_BODY {
                return Err(damaged());
            }
            let mut message = Vec::new();
            self.unpack(&blob.stored, &[], blob.length as usize, &mut message)?;
            Ok(message)
        }))
    }

    fn counts(&self) -> CatalogCounts {
        CatalogCounts {
            packages: self.table::<format::Package>(SectionKind::Packages).len(),
            channels: self.table::<format::Channel>(SectionKind::Channels).len(),
            bundles: self.table::<format::Bundle>(SectionKind::Bundles).len(),
        }
    }
}

/// Iterates over entries and produces the rows of each on demand.
fn rows(
    cache: &Arc<Cache>,
    list: SectionKind,
    span: Span,
    make: fn(&Cache, u32, &mut Vec<QueryMessage>) -> Result<(), QueryError>,
) -> Rows {
    let cache = Arc::clone(cache);
    let first = span.first as usize;
    let entries = (first..first.saturating_add(span.count as usize)).flat_map(move |place| {
        let mut rows = Vec::new();
        let number = cache.table::<u32>(list).get(place).ok_or_else(damaged);
        let made = number.and_then(|number| make(&cache, number, &mut rows));
        rows.into_iter().map(Ok).chain(made.err().map(Err))
    });
    Box::new(entries)
}
