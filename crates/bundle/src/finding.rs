//! What is found in a bundle, as a value.

use std::fmt;

use crate::whole::Position;

/// How bad a finding is; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Info,
    /// Hardly matters.
    Low,
    /// Deserves a look.
    Medium,
    /// Looks wrong.
    Warning,
    /// Is a danger.
    High,
    /// Keeps a bundle from being installed or published.
    Error,
    /// Gives the whole cluster away.
    Critical,
}

impl Severity {
    /// All severities.
    pub const ALL: [Severity; 7] = [
        Severity::Info,
        Severity::Low,
        Severity::Medium,
        Severity::Warning,
        Severity::High,
        Severity::Error,
        Severity::Critical,
    ];

    /// Reads a severity as it is shown.
    pub fn parse(text: &str) -> Option<Severity> {
        Severity::ALL.into_iter().find(|severity| severity.to_string() == text)
    }

    /// Returns the severity one step lower, on the scale of dangers.
    #[must_use]
    pub fn lower(self) -> Severity {
        match self {
            Severity::Critical => Severity::High,
            Severity::High => Severity::Medium,
            Severity::Medium => Severity::Low,
            Severity::Low | Severity::Info => Severity::Info,
            Severity::Error => Severity::Warning,
            Severity::Warning => Severity::Info,
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Info => "info",
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::Warning => "warning",
            Severity::High => "high",
            Severity::Error => "error",
            Severity::Critical => "critical",
        })
    }
}

/// Something found in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of the rule.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is found.
    pub message: String,
    /// What to do about it; empty when that is plain.
    pub help: String,
    /// The bundle.
    pub bundle: String,
    /// The object, as `KIND NAME`; empty when it is about none.
    pub object: String,
    /// The file, relative to the bundle; empty when it is about none.
    pub file: String,
    /// The document of the file, from 0.
    pub document: usize,
    /// Where in the document, as a JSON pointer.
    pub pointer: String,
    /// Where in the file, once it is known.
    pub position: Option<Position>,
}

impl Finding {
    /// Makes a finding about nothing in particular.
    pub fn new(id: &'static str, severity: Severity, message: impl Into<String>) -> Finding {
        Finding {
            id,
            severity,
            message: message.into(),
            help: String::new(),
            bundle: String::new(),
            object: String::new(),
            file: String::new(),
            document: 0,
            pointer: String::new(),
            position: None,
        }
    }

    /// Says which bundle it is about.
    #[must_use]
    pub fn of(mut self, bundle: &str) -> Finding {
        self.bundle = bundle.to_owned();
        self
    }

    /// Says where it is.
    #[must_use]
    pub fn at(mut self, file: &str, document: usize, pointer: impl Into<String>) -> Finding {
        self.file = file.to_owned();
        self.document = document;
        self.pointer = pointer.into();
        self
    }

    /// Says which object it is about.
    #[must_use]
    pub fn about(mut self, object: impl Into<String>) -> Finding {
        self.object = object.into();
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Finding {
        self.help = help.into();
        self
    }
}
