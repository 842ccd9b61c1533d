//! The programs of mirrored catalogs: which image gets one, and how clusters serve an image without one.

use std::fs;

use serde_json::Value;
use testkit::static_program;

use crate::kit::{Kit, mirror};

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
