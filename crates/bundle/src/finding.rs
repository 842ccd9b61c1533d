//! Findings about a bundle.

use std::fmt;

use crate::whole::Position;

/// The severity of a finding; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Information.
    Info,
    /// A minor risk.
    Low,
    /// A risk worth a review.
    Medium,
    /// A probable mistake.
    Warning,
    /// A serious risk.
    High,
    /// Prevents a bundle from being installed or published.
    Error,
    /// Grants control of the whole cluster.
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

    /// Parses a severity from its display form.
    pub fn parse(text: &str) -> Option<Severity> {
        Severity::ALL.into_iter().find(|severity| severity.to_string() == text)
    }

    /// Returns the severity one step lower on the risk scale.
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

/// A finding about a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of the rule.
    pub id: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The message.
    pub message: String,
    /// The advice; empty if it is obvious.
    pub help: String,
    /// The bundle.
    pub bundle: String,
    /// The object, as `KIND NAME`; empty if there is none.
    pub object: String,
    /// The file, relative to the bundle; empty if there is none.
    pub file: String,
    /// The index of the document in the file.
    pub document: usize,
    /// The location in the document, as a JSON pointer.
    pub pointer: String,
    /// The position in the file, once resolved.
    pub position: Option<Position>,
}

impl Finding {
    /// Creates a finding without a location.
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

    /// Sets the bundle.
    #[must_use]
    pub fn of(mut self, bundle: &str) -> Finding {
        self.bundle = bundle.to_owned();
        self
    }

    /// Sets the location.
    #[must_use]
    pub fn at(mut self, file: &str, document: usize, pointer: impl Into<String>) -> Finding {
        self.file = file.to_owned();
        self.document = document;
        self.pointer = pointer.into();
        self
    }

    /// Sets the object.
    #[must_use]
    pub fn about(mut self, object: impl Into<String>) -> Finding {
        self.object = object.into();
        self
    }

    /// Sets the advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Finding {
        self.help = help.into();
        self
    }
}
