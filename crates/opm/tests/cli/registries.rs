//! Commands that move images: hostile caches, and a table of every command against every fault of a registry.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use image::{Digest, media_type};
use serde_json::json;
use testkit::{DockerRegistry, FakeRegistry, FakeRequest, FakeResponse, RegistryPlan, ResponseFault};

use crate::env::{SMALL, TestEnv, copy};

/// The parts of an image in a layout.
struct Parts {
    /// Its manifest.
    manifest: Vec<u8>,
    /// Its config and layers.
    blobs: Vec<Vec<u8>>,
}

impl Parts {
    /// Builds the image of a small catalog.
    fn of_catalog(env: &TestEnv) -> Parts {
        env.file("built/catalog.yaml", SMALL);
        env.stdout(&["build", "built", "--data-only", "--to", "oci:built-image"]);
        Parts::of_layout(&env.path("built-image"))
    }

    /// Builds the image of a bundle from its directory.
    fn of_bundle(env: &TestEnv, directory: &str, package: &str) -> Parts {
        let manifests = format!("{directory}/manifests");
        let named = ["--directory", &manifests, "--package", package, "--channels", "stable", "--overwrite"];
        let built = ["--image-builder", "none", "--tag", "r.test/bundle:v1", "--image-output", "oci:built-bundle"];
        env.stdout(&[&["bundle", "build"], &named[..], &built[..]].concat());
        Parts::of_layout(&env.path("built-bundle"))
    }

    /// Reads the only image of a layout.
    fn of_layout(layout: &Path) -> Parts {
        let blob = |hex: &str| fs::read(layout.join("blobs/sha256").join(hex)).expect("a blob");
        let index = fs::read(layout.join("index.json")).expect("an index");
        let index: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
        let digest = index["manifests"][0]["digest"].as_str().expect("a digest");
        let manifest = blob(digest.trim_start_matches("sha256:"));
        let parsed: image::ImageManifest = serde_json::from_slice(&manifest).expect("a manifest");
        let parts = std::iter::once(&parsed.config).chain(&parsed.layers);
        Parts { blobs: parts.map(|part| blob(&part.digest.hex())).collect(), manifest }
    }

    /// Serves the image, and returns its reference.
    fn serve(&self, registry: &FakeRegistry, repository: &str) -> String {
        let digest = Digest::of(&self.manifest);
        for version in ["v1", &digest.to_string()] {
            let path = format!("/v2/{repository}/manifests/{version}");
            registry.put(&path, media_type::OCI_MANIFEST, &self.manifest);
        }
        for blob in &self.blobs {
            let path = format!("/v2/{repository}/blobs/{}", Digest::of(blob));
            registry.put(&path, "application/octet-stream", blob);
        }
        format!("{}/{repository}:v1", registry.host())
    }
}

#[test]
fn a_link_in_a_shared_image_cache_does_not_lead_writes_elsewhere() {
    let env = TestEnv::new();
    let registry = FakeRegistry::start(|_| (ResponseFault::None, None));
    let parts = Parts::of_catalog(&env);
    let name = parts.serve(&registry, "ns/catalog");
    env.file("precious", "do not touch");
    fs::create_dir_all(env.path("cache/partial")).expect("directories");
    for blob in &parts.blobs {
        let planted = env.path("cache/partial").join(Digest::of(blob).hex());
        std::os::unix::fs::symlink(env.path("precious"), planted).expect("a link");
    }
    let text = env.stdout(&["render", &name, "--use-http", "--image-cache", "cache"]);
    assert!(text.contains("foo.v1.0.0"), "{text}");
    assert_eq!(env.read("precious"), "do not touch");
}

#[test]
fn an_invalid_proxy_is_an_error_and_no_direct_connection() {
    let env = TestEnv::new();
    for proxy in ["ftp://proxy.test", "http://name:pass word@proxy.test:3128", "http://name:77#secret@proxy.test"] {
        let mut command = env.command();
        command.env("HTTPS_PROXY", proxy).args(["render", "reg.test/a/b:v1"]);
        let shown = env.show(command.output().expect("opm runs"));
        assert!(shown.starts_with("exit 1\n") && shown.contains("HTTPS_PROXY: "), "{shown}");
        for part in ["dial", "pass", "word@", "77", "secret"] {
            let told = shown.replace("PASSWORD", "").replace("of the password", "");
            assert!(!told.contains(part), "{part}: {shown}");
        }
    }
}

