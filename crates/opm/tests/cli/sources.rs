//! What a command can be given: a directory, a single file or a database with the same catalog.

use crate::env::TestEnv;

const CATALOG: &str = "schema: olm.package
name: foo
defaultChannel: stable
---
schema: olm.channel
package: foo
name: stable
entries:
- {name: foo.v1.0.0}
- {name: foo.v1.1.0, replaces: foo.v1.0.0}
---
schema: olm.bundle
name: foo.v1.0.0
package: foo
image: registry.test/foo:1.0.0
properties:
- {type: olm.package, value: {packageName: foo, version: 1.0.0}}
---
schema: olm.bundle
name: foo.v1.1.0
package: foo
image: registry.test/foo:1.1.0
properties:
- {type: olm.package, value: {packageName: foo, version: 1.1.0}}
";

/// The commands that read any catalog, here called `X`.
const COMMANDS: [&str; 15] = [
    "list packages X",
    "list channels X",
    "list bundles X",
    "graph X",
    "diff X X",
    "alpha diff X",
    "check-upgrades X X",
    "resolve X --install foo",
    "why X foo",
    "upgrade-path X foo --from 1.0.0",
    "validate catalog --deps --with X",
    "security X --package foo --no-pull",
    "migrate X out",
    "edit filter X --package foo --to out",
    "site build X --to out --name c",
];

/// An environment with a catalog as a directory and as a file whose directory has another catalog.
fn env() -> TestEnv {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", CATALOG).file("several/foo.yaml", CATALOG);
    env.file("several/other.yaml", CATALOG.replace("foo", "bar")).file("several/broken.yaml", "schema: [");
    env
}

#[test]
fn a_single_file_is_the_same_as_a_directory_with_it() {
    for command in COMMANDS {
        let answer = |source: &str| {
            let env = env();
            let shown = env.opm(&command.replace('X', source).split(' ').collect::<Vec<_>>());
            let written = if env.path("out").exists() { env.names("out") } else { Vec::new() };
            // A simulated cluster names the catalog after the last part of its path.
            (shown.replace(source, "X").replace("of foo.yaml", "of X"), written)
        };
        let expected = answer("catalog");
        assert!(expected.0.starts_with("exit 0\n"), "{command}: {}", expected.0);
        assert_eq!(!expected.1.is_empty(), command.contains(" out"), "{command}");
        assert_eq!(answer("several/foo.yaml"), expected, "{command}");
    }
}

#[test]
fn a_problem_in_a_single_file_is_reported_at_its_line() {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", CATALOG.replace("replaces: foo.v1.0.0", "replaces: [1]"));
    for command in ["list bundles X", "graph X", "check-upgrades X X", "why X foo", "security X --package foo"] {
        let shown = env.opm(&command.replace('X', "catalog/foo.yaml").split(' ').collect::<Vec<_>>());
        assert!(shown.starts_with("exit 1\n") && shown.contains("--> catalog/foo.yaml:10:"), "{command}: {shown}");
    }
}

#[test]
fn commands_that_check_or_print_whole_catalogs_refuse_a_single_file() {
    let env = env();
    for command in ["render several/foo.yaml", "validate several/foo.yaml", "serve several/foo.yaml -t none"] {
        let shown = env.opm(&command.split(' ').collect::<Vec<_>>());
        assert!(shown.starts_with("exit 1\n") && shown.contains("directory"), "{command}: {shown}");
    }
}

#[test]
fn a_source_that_is_neither_file_nor_directory_is_refused() {
    let env = TestEnv::new();
    for command in ["list packages /dev/null", "graph /dev/null", "check-upgrades /dev/null /dev/null"] {
        let shown = env.opm(&command.split(' ').collect::<Vec<_>>());
        assert!(shown.starts_with("exit 1\n") && shown.contains("unsupported file type"), "{command}: {shown}");
    }
}

#[test]
fn a_file_of_crds_and_a_file_of_a_catalog_are_told_apart() {
    let env = env();
    let crd = |description: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: as.b.test}}\nspec:\n  \
             group: b.test\n  names: {{kind: A, plural: as}}\n  scope: Namespaced\n  versions:\n  - name: v1\n    \
             served: true\n    storage: true\n    schema: {{openAPIV3Schema: {{type: object, description: {description}}}}}\n"
        )
    };
    env.file("old.yaml", crd("a")).file("new.yaml", crd("b"));
    assert!(env.opm(&["crd-diff", "old.yaml", "new.yaml"]).starts_with("exit 0\n"));
    // The word is in the file, but not the field.
    env.file("notes.yaml", "about: the schema\n");
    let shown = env.opm(&["crd-diff", "notes.yaml", "new.yaml"]);
    assert!(shown.starts_with("exit 1\n") && shown.contains("error: notes.yaml: "), "{shown}");
    let shown = env.opm(&["crd-diff", "several/foo.yaml"]);
    assert!(shown.contains("--from is required"), "{shown}");
}
