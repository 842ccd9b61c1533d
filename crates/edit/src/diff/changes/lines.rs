//! Renders differences as lines with an indentation level, separating names from other words.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::{
    BundleChange, CatalogChanges, ChangeKind, ChannelChange, Difference, EntryChange, PackageChange, PermissionScope,
    PropertyDifference, ValueChange,
};

/// Longer values are truncated.
const MAX_VALUE_LEN: usize = 200;

/// A line of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportLine {
    /// The nesting depth: 0 is a package.
    pub depth: usize,
    /// The kind of change that the line reports.
    pub what: Option<ChangeKind>,
    /// The parts of the text.
    pub parts: Vec<LinePart>,
}

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinePart {
    /// Text of the report itself.
    Word(Cow<'static, str>),
    /// A name or value from a catalog.
    Name(String),
}

/// A line under construction.
#[derive(Default)]
struct LineBuilder(Vec<LinePart>);

impl LineBuilder {
    fn new(word: &'static str) -> LineBuilder {
        LineBuilder::default().word(word)
    }

    fn word(mut self, word: impl Into<Cow<'static, str>>) -> LineBuilder {
        self.0.push(LinePart::Word(word.into()));
        self
    }

    fn name(mut self, name: impl Into<String>) -> LineBuilder {
        self.0.push(LinePart::Name(name.into()));
        self
    }

    fn names(mut self, names: &[String]) -> LineBuilder {
        for (index, name) in names.iter().enumerate() {
            self = if index > 0 { self.word(", ") } else { self }.name(name);
        }
        self
    }

    /// Adds a value that changed, was added or was removed.
    fn change(self, change: &ValueChange<Option<String>>) -> LineBuilder {
        let value = |words: LineBuilder, value: &Option<String>| match value {
            Some(value) => words.name(value),
            None => words.word("none"),
        };
        let words = value(self, &change.old).word(" -> ");
        value(words, &change.new)
    }
}

#[derive(Default)]
struct Lines(Vec<ReportLine>);

impl Lines {
    fn add(&mut self, depth: usize, what: impl Into<Option<ChangeKind>>, words: LineBuilder) {
        self.0.push(ReportLine { depth, what: what.into(), parts: words.0 });
    }

    fn others(&mut self, changes: &CatalogChanges) {
        if !changes.others.is_empty() {
            self.add(0, None, LineBuilder::new("other blobs"));
        }
        for other in &changes.others {
            let words = LineBuilder::default().name(&other.schema);
            let words = if other.name.is_empty() { words } else { words.word(" ").name(&other.name) };
            let words = if other.package.is_empty() { words } else { words.word(" of package ").name(&other.package) };
            self.add(1, other.what, words);
        }
    }

    fn package(&mut self, package: &PackageChange) {
        self.add(0, package.what, LineBuilder::new("package ").name(&package.name));
        if let Some(change) = &package.default_channel {
            match (package.what, &change.new) {
                (ChangeKind::Removed, _) => {}
                (ChangeKind::Added, Some(new)) => self.add(1, None, LineBuilder::new("default channel ").name(new)),
                _ => self.add(1, None, LineBuilder::new("default channel ").change(change)),
            }
        }
        for detail in &package.details {
            self.add(1, ChangeKind::Changed, LineBuilder::new(detail));
        }
        self.properties(1, &package.properties);
        package.channels.iter().for_each(|channel| self.channel(channel, package.what));
        package.bundles.iter().for_each(|bundle| self.bundle(bundle));
        for deprecation in &package.deprecations {
            let kind = deprecation.schema.strip_prefix("olm.").unwrap_or(deprecation.schema);
            let words = LineBuilder::new("deprecation of ").word(kind);
            let words = if deprecation.name.is_empty() { words } else { words.word(" ").name(&deprecation.name) };
            let (what, message) = match (&deprecation.message.old, &deprecation.message.new) {
                (None, new) => (ChangeKind::Added, new),
                (old, None) => (ChangeKind::Removed, old),
                (_, new) => (ChangeKind::Changed, new),
            };
            self.add(1, what, words.word(": ").name(cut(message.as_deref().unwrap_or_default())));
        }
    }

    fn channel(&mut self, channel: &ChannelChange, package: ChangeKind) {
        let words = LineBuilder::new("channel ").name(&channel.name);
        let words = match (&channel.head, channel.what) {
            (Some(ValueChange { new: Some(head), .. }), ChangeKind::Added) => words.word(", head ").name(head),
            (Some(change), ChangeKind::Changed) => words.word(", head ").change(change),
            _ => words,
        };
        self.add(1, channel.what, words);
        // The entries of a removed channel are removed with it.
        if package != ChangeKind::Removed && channel.what != ChangeKind::Removed {
            channel.entries.iter().for_each(|entry| self.entry(entry));
        }
        self.properties(2, &channel.properties);
    }

    fn entry(&mut self, entry: &EntryChange) {
        let mut words = LineBuilder::default().name(&entry.bundle);
        if entry.what == ChangeKind::Removed {
            return self.add(2, entry.what, words);
        }
        let added = entry.what == ChangeKind::Added;
        for (kind, change) in [(" replaces ", &entry.replaces), (" skipRange ", &entry.skip_range)] {
            match change {
                Some(ValueChange { new: Some(new), .. }) if added => words = words.word(kind).name(new),
                Some(change) => words = words.word(kind).change(change),
                None => {}
            }
        }
        if !entry.skips.added.is_empty() {
            words = words.word(if added { " skips " } else { " skips now " }).names(&entry.skips.added);
        }
        if !entry.skips.removed.is_empty() {
            words = words.word(" skips no longer ").names(&entry.skips.removed);
        }
        self.add(2, entry.what, words);
    }

    fn bundle(&mut self, bundle: &BundleChange) {
        let mut words = LineBuilder::new("bundle ").name(&bundle.name).word(", version ").name(&bundle.version);
        if let (ChangeKind::Added, Some(ValueChange { new: Some(image), .. })) = (bundle.what, &bundle.image) {
            words = if image.is_empty() { words } else { words.word(", image ").name(image) };
        }
        if let Some(before) = &bundle.compared_with {
            words = words.word(", against ").name(before);
        }
        self.add(1, bundle.what, words);
        if bundle.what == ChangeKind::Removed || (bundle.what == ChangeKind::Added && bundle.compared_with.is_none()) {
            return;
        }
        if let (ChangeKind::Changed, Some(change)) = (bundle.what, &bundle.image) {
            self.add(2, ChangeKind::Changed, LineBuilder::new("image ").change(change));
        }
        for (what, permissions) in [(ChangeKind::Added, true), (ChangeKind::Removed, false)] {
            for permission in &bundle.permissions {
                let verbs = if permissions { &permission.verbs.added } else { &permission.verbs.removed };
                if !verbs.is_empty() {
                    let scope = match permission.scope {
                        PermissionScope::Cluster => "cluster permission of ",
                        PermissionScope::Namespace => "permission of ",
                    };
                    let words = LineBuilder::new(scope).name(&permission.service_account).word(": ").names(verbs);
                    self.add(2, what, words.word(" ").name(&permission.resource));
                }
            }
        }
        for crd in &bundle.crds {
            if let Some(stored) = &crd.stored {
                let words = LineBuilder::new("CRD ").name(&crd.name).word(" stored as ").change(stored);
                self.add(2, ChangeKind::Changed, words);
            }
            if crd.versions.old == crd.versions.new {
                continue;
            }
            let words = LineBuilder::new("CRD ").name(&crd.name);
            match (crd.versions.old.is_empty(), crd.versions.new.is_empty()) {
                (true, _) => self.add(2, ChangeKind::Added, words.word(": ").names(&crd.versions.new)),
                (_, true) => self.add(2, ChangeKind::Removed, words.word(": ").names(&crd.versions.old)),
                _ => {
                    let words = words.word(": ").names(&crd.versions.old).word(" -> ").names(&crd.versions.new);
                    self.add(2, ChangeKind::Changed, words);
                }
            }
        }
        for field in &bundle.fields {
            let words = LineBuilder::new("field ").name(&field.path).word(" of CRD ").name(&field.crd);
            let words = match (field.what, field.detail.is_empty()) {
                (ChangeKind::Added, _) => words.word(" (").name(&field.detail).word(")"),
                (_, true) => words,
                _ => words.word(" ").name(&field.detail),
            };
            self.add(2, field.what, words);
        }
        for refused in bundle.crd_verdicts.iter().filter(|change| change.blocks) {
            let words = LineBuilder::new("OLM v1 refuses the upgrade: ").name(refused.olm_message());
            self.add(2, ChangeKind::Changed, words);
        }
        self.properties(2, &bundle.properties);
        for (what, images) in
            [(ChangeKind::Added, &bundle.related_images.added), (ChangeKind::Removed, &bundle.related_images.removed)]
        {
            for image in images {
                let words = LineBuilder::new("related image ");
                let words = if image.name.is_empty() { words } else { words.name(&image.name).word(" ") };
                self.add(2, what, words.name(&image.image));
            }
        }
        if bundle.manifests {
            self.add(2, ChangeKind::Changed, LineBuilder::new("manifests"));
        }
    }

    fn properties(&mut self, depth: usize, properties: &Difference<PropertyDifference>) {
        for (what, properties) in [(ChangeKind::Added, &properties.added), (ChangeKind::Removed, &properties.removed)] {
            for property in properties {
                let words = LineBuilder::new("property ").name(&property.kind).word(" ").name(cut(&property.value));
                self.add(depth, what, words);
            }
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE_LEN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the counts of all changes.
pub fn summary(changes: &CatalogChanges) -> String {
    let mut text = String::new();
    let mut count = |things: &str, whats: &mut dyn Iterator<Item = ChangeKind>| {
        let (mut added, mut removed, mut changed) = (0, 0, 0);
        for what in whats {
            match what {
                ChangeKind::Added => added += 1,
                ChangeKind::Removed => removed += 1,
                ChangeKind::Changed => changed += 1,
            }
        }
        let separator = if text.is_empty() { "" } else { "; " };
        let _ = write!(text, "{separator}{things}: {added} added, {removed} removed, {changed} changed");
    };
    let packages = || changes.packages.iter();
    count("packages", &mut packages().map(|package| package.what));
    count("channels", &mut packages().flat_map(|package| package.channels.iter().map(|channel| channel.what)));
    count("bundles", &mut packages().flat_map(|package| package.bundles.iter().map(|bundle| bundle.what)));
    text
}

/// Returns all differences, as lines.
pub fn lines(changes: &CatalogChanges) -> Vec<ReportLine> {
    let mut lines = Lines::default();
    changes.packages.iter().for_each(|package| lines.package(package));
    lines.others(changes);
    lines.0
}

/// Returns the differences in one package, as lines; the first line names it.
pub fn package_lines(package: &PackageChange) -> Vec<ReportLine> {
    let mut lines = Lines::default();
    lines.package(package);
    lines.0
}
