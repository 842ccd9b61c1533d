//! Properties of whole catalogs: a written catalog loads as the same, from any file and in any format.

use std::fs;
use std::path::Path;

use fbc::{Fbc, Format, LoadOptions, LoadReport};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Text that parsers easily misread: as a number, a boolean, a comment, a marker.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9.-]{1,12}",
        "\\PC{0,12}",
        "[-:#&*!|>%@` \"'{}\\[\\],?\n\t\\\\~=<]{0,8}",
        prop::sample::select(vec![
            "yes",
            "null",
            "~",
            "1e3",
            "0x1f",
            "010",
            "1_0",
            ".5",
            "2001-01-01",
            "=",
            "<<",
            "é😀"
        ])
        .prop_map(str::to_owned),
    ]
}

/// Values of blobs with unknown schemas.
fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // A float without a fraction is printed, and so parsed, as an integer.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) + 0.25)),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn property() -> impl Strategy<Value = Value> {
    ("[a-z]{1,6}\\.[a-z]{1,6}", value()).prop_map(|(kind, value)| json!({"type": kind, "value": value}))
}

/// Names from few letters, so that several blobs share one.
fn name() -> impl Strategy<Value = String> {
    "[a-c]{1,2}"
}

/// Blobs of all schemas.
fn blob() -> impl Strategy<Value = Value> {
    let properties = || prop::collection::vec(property(), 0..3);
    let entry = (name(), name(), prop::collection::vec(text(), 0..3), text()).prop_map(
        |(name, replaces, skips, range)| json!({"name": name, "replaces": replaces, "skips": skips, "skipRange": range}),
    );
    let deprecation = (name(), text())
        .prop_map(|(name, message)| json!({"reference": {"schema": "olm.bundle", "name": name}, "message": message}));
    prop_oneof![
        (name(), name(), text(), properties()).prop_map(|(name, channel, description, properties)| json!({
            "schema": "olm.package", "name": name, "defaultChannel": channel, "description": description,
            "icon": {"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}, "properties": properties,
        })),
        (name(), name(), prop::collection::vec(entry, 0..3), properties()).prop_map(
            |(package, name, entries, properties)| json!({
                "schema": "olm.channel", "package": package, "name": name, "entries": entries,
                "properties": properties,
            })
        ),
        (name(), name(), text(), properties(), text()).prop_map(|(package, name, image, properties, related)| json!({
            "schema": "olm.bundle", "package": package, "name": name, "image": image, "properties": properties,
            "relatedImages": [{"name": related, "image": image}],
        })),
        (name(), prop::collection::vec(deprecation, 0..3)).prop_map(|(package, entries)| json!({
            "schema": "olm.deprecations", "package": package, "entries": entries,
        })),
        (name(), value()).prop_map(|(package, value)| json!({
            "schema": "custom.schema", "package": package, "name": "x", "value": value,
        })),
        value().prop_map(|value| json!({"schema": "homeless", "value": value})),
    ]
}

/// A catalog in a temporary directory.
struct Scratch {
    root: TempDir,
}

impl Scratch {
    fn new<Name: AsRef<Path>, Text: AsRef<[u8]>>(files: impl IntoIterator<Item = (Name, Text)>) -> Scratch {
        let root = tempfile::tempdir().expect("scratch directory");
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("below the root")).expect("scratch directory");
            fs::write(path, text).expect("scratch file");
        }
        Scratch { root }
    }

    fn load(&self) -> (Fbc, LoadReport) {
        let mut fbc = Fbc::default();
        let options = LoadOptions { keep_text: true, ..LoadOptions::default() };
        let loaded = fbc.load_dir(self.root.path(), &options).expect("a directory");
        (fbc, loaded)
    }

    /// Loads the catalog, which must have no problems, and prints it.
    fn rendered(&self, format: Format) -> String {
        let (fbc, loaded) = self.load();
        assert_eq!(loaded.problems, []);
        rendered(&fbc, format)
    }
}

fn rendered(fbc: &Fbc, format: Format) -> String {
    let mut out = Vec::new();
    fbc.write(&fbc.in_order(), format, &mut out).expect("writing to memory succeeds");
    String::from_utf8(out).expect("catalogs are text")
}

