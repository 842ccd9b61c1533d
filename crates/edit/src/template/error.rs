//! Why a template gives no catalog.

use fbc::quote::quote;

use super::semver::SemverError;
use super::substitutes::SubstitutesError;

/// The reason why a template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The template states no schema.
    #[error("template input missing required 'schema' field")]
    MissingSchema,
    /// The template states a schema that is none of a template.
    #[error("unknown template schema: {0}")]
    UnknownSchema(String),
    /// The template states the schema of another kind than was asked for.
    #[error("template has unknown schema ({}), should be {}", quote(found), quote(expected))]
    WrongSchema {
        /// What it states.
        found: String,
        /// What was asked for.
        expected: &'static str,
    },
    /// A field has another type than it must.
    #[error("unmarshalling template: {0}")]
    Fields(String),
    /// Entries are no blobs, or not those that the template may have; a message for each.
    #[error("{}", .0.join("\n"))]
    Entries(Vec<String>),
    /// A bundle cannot be supplied, or is none.
    #[error("render reference {}: {message}", quote(reference))]
    Bundle {
        /// The reference in the template.
        reference: String,
        /// What is wrong.
        message: String,
    },
    /// Several reasons at once.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<Error>),
    /// A fault of a semver template.
    #[error("render: {0}")]
    Semver(Box<SemverError>),
    /// A fault of a substitutes template.
    #[error("render: {0}")]
    Substitutes(Box<SubstitutesError>),
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
