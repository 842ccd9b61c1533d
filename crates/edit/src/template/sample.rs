//! Bundles for tests, and a compact notation for catalogs.

use std::fmt::Write as _;

use fbc::{BlobContent, Fbc, Limits, base64};

use super::{RenderedBundle, SupplyError, Template, render};

/// Supplies the bundle `foo.v1.2.3` for `foo:1.2.3`. A release may follow (`foo:1.2.3/r1`), and a star adds the
/// annotation for substitutes to the CSV (`foo:1.2.3+1*`). `two` yields two bundles, `none` no bundle, and `missing` an
/// error.
pub(super) fn bundles(reference: &str) -> Result<Vec<RenderedBundle>, SupplyError> {
    match reference {
        "missing" => return Err(SupplyError::because("it is gone")),
        "none" => return Ok(Vec::new()),
        "two" => return Ok([bundles("foo:1.0.0")?, bundles("foo:2.0.0")?].concat()),
        _ => {}
    }
    let (package, version) = reference.split_once(':').ok_or_else(|| SupplyError::because("no version"))?;
    let (version, substitutes) = match version.strip_suffix('*') {
        Some(version) => (version, r#""olm.substitutesFor":"x""#),
        None => (version, ""),
    };
    let (version, release) = version.split_once('/').unwrap_or((version, ""));
    let name = match release {
        "" => format!("{package}.v{version}"),
        release => format!("{package}-v{version}-{release}"),
    };
    let csv = format!(
        r#"{{"kind":"ClusterServiceVersion","metadata":{{"name":"{name}","annotations":{{{substitutes}}}}},"spec":{{"description":"About {version}","icon":[{{"base64data":"aWNv\nbg==","mediatype":"image/png"}},{{}}]}}}}"#
    );
    let mut data = Vec::new();
    base64::encode(csv.as_bytes(), &mut data);
    let data = String::from_utf8_lossy(&data);
    let release = if release.is_empty() { String::new() } else { format!(r#","release":"{release}""#) };
    let json = format!(
        r#"{{"schema":"olm.bundle","name":"{name}","package":"{package}","image":"registry.example/{package}","properties":[{{"type":"olm.package","value":{{"packageName":"{package}","version":"{version}"{release}}}}},{{"type":"olm.bundle.object","value":{{"data":"{data}"}}}}]}}"#
    );
    Ok(vec![RenderedBundle { json, csv: None }])
}

/// Renders a template with those bundles and formats the catalog or the error.
pub(super) fn rendered(template: &str) -> String {
    let limits = Limits::default();
    let template = Template::parse(template.as_bytes(), &limits).expect("a document");
    let outcome = template.kind().and_then(|kind| {
        render(&template, kind, &limits, &mut |references| references.iter().map(|one| bundles(one)).collect())
    });
    outcome.map_or_else(|error| error.to_string(), |fbc| shown(&fbc))
}

/// Formats a catalog in output order, with one line per blob and per channel entry.
pub(super) fn shown(fbc: &Fbc) -> String {
    let mut out = String::new();
    for blob in fbc.in_order() {
        let word = blob.schema.strip_prefix("olm.").unwrap_or(&blob.schema);
        let _ = match &blob.content {
            BlobContent::Package { .. } => {
                let mut json = Vec::new();
                fbc.write(&[blob], fbc::Format::Json, &mut json).expect("a package");
                let json = String::from_utf8(json).expect("text");
                let json: String = json.lines().map(str::trim_start).collect();
                writeln!(out, "{json}")
            }
            BlobContent::Channel { entries } => {
                let _ = writeln!(out, "{word} {}", blob.name);
                for entry in entries {
                    let _ = write!(out, "  {}", entry.name);
                    let edges = [("replaces", &entry.replaces), ("range", &entry.skip_range)];
                    for (edge, value) in edges.iter().filter(|(_, value)| !value.is_empty()) {
                        let _ = write!(out, " {edge} {value}");
                    }
                    let skips = if entry.skips.is_empty() { "" } else { " skips " };
                    let _ = writeln!(out, "{skips}{}", entry.skips.join(" "));
                }
                Ok(())
            }
            _ => writeln!(out, "{word} {}", blob.name),
        };
    }
    out
}
