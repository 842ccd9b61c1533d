//! M-14 and M-27: full disks, registries that reject uploads, and networks that reach only the registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::{DockerRegistry, RegistryPlan};

use crate::kit::{Kit, names};

const ALPHA: &str = "    - name: alpha\n      minVersion: 1.0.0\n";

/// Runs a script in its own namespaces, in which it may mount and whose processes end with it; `None` if that is
/// forbidden.
fn in_namespaces(kit: &Kit, flags: &str, script: &str) -> Option<Output> {
    let may = Command::new("unshare").args([flags, "--map-root-user", "--pid", "--fork", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        testkit::skipped("this machine allows no namespaces");
        return None;
    }
    let opm = env!("CARGO_BIN_EXE_opm");
    let whole = format!("set -u\nmirror() {{ command={opm}; \"$command\" mirror --use-http \"$@\"; }}\n{script}");
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("unshare")
        .args([flags, "--map-root-user", "--pid", "--fork", "--kill-child", "sh", "-c", &whole])
        .current_dir(kit.path(""))
        .env("HOME", kit.path("home"))
        .env("PATH", path)
        .output();
    Some(output.unwrap())
}

fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn m14_insufficient_disk_space_is_reported_before_the_first_byte() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    kit.mirror(&["pull", &file, "whole"]);
    let before = kit.proxy.count();
    let script = format!(
        "mkdir small volumes\nmount -t tmpfs -o size=1m tmpfs small || exit 9\n\
         mount -t tmpfs -o size=1m tmpfs volumes || exit 9\n\
         mirror pull {file} small; echo pulled=$?\nls small/blobs/sha256 | wc -l\n\
         mirror pull {file} whole --volumes 1MiB --to volumes; echo packed=$?\nls volumes | wc -l\n"
    );
    let Some(output) = in_namespaces(&kit, "--mount", &script) else { return };
    let messages = text(&output);
    assert!(messages.contains("pulled=1\n") && messages.contains("packed=1\n"), "{messages}");
    assert_eq!(messages.matches(" short\n").count(), 2, "{messages}");
    // Manifests and the catalog were fetched, and no image.
    assert!(kit.proxy.count() - before < 200_000, "{} bytes", kit.proxy.count() - before);
}

#[test]
fn m14_a_full_disk_changes_nothing_and_more_space_resumes() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    let digest = kit.mirror(&["pull", &file, "whole"]);
    // There is space for bytes, but not for inodes, which no check can predict.
    let script = format!(
        "mkdir small volumes\nmount -t tmpfs -o size=50m,nr_inodes=30 tmpfs small || exit 9\n\
         mirror pull {file} small; echo pulled=$?\n\
         for blob in small/blobs/sha256/*; do echo \"$(basename $blob)  $blob\"; done | sha256sum -c --quiet; echo sums=$?\n\
         mount -o remount,size=50m,nr_inodes=1000 small || exit 9\n\
         mirror pull {file} small; echo again=$?\nmirror verify small; echo verified=$?\n\
         mount -t tmpfs -o size=50m,nr_inodes=3 tmpfs volumes || exit 9\n\
         mirror pull {file} whole --volumes 1MiB --to volumes; echo packed=$?\n\
         mount -o remount,size=50m,nr_inodes=1000 volumes || exit 9\n\
         mirror pull {file} whole --volumes 1MiB --to volumes; echo repacked=$?\n\
         mirror verify volumes; echo volumes=$?\n"
    );
    let Some(output) = in_namespaces(&kit, "--mount", &script) else { return };
    let messages = text(&output);
    assert!(messages.contains("pulled=1\n") && messages.contains("sums=0\n"), "{messages}");
    assert!(
        messages.contains("free disk space and run the command again") || messages.contains("No space left"),
        "{messages}"
    );
    for expected in ["again=0\n", "verified=0\n", "packed=1\n", "repacked=0\n", "volumes=0\n"] {
        assert!(messages.contains(expected), "{expected}: {messages}");
    }
    assert!(messages.contains(&digest), "{messages}");
}

#[test]
fn m14_a_full_registry_is_reported_and_a_later_push_completes() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    let digest = kit.mirror(&["pull", &file, "out"]);
    let place = format!("127.0.0.1:{}", testkit::free_port());
    let config = "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: \
        DIR/data}, delete: {enabled: true}}\nhttp: {addr: ADDRESS}\n";
    let config = config.replace("DIR", &kit.path("").display().to_string()).replace("ADDRESS", &place);
    fs::write(kit.path("registry.yml"), config).unwrap();
    let script = format!(
        "mkdir data\nmount -t tmpfs -o size=1m tmpfs data || exit 9\n\
         docker-registry serve registry.yml >registry.log 2>&1 &\nsleep 1\n\
         mirror push out {place}/m; echo pushed=$?\n\
         ls data/docker/registry/v2/repositories/m/ns/index/_manifests/tags; echo tags=$?\n\
         mount -o remount,size=50m data || exit 9\nmirror push out {place}/m; echo again=$?\n\
         mirror verify {place}/m --lock out/mirror/lock.json --deep; echo verified=$?\n"
    );
    let Some(output) = in_namespaces(&kit, "--mount", &script) else { return };
    let messages = text(&output);
    assert!(messages.contains("pushed=1\n") && messages.contains("the catalog tags stay unchanged"), "{messages}");
    assert!(!messages.contains("tags=0\n"), "an incomplete catalog has a tag: {messages}");
    // The registry may keep a truncated manifest of the full disk. Then a push must not report success.
    let whole = messages.contains("again=0\n") && messages.contains("verified=0\n") && messages.contains(&digest);
    let damaged = messages.contains("again=1\n") && messages.contains("has a damaged copy of the manifest");
    assert!(whole || damaged, "{messages}");
}

