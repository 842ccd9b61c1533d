//! Parses packages and channels with their version ranges.

use edit::filter::bounds::{Bound, Bounds};
use edit::filter::image_set::PackageRequest;
use fbc::json::{JsonKind, JsonPath, Raw};

use crate::imageset::ImageSetKind;
use crate::imageset::fields::{FieldValue, Fields, shown};

/// Parses a package.
pub(super) fn package(
    fields: &mut Fields<'_>,
    value: Raw<'_>,
    path: &JsonPath,
    kind: ImageSetKind,
) -> Option<PackageRequest> {
    let mut package = PackageRequest::default();
    let known = ["name", "defaultChannel", "minVersion", "maxVersion", "channels"];
    let mut found = fields.of(value, path, &known, &[]);
    // Messages about channels name the package.
    found.sort_by_key(|field| field.name != "name");
    for field in &found {
        match field.name {
            "name" => package.name = fields.text(field).unwrap_or_default(),
            "defaultChannel" => package.default_channel = fields.text(field).filter(|text| !text.is_empty()),
            "minVersion" => package.bounds.min = bound(fields, field),
            "maxVersion" => package.bounds.max = bound(fields, field),
            _ => {
                for (value, path) in fields.list(field) {
                    let channel = channel(fields, value, &path);
                    if kind == ImageSetKind::Mirror && package.channels.iter().any(|(name, _)| *name == channel.0) {
                        let (name, package) = (channel.0, &package.name);
                        fields.problem(&path, format!("duplicate channel {name:?} of package {package:?}"));
                        continue;
                    }
                    package.channels.push(channel);
                }
            }
        }
    }
    if package.name.is_empty() {
        if value.kind() == JsonKind::Object {
            fields.problem(path, format!("{}: name is missing", shown(path)));
        }
        return None;
    }
    let ranged = package.channels.iter().any(|(_, bounds)| !bounds.is_open());
    if kind == ImageSetKind::Mirror && ranged && !package.bounds.is_open() {
        let message = format!("package {:?} and one of its channels both have a version range", package.name);
        fields.problem_with_help(path, message, "remove one of the ranges");
    }
    Some(package)
}

fn channel(fields: &mut Fields<'_>, value: Raw<'_>, path: &JsonPath) -> (String, Bounds) {
    let (mut name, mut bounds) = (String::new(), Bounds::default());
    for field in fields.of(value, path, &["name", "minVersion", "maxVersion"], &[]) {
        match field.name {
            "name" => name = fields.text(&field).unwrap_or_default(),
            "minVersion" => bounds.min = bound(fields, &field),
            _ => bounds.max = bound(fields, &field),
        }
    }
    if name.is_empty() && value.kind() == JsonKind::Object {
        fields.problem(path, format!("{}: name is missing", shown(path)));
    }
    (name, bounds)
}

fn bound(fields: &mut Fields<'_>, field: &FieldValue<'_>) -> Option<Bound> {
    let text = fields.text(field).filter(|text| !text.is_empty())?;
    match Bound::parse(&text) {
        Ok(bound) => Some(bound),
        Err(reason) => {
            fields.problem(&field.path, format!("{}: {reason}", shown(&field.path)));
            None
        }
    }
}
