//! Lists the content of an index.

use std::collections::{BTreeMap, BTreeSet};

use fbc::version::Version;
use rusqlite::Connection;
use serde::Serialize;

use crate::add::AddMode;
use crate::error::Error;
use crate::graph::ChannelChain;
use crate::members::{MemberRow, members};
use crate::open::Database;
use crate::order::{by_version, version};
use crate::shrink;
use crate::value;

/// A package of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageInfo {
    /// Its name.
    pub name: String,
    pub default_channel: String,
    /// Its channels, by name.
    pub channels: Vec<ChannelInfo>,
}

/// A channel of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelInfo {
    /// Its name.
    pub name: String,
    /// The name of the bundle at its head.
    pub head: String,
    /// Its bundles, by name.
    pub bundles: Vec<BundleInfo>,
}

/// A bundle of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleInfo {
    /// Its name.
    pub name: String,
    /// Its version; may be empty.
    pub version: String,
    /// Its image; may be empty.
    pub image: String,
    /// The names it replaces and skips in this channel.
    pub edges: Vec<String>,
}

/// The images that an index was built from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexSources {
    /// The images; replaced bundles come before their replacements.
    pub images: Vec<String>,
    /// The bundles without an image.
    pub without_image: Vec<String>,
    /// The packages whose upgrade graph is not the one of mode `replaces`, with the mode that builds it from the images;
    /// `None` if no mode does.
    pub modes: BTreeMap<String, Option<AddMode>>,
}

impl Database {
    /// Lists the packages with their channels and bundles.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn packages(&self) -> Result<Vec<PackageInfo>, Error> {
        let connection = self.connection()?;
        let mut packages: BTreeMap<String, (String, BTreeMap<String, ChannelInfo>)> = BTreeMap::new();
        let mut statement = connection.prepare("SELECT name, default_channel FROM package WHERE name IS NOT NULL")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            packages.insert(value::text(row, 0)?, (value::text(row, 1)?, BTreeMap::new()));
        }
        let mut statement = connection.prepare("SELECT package_name, name, head_operatorbundle_name FROM channel")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let Some((_, channels)) = packages.get_mut(&value::text(row, 0)?) else { continue };
            let channel = ChannelInfo { name: value::text(row, 1)?, head: value::text(row, 2)?, bundles: Vec::new() };
            channels.insert(channel.name.clone(), channel);
        }
        let mut rows: BTreeMap<String, (String, String)> = BTreeMap::new();
        let mut statement = connection.prepare("SELECT name, version, bundlepath FROM operatorbundle INDEXED BY pk")?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            rows.insert(value::text(row, 0)?, (value::text(row, 1)?, value::text(row, 2)?));
        }
        for member in members(connection)? {
            let channel = packages.get_mut(&member.package).and_then(|(_, channels)| channels.get_mut(&member.channel));
            let Some(channel) = channel else { continue };
            let (version, image) = rows.get(&member.bundle).cloned().unwrap_or_default();
            let replaces = Some(member.replaces).filter(|replaces| !replaces.is_empty());
            let edges = replaces.into_iter().chain(member.skips).collect();
            channel.bundles.push(BundleInfo { name: member.bundle, version, image, edges });
        }
        let package = |(name, (default_channel, channels)): (String, (String, BTreeMap<_, _>))| PackageInfo {
            name,
            default_channel,
            channels: channels.into_values().collect(),
        };
        Ok(packages.into_iter().map(package).collect())
    }

    /// Lists the images of the index in an order in which they can be added.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn manifest(&self) -> Result<IndexSources, Error> {
        let sql = "SELECT entry.package_name, bundle.name, bundle.version, bundle.bundlepath, max(entry.depth)
            FROM channel_entry AS entry
            JOIN operatorbundle AS bundle INDEXED BY pk ON bundle.name = entry.operatorbundle_name
            GROUP BY 1, 2";
        let mut statement = self.connection()?.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            let depth: Option<i64> = row.get(4)?;
            Ok((value::text(row, 0)?, depth, value::text(row, 2)?, value::text(row, 1)?, value::text(row, 3)?))
        })?;
        let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
        rows.sort_by(|a, b| {
            let order = a.0.cmp(&b.0).then_with(|| b.1.cmp(&a.1));
            order.then_with(|| by_version(&a.2, &b.2)).then_with(|| a.3.cmp(&b.3))
        });
        let mut manifest = IndexSources::default();
        for (_, _, _, name, image) in rows {
            if image.is_empty() {
                manifest.without_image.push(name);
            } else if !manifest.images.contains(&image) {
                manifest.images.push(image);
            }
        }
        manifest.modes = modes(self.connection()?)?;
        Ok(manifest)
    }

    /// Returns the stored manifests of a bundle as JSON.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub fn objects(&self, bundle: &str) -> Result<Vec<String>, Error> {
        let text = crate::row::body(self.connection()?, bundle, "bundle")?.unwrap_or_default();
        Ok(crate::row::objects(&text).map(|object| object.text().to_owned()).collect())
    }
}

