//! Answers queries of the registry API from a database.

mod empty;
mod reply;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use catalog::query::message;
use catalog::query::{ApiType, CatalogCounts, Query, QueryAnswer, QueryError, QueryMessage, Rows};
use fbc::scratch::TempFolder;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::error::Error;
use crate::members::{MemberRow, members};
use crate::open::{Database, connect};
use crate::order::by_version;
use crate::row::BundleRow;
use crate::schema::LIGHT;
use crate::value;
use reply::{Shape, bundle_message};

pub use empty::EmptyIndex;

/// Maximum number of idle connections.
const IDLE_CONNECTIONS: usize = 16;

/// A database that answers queries of the registry API.
///
/// The upgrade graph and the API providers are in memory; manifests are read on demand.
pub struct DatabaseIndex {
    path: PathBuf,
    connections: Mutex<Vec<Connection>>,
    members: Vec<MemberRow>,
    /// The bundles that provide an API.
    providers: HashMap<[String; 3], Vec<String>>,
    counts: CatalogCounts,
    /// Removed with the server.
    _directory: TempFolder,
}

impl DatabaseIndex {
    /// Copies a database, and migrates the copy for queries unless `skip_migrate` is set.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or has not what queries need.
    pub fn open(path: &Path, skip_migrate: bool) -> Result<DatabaseIndex, Error> {
        let database = Database::copy(path)?;
        if database.is_empty()? {
            tracing::warn!(database = %path.display(), "no tables found in db");
            database.migrate()?;
        } else if !skip_migrate && let Err(error) = database.migrate() {
            tracing::warn!(%error, "couldn't migrate db");
            if database.missing_table()?.is_some() {
                return Err(error);
            }
        }
        if let Some(missing) = database.missing_table()? {
            let version = database.version()?;
            let hint = if skip_migrate { "; serve it without --skip-migrate" } else { "" };
            return Err(Error::Message(format!(
                "{}: cannot serve a database of schema version {version}: it has no {missing}{hint}",
                path.display()
            )));
        }
        if let Some(warning) = database.warning()? {
            tracing::warn!("{warning}");
        }
        DatabaseIndex::new(database)
    }

    /// Prepares a temporary copy of a database for queries.
    ///
    /// # Errors
    /// Fails when `database` is not a temporary copy or cannot be read.
    pub fn new(database: Database) -> Result<DatabaseIndex, Error> {
        let connection = database.connection()?;
        crate::schema::index(connection)?;
        let members = members(connection)?;
        let mut providers: HashMap<[String; 3], Vec<String>> = HashMap::new();
        {
            let mut statement =
                connection.prepare("SELECT operatorbundle_name, value FROM properties WHERE type = 'olm.gvk'")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let Some(api) = value::fields(&value::text(row, 1)?, ["group", "version", "kind"]) else { continue };
                let (names, name) = (providers.entry(api).or_default(), value::text(row, 0)?);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        let count = |table: &str| -> Result<usize, Error> {
            let sql = format!("SELECT count(*) FROM {table}");
            Ok(connection.query_row(&sql, [], |row| row.get::<_, i64>(0))? as usize)
        };
        let counts = CatalogCounts { packages: count("package")?, channels: count("channel")?, bundles: count(LIGHT)? };
        let directory =
            database.into_copy().ok_or_else(|| Error::message("only a copy of a database can be served"))?;
        let path = directory.path().join("index.db");
        Ok(DatabaseIndex { path, connections: Mutex::default(), members, providers, counts, _directory: directory })
    }

    /// Runs a query with a pooled connection.
    fn with_connection<T>(&self, query: impl FnOnce(&Connection) -> Result<T, QueryError>) -> Result<T, QueryError> {
        let kept = self.connections.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match kept {
            Some(connection) => connection,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
                .map_err(damaged)?,
        };
        crate::defend::restart_clock(&connection);
        let answer = query(&connection);
        let mut kept = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < IDLE_CONNECTIONS {
            kept.push(connection);
        }
        answer
    }

    /// Returns a bundle as a member of a channel.
    fn single(&self, package: &str, channel: &str, name: &str, absent: QueryError) -> QueryAnswer {
        self.with_connection(|connection| {
            let sql = "SELECT 1 FROM channel_entry WHERE package_name = ?1 AND channel_name = ?2
                AND operatorbundle_name = ?3 LIMIT 1";
            let mut statement = connection.prepare_cached(sql).map_err(damaged)?;
            if !statement.exists([package, channel, name]).map_err(damaged)? {
                return Err(absent);
            }
            let bundle = BundleRow::read(connection, LIGHT, name).map_err(damaged)?.ok_or(absent)?;
            let edges = (package, channel, "", &[][..]);
            bundle_message(connection, &bundle, edges, Shape::Single).map_err(damaged)
        })
    }

    /// Returns the entries of the bundles that provide an API: package, channel, bundle, replaced bundle, depth.
    fn entries_that_provide(&self, api: &ApiType) -> Result<Vec<ProviderEntry>, QueryError> {
        let key = [&api.group, &api.version, &api.kind].map(String::clone);
        let mut found = Vec::new();
        self.with_connection(|connection| {
            let sql = "SELECT entry.package_name, entry.channel_name, entry.operatorbundle_name,
                    below.operatorbundle_name, entry.depth, entry.entry_id FROM channel_entry AS entry
                LEFT JOIN channel_entry AS below ON below.entry_id = entry.replaces
                WHERE entry.operatorbundle_name = ?1";
            for name in self.providers.get(&key).into_iter().flatten() {
                let mut statement = connection.prepare_cached(sql).map_err(damaged)?;
                let rows = statement.query_map([name], |row| {
                    Ok(ProviderEntry {
                        package: value::text(row, 0)?,
                        channel: value::text(row, 1)?,
                        bundle: value::text(row, 2)?,
                        replaces: value::text(row, 3)?,
                        depth: row.get::<_, Option<i64>>(4)?.unwrap_or(i64::MAX),
                        id: row.get(5)?,
                    })
                });
                found.extend(rows.and_then(|rows| rows.collect::<Result<Vec<_>, _>>()).map_err(damaged)?);
            }
            Ok(())
        })?;
        found.sort();
        Ok(found)
    }

    /// Returns the entry with the least depth of each channel that provides an API.
    fn latest_that_provide(&self, api: &ApiType) -> Result<Vec<ProviderEntry>, QueryError> {
        let mut latest: Vec<ProviderEntry> = Vec::new();
        for found in self.entries_that_provide(api)? {
            match latest.last_mut() {
                Some(last) if last.package == found.package && last.channel == found.channel => {
                    if (found.depth, found.id) < (last.depth, last.id) {
                        *last = found;
                    }
                }
                _ => latest.push(found),
            }
        }
        Ok(latest)
    }
}

/// An entry that provides an API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ProviderEntry {
    package: String,
    channel: String,
    bundle: String,
    depth: i64,
    id: i64,
    replaces: String,
}

