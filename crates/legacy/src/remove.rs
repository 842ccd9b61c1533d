//! Removes packages and stranded bundles, and deprecates bundles.

use std::collections::{BTreeSet, HashSet};

use rusqlite::{Connection, OptionalExtension, params};

use crate::change::Changed;
use crate::error::Error;
use crate::open::Database;
use crate::schema::keeping_apis;
use crate::value;

/// How failures are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Any failure rolls back everything.
    Strict,
    /// Failures are reported and skipped.
    Permissive,
}

impl Strictness {
    /// Returns the strictness of a command with or without `--permissive`.
    pub fn new(permissive: bool) -> Strictness {
        if permissive { Strictness::Permissive } else { Strictness::Strict }
    }
}

impl Database {
    /// Removes packages with all their bundles.
    ///
    /// # Errors
    /// Fails when a package does not exist, unless in permissive mode.
    pub fn remove_packages(&self, packages: &[String], strictness: Strictness) -> Result<Changed, Error> {
        let mut skipped = Vec::new();
        let mut remove = |connection: &Connection| {
            for package in packages {
                let removed = with_savepoint(connection, || {
                    remove_package(connection, package)?;
                    remove_stranded(connection)
                });
                if let Err(error) = removed {
                    let text = format!(
                        "error deleting packages from database: error removing operator package {package}: {error}"
                    );
                    match strictness {
                        Strictness::Strict => return Err(Error::Message(text)),
                        Strictness::Permissive => skipped.push(text),
                    }
                }
            }
            Ok(())
        };
        self.change(|connection| keeping_apis(connection, || remove(connection)))?;
        Ok(self.changed(skipped))
    }

    /// Removes all packages except these.
    ///
    /// # Errors
    /// Fails when the database cannot be changed.
    pub fn prune(&self, keep: &[String]) -> Result<Changed, Error> {
        let prune = |connection: &Connection| {
            for package in value::strings(connection, "SELECT name FROM package ORDER BY name", [])? {
                if keep.contains(&package) {
                    continue;
                }
                match remove_package(connection, &package) {
                    // A package without entries has nothing else to remove.
                    Err(Error::Message(_)) => drop_package(connection, &package)?,
                    other => other?,
                }
            }
            remove_stranded(connection)
        };
        self.change(|connection| keeping_apis(connection, || prune(connection)))?;
        Ok(self.changed(Vec::new()))
    }

    /// Removes the bundles that are in no channel.
    ///
    /// # Errors
    /// Fails when the database cannot be changed.
    pub fn prune_stranded(&self) -> Result<Changed, Error> {
        self.change(|connection| keeping_apis(connection, || remove_stranded(connection)))?;
        Ok(self.changed(Vec::new()))
    }

    /// Deprecates bundles, given by their images, and removes the bundles below them.
    ///
    /// With `allow_package_removal`, a package is removed if the heads of all its channels are given.
    ///
    /// # Errors
    /// Fails when an image is unknown, or a default channel would lose its head.
    pub fn deprecate(
        &self,
        images: &[String],
        allow_package_removal: bool,
        strictness: Strictness,
    ) -> Result<Changed, Error> {
        let mut problems = Vec::new();
        self.change(|connection| {
            let mut targets: Vec<(String, String)> = Vec::new();
            let mut unknown: Vec<&str> = Vec::new();
            for image in images {
                match bundle_of_image(connection, image)? {
                    Some(name) => targets.push((image.clone(), name)),
                    None => unknown.push(image),
                }
            }
            if !unknown.is_empty() {
                let unknown = unknown.join(" ");
                problems.push(format!("target bundlepaths for deprecation missing from registry: [{unknown}]"));
                fail_if_strict(&problems, strictness)?;
            }
            if allow_package_removal {
                remove_whole_packages(connection, &mut targets, &mut problems, strictness)?;
            }
            for (image, name) in &targets {
                let deprecated = with_savepoint(connection, || deprecate_bundle(connection, name));
                if let Err(error) = deprecated {
                    problems.push(format!("error deprecating bundle {image}: {error}"));
                }
            }
            fail_if_strict(&problems, strictness)
        })?;
        Ok(self.changed(problems))
    }
}

