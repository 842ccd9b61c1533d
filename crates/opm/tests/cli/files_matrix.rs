//! Every command against the same directory full of traps: no command changes, copies, follows or waits for anything
//! but its input and its outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::{DockerRegistry, FakeRegistry, FakeResponse, RegistryPlan, ResponseFault};

use crate::app_registry;
use crate::env::{SMALL, TestEnv};

/// How a command ends.
#[derive(Clone, Copy)]
enum Ends {
    /// With success.
    Well,
    /// With an error that contains this text.
    Refuses(&'static str),
    /// With success, when it is told to stop.
    Stopped,
}
use Ends::{Refuses, Stopped, Well};

/// A command line and the paths that it may create, change or remove, with everything below them. `{host}` is the
/// address of the registry, and `{packages}` a namespace of the application registry.
type Row = (&'static [&'static str], &'static [&'static str], Ends);

const DENIED: &str = "this cluster denies everything";

const ROWS: &[Row] = &[
    (&["render", "catalog"], &[], Well),
    (&["render", "bundle"], &[], Well),
    (&["validate", "catalog"], &[], Well),
    (&["serve", "catalog", "--cache-only", "--cache-dir", "cache", "-t", ""], &["cache"], Well),
    (&["serve", "catalog", "-p", "0", "-t", "", "--watch"], &[], Stopped),
    (&["init", "foo", "--description", "catalog/foo/catalog.yaml"], &[], Well),
    (&["list", "packages", "catalog"], &[], Well),
    (&["list", "channels", "catalog"], &[], Well),
    (&["list", "bundles", "catalog"], &[], Well),
    (&["graph", "catalog"], &[], Well),
    (&["diff", "catalog", "other"], &[], Well),
    (&["template", "render", "basic", "basic.yaml"], &[], Well),
    (&["template", "render", "composite", "-c", "composite.yaml", "-f", "catalogs.yaml"], &["catalog/baz"], Well),
    (&["template", "convert", "basic", "catalog/foo/catalog.yaml"], &[], Well),
    (&["template", "convert", "substitutes", "catalog/foo/catalog.yaml"], &[], Well),
    (&["generate", "dockerfile", "catalog"], &["catalog.Dockerfile"], Well),
    (&["migrate", "catalog", "migrated"], &["migrated"], Well),
    (&["migrate", "catalog", "other"], &[], Refuses("must be empty")),
    (&["build", "catalog", "--data-only", "--to", "oci:built"], &["built"], Well),
    (&["unpack", "oci:image", "--unpack-dir", "unpacked"], &["unpacked"], Well),
    (&["unpack", "oci:image", "--unpack-dir", "catalog"], &[], Refuses("must be empty")),
    (
        &["bundle", "generate", "--directory", "bundle/manifests", "--package", "foo", "--channels", "stable"],
        &["bundle.Dockerfile", "bundle/metadata/annotations.yaml"],
        Well,
    ),
    (
        &[
            "bundle",
            "build",
            "--directory",
            "bundle",
            "-t",
            "r.test/foo:v1",
            "-b",
            "none",
            "--image-output",
            "oci:built",
        ],
        &["bundle.Dockerfile", "built"],
        Well,
    ),
    (&["bundle", "validate", "bundle"], &[], Well),
    (&["bundle", "unpack", "oci:bundle-image", "--out", "new"], &["new"], Well),
    (&["man", "--to", "new"], &["new"], Well),
    (&["bundle", "unpack", "oci:bundle-image", "--out", "bundle"], &[], Refuses("does not overwrite existing files")),
    (&["bundle", "extract", "-m", "bundle", "-c", "x", "-n", "y"], &[], Refuses("cluster config failed")),
    (
        &["index", "add", "-f", "oci:index-image", "-b", "./next", "--mode", "semver", "--generate"],
        &["database", "index.Dockerfile"],
        Well,
    ),
    (&["index", "rm", "-f", "oci:index-image", "-o", "foo", "--generate"], &["database", "index.Dockerfile"], Well),
    (&["index", "prune", "-f", "oci:index-image", "-p", "foo", "--generate"], &["database", "index.Dockerfile"], Well),
    (&["index", "prune-stranded", "-f", "oci:index-image", "--generate"], &["database", "index.Dockerfile"], Well),
    (&["index", "rmb", "oci:bundle-image", "--mode", "semver", "--database", "index.db"], &["index.db"], Well),
    (&["index", "export", "-i", "oci:index-image", "-f", "packages"], &["packages"], Well),
    (&["index", "inspect", "package", "foo", "--database", "index.db"], &[], Well),
    (&["index", "inspect", "packages", "--database", "index.db"], &[], Well),
    (&["registry", "add", "-d", "index.db", "-b", "./next", "--mode", "semver"], &["index.db"], Well),
    (&["registry", "add", "-d", "index.db", "-b", "./next", "--mode", "semver", "--permissive"], &["index.db"], Well),
    (&["registry", "rm", "-d", "index.db", "-o", "foo"], &["index.db"], Well),
    (&["registry", "prune", "-d", "index.db", "-p", "foo"], &["index.db"], Well),
    (&["registry", "prune-stranded", "-d", "index.db"], &["index.db"], Well),
    (&["registry", "doctor", "127.0.0.1:1/foo:v1"], &[], Refuses("cannot be reached")),
    (&["registry", "serve", "-d", "index.db", "-p", "0", "-t", ""], &[], Stopped),
    (&["copy", "oci:image", "oci:copied"], &["copied"], Well),
    (&["mirror", "plan", "imageset.yaml", "--lock", "planned.json", "--use-http"], &["planned.json"], Well),
    (&["mirror", "plan", "nowhere.yaml"], &[], Refuses("Connection refused")),
    (&["mirror", "pull", "imageset.yaml", "new-set", "--use-http"], &["new-set"], Well),
    (
        &["mirror", "pull", "imageset.yaml", "set", "--volumes", "1G", "--to", "new", "--use-http"],
        &["new", "set"],
        Well,
    ),
    (&["mirror", "pull", "nowhere.yaml", "new-set"], &["new-set"], Refuses("Connection refused")),
    (&["mirror", "push", "set", "{host}/from-set", "--resources", "objects", "--use-http"], &["objects"], Well),
    (&["mirror", "push", "volumes", "{host}/from-volumes", "--resources", "objects", "--use-http"], &["objects"], Well),
    (&["mirror", "push", "catalog", "127.0.0.1:1/mirror"], &[], Refuses("contains no volumes")),
    (
        &[
            "mirror",
            "copy",
            "imageset.yaml",
            "{host}/copied",
            "--lock",
            "copied.json",
            "--resources",
            "objects",
            "--use-http",
        ],
        &["objects", "copied.json"],
        Well,
    ),
    (&["mirror", "copy", "nowhere.yaml", "127.0.0.1:1/mirror"], &[], Refuses("Connection refused")),
    (
        &["mirror", "prune", "{host}/mirrored", "--keep", "set/mirror/lock.json", "--write-list", "list", "--use-http"],
        &["list"],
        Well,
    ),
    (&["mirror", "prune", "{host}/pruned", "--list", "delete-pruned.yaml", "--yes", "--use-http"], &[], Well),
    (&["mirror", "prune", "127.0.0.1:1/mirror", "--keep", "basic.yaml"], &[], Refuses("not a mirror lock")),
    (&["mirror", "verify", "set"], &[], Well),
    (&["mirror", "verify", "volumes"], &[], Well),
    (&["mirror", "verify", "{host}/mirrored", "--lock", "set/mirror/lock.json", "--deep", "--use-http"], &[], Well),
    (&["mirror", "verify", "catalog"], &[], Refuses("contains no volumes")),
    (&["oc-mirror", "--v2", "--src-tls-verify=false", "-c", "imageset.yaml", "file://new"], &["new"], Well),
    (
        &["oc-mirror", "--v2", "--src-tls-verify=false", "-c", "imageset.yaml", "--dry-run", "file://new"],
        &["new"],
        Well,
    ),
    (
        &[
            "oc-mirror",
            "--v2",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
            "-c",
            "imageset.yaml",
            "--workspace",
            "file://new",
            "docker://{host}/oc-copied",
        ],
        &["new"],
        Well,
    ),
    (
        &["oc-mirror", "--v2", "--dest-tls-verify=false", "--from", "file://oc-set", "docker://{host}/oc-pushed"],
        &["oc-set/working-dir"],
        Well,
    ),
    (
        &[
            "oc-mirror",
            "delete",
            "--v2",
            "--src-tls-verify=false",
            "--generate",
            "-c",
            "delete.yaml",
            "--workspace",
            "file://new",
            "docker://{host}/mirrored",
        ],
        &["new"],
        Well,
    ),
    (
        &[
            "oc-mirror",
            "delete",
            "--v2",
            "--dest-tls-verify=false",
            "--delete-yaml-file",
            "delete-deleted.yaml",
            "docker://{host}/deleted",
        ],
        &[],
        Well,
    ),
    (
        &["operator-sdk", "run", "bundle", "{host}/ns/foo:v1.0.0", "--use-http", "--kubeconfig", "kubeconfig"],
        &[],
        Refuses(DENIED),
    ),
    (
        &["operator-sdk", "run", "bundle-upgrade", "{host}/ns/foo:v1.0.0", "--use-http", "--kubeconfig", "kubeconfig"],
        &[],
        Refuses(DENIED),
    ),
    (&["operator-sdk", "cleanup", "foo", "--kubeconfig", "kubeconfig"], &[], Refuses(DENIED)),
    (
        &["grpc_health_probe", "-addr", "127.0.0.1:1", "-tls", "-tls-ca-cert", "catalog/plain.trap"],
        &[],
        Refuses("plain.trap"),
    ),
    (&["operator-registry", "create", "new.db"], &["new.db"], Well),
    (&["operator-registry", "add", "./next", "index.db"], &["index.db"], Well),
    (&["operator-registry", "delete", "foo", "index.db"], &["index.db"], Well),
    (&["operator-registry", "delete", "foo", "index.db", "--output", "new.db"], &["new.db"], Well),
    (&["operator-registry", "delete-latest", "foo", "index.db"], &["index.db"], Well),
    (&["operator-registry", "manifest", "index.db", "-o", "images.json"], &["images.json"], Well),
    (&["operator-registry", "initializer", "-m", "manifests", "-o", "new.db"], &["new.db"], Well),
    (&["operator-registry", "configmap", "x", "-o", "new.db"], &[], Refuses("no cluster configured")),
    (
        &["operator-registry", "serve", "--manifestdir", "bundle/manifests", "-c", "x", "-n", "y"],
        &[],
        Refuses("cluster config failed"),
    ),
    (&["initializer", "-m", "manifests", "-o", "new.db"], &["new.db"], Well),
    (&["initializer", "-r", "{packages}", "-o", "new.db"], &["new.db"], Well),
    (&["registry-server", "-d", "index.db", "-p", "0", "-t", ""], &[], Stopped),
    (
        &["appregistry-server", "-r", "{packages}", "-f", "new", "-d", "new.db", "-p", "0", "-t", ""],
        &["new", "new.db"],
        Stopped,
    ),
    (
        &["appregistry-server", "--strict", "-r", "{packages}", "-o", "etcd", "-f", "mine", "-d", "new.db", "-t", ""],
        &[],
        Refuses("opm did not download it"),
    ),
    (&["configmap-server", "-c", "x", "-n", "y", "-t", ""], &[], Refuses("no cluster configured")),
    (&["run", "bundle", "{host}/ns/foo:v1.0.0", "--use-http", "--kubeconfig", "kubeconfig"], &[], Refuses(DENIED)),
    (
        &["run", "bundle-upgrade", "{host}/ns/foo:v1.0.0", "--use-http", "--kubeconfig", "kubeconfig"],
        &[],
        Refuses(DENIED),
    ),
    (&["cleanup", "foo", "--kubeconfig", "kubeconfig"], &[], Refuses(DENIED)),
    (&["verify", "--policy", "policy.json", "oci:image"], &[], Well),
    (
        &["edit", "add-bundle", "catalog", "next", "--channel", "stable", "--image", "r.test/foo:v1.2.0"],
        &["catalog/foo"],
        Well,
    ),
    (&["edit", "promote", "catalog", "foo.v1.0.0", "fast", "--create"], &["catalog/foo"], Well),
    (&["edit", "set-default", "catalog", "foo", "other"], &["catalog/foo"], Well),
    (
        &["edit", "set-edge", "catalog", "foo.v1.1.0", "--channel", "stable", "--skip-range", "<1.1.0"],
        &["catalog/foo"],
        Well,
    ),
    (&["edit", "deprecate", "catalog", "--bundle", "foo.v1.0.0", "--message", "old"], &["catalog/foo"], Well),
    (&["edit", "remove", "catalog", "--package", "foo", "--channel", "other"], &["catalog/foo"], Well),
    (&["edit", "filter", "catalog", "--channel", "foo/stable"], &["catalog/foo"], Well),
    (&["edit", "filter", "catalog", "--channel", "foo/stable", "--to", "less"], &["less"], Well),
    (&["edit", "merge", "catalog", "other"], &["catalog/bar"], Well),
    (&["check-upgrades", "catalog", "catalog"], &[], Well),
    (&["resolve", "catalog", "--install", "foo"], &[], Well),
    (&["upgrade-path", "catalog", "foo", "--from", "1.0.0"], &[], Well),
    (&["why", "catalog", "foo"], &[], Well),
    (&["rehearse", "bundle", "--output-dir", "objects"], &["objects"], Well),
    (&["rehearse", "bundle", "--output-dir", "catalog"], &[], Refuses("must be empty")),
    (&["crd-diff", "bundle", "next"], &[], Well),
    (&["security", "bundle", "--write-baseline", "baseline.json"], &["baseline.json"], Well),
    (&["site", "build", "catalog", "--to", "site"], &["site"], Well),
    (&["site", "build", "catalog", "--to", "other"], &[], Refuses("did not write it")),
    (&["preview", "catalog", "--http", "127.0.0.1:0"], &[], Stopped),
    (&["preview", "bundle", "--http", "127.0.0.1:0"], &[], Stopped),
    (&["alpha", "add", "catalog", "next", "--replaces", "foo.v1.1.0"], &["catalog/foo"], Well),
    (&["alpha", "diff", "catalog", "other"], &[], Well),
    (&["alpha", "list", "packages", "catalog"], &[], Well),
    (&["alpha", "render-graph", "catalog"], &[], Well),
];

