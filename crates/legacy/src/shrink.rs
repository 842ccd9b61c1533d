//! Removes single bundles and repairs their channels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bundle::BundleSummary;
use fbc::Limits;
use fbc::quote::quote;
use rusqlite::{Connection, OptionalExtension};

use crate::add::{AddMode, drop_manifests, set_manifests};
use crate::change::Changed;
use crate::error::Error;
use crate::fetch::{Fetch, FetchError};
use crate::graph::{ChannelChain, Link, heads, set_default};
use crate::open::Database;
use crate::remove::{Strictness, bundle_of_image, channels_of, remove_bundle, remove_row};
use crate::schema::{LIGHT, keeping_apis};
use crate::value;

/// Options for removing bundles.
pub struct Shrink<'a> {
    /// What to do if a new channel head cannot be fetched.
    pub strictness: Strictness,
    /// Fetches bundles whose manifests were dropped and are needed again.
    pub images: &'a dyn Fetch,
    /// Size limits.
    pub limits: Limits,
}

impl Database {
    /// Creates an empty index.
    ///
    /// # Errors
    /// Fails when the file exists or cannot be written.
    pub fn create(path: &Path) -> Result<(), Error> {
        if path.symlink_metadata().is_ok() {
            return Err(Error::Message(format!("database {} already exists", quote(&path.display().to_string()))));
        }
        Database::write(path)?.change(|_| Ok(()))
    }

    /// Removes the head of a package's default channel from all channels.
    ///
    /// # Errors
    /// Fails when another bundle replaces it, or the new default channel is ambiguous.
    pub fn delete_latest(&self, package: &str, shrink: &Shrink<'_>) -> Result<Changed, Error> {
        self.shrink(shrink, |connection, manifests| delete_latest(connection, package, manifests))
    }

    /// Removes the bundle of an image and reorders its channels by version.
    ///
    /// # Errors
    /// Fails when the bundle does not exist, or the new default channel is ambiguous.
    pub fn remove_image(&self, image: &str, mode: AddMode, shrink: &Shrink<'_>) -> Result<Changed, Error> {
        if mode == AddMode::Replaces {
            return Err(Error::message("rmb supports only the modes semver and semver-skippatch"));
        }
        self.shrink(shrink, |connection, manifests| remove_image(connection, image, mode, manifests))
    }

    /// Removes bundles in one transaction. No image is pulled while it is open: a removal that needs more manifests is
    /// rolled back, and repeated with them.
    fn shrink(
        &self,
        shrink: &Shrink<'_>,
        remove: impl Fn(&Connection, &mut Manifests) -> Result<Vec<String>, Error>,
    ) -> Result<Changed, Error> {
        let mut manifests = Manifests { strictness: shrink.strictness, pulled: BTreeMap::new(), missing: Vec::new() };
        loop {
            let removed = self.change(|connection| {
                let skipped = keeping_apis(connection, || remove(connection, &mut manifests))?;
                if manifests.missing.is_empty() { Ok(skipped) } else { Err(Stop::Incomplete) }
            });
            match removed {
                Ok(skipped) => return Ok(self.changed(skipped)),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Incomplete) => manifests.pull(shrink),
            }
        }
    }
}

