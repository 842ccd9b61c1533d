//! Encodes bundles for replies.

use catalog::query::QueryMessage;
use catalog::query::message;
use fbc::json::Raw;
use rusqlite::{Connection, OptionalExtension};

use crate::error::Error;
use crate::row::{BundleRow, body, objects};
use crate::value;

/// The form of a bundle in a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// With manifests and the plurals of APIs.
    Single,
    /// With edges; manifests only if there is no image.
    Listed,
}

/// Encodes a `Bundle`; `edges` are package, channel, replaced bundle and skips.
pub(super) fn bundle_message(
    connection: &Connection,
    bundle: &BundleRow,
    (package, channel, replaces, skips): (&str, &str, &str, &[String]),
    shape: Shape,
) -> Result<QueryMessage, Error> {
    let mut out = Vec::new();
    message::string(&mut out, 1, &bundle.name);
    message::string(&mut out, 2, package);
    message::string(&mut out, 3, channel);
    if shape == Shape::Single || bundle.image.is_empty() {
        let manifests = body(connection, &bundle.name, "bundle")?.unwrap_or_default();
        let csv = objects(&manifests).find(|object| fbc::csv::is_csv(*object));
        message::string(&mut out, 4, csv.map_or("", Raw::text));
        for object in objects(&manifests) {
            message::item(&mut out, 5, object.text().as_bytes());
        }
    }
    message::string(&mut out, 6, &bundle.image);
    let properties = bundle.typed(connection, "properties")?;
    let dependencies = bundle.typed(connection, "dependencies")?;
    let plurals = (shape == Shape::Single).then_some(connection);
    apis(plurals, &properties, 7, &mut out)?;
    apis(plurals, &dependencies, 8, &mut out)?;
    message::string(&mut out, 9, &bundle.version);
    message::string(&mut out, 10, &bundle.skip_range);
    for (kind, value) in &dependencies {
        message::typed_value(&mut out, 11, kind, value.as_bytes());
    }
    for (kind, value) in &properties {
        message::typed_value(&mut out, 12, kind, value.as_bytes());
    }
    message::string(&mut out, 13, replaces);
    for skip in skips {
        message::item(&mut out, 14, skip.as_bytes());
    }
    Ok(out)
}

/// Encodes the APIs in properties or dependencies, without duplicates, with their plurals if requested and known.
fn apis(
    plurals: Option<&Connection>,
    typed: &[(String, String)],
    field: u32,
    out: &mut QueryMessage,
) -> Result<(), Error> {
    let mut written: Vec<[String; 3]> = Vec::new();
    for (_, value) in typed.iter().filter(|(kind, _)| kind == fbc::property::GVK) {
        let Some(api) = value::fields(value, ["group", "version", "kind"]) else { continue };
        if written.contains(&api) {
            continue;
        }
        let mut item = Vec::new();
        for (i, part) in (1..).zip(&api) {
            message::string(&mut item, i, part);
        }
        if let Some(connection) = plurals {
            let sql = "SELECT plural FROM api WHERE group_name = ?1 AND version = ?2 AND kind = ?3";
            let mut statement = connection.prepare_cached(sql)?;
            let [group, version, kind] = &api;
            let plural = statement.query_row([group, version, kind], |row| value::text(row, 0)).optional()?;
            message::string(&mut item, 4, &plural.unwrap_or_default());
        }
        message::item(out, field, &item);
        written.push(api);
    }
    Ok(())
}
