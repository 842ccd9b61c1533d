//! The programs of mirrored catalogs: which image gets one, and how clusters serve an image without one.

use std::fs;
use std::process::Command;

use serde_json::Value;
use testkit::static_program;

use crate::kit::{Kit, mirror, names};

/// Pushes a catalog with a program as `tag`.
pub(crate) fn publish_with_program(kit: &Kit, tag: &str) {
    fs::write(kit.path("static"), static_program()).unwrap();
    let (catalog, name) = (kit.path("catalog-v1").display().to_string(), format!("{}/ns/index:{tag}", kit.host));
    let build = ["build", &catalog, "-t", &name, "--push", "--use-http"];
    kit.stdout(&[&build[..], &["--platform", "linux/amd64", "--binary", "linux/amd64=static"]].concat());
}

/// Returns the catalog in the lock of a set, and the settings of its image.
fn catalog(kit: &Kit, set: &str) -> (Value, Value) {
    let read = |path: String| serde_json::from_str::<Value>(&kit.read(&path)).unwrap();
    let blob = |digest: &Value| {
        let digest = digest.as_str().unwrap().trim_start_matches("sha256:").to_owned();
        read(format!("{set}/blobs/sha256/{digest}"))
    };
    let locked = read(format!("{set}/mirror/lock.json"))["catalogs"][0].clone();
    let manifest = blob(&locked["image"]);
    let config = blob(&manifest["config"]["digest"]);
    (locked, config["config"].clone())
}

/// Pushes a set and returns its CatalogSource as text.
fn catalog_source(kit: &Kit, set: &str, tag: &str) -> String {
    kit.mirror(&["push", set, &kit.to()]);
    kit.read(&format!("cluster-resources/cs-index-{tag}.yaml"))
}

#[test]
fn a_catalog_without_a_program_stays_so_and_clusters_extract_it() {
    let Some(kit) = Kit::new() else { return };
    let part = kit.set("part.yaml", "    - name: alpha\n");
    let whole = kit.read(&part).replace("    packages:\n    - name: alpha\n", "    full: true\n");
    fs::write(kit.path("whole.yaml"), whole).unwrap();
    let extracted = "  grpcPodConfig:\n    extractContent:\n      catalogDir: /configs\n";
    for (file, program) in
        [(part.as_str(), None), ("whole.yaml", None), (&part, Some("original")), (&part, Some("none"))]
    {
        let set = format!("set-{file}-{}", program.unwrap_or("default"));
        let mut pull = mirror(&["pull", file, &set]);
        pull.extend(program.map(|program| ["--catalog-program", program]).iter().flatten());
        let output = kit.run(&pull);
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{set}: {shown}");
        assert!(!shown.contains("program"), "{set}: {shown}");
        let (locked, settings) = catalog(&kit, &set);
        assert_eq!(locked["extractContent"], "/configs", "{set}");
        assert!(settings["Entrypoint"].is_null() && settings["Cmd"].is_null(), "{set}: {settings}");
        let source = catalog_source(&kit, &set, "v1");
        assert!(source.contains(extracted) && !source.contains("cacheDir"), "{set}: {source}");
    }
}

#[test]
fn a_program_that_cannot_run_in_the_image_is_reported_by_the_plan() {
    let Some(kit) = Kit::new() else { return };
    publish_with_program(&kit, "v2");
    let file = kit.set_of("set.yaml", "v2", "    - name: alpha\n", "");
    // The program under test needs libraries: by default, none is included.
    let planned = kit.run(&mirror(&["plan", &file]));
    let note = String::from_utf8_lossy(&planned.stderr).into_owned();
    assert!(planned.status.success(), "{note}");
    assert_eq!(note.lines().filter(|line| line.contains("its image contains no program")).count(), 1, "{note}");
    for part in ["is dynamically linked", "--binary linux/amd64=FILE", "--catalog-program original"] {
        assert!(note.contains(part), "{part}: {note}");
    }
    kit.mirror(&["pull", &file, "set"]);
    let (locked, settings) = catalog(&kit, "set");
    assert_eq!(locked["extractContent"], "/configs");
    assert!(settings["Entrypoint"].is_null(), "{settings}");
    assert!(catalog_source(&kit, "set", "v2").contains("extractContent:"));
    // A requested program must be able to run. The plan refuses it, and a pull fetches nothing.
    for command in [&["plan", &file][..], &["pull", &file, "none"]] {
        let refused = kit.mirror_fails(&[command, &["--catalog-program", "ours"]].concat());
        assert!(
            refused.contains("is dynamically linked") && refused.contains("--binary linux/amd64=FILE"),
            "{refused}"
        );
        assert!(!refused.contains("--data-only") && !refused.contains("--base-image"), "{refused}");
    }
    assert!(!kit.path("none/mirror/lock.json").exists());
    // The advice works, also on the set of before.
    for advice in [["--binary", "linux/amd64=static"], ["--catalog-program", "original"]] {
        kit.mirror(&[&["pull", &file, "set"][..], &advice].concat());
        let (locked, settings) = catalog(&kit, "set");
        assert!(locked["extractContent"].is_null(), "{locked}");
        assert_eq!(settings["Entrypoint"], serde_json::json!(["/bin/opm"]), "{advice:?}");
        let source = catalog_source(&kit, "set", "v2");
        assert!(!source.contains("extractContent"), "{source}");
    }
}

