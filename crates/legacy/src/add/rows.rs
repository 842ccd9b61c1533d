//! Writes the rows of a bundle, and the graph of a package.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bundle::BundleSummary;
use fbc::property;
use fbc::quote::quote;
use rusqlite::{Connection, OptionalExtension, params};

use super::{Incoming, deprecated};
use crate::error::Error;
use crate::schema::LIGHT;
use crate::value::{self, or_null};

/// Writes all rows of a bundle except its channel entries.
pub(crate) fn insert(
    connection: &Connection,
    image: &str,
    contents: &BundleSummary,
    (csv, objects): (&[u8], &[u8]),
    enable_alpha: bool,
) -> Result<(), Error> {
    let BundleSummary { name, version, .. } = contents;
    if !contents.substitutes_for.is_empty() && !enable_alpha {
        return Err(Error::Message(format!(
            "bundle {name}: SubstitutesFor is an alpha-only feature. You must enable alpha features with the flag \
             --enable-alpha in order to use this feature."
        )));
    }
    let sql = "INSERT INTO operatorbundle(name, csv, bundle, bundlepath, version, skiprange, replaces, skips, \
        substitutesfor) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let skips = contents.skips.join(",");
    connection
        .prepare_cached(sql)?
        .execute(params![
            name,
            csv,
            objects,
            image,
            version,
            contents.skip_range,
            contents.replaces,
            skips,
            contents.substitutes_for
        ])
        .map_err(|error| Error::Message(format!("failed to add bundle {}: {error}", quote(name))))?;
    let own = Some(image).filter(|image| !image.is_empty());
    let images: BTreeSet<&str> = contents.images.iter().map(String::as_str).chain(own).collect();
    let mut statement =
        connection.prepare_cached("INSERT INTO related_image(image, operatorbundle_name) VALUES (?1, ?2)")?;
    for image in images {
        statement.execute([image, name])?;
    }
    let bundle = (name.as_str(), version.as_str(), image);
    for dependency in &contents.dependencies {
        insert_dependency(connection, &dependency.kind, dependency.value.as_deref().unwrap_or_default(), bundle)?;
    }
    for key in &contents.required {
        let value = value::gvk_property(&key.group, &key.kind, &key.version);
        insert_dependency(connection, property::GVK, &value, bundle)?;
    }
    for listed in &contents.properties {
        insert_property(connection, &listed.kind, listed.value.as_deref().unwrap_or_default(), bundle)?;
    }
    let sql = "SELECT 1 FROM deprecated WHERE operatorbundle_name = ?1";
    if connection.prepare_cached(sql)?.exists([name])? {
        insert_property(connection, "olm.deprecated", "{}", bundle)?;
    }
    let mut api = connection
        .prepare_cached("INSERT OR IGNORE INTO api(group_name, version, kind, plural) VALUES (?1, ?2, ?3, ?4)")?;
    for (table, keys) in [("api_provider", &contents.provided), ("api_requirer", &contents.required)] {
        let mut user = connection.prepare_cached(&format!(
            "INSERT INTO {table}(group_name, version, kind, operatorbundle_name, operatorbundle_version, \
             operatorbundle_path) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        ))?;
        for key in keys {
            api.execute(params![key.group, key.version, key.kind, key.plural])?;
            user.execute(params![key.group, key.version, key.kind, name, or_null(version), or_null(image)])?;
        }
    }
    Ok(())
}

/// Writes the rows of a bundle, including its spooled manifests.
pub(super) fn insert_incoming(
    connection: &Connection,
    bundle: &Incoming,
    spool: &super::Spool,
    enable_alpha: bool,
) -> Result<(), Error> {
    let manifests = spool.get(&bundle.manifests);
    let (csv, objects) = manifests.map_err(|error| Error::Message(format!("reading manifests again: {error}")))?;
    insert(connection, &bundle.image, &bundle.contents, (&csv, &objects), enable_alpha)
}

/// Restores the manifests of a bundle.
pub(crate) fn set_manifests(connection: &Connection, name: &str, contents: &BundleSummary) -> Result<(), Error> {
    let (csv, objects) = super::spool::columns(contents);
    let mut statement = connection.prepare_cached("UPDATE operatorbundle SET csv = ?2, bundle = ?3 WHERE name = ?1")?;
    statement.execute(params![name, csv.as_bytes(), objects.as_bytes()])?;
    Ok(())
}

type NewBundleRow<'a> = (&'a str, &'a str, &'a str);

fn insert_dependency(
    connection: &Connection,
    kind: &str,
    value: &str,
    (name, version, image): NewBundleRow<'_>,
) -> Result<(), Error> {
    let sql = "INSERT INTO dependencies(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path) \
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute(params![kind, value.as_bytes(), name, or_null(version), or_null(image)])?;
    Ok(())
}

/// Writes a property, unless it exists.
fn insert_property(
    connection: &Connection,
    kind: &str,
    value: &str,
    (name, version, image): NewBundleRow<'_>,
) -> Result<(), Error> {
    let sql = "SELECT 1 FROM properties WHERE operatorbundle_name = ?1 AND type = ?2 AND CAST(value AS TEXT) = ?3";
    if connection.prepare_cached(sql)?.exists([name, kind, value])? {
        return Ok(());
    }
    let sql = "INSERT INTO properties(type, value, operatorbundle_name, operatorbundle_version, operatorbundle_path) \
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute(params![kind, value, name, or_null(version), or_null(image)])?;
    Ok(())
}

/// The new channels of a package.
pub(crate) struct NewChannels<'a> {
    pub(crate) package: &'a str,
    /// The default channel; may be empty.
    pub(crate) default_channel: &'a str,
    /// The head of each channel.
    pub(crate) heads: BTreeMap<String, String>,
}

