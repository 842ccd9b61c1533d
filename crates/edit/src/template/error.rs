//! Errors of template rendering.

use fbc::json::PathStep;
use fbc::quote::quote;
use fbc::spans::Spans;
use fbc::stream::StreamError;

use super::semver::SemverError;
use super::substitutes::SubstitutesError;

/// The reason why a template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template has no schema.
    #[error("template input missing required 'schema' field")]
    MissingSchema,
    /// The schema is not that of a template.
    #[error("unknown template schema: {0}")]
    UnknownSchema(String),
    /// The template has the schema of another kind than requested.
    #[error("template has unknown schema ({}), should be {}", quote(found), quote(expected))]
    WrongSchema {
        /// The schema found.
        found: String,
        /// The schema expected.
        expected: &'static str,
    },
    /// A field has the wrong type.
    #[error("unmarshalling template: {0}")]
    Fields(String),
    /// Entries are not valid blobs, or not allowed in the template; one message per entry.
    #[error("{}", .0.join("\n"))]
    Entries(Vec<String>),
    /// A bundle cannot be supplied or is invalid.
    #[error("render reference {}: {message}", quote(reference))]
    Bundle {
        /// The reference in the template.
        reference: String,
        /// The error.
        message: String,
    },
    /// A document cannot be parsed.
    #[error("line {line}: {source}")]
    Syntax {
        /// Its line.
        line: usize,
        source: StreamError,
    },
    /// Several errors.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<TemplateError>),
    /// An error of a semver template.
    #[error("render: {0}")]
    Semver(Box<SemverError>),
    /// An error of a substitutes template.
    #[error("render: {0}")]
    Substitutes(Box<SubstitutesError>),
}

/// The location of a fault in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePlace {
    /// At a field: `stable.bundles[0].image`.
    Field(String),
    /// At this text.
    Text(String),
}

impl TemplateError {
    /// Returns all faults with their locations, where known.
    fn faults(&self) -> Vec<(String, Option<TemplatePlace>)> {
        let place = match self {
            TemplateError::Several(errors) => return errors.iter().flat_map(TemplateError::faults).collect(),
            TemplateError::Entries(faults) => {
                let fault = |fault: &String| {
                    let field = fault.split(':').next().filter(|field| field.starts_with("entries["));
                    (fault.clone(), field.map(|field| TemplatePlace::Field(field.to_owned())))
                };
                return faults.iter().map(fault).collect();
            }
            TemplateError::Bundle { reference, .. } => Some(TemplatePlace::Text(reference.clone())),
            TemplateError::Fields(message) => message
                .split_once("into field \"")
                .and_then(|(_, rest)| rest.split_once('"'))
                .map(|(field, _)| TemplatePlace::Field(field.to_owned())),
            TemplateError::Semver(error) => match &**error {
                SemverError::UnknownField { field, .. } => Some(TemplatePlace::Field(field.clone())),
                _ => None,
            },
            TemplateError::WrongSchema { .. } | TemplateError::UnknownSchema(_) => {
                Some(TemplatePlace::Field("schema".into()))
            }
            TemplateError::MissingSchema | TemplateError::Syntax { .. } | TemplateError::Substitutes(_) => None,
        };
        vec![(self.to_string(), place)]
    }

    /// Formats all faults of the template in `file`, each with its line and column where known.
    pub fn located(&self, file: &str, text: &[u8]) -> String {
        let spans = Spans::of_yaml(text);
        let file = if file == "-" { "<stdin>" } else { file };
        let described = self.faults().into_iter().map(|(message, place)| {
            let offset = place.and_then(|place| match place {
                TemplatePlace::Field(field) => spans.as_ref()?.find_or_ancestor(&steps(&field)).map(|span| span.start),
                TemplatePlace::Text(words) => std::str::from_utf8(text).ok()?.find(&words),
            });
            match offset {
                Some(offset) => {
                    let start = text[..offset].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                    let column = String::from_utf8_lossy(&text[start..offset]).chars().count() + 1;
                    format!("{message}\n  --> {file}:{}:{column}", line_of(text, offset))
                }
                None => message,
            }
        });
        described.collect::<Vec<_>>().join("\n")
    }
}

/// Parses a path such as `stable.bundles[0].image`.
fn steps(field: &str) -> Vec<PathStep> {
    let mut steps = Vec::new();
    for part in field.split('.') {
        let (name, numbers) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !name.is_empty() {
            steps.push(PathStep::Key(name.to_owned().into()));
        }
        let numbers = numbers.split(['[', ']']).filter_map(|number| number.parse().ok());
        steps.extend(numbers.map(PathStep::Index));
    }
    steps
}

/// Returns the 1-based line number of a byte offset.
pub fn line_of(text: &[u8], offset: usize) -> usize {
    text[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Why a bundle cannot be supplied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SupplyError(String);

impl SupplyError {
    /// Creates an error from that of the supplier.
    pub fn new(error: impl std::error::Error) -> SupplyError {
        SupplyError(error.to_string())
    }

    pub(super) fn missing() -> SupplyError {
        SupplyError("the source returned no result".to_owned())
    }

    #[cfg(test)]
    pub(super) fn because(text: &str) -> SupplyError {
        SupplyError(text.to_owned())
    }
}

impl From<SemverError> for TemplateError {
    fn from(error: SemverError) -> TemplateError {
        match error {
            SemverError::Template(error) => error,
            error => TemplateError::Semver(Box::new(error)),
        }
    }
}

impl From<SubstitutesError> for TemplateError {
    fn from(error: SubstitutesError) -> TemplateError {
        TemplateError::Substitutes(Box::new(error))
    }
}
