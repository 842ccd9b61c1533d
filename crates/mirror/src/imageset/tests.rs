//! M-1: accepted files and the messages for invalid ones.

use super::*;

fn problems(text: &str) -> String {
    match read(text.as_bytes(), ImageSetKind::Mirror) {
        Ok(_) => "good".to_owned(),
        Err(problems) => {
            let lines = problems.iter().map(|problem| {
                let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
                format!("{}: {}{help}", problem.line, problem.message)
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

const HEAD: &str = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n";

fn of_mirror(text: &str) -> String {
    problems(&format!("{HEAD}{text}"))
}

#[test]
fn m1_a_complete_file_is_parsed() {
    let text = "---\n# a comment\nkind: ImageSetConfiguration\napiVersion: anything\narchiveSize: 4\nMIRROR: {}\n";
    assert!(problems(text).contains("MIRROR: unknown field"));
    let set = read(
        format!(
            "{HEAD}  Operators:\n  - catalog: registry.example.com:5000/ns/index:v4.18@sha256:{0}\n    full: false\n    \
             skipDependencies: true\n    targetCatalog: ns/other-name\n    targetTag: v1\n    platforms: [{{os: linux, \
             architecture: amd64}}]\n    packages:\n    - name: etcd\n      defaultChannel: stable\n      channels:\n      \
             - {{name: stable, minVersion: 0.9.0, maxVersion: '0.9'}}\n  - catalog: oci:///some/dir\n  \
             additionalImages: [{{name: 'quay.io:443/a/b@sha256:{0}', targetRepo: x/y}}]\n  blockedImages: [{{name: \
             '.*alpine.*'}}]\n  platform: {{}}\n  samples: [{{name: x}}]\n  helm: {{repositories: []}}\n---\nsecond: document\n",
            "0".repeat(64)
        )
        .as_bytes(),
        ImageSetKind::Mirror,
    )
    .unwrap();
    assert_eq!(set.catalogs[0].packages[0].channels[0].1.to_string(), "0.9.0 to 0.9");
    assert_eq!(set.catalogs[1].source, CatalogLocation::Layout("/some/dir".into()));
    assert_eq!(set.additional[0].target_repo.as_deref(), Some("x/y"));
    assert!(set.unsupported.is_empty() && set.blocked[0].is_match("docker.io/library/alpine:3"));
}

#[test]
fn m1_all_problems_are_reported_at_their_lines() {
    let text = "kind: Wrong\nstorageConfig:\n  local: {}\narchiveSize: '4'\ndelete: {}\nmirror:\n  operators:\n  - \
        catalog: index\n    headsOnly: true\n    packages:\n    - name: a\n      minVersion: 4.18\n      bundles: []\n    \
        - name: a\n    - nam: b\n  - catalog: quay.io/ns/index\n    full: yes please\n    targetCatalog: UPPER\n  \
        blockedImages:\n  - name: '('\n";
    insta::assert_snapshot!(problems(text), @r#"
    1: kind: expected ImageSetConfiguration, found Wrong
    2: storageConfig: unknown field (the mirror needs no separate storage: remove it)
    4: archiveSize: expected a whole number, found "4"
    5: delete: not allowed in a file of kind ImageSetConfiguration
    8: mirror.operators[0].catalog: "index": repository name must be canonical, with registry and full path, such as docker.io/library/etcd
    9: mirror.operators[0].headsOnly: unknown field (heads are the default without 'full: true' or a range: remove it)
    12: mirror.operators[0].packages[0].minVersion: expected text, found a number (quote it: "4.18")
    13: mirror.operators[0].packages[0].bundles: unknown field (write minVersion and maxVersion with the same version for a single bundle)
    14: duplicate package "a"
    15: mirror.operators[0].packages[2].nam: unknown field (known fields: name, defaultChannel, minVersion, maxVersion, channels)
    15: mirror.operators[0].packages[2]: name is missing
    16: mirror.operators[1].catalog: "quay.io/ns/index" has neither tag nor digest (write quay.io/ns/index:latest for the latest image)
    17: mirror.operators[1].full: expected true or false, found text
    18: mirror.operators[1].targetCatalog: "UPPER" is not a repository path (use lowercase letters, digits, '.', '_' and '-', separated by '/')
    20: mirror.blockedImages[0].name: "(" is not a regular expression: unclosed group
    "#);
}

#[test]
fn m1_a_file_has_limits() {
    let large = [b"# ".to_vec(), vec![b'x'; super::LIMIT]].concat();
    let problems = read(&large, ImageSetKind::Mirror).unwrap_err();
    assert!(problems[0].message.contains("more than 4194304 bytes"), "{problems:?}");
    let deep = format!("kind: ImageSetConfiguration\nmirror: {}", "[".repeat(100_000));
    assert!(read(deep.as_bytes(), ImageSetKind::Mirror).is_err());
}

#[test]
fn m1_each_rule_has_its_message() {
    for (text, expected) in [
        ("", "1: the file is empty"),
        ("[]", "expected fields, found a list"),
        ("kind: ImageSetConfiguration\n", "1: mirror: missing"),
        ("kind: a\nkind: b\nmirror: {}\n", "2: kind: duplicate key"),
        ("kind: ImageSetConfiguration\nmirror:\n\t- x", "3: "),
    ] {
        assert!(problems(text).contains(expected), "{text}: {}", problems(text));
    }
    for (text, expected) in [
        ("  operators: []\n", "good"),
        (
            "  operators:\n  - {catalog: 'q.io/a:v1', targetTag: v2}\n  - {catalog: 'q.io/a:v2'}\n",
            "6: duplicate catalog \"q.io/a:v2\"",
        ),
        (
            "  operators:\n  - {catalog: 'q.io/a:v1'}\n  - {catalog: 'q.io/b:v1', targetCatalog: a}\n",
            "duplicate catalog",
        ),
        (
            "  operators:\n  - catalog: q.io/a:v1\n    packages:\n    - name: p\n      minVersion: '1'\n      channels: [{name: c, maxVersion: '2'}]\n",
            "7: package \"p\" and one of its channels both have a version range",
        ),
        (
            "  operators:\n  - catalog: q.io/a:v1\n    packages:\n    - {name: p, channels: [{name: c}, {name: c}]}\n",
            "duplicate channel \"c\" of package \"p\"",
        ),
        (
            "  operators:\n  - catalog: q.io/a:v1\n    packages: [{name: p, minVersion: '1.2.3.4'}]\n",
            "is not a version such as",
        ),
        (
            "  operators:\n  - catalog: q.io/a:v1\n    full: true\n    packages: [{name: p, minVersion: '1'}]\n",
            "has a version range, but full is true",
        ),
        ("  additionalImages: [{name: 'oci:///x'}]\n", "expected an image in a registry"),
        ("  platform: {architectures: [amd64], platforms: [{os: linux}]}\n", "are mutually exclusive"),
        ("  platform: {channels: [{name: c}, {name: c}]}\n", "duplicate release channel \"c\""),
    ] {
        assert!(of_mirror(text).contains(expected), "{text}: {}", of_mirror(text));
    }
    let set =
        read(format!("{HEAD}  platform: {{channels: [{{name: c}}]}}\n").as_bytes(), ImageSetKind::Mirror).unwrap();
    assert_eq!(set.unsupported, [("platform", 4)]);
    let delete = b"kind: DeleteImageSetConfiguration\ndelete: {}\n";
    assert!(read(delete, ImageSetKind::Delete).is_ok() && read(delete, ImageSetKind::Mirror).is_err());
}
