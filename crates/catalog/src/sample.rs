//! Small catalogs for tests, in a compact notation.

use std::fmt::Write as _;

use fbc::{Fbc, Limits};

/// Builds a catalog from lines like these:
///
/// ```text
/// package foo default stable
/// channel foo/stable
///   foo.v1.2.0 replaces foo.v1.1.0 skips foo.v1.0.1,foo.v1.0.0 range >=1.0.0 <1.2.0
///   ?foo.v1.1.0
/// deprecated foo olm.bundle/foo.v1.2.0 why
/// ```
///
/// Entries get bundles with the version after `.v` in their names, except those with a question mark.
pub(crate) fn fbc(lines: &str) -> Fbc {
    let mut blobs: Vec<String> = Vec::new();
    let mut bundles = Vec::new();
    let mut channel: Option<(String, Vec<String>)> = None;
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let ("package" | "channel" | "deprecated", Some((start, entries))) = (word, &channel) {
            blobs.push(format!("{start},\"entries\":[{}]}}", entries.join(",")));
            channel = None;
        }
        match word {
            "package" => {
                let (name, default) = rest.split_once(" default ").unwrap_or((rest, ""));
                let (name, default) = (json(name), json(default));
                blobs.push(format!(r#"{{"schema":"olm.package","name":{name},"defaultChannel":{default}}}"#));
            }
            "channel" => {
                let (package, name) = rest.split_once('/').expect("channels have packages");
                let (package, name) = (json(package), json(name));
                channel = Some((format!(r#"{{"schema":"olm.channel","package":{package},"name":{name}"#), Vec::new()));
                bundles.push((package, Vec::new()));
            }
            "deprecated" => {
                let (package, rest) = rest.split_once(' ').expect("deprecations have packages");
                let (what, message) = rest.split_once(' ').expect("deprecations have messages");
                let (schema, name) = what.split_once('/').unwrap_or((what, ""));
                let [package, schema, name, message] = [package, schema, name, message].map(json);
                blobs.push(format!(
                    r#"{{"schema":"olm.deprecations","package":{package},"entries":[{{"message":{message},"reference":{{"schema":{schema},"name":{name}}}}}]}}"#
                ));
            }
            name => {
                let listed = name.trim_start_matches('?');
                if listed == name {
                    bundles.last_mut().expect("entries have channels").1.push(listed.to_owned());
                }
                let (_, entries) = channel.as_mut().expect("entries have channels");
                entries.push(entry(listed, rest));
            }
        }
    }
    blobs.extend(channel.map(|(start, entries)| format!("{start},\"entries\":[{}]}}", entries.join(","))));
    for (package, names) in bundles {
        for name in names {
            let version = json(name.split_once(".v").map_or("0.0.0", |(_, version)| version));
            blobs.push(format!(
                r#"{{"schema":"olm.bundle","package":{package},"name":{},"image":"i","properties":[{{"type":"olm.package","value":{{"packageName":{package},"version":{version}}}}}]}}"#,
                json(&name)
            ));
        }
    }
    let mut fbc = Fbc::default();
    for blob in blobs {
        fbc.add_generated(&blob, &Limits::default()).expect(&blob);
    }
    fbc
}

fn entry(name: &str, rest: &str) -> String {
    let (rest, range) = rest.split_once("range ").unwrap_or((rest, ""));
    let (rest, skips) = rest.split_once("skips ").unwrap_or((rest, ""));
    let replaces = rest.split_once("replaces ").map_or("", |(_, name)| name.trim());
    let skips: Vec<String> = skips.trim().split(',').filter(|name| !name.is_empty()).map(json).collect();
    let [name, replaces, range] = [name, replaces, range].map(json);
    format!(r#"{{"name":{name},"replaces":{replaces},"skips":[{}],"skipRange":{range}}}"#, skips.join(","))
}

/// Writes a JSON string.
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => write!(out, "\\u{:04x}", u32::from(c)).expect("strings take everything"),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Parses the entries of a channel like `b<a,c`: b replaces a and skips c.
pub(crate) fn entries(text: &str) -> Vec<fbc::blob::ChannelEntry> {
    let entry = |entry: &str| {
        let (name, edges) = entry.split_once('<').unwrap_or((entry, ""));
        let (replaces, skips) = edges.split_once(',').unwrap_or((edges, ""));
        let skips = skips.split(',').filter(|skip| !skip.is_empty()).map(Into::into).collect();
        fbc::blob::ChannelEntry { name: name.into(), replaces: replaces.into(), skips, skip_range: "".into() }
    };
    text.split(' ').map(entry).collect()
}
