//! Limits the size of queries.

use std::collections::BTreeSet;

use super::QueryFailure;
use super::parse::{QueryDocument, Selection};

/// Maximum depth of selections, number of aliases and number of fields in a query.
const DEPTH: usize = 10;
const ALIASES: usize = 50;
const FIELDS: usize = 500;
/// The depth limit of introspection, which is higher: the queries of common tools nest types in types.
pub(super) const TYPE_DEPTH: usize = 25;

/// Checks the size of a query before anything else.
///
/// # Errors
/// Fails when it is too large.
pub(super) fn measure(document: &QueryDocument<'_>) -> Result<(), QueryFailure> {
    let mut size = Size { document, aliases: 0, fields: 0, visited: BTreeSet::new() };
    document.operations.iter().try_for_each(|operation| size.walk(&operation.selections, 1, DEPTH))?;
    acyclic(document)
}

/// Checks that no fragment contains itself.
fn acyclic(document: &QueryDocument<'_>) -> Result<(), QueryFailure> {
    let mut done = BTreeSet::new();
    document.fragments.keys().try_for_each(|name| visit(document, name, &mut Vec::new(), &mut done))
}

fn visit<'a>(
    document: &'a QueryDocument<'a>,
    name: &'a str,
    open: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Result<(), QueryFailure> {
    let Some(fragment) = document.fragments.get(name).filter(|_| !done.contains(name)) else { return Ok(()) };
    if open.contains(&name) {
        return Err(QueryFailure::at(fragment.at, format!("Cannot spread fragment {name:?} within itself.")));
    }
    open.push(name);
    let mut inner = BTreeSet::new();
    spreads(&fragment.selections, &mut inner);
    for name in inner {
        visit(document, name, open, done)?;
    }
    open.pop();
    done.insert(name);
    Ok(())
}

/// Collects the fragments that selections spread, at any depth.
fn spreads<'a>(selections: &'a [Selection<'a>], names: &mut BTreeSet<&'a str>) {
    for selection in selections {
        match selection {
            Selection::Field(field) => spreads(&field.selections, names),
            Selection::Inline { selections, .. } => spreads(selections, names),
            Selection::Spread { name, .. } => {
                names.insert(name);
            }
        }
    }
}

struct Size<'a> {
    document: &'a QueryDocument<'a>,
    aliases: usize,
    fields: usize,
    visited: BTreeSet<&'a str>,
}

impl<'a> Size<'a> {
    fn walk(&mut self, selections: &'a [Selection<'a>], depth: usize, most: usize) -> Result<(), QueryFailure> {
        if depth > most {
            return Err(QueryFailure::new(format!("query exceeds maximum depth of {most}")));
        }
        for selection in selections {
            match selection {
                Selection::Field(field) => {
                    self.fields += 1;
                    self.aliases += usize::from(field.alias.is_some());
                    if self.fields > FIELDS {
                        return Err(QueryFailure::at(
                            field.at,
                            format!("query exceeds maximum field count of {FIELDS}"),
                        ));
                    }
                    if self.aliases > ALIASES {
                        return Err(QueryFailure::at(
                            field.at,
                            format!("query exceeds maximum alias count of {ALIASES}"),
                        ));
                    }
                    if !field.selections.is_empty() {
                        let most = if matches!(field.name, "__schema" | "__type") { TYPE_DEPTH } else { most };
                        self.walk(&field.selections, depth + 1, most)?;
                    }
                }
                Selection::Inline { selections, .. } => self.walk(selections, depth + 1, most)?,
                Selection::Spread { name, .. } => {
                    if self.visited.insert(name)
                        && let Some(fragment) = self.document.fragments.get(name)
                    {
                        self.walk(&fragment.selections, depth + 1, most)?;
                    }
                }
            }
        }
        Ok(())
    }
}
