//! Prints catalogs.

mod fields;

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::mpsc;

use rayon::prelude::*;

use crate::blob::{BUNDLE, Blob, BlobContent, CHANNEL, DEPRECATIONS, Fbc, PACKAGE, TextAt, TextBuffer};
use crate::json::{JsonKind, JsonLayout, MemberWriter, Raw, write_as_written, write_canonical, write_canonical_nested};
use crate::object;
use crate::property;
use crate::step_counter;
use crate::unknown_fields;
use crate::yaml;
use fields::ObjectWriter;

/// The output format of blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Consecutive JSON objects, indented by four.
    Json,
    /// YAML documents.
    Yaml,
}

/// The arrangement of fields and lists in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// Source order, except that objects and metadata follow the other properties of a bundle.
    Listed,
    /// The properties of bundles are sorted by type and value without duplicates, and packages have none.
    ///
    /// Older tools print catalogs in this form after decomposing and rebuilding them.
    Sorted,
    /// Like [`Arrangement::Listed`], with unknown fields after the known ones.
    ///
    /// This is for files that users maintain.
    Complete,
}

/// The amount of source text that a thread prints at a time.
const BATCH: usize = 256 << 10;
/// The number of batches per thread in one round.
const BATCHES_PER_THREAD: usize = 2;
/// The number of rounds that may wait for the writer, with their output in memory.
const ROUNDS_AHEAD: usize = 1;

thread_local! {
    static SPARE: RefCell<(TextBuffer, Vec<u8>)> = RefCell::default();
}

impl Fbc {
    /// Returns the blobs in output order: grouped by package, with the package, its channels, bundles, other blobs and
    /// deprecations; then blobs without a package.
    ///
    /// Packages without a name, and channels, bundles and deprecations without a package, are omitted.
    pub fn in_order(&self) -> Vec<&Blob> {
        let mut blobs: Vec<&Blob> =
            self.blobs.iter().filter(|blob| !blob.package.is_empty() || rank(blob) == OTHER).collect();
        blobs.sort_by(|a, b| {
            let group = |blob: &Blob| (blob.package.is_empty(), rank(blob));
            let (a_group, b_group) = (group(a), group(b));
            a_group
                .0
                .cmp(&b_group.0)
                .then_with(|| a.package.cmp(&b.package))
                .then_with(|| a_group.1.cmp(&b_group.1))
                .then_with(|| match a_group {
                    (_, CHANNELS | BUNDLES) => a.name.cmp(&b.name),
                    (false, OTHER) => a.schema.cmp(&b.schema),
                    _ => std::cmp::Ordering::Equal,
                })
        });
        blobs
    }

    /// Returns the blobs that [`Fbc::in_order`] omits.
    pub fn orphans(&self) -> impl Iterator<Item = &Blob> {
        self.blobs.iter().filter(|blob| {
            blob.package.is_empty() && matches!(&*blob.schema, PACKAGE | CHANNEL | BUNDLE | DEPRECATIONS)
        })
    }

    /// Prints `blobs` to `out` in the given order, several at a time.
    ///
    /// # Errors
    /// Fails if `out` does, or if a file has changed since it was loaded.
    pub fn write(&self, blobs: &[&Blob], format: Format, out: &mut (dyn Write + Send)) -> io::Result<()> {
        self.write_arranged(blobs, format, Arrangement::Listed, out)
    }