/// Commands that neither read nor write files of the user, and commands of a cluster, which need one to do anything.
const WITHOUT_FILES: &[&str] = &[
    "catalog apply",
    "catalog delete",
    "catalog list",
    "catalog status",
    "completion",
    "controller manifests",
    "explain",
    "oc-mirror version",
    "schema",
    "version",
];

/// Other names of commands in the table.
const SAME_COMMANDS: &[&str] = &[
    "alpha bundle build",
    "alpha bundle extract",
    "alpha bundle generate",
    "alpha bundle unpack",
    "alpha bundle validate",
    "alpha convert-template basic",
    "alpha convert-template substitutes",
    "alpha generate dockerfile",
    "alpha list bundles",
    "alpha list channels",
    "alpha render-template",
];

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n\
    metadata: {name: foo.vVERSION, annotations: {alm-examples: '[]'}}\n\
    spec: {version: VERSION, displayName: Foo, description: Foo, minKubeVersion: 1.20.0, provider: {name: me}, \
    maturity: alpha, maintainers: [{name: me, email: me@example.com}], links: [{name: x, url: 'https://example.com'}], \
    icon: [{base64data: aGVsbG8=, mediatype: image/png}], installModes: [{type: AllNamespaces, supported: true}], \
    install: {strategy: deployment, spec: {deployments: [{name: foo, spec: {replicas: 1, selector: {matchLabels: {a: b}}, \
    template: {metadata: {labels: {a: b}}, spec: {containers: [{name: foo, image: 'r.test/foo:v1', \
    resources: {requests: {cpu: 1m}}}]}}}}]}}}\n";