/// The outcome of each command and fault: exit code, class, message, and new files. A failing test prints what it
/// found.
const OUTCOMES: &str = include_str!("registries.txt");

/// Every command that takes an image, of all programs, with its arguments. `{ref}` is an image at the faulty registry,
/// and `{host}` its address. `good.test` is a registry without faults, and the kubeconfig names a cluster with the
/// operator `lantern` from the catalog `{ref}`. A command can occur several times: as source and target, or with other flags.
const COMMANDS: &[(&str, &str)] = &[
    ("render", "{ref}"),
    ("validate", "{ref}"),
    ("serve", "{ref} --port 0 --address 127.0.0.1 --termination-log ="),
    ("list packages", "{ref}"),
    ("list channels", "{ref}"),
    ("list bundles", "{ref}"),
    ("graph", "{ref}"),
    ("diff", "catalog {ref}"),
    ("template render", "basic template.yaml"),
    ("migrate", "{ref} out"),
    ("build", "catalog --base-image {ref} --to oci:out"),
    ("build", "catalog --data-only --tag {ref} --push"),
    ("unpack", "{ref} --unpack-dir out"),
    (
        "bundle build",
        "--directory 1.3.0/manifests --package lantern --channels stable --overwrite --image-builder none --tag {ref} --push",
    ),
    ("bundle validate", "{ref}"),
    ("bundle unpack", "{ref} --out out"),
    ("index add", "{ref} --generate"),
    ("index rm", "--operators foo --from-index {ref} --generate"),
    ("index prune", "--packages foo --from-index {ref} --generate"),
    ("index prune-stranded", "--from-index {ref} --generate"),
    ("index export", "--index {ref} --download-folder out"),
    ("index inspect packages", "--from-index {ref}"),
    ("index inspect package", "foo --from-index {ref}"),
    ("index rmb", "{ref} --mode semver --from-index {ref} --generate"),
    ("registry add", "--bundle-images {ref} --database index.db"),
    ("registry doctor", "{ref}"),
    ("copy", "{ref} oci:out:v1"),
    ("copy", "oci:image:v1 {ref}"),
    ("mirror plan", "images.yaml --lock out"),
    ("mirror plan", "images.yaml --lock out --missing drop"),
    ("mirror pull", "catalogs.yaml out"),
    ("mirror pull", "images.yaml out"),
    ("mirror pull", "images.yaml out --missing drop"),
    ("mirror pull", "images.yaml out --missing keep"),
    ("mirror copy", "images.yaml {host}/m"),
    ("mirror push", "set {host}/m --resources out"),
    ("mirror verify", "{host}/m --lock lock.json"),
    ("mirror verify", "{host}/m --lock lock.json --deep"),
    ("mirror prune", "{host}/m --keep lock.json"),
    ("verify", "{ref}"),
    ("edit add-bundle", "catalog {ref} --channel stable"),
    ("edit filter", "{ref} --package foo --to out"),
    ("edit merge", "catalog {ref}"),
    ("check-upgrades", "catalog {ref}"),
    ("resolve", "{ref} --install foo"),
    ("upgrade-path", "{ref} foo --from 1.0.0"),
    ("why", "{ref} foo"),
    ("rehearse", "{ref}"),
    ("crd-diff", "1.3.0 {ref}"),
    ("security", "{ref}"),
    ("site build", "{ref} --to out"),
    ("run bundle", "{ref} --kubeconfig kubeconfig"),
    ("run bundle", "{ref} --kubeconfig kubeconfig --olm v1 --registry {host}/m/try:v1"),
    ("run bundle", "good.test/ns/lantern:v1 --kubeconfig kubeconfig -n other --index-image {ref}"),
    (
        "run bundle",
        "good.test/ns/lantern:v1 --kubeconfig kubeconfig -n other --olm v1 --ignore-dependencies --registry {ref}",
    ),
    ("run bundle-upgrade", "{ref} --kubeconfig kubeconfig"),
    ("run bundle-upgrade", "{ref} --kubeconfig kubeconfig --olm v1"),
    ("run bundle-upgrade", "good.test/ns/lantern:v1 --kubeconfig kubeconfig"),
    ("alpha add", "catalog {ref} --replaces foo.v1.0.0"),
    ("alpha diff", "{ref}"),
    ("oc-mirror", "--v2 -c images.yaml file://out"),
    ("oc-mirror", "--v2 -c catalogs.yaml file://out"),
    ("oc-mirror", "--v2 -c images.yaml --dry-run file://out"),
    ("oc-mirror", "--v2 -c images.yaml --workspace file://out docker://{host}/m"),
    ("oc-mirror", "--v2 --from file://oc-set docker://{host}/m"),
    ("oc-mirror delete", "--v2 --generate -c delete.yaml --workspace file://out docker://good.test/m"),
    ("oc-mirror delete", "--v2 --delete-yaml-file list.yaml docker://{host}/m"),
    ("operator-registry add", "{ref} index.db"),
    ("operator-registry delete-latest", "foo latest.db"),
    ("operator-registry manifest", "--pin latest.db"),
    ("operator-sdk run bundle", "{ref} --kubeconfig kubeconfig"),
    ("operator-sdk run bundle-upgrade", "{ref} --kubeconfig kubeconfig"),
];