fn fail_if_strict(problems: &[String], strictness: Strictness) -> Result<(), Error> {
    match (problems, strictness) {
        ([], _) | (_, Strictness::Permissive) => Ok(()),
        ([one], Strictness::Strict) => Err(Error::message(one)),
        (several, Strictness::Strict) => Err(Error::Message(format!("[{}]", several.join(", ")))),
    }
}

/// Does atomic work within a change that continues either way.
pub(crate) fn with_savepoint<T>(connection: &Connection, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // SQLite rolls back the whole change on a full disk. What follows must not run without a transaction.
    if connection.is_autocommit() {
        return Err(Error::message("the change was rolled back: perhaps the disk is full"));
    }
    connection.execute_batch("SAVEPOINT part")?;
    match work() {
        Ok(done) => {
            connection.execute_batch("RELEASE part")?;
            Ok(done)
        }
        Err(error) => {
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK TO part; RELEASE part")?;
            }
            Err(error)
        }
    }
}

/// Finds the bundle of an image.
pub(crate) fn bundle_of_image(connection: &Connection, image: &str) -> Result<Option<String>, Error> {
    let sql = "SELECT name FROM operatorbundle WHERE bundlepath = ?1 ORDER BY name LIMIT 1";
    let exact = connection.prepare_cached(sql)?.query_row([image], |row| value::text(row, 0)).optional()?;
    if exact.is_some() {
        return Ok(exact);
    }
    // An image stored with tag and digest can be given by either alone.
    let sql = "SELECT name, bundlepath FROM operatorbundle WHERE bundlepath LIKE '%@%' ORDER BY name";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| Ok((value::text(row, 0)?, value::text(row, 1)?)))?;
    for row in rows {
        let (name, recorded) = row?;
        if is_same_image(&recorded, image) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns whether `meant` refers to an image stored as `name:tag@digest`.
fn is_same_image(recorded: &str, meant: &str) -> bool {
    let Some((tagged, digest)) = recorded.split_once('@') else { return false };
    let name = match tagged.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => return false,
    };
    meant == tagged || meant.split_once('@') == Some((name, digest))
}

/// Removes a package: its bundles with all their rows, its channels and entries.
pub(crate) fn remove_package(connection: &Connection, package: &str) -> Result<(), Error> {
    let sql = "SELECT DISTINCT operatorbundle_name FROM channel_entry WHERE package_name = ?1";
    let names = value::strings(connection, sql, [package])?;
    if names.is_empty() {
        return Err(Error::Message(format!("no package found for packagename {package}")));
    }
    for name in names {
        connection.prepare_cached("DELETE FROM deprecated WHERE operatorbundle_name = ?1")?.execute([&name])?;
        remove_bundle(connection, &name)?;
    }
    drop_package(connection, package)
}

fn drop_package(connection: &Connection, package: &str) -> Result<(), Error> {
    for sql in [
        "DELETE FROM channel_entry WHERE package_name = ?1",
        "DELETE FROM package WHERE name = ?1",
        "DELETE FROM channel WHERE package_name = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([package])?;
    }
    Ok(())
}

/// Removes a bundle with all its entries.
pub(crate) fn remove_bundle(connection: &Connection, name: &str) -> Result<(), Error> {
    for sql in [
        "UPDATE channel_entry SET replaces = NULL
         WHERE replaces IN (SELECT entry_id FROM channel_entry WHERE operatorbundle_name = ?1)",
        "DELETE FROM channel_entry WHERE operatorbundle_name = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([name])?;
    }
    remove_row(connection, name)
}