/// Rebuilds a package: its channels from their heads down, following the bundle rows.
pub(crate) fn rebuild(connection: &Connection, graph: &NewChannels<'_>) -> Result<(), Error> {
    let NewChannels { package, default_channel, heads } = graph;
    for sql in [
        "DELETE FROM channel_entry WHERE package_name = ?1",
        "DELETE FROM package WHERE name = ?1",
        "DELETE FROM channel WHERE package_name = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([package])?;
    }
    connection.prepare_cached("INSERT INTO package(name) VALUES (?1)")?.execute([package])?;
    let deprecated = deprecated(connection)?;
    let mut elided = true;
    for (channel, head) in heads {
        if deprecated.contains(head) {
            continue;
        }
        elided &= channel != default_channel;
        if edges_of(connection, head)?.is_none() {
            return Err(Error::Message(format!("no bundle found for bundlename {head}")));
        }
        connection
            .prepare_cached("INSERT INTO channel(name, package_name, head_operatorbundle_name) VALUES (?1, ?2, ?3)")?
            .execute([channel, *package, head])?;
        walk(connection, package, channel, head, &deprecated)?;
    }
    if elided {
        return Err(Error::Message(format!("no default channel specified for {package}")));
    }
    let mut statement = connection.prepare_cached("UPDATE package SET default_channel = ?2 WHERE name = ?1")?;
    statement.execute([package, default_channel])?;
    Ok(())
}

/// Reads `replaces` and `skips` of a bundle; `None` if it does not exist.
pub(crate) fn edges_of(connection: &Connection, name: &str) -> Result<Option<(String, Vec<String>)>, Error> {
    let sql = format!("SELECT replaces, skips FROM {LIGHT} WHERE name = ?1");
    let row =
        connection.prepare_cached(&sql)?.query_row([name], |row| Ok((value::text(row, 0)?, value::text(row, 1)?)));
    Ok(row.optional()?.map(|(replaces, skips)| {
        (replaces, skips.split(',').filter(|skip| !skip.is_empty()).map(str::to_owned).collect())
    }))
}

/// Writes the entries of a channel from its head down.
fn walk(
    connection: &Connection,
    package: &str,
    channel: &str,
    head: &str,
    deprecated: &BTreeSet<String>,
) -> Result<(), Error> {
    let entry = |name: &str, depth: i64, replaces: Option<i64>| {
        insert_entry(connection, package, channel, name, depth, replaces)
    };
    let mut seen: HashSet<String> = HashSet::from([head.to_owned()]);
    let mut current = head.to_owned();
    let mut id = entry(head, 0, None)?;
    let mut depth = 1;
    loop {
        let Some((replaces, skips)) = edges_of(connection, &current)? else {
            return Err(Error::Message(format!("no bundle found for bundlename {current}")));
        };
        name_package(connection, package, &current)?;
        if deprecated.contains(&current) {
            return Ok(());
        }
        for skip in &skips {
            let skipped = entry(skip, depth, None)?;
            entry(&current, depth, Some(skipped))?;
            depth += 1;
        }
        if replaces.is_empty() {
            return Ok(());
        }
        if !seen.insert(replaces.clone()) {
            return Err(Error::Message(format!("Cycle detected, {current} replaces {replaces}")));
        }
        if edges_of(connection, &replaces)?.is_none() {
            return Err(Error::Message(format!("Invalid bundle {head}, replaces nonexistent bundle {replaces}")));
        }
        let below = entry(&replaces, depth, None)?;
        connection
            .prepare_cached("UPDATE channel_entry SET replaces = ?2 WHERE entry_id = ?1")?
            .execute([id, below])?;
        depth += 1;
        id = below;
        current = replaces;
    }
}

/// Writes one entry and returns its ID.
pub(crate) fn insert_entry(
    connection: &Connection,
    package: &str,
    channel: &str,
    name: &str,
    depth: i64,
    replaces: Option<i64>,
) -> Result<i64, Error> {
    let sql = "INSERT INTO channel_entry(channel_name, package_name, operatorbundle_name, depth, replaces) \
        VALUES (?1, ?2, ?3, ?4, ?5)";
    Ok(connection.prepare_cached(sql)?.insert(params![channel, package, name, depth, replaces])?)
}

/// Adds an `olm.package` property to a bundle.
fn name_package(connection: &Connection, package: &str, name: &str) -> Result<(), Error> {
    let sql = format!("SELECT version, bundlepath FROM {LIGHT} WHERE name = ?1");
    let (version, image) =
        connection.prepare_cached(&sql)?.query_row([name], |row| Ok((value::text(row, 0)?, value::text(row, 1)?)))?;
    let value = value::package_property(package, &version);
    insert_property(connection, property::PACKAGE, &value, (name, &version, &image))
}
