//! The upgrade graph of one channel, read from the database and written back.

use std::collections::{BTreeMap, BTreeSet};

use fbc::version::Version;
use rusqlite::Connection;

use crate::add::insert_entry;
use crate::error::Error;
use crate::members::Entries;
use crate::order::version;
use crate::value;

/// A channel as a chain of bundles, head first.
#[derive(Debug, Clone)]
pub(crate) struct ChannelChain {
    package: String,
    name: String,
    /// The bundles that replace each other.
    pub(crate) chain: Vec<Link>,
    /// The name that the last bundle of the chain replaces, if it is not a bundle.
    pub(crate) below: Option<String>,
    /// The versions of all bundles of the channel, in the chain or skipped.
    pub(crate) versions: BTreeMap<String, Version>,
}

/// A bundle in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// The other bundles that it has edges to.
    pub(crate) skips: Vec<String>,
}

impl ChannelChain {
    /// Creates a channel without bundles.
    pub(crate) fn new(package: &str, name: &str) -> ChannelChain {
        ChannelChain {
            package: package.to_owned(),
            name: name.to_owned(),
            chain: Vec::new(),
            below: None,
            versions: BTreeMap::new(),
        }
    }

    /// Reads the bundles of a channel without their edges.
    pub(crate) fn unordered(connection: &Connection, package: &str, name: &str) -> Result<ChannelChain, Error> {
        let mut channel = ChannelChain::new(package, name);
        let sql = "SELECT DISTINCT bundle.name, bundle.version FROM channel_entry AS entry
            JOIN operatorbundle AS bundle INDEXED BY opm_bundle_light ON bundle.name = entry.operatorbundle_name
            WHERE entry.package_name = ?1 AND entry.channel_name = ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([package, name])?;
        while let Some(row) = rows.next()? {
            let name = value::text(row, 0)?;
            let version = version(&name, &value::text(row, 1)?)?;
            channel.versions.insert(name, version);
        }
        Ok(channel)
    }

    /// Reads a channel; a missing channel has no bundles.
    pub(crate) fn read(connection: &Connection, package: &str, name: &str) -> Result<ChannelChain, Error> {
        let mut channel = ChannelChain::unordered(connection, package, name)?;
        let entries = Entries::read(connection, package, name)?;
        let edges = entries.edges();
        let replaced: BTreeSet<&str> =
            edges.values().flat_map(|(real, skips)| real.iter().chain(skips)).copied().collect();
        let heads: Vec<&str> =
            channel.versions.keys().map(String::as_str).filter(|name| !replaced.contains(name)).collect();
        match heads[..] {
            [] if channel.versions.is_empty() => {}
            [] => return Err(Error::Message(format!("no channel head found for {name}"))),
            [_] => {}
            _ => {
                let text = format!("multiple candidate channel heads found for {name}: {}", heads.join(", "));
                return Err(Error::Message(text));
            }
        }
        for name in entries.chain() {
            if !channel.versions.contains_key(&name) {
                channel.below = Some(name);
                break;
            }
            let skips =
                edges.get(name.as_str()).map(|(_, skips)| skips.iter().map(|skip| (*skip).to_owned()).collect());
            channel.chain.push(Link { name, skips: skips.unwrap_or_default() });
        }
        Ok(channel)
    }

    /// Returns the index of the first bundle of the chain below a version.
    pub(crate) fn first_below(&self, version: &Version) -> usize {
        let is_below =
            |link: &Link| self.versions.get(&link.name).is_some_and(|other| other.cmp_precedence(version).is_lt());
        self.chain.iter().position(is_below).unwrap_or(self.chain.len())
    }

    /// Sorts names by version, lowest first, without duplicates; names without a version come first.
    pub(crate) fn order(&self, names: &mut Vec<String>) {
        names.sort_by(|a, b| match (self.versions.get(a), self.versions.get(b)) {
            (Some(x), Some(y)) => x.cmp_precedence(y).then_with(|| a.cmp(b)),
            (x, y) => x.is_some().cmp(&y.is_some()).then_with(|| a.cmp(b)),
        });
        names.dedup();
    }

