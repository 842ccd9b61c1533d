//! A file of a catalog that is changed: its documents, and the format that it is in.

use std::fs;
use std::io;
use std::path::Path;

use fbc::json::{self, Layout, Raw, write_as_written};
use fbc::{Limits, blob, yaml};

/// A file in the making.
#[derive(Debug, Default)]
pub(crate) struct CatalogFile {
    format: Format,
    documents: Vec<Document>,
    limits: Limits,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Format {
    #[default]
    Json,
    Yaml,
}

#[derive(Debug)]
struct Document {
    package: String,
    rank: u8,
    name: String,
    /// The document as JSON.
    json: String,
    /// The document as it stood in a YAML file, comments included; none if it is new or changed.
    text: Option<String>,
}

impl CatalogFile {
    /// Reads the file at `path`; one that does not exist is an empty one.
    pub(crate) fn open(path: &Path, limits: &Limits) -> io::Result<CatalogFile> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let wrong = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
        let mut file = CatalogFile { limits: limits.clone(), ..CatalogFile::default() };
        let json = std::str::from_utf8(text).ok().filter(|text| text.trim_start().starts_with('{'));
        if text.trim_ascii().is_empty() {
            file.format = if path.extension().is_some_and(|name| name == "json") { Format::Json } else { Format::Yaml };
            return Ok(file);
        }
        if let Some(documents) = json.and_then(|json| split_json(json, limits)) {
            for document in documents {
                file.documents.push(Document::of(document.to_owned(), None));
            }
            return Ok(file);
        }
        file.format = Format::Yaml;
        let bounds = yaml::Limits { depth: limits.depth, nodes: limits.yaml_nodes, bytes: limits.blob_size };
        for document in yaml::documents(text) {
            let document = document.map_err(|error| wrong(error.to_string()))?;
            let mut json = Vec::new();
            yaml::to_json(document.text, &bounds, &mut json).map_err(|error| wrong(error.to_string()))?;
            let text = String::from_utf8_lossy(document.text);
            let text = text.strip_prefix("---").map_or(&*text, |rest| rest.strip_prefix(['\n', '\r']).unwrap_or(rest));
            let json = String::from_utf8_lossy(&json).into_owned();
            file.documents.push(Document::of(json, Some(text.trim_end().to_owned())));
        }
        Ok(file)
    }

    /// Adds a blob.
    pub(crate) fn add(&mut self, json: &str) -> io::Result<()> {
        Raw::parse(json, self.limits.depth).map_err(|error| io::Error::other(error.to_string()))?;
        self.documents.push(Document::of(json.to_owned(), None));
        Ok(())
    }

    /// Adds an entry to a channel that is in this file.
    pub(crate) fn extend_channel(&mut self, package: &str, channel: &str, entry: &str) -> Result<(), String> {
        let document = self
            .documents
            .iter_mut()
            .find(|document| document.rank == CHANNEL && document.package == package && document.name == channel)
            .ok_or_else(|| format!("channel \"{channel}\" of package \"{package}\" is not where it was"))?;
        let json = Raw::from_checked(&document.json);
        let extended = match json.get("entries") {
            Some(entries) if entries.is_null() => {
                let start = json.offset_of(entries);
                let end = start + entries.text().len();
                format!("{}[{entry}]{}", &document.json[..start], &document.json[end..])
            }
            Some(entries) => {
                let end = json.offset_of(entries) + entries.text().trim_end().len() - 1;
                let comma = if entries.items().next().is_some() { "," } else { "" };
                format!("{}{comma}{entry}{}", &document.json[..end], &document.json[end..])
            }
            None => {
                let end = document.json.trim_end().len() - 1;
                format!("{},\"entries\":[{entry}]}}", &document.json[..end])
            }
        };
        Raw::parse(&extended, self.limits.depth).map_err(|error| error.to_string())?;
        document.json = extended;
        document.text = None;
        Ok(())
    }

