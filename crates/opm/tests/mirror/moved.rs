//! From the connected side to the closed one, and the result there.

use std::fs;

use image::Digest;

use crate::kit::{Kit, names};
use crate::programs::publish_with_program;

const ALPHA: &str = "    - name: alpha\n      minVersion: 1.1.0\n";

#[test]
fn m6_a_set_is_pushed_and_served_while_the_source_is_off() {
    let Some(mut kit) = Kit::new() else { return };
    let shared = kit.digest_of("ns/shared:v1").unwrap();
    let signature = kit.sign("ns/shared", shared, true);
    let attestation = kit.sign("ns/alpha", kit.digest_of("ns/alpha:v3").unwrap(), false);
    let file = kit.set("set.yaml", ALPHA);
    let shown = kit.mirror(&["plan", &file]);
    assert!(shown.contains("alpha    stable (default)  alpha.v1.1.0 alpha.v2.0.0"), "{shown}");
    assert!(shown.contains("; 2 signed"), "{shown}");
    let digest = kit.mirror(&["pull", &file, "out"]);
    assert_eq!(names(&kit.path("out")), ["blobs", "index.json", "mirror", "oci-layout"]);
    assert_eq!(names(&kit.path("out/mirror")), ["blobs.txt", "catalogs", "lock.json", "set.yaml"]);
    // A second pull fetches nothing, nor does a pull by lock without a source.
    let before = fs::read(kit.path("out/mirror/lock.json")).unwrap();
    assert_eq!(kit.mirror(&["pull", &file, "out"]), digest);
    drop(kit.source.take());
    assert_eq!(kit.mirror(&["pull", "out/mirror/lock.json", "out"]), digest);
    assert_eq!(fs::read(kit.path("out/mirror/lock.json")).unwrap(), before);
    assert_eq!(kit.mirror(&["verify", "out", "--expect", digest.trim()]), digest);
    // M-27: requests go only to the destination; the source is off.
    let to = kit.to();
    assert_eq!(kit.mirror(&["push", "out", &to]), digest);
    assert_eq!(kit.mirror(&["verify", &to, "--lock", "out/mirror/lock.json", "--deep"]), digest);
    assert_eq!(kit.closed_digest("m/ns/shared:v1"), None, "an image that is used by digest got a tag");
    assert_eq!(kit.closed_digest(&format!("m/ns/shared:sha256-{}", shared.hex())), Some(shared));
    assert_eq!(kit.closed_digest(&format!("m/ns/shared:sha256-{}.sig", shared.hex())), Some(signature));
    assert_eq!(kit.closed_digest(&format!("m/ns/alpha@{attestation}")), Some(attestation));
    assert_eq!(kit.closed_digest("m/ns/beta:v1"), None);
    let index = format!("{to}/ns/index:v1");
    let rendered = kit.stdout(&["render", "--use-http", &index]);
    assert!(
        rendered.contains("alpha.v2.0.0")
            && !rendered.contains("alpha.v1.0.0\",\n    \"schema")
            && !rendered.contains("beta")
    );
    kit.stdout(&["validate", "--use-http", &index]);
    check_served(&kit, &index);
    // The second push sends nothing.
    let again = kit.run(&crate::kit::mirror(&["push", "out", &to]));
    assert!(String::from_utf8_lossy(&again.stderr).contains("sent: 0 blobs"), "{again:?}");
    let objects = names(&kit.path("cluster-resources"));
    let expected = [
        "cc-index-v1.yaml",
        "certs.d",
        "cs-index-v1.yaml",
        "idms-oc-mirror.yaml",
        "itms-oc-mirror.yaml",
        "registries.conf.d",
    ];
    assert_eq!(objects, expected);
}

