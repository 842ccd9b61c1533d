//! Verifies that an edited catalog differs from the original only as intended.
//!
//! [`Outline::agrees_with`](crate::Outline::agrees_with) compares the content that edits know. This module compares the
//! rest: a blob outside the edit must have the same text, and an edited blob must be the same except for the edited
//! fields. [`Stranded`] has the versions that lose their upgrade by the edit.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fbc::blob::{CHANNEL, DEPRECATIONS, PACKAGE};
use fbc::json::{JsonLayout, Raw, write_canonical};
use fbc::limits::MAX_DEPTH;
use fbc::{Blob, Fbc, FileId};
use schemars::JsonSchema;
use serde::Serialize;
use twox_hash::XxHash3_128;

use crate::changes::FileChanges;
use crate::deprecate::DeprecationTarget;
use crate::filter::KeptPart;
use crate::new_blob::NewBlob;
use crate::outline::Outline;
use crate::refusal::EditRefusal;
use crate::rewrite::BlobChange;
use crate::upgrades::{self, ChannelReport, Offered, UpgradeOutcome, UpgradeStatus};

/// Digests of the blobs of a catalog, by position.
#[derive(Debug, Default)]
pub struct BlobDigests {
    blobs: Mutex<BTreeMap<(FileId, u64), BlobDigest>>,
    /// The original, if this is the edited catalog.
    before: Option<Before>,
}

#[derive(Debug)]
struct Before {
    /// The digests of the original texts.
    texts: HashSet<u128>,
    /// The added blobs: schema, package and name.
    added: HashSet<[String; 3]>,
}

/// The digests of a blob and its parts.
#[derive(Debug, Clone, Default)]
struct BlobDigest {
    /// The digest of the text.
    whole: u128,
    /// The digest of the content, independent of form; only for new blobs.
    meaning: Option<u128>,
    /// The digest without the fields that edits change.
    rest: u128,
    /// The same for each item of its list, by key.
    items: BTreeMap<String, u128>,
}

impl BlobDigests {
    /// Creates the value that the edited catalog is read into.
    ///
    /// `new` are the blobs of new files, by path.
    pub fn of_changed(
        before: &BlobDigests,
        changes: &FileChanges,
        new: &BTreeMap<PathBuf, Vec<NewBlob>>,
    ) -> BlobDigests {
        let texts = before.lock().values().map(|content| content.whole).collect();
        let added = changes.files.values().flat_map(|change| change.added.values().flatten());
        let named = added.chain(new.values().flatten()).filter_map(|new_blob| {
            let blob = Raw::parse(&new_blob.json, MAX_DEPTH).ok()?;
            let (schema, name) = (blob.get_str("schema").into_owned(), blob.get_str("name").into_owned());
            let package = if schema == PACKAGE { name.clone() } else { blob.get_str("package").into_owned() };
            Some([schema, package, name])
        });
        BlobDigests { blobs: Mutex::default(), before: Some(Before { texts, added: named.collect() }) }
    }

