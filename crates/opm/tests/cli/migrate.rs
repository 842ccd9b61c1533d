use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::env::{SMALL, TestEnv};

#[test]
fn an_interruption_leaves_nothing_behind() {
    let env = TestEnv::new();
    let big: String = (0..20_000)
        .map(|i| format!("{{\"schema\":\"x.io/note\",\"package\":\"p{i}\",\"text\":\"{}\"}}\n", "x".repeat(500)))
        .collect();
    env.file("catalog/c.json", big);
    let mut child =
        env.command().args(["migrate", "catalog", "out"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let writing = || env.names(".").iter().any(|name| name.starts_with(".opm-migrate-"));
    let start = Instant::now();
    while !writing() && start.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(writing(), "the migration has not started");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert!(!status.success(), "the migration ended before the signal");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2));
    assert_eq!(env.names("."), ["catalog"]);
}

#[test]
fn each_package_gets_its_own_directory() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    env.stdout(&["migrate", "catalog", "new/place", "-o", "yaml"]);
    assert_eq!(env.names("new/place"), ["buoy", "catalog.yaml", "lantern", "tide-gauge", "weather-vane"]);
    assert_eq!(env.stdout(&["render", "new/place"]), env.stdout(&["render", "catalog"]));
}

#[test]
fn a_failed_migration_leaves_nothing_behind() {
    let env = TestEnv::new();
    env.file(
        "catalog/c.yaml",
        SMALL.replace("name: foo\n", "name: ../foo\n").replace("package: foo", "package: ../foo"),
    );
    let output = env.opm(&["migrate", "catalog", "out"]);
    assert!(output.contains("invalid package name \"../foo\": must be a single local path element"), "{output}");
    assert_eq!(env.names("."), ["catalog"]);
    env.file("full/file", "");
    assert!(env.opm(&["migrate", "catalog", "full"]).contains("output dir \"full\" must be empty"));
}

/// A catalog with unknown fields in every place that can have some.
const UNKNOWN: &str = r#"
{"schema": "olm.package", "name": "foo", "defaultChannel": "stable", "owner": {"team": "a", "seats": 1.50},
 "icon": {"base64data": "aWNvbg==", "mediatype": "image/png", "credit": "me"}}
{"schema": "olm.channel", "name": "stable", "package": "foo", "entries": [{"name": "foo.v1.0.0", "why": "first"}],
 "properties": [{"type": "x", "value": 1, "note": "n"}]}
{"schema": "olm.bundle", "name": "foo.v1.0.0", "package": "foo", "image": "registry.example.com/foo:v1.0.0",
 "properties": [{"type": "olm.package", "value": {"packageName": "foo", "version": "1.0.0"}, "note": "n"}],
 "relatedImages": [{"name": "n", "image": "i", "role": "r"}], "built": "today"}
{"schema": "olm.deprecations", "package": "foo", "owner": "b",
 "entries": [{"reference": {"schema": "olm.package", "uid": 7}, "message": "m", "since": "2024"}]}
"#;

#[test]
fn unknown_fields_are_preserved() {
    let env = TestEnv::new();
    env.file("catalog/c.json", UNKNOWN);
    for format in ["json", "yaml"] {
        env.stdout(&["migrate", "catalog", format, "-o", format]);
        // A second migration reads what the first one wrote.
        let again = format!("{format}-again");
        env.stdout(&["migrate", format, &again]);
        insta::assert_snapshot!("unknown_fields_kept", env.read(&format!("{again}/foo/catalog.json")));
    }
}

#[test]
fn dropped_fields_are_counted() {
    let env = TestEnv::new();
    env.file("catalog/c.json", UNKNOWN);
    insta::assert_snapshot!(env.opm(&["render", "catalog"]));
    env.file(
        "many/c.yaml",
        SMALL
            .replace("name: foo.v1.0.0\n", "name: foo.v1.0.0\n  note: x\n")
            .replace("- name: foo.v1.0.0\n  note", "- name: foo.v1.0.0\n  note: y\n- name: foo.v0\n  note")
            .replace("\n  note: x\npackage", "\npackage"),
    );
    let shown = env.opm(&["render", "many"]);
    assert!(shown.contains("warning: olm.channel has no field \"entries[].note\": dropped 2 times\n"), "{shown}");
}

#[test]
fn migrated_bundles_keep_unknown_fields_of_their_properties() {
    let env = TestEnv::new();
    let csv = "eyJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIiwibWV0YWRhdGEiOnsibmFtZSI6ImZvby52MS4wLjAifSwic3BlYyI6e319";
    env.file(
        "catalog/c.yaml",
        SMALL.replace(
            "- type: olm.package\n",
            &format!("- {{type: olm.bundle.object, value: {{data: {csv}}}}}\n- type: olm.package\n  note: kept\n"),
        ),
    );
    env.stdout(&["migrate", "catalog", "out", "-o", "yaml", "--migrate-level", "bundle-object-to-csv-metadata"]);
    let text = env.read("out/foo/catalog.yaml");
    assert!(text.contains("note: kept") && text.contains("olm.csv.metadata"), "{text}");
}

#[test]
fn written_directories_have_the_mode_of_new_directories() {
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnv::new();
    env.file("catalog/catalog.yaml", crate::env::SMALL);
    let mode = |path: &str| std::fs::metadata(env.path(path)).unwrap().permissions().mode();
    env.stdout(&["migrate", "catalog", "migrated"]);
    env.stdout(&["site", "build", "catalog", "--to", "site"]);
    assert_eq!((mode("migrated"), mode("site")), (mode("catalog"), mode("catalog")));
    env.file("catalog/catalog.yaml", crate::env::SMALL.replace("1.0.0", "1.0.1"));
    env.stdout(&["site", "build", "catalog", "--to", "site"]);
    assert_eq!(mode("site"), mode("catalog"), "after a second export");
}
