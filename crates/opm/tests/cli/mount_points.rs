//! Catalogs in directories that are mount points, like volumes of containers.

use std::process::Command;

use crate::env::{SMALL, TestEnv};

/// Runs a script with a new file system mounted at `volume`, and returns its output; `None` if mounting is not
/// allowed.
fn on_volume(env: &TestEnv, script: &str) -> Option<String> {
    std::fs::create_dir_all(env.path("volume")).unwrap();
    let script = format!("mount -t tmpfs tmpfs volume || exit 77\nset -e\n{script}");
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", &script])
        .current_dir(env.path("."))
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("opm", env!("CARGO_BIN_EXE_opm"))
        .output();
    match output {
        Ok(output) if output.status.code() == Some(77) => {}
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("unshare failed") => {}
        Ok(output) => {
            assert!(output.status.success(), "{}", env.show(output));
            return Some(String::from_utf8(output.stdout).unwrap());
        }
        Err(_) => {}
    }
    testkit::skipped("this user can mount nothing");
    None
}

#[test]
fn commands_can_write_a_catalog_to_a_mount_point() {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", SMALL);
    env.stdout(&["build", "catalog", "--data-only", "-t", "r.test/c:v1", "--to", "oci:image"]);
    let script = "
        $opm migrate catalog volume && ls -A volume && rm -r volume/*
        $opm unpack oci:image --unpack-dir volume && ls -A volume && rm -r volume/*
        $opm edit deprecate catalog -p foo -m old --to volume -q && ls -A volume && $opm validate volume";
    let Some(listed) = on_volume(&env, script) else { return };
    assert_eq!(listed, "foo\nfoo.yaml\nfoo.yaml\n");
}

#[test]
fn a_catalog_on_a_mount_point_is_edited_in_place() {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", SMALL).file("catalog/bar.yaml", SMALL.replace("foo", "bar"));
    let script = "
        cp catalog/* volume
        chmod 640 volume/foo.yaml
        $opm edit deprecate volume -p foo -m old -q
        stat -c %a volume/foo.yaml
        $opm edit filter volume -p foo -q
        $opm edit add-bundle volume bundle --create --channel a --image r.test/b:v1 -q
        ls -A volume .
        $opm validate volume
        $opm list packages volume -o csv | cut -d, -f1";
    env.file(
        "bundle/manifests/csv.yaml",
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: baz.v1.0.0}\n\
         spec: {version: 1.0.0}\n",
    );
    env.file(
        "bundle/metadata/annotations.yaml",
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: baz\n",
    );
    let Some(listed) = on_volume(&env, script) else { return };
    assert_eq!(listed, "640\n.:\nbundle\ncatalog\nvolume\n\nvolume:\nbaz\nfoo.yaml\nname\nbaz\nfoo\n");
}

/// Text that does not get much smaller by compression.
fn noise(length: usize) -> String {
    let mut state = 1_u64;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-"[(state >> 58) as usize])
    };
    (0..length).map(letter).collect()
}

#[test]
fn a_full_disk_is_named() {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", format!("{SMALL}---\nschema: x.test\nname: {}\n", noise(2_000_000)));
    env.stdout(&["build", "catalog", "--data-only", "-t", "r.test/c:v1", "--to", "oci:image"]);
    let script = "
        mount -o remount,size=200k volume
        ! $opm copy oci:image oci:volume/copy 2>&1
        ! $opm copy oci:image oci-archive:volume/copy.tar 2>&1
        ! $opm serve catalog --cache-only --cache-dir volume/cache -t '' 2>/dev/null
        $opm serve catalog --cache-only --cache-dir volume/cache -t '' 2>&1 | grep error
        export TMPDIR=$PWD/volume
        ! $opm build catalog --data-only --to oci:built 2>&1";
    let Some(printed) = on_volume(&env, script) else { return };
    let full = "No space left on device (os error 28)\n";
    let [layout, archive, cache, temporary] = printed.split_inclusive('\n').collect::<Vec<_>>()[..] else {
        panic!("{printed}");
    };
    assert!(layout.ends_with(&format!(": volume/copy: {full}")), "{layout}");
    assert!(archive.ends_with(&format!(": volume/copy.tar: {full}")), "{archive}");
    assert_eq!(cache, format!("error: failed to load or rebuild cache: volume/cache: {full}"));
    assert!(temporary.contains("/volume/opm-build-") && temporary.ends_with(full), "{temporary}");
}
