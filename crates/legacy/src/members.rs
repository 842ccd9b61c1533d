//! Channel members and their edges.

use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::Connection;

use crate::error::Error;
use crate::value;

/// A bundle in a channel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemberRow {
    pub(crate) channel: String,
    pub(crate) package: String,
    pub(crate) bundle: String,
    /// The bundle that it replaces; may be empty.
    pub(crate) replaces: String,
    /// The other bundles that it has edges to, in the order of entries.
    pub(crate) skips: Vec<String>,
}

/// One stored entry of a channel.
#[derive(Debug, Clone)]
pub(crate) struct EntryRow {
    pub(crate) id: i64,
    pub(crate) bundle: String,
    pub(crate) replaces: Option<i64>,
    pub(crate) depth: i64,
}

/// The entries of one channel.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries(Vec<EntryRow>);

impl Entries {
    /// Reads the entries of a channel.
    pub(crate) fn read(connection: &Connection, package: &str, channel: &str) -> Result<Entries, Error> {
        let sql = "SELECT entry_id, operatorbundle_name, replaces, depth FROM channel_entry
            WHERE package_name = ?1 AND channel_name = ?2 ORDER BY entry_id";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([package, channel], |row| {
            Ok(EntryRow {
                id: row.get(0)?,
                bundle: value::text(row, 1)?,
                replaces: row.get(2)?,
                depth: row.get::<_, Option<i64>>(3)?.unwrap_or(i64::MAX),
            })
        })?;
        Ok(Entries(rows.collect::<Result<_, _>>()?))
    }

    /// Returns the replaced bundle and the other edges of each bundle.
    ///
    /// The edges of the entries with the least depth are replacements; all others are skips.
    pub(crate) fn edges(&self) -> BTreeMap<&str, (Option<&str>, Vec<&str>)> {
        let by_id: HashMap<i64, &EntryRow> = self.0.iter().map(|entry| (entry.id, entry)).collect();
        let least = self.0.iter().map(|entry| entry.depth).min();
        let mut real: HashSet<i64> = HashSet::new();
        for head in self.0.iter().filter(|entry| Some(entry.depth) == least) {
            let mut at = Some(head);
            while let Some(entry) = at.filter(|entry| real.insert(entry.id)) {
                at = entry.replaces.and_then(|id| by_id.get(&id).copied());
            }
        }
        let mut edges: BTreeMap<&str, (Option<&str>, Vec<&str>)> = BTreeMap::new();
        let mut skipped: HashSet<(&str, &str)> = HashSet::new();
        for entry in &self.0 {
            let (replaces, skips) = edges.entry(&entry.bundle).or_default();
            let Some(target) = entry.replaces.and_then(|id| by_id.get(&id)) else { continue };
            if real.contains(&entry.id) && replaces.is_none() {
                *replaces = Some(&target.bundle);
            } else if skipped.insert((&entry.bundle, &target.bundle)) {
                skips.push(&target.bundle);
            }
        }
        edges
    }

    /// Returns the chain of replacements from the head down, without duplicates.
    pub(crate) fn chain(&self) -> Vec<String> {
        let by_id: HashMap<i64, &EntryRow> = self.0.iter().map(|entry| (entry.id, entry)).collect();
        let mut chain: Vec<String> = Vec::new();
        let mut at = self.0.iter().min_by_key(|entry| (entry.depth, entry.id));
        let (mut seen, mut names) = (HashSet::new(), HashSet::new());
        while let Some(entry) = at.filter(|entry| seen.insert(entry.id)) {
            if names.insert(entry.bundle.as_str()) {
                chain.push(entry.bundle.clone());
            }
            at = entry.replaces.and_then(|id| by_id.get(&id).copied());
        }
        chain
    }
}

/// Lists the members of all channels, by channel, package and name.
///
/// Skips names without a bundle and bundles that are stored partially. A bundle without a path has no image: migrations
/// of older programs leave it out.
pub(crate) fn members(connection: &Connection) -> Result<Vec<MemberRow>, Error> {
    let sql = "SELECT name FROM operatorbundle INDEXED BY pk WHERE name IS NOT NULL AND version IS NOT NULL";
    let plain = "SELECT name FROM operatorbundle WHERE name IS NOT NULL AND version IS NOT NULL";
    // The index covers the query; the table itself is full of manifests.
    let whole = value::strings(connection, sql, []).or_else(|_| value::strings(connection, plain, []))?;
    let whole: HashSet<String> = whole.into_iter().collect();
    let mut channels: BTreeMap<(String, String), Entries> = BTreeMap::new();
    {
        let sql = "SELECT entry_id, operatorbundle_name, replaces, depth, channel_name, package_name FROM channel_entry
            WHERE operatorbundle_name IS NOT NULL AND channel_name IS NOT NULL AND package_name IS NOT NULL
            ORDER BY entry_id";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let entry = EntryRow {
                id: row.get(0)?,
                bundle: value::text(row, 1)?,
                replaces: row.get(2)?,
                depth: row.get::<_, Option<i64>>(3)?.unwrap_or(i64::MAX),
            };
            channels.entry((value::text(row, 4)?, value::text(row, 5)?)).or_default().0.push(entry);
        }
    }
    let mut members = Vec::new();
    for ((channel, package), entries) in &channels {
        for (bundle, (replaces, skips)) in entries.edges() {
            if whole.contains(bundle) {
                members.push(MemberRow {
                    channel: channel.clone(),
                    package: package.clone(),
                    bundle: bundle.to_owned(),
                    replaces: replaces.unwrap_or_default().to_owned(),
                    skips: skips.into_iter().map(str::to_owned).collect(),
                });
            }
        }
    }
    Ok(members)
}
