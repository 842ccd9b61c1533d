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

/// Where a fault is in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// At a field: `stable.bundles[0].image`.
    Field(String),
    /// Where a text stands.
    Text(String),
}

impl Error {
    /// Returns every fault with its place, if that is known.
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
