//! M-26 on real catalogs: clusters install and upgrade from the mirror alone, and exceptions are reported.
//!
//! The example catalog is always tested. `OPM_MIRROR_CATALOG` names another one, with a directory for each package, and
//! `OPM_MIRROR_PROGRAM` an optimized program for the many queries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fbc::version::Version;
use serde_json::{Value, json};

use crate::kit::{Kit, mirror};

/// How many upgrades of a large catalog are followed step by step.
const WALKED: usize = 60;

/// A package: its default channel, and the oldest bundle there.
struct Package {
    name: String,
    channel: String,
    oldest: String,
}

/// Reads the packages of a catalog that has a directory for each.
fn packages(catalog: &Path) -> Vec<Package> {
    let mut found = Vec::new();
    for entry in fs::read_dir(catalog).unwrap().flatten().filter(|entry| entry.path().join("catalog.json").is_file()) {
        let text = fs::read_to_string(entry.path().join("catalog.json")).unwrap();
        let (mut own, mut entries, mut versions) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for blob in serde_json::Deserializer::from_str(&text).into_iter::<Value>().map(Result::unwrap) {
            let name = blob["name"].as_str().unwrap_or_default().to_owned();
            match blob["schema"].as_str().unwrap_or_default() {
                "olm.package" => own.push((name, blob["defaultChannel"].as_str().unwrap_or_default().to_owned())),
                "olm.channel" => {
                    let names = blob["entries"].as_array().unwrap().iter();
                    let names: Vec<String> = names.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
                    entries.insert(name, names);
                }
                "olm.bundle" => {
                    let properties = blob["properties"].as_array().unwrap();
                    let version = properties.iter().find(|it| it["type"] == "olm.package").unwrap();
                    let version = version["value"]["version"].as_str().unwrap();
                    versions.insert(name, Version::parse_strict(version).unwrap());
                }
                _ => {}
            }
        }
        let (name, channel) = own.pop().unwrap();
        let known = entries[&channel].iter().filter(|name| versions.contains_key(*name));
        let oldest = known.min_by(|a, b| versions[*a].cmp_precedence(&versions[*b])).unwrap().clone();
        found.push(Package { name, channel, oldest });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Runs a query about catalogs in files, with the fastest available program.
fn query(kit: &Kit, words: &[&str]) -> Output {
    let program = std::env::var_os("OPM_MIRROR_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_opm").into());
    let mut command = Command::new(program);
    command.current_dir(kit.path("")).args(words).stdin(Stdio::null()).output().unwrap()
}

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Mirrors a catalog and returns the messages; afterwards the mirrored catalog is in a directory of that name.
fn mirrored(kit: &Kit, name: &str, words: &[&str]) -> String {
    let to = format!("{}/{name}", kit.closed.host());
    let copied =
        kit.run(&mirror(&[&["copy", "set.yaml", &to, "--missing", "drop", "--choose-default"], words].concat()));
    let messages = String::from_utf8_lossy(&copied.stderr).into_owned();
    assert!(copied.status.success(), "{messages}");
    let rendered = kit.stdout(&["render", "--use-http", "-o", "json", &format!("{to}/tried/index:v1")]);
    fs::create_dir(kit.path(name)).unwrap();
    fs::write(kit.path(name).join("catalog.json"), rendered).unwrap();
    messages
}

/// Checks that all stranded versions of a mirrored catalog were reported, and returns their number.
fn all_stranded_are_reported(kit: &Kit, catalog: &str, mirrored: &str, messages: &str) -> u64 {
    let checked = parsed(&query(kit, &["check-upgrades", catalog, mirrored, "-o", "json"]));
    let mut count = 0;
    for channel in checked["channels"].as_array().unwrap() {
        let bundles = channel["bundles"].as_array().unwrap().iter();
        let lost: Vec<&str> = bundles
            .filter(|bundle| bundle["regression"] == true)
            .map(|bundle| bundle["name"].as_str().unwrap())
            .collect();
        let (package, name) = (channel["package"].as_str().unwrap(), channel["channel"].as_str().unwrap());
        let notes: Vec<&str> = messages
            .lines()
            .filter(|line| {
                line.contains(&format!("note: {package}: clusters that run "))
                    && line.contains(&format!("find no upgrade in channel {name:?}"))
            })
            .collect();
        // Bundles without an image are reported by name, by package if all are affected, and by channel if it is empty.
        let package_dropped = messages
            .contains(&format!("note: package {package:?} is dropped: images of all its bundles"))
            || messages.contains(&format!("note: removed channel {name:?} too, which had no other entry"));
        let named = |bundle: &&str| {
            package_dropped
                || notes.iter().any(|note| note.contains(*bundle) || note.contains(" others find "))
                || messages.contains(&format!("note: {package}: {bundle:?} is dropped: one of its images is missing"))
        };
        let unnamed: Vec<&&str> = lost.iter().filter(|bundle| !named(bundle)).collect();
        assert!(unnamed.is_empty(), "{package}, {name}: {unnamed:?} are not named\n{notes:?}");
        count += lost.len() as u64;
    }
    count
}

#[expect(clippy::print_stderr, reason = "figures of large catalogs are reported")]
fn from_the_mirror_alone(catalog: &Path) {
    let Some(mut kit) = Kit::new() else { return };
    let all = packages(catalog);
    let catalog = catalog.display().to_string();
    let index = format!("{}/tried/index:v1", kit.host);
    kit.stdout(&["build", &catalog, "--data-only", "-t", &index, "--push", "--use-http"]);
    // Other tests cover the transfer of images.
    let set = format!(
        "kind: ImageSetConfiguration\nmirror:\n  operators:\n  - catalog: {index}\n  blockedImages: [{{name: .}}]\n"
    );
    fs::write(kit.path("set.yaml"), set).unwrap();
    let items: Vec<Value> = all
        .iter()
        .map(|package| {
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                "metadata": {"name": package.name, "namespace": format!("ns-{}", package.name)},
                "spec": {"name": package.name, "channel": package.channel, "source": "c", "sourceNamespace": "olm"},
                "status": {"installedCSV": package.oldest},
            })
        })
        .collect();
    fs::write(kit.path("state.json"), json!({"kind": "List", "items": items}).to_string()).unwrap();
    let heads = mirrored(&kit, "heads", &["--with-dependencies"]);
    let bridged = mirrored(&kit, "bridged", &["--with-dependencies", "--edges", "bridge"]);
    let on_the_way = mirrored(&kit, "installed", &["--installed", "state.json", "--with-dependencies"]);
    let left_out: BTreeSet<&str> = on_the_way.lines().filter_map(|line| line.strip_prefix("  bundle ")).collect();
    drop(kit.source.take());
    kit.proxy.disconnect();
    // Every mirrored bundle installs from the mirror, unless it does not install from the source either.
    let shown = parsed(&query(&kit, &["list", "packages", "heads", "-o", "json"]));
    let shown: BTreeSet<String> =
        shown.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect();
    let (mut installed, mut orphaned, mut never, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for package in &shown {
        let resolved = query(&kit, &["resolve", "heads", "--install", package]);
        if resolved.status.success() {
            installed += 1;
            continue;
        }
        let whole = query(&kit, &["resolve", &catalog, "--install", package]);
        if whole.status.success() {
            // The provider of a dependency had no valid image and was omitted, which was reported.
            if heads.lines().any(|line| line.starts_with(&format!("note: {package}: ")) && line.contains(" needs ")) {
                orphaned += 1;
                continue;
            }
            let messages = String::from_utf8_lossy(&resolved.stderr).into_owned();
            wrong.push(format!("{package} installs from the source alone: {messages}"));
        }
        never.push(package);
    }
    // Every step of an upgrade is in the mirror.
    let (mut walked, mut steps, mut cut) = (0, 0, 0);
    let stride = all.len().div_ceil(WALKED).max(1);
    for package in all.iter().step_by(stride) {
        let walk = |catalog: &str| {
            let words = ["upgrade-path", catalog, &package.name, "--channel", &package.channel, "-o", "json", "--from"];
            query(&kit, &[&words[..], &[&package.oldest]].concat())
        };
        let names = |path: &Value| -> Vec<String> {
            path["steps"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
        };
        let whole = parsed(&walk(&catalog));
        let way = names(&whole);
        // A bundle without its images was reported, and is not in the mirror: nor are upgrades through it.
        if way.iter().chain([&package.oldest]).any(|bundle| left_out.contains(bundle.as_str())) {
            cut += 1;
            continue;
        }
        let path_in_mirror = walk("installed");
        let mirrored = serde_json::from_slice(&path_in_mirror.stdout).unwrap_or(Value::Null);
        if mirrored.is_null() || (&whole["end"], &way) != (&mirrored["end"], &names(&mirrored)) {
            wrong.push(format!("{} from {}: {whole}\n{path_in_mirror:?}", package.name, package.oldest));
        }
        walked += 1;
        steps += way.len();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let stranded = all_stranded_are_reported(&kit, &catalog, "heads", &heads);
    let with_bridges = all_stranded_are_reported(&kit, &catalog, "bridged", &bridged);
    assert!(with_bridges <= stranded, "{with_bridges} with bridges, {stranded} without");
    assert!(installed > 0 && walked > 0);
    eprintln!(
        "{} packages, {} mirrored: {installed} install, {orphaned} lost what they need and are named, {} install nowhere; {walked} upgrades of {steps} steps, {cut} cut by \
         images that cannot be; {stranded} bundles stranded and named, {with_bridges} with bridges",
        all.len(),
        shown.len(),
        never.len()
    );
}

#[test]
fn m26_the_catalog_of_the_examples_is_installed_and_upgraded_from_its_mirror() {
    from_the_mirror_alone(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/catalog"));
}

#[test]
fn m26_a_published_catalog_is_installed_and_upgraded_from_its_mirror() {
    let Some(catalog) = std::env::var_os("OPM_MIRROR_CATALOG").map(PathBuf::from) else { return };
    from_the_mirror_alone(&catalog);
}
