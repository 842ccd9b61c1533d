//! Adds bundles in `replaces` mode.

use std::collections::{BTreeMap, BTreeSet};

use fbc::version::Version;
use rusqlite::{Connection, OptionalExtension};

use super::rows::{NewChannels, edges_of, insert_incoming, rebuild};
use super::{AddOptions, Incoming, Spool, substitutes};
use crate::error::Error;
use crate::order::{compare, version};
use crate::remove::remove_bundle;
use crate::schema::LIGHT;
use crate::value;

/// A bundle that may become a channel head.
struct Candidate {
    name: String,
    version: Version,
    channels: BTreeSet<String>,
    default_channel: String,
}

/// Adds the bundles of one package.
pub(super) fn add(
    connection: &Connection,
    package: &str,
    bundles: &[&Incoming],
    spool: &Spool,
    options: &AddOptions,
) -> Result<(), Error> {
    let sql = "SELECT default_channel FROM package WHERE name = ?1";
    let default: Option<String> =
        connection.prepare_cached(sql)?.query_row([package], |row| value::text(row, 0)).optional()?;
    if options.overwrite_latest {
        for bundle in bundles {
            overwrite(connection, package, &bundle.contents.name)?;
        }
    }
    let mut candidates = existing(connection, package, default.as_deref().unwrap_or_default())?;
    for bundle in bundles {
        insert_incoming(connection, bundle, spool, options.enable_alpha)?;
        candidates.push(Candidate {
            name: bundle.contents.name.clone(),
            version: version(&bundle.contents.name, &bundle.contents.version)?,
            channels: bundle.contents.channels.iter().cloned().collect(),
            default_channel: bundle.contents.default_channel.clone(),
        });
    }
    if options.enable_alpha {
        for bundle in bundles {
            substitutes::substitute(connection, &bundle.contents.name)?;
        }
    }
    let (heads, default_channel) = heads(&candidates)?;
    rebuild(connection, &NewChannels { package, default_channel: &default_channel, heads: heads.clone() })?;
    for bundle in bundles {
        reached(connection, package, bundle, &heads)?;
    }
    Ok(())
}

/// Returns the bundles of the package that are in a channel, sorted by version.
fn existing(connection: &Connection, package: &str, default: &str) -> Result<Vec<Candidate>, Error> {
    let sql = "SELECT DISTINCT bundle.name, bundle.version, entry.channel_name FROM channel_entry AS entry
        JOIN operatorbundle AS bundle INDEXED BY opm_bundle_light ON bundle.name = entry.operatorbundle_name
        WHERE entry.package_name = ?1";
    let mut found: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([package])?;
    while let Some(row) = rows.next()? {
        let (_, channels) = found.entry(value::text(row, 0)?).or_insert((value::text(row, 1)?, BTreeSet::new()));
        channels.insert(value::text(row, 2)?);
    }
    let mut candidates = Vec::new();
    for (name, (text, channels)) in found {
        let version = version(&name, &text)?;
        candidates.push(Candidate { name, version, channels, default_channel: default.to_owned() });
    }
    candidates.sort_by(|a, b| compare(&a.version, &b.version).then_with(|| a.name.cmp(&b.name)));
    Ok(candidates)
}

