//! Adding bundles in order of their versions.

use std::collections::BTreeMap;

use fbc::version::Version;
use rusqlite::{Connection, OptionalExtension};

use super::rows::insert_incoming;
use super::{AddOptions, Incoming, Mode, Spool};
use crate::error::Error;
use crate::graph::{Channel, Link, set_default};
use crate::value;

/// Adds one bundle to all of its channels.
pub(super) fn add(
    connection: &Connection,
    bundle: &Incoming,
    spool: &Spool,
    options: &AddOptions,
) -> Result<(), Error> {
    let contents = &bundle.contents;
    let Ok(version) = Version::parse_strict(&contents.version) else {
        let text = format!("Bundle version {} is not valid", contents.version);
        return Err(Error::Message(format!("{text} (bundle {})", contents.name)));
    };
    let package = contents.package.as_str();
    let sql = "SELECT default_channel FROM package WHERE name = ?1";
    let kept: Option<String> =
        connection.prepare_cached(sql)?.query_row([package], |row| value::text(row, 0)).optional()?;
    let default = match (contents.default_channel.as_str(), kept.filter(|kept| !kept.is_empty())) {
        ("", Some(kept)) => kept,
        ("", None) => contents.channels.iter().min().cloned().unwrap_or_default(),
        (named, _) => named.to_owned(),
    };
    if default.is_empty() {
        return Err(Error::message("Default channel is missing and can't be inferred"));
    }
    let mut channels: BTreeMap<&str, Channel> = BTreeMap::new();
    for channel in &contents.channels {
        channels.insert(channel, Channel::read(connection, package, channel)?);
    }
    for channel in channels.values_mut() {
        if channel.versions.values().any(|other| other.cmp_precedence(&version).is_eq()) {
            return Err(Error::Message(format!("Bundle version {version} already added to index")));
        }
        channel.versions.insert(contents.name.clone(), version.clone());
        match options.mode {
            Mode::SkipPatch => insert_skipping(channel, &contents.name, &version),
            Mode::Semver | Mode::Replaces => insert(channel, &contents.name, &version),
        }
        channel.check()?;
    }
    insert_incoming(connection, bundle, spool, options.enable_alpha)?;
    for channel in channels.values() {
        channel.write(connection)?;
    }
    set_default(connection, package, &default)
}

/// Puts a bundle between the next lower and the next higher version of the chain.
fn insert(channel: &mut Channel, name: &str, version: &Version) {
    let lower = channel.first_below(version);
    if let Some(higher) = lower.checked_sub(1).and_then(|higher| channel.chain.get_mut(higher)) {
        higher.skips.clear();
    }
    if lower == channel.chain.len() {
        channel.below = None;
    }
    channel.chain.insert(lower, Link { name: name.to_owned(), skips: Vec::new() });
}

/// Puts a bundle into the chain in the place of all lower patches of its minor version, which it skips;
/// below a higher patch it is skipped itself.
fn insert_skipping(channel: &mut Channel, name: &str, version: &Version) {
    let minor = |version: &Version| (version.major(), version.minor());
    let is_same = |channel: &Channel, other: &str| {
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