    /// Like [`Fbc::write`], with the given arrangement.
    ///
    /// # Errors
    /// Fails as [`Fbc::write`] does.
    pub fn write_arranged(
        &self,
        blobs: &[&Blob],
        format: Format,
        arrangement: Arrangement,
        out: &mut (dyn Write + Send),
    ) -> io::Result<()> {
        let mut batches: Vec<&[&Blob]> = Vec::new();
        let mut rest = blobs;
        while !rest.is_empty() {
            let mut size = 0;
            let length = rest.iter().take_while(|blob| {
                let fits = size < BATCH;
                size += blob.text.length();
                fits
            });
            let (batch, after) = rest.split_at(length.count());
            batches.push(batch);
            rest = after;
        }
        // One thread writes while the others print the next batches.
        let (sender, receiver) = mpsc::sync_channel::<Vec<Vec<u8>>>(ROUNDS_AHEAD);
        let (empties_out, empties) = mpsc::channel::<Vec<u8>>();
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || -> io::Result<()> {
                for group in receiver {
                    for mut text in group {
                        out.write_all(&text)?;
                        text.clear();
                        let _ = empties_out.send(text);
                    }
                }
                out.flush()
            });
            let mut printed = Ok(());
            for group in batches.chunks(BATCHES_PER_THREAD * rayon::current_num_threads().max(1)) {
                let buffers: Vec<Vec<u8>> = group.iter().map(|_| empties.try_recv().unwrap_or_default()).collect();
                let texts: io::Result<Vec<Vec<u8>>> = group
                    .par_iter()
                    .zip(buffers)
                    .map(|(batch, mut text)| self.print_batch(batch, format, arrangement, &mut text).map(|()| text))
                    .collect();
                match texts {
                    // The writer stops if `out` fails; its error is the one to report.
                    Ok(texts) => {
                        if sender.send(texts).is_err() {
                            break;
                        }
                    }
                    Err(error) => {
                        printed = Err(error);
                        break;
                    }
                }
            }
            drop(sender);
            let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("writer stopped")));
            written.and(printed)
        })
    }

    fn print_batch(
        &self,
        batch: &[&Blob],
        format: Format,
        arrangement: Arrangement,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        // Allocating fresh memory costs more than printing into it, so each thread keeps its buffers.
        let (mut buffer, mut compact) = SPARE.take();
        for blob in batch {
            let raw = self.text(blob, &mut buffer)?;
            match format {
                Format::Json => {
                    self.print(blob, raw, JsonLayout::Indented(4), arrangement, out)?;
                    out.push(b'\n');
                }
                Format::Yaml => {
                    compact.clear();
                    self.print(blob, raw, JsonLayout::Compact, arrangement, &mut compact)?;
                    let json = std::str::from_utf8(&compact).map_err(io::Error::other)?;
                    out.extend_from_slice(b"---\n");
                    yaml::write_document(Raw::from_checked(json), out);
                }
            }
        }
        SPARE.set((buffer, compact));
        Ok(())
    }

    /// Prints one blob: known schemas with their known fields in a fixed order, others unchanged.
    fn print(
        &self,
        blob: &Blob,
        raw: Raw<'_>,
        layout: JsonLayout,
        arrangement: Arrangement,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let as_written = matches!(blob.text, TextAt::Generated { .. });
        let whole = arrangement == Arrangement::Complete;
        let mut object = ObjectWriter { layout, level: 0, whole, as_written, first: true, out };
        match &blob.content {
            BlobContent::Package { .. } => {
                object.open();
                object.string("schema", PACKAGE);
                object.string("name", &blob.name);
                object.string("defaultChannel", &raw.get_str("defaultChannel"));
                if let Some(icon) = raw.get("icon").filter(|icon| icon.kind() == JsonKind::Object) {
                    object.icon(icon);
                }
                match raw.get("description") {
                    Some(description) if as_written && description.kind() == JsonKind::String => {
                        object.key("description");
                        object.free_value(Some(description));
                    }
                    _ => object.string_if_any("description", &raw.get_str("description")),
                }
                if arrangement != Arrangement::Sorted {
                    object.properties(raw.get("properties"));
                }
                object.rest(raw, unknown_fields::printed(PACKAGE));
                object.close();
            }
            BlobContent::Channel { .. } => {
                object.open();
                object.string("schema", CHANNEL);
                object.string("name", &blob.name);
                object.string("package", &blob.package);
                object.entries(raw.get("entries"));
                object.properties(raw.get("properties"));
                object.rest(raw, unknown_fields::printed(CHANNEL));
                object.close();
            }
            BlobContent::Bundle(bundle) => {
                object.open();
                object.string("schema", BUNDLE);
                object.string_if_any("name", &blob.name);
                object.string_if_any("package", &blob.package);
                object.string("image", &bundle.image);
                let mut properties = self.bundle_properties(blob, raw)?;
                match arrangement {
                    Arrangement::Listed | Arrangement::Complete => properties.sort_by_key(|property| {
                        matches!(&*property.kind, property::BUNDLE_OBJECT | property::CSV_METADATA)
                    }),
                    Arrangement::Sorted => properties = sorted(properties, as_written),
                }
                object.bundle_properties(&properties);
                object.related_images(raw.get("relatedImages"));
                object.rest(raw, unknown_fields::printed(BUNDLE));
                object.close();
            }
            BlobContent::Deprecations { .. } => {
                object.open();
                object.string("schema", DEPRECATIONS);
                object.string("package", &blob.package);
                object.deprecations(raw.get("entries"));
                object.rest(raw, unknown_fields::printed(DEPRECATIONS));
                object.close();
            }
            BlobContent::Other | BlobContent::Broken => write_canonical_nested(raw, layout, 0, object.out),
        }
        Ok(())
    }

    /// Collects the printed properties of a bundle in source order: with data for referenced objects, and without those
    /// that were converted to channels.
    pub(crate) fn bundle_properties<'a>(&self, blob: &Blob, raw: Raw<'a>) -> io::Result<Vec<PrintedProperty<'a>>> {
        let consumed = match &blob.content {
            BlobContent::Bundle(bundle) => bundle.old_form.as_ref().is_some_and(|old| old.consumed),
            _ => false,
        };
        let mut properties = Vec::new();
        for item in raw.get_items("properties") {
            let (kind, value) = property::parts(item);
            if consumed && matches!(&*kind, property::CHANNEL | property::SKIPS | property::SKIP_RANGE) {
                continue;
            }
            let inlined = match (&*kind, value) {
                (property::BUNDLE_OBJECT, Some(value)) if blob.origin.is_some() => {
                    object::inlined(value, &self.ref_base(blob, &self.limits)).map_err(io::Error::other)?
                }
                _ => None,
            };
            properties.push(PrintedProperty { kind, value, item, inlined });
        }
        Ok(properties)
    }
}

