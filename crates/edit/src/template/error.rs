//! Errors of template rendering.

use fbc::quote::quote;

use super::semver::SemverError;
use super::substitutes::SubstitutesError;

/// The reason why a template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
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
    /// Several errors.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<Error>),
    /// An error of a semver template.
    #[error("render: {0}")]
    Semver(Box<SemverError>),
    /// An error of a substitutes template.
    #[error("render: {0}")]
    Substitutes(Box<SubstitutesError>),
}

/// The location of a fault in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// At a field: `stable.bundles[0].image`.
    Field(String),
    /// At this text.
    Text(String),
}

impl Error {
    /// Returns all faults with their locations, where known.
    pub fn faults(&self) -> Vec<(String, Option<Place>)> {
        let place = match self {
            Error::Several(errors) => return errors.iter().flat_map(Error::faults).collect(),
            Error::Entries(faults) => {
                let fault = |fault: &String| {
                    let field = fault.split(':').next().filter(|field| field.starts_with("entries["));
                    (fault.clone(), field.map(|field| Place::Field(field.to_owned())))
                };
                return faults.iter().map(fault).collect();
            }
            Error::Bundle { reference, .. } => Some(Place::Text(reference.clone())),
            Error::Fields(message) => message
                .split_once("into field \"")
                .and_then(|(_, rest)| rest.split_once('"'))
                .map(|(field, _)| Place::Field(field.to_owned())),
            Error::Semver(error) => match &**error {
                SemverError::UnknownField { field, .. } => Some(Place::Field(field.clone())),
                _ => None,
            },
            Error::WrongSchema { .. } | Error::UnknownSchema(_) => Some(Place::Field("schema".into())),
            Error::MissingSchema | Error::Substitutes(_) => None,
        };
        vec![(self.to_string(), place)]
    }
}

impl From<SemverError> for Error {
    fn from(error: SemverError) -> Error {
        match error {
            SemverError::Template(error) => error,
            error => Error::Semver(Box::new(error)),
        }
    }
}

impl From<SubstitutesError> for Error {
    fn from(error: SubstitutesError) -> Error {
        Error::Substitutes(Box::new(error))
    }
}
