//! Problems of a catalog and their positions.

use std::fmt;

use crate::json::JsonPath;

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemSeverity {
    /// The catalog cannot be used.
    Error,
    /// The catalog works, but probably not as its author intended.
    Warning,
}

/// The stage at which a problem is found; problems are reported in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemStage {
    /// A name looks like a misspelt one. Older tools do not report this.
    Spelling,
    /// A file cannot be read, or a blob cannot be decoded.
    Load,
    /// A package blob is inconsistent with the catalog.
    Packages,
    /// A channel blob is inconsistent with the catalog.
    Channels,
    /// A bundle blob is inconsistent with the catalog.
    Bundles,
    /// A channel entry has no bundle.
    Entries,
    /// A deprecation refers to nothing.
    Deprecations,
    /// A package, channel or bundle is invalid in itself.
    Model,
}

/// What a problem has to do with the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProblemRole {
    /// It stands for itself.
    #[default]
    Own,
    /// Its help names what was probably meant; problems in this part of the catalog probably vanish with it.
    Cause(ProblemScope),
    /// It probably vanishes with a cause that is reported, too.
    Consequence,
}

/// A file of a catalog, by its index in [`crate::Fbc::files`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// The position of a problem in the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: FileId,
    /// The position in the file.
    pub spot: Spot,
}

/// A position inside a file; lines and columns are computed only on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spot {
    /// The file as a whole.
    File,
    /// A byte offset from the start of the file.
    Offset(u64),
    /// A value inside the document that starts at `document`.
    Value {
        /// The byte offset of the document.
        document: u64,
        /// The path of the value.
        path: JsonPath,
    },
}

/// The part of the catalog that a problem belongs to, from the outside in.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProblemScope {
    pub package: Option<String>,
    /// The channel of that package.
    pub channel: Option<String>,
    /// The bundle of that package, as a member of the channel if there is one.
    pub bundle: Option<String>,
}

impl ProblemScope {
    /// Returns the scope with these names; empty names are left out.
    pub fn new(package: &str, channel: &str, bundle: &str) -> ProblemScope {
        let name = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ProblemScope { package: name(package), channel: name(channel), bundle: name(bundle) }
    }
}

/// A problem of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The name of the violated rule, as in `docs/rules.md`.
    pub rule: &'static str,
    pub severity: ProblemSeverity,
    pub stage: ProblemStage,
    /// The part of the catalog.
    pub scope: ProblemScope,
    /// The message, in the wording of older tools.
    pub message: String,
    /// The message for people, where that wording misleads.
    pub plain: Option<String>,
    /// The position.
    pub place: Option<Place>,
    /// The position of the first of two duplicates, if the problem is at the second.
    pub first: Option<Place>,
    /// The label for the highlighted text.
    pub label: Option<String>,
    /// The fix.
    pub help: Option<String>,
    /// Its relation to the other problems.
    pub role: ProblemRole,
}

impl Problem {
    /// Creates an error of `rule`; the other methods add position, label and help.
    pub fn new(rule: &'static str, stage: ProblemStage, message: impl Into<String>) -> Problem {
        Problem {
            rule,
            severity: ProblemSeverity::Error,
            stage,
            scope: ProblemScope::default(),
            message: message.into(),
            plain: None,
            place: None,
            first: None,
            label: None,
            help: None,
            role: ProblemRole::Own,
        }
    }

    /// Turns it into a warning.
    #[must_use]
    pub fn warning(mut self) -> Problem {
        self.severity = ProblemSeverity::Warning;
        self
    }

    /// Sets the position of the first of two duplicates.
    #[must_use]
    pub fn duplicate_of(mut self, first: Option<Place>) -> Problem {
        self.first = first;
        self
    }

    /// Sets the position.
    #[must_use]
    pub fn at(mut self, place: Place) -> Problem {
        self.place = Some(place);
        self
    }

    /// Sets the message for people.
    #[must_use]
    pub fn plainly(mut self, message: impl Into<String>) -> Problem {
        self.plain = Some(message.into());
        self
    }

    /// Sets the label for the highlighted text.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Problem {
        self.label = Some(label.into());
        self
    }

    /// Sets the fix.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Sets what was probably meant, and the package and channel whose other problems that explains.
    #[must_use]
    pub fn meant(mut self, near: &str, package: &str, channel: &str) -> Problem {
        self.help = Some(format!("did you mean \"{near}\"?"));
        self.role = ProblemRole::Cause(ProblemScope::new(package, channel, ""));
        self
    }

    /// Sets the package, channel and bundle; empty names are ignored.
    #[must_use]
    pub fn about(mut self, package: &str, channel: &str, bundle: &str) -> Problem {
        self.scope = ProblemScope::new(package, channel, bundle);
        self
    }

    /// Compares problems in report order: by stage, then by position, except that those of the model keep their tree
    /// order.
    pub fn order(&self, other: &Problem) -> std::cmp::Ordering {
        let key = |problem: &Problem| {
            let place = problem.place.as_ref().filter(|_| problem.stage != ProblemStage::Model).map(|place| {
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