/// Other names of commands in the table.
const SAME_COMMANDS: &[&str] = &[
    "alpha bundle build",
    "alpha bundle unpack",
    "alpha bundle validate",
    "alpha list bundles",
    "alpha list channels",
    "alpha list packages",
    "alpha render-graph",
    "alpha render-template",
];

/// Commands and programs that have the flags of the table for application registries, which have no images.
const WITHOUT_IMAGES: &[&str] = &["appregistry-server", "initializer", "operator-registry initializer"];

/// The programs besides `opm`.
const PROGRAMS: &[&str] = &[
    "appregistry-server",
    "configmap-server",
    "initializer",
    "oc-mirror",
    "operator-registry",
    "operator-sdk",
    "registry-server",
];

/// The message of the cluster when a command creates an object, after its images.
const NO_OBJECTS: &str = "this cluster takes no objects";

/// The messages that explain a fault, with its class: an image is missing if its registry says so; everything else is
/// a failure.
const MESSAGES: &[(&str, &str)] = &[
    ("failed to verify certificate", "failed"),
    ("dial tcp nowhere.invalid", "failed"),
    ("Connection refused", "failed"),
    ("stopped after 10 redirects", "failed"),
    ("toomanyrequests", "failed"),
    ("unauthorized: authentication required", "failed"),
    ("status 403", "failed"),
    ("status 500", "failed"),
    ("Digest did not match", "failed"),
    ("end of file before message length reached", "failed"),
    ("manifest unknown", "missing"),
    ("status 404", "failed"),
    ("does not exist", "missing"),
    (NO_OBJECTS, "-"),
];

#[test]
fn every_command_that_takes_an_image_is_in_the_table() {
    let env = TestEnv::new();
    let mut all = Vec::new();
    for above in [&[][..], &["alpha"]].into_iter().chain(PROGRAMS.iter().map(std::slice::from_ref)) {
        for name in env.commands(above) {
            let words: Vec<&str> = name.split(' ').chain(["--help"]).collect();
            let help = env.stdout(&words);
            all.push((name, help));
        }
    }
    let moves = |name: &str| name.starts_with("mirror ") || name == "oc-mirror delete";
    let takes_image = |(name, help): &(String, String)| help.contains("--image-cache") || moves(name);
    let mut taking: BTreeSet<&str> = all.iter().filter(|one| takes_image(one)).map(|(name, _)| name.as_str()).collect();
    assert!(taking.len() > 50, "{taking:?}");
    // It has subcommands, too.
    taking.insert("oc-mirror");
    let known: BTreeSet<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
    let known: BTreeSet<&str> = known.into_iter().chain(SAME_COMMANDS.iter().chain(WITHOUT_IMAGES).copied()).collect();
    assert_eq!(taking, known);
}