#[test]
fn m5_the_objects_of_a_push_redirect_source_names_to_the_mirror() {
    let Some(mut kit) = Kit::new() else { return };
    let shared = kit.digest_of("ns/shared:v1").unwrap();
    let bundle = kit.digest_of("ns/alpha-bundle:v2.0.0").unwrap();
    let file = kit.set("set.yaml", ALPHA);
    kit.mirror(&["pull", &file, "out"]);
    drop(kit.source.take());
    kit.proxy.disconnect();
    kit.mirror(&["push", "out", &kit.to()]);
    let conf = kit.path("cluster-resources/registries.conf.d/50-mirror.conf");
    // One image is used by digest, and one by tag.
    let names = [
        (format!("{}/ns/shared@{shared}", kit.host), shared),
        (format!("{}/ns/alpha-bundle:v2.0.0", kit.host), bundle),
    ];
    for (name, digest) in names {
        assert!(
            !kit.run(&["copy", "--use-http", &name, "oci:none:v1"]).status.success(),
            "{name} without the settings"
        );
        let mut copy = kit.command(&["copy", "--use-http", &name, "oci:copied:v1"]);
        let copied = copy.env("CONTAINERS_REGISTRIES_CONF", &conf).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&copied.stdout).trim(), digest.to_string(), "{copied:?}");
        if testkit::installed("skopeo") {
            let inspect = std::process::Command::new("skopeo")
                .arg("--registries-conf")
                .arg(&conf)
                .args(["inspect", "--raw", &format!("docker://{name}")])
                .output()
                .unwrap();
            assert!(inspect.status.success(), "{inspect:?}");
            assert_eq!(Digest::of(&inspect.stdout), digest);
        }
    }
}

/// Serves a catalog of the closed side, and queries it.
fn check_served(kit: &Kit, index: &str) {
    let log = kit.path("serve.log");
    let mut server = kit
        .command(&["serve", "--use-http", index, "-p", "0", "--address", "127.0.0.1", "-t", ""])
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    let port = loop {
        let text = fs::read_to_string(&log).unwrap();
        if let Some(line) = text.lines().find(|line| line.contains("serving registry")) {
            let (_, rest) = line.split_once("address=127.0.0.1:").unwrap();
            break rest.chars().take_while(char::is_ascii_digit).collect::<String>();
        }
        assert!(begun.elapsed().as_secs() < 60 && server.try_wait().unwrap().is_none(), "{text}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let probe = kit.path("grpc_health_probe");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_opm"), &probe).unwrap();
    let probed = std::process::Command::new(probe).arg(format!("-addr=127.0.0.1:{port}")).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(probed.status.success(), "{probed:?}");
}

#[test]
fn m7_a_copy_needs_no_directory_and_gives_the_same() {
    let Some(kit) = Kit::new() else { return };
    let shared = kit.digest_of("ns/shared:v1").unwrap();
    kit.sign("ns/shared", shared, true);
    let file = kit.set("set.yaml", ALPHA);
    let digest = kit.mirror(&["pull", &file, "out"]);
    let to = kit.to();
    let copied = kit.mirror(&["copy", &file, &to, "--spool", "1MiB", "--lock", "lock.json"]);
    assert_eq!(copied, digest);
    assert_eq!(kit.read("lock.json"), kit.read("out/mirror/lock.json"));
    assert_eq!(kit.mirror(&["verify", &to, "--lock", "lock.json", "--deep"]), digest);
    // The catalog on top of the original image: its layers, without the old catalog and its cache.
    let other = format!("{}/o", kit.closed.host());
    publish_with_program(&kit, "v2");
    let file = kit.set_of("other.yaml", "v2", ALPHA, "");
    kit.mirror(&["copy", &file, &other, "--catalog-program", "original"]);
    let rendered = kit.stdout(&["render", "--use-http", &format!("{other}/ns/index:v2")]);
    assert!(rendered.contains("alpha.v2.0.0") && !rendered.contains("beta"), "{rendered}");
    assert_ne!(kit.closed_digest("o/ns/index:v2"), kit.closed_digest("m/ns/index:v1"));
}

/// Returns the size of the blobs below a directory, in bytes.
fn blobs_below(directory: &std::path::Path) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => sum += blobs_below(&entry.path()),
            _ => sum += entry.metadata().map_or(0, |about| about.len()),
        }
    }
    sum
}