/// Returns JSON that is YAML with the same content: the characters that break lines in YAML, but not in JSON, are escaped.
fn json_in_yaml(blob: &Value) -> String {
    let breaks = [('\u{85}', "\\u0085"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    breaks.iter().fold(blob.to_string(), |text, (mark, escaped)| text.replace(*mark, escaped))
}

fn json_text(blobs: &[&Value]) -> String {
    blobs.iter().map(|blob| format!("{blob}\n")).collect()
}

proptest! {
    #[test]
    fn a_written_catalog_loads_as_the_same(blobs in prop::collection::vec(blob(), 0..6)) {
        let source = Scratch::new([("catalog.json", json_text(&blobs.iter().collect::<Vec<_>>()))]);
        let (json, yaml) = (source.rendered(Format::Json), source.rendered(Format::Yaml));
        for (name, text) in [("catalog.json", &json), ("catalog.yaml", &yaml)] {
            let written = Scratch::new([(name, text)]);
            prop_assert_eq!(&written.rendered(Format::Json), &json, "from {}", name);
            prop_assert_eq!(&written.rendered(Format::Yaml), &yaml, "from {}", name);
        }
    }

    #[test]
    fn blobs_of_any_schema_lose_nothing(value in value()) {
        let blob = json!({"schema": "custom", "value": value});
        let source = Scratch::new([("catalog.json", blob.to_string())]);
        let yaml = Scratch::new([("catalog.yaml", source.rendered(Format::Yaml))]);
        for rendered in [source.rendered(Format::Json), yaml.rendered(Format::Json)] {
            prop_assert_eq!(serde_json::from_str::<Value>(&rendered).expect("JSON"), blob.clone());
        }
    }

    #[test]
    fn the_file_of_a_blob_does_not_matter(
        blobs in prop::collection::vec(blob(), 1..8),
        places in prop::collection::vec(("[a-c]{1,2}(/[a-c])?\\.(json|yaml)", any::<u16>()), 8),
    ) {
        // Indistinguishable blobs keep the order of files, so the test excludes them.
        let mut seen = std::collections::BTreeSet::new();
        let blobs: Vec<&Value> = blobs
            .iter()
            .filter(|blob| blob["schema"].as_str().is_some_and(|schema| schema.starts_with("olm.")))
            .filter(|blob| {
                let deprecations = blob["schema"] == "olm.deprecations";
                let name = if deprecations { String::new() } else { blob["name"].to_string() };
                seen.insert((blob["schema"].to_string(), blob["package"].to_string(), name))
            })
            .collect();
        let together = Scratch::new([("all.json", json_text(&blobs))]);
        let mut order: Vec<(&Value, &(String, u16))> = blobs.iter().copied().zip(&places).collect();
        order.sort_by_key(|(_, (_, rank))| *rank);
        let mut files = std::collections::BTreeMap::<&str, String>::new();
        for (blob, (file, _)) in order {
            let text = files.entry(file).or_default();
            *text +=
                &if file.ends_with(".json") { format!("{blob}\n") } else { format!("---\n{}\n", json_in_yaml(blob)) };
        }
        let apart = Scratch::new(files);
        prop_assert_eq!(apart.rendered(Format::Json), together.rendered(Format::Json));
    }

    #[test]
    fn loading_arbitrary_bytes_does_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        marks in "(\\{\"schema\": *\"olm\\.bundle\"|[-{}\\[\\]:,\"'|> \n&*a1]|---\n|schema: x\n){0,30}",
        blob in blob(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut damaged = blob.to_string().into_bytes();
        let at = cut.index(damaged.len());
        damaged[at] ^= 0x11;
        let files: [(&str, &[u8]); 4] =
            [("a.json", &bytes), ("b.yaml", marks.as_bytes()), ("c.json", &damaged), ("d/.indexignore", &bytes)];
        let scratch = Scratch::new(files);
        let (fbc, loaded) = scratch.load();
        let mut locator = fbc::locate::Locator::new(&fbc);
        for place in loaded.problems.iter().filter_map(|problem| problem.place.as_ref()) {
            locator.locate(place);
        }
    }
}