/// Why a removal was rolled back.
enum Stop {
    Failed(Error),
    /// It needs manifests that are not pulled yet.
    Incomplete,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

/// Why the manifests of an image cannot be used.
#[derive(Debug, thiserror::Error)]
enum ManifestsError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Bundle(#[from] bundle::Error),
}

/// The manifests of new heads whose rows have none.
struct Manifests {
    strictness: Strictness,
    /// By image.
    pulled: BTreeMap<String, Result<BundleSummary, ManifestsError>>,
    /// The images to pull before the next attempt.
    missing: Vec<String>,
}

impl Manifests {
    fn pull(&mut self, shrink: &Shrink<'_>) {
        for image in std::mem::take(&mut self.missing) {
            let read = |directory: PathBuf| Ok(bundle::read(&directory, &shrink.limits)?);
            let contents = shrink.images.unpack_one(&image).map_err(ManifestsError::from).and_then(read);
            let fails = contents.is_err() && self.strictness == Strictness::Strict;
            self.pulled.insert(image, contents);
            if fails {
                return;
            }
        }
    }
}

fn delete_latest(connection: &Connection, package: &str, manifests: &mut Manifests) -> Result<Vec<String>, Error> {
    let default = default_channel(connection, package)?
        .ok_or_else(|| Error::Message(format!("no package found for packagename {package}")))?;
    let before = heads(connection, package)?;
    let latest = before.get(&default).filter(|head| !head.is_empty()).cloned();
    let latest =
        latest.ok_or_else(|| Error::Message(format!("package {package} has no default channel with a head")))?;
    let sql = "SELECT above.operatorbundle_name, above.channel_name FROM channel_entry AS below
        JOIN channel_entry AS above ON above.replaces = below.entry_id
        WHERE below.operatorbundle_name = ?1 ORDER BY 2, 1 LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let above = statement.query_row([&latest], |row| Ok((value::text(row, 0)?, value::text(row, 1)?))).optional()?;
    if let Some((above, channel)) = above {
        return Err(Error::Message(format!(
            "cannot delete latest bundle {latest} of package {package}: replaced by {above} on channel {channel}"
        )));
    }
    let mut skipped = Vec::new();
    for (package, channel) in channels_of(connection, &latest)? {
        let mut channel = ChannelChain::read(connection, &package, &channel)?;
        channel.versions.remove(&latest);
        if channel.chain.first().is_some_and(|head| head.name == latest) {
            let head = channel.chain.remove(0);
            skipped.extend(head.skips.iter().cloned());
            if channel.chain.is_empty() {
                channel.below = None;
                channel.chain.extend(successor_of(&channel, head));
            }
        }
        channel.write(connection)?;
    }
    connection.prepare_cached("DELETE FROM deprecated WHERE operatorbundle_name = ?1")?.execute([&latest])?;
    remove_bundle(connection, &latest)?;
    for name in skipped {
        let sql = "SELECT 1 FROM channel_entry WHERE operatorbundle_name = ?1 LIMIT 1";
        if !connection.prepare_cached(sql)?.exists([&name])? {
            remove_row(connection, &name)?;
        }
    }
    let what = format!("cannot delete latest bundle {latest} of package {package}");
    settle_default(connection, package, &default, &what)?;
    finish(connection, package, &before, manifests)
}

/// Returns the successor of a head that replaced nothing: the newest of its skipped bundles.
fn successor_of(channel: &ChannelChain, head: Link) -> Option<Link> {
    let mut left: Vec<String> = head.skips.into_iter().filter(|skip| channel.versions.contains_key(skip)).collect();
    channel.order(&mut left);
    let name = left.pop()?;
    Some(Link { name, skips: left })
}

fn remove_image(
    connection: &Connection,
    image: &str,
    mode: AddMode,
    manifests: &mut Manifests,
) -> Result<Vec<String>, Error> {
    let name = bundle_of_image(connection, image)?;
    let name = name.ok_or_else(|| Error::Message(format!("bundle image {image} not in index")))?;
    let mut packages: BTreeMap<String, (Option<String>, BTreeMap<String, String>)> = BTreeMap::new();
    for (package, channel) in channels_of(connection, &name)? {
        if !packages.contains_key(&package) {
            let before = (default_channel(connection, &package)?, heads(connection, &package)?);
            packages.insert(package.clone(), before);
        }
        let mut channel = ChannelChain::unordered(connection, &package, &channel)?;
        channel.versions.remove(&name);
        channel.chain = by_version(&channel, mode);
        channel.write(connection)?;
    }
    connection.prepare_cached("DELETE FROM deprecated WHERE operatorbundle_name = ?1")?.execute([&name])?;
    remove_bundle(connection, &name)?;
    let mut skipped = Vec::new();
    for (package, (default, before)) in packages {
        let what = format!("cannot remove bundle {name} of package {package}");
        settle_default(connection, &package, &default.unwrap_or_default(), &what)?;
        skipped.extend(finish(connection, &package, &before, manifests)?);
    }
    Ok(skipped)
}

/// Orders the bundles of a channel into a chain by version.
pub(crate) fn by_version(channel: &ChannelChain, mode: AddMode) -> Vec<Link> {
    let mut names: Vec<String> = channel.versions.keys().cloned().collect();
    channel.order(&mut names);
    let minor = |name: &String| channel.versions.get(name).map(|version| (version.major(), version.minor()));
    let mut chain: Vec<Link> = Vec::new();
    for name in names {
        let mut skips = Vec::new();
        if let Some(last) = chain.last_mut()
            && mode == AddMode::SkipPatch
            && minor(&last.name) == minor(&name)
        {
            skips = std::mem::take(&mut last.skips);
            skips.push(std::mem::take(&mut last.name));
            chain.pop();
        }
        chain.push(Link { name, skips });
    }
    chain.reverse();
    chain
}

fn default_channel(connection: &Connection, package: &str) -> Result<Option<String>, Error> {
    let sql = "SELECT default_channel FROM package WHERE name = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([package], |row| value::text(row, 0)).optional()?)
}

/// Sets the default channel after channels may have been removed.
fn settle_default(connection: &Connection, package: &str, default: &str, what: &str) -> Result<(), Error> {
    let left = heads(connection, package)?;
    let mut names = left.keys();
    match (names.next(), names.next()) {
        (None, _) => {
            connection.prepare_cached("DELETE FROM package WHERE name = ?1")?.execute([package])?;
            Ok(())
        }
        _ if left.contains_key(default) => set_default(connection, package, default),
        (Some(only), None) => set_default(connection, package, only),
        _ => {
            let names: Vec<&str> = left.keys().map(String::as_str).collect();
            Err(Error::Message(format!(
                "{what}: default channel {} would be removed, channels left: {}",
                quote(default),
                names.join(", ")
            )))
        }
    }
}

/// Restores the manifests of new heads, and drops those of other bundles.
fn finish(
    connection: &Connection,
    package: &str,
    before: &BTreeMap<String, String>,
    manifests: &mut Manifests,
) -> Result<Vec<String>, Error> {
    let mut skipped = Vec::new();
    let now = heads(connection, package)?;
    let mut new: Vec<&String> =
        now.iter().filter(|(channel, head)| before.get(*channel) != Some(head)).map(|(_, head)| head).collect();
    new.sort();
    new.dedup();
    for name in new {
        let sql = "SELECT 1 FROM operatorbundle WHERE name = ?1 AND csv IS NULL";
        if !connection.prepare_cached(sql)?.exists([name])? {
            continue;
        }
        let sql = format!("SELECT bundlepath FROM {LIGHT} WHERE name = ?1");
        let image = connection.prepare_cached(&sql)?.query_row([name], |row| value::text(row, 0))?;
        match manifests.pulled.get(&image) {
            None => manifests.missing.push(image),
            Some(Ok(contents)) => set_manifests(connection, name, contents)?,
            Some(Err(error)) => {
                let text = format!("cannot load new channel head {name} ({image}): {error}");
                match manifests.strictness {
                    Strictness::Strict => return Err(Error::Message(text)),
                    Strictness::Permissive => skipped.push(text),
                }
            }
        }
    }
    drop_manifests(connection)?;
    Ok(skipped)
}