#[test]
fn m7_a_copy_never_stores_more_than_its_spool() {
    let Some(kit) = Kit::with_layers_of(1_000_000) else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n      minVersion: 1.0.0\n    - name: beta\n");
    let scratch = kit.path("scratch");
    fs::create_dir(&scratch).unwrap();
    let words = ["copy", &file, &kit.to(), "--spool", "2100k", "--limit-rate", "8M"];
    let mut child = kit.command(&crate::kit::mirror(&words)).env("TMPDIR", &scratch).spawn().unwrap();
    let mut maximum = 0;
    while child.try_wait().unwrap().is_none() {
        maximum = maximum.max(blobs_below(&scratch));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
    // Five layers of a megabyte each pass through it; manifests and the catalog are small.
    assert!((900_000..2_600_000).contains(&maximum), "{maximum}");
    assert_eq!(names(&scratch), [""; 0]);
}

#[test]
fn m8_the_same_file_gives_the_same_bytes_in_any_environment() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    let one = kit.mirror(&["pull", &file, "one", "--jobs", "1", "--volumes", "1MiB", "--to", "first"]);
    let words = ["pull", &file, "two", "--jobs", "16", "--volumes", "1MiB", "--to", "second"];
    let second = std::process::Command::new("sh")
        .args(["-c", "umask 077; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_opm")])
        .args(crate::kit::mirror(&words))
        .current_dir(kit.path(""))
        .env("HOME", kit.path("home"))
        .env("TZ", "Asia/Tokyo")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&second.stdout), one);
    assert_eq!(kit.read("one/mirror/lock.json"), kit.read("two/mirror/lock.json"));
    assert_eq!(kit.read("one/index.json"), kit.read("two/index.json"));
    // The digest covers the filtered text, whatever program is in the image.
    assert!(kit.read("one/mirror/lock.json").contains("\"content\": \"sha256:"));
    let volumes = names(&kit.path("first"));
    assert!(volumes.len() > 1 && volumes == names(&kit.path("second")), "{volumes:?}");
    for name in volumes {
        let read = |place: &str| fs::read(kit.path(place).join(&name)).unwrap();
        assert_eq!(read("first"), read("second"), "{name}");
    }
    // The objects for clusters are the same, too.
    for (set, zone) in [("one", "America/New_York"), ("two", "Asia/Tokyo")] {
        let (lock, out) = (format!("{set}/mirror/lock.json"), format!("objects-{set}"));
        let words = ["plan", &lock, "--to", "reg.test:5000/m", "--resources", &out];
        assert!(kit.command(&crate::kit::mirror(&words)).env("TZ", zone).output().unwrap().status.success());
    }
    let compared = std::process::Command::new("diff")
        .args(["-r", "objects-one", "objects-two"])
        .current_dir(kit.path(""))
        .output()
        .unwrap();
    assert!(compared.status.success() && names(&kit.path("objects-one")).len() == 6, "{compared:?}");
}

#[test]
fn m13_concurrent_runs_exclude_each_other() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    kit.mirror(&["pull", &file, "out"]);
    let held = fs::File::open(kit.path("out/mirror")).unwrap();
    held.lock().unwrap();
    assert!(kit.mirror_fails(&["pull", &file, "out"]).contains("another 'opm mirror' is writing to it"));
    assert!(kit.mirror(&["verify", "out"]).starts_with("sha256:"));
}

#[test]
fn m13_a_concurrent_run_reports_the_process_that_writes() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", ALPHA);
    let mut first = kit
        .command(&crate::kit::mirror(&["pull", &file, "out", "--limit-rate", "200k"]))
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while !kit.path("out/partial").exists() && first.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let error = kit.mirror_fails(&["pull", &file, "out"]);
    assert!(error.contains(&format!("another 'opm mirror' is writing to it, process {}", first.id())), "{error}");
    // M-22: the catalog moves meanwhile, and the set has the original one.
    kit.publish(&crate::kit::BUNDLES[..2], "v1");
    let output = first.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(kit.read("out/mirror/lock.json").contains("alpha.v2.0.0"));
    assert_eq!(kit.mirror(&["verify", "out"]), String::from_utf8_lossy(&output.stdout));
}

