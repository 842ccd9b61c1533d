//! The catalogs of a simulated cluster, each with its name.

use std::collections::HashSet;
use std::path::Path;

use catalog::{Problems, Warnings};
use fbc::fault::{Class, Fault};
use fbc::json::Raw;
use fbc::{Blob, Fbc, Limits, Problem};
use resolve::input::{CatalogInput, InputReader};

use crate::error::SourceError;
use crate::images::Images;
use crate::load::{LoadedCatalog, SourceOptions, read};
use crate::resolve::{NamedSource, resolve};

/// The default namespace of catalogs. Catalogs in it are visible to all namespaces.
const GLOBAL: &str = "olm";

/// Why a cluster cannot have a catalog.
#[derive(thiserror::Error)]
pub enum CatalogInputError {
    /// A source cannot be used.
    #[error("{reference}: {source}")]
    Named {
        /// The reference.
        reference: String,
        /// The cause.
        source: Box<SourceError>,
    },
    /// A catalog cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A catalog is invalid.
    #[error("catalog {reference} is invalid and no cluster would accept it")]
    Invalid {
        /// The reference.
        reference: String,
        /// Its blobs.
        fbc: Box<Fbc>,
        /// The broken rules.
        problems: Problems,
    },
    /// A priority is for no catalog.
    #[error("--priority {name}={priority}: no catalog has that name; the catalogs are {}", known.join(", "))]
    Priority {
        /// The name.
        name: String,
        /// The priority.
        priority: i64,
        /// The names of the catalogs.
        known: Vec<String>,
    },
}

impl std::fmt::Debug for CatalogInputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Fault for CatalogInputError {
    fn class(&self) -> Class {
        match self {
            CatalogInputError::Named { source, .. } => source.class(),
            CatalogInputError::Source(source) => source.class(),
            CatalogInputError::Invalid { .. } => Class::Refused,
            CatalogInputError::Priority { .. } => Class::Usage,
        }
    }
}

/// Loads catalogs given as `[NAME=]SOURCE`, with the priorities of those that have one.
///
/// # Errors
/// Fails if a catalog cannot be read or is invalid: no cluster would serve it.
pub fn catalog_inputs(
    references: &[String],
    priorities: &[(String, i64)],
    images: &Images,
    limits: &Limits,
) -> Result<Vec<CatalogInput>, CatalogInputError> {
    let named: Vec<(Option<&str>, &str)> = references.iter().map(|reference| split(reference)).collect();
    let plain: Vec<&str> = named.iter().map(|(_, reference)| *reference).collect();
    let mut taken: HashSet<String> = HashSet::new();
    let mut inputs = Vec::new();
    for ((name, reference), found) in named.into_iter().zip(resolve(&plain, images)) {
        let found = found
            .map_err(|source| CatalogInputError::Named { reference: reference.to_owned(), source: Box::new(source) })?;
        let mut input = input(reference, &found, images, limits)?;
        input.name = unique(name.map_or_else(|| named_after(reference), str::to_owned), &mut taken);
        input.namespace = GLOBAL.to_owned();
        inputs.push(input);
    }
    for (name, priority) in priorities {
        let known = || inputs.iter().map(|input: &CatalogInput| input.name.clone()).collect();
        let unknown = CatalogInputError::Priority { name: name.clone(), priority: *priority, known: known() };
        let input = inputs.iter_mut().find(|input| input.name == *name).ok_or(unknown)?;
        input.priority = *priority;
    }
    Ok(inputs)
}

/// Splits `NAME=SOURCE`. An existing path that contains `=` has no name.
fn split(reference: &str) -> (Option<&str>, &str) {
    let plain = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
    };
    match reference.split_once('=') {
        Some((name, source)) if plain(name) && !source.is_empty() && !Path::new(reference).exists() => {
            (Some(name), source)
        }
        _ => (None, reference),
    }
}

/// Derives a catalog name from its reference: the last path element, without tag and digest.
fn named_after(reference: &str) -> String {
    let path = Path::new(reference).canonicalize().ok();
    let name = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| {
        let reference = reference.split('@').next().unwrap_or_default();
        let last = reference.rsplit('/').next().unwrap_or_default();
        last.split(':').next().unwrap_or_default().to_owned()
    });
    let name: String =
        name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    if name.is_empty() { "catalog".to_owned() } else { name }
}

fn unique(name: String, taken: &mut HashSet<String>) -> String {
    let mut unique = name.clone();
    let mut number = 1;
    while !taken.insert(unique.clone()) {
        number += 1;
        unique = format!("{name}-{number}");
    }
    unique
}

/// Reads and checks one catalog.
fn input(
    reference: &str,
    found: &NamedSource,
    images: &Images,
    limits: &Limits,
) -> Result<CatalogInput, CatalogInputError> {
    let reader = InputReader::default();
    let inspect = |blob: &Blob, text: Raw<'_>, _: &mut Vec<Problem>| reader.add(blob, text);
    let options = SourceOptions { inspect: Some(&inspect), ..SourceOptions::catalogs(limits.clone(), images) };
    let LoadedCatalog { fbc, checked } = read(reference, found, &options, Warnings::Off)?;
    match checked.catalog {
        Ok(_) => Ok(reader.finish(&fbc)),
        Err(problems) => {
            Err(CatalogInputError::Invalid { reference: reference.to_owned(), fbc: Box::new(fbc), problems })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogs_are_named_after_their_sources() {
        assert_eq!(split("community=quay.io/x/y:latest"), (Some("community"), "quay.io/x/y:latest"));
        assert_eq!(split("./a=b"), (None, "./a=b"));
        assert_eq!(named_after("quay.io/example/my_catalog:v1@sha256:0"), "my-catalog");
        let mut taken = HashSet::new();
        assert_eq!((unique("a".into(), &mut taken), unique("a".into(), &mut taken)), ("a".into(), "a-2".into()));
    }
}
