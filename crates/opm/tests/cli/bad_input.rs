//! Malicious or broken input: opm prints a clear error with its position, and nothing else.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::env::{SMALL, TestEnv};

/// Validates a catalog with one additional file, and returns the output.
fn validated(bytes: &[u8]) -> String {
    let env = TestEnv::new();
    env.file("catalog/a.yaml", SMALL).file("catalog/bad", bytes);
    let validated = env.opm(&["validate", "catalog"]);
    assert!(validated.starts_with("exit 1\n--- stdout\n--- stderr\n"), "{validated}");
    assert!(!validated.contains("panicked"), "{validated}");
    validated
}

#[test]
fn invalid_utf_8_is_reported_with_its_position() {
    assert!(validated(b"{\"schema\":\"x\",\"a\":\"\xff\"}").contains("invalid UTF-8 at byte 19"));
    assert!(validated(b"{\"schema\":\"x\",\"a\":\"\xff\"}").contains("catalog/bad:1:20 [utf-8]"));
    assert!(validated(b"schema: x\na: \"\xff\"\n").contains("catalog/bad:2:"));
}

#[test]
fn keys_that_differ_only_by_case_clash() {
    let validated = validated(b"schema: x\nName: a\nname: b\n");
    assert!(validated.contains("duplicate keys for key \"name\": [Name name]"), "{validated}");
    assert!(validated.contains("catalog/bad:2:7"), "{validated}");
}

#[test]
fn exponential_and_recursive_aliases_are_rejected_quickly() {
    let start = Instant::now();
    let mut bomb = String::from("schema: x\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for i in 1..12 {
        bomb += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(","));
    }
    assert!(validated(bomb.as_bytes()).contains("[yaml-syntax]"));
    assert!(validated(b"schema: x\na: &a [*a]\n").contains("[yaml-syntax]"));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn deep_nesting_is_rejected() {
    let json = format!("{{\"schema\":\"x\",\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(validated(json.as_bytes()).contains("nested deeper than 200 levels"));
    let yaml = format!("schema: x\na: {}1{}\n", "[".repeat(100_000), "]".repeat(100_000));
    assert!(validated(yaml.as_bytes()).contains("[yaml-syntax]"));
}

#[test]
fn huge_files_are_rejected_without_reading_them() {
    let env = TestEnv::new();
    env.file("catalog/a.yaml", SMALL);
    let file = std::fs::File::create(env.path("catalog/huge.json")).unwrap();
    file.set_len(1 << 30).unwrap();
    let validated = env.opm(&["validate", "catalog"]);
    assert!(validated.contains("read huge.json: file is larger than the limit of 536870912 bytes"), "{validated}");
}

#[test]
fn limits_are_set_by_the_environment() {
    let env = TestEnv::new();
    env.file("catalog/a.yaml", SMALL).file("catalog/b.json", "{\"schema\":\"x\",\"a\":[[[1]]]}{\"schema\":\"y\"}");
    let with = |variable: &str, value: &str| {
        let output = env.command().env(variable, value).args(["validate", "catalog"]).output().unwrap();
        format!("{} {}", output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr))
    };
    assert!(with("OPM_MAX_FILE_SIZE", "100").starts_with("1 error: read a.yaml: file is larger than the limit of 100"));
    assert!(with("OPM_MAX_DEPTH", "3").contains("nested deeper than 3 levels"));
    assert!(with("OPM_MAX_DOCUMENTS", "1").contains("file holds more than 1 documents"));
    assert!(with("OPM_MAX_FILES", "1").contains("more than 1 files"));
    assert!(with("OPM_MAX_YAML_NODES", "5").contains("[yaml-syntax]"));
    assert!(with("OPM_MAX_DEPTH", "5000").starts_with("1 error: OPM_MAX_DEPTH must be a whole number of at most 1000"));
    assert_eq!(with("OPM_MAX_DEPTH", "20"), "0 ");
}

#[test]
fn a_raised_limit_applies_to_printing_too() {
    let env = TestEnv::new();
    env.file("catalog/.indexignore", "objects\n")
        .file("catalog/objects/o.json", format!("{{\"a\":\"{}\"}}", "x".repeat(65 << 20)));
    env.file("catalog/a.yaml", SMALL.to_owned() + "- type: olm.bundle.object\n  value: {ref: objects/o.json}\n");
    let render =
        |limit: &str| env.command().env("OPM_MAX_BLOB_SIZE", limit).args(["render", "catalog"]).output().unwrap();
    let refused = render("67108864");
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    assert!(render("100000000").status.success());
}

