//! Adds bundles in the semver modes.

use std::collections::BTreeMap;

use fbc::version::Version;
use rusqlite::{Connection, OptionalExtension};

use super::rows::insert_incoming;
use super::{AddMode, AddOptions, Incoming, Spool};
use crate::error::Error;
use crate::graph::{ChannelChain, Link, set_default};
use crate::remove::{Strictness, with_savepoint};
use crate::value;

/// Adds the bundles of a package in version order, then sets its default channel; returns the errors of the bundles
/// that were not added.
pub(super) fn add(
    connection: &Connection,
    package: &str,
    bundles: &[&Incoming],
    spool: &Spool,
    mode: AddMode,
    options: &AddOptions,
) -> Result<Vec<String>, Error> {
    let before = Before::read(connection, package)?;
    let mut given: Vec<&Incoming> = bundles.to_vec();
    let mut problems = Vec::new();
    loop {
        let mut named = None;
        let added = with_savepoint(connection, || {
            given.retain(|bundle| {
                match with_savepoint(connection, || add_one(connection, bundle, spool, mode, options)) {
                    Ok(()) => true,
                    Err(error) => {
                        problems.push(error.to_string());
                        false
                    }
                }
            });
            let Some(default) = before.default_after(&given, options, &mut named)? else { return Ok(()) };
            set_default(connection, package, &default)
        });
        let Err(error) = added else { return Ok(problems) };
        problems.push(error.to_string());
        // Drop the bundle that names a missing channel, so that the others can be added.
        match (named, options.strictness) {
            (Some(named), Strictness::Permissive) => drop(given.remove(named)),
            _ => return Ok(problems),
        }
    }
}

/// The state of a package before the change.
struct Before {
    default_channel: Option<String>,
    /// The highest version of its bundles.
    latest: Option<Version>,
}

impl Before {
    fn read(connection: &Connection, package: &str) -> Result<Before, Error> {
        let sql = "SELECT default_channel FROM package WHERE name = ?1";
        let kept: Option<String> =
            connection.prepare_cached(sql)?.query_row([package], |row| value::text(row, 0)).optional()?;
        let sql = "SELECT DISTINCT bundle.version FROM channel_entry AS entry
            JOIN operatorbundle AS bundle INDEXED BY opm_bundle_light ON bundle.name = entry.operatorbundle_name
            WHERE entry.package_name = ?1 AND bundle.version IS NOT NULL";
        let versions = value::strings(connection, sql, [package])?;
        let versions = versions.iter().filter_map(|version| Version::parse_strict(version).ok());
        let default_channel = kept.filter(|kept| !kept.is_empty());
        Ok(Before { default_channel, latest: versions.max_by(Version::cmp_precedence) })
    }

    /// Returns the default channel after adding these bundles, and the bundle that sets it: the latest of the package
    /// may change it, an older one only with `older_moves_default`.
    fn default_after(
        &self,
        added: &[&Incoming],
        options: &AddOptions,
        named: &mut Option<usize>,
    ) -> Result<Option<String>, Error> {
        let Some(first) = added.first() else { return Ok(None) };
        let may_move = |bundle: &Incoming| {
            if options.older_moves_default {
                return true;
            }
            let version = Version::parse_strict(&bundle.contents.version);
            version
                .is_ok_and(|version| self.latest.as_ref().is_none_or(|latest| version.cmp_precedence(latest).is_gt()))
        };
        let default_of = |bundle: &Incoming| bundle.contents.default_channel.clone();
        *named = added.iter().rposition(|bundle| !bundle.contents.default_channel.is_empty() && may_move(bundle));
        let inferred = || first.contents.channels.iter().min().cloned();
        let default = named.map(|place| default_of(added[place])).or_else(|| self.default_channel.clone());
        match default.or_else(inferred).filter(|default| !default.is_empty()) {
            Some(default) => Ok(Some(default)),
            None => Err(Error::message("Default channel is missing and can't be inferred")),
        }
    }
}

/// Adds one bundle to all its channels.
fn add_one(
    connection: &Connection,
    bundle: &Incoming,
    spool: &Spool,
    mode: AddMode,
    options: &AddOptions,
) -> Result<(), Error> {
    let contents = &bundle.contents;
    let Ok(version) = Version::parse_strict(&contents.version) else {
        let text = format!("Bundle version {} is not valid", contents.version);
        return Err(Error::Message(format!("{text} (bundle {})", contents.name)));
    };
    let package = contents.package.as_str();
    let mut channels: BTreeMap<&str, ChannelChain> = BTreeMap::new();
    for channel in &contents.channels {
        channels.insert(channel, ChannelChain::read(connection, package, channel)?);
    }
    for channel in channels.values_mut() {
        if channel.versions.values().any(|other| other.cmp_precedence(&version).is_eq()) {
            return Err(Error::Message(format!("Bundle version {version} already added to index")));
        }
        channel.versions.insert(contents.name.clone(), version.clone());
        match mode {
            AddMode::SkipPatch => insert_skipping(channel, &contents.name, &version),
            AddMode::Semver | AddMode::Replaces => insert(channel, &contents.name, &version),
        }
        channel.check()?;
    }
    insert_incoming(connection, bundle, spool, options.enable_alpha)?;
    for channel in channels.values() {
        channel.write(connection)?;
    }
    Ok(())
}

/// Inserts a bundle between the next lower and the next higher version of the chain.
fn insert(channel: &mut ChannelChain, name: &str, version: &Version) {
    let lower = channel.first_below(version);
    if let Some(higher) = lower.checked_sub(1).and_then(|higher| channel.chain.get_mut(higher)) {
        higher.skips.clear();
    }
    if lower == channel.chain.len() {
        channel.below = None;
    }
    channel.chain.insert(lower, Link { name: name.to_owned(), skips: Vec::new() });
}

/// Inserts a bundle in place of all lower patches of its minor version, which it skips; if a higher patch exists, the
/// bundle itself is skipped.
fn insert_skipping(channel: &mut ChannelChain, name: &str, version: &Version) {
    let minor = |version: &Version| (version.major(), version.minor());
    let is_same = |channel: &ChannelChain, other: &str| {
        channel.versions.get(other).is_some_and(|other| minor(other) == minor(version))
    };
    let lower = channel.first_below(version);
    let higher = (0..lower).find(|&place| is_same(channel, &channel.chain[place].name));
    if let Some(higher) = higher {
        let mut skips = std::mem::take(&mut channel.chain[higher].skips);
        skips.push(name.to_owned());
        channel.order(&mut skips);
        channel.chain[higher].skips = skips;
        return;
    }
    let mut skips: Vec<String> = Vec::new();
    let mut place = lower;
    while channel.chain.get(place).is_some_and(|link| is_same(channel, &link.name)) {
        let Link { name, skips: skipped } = channel.chain.remove(place);
        skips.push(name);
        skips.extend(skipped);
    }
    if channel.chain.is_empty() {
        channel.below = None;
    }
    place = lower;
    channel.order(&mut skips);
    channel.chain.insert(place, Link { name: name.to_owned(), skips });
}