/// The files that commands of the table use, in a directory that is copied for each.
fn prepare(env: &TestEnv, parts: &Parts) {
    env.file("base/catalog/catalog.yaml", SMALL);
    env.copy_of("examples/bundles/lantern/1.3.0");
    copy(&env.path("1.3.0"), &env.path("base/1.3.0"));
    copy(&env.path("built-image"), &env.path("base/image"));
    let good = FakeRegistry::start(|_| (ResponseFault::None, None));
    env.file("good.yaml", image_set("additionalImages", "name", &parts.serve(&good, "ns/catalog")));
    Parts::of_bundle(env, "1.3.0", "lantern").serve(&good, "ns/lantern");
    let place = format!("location = \"{}\"\ninsecure = true\n", good.host());
    env.file("base/home/.config/containers/registries.conf", format!("[[registry]]\nprefix = \"good.test\"\n{place}"));
    env.stdout(&["mirror", "pull", "good.yaml", "base/set", "--use-http"]);
    env.stdout(&["oc-mirror", "--v2", "--src-tls-verify=false", "-c", "good.yaml", "file://base/oc-set"]);
    for version in ["1.0.0", "1.1.0"] {
        let csv =
            format!("kind: ClusterServiceVersion\nmetadata: {{name: foo.v{version}}}\nspec: {{version: {version}}}\n");
        let prefix = "operators.operatorframework.io.bundle";
        let annotations = format!("annotations: {{{prefix}.package.v1: foo, {prefix}.channels.v1: stable}}\n");
        env.file(&format!("foo-{version}/manifests/csv.yaml"), csv);
        env.file(&format!("foo-{version}/metadata/annotations.yaml"), annotations);
    }
    let added = ["--bundle-images", "./foo-1.0.0,./foo-1.1.0", "--mode", "semver"];
    env.stdout(&[&["registry", "add", "--database", "base/latest.db"], &added[..]].concat());
    fs::copy(env.path("base/set/mirror/lock.json"), env.path("base/lock.json")).expect("a lock");
    let index = fs::read_to_string(env.path("base/image/index.json")).expect("an index");
    let named = index.replace("\"size\"", "\"annotations\":{\"org.opencontainers.image.ref.name\":\"v1\"},\"size\"");
    fs::write(env.path("base/image/index.json"), named).expect("an index");
}

/// Starts a cluster that permits everything but takes no objects. It has both generations of OLM, and the operator `lantern` from a catalog.
fn start_cluster(catalog: &str) -> FakeRegistry {
    let subscription = json!({
        "metadata": {"name": "lantern", "namespace": "default"},
        "spec": {"name": "lantern", "channel": "stable", "source": "lanterns", "sourceNamespace": "default"},
    });
    let source = json!({"metadata": {"name": "lanterns", "namespace": "default"}, "spec": {"image": catalog}});
    let kinds = "ClusterExtension ClusterCatalog Deployment CustomResourceDefinition ClusterRole ClusterRoleBinding Role \
        RoleBinding PodDisruptionBudget PriorityClass Service ServiceAccount ConfigMap Secret Namespace";
    let kind = |kind: &str| {
        let name = kind.to_lowercase();
        json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": []})
    };
    let kinds: Vec<serde_json::Value> = kinds.split(' ').map(kind).collect();
    FakeRegistry::start(move |request| {
        let path = request.path.split('?').next().unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        let found = match (request.method.as_str(), last) {
            ("POST", "selfsubjectaccessreviews") => Some(json!({"status": {"allowed": true}})),
            ("GET", "default" | "other") => Some(json!({"metadata": {"name": last}})),
            ("GET", "subscriptions") if path.contains("/namespaces/default/") => {
                Some(json!({"metadata": {}, "items": [subscription]}))
            }
            ("GET", kinds) if kinds.ends_with('s') && kinds != "lanterns" => Some(json!({"metadata": {}, "items": []})),
            // Every group has all kinds.
            ("GET", "v1") => Some(json!({"groupVersion": path.trim_start_matches("/apis/"), "resources": kinds})),
            ("GET", "lanterns") => Some(source.clone()),
            _ => None,
        };
        let refusal = match request.method.as_str() {
            "GET" => json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": path}),
            _ => {
                json!({"kind": "Status", "status": "Failure", "reason": "Invalid", "code": 422, "message": NO_OBJECTS})
            }
        };
        let status = if found.is_some() { 200 } else { refusal["code"].as_u64().unwrap_or_default() as u16 };
        let response = FakeResponse::status(status).body(found.unwrap_or(refusal).to_string());
        (ResponseFault::None, Some(response.header("Content-Type", "application/json")))
    })
}

fn image_set(list: &str, field: &str, name: &str) -> String {
    format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  {list}:\n  - {field}: {name}\n"
    )
}

