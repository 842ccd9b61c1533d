//! Lists as tables, comma-separated values and YAML.

use std::io;

use fbc::json::Text;
use fbc::spelling::table::{self, Table};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{ChannelRow, ListedBundle, PackageRow};

/// Returns the packages as upstream opm lists them.
pub fn package_table(rows: Vec<PackageRow<'_>>) -> Table {
    let rows = rows.into_iter().map(|row| vec![row.name.into(), row.display_name, row.default_channel.into()]);
    Table::new(&["NAME", "DISPLAY NAME", "DEFAULT CHANNEL"], rows)
}

/// Returns the channels as upstream opm lists them.
pub fn channel_table(rows: &[ChannelRow<'_>]) -> Table {
    let rows = rows.iter().map(|row| vec![row.package.into(), row.channel.into(), row.head.into()]);
    Table::new(&["PACKAGE", "CHANNEL", "HEAD"], rows)
}

/// Returns the bundles as upstream opm lists them.
pub fn bundle_table(rows: &[ListedBundle<'_>]) -> Table {
    let rows = rows.iter().map(|row| {
        let ListedBundle { package, channel, bundle, replaces, skip_range, image, .. } = *row;
        let skips = row.skips.join(",");
        [package, channel, bundle, replaces, &skips, skip_range, image].map(str::to_owned).to_vec()
    });
    Table::new(&["PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE"], rows)
}

/// Returns one short line per bundle; [`table()`] has every field.
pub fn summary(rows: &[ListedBundle<'_>], with_package: bool) -> Table {
    let first = usize::from(!with_package);
    let rows = rows.iter().map(|row| {
        let mut notes: Vec<String> = Vec::new();
        notes.extend(row.head.then(|| "head".to_owned()));
        notes.extend(row.deprecation.is_some().then(|| "deprecated".to_owned()));
        notes.extend((!row.skips.is_empty()).then(|| format!("skips {}", row.skips.len())));
        notes.extend((!row.skip_range.is_empty()).then(|| row.skip_range.to_owned()));
        // Most bundle names start with the package name and a dot.
        let rest = row.replaces.strip_prefix(row.package).and_then(|rest| rest.strip_prefix('.'));
        let replaces = rest.unwrap_or(row.replaces);
        let cells = [row.package, row.channel, &row.version, row.bundle, replaces, &notes.join(", ")];
        cells[first..].iter().map(|cell| (*cell).to_owned()).collect()
    });
    Table::new(&["PACKAGE", "CHANNEL", "VERSION", "BUNDLE", "REPLACES", "NOTE"][first..], rows)
}

/// Returns a table of rows, which must all have the same fields.
///
/// # Errors
/// Fails if a row cannot be serialized.
pub fn table(rows: &[impl Serialize]) -> io::Result<Table> {
    let (columns, rows) = cells(rows, |value| match value {
        // Fold line breaks: a row is one line.
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Bool(false) => String::new(),
        Value::Bool(true) => "yes".into(),
        other => plain(other),
    })?;
    Ok(Table { headings: columns.iter().map(|name| table::heading(name)).collect(), rows })
}

/// Formats rows, which must all have the same fields, as comma-separated values.
///
/// # Errors
/// Fails if a row cannot be serialized.
pub fn csv(rows: &[impl Serialize]) -> io::Result<String> {
    let (columns, rows) = cells(rows, plain)?;
    Ok(table::csv(&columns, &rows))
}

/// Formats rows as a YAML document.
///
/// # Errors
/// Fails if a row cannot be serialized.
pub fn yaml(rows: &[impl Serialize]) -> io::Result<String> {
    let mut out = Vec::new();
    fbc::yaml::write_document(Text::from(&serde_json::to_value(rows)?).raw(), &mut out);
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Returns the names of the fields, and their values in each row.
fn cells(rows: &[impl Serialize], cell: impl Fn(&Value) -> String) -> io::Result<(Vec<String>, Vec<Vec<String>>)> {
    let rows = serde_json::to_value(rows)?;
    let rows: Vec<&Map<String, Value>> = rows.as_array().into_iter().flatten().filter_map(Value::as_object).collect();
    let columns = rows.first().map(|row| row.keys().cloned().collect()).unwrap_or_default();
    Ok((columns, rows.iter().map(|row| row.values().map(&cell).collect()).collect()))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