/// Sorts properties by type and value and removes duplicates.
fn sorted(mut properties: Vec<PrintedProperty<'_>>, as_written: bool) -> Vec<PrintedProperty<'_>> {
    properties.sort_by(|a, b| a.kind.cmp(&b.kind));
    let mut result = Vec::with_capacity(properties.len());
    let mut rest = properties.into_iter().peekable();
    while let Some(first) = rest.next() {
        step_counter::step();
        let mut same = vec![first];
        while let Some(next) = rest.next_if(|next| next.kind == same[0].kind) {
            step_counter::step();
            same.push(next);
        }
        if same.len() == 1 {
            result.append(&mut same);
            continue;
        }
        let mut keyed: Vec<_> = same.into_iter().map(|property| (property.text(as_written), property)).collect();
        keyed.sort_by(|a, b| a.0.cmp(&b.0));
        keyed.dedup_by(|b, a| a.0 == b.0);
        result.extend(keyed.into_iter().map(|(_, property)| property));
    }
    result
}

const CHANNELS: u8 = 1;
const BUNDLES: u8 = 2;
const OTHER: u8 = 3;

/// Returns the rank of a blob within its package.
fn rank(blob: &Blob) -> u8 {
    match &*blob.schema {
        PACKAGE => 0,
        CHANNEL => CHANNELS,
        BUNDLE => BUNDLES,
        DEPRECATIONS => 4,
        _ => OTHER,
    }
}

/// A printed property of a bundle.
pub(crate) struct PrintedProperty<'a> {
    pub(crate) kind: std::borrow::Cow<'a, str>,
    value: Option<Raw<'a>>,
    /// The complete property.
    item: Raw<'a>,
    /// The base64 to print instead of a reference.
    inlined: Option<Vec<u8>>,
}

impl PrintedProperty<'_> {
    /// Returns the value on one line, as written or in canonical form.
    pub(crate) fn text(&self, as_written: bool) -> Vec<u8> {
        let mut out = Vec::new();
        match (&self.inlined, self.value) {
            (Some(data), _) => MemberWriter::append(&mut out, |value| {
                value.string("data", &String::from_utf8_lossy(data));
            }),
            (None, None) => out.extend_from_slice(b"null"),
            (None, Some(value)) if as_written => write_as_written(value, JsonLayout::Compact, 0, &mut out),
            (None, Some(value)) => write_canonical(value, JsonLayout::Compact, &mut out),
        }
        out
    }

    /// Returns whether the value refers to a file.
    pub(crate) fn is_reference(&self) -> bool {
        self.inlined.is_some()
    }
}

impl TextAt {
    fn length(self) -> usize {
        match self {
            TextAt::File { length, .. } | TextAt::Store { length, .. } | TextAt::Generated { length, .. } => length,
            TextAt::Dropped => 0,
        }
    }
}