    /// Records a blob while its text is available.
    pub fn note(&self, blob: &Blob, text: Raw<'_>) {
        let Some(origin) = blob.origin else { return };
        let whole = XxHash3_128::oneshot(text.text().as_bytes());
        let is_new = self.before.as_ref().is_some_and(|Before { texts, added }| {
            let named = [&blob.schema, &blob.package, &blob.name].map(|part| part.to_string());
            !texts.contains(&whole) || added.contains(&named)
        });
        let meaning = is_new.then(|| digest(text));
        let mut content = BlobDigest { whole, meaning, ..BlobDigest::default() };
        match &*blob.schema {
            PACKAGE => content.rest = digest_without(text, &["defaultChannel"]),
            CHANNEL => {
                content.rest = digest_without(text, &["entries"]);
                content.items = entries(text);
            }
            DEPRECATIONS => {
                content.rest = digest_without(text, &["entries"]);
                content.items = deprecations(text);
            }
            _ => {}
        }
        self.lock().insert(origin, content);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(FileId, u64), BlobDigest>> {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the blobs of each file in order, by path relative to the catalog.
    fn by_path(&self, fbc: &Fbc, root: &Path) -> BTreeMap<PathBuf, Vec<(FileId, u64, BlobDigest)>> {
        let mut files: BTreeMap<PathBuf, Vec<(FileId, u64, BlobDigest)>> = BTreeMap::new();
        for ((file, start), content) in self.lock().iter() {
            let path = fbc.full_path_of(*file).unwrap_or_default();
            let path = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            files.entry(path).or_default().push((*file, *start, content.clone()));
        }
        files
    }
}

/// A catalog with the digests of its blobs.
#[derive(Clone, Copy)]
pub struct CatalogSnapshot<'a> {
    /// The catalog.
    pub fbc: &'a Fbc,
    /// The directory.
    pub root: &'a Path,
    pub digests: &'a BlobDigests,
}

/// The expected state of a blob in the edited catalog.
enum Expected<'a> {
    Same(u128),
    Changed(&'a BlobDigest),
    New(&'a NewBlob),
}

/// Checks that `after` equals `before` with `changes`, where `new` are the blobs of new files by path.
///
/// # Errors
/// Fails with the path of the first file that differs.
pub fn verify_only_planned_changes(
    before: CatalogSnapshot<'_>,
    changes: &FileChanges,
    new: &BTreeMap<PathBuf, Vec<NewBlob>>,
    after: CatalogSnapshot<'_>,
) -> Result<(), PathBuf> {
    let old = before.digests.by_path(before.fbc, before.root);
    let mut now = after.digests.by_path(after.fbc, after.root);
    for (path, blobs) in &old {
        let mut expected = Vec::new();
        for (file, start, content) in blobs {
            let change = changes.files.get(file);
            match change.and_then(|change| change.changed.get(start)) {
                Some(BlobChange::Remove) => {}
                Some(_) => expected.push(Expected::Changed(content)),
                None => expected.push(Expected::Same(content.whole)),
            }
            let added = change.and_then(|change| change.added.get(start)).into_iter().flatten();
            expected.extend(added.map(Expected::New));
        }
        compare(path, &expected, &now.remove(path).unwrap_or_default())?;
    }
    for (path, blobs) in new {
        let expected: Vec<Expected<'_>> = blobs.iter().map(Expected::New).collect();
        compare(path, &expected, &now.remove(path).unwrap_or_default())?;
    }
    match now.into_keys().next() {
        Some(path) => Err(path),
        None => Ok(()),
    }
}

fn compare(path: &Path, expected: &[Expected<'_>], found: &[(FileId, u64, BlobDigest)]) -> Result<(), PathBuf> {
    let agree = |(expected, (_, _, found)): (&Expected<'_>, &(FileId, u64, BlobDigest))| match expected {
        Expected::Same(whole) => *whole == found.whole,
        Expected::Changed(before) => {
            let same = |(key, digest): (&String, &u128)| found.items.get(key).is_none_or(|now| now == digest);
            before.rest == found.rest && before.items.iter().all(same)
        }
        Expected::New(new_blob) => {
            let meaning = Raw::parse(&new_blob.json, MAX_DEPTH).ok().map(digest);
            meaning.is_some() && found.meaning == meaning
        }
    };
    match expected.len() == found.len() && expected.iter().zip(found).all(agree) {
        true => Ok(()),
        false => Err(path.to_path_buf()),
    }
}

/// What an edit removes because it was asked to.
#[derive(Debug, Clone, Copy)]
pub enum Purpose<'a> {
    /// Nothing.
    Keep,
    /// This target; with `forget`, including all edges to it.
    Remove {
        target: &'a DeprecationTarget,
        /// Whether no edge refers to it afterwards.
        forget: bool,
    },
    /// The edges from these bundles to an entry.
    Unskip(&'a [String]),
    /// Everything that is not selected.
    Select(&'a KeptPart),
}

/// Whether an edit may leave a version without its upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The user requested exactly that.
    Requested,
    /// It follows from the request; the user should know.
    Reported,
    /// Only if the user allows it.
    Refused,
}

/// The versions that reach the newest version of their channel before an edit, but not after it.
#[derive(Debug, Default)]
pub struct Stranded {
    /// Those that the edit must not strand, with a tested fix for each channel.
    pub refused: Vec<ChannelReport>,
    /// Those that lose their upgrade as a consequence of the request.
    pub reported: Vec<ChannelReport>,
    /// Whether a selection without dependencies strands some of them.
    dependencies_cut: bool,
}

/// The maximum number of versions of a channel, and of channels, in a message.
const MAX_SHOWN: usize = 10;

impl Stranded {
    /// Compares the upgrades before and after an edit, as `opm check-upgrades` does.
    pub fn new<'b>(before: Offered<'_>, after: Offered<'b>, purpose: Purpose<'_>) -> Stranded {
        let mut stranded = Stranded::default();
        for mut report in upgrades::compare(before, after).concat() {
            report.outcomes.retain(UpgradeOutcome::is_regression);
            let channel = |outline: &'b Outline| outline.packages.get(&report.package)?.channels.get(&report.channel);
            let channels = after.outlines.iter().filter_map(channel);
            let entries: HashSet<&str> =
                channels.flat_map(|channel| &channel.entries).map(|entry| &*entry.name).collect();
            let verdict = |outcome: &UpgradeOutcome| verdict(purpose, &report, outcome, &entries);
            let (refused, rest): (Vec<UpgradeOutcome>, Vec<UpgradeOutcome>) =
                report.outcomes.iter().cloned().partition(|outcome| verdict(outcome) == Verdict::Refused);
            let reported: Vec<UpgradeOutcome> =
                rest.into_iter().filter(|outcome| verdict(outcome) == Verdict::Reported).collect();
            if !reported.is_empty() {
                stranded.reported.push(ChannelReport { outcomes: reported, ..report.clone() });
            }
            if !refused.is_empty() {
                let held_back = |outcome: &UpgradeOutcome| matches!(outcome.now, UpgradeStatus::HeldBack { .. });
                stranded.dependencies_cut |= matches!(purpose, Purpose::Select(selection) if !selection.dependencies)
                    && refused.iter().any(held_back);
                stranded.refused.push(ChannelReport { outcomes: refused, ..report });
            }
        }
        stranded
    }

    /// Returns the refusal of an edit that would strand versions, if there are any. Advice refers to the catalog as
    /// `catalog`.
    pub fn refusal(&self, catalog: &str) -> Option<EditRefusal> {
        if self.refused.is_empty() {
            return None;
        }
        let mut message = "the edit would strand clusters, so nothing was changed:".to_owned();
        for report in self.refused.iter().take(MAX_SHOWN) {
            for outcome in report.outcomes.iter().take(MAX_SHOWN) {
                message +=
                    &format!("\n  {} / {}: {} {}", report.package, report.channel, outcome.bundle, outcome.words());
            }
            if report.outcomes.len() > MAX_SHOWN {
                let more = report.outcomes.len() - MAX_SHOWN;
                message += &format!("\n  {} / {}: and {more} more", report.package, report.channel);
            }
        }
        if self.refused.len() > MAX_SHOWN {
            message += &format!("\n  and versions of {} more channels", self.refused.len() - MAX_SHOWN);
        }
        let advice = self.refused.iter().take(MAX_SHOWN).filter_map(|report| report.advice(catalog));
        let mut help = Vec::new();
        if self.dependencies_cut {
            help.push("--with-dependencies also keeps what these versions require".to_owned());
        }
        help.push("--allow-stranded makes the edit anyway".to_owned());
        let advice: Vec<String> = advice.map(|advice| format!("\n  {advice}")).collect();
        if !advice.is_empty() {
            help.push(format!("to reconnect them afterwards:{}", advice.concat()));
        }
        Some(EditRefusal::new(message).help(help.join("; ")))
    }

    /// Returns the versions that lose their upgrade, by channel; with `allowed`, also those that the edit would be
    /// refused for.
    pub fn versions(&self, allowed: bool) -> Vec<StrandedVersions> {
        let refused = if allowed { &*self.refused } else { &[] };
        let versions = |report: &ChannelReport| StrandedVersions {
            package: report.package.clone(),
            channel: report.channel.clone(),
            bundles: report.outcomes.iter().map(|outcome| outcome.bundle.clone()).collect(),
            reason: report.outcomes.iter().find_map(|outcome| match &outcome.now {
                UpgradeStatus::HeldBack { by, why, .. } => Some(format!("{by} cannot be installed: {why}")),
                _ => None,
            }),
        };
        refused.iter().chain(&self.reported).map(versions).collect()
    }
}

/// The versions of a channel that lose their upgrade path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StrandedVersions {
    pub package: String,
    pub channel: String,
    /// The bundles that clusters run.
    pub bundles: Vec<String>,
    /// The reason, if the next version requires what is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl fmt::Display for StrandedVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&str> = self.bundles.iter().take(MAX_SHOWN).map(String::as_str).collect();
        let more = format!("{} more", self.bundles.len().saturating_sub(MAX_SHOWN));
        if self.bundles.len() > MAX_SHOWN {
            names.push(&more);
        }
        let these = match self.bundles.len() {
            1 => "this version loses its upgrade path".to_owned(),
            count => format!("{count} versions lose their upgrade path"),
        };
        write!(f, "{} / {}: {these}: {}", self.package, self.channel, names.join(", "))?;
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

fn verdict(purpose: Purpose<'_>, report: &ChannelReport, outcome: &UpgradeOutcome, entries: &HashSet<&str>) -> Verdict {
    match purpose {
        Purpose::Keep => Verdict::Refused,
        Purpose::Remove { target, forget } => match target {
            DeprecationTarget::Package(package) if *package == report.package => Verdict::Requested,
            DeprecationTarget::Channel { package, channel }
                if *package == report.package && *channel == report.channel =>
            {
                Verdict::Requested
            }
            DeprecationTarget::Bundle { package, bundle }
                if package.as_ref().is_none_or(|package| *package == report.package) =>
            {
                match (&outcome.before, &outcome.now) {
                    _ if forget && *bundle == outcome.bundle => Verdict::Requested,
                    // It requires the bundle.
                    (_, UpgradeStatus::HeldBack { .. }) => Verdict::Refused,
                    // Only the forgotten bundle mentioned it.
                    _ if forget && !entries.contains(&*outcome.bundle) => Verdict::Reported,
                    // It had no upgrade before either.
                    (UpgradeStatus::Latest, _) if *bundle == outcome.bundle => Verdict::Reported,
                    _ => Verdict::Refused,
                }
            }
            _ => Verdict::Refused,
        },
        // Versions that the channel lists stay installed; others are gone already.
        Purpose::Unskip(names) if names.contains(&outcome.bundle) && !entries.contains(&*outcome.bundle) => {
            Verdict::Reported
        }
        Purpose::Unskip(_) => Verdict::Refused,
        Purpose::Select(_) if entries.contains(&*outcome.bundle) => Verdict::Refused,
        // The user named others; a dependency at most is kept of it.
        Purpose::Select(selection) if !selection.selects_channel(&report.package, &report.channel) => {
            Verdict::Requested
        }
        Purpose::Select(_) => Verdict::Reported,
    }
}

/// Returns a digest of the content of a value.
fn digest(value: Raw<'_>) -> u128 {
    let mut out = Vec::new();
    write_canonical(value, JsonLayout::Compact, &mut out);
    XxHash3_128::oneshot(&out)
}

/// Returns the digest of an object without some of its members.
fn digest_without(object: Raw<'_>, excluded: &[&str]) -> u128 {
    let mut members: Vec<(String, u128)> = Vec::new();
    for (key, value) in object.members() {
        if !excluded.iter().any(|name| name.eq_ignore_ascii_case(&key)) {
            members.push((key.into_owned(), digest(value)));
        }
    }
    members.sort();
    let mut out = Vec::new();
    for (key, digest) in members {
        out.extend_from_slice(key.as_bytes());
        out.push(0);
        out.extend_from_slice(&digest.to_le_bytes());
    }
    XxHash3_128::oneshot(&out)
}

/// Returns digests of channel entries without their edges, by name.
pub(crate) fn entries(channel: Raw<'_>) -> BTreeMap<String, u128> {
    let entries = channel.get_items("entries");
    entries
        .map(|entry| {
            (entry.get_str("name").into_owned(), digest_without(entry, &["name", "replaces", "skips", "skipRange"]))
        })
        .collect()
}

/// Returns digests of deprecations without their messages, by reference.
pub(crate) fn deprecations(blob: Raw<'_>) -> BTreeMap<String, u128> {
    let entries = blob.get_items("entries");
    entries
        .map(|entry| {
            let reference = entry.get("reference");
            let part = |name: &str| reference.map(|reference| reference.get_str(name).into_owned()).unwrap_or_default();
            let key = format!("{}\0{}", part("schema"), part("name"));
            let inner = reference.map_or(no_extra_fields(), |reference| digest_without(reference, &["schema", "name"]));
            let outer = digest_without(entry, &["reference", "message"]);
            let both = [inner.to_le_bytes(), outer.to_le_bytes()].concat();
            (key, if inner == no_extra_fields() { outer } else { XxHash3_128::oneshot(&both) })
        })
        .collect()
}

/// Returns the digest of an entry that has only edges.
pub(crate) fn no_extra_fields() -> u128 {
    XxHash3_128::oneshot(&[])
}

#[cfg(test)]
mod tests;