impl From<&catalog::Package> for PackageInfo {
    /// Describes a package of a file-based catalog as one of a database.
    fn from(package: &catalog::Package) -> PackageInfo {
        let rows = catalog::list::bundles(vec![package], catalog::list::Order::Name);
        let bundle = |row: &catalog::list::ListedBundle<'_>| BundleInfo {
            name: row.bundle.to_owned(),
            version: row.version.to_string(),
            image: row.image.to_owned(),
            edges: Some(row.replaces.to_owned())
                .filter(|replaces| !replaces.is_empty())
                .into_iter()
                .chain(row.skips.iter().map(|skip| skip.to_string()))
                .collect(),
        };
        let channel = |channel: &catalog::Channel| ChannelInfo {
            name: channel.name().to_owned(),
            head: channel.head().name.to_string(),
            bundles: rows.iter().filter(|row| row.channel == channel.name()).map(bundle).collect(),
        };
        PackageInfo {
            name: package.name().to_owned(),
            default_channel: package.default_channel().name().to_owned(),
            channels: package.channels().iter().map(channel).collect(),
        }
    }
}

/// The report of `index inspect packages` on a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageListing {
    /// Its name.
    pub name: String,
    /// The names of its channels, the default one first.
    pub channels: Vec<String>,
    pub default_channel: String,
}

/// The report of `index inspect package`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageDetails {
    /// Its name.
    pub name: String,
    pub default_channel: String,
    /// Its channels.
    pub channels: Vec<ChannelDetails>,
}

/// A channel in [`PackageDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelDetails {
    /// Its name.
    pub name: String,
    /// Its bundles, by version.
    pub bundles: Vec<BundleDetails>,
}

/// A bundle in [`PackageDetails`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleDetails {
    /// Its version, if it has one.
    pub version: Option<String>,
    /// Its name.
    pub csv: String,
    /// Its image, if it has one.
    pub bundle_path: Option<String>,
    /// Everything below it, if anything.
    pub replaces: Option<Vec<NamedVersion>>,
    /// Everything above it, if anything.
    pub replacements: Option<Vec<NamedVersion>>,
}

/// A bundle that another one upgrades from or to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedVersion {
    /// Its version, if it is known.
    pub version: Option<String>,
    /// Its name.
    pub csv: String,
}

impl PackageInfo {
    /// Returns the report of `index inspect packages`.
    pub fn summary(&self) -> PackageListing {
        let mut channels: Vec<String> = self.channels.iter().map(|channel| channel.name.clone()).collect();
        channels.sort_by_key(|name| *name != self.default_channel);
        PackageListing { name: self.name.clone(), channels, default_channel: self.default_channel.clone() }
    }

    /// Returns the report of `index inspect package`.
    pub fn details(&self) -> PackageDetails {
        let channel = |channel: &ChannelInfo| ChannelDetails { name: channel.name.clone(), bundles: details(channel) };
        PackageDetails {
            name: self.name.clone(),
            default_channel: self.default_channel.clone(),
            channels: self.channels.iter().map(channel).collect(),
        }
    }
}

/// Describes the bundles of a channel with everything below and above them.
fn details(channel: &ChannelInfo) -> Vec<BundleDetails> {
    let versions: BTreeMap<&str, &str> =
        channel.bundles.iter().map(|bundle| (bundle.name.as_str(), bundle.version.as_str())).collect();
    let compare = |a: &str, b: &str| {
        let version = |name: &str| versions.get(name).and_then(|version| Version::parse_strict(version).ok());
        let by_version = match (version(a), version(b)) {
            (Some(a), Some(b)) => a.cmp_precedence(&b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        };
        by_version.then(a.cmp(b))
    };
    let edges: BTreeMap<&str, &[String]> =
        channel.bundles.iter().map(|bundle| (bundle.name.as_str(), &bundle.edges[..])).collect();
    let below: BTreeMap<&str, BTreeSet<&str>> =
        channel.bundles.iter().map(|bundle| (bundle.name.as_str(), reachable(&bundle.name, &edges))).collect();
    let present = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let list = |mut names: Vec<&str>| {
        names.sort_by(|a, b| compare(a, b));
        let named = |name: &&str| NamedVersion { version: present(versions.get(name).copied()), csv: (*name).into() };
        if names.is_empty() { None } else { Some(names.iter().map(named).collect()) }
    };
    let mut sorted: Vec<&BundleInfo> = channel.bundles.iter().collect();
    sorted.sort_by(|a, b| compare(&a.name, &b.name));
    let describe = |bundle: &BundleInfo| {
        let name = bundle.name.as_str();
        BundleDetails {
            version: present(Some(&bundle.version)),
            csv: name.to_owned(),
            bundle_path: present(Some(&bundle.image)),
            replaces: list(below.get(name).into_iter().flatten().copied().collect()),
            replacements: list(
                below.iter().filter(|(_, below)| below.contains(name)).map(|(above, _)| *above).collect(),
            ),
        }
    };
    sorted.into_iter().map(describe).collect()
}

/// Returns all names reachable by edges from a name.
fn reachable<'a>(name: &str, edges: &BTreeMap<&str, &'a [String]>) -> BTreeSet<&'a str> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut waiting: Vec<&str> =
        edges.get(name).into_iter().flat_map(|names| names.iter()).map(String::as_str).collect();
    while let Some(next) = waiting.pop() {
        if next != name && found.insert(next) {
            waiting.extend(edges.get(next).into_iter().flat_map(|names| names.iter()).map(String::as_str));
        }
    }
    found
}

