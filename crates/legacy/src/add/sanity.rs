//! Checks before anything is added.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::{AddError, AddMode, AddOptions, AddRefusal, Incoming};
use crate::error::Error;
use crate::value;

/// Checks bundles against each other and against the index, and reports all problems.
pub(super) fn check(connection: &Connection, incoming: &[Incoming], options: &AddOptions) -> Result<(), AddError> {
    let mut refusals = Vec::new();
    let mut overwritten: BTreeMap<&str, usize> = BTreeMap::new();
    for bundle in incoming {
        let (package, name) = (bundle.contents.package.as_str(), bundle.contents.name.as_str());
        if !bundle.image.is_empty() && image_is_in(connection, package, &bundle.image)? {
            refusals.push(AddRefusal::ImageExists(format!("Bundle {} already exists", bundle.image)));
        }
        if !is_member(connection, package, name)? {
            continue;
        }
        if !options.overwrite_latest {
            let text = format!("Bundle already added that provides package and csv: package {package}, csv {name}");
            refusals.push(AddRefusal::BundleExists(text));
        } else if options.mode == AddMode::Replaces {
            *overwritten.entry(package).or_default() += 1;
            if bundle.image.is_empty() {
                let text = "index add --overwrite-latest is only supported when using bundle images";
                refusals.push(AddRefusal::Other(text.into()));
            } else if is_replaced(connection, package, name)? {
                let text = "Cannot overwrite a bundle that is not at the head of a channel using --overwrite-latest";
                refusals.push(AddRefusal::Other(format!("{text}: {name}")));
            }
        }
    }
    if let Some((package, _)) = overwritten.iter().find(|(_, count)| **count > 1) {
        let text = "Cannot overwrite more than one bundle at a time for a given package using --overwrite-latest";
        refusals.push(AddRefusal::Other(format!("{text}: {package}")));
    }
    owners(connection, incoming, &mut refusals)?;
    if refusals.is_empty() { Ok(()) } else { Err(AddError { refusals }) }
}

/// Checks that every bundle name belongs to one package.
fn owners(connection: &Connection, incoming: &[Incoming], refusals: &mut Vec<AddRefusal>) -> Result<(), Error> {
    let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for bundle in incoming {
        let contents = &bundle.contents;
        let names = [&contents.name, &contents.replaces].into_iter().chain(&contents.skips);
        for name in names.filter(|name| !name.is_empty()) {
            owners.entry(name).or_default().insert(&contents.package);
        }
    }
    let sql = "SELECT DISTINCT package_name FROM channel_entry WHERE operatorbundle_name = ?1 ORDER BY 1";
    for (name, packages) in owners {
        if packages.len() > 1 {
            let packages = packages.into_iter().collect::<Vec<_>>().join(" ");
            let text = format!("bundle {name} must belong to exactly one package, found on: [{packages}]");
            refusals.push(AddRefusal::Other(text));
            continue;
        }
        for package in packages {
            for other in value::strings(connection, sql, [name])?.iter().filter(|other| *other != package) {
                refusals.push(AddRefusal::Other(format!(
                    "bundle {name} belongs to package {other} on index, cannot be added as an edge for package {package}"
                )));
            }
        }
    }
    Ok(())
}

fn exists(connection: &Connection, sql: &str, params: [&str; 2]) -> Result<bool, Error> {
    Ok(connection.prepare_cached(sql)?.exists(params)?)
}

fn image_is_in(connection: &Connection, package: &str, image: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM operatorbundle AS bundle
        JOIN channel_entry AS entry ON entry.operatorbundle_name = bundle.name
        WHERE bundle.bundlepath = ?2 AND entry.package_name = ?1 LIMIT 1";
    exists(connection, sql, [package, image])
}

fn is_member(connection: &Connection, package: &str, name: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM channel_entry AS entry JOIN operatorbundle AS bundle INDEXED BY opm_bundle_light
            ON bundle.name = entry.operatorbundle_name
        WHERE entry.operatorbundle_name = ?2 AND entry.package_name = ?1 LIMIT 1";
    exists(connection, sql, [package, name])
}

fn is_replaced(connection: &Connection, package: &str, name: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM channel_entry AS below JOIN channel_entry AS above ON above.replaces = below.entry_id
        WHERE below.operatorbundle_name = ?2 AND below.package_name = ?1 LIMIT 1";
    exists(connection, sql, [package, name])
}