/// Removes a bundle but not its entries.
///
/// Foreign keys with a NULL column do not cascade, so the rows are deleted explicitly.
pub(crate) fn remove_row(connection: &Connection, name: &str) -> Result<(), Error> {
    for sql in [
        "DELETE FROM api_provider WHERE operatorbundle_name = ?1",
        "DELETE FROM api_requirer WHERE operatorbundle_name = ?1",
        "DELETE FROM properties WHERE operatorbundle_name = ?1",
        "DELETE FROM dependencies WHERE operatorbundle_name = ?1",
        "DELETE FROM related_image WHERE operatorbundle_name = ?1",
        "DELETE FROM operatorbundle WHERE name = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([name])?;
    }
    Ok(())
}

/// Removes bundles without entries, then bundles of removed packages.
pub(crate) fn remove_stranded(connection: &Connection) -> Result<(), Error> {
    let sql = "SELECT name FROM operatorbundle
        WHERE name NOT IN (SELECT operatorbundle_name FROM channel_entry WHERE operatorbundle_name IS NOT NULL)
          AND name NOT IN (SELECT operatorbundle_name FROM deprecated WHERE operatorbundle_name IS NOT NULL)";
    for name in value::strings(connection, sql, [])? {
        remove_row(connection, &name)?;
    }
    remove_orphans(connection)
}

/// Removes bundles whose `olm.package` names a missing package, and deprecations without a bundle.
fn remove_orphans(connection: &Connection) -> Result<(), Error> {
    let packages: HashSet<String> = value::strings(connection, "SELECT name FROM package", [])?.into_iter().collect();
    let mut homeless: BTreeSet<String> = BTreeSet::new();
    let mut at_home: BTreeSet<String> = BTreeSet::new();
    {
        let sql = "SELECT operatorbundle_name, value FROM properties WHERE type = 'olm.package'";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, property) = (value::text(row, 0)?, value::text(row, 1)?);
            let Some([package]) = value::fields(&property, ["packageName"]) else { continue };
            if packages.contains(&package) {
                at_home.insert(name)
            } else {
                homeless.insert(name)
            };
        }
    }
    for name in homeless.difference(&at_home) {
        remove_row(connection, name)?;
    }
    connection
        .execute("DELETE FROM deprecated WHERE operatorbundle_name NOT IN (SELECT name FROM operatorbundle)", [])?;
    Ok(())
}

/// Removes the packages whose default channel head is a target, and drops these targets.
fn remove_whole_packages(
    connection: &Connection,
    targets: &mut Vec<(String, String)>,
    problems: &mut Vec<String>,
    strictness: Strictness,
) -> Result<(), Error> {
    let given: HashSet<String> = targets.iter().map(|(_, name)| name.clone()).collect();
    let mut packages = BTreeSet::new();
    for name in &given {
        let sql = "SELECT package.name FROM package JOIN channel
                ON channel.package_name = package.name AND channel.name = package.default_channel
            WHERE channel.head_operatorbundle_name = ?1";
        packages.extend(value::strings(connection, sql, [name])?);
    }
    for package in packages {
        let sql = "SELECT channel.name, bundle.name, bundle.bundlepath FROM channel
            JOIN operatorbundle AS bundle ON bundle.name = channel.head_operatorbundle_name
            WHERE channel.package_name = ?1 ORDER BY channel.name";
        let mut missing = None;
        {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([&package])?;
            while let Some(row) = rows.next()? {
                if !given.contains(&value::text(row, 1)?) {
                    missing = Some((value::text(row, 0)?, value::text(row, 2)?));
                    break;
                }
            }
        }
        if let Some((channel, image)) = missing {
            problems.push(format!(
                "cannot deprecate default channel head from package without removing all other channel heads in \
                 package {package}: must deprecate {image}, head of channel {channel}"
            ));
            fail_if_strict(problems, strictness)?;
            continue;
        }
        let sql = "SELECT DISTINCT operatorbundle_name FROM channel_entry WHERE package_name = ?1";
        let members: HashSet<String> = value::strings(connection, sql, [&package])?.into_iter().collect();
        remove_package(connection, &package)?;
        remove_stranded(connection)?;
        targets.retain(|(_, name)| !members.contains(name));
    }
    Ok(())
}