/// Finds the channel heads and the default channel.
fn heads(candidates: &[Candidate]) -> Result<(BTreeMap<String, String>, String), Error> {
    let mut highest: Option<&Candidate> = None;
    let mut twice: Option<&Candidate> = None;
    let mut default = "";
    let mut heads: BTreeMap<&str, (&Candidate, bool)> = BTreeMap::new();
    for candidate in candidates {
        let order = highest.map(|highest| compare(&candidate.version, &highest.version));
        if order.is_none_or(|order| order.is_ge()) {
            twice = order.filter(|order| order.is_eq()).map(|_| candidate);
            highest = Some(candidate);
            if !candidate.default_channel.is_empty() {
                default = &candidate.default_channel;
            }
        }
        for channel in &candidate.channels {
            match heads.get_mut(channel.as_str()) {
                Some((head, doubtful)) => match compare(&candidate.version, &head.version) {
                    order if order.is_gt() => (*head, *doubtful) = (candidate, false),
                    order if order.is_eq() => *doubtful = true,
                    _ => {}
                },
                None => drop(heads.insert(channel, (candidate, false))),
            }
        }
    }
    if let Some(candidate) = twice {
        return Err(Error::Message(format!("more than one bundle with maximum version {}", candidate.version)));
    }
    if let Some((channel, _)) = heads.iter().find(|(_, (_, doubtful))| *doubtful) {
        return Err(Error::Message(format!("more than one potential channel head for {channel}")));
    }
    if let (true, Some(only)) = (default.is_empty() && heads.len() == 1, heads.keys().next()) {
        default = only;
    }
    if !heads.contains_key(default) {
        let shown: Vec<String> = heads.iter().map(|(channel, (head, _))| format!("{channel}:{}", head.name)).collect();
        let shown = shown.join(" ");
        return Err(Error::Message(format!("unable to determine default channel among channel heads: map[{shown}]")));
    }
    let default = default.to_owned();
    Ok((heads.into_iter().map(|(channel, (head, _))| (channel.to_owned(), head.name.clone())).collect(), default))
}

/// Checks that a new bundle is reachable in its channels.
fn reached(
    connection: &Connection,
    package: &str,
    bundle: &Incoming,
    heads: &BTreeMap<String, String>,
) -> Result<(), Error> {
    let name = &bundle.contents.name;
    let sql = "SELECT 1 FROM channel_entry WHERE package_name = ?1 AND channel_name = ?2 AND operatorbundle_name = ?3";
    for channel in &bundle.contents.channels {
        if connection.prepare_cached(sql)?.exists([package, channel, name])? {
            continue;
        }
        let head = heads.get(channel).map(String::as_str).unwrap_or_default();
        let (replaces, skips) = edges_of(connection, head)?.unwrap_or_default();
        let edges: Vec<String> = skips.into_iter().chain(Some(replaces).filter(|name| !name.is_empty())).collect();
        return Err(Error::Message(format!(
            "add prunes bundle {name} ({}) from package {package}, channel {channel}: this may be due to incorrect \
             channel head ({head}, skips/replaces [{}]). Be aware that the head of the channel {channel} where you are \
             trying to add the {name} is {head}. Upgrade graphs follows the Semantic Versioning 2.0.0 \
             (https://semver.org/) which means that is not possible add new versions lower then the head of the channel",
            bundle.image,
            edges.join(" ")
        )));
    }
    Ok(())
}

/// Removes a bundle that is about to be overwritten.
fn overwrite(connection: &Connection, package: &str, name: &str) -> Result<(), Error> {
    let exists = connection.prepare_cached(&format!("SELECT 1 FROM {LIGHT} WHERE name = ?1"))?.exists([name])?;
    if !exists {
        return Ok(());
    }
    let sql = "SELECT above.operatorbundle_name, above.channel_name FROM channel_entry AS below
        JOIN channel_entry AS above ON above.replaces = below.entry_id WHERE below.operatorbundle_name = ?1 LIMIT 1";
    let above = connection
        .prepare_cached(sql)?
        .query_row([name], |row| Ok((value::text(row, 0)?, value::text(row, 1)?)))
        .optional()?;
    if let Some((above, channel)) = above {
        return Err(Error::Message(format!(
            "cannot overwrite bundle {name} from package {package}: replaced by {above} on channel {channel}"
        )));
    }
    // Channels and package are rebuilt from the remaining rows, so they must survive the removal of their head.
    for sql in [
        "UPDATE channel SET head_operatorbundle_name = NULL WHERE head_operatorbundle_name = ?1",
        "DELETE FROM deprecated WHERE operatorbundle_name = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([name])?;
    }
    remove_bundle(connection, name)
}
