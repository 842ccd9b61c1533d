//! What is wrong with a catalog, and where.

use std::fmt;

use crate::json::Path;

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The catalog cannot be used.
    Error,
    /// The catalog works, but hardly as its author meant.
    Warning,
}

/// The stage of reading a catalog at which a problem shows; problems are reported in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// A file cannot be read, or a blob not be decoded.
    Load,
    /// A package blob does not fit the catalog.
    Packages,
    /// A channel blob does not fit the catalog.
    Channels,
    /// A bundle blob does not fit the catalog.
    Bundles,
    /// A channel entry has no bundle.
    Entries,
    /// A deprecation names nothing that exists.
    Deprecations,
    /// A package, channel or bundle is not sound in itself.
    Model,
}

/// A file of a catalog, by its place in [`crate::Fbc::files`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// Where in the files a problem stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: FileId,
    /// Where in the file.
    pub spot: Spot,
}

/// A place inside a file; lines and columns are found only when somebody looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spot {
    /// The file as a whole.
    File,
    /// This many bytes from the start of the file.
    Offset(u64),
    /// A value inside the document that starts at `document`.
    Value {
        /// Where the document starts, in bytes.
        document: u64,
        /// The way to the value.
        path: Path,
    },
}

/// The nodes of the catalog that a problem belongs to, from the outside in.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// The package.
    pub package: Option<String>,
    /// The channel of that package.
    pub channel: Option<String>,
    /// The bundle of that package, as a member of the channel if there is one.
    pub bundle: Option<String>,
}

/// One thing that is wrong with a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The name of the rule that is broken, as in `docs/rules.md`.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// When it shows.
    pub stage: Stage,
    /// What it is about.
    pub scope: Scope,
    /// What is wrong, in the words that users of older tools know.
    pub message: String,
    /// Where it is wrong.
    pub place: Option<Place>,
    /// What the marked text does wrong.
    pub label: Option<String>,
    /// How to fix it.
    pub help: Option<String>,
}

impl Problem {
    /// Makes an error of `rule`; place, label and help are added by the other methods.
    pub fn new(rule: &'static str, stage: Stage, message: impl Into<String>) -> Problem {
        Problem {
            rule,
            severity: Severity::Error,
            stage,
            scope: Scope::default(),
            message: message.into(),
            place: None,
            label: None,
            help: None,
        }
    }

    /// Says that this is a warning.
    #[must_use]
    pub fn warning(mut self) -> Problem {
        self.severity = Severity::Warning;
        self
    }

    /// Says where.
    #[must_use]
    pub fn at(mut self, place: Place) -> Problem {
        self.place = Some(place);
        self
    }

    /// Says what the marked text does wrong.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Problem {
        self.label = Some(label.into());
        self
    }

    /// Says how to fix it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Says which package, channel and bundle it is about; empty names are left out.
    #[must_use]
    pub fn about(mut self, package: &str, channel: &str, bundle: &str) -> Problem {
        let name = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        self.scope = Scope { package: name(package), channel: name(channel), bundle: name(bundle) };
        self
    }

    /// Orders problems as they are reported: by stage, then by place, but for those of the model,
    /// which keep the order of the tree they are shown in.
    pub fn order(&self, other: &Problem) -> std::cmp::Ordering {
        let key = |problem: &Problem| {
            let place = problem.place.as_ref().filter(|_| problem.stage != Stage::Model).map(|place| {
                let offset = match place.spot {
                    Spot::File => 0,
                    Spot::Offset(offset) => offset,
                    Spot::Value { document, .. } => document,
                };
                (place.file, offset)
            });
            (problem.stage, place)
        };
        key(self).cmp(&key(other))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