#[test]
fn a_set_on_read_only_media_is_pushed_and_verified() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    let digest = kit.mirror(&["pull", &file, "out"]);
    let to = kit.to();
    let script = format!(
        "mount --bind out out && mount -o remount,bind,ro out || exit 9\ntouch out/x && exit 8\n\
         mirror verify out; echo here=$?\nmirror push out {to}; echo pushed=$?\n\
         mirror verify {to} --lock out/mirror/lock.json; echo there=$?\n"
    );
    let Some(output) = in_namespaces(&kit, "--mount", &script) else { return };
    let messages = text(&output);
    for expected in ["here=0\n", "pushed=0\n", "there=0\n"] {
        assert!(messages.contains(expected), "{expected}: {messages}");
    }
    assert_eq!(messages.matches(digest.trim()).count(), 3, "{messages}");
}

#[test]
fn m14_a_truncated_manifest_in_a_registry_is_reported() {
    let Some(kit) = Kit::new() else { return };
    let Some(closed) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let file = kit.set("set.yaml", ALPHA);
    kit.mirror(&["pull", &file, "out"]);
    let to = format!("{}/m", closed.host());
    kit.mirror(&["push", "out", &to]);
    // A full disk leaves the file without its content.
    let mut cut = 0;
    for file in files_below(&closed.data()).into_iter().filter(|file| file.ends_with("data")) {
        if fs::read(&file).unwrap().starts_with(b"{\"schemaVersion\"") {
            fs::write(&file, "").unwrap();
            cut += 1;
        }
    }
    assert!(cut > 0, "there is no manifest in {}", closed.data().display());
    let error = kit.mirror_fails(&["push", "out", &to]);
    assert!(error.contains("has a damaged copy of the manifest and accepts no other before"), "{error}");
}

/// Returns all files below a directory.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn m27_only_the_address_of_the_registry_is_needed() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    let digest = kit.mirror(&["pull", &file, "out"]);
    let config = "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: \
        DIR/data}}\nhttp: {addr: 127.0.0.1:5000}\n";
    fs::write(kit.path("registry.yml"), config.replace("DIR", &kit.path("").display().to_string())).unwrap();
    // Only a loopback interface exists: any other address or name fails.
    let script = "ip link set lo up || exit 9\ndocker-registry serve registry.yml >registry.log 2>&1 &\nsleep 1\n\
         mirror push out 127.0.0.1:5000/m; echo pushed=$?\n\
         mirror verify 127.0.0.1:5000/m --lock out/mirror/lock.json; echo verified=$?\nmirror verify out; echo here=$?\n";
    if !testkit::installed("ip") {
        return;
    }
    let Some(output) = in_namespaces(&kit, "--net", script) else { return };
    let messages = text(&output);
    for expected in ["pushed=0\n", "verified=0\n", "here=0\n"] {
        assert!(messages.contains(expected), "{expected}: {messages}");
    }
    assert_eq!(messages.matches(digest.trim()).count(), 3, "{messages}");
}

#[test]
fn a_registry_that_rejects_uploads_is_reported_first() {
    let Some(kit) = Kit::new() else { return };
    let Some(closed) = DockerRegistry::start(RegistryPlan { password: true, ..RegistryPlan::default() }) else {
        return;
    };
    let file = kit.set("set.yaml", ALPHA);
    kit.mirror(&["pull", &file, "out"]);
    let to = format!("{}/m", closed.host());
    let error = kit.mirror_fails(&["push", "out", &to]);
    assert!(
        error.contains("nothing was sent, because the registry accepts no uploads:") && error.contains("/m/ns/"),
        "{error}"
    );
    assert_eq!(names(&closed.data()), [""; 0]);
    let error = kit.mirror_fails(&["copy", &file, &to]);
    assert!(error.contains("nothing was sent"), "{error}");
    // No server listens there.
    let nobody = format!("127.0.0.1:{}", testkit::free_port());
    let error = kit.mirror_fails(&["push", "out", &format!("{nobody}/m")]);
    assert!(error.contains("nothing was sent") && error.contains("pinging container registry"), "{error}");
    // With credentials it works.
    fs::create_dir_all(kit.path("home/.docker")).unwrap();
    let auth = format!("{{\"auths\": {{\"{}\": {{\"auth\": \"dXNlcjpzZWNyZXQ=\"}}}}}}", closed.host());
    fs::write(kit.path("home/.docker/config.json"), auth).unwrap();
    kit.mirror(&["push", "out", &to]);
    kit.mirror(&["verify", &to, "--lock", "out/mirror/lock.json"]);
}