/// Returns the files below a directory. Which partial blobs are left depends on the order of transfers.
fn files(root: &Path, below: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && name != "partial" {
            files(root, &entry.path(), found);
        } else if !entry.path().is_dir() {
            let path = entry.path();
            let parts = path.strip_prefix(root).expect("below").iter().map(|part| match part.to_string_lossy() {
                part if part.len() == 64 => "DIGEST".into(),
                part if part.starts_with("127.0.0.1:") => "HOST".into(),
                part => part,
            });
            found.insert(parts.collect::<Vec<_>>().join("/"));
        }
    }
}

/// Runs a command in a copy of the files, and returns its line of the table.
fn outcome(base: &Path, host: &str, plain: bool, name: &str, arguments: &str) -> String {
    let env = TestEnv::new();
    copy(base, &env.path("."));
    let image = format!("{host}/ns/catalog:v1");
    env.file(
        "template.yaml",
        format!("schema: olm.template.basic\nentries:\n- schema: olm.bundle\n  image: {image}\n"),
    )
    .file("images.yaml", image_set("additionalImages", "name", &image))
    .file("catalogs.yaml", image_set("operators", "catalog", &image))
    .file(
        "delete.yaml",
        image_set("additionalImages", "name", &image)
            .replace("ImageSet", "DeleteImageSet")
            .replace("\nmirror:", "\ndelete:"),
    )
    .file("list.yaml", format!("kind: DeleteImageList\nitems:\n- imageReference: docker://{host}/m/ns/catalog:v1\n"))
    .file("tmp/kept", "");
    let list = |env: &TestEnv| {
        let mut found = BTreeSet::new();
        files(&env.path("."), &env.path("."), &mut found);
        found
    };
    let before = list(&env);
    let filled = arguments.replace("{ref}", &image).replace("{host}", host);
    let words = name.split(' ').chain(filled.split(' ')).map(|word| if word == "=" { "" } else { word });
    let mut command = env.command();
    let plain_http: &[&str] = match name.starts_with("oc-mirror") {
        _ if !plain => &[],
        true => &["--src-tls-verify=false", "--dest-tls-verify=false"],
        false => &["--use-http"],
    };
    command.env("TMPDIR", env.path("tmp")).args(words).args(plain_http);
    // Reports go to stdout, everything else to stderr.
    let (mut printed, output) = std::io::pipe().expect("a pipe");
    let errors = output.try_clone().expect("a pipe");
    let mut child = command.stdout(output).stderr(errors).spawn().expect("opm runs");
    drop(command);
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        printed.read_to_string(&mut text).expect("text");
        text
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    let code = loop {
        match child.try_wait().expect("a status") {
            Some(status) => break status.code().map_or("signal".to_owned(), |code| code.to_string()),
            None if Instant::now() > deadline => {
                child.kill().expect("killed");
                break "none".to_owned();
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let error = reader.join().expect("the output");
    let (message, class) = MESSAGES.iter().find(|(text, _)| error.contains(text)).copied().unwrap_or(("-", "-"));
    assert!(code == "0" || message != "-", "{name} {arguments} fails for another reason: {error}");
    // Mirrors report the class themselves.
    for (says, reported) in [("missing images: ", "missing"), ("failed images: ", "failed")] {
        assert!(!error.contains(says) || reported == class || class == "-", "{name} {arguments}: {error}");
    }
    let left: Vec<String> = list(&env).difference(&before).cloned().collect();
    let left = if left.is_empty() { String::new() } else { format!("; leaves {}", left.join(" ")) };
    format!("{name} {arguments}: {code}, {class}, {message}{left}")
}

/// Compares all commands against one registry with the table.
fn check(fault: &str, host: &str, plain: bool, env: &TestEnv) {
    let base = env.path("base");
    let cluster = start_cluster(&format!("{host}/ns/catalog:v1"));
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("http://{}", cluster.host())}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {}}],
    });
    env.file("base/kubeconfig", kubeconfig.to_string());
    // The next head of the package is at the registry.
    let database = rusqlite::Connection::open(env.path("base/latest.db")).expect("a database");
    let sql = "UPDATE operatorbundle SET bundlepath = ?1, csv = NULL, bundle = NULL WHERE version = '1.0.0'";
    database.execute(sql, [format!("{host}/ns/catalog:v1")]).expect("a change");
    drop(database);
    let next = Mutex::new(COMMANDS.iter().enumerate());
    let lines = Mutex::new(vec![String::new(); COMMANDS.len()]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let Some((number, (name, arguments))) = next.lock().expect("a queue").next() else { return };
                    let line = outcome(&base, host, plain, name, arguments);
                    lines.lock().expect("lines")[number] = line;
                }
            });
        }
    });
    let mut found = format!("== {fault}\n");
    for line in lines.lock().expect("lines").iter() {
        let _ = writeln!(found, "{line}");
    }
    if fault != "missing" && fault != "404" {
        assert!(!found.contains(", missing, "), "a failure counts as a missing image:\n{found}");
    }
    let start = OUTCOMES.find(&format!("== {fault}\n")).unwrap_or(OUTCOMES.len());
    let end = OUTCOMES[start..].find("\n== ").map_or(OUTCOMES.len(), |end| start + end + 1);
    assert!(OUTCOMES[start..end] == found, "another outcome than in registries.txt:\n{found}");
}