/// Deprecates a bundle: removes everything below it, and the channels that it is the head of.
fn deprecate_bundle(connection: &Connection, name: &str) -> Result<(), Error> {
    let tail = tail(connection, name)?;
    let sql = "SELECT channel.head_operatorbundle_name FROM package
        JOIN channel ON channel.package_name = package.name AND channel.name = package.default_channel
        WHERE package.name IN (SELECT package_name FROM channel_entry WHERE operatorbundle_name = ?1)";
    for head in value::strings(connection, sql, [name])? {
        if head == name || tail.contains(&head) {
            return Err(Error::message("Bundle deprecation causing default channel removal"));
        }
    }
    let own = channels_of(connection, name)?;
    let replaced_by = "SELECT DISTINCT above.operatorbundle_name FROM channel_entry AS below
        JOIN channel_entry AS above ON above.replaces = below.entry_id WHERE below.operatorbundle_name = ?1";
    let mut gone = Vec::new();
    for member in tail.iter().filter(|member| *member != name) {
        let above = value::strings(connection, replaced_by, [member])?;
        let inside = above.iter().all(|above| above == name || tail.contains(above));
        if inside && channels_of(connection, member)?.is_subset(&own) {
            gone.push(member);
        }
    }
    for (package, channel) in &own {
        for member in tail.iter().filter(|member| *member != name) {
            for sql in [
                "UPDATE channel_entry SET replaces = NULL WHERE package_name = ?1 AND channel_name = ?2 AND replaces IN
                     (SELECT entry_id FROM channel_entry WHERE operatorbundle_name = ?3)",
                "DELETE FROM channel_entry WHERE package_name = ?1 AND channel_name = ?2 AND operatorbundle_name = ?3",
            ] {
                connection.prepare_cached(sql)?.execute(params![package, channel, member])?;
            }
        }
    }
    for member in gone {
        remove_bundle(connection, member)?;
    }
    connection.execute("UPDATE channel_entry SET replaces = NULL WHERE operatorbundle_name = ?1", [name])?;
    connection.execute("DELETE FROM channel WHERE head_operatorbundle_name = ?1", [name])?;
    connection.execute(
        "INSERT INTO properties(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path)
         SELECT 'olm.deprecated', '{}', name, nullif(version, ''), nullif(bundlepath, '') FROM operatorbundle
         WHERE name = ?1 AND NOT EXISTS
             (SELECT 1 FROM properties WHERE operatorbundle_name = ?1 AND type = 'olm.deprecated')",
        [name],
    )?;
    connection.execute("INSERT OR IGNORE INTO deprecated(operatorbundle_name) VALUES (?1)", [name])?;
    remove_orphans(connection)
}

pub(crate) fn channels_of(connection: &Connection, name: &str) -> Result<BTreeSet<(String, String)>, Error> {
    let sql = "SELECT DISTINCT package_name, channel_name FROM channel_entry WHERE operatorbundle_name = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([name], |row| Ok((value::text(row, 0)?, value::text(row, 1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns everything below a bundle, in all channels.
fn tail(connection: &Connection, name: &str) -> Result<BTreeSet<String>, Error> {
    let sql = "SELECT DISTINCT below.operatorbundle_name FROM channel_entry AS entry
        JOIN channel_entry AS below ON below.entry_id = entry.replaces WHERE entry.operatorbundle_name = ?1";
    let mut tail = BTreeSet::new();
    let mut waiting = vec![name.to_owned()];
    while let Some(name) = waiting.pop() {
        for below in value::strings(connection, sql, [&name])? {
            if tail.insert(below.clone()) {
                waiting.push(below);
            }
        }
    }
    Ok(tail)
}

#[cfg(test)]
mod tests;