const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
    operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
    operators.operatorframework.io.bundle.metadata.v1: metadata/\n  \
    operators.operatorframework.io.bundle.package.v1: foo\n  \
    operators.operatorframework.io.bundle.channels.v1: stable\n";

fn catalog(package: &str) -> String {
    let bundle = |version: &str| {
        format!(
            "---\nschema: olm.bundle\nname: foo.v{version}\npackage: foo\nimage: 127.0.0.1:1/foo:v{version}\nproperties:\n\
             - type: olm.package\n  value: {{packageName: foo, version: {version}}}\n\
             - type: olm.bundle.object\n  value: {{ref: objects/a.yaml}}\n"
        )
    };
    let text = format!(
        "schema: olm.package\nname: foo\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: foo\nname: stable\n\
         entries:\n- name: foo.v1.0.0\n- name: foo.v1.1.0\n  replaces: foo.v1.0.0\n---\nschema: olm.channel\n\
         package: foo\nname: other\nentries:\n- name: foo.v1.0.0\n- name: foo.v1.1.0\n  replaces: foo.v1.0.0\n{}{}",
        bundle("1.0.0"),
        bundle("1.1.0")
    );
    text.replace("foo", package)
}

/// A directory with the input of all commands, and the registries that they use.
struct World {
    /// `work` with the input, and `outside` next to it.
    env: TestEnv,
    registry: DockerRegistry,
    packages: FakeRegistry,
    /// The cluster of the kubeconfig.
    _cluster: FakeRegistry,
}

