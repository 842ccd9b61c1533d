//! Files that opm reads in several chunks, and catalogs with very many problems.

use std::fmt::Write;

use crate::env::TestEnv;

/// More than opm reads of a YAML file in one chunk.
const CHUNK: usize = 4 << 20;

/// Returns a package of some bundles; each document starts and ends with a comment.
fn commented_package(name: &str, bundles: usize) -> String {
    let padding = "x".repeat(CHUNK / bundles);
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
fn removing_a_bundle_from_a_large_file_changes_nothing_else() {
    let env = TestEnv::new();
    let text = commented_package("foo", 40);
    assert!(text.len() > 2 * CHUNK);
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
fn a_blob_above_the_limit_is_rejected_at_any_size() {
    let env = TestEnv::new();
    let blob = |size: usize| format!("{{\"schema\": \"custom\", \"text\": \"{}\"}}\n", "x".repeat(size));
    for (name, size, good) in [("a", 100_000, true), ("b", 140_000, false), ("c", 3_000_000, false)] {
        env.file(&format!("{name}/catalog.json"), blob(size) + &blob(10));
        env.file(&format!("{name}-yaml/catalog.yaml"), format!("schema: custom\ntext: {}\n", "x".repeat(size)));
        for directory in [name.to_owned(), format!("{name}-yaml")] {
            let mut command = env.command();
            let output = command.env("OPM_MAX_BLOB_SIZE", "131072").args(["validate", &directory]).output().unwrap();
            let shown = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), good, "{directory}: {shown}");
            assert_eq!(shown.contains("blob is larger than the limit of 131072 bytes"), !good, "{shown}");
        }
    }
}

#[test]
fn only_json_white_space_may_follow_json() {
    let env = TestEnv::new();
    env.file("catalog/c.json", "{\"schema\": \"custom\"}\n{\"schema\": \"custom\"}\n{\"schema\": \"custom\"}\n\x0c");
    let shown = env.opm(&["validate", "catalog"]);
    assert!(shown.contains("invalid character '\\u{c}' looking for beginning of value"), "{shown}");
}
