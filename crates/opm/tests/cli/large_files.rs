//! Files that are read in several pieces, and catalogs with more problems than anybody reads.

use std::fmt::Write;

use crate::env::TestEnv;

/// More than is read of a YAML file at a time.
const PIECE: usize = 4 << 20;

/// A package of some bundles, one file, each document with a comment at its start and its end.
fn commented_package(name: &str, bundles: usize) -> String {
    let padding = "x".repeat(PIECE / bundles);
    let mut text =
        format!("---\nschema: olm.package\nname: {name}\ndefaultChannel: stable\n---\n# The only channel.\n");
    let _ = writeln!(text, "schema: olm.channel\npackage: {name}\nname: stable\nentries:");
    for at in 0..bundles {
        let _ = writeln!(text, "- name: {name}.v{at}.0.0  # {at}");
        if at > 0 {
            let _ = writeln!(text, "  replaces: {name}.v{}.0.0", at - 1);
        }
    }
    for at in 0..bundles {
        let _ = write!(
            text,
            "---\n# Bundle {at}.\nschema: olm.bundle\nname: {name}.v{at}.0.0\npackage: {name}\n\
             image: registry.example.com/{name}:v{at}\nproperties:\n\
             - {{type: olm.package, value: {{packageName: {name}, version: {at}.0.0}}}}\n\
             - {{type: padding, value: {padding}{padding}}}\n# End of {at}.\n"
        );
    }
    text
}

#[test]
fn a_bundle_leaves_a_large_file_without_a_trace_of_itself_or_a_change_elsewhere() {
    let env = TestEnv::new();
    let text = commented_package("foo", 40);
    assert!(text.len() > 2 * PIECE);
    env.file("catalog/foo.yaml", &text);
    for bundle in [39, 21, 20] {
        env.stdout(&["edit", "remove", "catalog", "--bundle", &format!("foo.v{bundle}.0.0"), "--forget"]);
    }
    let edited = env.read("catalog/foo.yaml");
    let documents = |text: &str| text.split("\n---\n").map(str::to_owned).collect::<Vec<String>>();
    let mut expected = documents(&text);
    expected.retain(|document| ![39, 21, 20].iter().any(|at| document.contains(&format!("# Bundle {at}."))));
    let edited = documents(&edited);
    assert_eq!(edited.len(), expected.len());
    for (edited, expected) in edited.iter().zip(&expected).filter(|(_, expected)| !expected.contains("olm.channel")) {
        assert!(edited.trim_end() == expected.trim_end(), "{}", &edited[..edited.len().min(200)]);
    }
}

#[test]
fn comments_of_large_files_survive_a_merge() {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", commented_package("foo", 10));
    let other = commented_package("bar", 40);
    env.file("other/bar.yaml", &other);
    env.stdout(&["edit", "merge", "catalog", "other"]);
    let merged = env.read("catalog/foo.yaml") + &env.read("catalog/bar/catalog.yaml");
    for at in 0..40 {
        assert_eq!(merged.matches(&format!("# Bundle {at}.\n")).count(), if at < 10 { 2 } else { 1 }, "{at}");
        assert_eq!(merged.matches(&format!("# End of {at}.\n")).count(), if at < 10 { 2 } else { 1 }, "{at}");
    }
}

#[test]
fn a_blob_above_the_limit_is_refused_at_any_size() {
    let env = TestEnv::new();
    let blob = |size: usize| format!("{{\"schema\": \"custom\", \"text\": \"{}\"}}\n", "x".repeat(size));
    for (name, size, good) in [("a", 100_000, true), ("b", 140_000, false), ("c", 3_000_000, false)] {
        env.file(&format!("{name}/catalog.json"), blob(size) + &blob(10));
        env.file(&format!("{name}-yaml/catalog.yaml"), format!("schema: custom\ntext: {}\n", "x".repeat(size)));
        for directory in [name.to_owned(), format!("{name}-yaml")] {
            let mut command = env.command();
            let output = command.env("OPM_MAX_BLOB_SIZE", "131072").args(["validate", &directory]).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), good, "{directory}: {told}");
            assert_eq!(told.contains("blob is larger than the limit of 131072 bytes"), !good, "{told}");
        }
    }
}

#[test]
fn json_ends_with_white_space_of_json_only() {
    let env = TestEnv::new();
    env.file("catalog/c.json", "{\"schema\": \"custom\"}\n{\"schema\": \"custom\"}\n{\"schema\": \"custom\"}\n\x0c");
    let told = env.opm(&["validate", "catalog"]);
    assert!(told.contains("invalid character '\\u{c}' looking for beginning of value"), "{told}");
}