impl World {
    /// Creates a world; `None` if a program is not installed.
    fn new() -> Option<World> {
        let registry = DockerRegistry::start(RegistryPlan::default())?;
        let packages = app_registry::registry(&TestEnv::new());
        let cluster = FakeRegistry::start(|_| {
            let status =
                json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": DENIED});
            let response = FakeResponse::status(403).body(status.to_string());
            (ResponseFault::None, Some(response.header("Content-Type", "application/json")))
        });
        let env = write_world(registry.host(), cluster.host());
        Some(World { env, registry, packages, _cluster: cluster })
    }

    fn fill(&self, arguments: &[&str]) -> Vec<String> {
        let packages = format!("http://{}/cnr|community", self.packages.host());
        let fill = |word: &&str| word.replace("{host}", self.registry.host()).replace("{packages}", &packages);
        arguments.iter().map(fill).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Removing it must not fail at a read-only directory.
        let _ = Command::new("chmod").arg("-R").arg("u+w").arg(self.env.path("work")).status();
    }
}

fn write_world(host: &str, cluster: &str) -> TestEnv {
    let env = TestEnv::new();
    for package in ["foo", "bar"] {
        let directory = if package == "foo" { "work/catalog" } else { "work/other" };
        env.file(&format!("{directory}/{package}/catalog.yaml"), catalog(package))
            .file(&format!("{directory}/{package}/objects/a.yaml"), "kind: A\nmetadata: {name: a}\n")
            .file(&format!("{directory}/.indexignore"), "*.trap\n.*\nobjects\n");
    }
    for (bundle, version) in [("work/bundle", "1.1.0"), ("work/next", "1.2.0")] {
        env.file(&format!("{bundle}/manifests/csv.yaml"), CSV.replace("VERSION", version))
            .file(&format!("{bundle}/metadata/annotations.yaml"), ANNOTATIONS);
    }
    env.file("work/basic.yaml", "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: foo}\n");
    env.file("work/raw.yaml", SMALL.replace("foo", "baz"));
    env.file(
        "work/catalogs.yaml",
        "schema: olm.composite.catalogs\ncatalogs:\n- {name: c, destination: {workingDir: catalog}, builders: \
         [olm.builder.raw]}\n",
    );
    env.file(
        "work/composite.yaml",
        "schema: olm.composite\ncomponents:\n- {name: c, destination: {path: baz}, strategy: {name: raw, template: \
         {schema: olm.builder.raw, config: {input: raw.yaml, output: catalog.yaml}}}}\n",
    );
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": format!("http://{cluster}")}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "users": [{"name": "x", "user": {}}],
    });
    env.file("work/kubeconfig", kubeconfig.to_string());
    env.file("work/policy.json", "{\"default\": [{\"type\": \"insecureAcceptAnything\"}]}");
    env.file("work/manifests/1.0.0/csv.yaml", CSV.replace("VERSION", "1.0.0"));
    let package = "packageName: foo\nchannels:\n- name: stable\n  currentCSV: foo.v1.0.0\n";
    env.file("work/manifests/package.yaml", package);
    let image_set = |catalog: &str| {
        format!(
            "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  operators:\n  \
             - catalog: {catalog}\n"
        )
    };
    let catalog = format!("{host}/ns/catalog:v1");
    env.file("work/imageset.yaml", image_set(&catalog)).file("work/nowhere.yaml", image_set("127.0.0.1:1/catalog:v1"));
    let delete = image_set(&catalog).replace("ImageSet", "DeleteImageSet").replace("mirror:\n", "delete:\n");
    env.file("work/delete.yaml", delete);
    let run = |arguments: &[&str]| {
        let output = env.command().current_dir(env.path("work")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", env.show(output));
    };
    run(&["build", "catalog", "--data-only", "--to", "oci:image"]);
    let builtin = ["-t", "r.test/foo:v1", "-b", "none", "--image-output", "oci:bundle-image"];
    run(&[&["bundle", "build", "--directory", "bundle"], &builtin[..]].concat());
    fs::remove_file(env.path("work/bundle.Dockerfile")).unwrap();
    run(&["registry", "add", "-d", "index.db", "-b", "oci:bundle-image", "--mode", "semver"]);
    let scratch = ["-c", "none", "-i", "scratch", "--image-output", "oci:index-image"];
    run(&[&["index", "add", "-b", "oci:bundle-image", "--mode", "semver"], &scratch[..]].concat());
    env.file("work/mine/etcd/notes.txt", "precious\n");
    write_mirrors(&env, host, &run);
    env.file("outside/secret", "secret\n");
    for directory in [
        "work",
        "work/catalog",
        "work/catalog/foo",
        "work/other",
        "work/bundle",
        "work/next",
        "work/manifests",
        "work/manifests/1.0.0",
        "work/set",
        "work/volumes",
        "work/oc-set",
    ] {
        set_traps(&env, directory);
    }
    env
}