#[test]
fn the_original_program_of_a_catalog_in_a_directory_is_refused_before_the_transfer() {
    // No registry is contacted before the refusal.
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| fs::write(dir.path().join(name), content).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opm"));
        command.current_dir(dir.path()).env_clear().env("HOME", dir.path()).args(arguments).output().unwrap()
    };
    fs::create_dir(dir.path().join("catalog")).unwrap();
    let catalog: String = ["alpha", "beta"]
        .map(|name| {
            format!(
                "---\nschema: olm.package\nname: {name}\ndefaultChannel: stable\n---\nschema: olm.channel\n\
                 package: {name}\nname: stable\nentries:\n- name: {name}.v1.0.0\n---\nschema: olm.bundle\n\
                 package: {name}\nname: {name}.v1.0.0\nimage: 127.0.0.1:1/ns/{name}@sha256:{}\nproperties:\n\
                 - type: olm.package\n  value: {{packageName: {name}, version: 1.0.0}}\n",
                "0".repeat(64)
            )
        })
        .concat();
    write("catalog/catalog.yaml", catalog.as_bytes());
    write("static", &static_program());
    let built =
        run(&["build", "catalog", "-o", "oci:layout", "--platform", "linux/amd64", "--binary", "linux/amd64=static"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let layout = dir.path().join("layout").display().to_string();
    let set = format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  operators:\n  \
         - catalog: oci://{layout}\n    packages:\n    - name: alpha\n"
    );
    write("set.yaml", set.as_bytes());
    for command in [&["plan", "set.yaml"][..], &["pull", "set.yaml", "none"]] {
        let refused = run(&mirror(&[command, &["--catalog-program", "original"]].concat()));
        let shown = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{shown}");
        assert!(shown.contains("requires a catalog in a registry"), "{shown}");
        assert!(shown.contains("help: use --catalog-program ours, or --catalog-program none"), "{shown}");
    }
    // Only the catalog was read.
    let blobs = |of: &str| names(&dir.path().join(of).join("blobs/sha256"));
    let catalog = blobs("layout");
    assert!(blobs("none").iter().all(|blob| catalog.contains(blob)), "{:?}", blobs("none"));
}

#[test]
fn an_original_without_the_requested_platforms_is_refused_by_the_plan() {
    let Some(kit) = Kit::new() else { return };
    publish_with_program(&kit, "v2");
    kit.index_of("ns/index:v2", "ns/index:v3");
    let other = "    platforms:\n    - {os: linux, architecture: s390x}\n";
    let file = kit.set_of("other.yaml", "v3", "    - name: alpha\n", other);
    let to = kit.to();
    for command in [&["plan", &file][..], &["pull", &file, "none"], &["copy", &file, &to]] {
        let refused = kit.mirror_fails(&[command, &["--catalog-program", "original"]].concat());
        assert!(refused.contains("requires an image for linux/s390x, which the catalog does not have"), "{refused}");
        assert!(refused.contains("help: use --catalog-program ours, or --catalog-program none"), "{refused}");
    }
    // Only the catalog was read.
    assert!(!kit.path("none/mirror/report.json").exists() && !kit.path("none/mirror/lock.json").exists());
    let lacks = |name: &str| !kit.path("none/blobs/sha256").join(kit.digest_of(name).unwrap().hex()).exists();
    assert!(lacks("ns/alpha-bundle:v2.0.0") && kit.closed_digest("m/ns/alpha-bundle:v2.0.0").is_none());
    // The platforms that it has are enough.
    let file = kit.set_of("both.yaml", "v3", "    - name: alpha\n", &other.replace("s390x", "amd64"));
    kit.mirror(&["pull", &file, "set", "--catalog-program", "original"]);
    assert_eq!(catalog(&kit, "set").1["Entrypoint"], serde_json::json!(["/bin/opm"]));
}