    /// Checks that every bundle except the head has an upgrade.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let links = self.chain.iter();
        let reached: BTreeSet<&str> = links
            .flat_map(|link| std::iter::once(&link.name).chain(&link.skips))
            .map(String::as_str)
            .filter(|name| self.versions.contains_key(*name))
            .collect();
        if reached.len() == self.versions.len() {
            return Ok(());
        }
        let lost: Vec<&str> = self.versions.keys().map(String::as_str).filter(|name| !reached.contains(name)).collect();
        Err(Error::Message(format!(
            "Invalid graph: some (non-bottom) nodes defined in the graph were not mentioned as replacements of any node \
             ({} != {}): {} in channel {}",
            self.versions.len(),
            reached.len(),
            lost.join(", "),
            self.name
        )))
    }

    /// Writes the channel and its entries, replacing the existing ones.
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), Error> {
        let (package, channel) = (self.package.as_str(), self.name.as_str());
        let sql = "DELETE FROM channel_entry WHERE package_name = ?1 AND channel_name = ?2";
        connection.prepare_cached(sql)?.execute([package, channel])?;
        let Some(head) = self.chain.first() else {
            let sql = "DELETE FROM channel WHERE package_name = ?1 AND name = ?2";
            connection.prepare_cached(sql)?.execute([package, channel])?;
            return Ok(());
        };
        let sql = "INSERT INTO channel(name, package_name, head_operatorbundle_name) VALUES (?1, ?2, ?3)
            ON CONFLICT(name, package_name) DO UPDATE SET head_operatorbundle_name = excluded.head_operatorbundle_name";
        connection.prepare_cached(sql)?.execute([channel, package, &head.name])?;
        let entry =
            |name: &str, depth: i64, replaces| insert_entry(connection, package, channel, name, depth, replaces);
        let replaces = |from: i64, to: i64| -> Result<(), Error> {
            let sql = "UPDATE channel_entry SET replaces = ?2 WHERE entry_id = ?1";
            connection.prepare_cached(sql)?.execute([from, to])?;
            Ok(())
        };
        let mut above: Option<i64> = None;
        for (depth, link) in self.chain.iter().enumerate() {
            let depth = depth as i64;
            let id = entry(&link.name, depth, None)?;
            if let Some(above) = above {
                replaces(above, id)?;
            }
            for (i, skip) in link.skips.iter().enumerate() {
                let depth = depth + 1 + i as i64;
                let skipped = entry(skip, depth, None)?;
                entry(&link.name, depth, Some(skipped))?;
            }
            above = Some(id);
        }
        if let (Some(above), Some(below)) = (above, &self.below) {
            let id = entry(below, self.chain.len() as i64, None)?;
            replaces(above, id)?;
        }
        Ok(())
    }
}

/// Sets the default channel of a package.
pub(crate) fn set_default(connection: &Connection, package: &str, channel: &str) -> Result<(), Error> {
    let sql = "SELECT 1 FROM channel WHERE package_name = ?1 AND name = ?2";
    if !connection.prepare_cached(sql)?.exists([package, channel])? {
        let sql = "SELECT name FROM channel WHERE package_name = ?1 ORDER BY name";
        let there = value::strings(connection, sql, [package])?.join(", ");
        let text = format!("default channel {channel} of package {package} is not one of its channels: {there}");
        return Err(Error::Message(text));
    }
    let sql = "INSERT INTO package(name, default_channel) VALUES (?1, ?2)
        ON CONFLICT(name) DO UPDATE SET default_channel = excluded.default_channel";
    connection.prepare_cached(sql)?.execute([package, channel])?;
    Ok(())
}

/// Returns the channels of a package with their heads, by name.
pub(crate) fn heads(connection: &Connection, package: &str) -> Result<BTreeMap<String, String>, Error> {
    let sql = "SELECT name, head_operatorbundle_name FROM channel WHERE package_name = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([package], |row| Ok((value::text(row, 0)?, value::text(row, 1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