/// Pushes a catalog and its bundle, and mirrors them to sets, volumes and registries.
fn write_mirrors(env: &TestEnv, host: &str, run: &impl Fn(&[&str])) {
    let bundle = format!("{host}/ns/foo:v1.0.0");
    env.file("mirrored/catalog.yaml", SMALL.replace("registry.example.com/foo:v1.0.0", &bundle));
    run(&["copy", "oci:bundle-image", &bundle, "--use-http"]);
    let catalog = format!("{host}/ns/catalog:v1");
    run(&["build", "../mirrored", "--data-only", "-t", &catalog, "--push", "--use-http"]);
    run(&["mirror", "pull", "imageset.yaml", "set", "--volumes", "1G", "--to", "volumes", "--use-http"]);
    for name in ["mirrored", "pruned", "deleted"] {
        let to = format!("{host}/{name}");
        run(&["mirror", "push", "set", &to, "--resources", "../resources", "--use-http"]);
    }
    let from = ["oc-mirror", "--v2", "--src-tls-verify=false"];
    run(&[&from[..], &["-c", "imageset.yaml", "file://oc-set"]].concat());
    for name in ["pruned", "deleted"] {
        let to = format!("docker://{host}/{name}");
        let list = ["--generate", "-c", "delete.yaml", "--workspace", "file://../list", &to];
        run(&[&["oc-mirror", "delete"], &from[1..], &list[..]].concat());
        let listed = env.path("list/working-dir/delete/delete-images.yaml");
        fs::copy(listed, env.path(&format!("work/delete-{name}.yaml"))).unwrap();
    }
}

