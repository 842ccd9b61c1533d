//! `run bundle` with file-based catalogs, as a dry run without a cluster.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::Stage;

const BUNDLE: &str = "HOST/example/etcd-bundle";

fn stage() -> Option<Stage> {
    let stage = Stage::new()?;
    stage.push_bundle("example/etcd-bundle:v0.9.2", "0.9.2", "alpha", "alpha");
    stage.push_bundle("example/etcd-bundle:v0.9.0", "0.9.0", "alpha", "alpha");
    Some(stage)
}

/// Returns the catalog in the ConfigMaps of a run.
fn catalog(objects: &str) -> String {
    let parts =
        objects.split("extraFBC: ").skip(1).map(|rest| unpacked(rest.split_whitespace().next().expect("base64")));
    parts.collect::<Vec<_>>().join("---\n")
}

fn unpacked(packed: &str) -> String {
    let mut gzip = Command::new("gzip");
    let mut gzip = gzip.arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip runs");
    gzip.stdin.take().expect("a pipe").write_all(&fbc::base64::decode(packed).expect("base64")).expect("written");
    String::from_utf8(gzip.wait_with_output().expect("an end").stdout).expect("text")
}

#[test]
fn example_ux_scenarios_a_bundle_alone() {
    let Some(stage) = stage() else { return };
    let objects = stage.ok(&format!("operator-sdk run bundle {BUNDLE}:v0.9.2 --use-http --dry-run"));
    // "using the default upstream opm image", "served over a gRPC port through the ephemeral registry pod"
    let image = objects.split("image: quay.io/operator-framework/opm").nth(1).and_then(|rest| rest.lines().next());
    assert!(image.is_some_and(|rest| rest == ":latest" || rest.starts_with("@sha256:")), "{objects}");
    assert!(objects.contains("opm serve /etcd-catalog-configs -p 50051\n"), "{objects}");
    let catalog = catalog(&objects);
    for part in ["schema: olm.package\n", "schema: olm.channel\n", "name: etcdoperator.v0.9.2\n"] {
        assert!(catalog.contains(part), "{part}: {catalog}");
    }
    let host = stage.registry.host();
    let pinned = format!("image: {host}/example/etcd-bundle:v0.9.2@sha256:");
    assert!(catalog.contains(&pinned), "the bundle is not pinned: {catalog}");
    let objects = stage.ok(&format!("operator-sdk run bundle {BUNDLE}:v0.9.2 --use-http --dry-run --pin=false"));
    assert!(self::catalog(&objects).contains(&format!("image: {host}/example/etcd-bundle:v0.9.2\n")));
}

#[test]
fn example_ux_scenarios_a_file_based_catalog() {
    let Some(stage) = stage() else { return };
    // A bundle that is in the index already
    let rendered = stage.ok(&format!("opm render --use-http {BUNDLE}:v0.9.0"));
    let others = "{\"schema\": \"olm.package\", \"name\": \"etcd\", \"defaultChannel\": \"alpha\"}\n\
        {\"schema\": \"olm.channel\", \"package\": \"etcd\", \"name\": \"alpha\", \"entries\": [{\"name\": \"etcdoperator.v0.9.0\"}]}\n";
    stage.env.file("index/etcd.json", format!("{others}{rendered}"));
    stage.ok("opm build index --data-only --use-http -t HOST/example/test-fbc-catalog:latest --push");
    let line = |version: &str| {
        format!(
            "operator-sdk run bundle {BUNDLE}:{version} --index-image HOST/example/test-fbc-catalog --use-http --dry-run"
        )
    };
    let catalog = catalog(&stage.ok(&line("v0.9.2")));
    assert!(catalog.contains("etcdoperator.v0.9.0") && catalog.contains("etcdoperator.v0.9.2"), "{catalog}");
    // "If it exists, then we error out."
    let output = stage.run(&line("v0.9.0"));
    assert!(!output.status.success());
    let shown = stage.env.show(output);
    assert!(shown.contains("already exists in the index image"), "{shown}");
}

#[test]
fn example_ux_scenarios_a_database() {
    let Some(stage) = stage() else { return };
    // The pod needs the shell of a base image; any image that is not known to have none will do here.
    stage.ok(&format!(
        "opm index add --mode semver --use-http -b {BUNDLE}:v0.9.0 --container-tool none --binary-image {BUNDLE}:v0.9.0 \
         -t HOST/example/test-sqlite-catalog:latest --push"
    ));
    let objects = stage.ok(&format!(
        "operator-sdk run bundle {BUNDLE}:v0.9.2 --index-image HOST/example/test-sqlite-catalog --use-http --dry-run"
    ));
    // "by making use of opm registry add and opm registry serve commands under the hood and without creating an FBC"
    let host = stage.registry.host();
    assert!(
        objects.contains(&format!("opm registry add -d /tmp/tmp.db -b {host}/example/etcd-bundle:v0.9.2 ")),
        "{objects}"
    );
    assert!(objects.contains("opm registry serve -d /tmp/tmp.db -p 50051\n"), "{objects}");
    assert!(!objects.contains("kind: ConfigMap\n"), "{objects}");
}