    /// Writes the whole file: for each package its blob, its channels and its bundles by name, then others.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut packages: Vec<&str> = Vec::new();
        for document in &self.documents {
            if !packages.contains(&document.package.as_str()) {
                packages.push(&document.package);
            }
        }
        let mut documents: Vec<&Document> = self.documents.iter().collect();
        documents.sort_by_key(|document| {
            let package = packages.iter().position(|package| *package == document.package);
            let name = if matches!(document.rank, CHANNEL | BUNDLE) { document.name.as_str() } else { "" };
            (package, document.rank, name)
        });
        let mut out = Vec::new();
        for document in documents {
            let raw = Raw::from_checked(&document.json);
            match (self.format, &document.text) {
                (Format::Json, _) => write_as_written(raw, Layout::Indented(4), 0, &mut out),
                (Format::Yaml, text) => {
                    out.extend_from_slice(b"---\n");
                    match text {
                        Some(text) => out.extend_from_slice(text.as_bytes()),
                        None => yaml::write_document(raw, &mut out),
                    }
                }
            }
            if out.last() != Some(&b'\n') {
                out.push(b'\n');
            }
        }
        out
    }
}

const PACKAGE: u8 = 0;
const CHANNEL: u8 = 1;
const BUNDLE: u8 = 2;
const OTHER: u8 = 3;

impl Document {
    fn of(json: String, text: Option<String>) -> Document {
        let raw = Raw::from_checked(&json);
        let field = |key: &str| raw.get(key).and_then(|value| value.as_str()).unwrap_or_default().into_owned();
        let (name, package) = (field("name"), field("package"));
        let rank = match field("schema").as_str() {
            blob::PACKAGE => PACKAGE,
            blob::CHANNEL => CHANNEL,
            blob::BUNDLE => BUNDLE,
            _ => OTHER,
        };
        let package = if rank == PACKAGE { name.clone() } else { package };
        Document { package, rank, name, json, text }
    }
}

/// Splits a file of JSON values one after the other; nothing if it is something else.
fn split_json<'a>(text: &'a str, limits: &Limits) -> Option<Vec<&'a str>> {
    let mut documents = Vec::new();
    let mut at = 0;
    while !text[at..].trim().is_empty() {
        let range = json::check(text, at, limits.depth).ok()?;
        at = range.end;
        documents.push(&text[range]);
    }
    Some(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(name: &str, text: &str) -> String {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(name);
        fs::write(&path, text).unwrap();
        let mut file = CatalogFile::open(&path, &Limits::default()).unwrap();
        file.extend_channel("foo", "stable", r#"{"name":"foo.v2","replaces":"foo.v1"}"#).unwrap();
        file.add(r#"{"schema":"olm.bundle","name":"foo.v0","package":"foo"}"#).unwrap();
        String::from_utf8(file.text()).unwrap()
    }

    #[test]
    fn a_json_file_keeps_all_that_it_says() {
        let text = r#"{"schema": "olm.package", "name": "foo", "big": 12345678901234567890123, "x": {"<": [1.0]}}
{"schema":"olm.bundle","name":"foo.v1","package":"foo"}{"schema": "custom", "package": "foo"}
{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"foo.v1", "note": "n"}]}
{"schema":"olm.package","name":"bar"}"#;
        insta::assert_snapshot!(changed("c.json", text), @r#"
        {
            "schema": "olm.package",
            "name": "foo",
            "big": 12345678901234567890123,
            "x": {
                "<": [
                    1.0
                ]
            }
        }
        {
            "schema": "olm.channel",
            "package": "foo",
            "name": "stable",
            "entries": [
                {
                    "name": "foo.v1",
                    "note": "n"
                },
                {
                    "name": "foo.v2",
                    "replaces": "foo.v1"
                }
            ]
        }
        {
            "schema": "olm.bundle",
            "name": "foo.v0",
            "package": "foo"
        }
        {
            "schema": "olm.bundle",
            "name": "foo.v1",
            "package": "foo"
        }
        {
            "schema": "custom",
            "package": "foo"
        }
        {
            "schema": "olm.package",
            "name": "bar"
        }
        "#);
    }

    #[test]
    fn a_yaml_file_keeps_its_comments() {
        let text = "# about the file\n\n# the package\nschema: olm.package\nname: foo # its name\n---\n\
            schema: olm.channel\npackage: foo\nname: stable\nentries: []\n---\nschema: olm.bundle\nname: foo.v1\npackage: foo\n";
        insta::assert_snapshot!(changed("c.yaml", text), @r"
        ---
        # about the file

        # the package
        schema: olm.package
        name: foo # its name
        ---
        entries:
        - name: foo.v2
          replaces: foo.v1
        name: stable
        package: foo
        schema: olm.channel
        ---
        name: foo.v0
        package: foo
        schema: olm.bundle
        ---
        schema: olm.bundle
        name: foo.v1
        package: foo
        ");
    }
}