/// Returns the packages whose upgrade graph is not the one of mode `replaces`, with their mode.
fn modes(connection: &Connection) -> Result<BTreeMap<String, Option<AddMode>>, Error> {
    let mut declared = Declared::new();
    let mut statement = connection.prepare("SELECT name, version, replaces, skips FROM operatorbundle")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let skips = value::text(row, 3)?;
        let skips = skips.split(',').filter(|skip| !skip.is_empty()).map(str::to_owned).collect();
        declared.insert(value::text(row, 0)?, (value::text(row, 1)?, (value::text(row, 2)?, skips)));
    }
    let mut channels: BTreeMap<(String, String), (String, Vec<MemberRow>)> = BTreeMap::new();
    let mut statement = connection.prepare("SELECT package_name, name, head_operatorbundle_name FROM channel")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        channels.insert((value::text(row, 0)?, value::text(row, 1)?), (value::text(row, 2)?, Vec::new()));
    }
    for member in members(connection)? {
        if let Some((_, members)) = channels.get_mut(&(member.package.clone(), member.channel.clone())) {
            members.push(member);
        }
    }
    let mut modes: BTreeMap<String, Option<AddMode>> = BTreeMap::new();
    for (package, _) in channels.keys() {
        let own = channels.iter().filter(|((of, _), _)| of == package).map(|(_, channel)| channel);
        let fits = |mode: AddMode| {
            own.clone().all(|(head, members)| wanted(mode, head, members, &declared) == actual(members))
        };
        let mode = [AddMode::Replaces, AddMode::Semver, AddMode::SkipPatch].into_iter().find(|mode| fits(*mode));
        if mode != Some(AddMode::Replaces) {
            modes.insert(package.clone(), mode);
        }
    }
    Ok(modes)
}

/// The replaced and the skipped bundles.
type Edges = (String, BTreeSet<String>);
/// The version of each bundle, and the edges that its CSV declares.
type Declared = BTreeMap<String, (String, Edges)>;

/// Returns the bundles of a channel that have edges.
fn actual(members: &[MemberRow]) -> Option<BTreeMap<String, Edges>> {
    let edges = |member: &MemberRow| (member.replaces.clone(), member.skips.iter().cloned().collect());
    let with_edges = members.iter().map(|member| (member.bundle.clone(), edges(member)));
    Some(with_edges.filter(|(_, edges)| *edges != Edges::default()).collect())
}

/// Returns the bundles of a channel that a mode gives edges; `None` if it does not accept them.
fn wanted(mode: AddMode, head: &str, members: &[MemberRow], declared: &Declared) -> Option<BTreeMap<String, Edges>> {
    let mut wanted = BTreeMap::new();
    if mode == AddMode::Replaces {
        let mut current = head;
        while let Some((_, edges)) = declared.get(current).filter(|_| !wanted.contains_key(current)) {
            wanted.insert(current.to_owned(), edges.clone());
            current = &edges.0;
        }
    } else {
        let mut channel = ChannelChain::new("", "");
        for MemberRow { bundle, .. } in members {
            channel.versions.insert(bundle.clone(), version(bundle, &declared.get(bundle)?.0).ok()?);
        }
        let chain = shrink::by_version(&channel, mode);
        for (place, link) in chain.iter().enumerate() {
            let replaces = chain.get(place + 1).map(|below| below.name.clone()).unwrap_or_default();
            wanted.insert(link.name.clone(), (replaces, link.skips.iter().cloned().collect()));
        }
    }
    wanted.retain(|_, edges| *edges != Edges::default());
    Some(wanted)
}
