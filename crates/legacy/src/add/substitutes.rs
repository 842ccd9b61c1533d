//! `substitutesFor`: bundles that substitute others.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Error;
use crate::order::{compare, version};
use crate::value;

/// The fields of a bundle that substitutions change.
#[derive(Debug, Clone)]
struct SubstitutedBundle {
    name: String,
    version: String,
    replaces: String,
    skips: Vec<String>,
    substitutes: String,
}

impl SubstitutedBundle {
    fn read(connection: &Connection, name: &str) -> Result<Option<SubstitutedBundle>, Error> {
        let sql = "SELECT name, version, replaces, skips, substitutesfor FROM operatorbundle WHERE name = ?1";
        let row = connection.prepare_cached(sql)?.query_row([name], |row| {
            Ok(SubstitutedBundle {
                name: value::text(row, 0)?,
                version: value::text(row, 1)?,
                replaces: value::text(row, 2)?,
                skips: value::text(row, 3)?.split(',').filter(|skip| !skip.is_empty()).map(str::to_owned).collect(),
                substitutes: value::text(row, 4)?,
            })
        });
        Ok(row.optional()?)
    }

    fn store(&self, connection: &Connection) -> Result<(), Error> {
        let sql = "UPDATE operatorbundle SET replaces = ?2, skips = ?3, substitutesfor = ?4 WHERE name = ?1";
        let skips = self.skips.join(",");
        connection.prepare_cached(sql)?.execute(params![self.name, self.replaces, skips, self.substitutes])?;
        Ok(())
    }

    /// Adds a name to the skips, unless it is listed or its own.
    fn skip(&mut self, name: &str) {
        if name != self.name && !self.skips.iter().any(|skip| skip == name) {
            self.skips.push(name.to_owned());
        }
    }
}

/// Returns the bundles that substitute `name`.
fn substitutes_of(connection: &Connection, name: &str) -> Result<Vec<String>, Error> {
    value::strings(connection, "SELECT name FROM operatorbundle WHERE substitutesfor = ?1 ORDER BY name", [name])
}

fn cycle(name: &str) -> Error {
    Error::Message(format!("cyclic substitutesFor chain detected involving {}", fbc::quote::quote(name)))
}

/// Applies the substitutions that a newly added bundle takes part in.
pub(super) fn substitute(connection: &Connection, name: &str) -> Result<(), Error> {
    let Some(mut bundle) = SubstitutedBundle::read(connection, name)? else { return Ok(()) };
    if !bundle.substitutes.is_empty() {
        apply_substitution(connection, &mut bundle)?;
    }
    skip_down(connection, &mut bundle)?;
    // Direct and transitive substitutes inherit the skips of this bundle.
    let mut seen = BTreeSet::from([bundle.name.clone()]);
    let mut waiting = substitutes_of(connection, &bundle.name)?;
    while let Some(above) = waiting.pop() {
        if !seen.insert(above.clone()) {
            return Err(cycle(&above));
        }
        if let Some(mut above) = SubstitutedBundle::read(connection, &above)? {
            above.skip(&bundle.name);
            bundle.skips.iter().for_each(|skip| above.skip(skip));
            above.store(connection)?;
            waiting.extend(substitutes_of(connection, &above.name)?);
        }
    }
    skip_substitutes(connection, &mut bundle)?;
    let mut seen = BTreeSet::from([bundle.name.clone()]);
    loop {
        let newest = substitutes_of(connection, &bundle.replaces)?.into_iter().rfind(|above| *above != bundle.name);
        match newest {
            Some(above) if !bundle.replaces.is_empty() => {
                if !seen.insert(above.clone()) {
                    return Err(cycle(&above));
                }
                bundle.replaces = above;
            }
            _ => break,
        }
    }
    bundle.store(connection)
}

/// Takes the position of the substituted bundle, or a position among its other substitutes.
fn apply_substitution(connection: &Connection, bundle: &mut SubstitutedBundle) -> Result<(), Error> {
    let original = bundle.substitutes.clone();
    if original == bundle.name {
        return Err(cycle(&bundle.name));
    }
    let sql = "UPDATE operatorbundle SET replaces = ?2 WHERE replaces = ?1 AND name <> ?2";
    connection.prepare_cached(sql)?.execute([&original, &bundle.name])?;
    let own = version(&bundle.name, &bundle.version)?;
    let mut others = Vec::new();
    for other in substitutes_of(connection, &original)?.into_iter().filter(|other| *other != bundle.name) {
        if let Some(other) = SubstitutedBundle::read(connection, &other)? {
            others.push((version(&other.name, &other.version)?, other));
        }
    }
    others.sort_by(|a, b| compare(&a.0, &b.0));
    for (other_version, mut other) in others {
        match compare(&other_version, &own) {
            std::cmp::Ordering::Equal => {
                let text = "cannot determine latest substitution because of duplicate versions";
                return Err(Error::Message(format!("{text}: {} and {}", bundle.name, other.name)));
            }
            std::cmp::Ordering::Less => bundle.substitutes = other.name,
            std::cmp::Ordering::Greater => {
                other.substitutes.clone_from(&bundle.name);
                other.skip(&bundle.name);
                bundle.skips.iter().for_each(|skip| other.skip(skip));
                other.store(connection)?;
                // Bundles that replaced the original replace its newest substitute.
                let sql = "UPDATE operatorbundle SET replaces = ?2 WHERE replaces = ?1 AND name <> ?2";
                connection.prepare_cached(sql)?.execute([&bundle.name, &other.name])?;
                break;
            }
        }
    }
    bundle.store(connection)
}

/// Skips the whole chain of substituted bundles.
fn skip_down(connection: &Connection, bundle: &mut SubstitutedBundle) -> Result<(), Error> {
    let mut seen = BTreeSet::from([bundle.name.clone()]);
    let mut below = bundle.substitutes.clone();
    while !below.is_empty() {
        if !seen.insert(below.clone()) {
            return Err(cycle(&below));
        }
        bundle.skip(&below);
        below = SubstitutedBundle::read(connection, &below)?.map(|below| below.substitutes).unwrap_or_default();
    }
    Ok(())
}

/// Skips the substitutes of skipped bundles.
fn skip_substitutes(connection: &Connection, bundle: &mut SubstitutedBundle) -> Result<(), Error> {
    let mut at = 0;
    while let Some(skip) = bundle.skips.get(at).cloned() {
        for above in substitutes_of(connection, &skip)? {
            bundle.skip(&above);
        }
        at += 1;
    }
    Ok(())
}