#[test]
fn sources_that_are_no_files_are_reported() {
    let env = TestEnv::new();
    env.file("catalog/a.yaml", SMALL);
    symlink("nowhere", env.path("catalog/dangling")).unwrap();
    symlink("loop", env.path("catalog/loop")).unwrap();
    symlink(".", env.path("catalog/self")).unwrap();
    assert!(Command::new("mkfifo").arg(env.path("catalog/pipe")).status().unwrap().success());
    insta::assert_snapshot!(env.opm(&["validate", "catalog"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: read dangling: broken symbolic link: No such file or directory (os error 2)
      --> catalog/dangling [file-readable]

    error: read loop: broken symbolic link: Too many levels of symbolic links (os error 40)
      --> catalog/loop [file-readable]

    error: read pipe: is neither a file nor a directory
      --> catalog/pipe [file-readable]

    error: read self: is a directory (links to directories are not followed)
      --> catalog/self [file-readable]

    4 problems found
    ");
}

#[test]
fn references_stay_inside_the_catalog() {
    let env = TestEnv::new();
    let with =
        |reference: &str| SMALL.to_owned() + &format!("- type: olm.bundle.object\n  value: {{ref: {reference:?}}}\n");
    env.file("secret.yaml", "kind: Secret\n").file("catalog/.indexignore", "objects\n");
    env.file("catalog/objects/o.yaml", "kind: ConfigMap\n");
    symlink("../../secret.yaml", env.path("catalog/objects/link.yaml")).unwrap();
    let validate = |reference: &str| {
        env.file("catalog/a.yaml", with(reference));
        env.opm(&["validate", "catalog"])
    };
    assert!(validate("objects/o.yaml").starts_with("exit 0"));
    assert!(validate("objects/../objects/o.yaml").starts_with("exit 0"));
    assert!(validate("../secret.yaml").contains("ref \"../secret.yaml\" leads outside the catalog"));
    assert!(validate("objects/link.yaml").contains("ref \"objects/link.yaml\" leads outside the catalog"));
    assert!(validate("/etc/passwd").contains("ref \"/etc/passwd\" is an absolute path"));
    assert!(validate("objects/nosuch.yaml").contains("ref \"objects/nosuch.yaml\": No such file"));
    assert!(validate("objects").contains("ref \"objects\" is not a file"));
}

#[test]
fn an_unreadable_file_is_reported() {
    let env = TestEnv::new();
    env.file("catalog/a.yaml", SMALL).file("catalog/b/c.yaml", SMALL);
    let closed = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o000);
    std::fs::set_permissions(env.path("catalog/a.yaml"), closed).unwrap();
    if std::fs::read(env.path("catalog/a.yaml")).is_ok() {
        return testkit::skipped("this user reads every file");
    }
    let validated = env.opm(&["validate", "catalog"]);
    assert!(validated.contains("read a.yaml: Permission denied"), "{validated}");
}

#[test]
fn content_after_the_end_of_a_document_is_not_dropped() {
    assert!(validated(b"schema: x\n...\nschema: y\n").contains("catalog/bad:3:1 [yaml-syntax]"));
    assert!(validated(b"---\n{\"schema\": \"x\"}{\"schema\": \"y\"}\n").contains("[yaml-syntax]"));
}

#[test]
fn every_command_accepts_file_names_that_are_not_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let env = TestEnv::new();
    let catalog = env.path("catalog");
    std::fs::create_dir(&catalog).unwrap();
    let file = catalog.join(std::ffi::OsStr::from_bytes(b"f\xff.yaml"));
    std::fs::write(&file, crate::env::SMALL).unwrap();
    let rendered = env.stdout(&["render", "catalog"]);
    env.stdout(&["validate", "catalog"]);
    env.stdout(&["edit", "deprecate", "catalog", "-p", "foo", "-m", "old"]);
    assert!(std::fs::read_to_string(&file).unwrap().contains("message: old"));
    env.stdout(&["edit", "deprecate", "catalog", "-p", "foo", "--undo"]);
    env.stdout(&["build", "catalog", "--data-only", "--to", "oci:image", "-t", "r.test/c:v1"]);
    assert_eq!(env.stdout(&["render", "oci:image"]), rendered);
    env.stdout(&["unpack", "oci:image", "--unpack-dir", "unpacked"]);
    assert_eq!(env.stdout(&["render", "unpacked"]), rendered);
}

#[test]
fn messages_say_how_to_repair_a_file() {
    let help = |bytes: &[u8]| {
        let shown = validated(bytes);
        let help = shown.lines().find_map(|line| line.strip_prefix("help: ").map(str::to_owned));
        help.unwrap_or_else(|| panic!("no help: {shown}"))
    };
    let truncated = "the file ends inside a document; it may be truncated";
    assert_eq!(help(b"{\"schema\": \"x\"}\n{\"schema\": \"y\", \"name\": \""), truncated);
    let conflict = "resolve the merge conflict between the lines '<<<<<<<' and '>>>>>>>'";
    assert_eq!(help(b"schema: x\n<<<<<<< HEAD\nname: a\n=======\nname: b\n>>>>>>> other\n"), conflict);
    assert_eq!(help(b"{\"schema\": \"x\",\n<<<<<<< HEAD\n\"name\": \"a\"\n=======\n>>>>>>> other\n}\n"), conflict);
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    assert_eq!(help(pointer), "the file is a pointer of Git LFS: 'git lfs pull' fetches its content");
    assert_eq!(help(b"schema: x\na:\n\tb: c\n"), "indent with spaces");
}

#[test]
fn binary_files_are_not_quoted() {
    let shown = validated(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x05\xa0\0\0\x03\x84");
    assert!(shown.contains(" --> catalog/bad:1:1 [yaml-syntax]\nhelp: catalog files are UTF-8 text"), "{shown}");
    assert!(!shown.contains('|'), "{shown}");
}

#[test]
fn a_duplicate_names_the_first() {
    let env = TestEnv::new();
    env.file("catalog/a.yaml", SMALL).file("catalog/b.yaml", format!("---\n{SMALL}")).file("catalog/c.yaml", SMALL);
    let shown = env.opm(&["validate", "catalog"]);
    for help in [
        "keep one of the olm.package blobs; the first is at catalog/a.yaml:2",
        "put all entries into one of the olm.channel blobs; the first is at catalog/a.yaml:7",
        "keep one of the olm.bundle blobs; the first is at catalog/a.yaml:12",
    ] {
        assert_eq!(shown.matches(help).count(), 2, "{shown}");
    }
    let json = env.opm(&["validate", "catalog", "-o", "json"]);
    assert!(json.contains("the first is at catalog/a.yaml:2\""), "{json}");
}

#[test]
fn a_source_that_is_no_catalog_directory_is_explained() {
    let env = TestEnv::new();
    env.file("catalog/a.yaml", SMALL).file("empty/.indexignore", "");
    insta::assert_snapshot!(env.opm(&["validate", "catalog/a.yaml"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: "catalog/a.yaml" is not a directory
    help: to check the catalog that the file belongs to: opm validate catalog
    "#);
    insta::assert_snapshot!(env.opm(&["validate", "quay.io/foo"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: "quay.io/foo": the path does not exist, and it is not an image reference: Docker reference quay.io/foo is not for an unknown digest case; tag or digest is needed, such as quay.io/foo:latest
    "#);
    insta::assert_snapshot!(env.opm(&["validate", ""]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: "": the name is empty
    "#);
    insta::assert_snapshot!(env.opm(&["validate", "empty"]), @r#"
    exit 0
    --- stdout
    --- stderr
    warning: "empty" contains no catalog files
    "#);
    insta::assert_snapshot!(env.opm(&["serve", "catalog/a.yaml", "-t", ""]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: "catalog/a.yaml" is not a directory
    help: to serve the catalog that the file belongs to: opm serve catalog
    "#);
    insta::assert_snapshot!(env.opm(&["bundle", "validate", "catalog"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: Unable to locate manifests directory
    error: Unable to locate metadata directory
    help: a bundle is a directory with 'manifests' and 'metadata'; 'opm validate' checks a catalog
    "#);
    insta::assert_snapshot!(env.opm(&["list", "bundles", "catalog", "fo"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: package "fo" not found
    help: did you mean "foo"?
    "#);
}

#[test]
fn documents_without_a_schema_are_grouped() {
    let env = TestEnv::new();
    for number in 0..5 {
        env.file(&format!("catalog/{number}.yaml"), format!("kind: Pod\nmetadata: {{name: pod-{number}}}\n"));
    }
    let shown = env.opm(&["validate", "catalog"]);
    assert_eq!(shown.matches("is missing root schema field").count(), 1, "{shown}");
    assert!(shown.contains("note: the same in 4 other places:\n") && shown.contains("\n5 problems found\n"), "{shown}");
}