/// Accepts uploads, for registries whose fault affects only downloads.
fn upload(request: &FakeRequest) -> Option<FakeResponse> {
    match request.method.as_str() {
        "POST" => Some(FakeResponse::status(202).header("Location", "/upload")),
        "PUT" | "PATCH" => Some(FakeResponse::status(201)),
        _ => None,
    }
}

/// Starts a registry whose repositories have a fault, and compares all commands with the table.
fn check_fault(
    fault: &str,
    rule: impl Fn(&FakeRequest) -> (ResponseFault, Option<FakeResponse>) + Send + Sync + 'static,
) {
    let env = TestEnv::new();
    let parts = Parts::of_catalog(&env);
    prepare(&env, &parts);
    let registry = FakeRegistry::start(move |request| match request.path.as_str() {
        "/v2/" => (ResponseFault::None, None),
        _ => rule(request),
    });
    parts.serve(&registry, "ns/catalog");
    parts.serve(&registry, "m/ns/catalog");
    check(fault, registry.host(), true, &env);
}

/// Compares all commands with the table, for a registry at this address.
fn check_host(fault: &str, host: &str) {
    let env = TestEnv::new();
    prepare(&env, &Parts::of_catalog(&env));
    check(fault, host, false, &env);
}

#[test]
fn a_missing_image_is_reported_by_every_command() {
    let body = r#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}"#;
    check_fault("missing", move |request| match request.method.as_str() {
        "GET" | "HEAD" => (ResponseFault::None, Some(FakeResponse::status(404).body(body))),
        _ => (ResponseFault::None, upload(request)),
    });
}

#[test]
fn a_404_without_a_message_is_reported_by_every_command() {
    check_fault("404", |_| (ResponseFault::Status(404), None));
}

#[test]
fn a_401_fails_every_command() {
    check_fault("401", |_| (ResponseFault::Status(401), None));
}

#[test]
fn a_403_fails_every_command() {
    check_fault("403", |_| (ResponseFault::Status(403), None));
}

#[test]
fn a_429_fails_every_command() {
    // A delay above the maximum is not waited for.
    check_fault("429", |_| (ResponseFault::TooMany(3600), None));
}

#[test]
fn a_500_fails_every_command() {
    check_fault("500", |_| (ResponseFault::None, Some(FakeResponse::status(500).header("Retry-After", "3600"))));
}

#[test]
fn endless_redirects_fail_every_command() {
    check_fault("redirect", |_| (ResponseFault::Redirect, None));
}

#[test]
fn a_truncated_manifest_fails_every_command() {
    check_fault("truncated", |request| match request.method.as_str() {
        "GET" if request.path.contains("/manifests/") => (ResponseFault::Truncated, None),
        _ => (ResponseFault::None, upload(request)),
    });
}

#[test]
fn a_blob_with_another_digest_fails_every_command_that_reads_it() {
    check_fault("wrong digest", |request| match request.method.as_str() {
        "GET" if request.path.contains("/blobs/") => (ResponseFault::Wrong, None),
        _ => (ResponseFault::None, upload(request)),
    });
}

#[test]
fn an_unknown_host_fails_every_command() {
    check_host("DNS", "nowhere.invalid");
}

#[test]
fn a_refused_connection_fails_every_command() {
    check_host("refused", &format!("127.0.0.1:{}", testkit::free_port()));
}

#[test]
fn an_untrusted_certificate_fails_every_command() {
    let Some(registry) = DockerRegistry::start(RegistryPlan { tls: true, ..RegistryPlan::default() }) else { return };
    check_host("TLS", registry.host());
}
