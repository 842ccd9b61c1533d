//! The catalogs of a simulated cluster, each with its name.

use std::collections::HashSet;
use std::path::Path;

use catalog::Warnings;
use fbc::json::Raw;
use fbc::{Blob, Problem};
use resolve::input::{CatalogInput, InputReader};
use source::{Images, LoadedCatalog, SourceOptions};

use crate::choice::InvalidValue;
use crate::exit::Failure;
use crate::printer::Printer;
use crate::{limits, report};

/// The default namespace of catalogs. Catalogs in it are visible to all namespaces.
const GLOBAL: &str = "olm";

/// Loads catalogs given as `[NAME=]SOURCE`.
///
/// # Errors
/// Fails if a catalog is invalid, after reporting all its problems: no cluster would serve it.
pub(crate) fn load(
    references: &[String],
    priorities: &[(String, i64)],
    images: &Images,
    printer: &Printer,
) -> Result<Vec<CatalogInput>, Failure> {
    let named: Vec<(Option<&str>, &str)> = references.iter().map(|reference| split(reference)).collect();
    let plain: Vec<&str> = named.iter().map(|(_, reference)| *reference).collect();
    let mut taken: HashSet<String> = HashSet::new();
    let mut sources = Vec::new();
    for ((name, reference), found) in named.into_iter().zip(source::resolve(&plain, images)) {
        let found = found.map_err(|error| Failure::from(error).context(reference))?;
        let mut source = read(reference, &found, images, printer)?;
        source.name = unique(name.map_or_else(|| named_after(reference), str::to_owned), &mut taken);
        source.namespace = GLOBAL.to_owned();
        sources.push(source);
    }
    for (name, priority) in priorities {
        let names: Vec<String> = sources.iter().map(|source| source.name.clone()).collect();
        match sources.iter_mut().find(|source| source.name == *name) {
            Some(source) => source.priority = *priority,
            None => {
                let message = format!(
                    "--priority {name}={priority}: no catalog has that name; the catalogs are {}",
                    names.join(", ")
                );
                return Err(Failure::usage(message));
            }
        }
    }
    Ok(sources)
}

/// Parses the value of `--priority`.
pub(crate) fn priority(text: &str) -> Result<(String, i64), InvalidValue> {
    let (name, number) = text.split_once('=').ok_or("expected NAME=NUMBER")?;
    Ok((name.to_owned(), number.parse().map_err(|_| "expected NAME=NUMBER")?))
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
pub(crate) fn read(
    reference: &str,
    found: &source::NamedSource,
    images: &Images,
    printer: &Printer,
) -> Result<CatalogInput, Failure> {
    let reader = InputReader::default();
    let inspect = |blob: &Blob, text: Raw<'_>, _: &mut Vec<Problem>| reader.add(blob, text);
    let options = SourceOptions { inspect: Some(&inspect), ..SourceOptions::catalogs(limits::from_env()?, images) };
    let LoadedCatalog { fbc, checked, .. } = source::read(reference, found, &options, Warnings::Off)?;
    if let Err(problems) = checked.catalog {
        report::show(printer, &report::find(&fbc, problems.errors()));
        return Err(Failure::message(format!("catalog {reference} is invalid and no cluster would accept it")));
    }
    Ok(reader.finish(&fbc))
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
