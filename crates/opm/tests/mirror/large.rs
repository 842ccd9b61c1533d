//! M-25: a layer that is larger than any volume, and very many images.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{DockerRegistry, RegistryPlan};

use crate::generated_registry::GeneratedRegistry;
use crate::kit::{mirror, names};

/// The resources that a command used.
struct Usage {
    output: Output,
    time: Duration,
    /// The peak memory, in bytes.
    memory: u64,
    /// The peak size of the files in its directory, in bytes.
    disk: u64,
}

/// Returns the size of the files below a directory, in bytes.
fn size_of(place: &Path) -> u64 {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => size_of(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        let place = Scratch(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("tmp")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `opm mirror` and measures it; all its scratch files are in the directory, too.
    #[expect(clippy::print_stderr, reason = "figures of large sets are reported")]
    fn run(&self, words: &[&str]) -> Usage {
        let begun = Instant::now();
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_opm"))
            .current_dir(self.0.path())
            .env_clear()
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .args(mirror(words))
            .stdin(Stdio::null())
            .stdout(fs::File::create(self.path("stdout")).unwrap())
            .stderr(fs::File::create(self.path("stderr")).unwrap())
            .spawn()
            .unwrap();
        let status = format!("/proc/{}/status", child.id());
        let (mut memory, mut disk) = (0, 0);
        let code = loop {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
            let now = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
            memory = memory.max(now.unwrap_or_default() << 10);
            disk = disk.max(size_of(self.0.path()));
            if let Some(code) = child.try_wait().unwrap() {
                break code;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let read = |name: &str| fs::read(self.path(name)).unwrap();
        let output = Output { status: code, stdout: read("stdout"), stderr: read("stderr") };
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(code.success(), "{words:?}: {messages}");
        assert!(memory > 0, "{words:?} ended before its memory was read");
        let time = begun.elapsed();
        eprintln!("{words:?}: {:.1} s, {} MB of memory, {} MB of files", time.as_secs_f64(), memory >> 20, disk >> 20);
        Usage { output, time, memory, disk }
    }
}

const MB: u64 = 1_000_000;

/// With `OPM_MIRROR_LAYER=12000` the layer has 12 GB. It is never stored: the space between the noise is holes.
#[test]
fn m25_a_layer_larger_than_any_volume_arrives_and_is_never_stored_twice() {
    let megabytes = std::env::var("OPM_MIRROR_LAYER").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(600);
    let size = megabytes * MB + 12_345;
    let place = Scratch::new();
    let ((source, from), (closed, to)) = (GeneratedRegistry::start(), GeneratedRegistry::start());
    let layer = source.add_large("big/image", "v1", size).to_string();
    let set = format!("kind: ImageSetConfiguration\nmirror:\n  additionalImages:\n  - name: {from}/big/image:v1\n");
    fs::write(place.path("set.yaml"), set).unwrap();
    // To disk: fetched once, stored once, and never in memory.
    let pulled = place.run(&["pull", "set.yaml", "out"]);
    assert_eq!(source.fetched.load(Ordering::Relaxed), size);
    assert!(pulled.memory < 100 * MB, "{}", pulled.memory);
    assert!(pulled.disk < size + size / 100, "{}", pulled.disk);
    let blob = place.path("out/blobs/sha256").join(layer.trim_start_matches("sha256:"));
    assert_eq!(blob.metadata().unwrap().len(), size);
    // Zeros take no space on file systems with sparse files.
    assert!(blob.metadata().unwrap().blocks() * 512 < size / 10);
    // To volumes: split, and removed from the directory.
    let limit = size / 3 + MB;
    let packed = ["pull", "out/mirror/lock.json", "out", "--to", "volumes", "--drain", "--volumes", &limit.to_string()];
    let packing = place.run(&packed);
    assert!(packing.memory < 100 * MB, "{}", packing.memory);
    let tars: Vec<String> = names(&place.path("volumes")).into_iter().filter(|name| name.ends_with(".tar")).collect();
    assert!(matches!(tars.len(), 3 | 4), "{tars:?}");
    assert!(tars.iter().all(|name| place.path("volumes").join(name).metadata().unwrap().len() <= limit));
    assert!(!blob.exists() && size_of(&place.path("out")) < MB);
    // A second time: nothing is fetched, and nothing is written again.
    place.run(&packed);
    assert_eq!(source.fetched.load(Ordering::Relaxed), size);
    assert!(size_of(place.0.path()) < size + size / 100 + MB);
    // On the closed side: directly from the volumes, once.
    let pushed = place.run(&["push", "volumes", &to]);
    assert!(pushed.memory < 100 * MB, "{}", pushed.memory);
    assert!(pushed.disk < size + size / 100 + MB, "{}", pushed.disk);
    assert_eq!(closed.received.lock().unwrap().get(&layer), Some(&size));
    let verified = place.run(&["verify", "volumes"]);
    assert_eq!(verified.output.stdout, pushed.output.stdout);
    // Without a directory in between: at most the layer is stored, whatever the size of the spool.
    fs::remove_dir_all(place.path("volumes")).unwrap();
    let (other, destination) = GeneratedRegistry::start();
    let copied = place.run(&["copy", "set.yaml", &destination, "--spool", "50M"]);
    assert!(copied.memory < 100 * MB && copied.disk < size + size / 100 + MB, "{} {}", copied.memory, copied.disk);
    assert_eq!(other.received.lock().unwrap().get(&layer), Some(&size));
    assert_eq!(source.fetched.load(Ordering::Relaxed), 2 * size);
}

/// With `OPM_MIRROR_IMAGES=20000` there are 20,000 images, as many as the largest published catalogs have.
#[test]
fn m25_very_many_images_take_little_time_and_memory() {
    let images = std::env::var("OPM_MIRROR_IMAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let Some(registry) = DockerRegistry::start(RegistryPlan::default()) else { return };
    let place = Scratch::new();
    let (source, from) = GeneratedRegistry::start();
    let packages = 300;
    let mut number = 0;
    let mut next = |repository: &str| {
        number += 1;
        let digest = source.add_small(repository, "v1", &crate::kit::noise(&format!("image {number}"), 1000));
        format!("{from}/{repository}@{digest}")
    };
    let mut catalog = String::new();
    for package in 0..packages {
        let name = format!("p{package}");
        let bundle = next(&format!("many/{name}-bundle"));
        let _ = write!(
            catalog,
            "---\nschema: olm.package\nname: {name}\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: \
             {name}\nname: stable\nentries:\n- name: {name}.v1\n---\nschema: olm.bundle\npackage: {name}\nname: \
             {name}.v1\nimage: {bundle}\nproperties:\n- type: olm.package\n  value: {{packageName: {name}, version: \
             1.0.0}}\nrelatedImages:\n- {{name: '', image: '{bundle}'}}\n"
        );
        let share = images / packages - 1 + usize::from(package < images % packages);
        for part in 0..share {
            let image = next(&format!("many/{name}-{part}"));
            let _ = writeln!(catalog, "- {{name: x{part}, image: '{image}'}}");
        }
    }
    assert_eq!(number, images);
    fs::create_dir(place.path("catalog")).unwrap();
    fs::write(place.path("catalog/catalog.yaml"), catalog).unwrap();
    let index = format!("{}/many/index:v1", registry.host());
    let built = std::process::Command::new(env!("CARGO_BIN_EXE_opm"))
        .current_dir(place.0.path())
        .args(["build", "catalog", "--data-only", "-t", &index, "--push", "--use-http"])
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    let set = format!("kind: ImageSetConfiguration\nmirror:\n  operators:\n  - catalog: {index}\n");
    fs::write(place.path("set.yaml"), set).unwrap();
    // A plan requests each manifest once, and its referrers in few requests.
    let planned = place.run(&["plan", "set.yaml", "-o", "json", "--lock", "lock.json"]);
    let shown: Value = serde_json::from_slice(&planned.output.stdout).unwrap();
    assert_eq!(shown["lock"]["images"].as_array().unwrap().len(), images);
    assert_eq!(shown["lock"]["catalogs"][0]["packages"].as_object().unwrap().len(), packages);
    assert!(planned.memory < 150 * MB, "{}", planned.memory);
    // An optimized program needs a tenth of this.
    assert!(planned.time < Duration::from_millis(20_000 + 15 * images as u64), "{:?}", planned.time);
    let request = source.requests.load(Ordering::Relaxed);
    assert!(request < 6 * images as u64 + 100, "{request} requests");
    // Everything arrives; with the lock and all content present, no request is sent.
    let pulled = place.run(&["pull", "lock.json", "out"]);
    assert!(pulled.memory < 150 * MB, "{}", pulled.memory);
    let request = source.requests.load(Ordering::Relaxed);
    let again = place.run(&["pull", "out/mirror/lock.json", "out"]);
    assert!(again.memory < 150 * MB, "{}", again.memory);
    assert_eq!(source.requests.load(Ordering::Relaxed), request);
}