fn set_traps(env: &TestEnv, directory: &str) {
    let at = |name: &str| env.path(&format!("{directory}/{name}"));
    let file = |name: &str, text: &str| {
        env.file(&format!("{directory}/{name}"), text);
    };
    file(".git/config", "[core]\nfsmonitor = touch /tmp/owned\n");
    file(".git/objects/x", "x");
    file(".hg/hgrc", "[hooks]\n");
    file(".hidden", "secret\n");
    file(".directory/x", "secret\n");
    file("plain.trap", "x\n");
    symlink("plain.trap", at("link-to-file.trap")).unwrap();
    symlink(env.path("outside/secret"), at("link-out.trap")).unwrap();
    symlink(env.path("outside"), at("link-to-directory.trap")).unwrap();
    symlink("nowhere", at("dangling.trap")).unwrap();
    symlink("loop.trap", at("loop.trap")).unwrap();
    drop(UnixListener::bind(at("socket.trap")).unwrap());
    assert!(Command::new("mkfifo").arg(at("pipe.trap")).status().unwrap().success());
    file("read-only.trap/x", "x\n");
    fs::set_permissions(at("read-only.trap"), fs::Permissions::from_mode(0o555)).unwrap();
    file("foreign.trap", "x\n");
    // Only root can give files away.
    let _ = std::os::unix::fs::chown(at("foreign.trap"), Some(12345), Some(12345));
}

/// A shell script that prints kind, mode, owner, link target and digest of everything in `work` and `outside`.
const SNAPSHOT: &str = "find work outside -printf '%p|%y %m %U:%G %l\\n' | LC_ALL=C sort\n\
    find work outside -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sed -E 's/^([0-9a-f]+)  (.*)$/\\2|sha256 \\1/'\n";

fn snapshot(text: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let (path, facts) = line.split_once('|').unwrap_or_else(|| panic!("{line}"));
        found.entry(path.to_owned()).or_default().push_str(facts);
    }
    assert!(found.contains_key("work/catalog/pipe.trap") && found.contains_key("outside/secret"), "{text}");
    found
}

fn is_trap(name: &str) -> bool {
    name.ends_with(".trap") || [".git", ".hg", ".hidden", ".directory"].contains(&name)
}

/// Returns what differs between two snapshots outside the outputs of a command.
fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>, outputs: &[&str]) -> Vec<String> {
    // Traps in an output stay, too.
    let is_trap = |path: &str| before.contains_key(path) && path.split('/').any(is_trap);
    let is_output = |path: &str| {
        !is_trap(path) && outputs.iter().any(|output| Path::new(path).starts_with(Path::new("work").join(output)))
    };
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differs = paths.into_iter().filter(|path| !is_output(path) && before.get(*path) != after.get(*path));
    differs.map(|path| format!("{path}: {:?} -> {:?}", before.get(path), after.get(path))).collect()
}