impl ProviderEntry {
    fn message(&self) -> QueryMessage {
        message::channel_entry(&self.package, &self.channel, &self.bundle, &self.replaces)
    }
}

fn damaged(error: impl Into<Error>) -> QueryError {
    QueryError::Damaged(error.into().to_string())
}

fn absent(text: String) -> QueryError {
    QueryError::Absent(text)
}

fn no_providers(api: &ApiType) -> QueryError {
    absent(format!("no channel entries found that provide {} {} {}", api.group, api.version, api.kind))
}

impl Query for DatabaseIndex {
    fn packages(self: Arc<Self>) -> Rows {
        let names = self.with_connection(|connection| {
            value::strings(connection, "SELECT name FROM package WHERE name IS NOT NULL ORDER BY name", [])
                .map_err(damaged)
        });
        match names {
            Ok(names) => Box::new(names.into_iter().map(|name| Ok(message::package_name(&name)))),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn package(&self, name: &str) -> QueryAnswer {
        self.with_connection(|connection| {
            let mut out = Vec::new();
            message::string(&mut out, 1, name);
            let sql = "SELECT name, head_operatorbundle_name FROM channel WHERE package_name = ?1 ORDER BY name";
            let mut channels = 0;
            let mut statement = connection.prepare_cached(sql).map_err(damaged)?;
            let mut rows = statement.query([name]).map_err(damaged)?;
            while let Some(row) = rows.next().map_err(damaged)? {
                let mut channel = Vec::new();
                message::string(&mut channel, 1, &value::text(row, 0).map_err(damaged)?);
                message::string(&mut channel, 2, &value::text(row, 1).map_err(damaged)?);
                message::item(&mut out, 2, &channel);
                channels += 1;
            }
            let sql = "SELECT default_channel FROM package WHERE name = ?1";
            let mut statement = connection.prepare_cached(sql).map_err(damaged)?;
            let default = statement.query_row([name], |row| value::text(row, 0)).optional().map_err(damaged)?;
            match default {
                Some(default) if channels > 0 => {
                    message::string(&mut out, 3, &default);
                    Ok(out)
                }
                _ => Err(QueryError::no_package_unquoted(name)),
            }
        })
    }

    fn bundle(&self, package: &str, channel: &str, name: &str) -> QueryAnswer {
        self.single(package, channel, name, absent(format!("no entry found for {package} {channel} {name}")))
    }

    fn head(&self, package: &str, channel: &str) -> QueryAnswer {
        self.with_connection(|connection| {
            let sql = "SELECT bundle.name, bundle.csv FROM channel
                JOIN operatorbundle AS bundle ON bundle.name = channel.head_operatorbundle_name
                WHERE channel.package_name = ?1 AND channel.name = ?2";
            let mut statement = connection.prepare_cached(sql).map_err(damaged)?;
            let found = statement.query_row([package, channel], |row| {
                let mut out = Vec::new();
                message::string(&mut out, 1, &value::text(row, 0)?);
                message::string(&mut out, 4, &value::text(row, 1)?);
                Ok(out)
            });
            let found = found.optional().map_err(damaged)?;
            found.ok_or_else(|| absent(format!("no entry found for {package} {channel}")))
        })
    }

    fn replacements(self: Arc<Self>, name: &str) -> Result<Rows, QueryError> {
        let rows = self.with_connection(|connection| {
            let sql = "SELECT DISTINCT entry.package_name, entry.channel_name, entry.operatorbundle_name
                FROM channel_entry AS below JOIN channel_entry AS entry ON entry.replaces = below.entry_id
                WHERE below.operatorbundle_name = ?1 ORDER BY 1, 2, 3";
            let mut statement = connection.prepare_cached(sql).map_err(damaged)?;
            let rows = statement.query_map([name], |row| {
                let (package, channel, bundle) = (value::text(row, 0)?, value::text(row, 1)?, value::text(row, 2)?);
                Ok(message::channel_entry(&package, &channel, &bundle, name))
            });
            rows.and_then(|rows| rows.collect::<Result<Vec<_>, _>>()).map_err(damaged)
        })?;
        if rows.is_empty() {
            return Err(QueryError::no_replacements(name));
        }
        Ok(Box::new(rows.into_iter().map(Ok)))
    }

    fn replacement(&self, name: &str, package: &str, channel: &str) -> QueryAnswer {
        let none = || absent(format!("no entry found for {package} {channel}"));
        let key = |member: &MemberRow| (member.channel.as_str(), member.package.as_str()).cmp(&(channel, package));
        let start = self.members.partition_point(|member| key(member).is_lt());
        let channel_members = self.members[start..].iter().take_while(|member| key(member).is_eq());
        let candidates: Vec<&MemberRow> = channel_members
            .filter(|member| {
                !name.is_empty() && (member.replaces == name || member.skips.iter().any(|skip| skip == name))
            })
            .collect();
        // A bundle that replaces it comes first, then the highest version, then the name.
        let mut found: Option<(bool, String, String)> = None;
        for member in candidates {
            let version = self.with_connection(|connection| {
                let row = BundleRow::read(connection, LIGHT, &member.bundle).map_err(damaged)?;
                Ok(row.map(|row| row.version).unwrap_or_default())
            })?;
            let really = member.replaces == name;
            let better = found
                .as_ref()
                .is_none_or(|(best, highest, _)| really.cmp(best).then_with(|| by_version(&version, highest)).is_gt());
            if better {
                found = Some((really, version, member.bundle.clone()));
            }
        }
        let found = found.map(|(_, _, bundle)| bundle);
        self.single(package, channel, &found.ok_or_else(none)?, none())
    }

    fn providers(self: Arc<Self>, api: &ApiType) -> Result<Rows, QueryError> {
        let mut found = self.entries_that_provide(api)?;
        found.dedup_by(|b, a| {
            (&a.package, &a.channel, &a.bundle, &a.replaces) == (&b.package, &b.channel, &b.bundle, &b.replaces)
        });
        if found.is_empty() {
            return Err(no_providers(api));
        }
        Ok(Box::new(found.into_iter().map(|found| Ok(found.message()))))
    }

    fn latest_providers(self: Arc<Self>, api: &ApiType) -> Result<Rows, QueryError> {
        let found = self.latest_that_provide(api)?;
        if found.is_empty() {
            return Err(no_providers(api));
        }
        Ok(Box::new(found.into_iter().map(|found| Ok(found.message()))))
    }

    fn default_provider(&self, api: &ApiType) -> QueryAnswer {
        let none = || absent(format!("no entry found that provides {} {} {}", api.group, api.version, api.kind));
        for found in self.latest_that_provide(api)? {
            let usable = self.with_connection(|connection| {
                let sql = "SELECT 1 FROM package JOIN operatorbundle AS bundle ON bundle.name = ?3
                    WHERE package.name = ?1 AND package.default_channel = ?2 AND bundle.bundle IS NOT NULL";
                let mut statement = connection.prepare_cached(sql).map_err(damaged)?;
                statement.exists([&found.package, &found.channel, &found.bundle]).map_err(damaged)
            })?;
            if usable {
                return self.single(&found.package, &found.channel, &found.bundle, none());
            }
        }
        Err(none())
    }

    fn bundles(self: Arc<Self>) -> Rows {
        let mut next = 0;
        Box::new(std::iter::from_fn(move || {
            loop {
                let member = self.members.get(next)?;
                next += 1;
                let answer = self.with_connection(|connection| {
                    let Some(bundle) = BundleRow::read(connection, LIGHT, &member.bundle).map_err(damaged)? else {
                        return Ok(None);
                    };
                    let edges = (&*member.package, &*member.channel, &*member.replaces, &member.skips[..]);
                    bundle_message(connection, &bundle, edges, Shape::Listed).map(Some).map_err(damaged)
                });
                if let Some(answer) = answer.transpose() {
                    return Some(answer);
                }
            }
        }))
    }

    fn custom(self: Arc<Self>, _: &str, _: &str) -> Rows {
        Box::new(std::iter::empty())
    }

    fn counts(&self) -> CatalogCounts {
        self.counts
    }
}