#[test]
fn m21_different_images_with_the_same_destination_are_rejected() {
    let Some(kit) = Kit::new() else { return };
    kit.image("other/x:v1", &[b"one"]);
    kit.image("ns/x:v1", &[b"another"]);
    let more = format!(
        "  additionalImages:\n  - name: {0}/ns/x:v1\n  - {{name: '{0}/other/x:v1', targetRepo: ns/x}}\n",
        kit.host
    );
    let file = kit.set_of("set.yaml", "v1", ALPHA, &more);
    let error = kit.mirror_fails(&["pull", &file, "out"]);
    assert!(error.contains("have the same destination ns/x:v1"), "{error}");
}

#[test]
fn a_directory_with_other_images_is_not_changed() {
    let Some(kit) = Kit::new() else { return };
    let name = format!("{}/ns/shared:v1", kit.host);
    kit.stdout(&["copy", "--use-http", &name, "oci:images:v1"]);
    let file = kit.set("set.yaml", ALPHA);
    let error = kit.mirror_fails(&["pull", &file, "images"]);
    assert!(error.contains("the directory holds images, but no set"), "{error}");
    assert_eq!(names(&kit.path("images")), ["blobs", "index.json", "oci-layout"]);
}

#[test]
fn a_moving_tag_of_an_additional_image_is_followed() {
    let Some(kit) = Kit::new() else { return };
    let old = kit.image("ns/tools:v1", &[b"old tools"]);
    let more = format!("  additionalImages: [{{name: '{}/ns/tools:v1'}}]\n", kit.host);
    let file = kit.set_of("set.yaml", "v1", ALPHA, &more);
    kit.mirror(&["pull", &file, "out"]);
    assert!(kit.read("out/mirror/lock.json").contains(&old.to_string()));
    let new = kit.image("ns/tools:v1", &[b"new tools"]);
    kit.mirror(&["pull", &file, "out"]);
    let lock = kit.read("out/mirror/lock.json");
    assert!(lock.contains(&new.to_string()) && !lock.contains(&old.to_string()), "{lock}");
}

/// The layers of an unfiltered catalog are fetched once, although the catalog is read first.
#[test]
fn a_whole_catalog_is_fetched_once() {
    let Some(kit) = Kit::new() else { return };
    let noise: String = crate::kit::noise("a large blob", 3_000_000).iter().map(|byte| format!("{byte:02x}")).collect();
    let blob = format!("{{\"schema\": \"example.com/noise\", \"text\": \"{noise}\"}}\n");
    fs::write(kit.path("catalog-v1/noise.json"), blob).unwrap();
    let name = format!("{}/ns/large:v1", kit.host);
    let directory = kit.path("catalog-v1").display().to_string();
    kit.stdout(&["build", &directory, "--data-only", "-t", &name, "--push", "--use-http"]);
    let text = format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  operators:\n  - {{catalog: \
         {name}, full: true}}\n"
    );
    fs::write(kit.path("set.yaml"), text).unwrap();
    let before = kit.proxy.count();
    kit.mirror(&["pull", "set.yaml", "out"]);
    let fetched = kit.proxy.count() - before;
    let list = kit.read("out/mirror/blobs.txt");
    let all: u64 = list.lines().map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()).sum();
    assert!(all > 3_000_000 && fetched < all + all / 10, "{fetched} of {all}");
    kit.mirror(&["verify", "out"]);
    let before = kit.proxy.count();
    kit.mirror(&["copy", "set.yaml", &kit.to()]);
    assert!(kit.proxy.count() - before < all + all / 10);
    kit.mirror(&["verify", &kit.to(), "--lock", "out/mirror/lock.json"]);
}