/// Runs a command in a copy of the world, and returns what is wrong with it.
fn run_row(world: &World, (arguments, outputs, ends): &Row) -> Vec<String> {
    let env = TestEnv::new();
    let copied = Command::new("cp")
        .arg("-a")
        .args([world.env.path("work"), world.env.path("outside")])
        .arg(env.path("."))
        .status();
    assert!(copied.unwrap().success());
    fs::create_dir(env.path("tmp")).unwrap();
    let look = || {
        let output = Command::new("sh").args(["-c", SNAPSHOT]).current_dir(env.path(".")).output().unwrap();
        snapshot(&String::from_utf8(output.stdout).unwrap())
    };
    let before = look();
    let (out, err) = (fs::File::create(env.path("stdout")).unwrap(), fs::File::create(env.path("stderr")).unwrap());
    let mut child = env
        .command()
        .current_dir(env.path("work"))
        .env("TMPDIR", env.path("tmp"))
        .args(world.fill(arguments))
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .unwrap();
    let started = Instant::now();
    let mut told = false;
    let mut wrong = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        // All servers log this when they are ready.
        if matches!(ends, Stopped) && !told && env.read("stderr").contains("serving registry") {
            // Long enough for a poll of the directory.
            std::thread::sleep(Duration::from_millis(500));
            let id = child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
            told = true;
        }
        if started.elapsed() > Duration::from_secs(90) {
            wrong.push("does not end".to_owned());
            child.kill().unwrap();
            break child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let stderr = env.read("stderr");
    let as_expected = match ends {
        Well => status.success(),
        Refuses(text) => status.code().is_some_and(|code| code != 0) && stderr.contains(text),
        Stopped => told && status.success(),
    };
    if !as_expected {
        wrong.push(format!("ends with {status}: {stderr}"));
    }
    wrong.extend(changed(&before, &look(), outputs));
    wrong.extend(env.names("tmp").iter().map(|name| format!("leaves the temporary file {name}")));
    for output in *outputs {
        let traps = Command::new("find")
            .arg(env.path("work").join(output))
            .args([
                "-name", ".git", "-o", "-name", ".hidden", "-o", "-name", ".hg", "-o", "-type", "l", "-o", "-type", "p",
            ])
            .output()
            .unwrap();
        let traps = String::from_utf8(traps.stdout).unwrap();
        // What was there before has its traps.
        let is_new = !world.env.path("work").join(output).exists();
        if is_new && !traps.is_empty() {
            wrong.push(format!("writes {traps}"));
        }
    }
    // Removing the copy must not fail at a read-only directory.
    let _ = Command::new("chmod").arg("-R").arg("u+w").arg(env.path("work")).status();
    wrong
}

#[test]
fn every_command_leaves_everything_but_its_outputs_as_it_was() {
    let Some(world) = World::new() else { return };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(row) = ROWS.get(next.fetch_add(1, Relaxed)) {
            let found = run_row(&world, row);
            wrong.extend(found.into_iter().map(|found| format!("{:?}: {found}", row.0)));
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A file system that takes no files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disk {
    Full,
    ReadOnly,
}

/// Runs a command in a copy of the world on such a disk, and returns what is wrong with it; `None` if this user can mount
/// nothing.
fn run_on_disk(world: &World, disk: Disk, (arguments, outputs, _): &Row) -> Option<Vec<String>> {
    let env = TestEnv::new();
    fs::create_dir(env.path("volume")).unwrap();
    fs::create_dir(env.path("tmp")).unwrap();
    let close = match disk {
        Disk::Full => "dd if=/dev/zero of=fill bs=4k 2> /dev/null",
        Disk::ReadOnly => "mount -o remount,ro \"$PWD\" || exit 79",
    };
    let script = format!(
        "mount -t tmpfs -o size=16m tmpfs volume || exit 77
        cp -a --no-preserve=ownership \"$world/work\" \"$world/outside\" volume && cd volume || exit 78
        {SNAPSHOT}
        echo ---
        {close}
        cd work
        \"$opm\" \"$@\" > /dev/null 2> ../../stderr
        code=$?
        cd ..
        {SNAPSHOT}
        echo ---
        echo $code"
    );
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", &script, "sh"])
        .args(world.fill(arguments))
        .current_dir(env.path("."))
        .env("world", world.env.path("."))
        .env("opm", env!("CARGO_BIN_EXE_opm"))
        .env("TMPDIR", env.path("tmp"))
        .output();
    let output = output.ok().filter(|output| output.status.code() != Some(77))?;
    if String::from_utf8_lossy(&output.stderr).contains("unshare failed") {
        return None;
    }
    assert!(output.status.success(), "{}", env.show(output));
    let text = String::from_utf8(output.stdout).unwrap();
    let [before, after, code] = text.split("---\n").collect::<Vec<_>>()[..] else { panic!("{text}") };
    // Empty directories of an output may stay.
    let (before, mut after) = (snapshot(before), snapshot(after));
    after.retain(|path, facts| before.contains_key(path) || !facts.starts_with("d "));
    let mut wrong = changed(&before, &after, &[]);
    let stderr = env.read("stderr");
    // SQLite does not always pass on why a transaction failed, and a mirror counts the free space before it writes.
    let named: &[&str] = match disk {
        Disk::Full => &["No space left on device", "disk is full", "error: [database: ", "not enough space: "],
        Disk::ReadOnly => &["Read-only file system", "the database is read-only", "error: [database: "],
    };
    let succeeds = outputs.is_empty();
    if succeeds != (code.trim() == "0") || !succeeds && !named.iter().any(|named| stderr.contains(named)) {
        wrong.push(format!("ends with {}: {stderr}", code.trim()));
    }
    wrong.extend(env.names("tmp").iter().map(|name| format!("leaves the temporary file {name}")));
    Some(wrong)
}

/// Runs these commands on such a disk.
fn check_disk(disk: Disk, is_tested: fn(&Row) -> bool) {
    let Some(world) = World::new() else { return };
    let rows: Vec<&Row> = ROWS.iter().filter(|row| is_tested(row)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(row) = rows.get(next.fetch_add(1, Relaxed)) {
            let found = run_on_disk(&world, disk, row)?;
            wrong.extend(found.into_iter().map(|found| format!("{:?}: {found}", row.0)));
        }
        Some(wrong)
    };
    let wrong: Option<Vec<Vec<String>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    match wrong {
        None => testkit::skipped("this user can mount nothing"),
        Some(wrong) => assert!(wrong.concat().is_empty(), "{}", wrong.concat().join("\n")),
    }
}

#[test]
fn a_command_that_finds_no_space_says_so_and_changes_nothing() {
    check_disk(Disk::Full, |(_, outputs, ends)| !outputs.is_empty() && matches!(ends, Well));
}

#[test]
fn a_command_needs_to_write_only_its_outputs() {
    check_disk(Disk::ReadOnly, |(_, _, ends)| matches!(ends, Well));
}

fn has_row(words: &[&str]) -> bool {
    ROWS.iter().any(|(arguments, ..)| arguments.starts_with(words))
}

#[test]
fn every_program_is_in_the_table() {
    let code = include_str!("../../src/personality.rs");
    let named = code.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next());
    let named: BTreeSet<&str> = named.filter(|name| *name != "opm").collect();
    let tested: BTreeSet<&str> = named.iter().copied().filter(|name| has_row(&[name])).collect();
    assert_eq!(named, tested, "add these programs to ROWS");
    assert!(named.len() > 7, "{named:?}");
}

#[test]
fn every_command_is_in_the_table_or_has_no_files() {
    let env = TestEnv::new();
    let above = [&[][..], &["alpha"], &["operator-registry"], &["oc-mirror"], &["operator-sdk"]];
    let found: BTreeSet<String> = above.iter().flat_map(|above| env.commands(above)).collect();
    let tested: BTreeSet<&str> = found
        .iter()
        .map(String::as_str)
        .filter(|name| {
            let words: Vec<&str> = name.split(' ').collect();
            has_row(&words)
        })
        .collect();
    let listed: BTreeSet<&str> = WITHOUT_FILES.iter().chain(SAME_COMMANDS).copied().collect();
    let all: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let missing: Vec<&&str> = all.iter().filter(|name| !tested.contains(**name) && !listed.contains(**name)).collect();
    assert!(missing.is_empty(), "add these commands to ROWS or WITHOUT_FILES: {missing:?}");
    let gone: Vec<&&str> = listed.iter().filter(|name| !all.contains(**name) || tested.contains(**name)).collect();
    assert!(gone.is_empty(), "these names are not commands, or are in ROWS: {gone:?}");
    assert!(tested.len() > 50, "{}", tested.len());
}
