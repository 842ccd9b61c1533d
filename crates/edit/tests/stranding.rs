//! No edit strands a version without permission: whatever an edit does with a catalog, versions that the result lists
//! still reach the head of their channel, and the report names all others that no longer do, except those that the user
//! named.
//!
//! The test follows the edges itself, from the files before and after each edit.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use edit::deprecate::DeprecationTarget;
use edit::filter::KeptPart;
use edit::legacy::{self, LegacyBundle, Overrides};
use edit::operations::{self, AddBundle, Deprecate, Filter, Merge, Promote, Remove, SetDefault, SetEdge};
use edit::promote::{EdgePolicy, Promotion};
use edit::remove::Removal;
use edit::set_edge::Edges;
use edit::{EditError, EditOptions, Edited, NoNotices, Write};
use fbc::Limits;
use fbc::range::VersionRange;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

type Version = [u64; 3];

/// Reads the version from the name of a bundle.
fn version(name: &str) -> Option<Version> {
    let mut numbers = name.split_once(".v")?.1.split('.').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// Returns whether a range such as `>=1.0.0 <1.2.0 || <0.5.0` contains a version.
fn contains(range: &str, version: Version) -> bool {
    let parse = |text: &str| self::version(&format!("x.v{text}")).expect("a version");
    range.split("||").any(|part| {
        let mut bounds = part.split_whitespace();
        bounds.all(|bound| match bound.strip_prefix(">=") {
            Some(lowest) => version >= parse(lowest),
            None => version < parse(bound.strip_prefix('<').expect("a bound")),
        })
    })
}

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    replaces: String,
    skips: Vec<String>,
    range: String,
}

impl Entry {
    fn new(entry: &Value) -> Entry {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let skips = entry["skips"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Entry {
            name: text("name"),
            replaces: text("replaces"),
            skips: skips.map(str::to_owned).collect(),
            range: text("skipRange"),
        }
    }

    fn upgrades(&self, from: &str, bundles: &BTreeSet<String>) -> bool {
        let in_range = || {
            let version = Some(from).filter(|from| bundles.contains(*from)).and_then(version);
            !self.range.is_empty() && version.is_some_and(|version| contains(&self.range, version))
        };
        self.replaces == from || self.skips.iter().any(|skip| skip == from) || in_range()
    }
}

/// The channels of a catalog by package and name, and its bundles.
#[derive(Debug, Default)]
struct Catalog {
    channels: BTreeMap<(String, String), Vec<Entry>>,
    bundles: BTreeSet<String>,
}

impl Catalog {
    fn read(directory: &Path) -> Catalog {
        let mut catalog = Catalog::default();
        for file in fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()) {
            if file.is_dir() {
                let inner = Catalog::read(&file);
                catalog.channels.extend(inner.channels);
                catalog.bundles.extend(inner.bundles);
            } else if file.extension().is_some_and(|extension| extension == "json") {
                catalog.add(&fs::read_to_string(&file).unwrap());
            }
        }
        catalog
    }

    fn add(&mut self, text: &str) {
        for blob in serde_json::Deserializer::from_str(text).into_iter::<Value>().map(Result::unwrap) {
            let text = |name: &str| blob[name].as_str().unwrap_or_default().to_owned();
            match blob["schema"].as_str() {
                Some("olm.channel") => {
                    let entries = blob["entries"].as_array().unwrap().iter().map(Entry::new).collect();
                    self.channels.insert((text("package"), text("name")), entries);
                }
                Some("olm.bundle") => {
                    self.bundles.insert(text("name"));
                }
                _ => {}
            }
        }
    }
}

/// Returns the names in a channel, mentioned ones included.
fn names(entries: &[Entry]) -> BTreeSet<&str> {
    let all = entries.iter().flat_map(|entry| entry.skips.iter().chain([&entry.name, &entry.replaces]));
    all.map(String::as_str).filter(|name| !name.is_empty()).collect()
}

/// Returns those of `names` that reach the head of a channel and stay there.
fn reaching<'n>(entries: &[Entry], bundles: &BTreeSet<String>, names: &BTreeSet<&'n str>) -> BTreeSet<&'n str> {
    let skipped = |name: &str| entries.iter().any(|entry| entry.skips.iter().any(|skip| skip == name));
    let replaced = |name: &str| entries.iter().any(|entry| entry.replaces == name);
    let heads: Vec<&Entry> = entries.iter().filter(|entry| !skipped(&entry.name) && !replaced(&entry.name)).collect();
    let [head] = heads[..] else { return BTreeSet::new() };
    let mut chain = vec![head];
    while let Some(next) = chain.last().and_then(|last| entries.iter().find(|entry| entry.name == last.replaces)) {
        if chain.iter().any(|entry| entry.name == next.name) {
            return BTreeSet::new();
        }
        chain.push(next);
    }
    chain.retain(|entry| !skipped(&entry.name));
    let next = |from: &str| {
        let first = chain.iter().find(|entry| entry.upgrades(from, bundles));
        first.map(|entry| entry.name.as_str()).filter(|next| *next != from)
    };
    let arrives = |name: &&&str| {
        let (mut at, mut visited) = (**name, BTreeSet::new());
        while at != head.name && visited.insert(at) {
            match next(at) {
                Some(next) => at = next,
                None => return false,
            }
        }
        at == head.name && next(at).is_none()
    };
    names.iter().filter(arrives).copied().collect()
}

/// The numbers that an edit or a catalog is made of.
type Numbers = (usize, usize, usize, usize);

/// Returns a package with two channels: entries replace the previous one or skip some, and some have ranges or skip
/// versions that are gone.
fn package(name: &str, shape: &[Numbers]) -> String {
    let bundle = |i: usize| format!("{name}.v1.{}.{}", i / 3, i % 3);
    let mut text = format!("{}\n", json!({"schema": "olm.package", "name": name, "defaultChannel": "fast"}));
    let channel = |channel: &str, listed: &[usize]| {
        let mut entries = Vec::new();
        for (at, &i) in listed.iter().enumerate() {
            let (form, back, range, gone) = shape[i];
            let mut entry = json!({"name": bundle(i)});
            let mut skips = Vec::new();
            // Some entries skip up to three before them, and replace the one below these.
            let over = if form % 3 == 0 { back % 4 } else { 0 };
            if at > over {
                entry["replaces"] = bundle(listed[at - over - 1]).into();
            }
            skips.extend(listed[at.saturating_sub(over)..at].iter().map(|&i| bundle(i)));
            if gone == 0 {
                skips.push(format!("{name}.v0.9.{i}"));
            }
            if at == 0 && gone < 2 {
                entry["replaces"] = format!("{name}.v0.1.0").into();
            }
            if range == 0 {
                let version = bundle(i).split_once(".v").unwrap().1.to_owned();
                entry["skipRange"] = format!(">=1.0.0 <{version}").into();
            }
            if at > 0 && over >= at {
                skips = listed[..at].iter().map(|&i| bundle(i)).chain(skips).collect();
                skips.dedup();
            }
            if !skips.is_empty() {
                entry["skips"] = skips.into();
            }
            entries.push(entry);
        }
        format!("{}\n", json!({"schema": "olm.channel", "package": name, "name": channel, "entries": entries}))
    };
    let all: Vec<usize> = (0..shape.len()).collect();
    let some: Vec<usize> = all.iter().copied().filter(|i| shape[*i].0.is_multiple_of(2) || *i == 0).collect();
    text += &channel("fast", &all);
    text += &channel("stable", &some);
    for i in all {
        let version = bundle(i).split_once(".v").unwrap().1.to_owned();
        let properties = json!([{"type": "olm.package", "value": {"packageName": name, "version": version}}]);
        let bundle =
            json!({"schema": "olm.bundle", "package": name, "name": bundle(i), "image": "i", "properties": properties});
        text += &format!("{bundle}\n");
    }
    let old = json!({"reference": {"schema": "olm.bundle", "name": bundle(0)}, "message": "old"});
    let deprecations = json!({"schema": "olm.deprecations", "package": name, "entries": [old]});
    text + &format!("{deprecations}\n")
}

/// The edits under test.
const EDITS: [&str; 27] = [
    "add-bundle: replaces",
    "add-bundle: semver",
    "add-bundle: skip-patch",
    "add-bundle: declared",
    "alpha add",
    "promote: replaces",
    "promote: semver",
    "promote: skip-patch",
    "promote: chosen",
    "deprecate",
    "deprecate: undo",
    "remove package",
    "remove channel",
    "remove bundle",
    "remove bundle: forget",
    "remove entry",
    "remove entry: forget",
    "set-default",
    "set-edge: replaces",
    "set-edge: skips",
    "set-edge: no skips",
    "set-edge: range",
    "filter: packages",
    "filter: channels",
    "filter: versions",
    "filter: heads",
    "merge",
];

/// Returns whether the user named a version, by package, channel and name: it may go without a word.
type Named = Box<dyn Fn(&str, &str, &str) -> bool>;

/// An edit, and what the user named with it.
struct Made {
    edited: Result<Edited, EditError>,
    named: Named,
}

/// Writes the directory of a bundle.
fn bundle_directory(directory: &Path, package: &str, name: &str, channel: &str, replaces: &str, skips: &[String]) {
    fs::create_dir_all(directory.join("manifests")).unwrap();
    fs::create_dir_all(directory.join("metadata")).unwrap();
    let version = name.split_once(".v").unwrap().1;
    let mut spec = json!({"version": version, "skips": skips});
    if !replaces.is_empty() {
        spec["replaces"] = replaces.into();
    }
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name}, "spec": spec,
    });
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.package.v1": package,
        "operators.operatorframework.io.bundle.channels.v1": channel,
    }});
    fs::write(directory.join("manifests/csv.yaml"), csv.to_string()).unwrap();
    fs::write(directory.join("metadata/annotations.yaml"), annotations.to_string()).unwrap();
}

fn make(scratch: &Path, before: &Catalog, (kind, a, b, c): Numbers) -> Made {
    let options = || EditOptions {
        catalog: scratch.join("catalog"),
        write: Write::InPlace,
        dry_run: false,
        allow_stranded: false,
        limits: Limits::default(),
    };
    let package = ["p", "p", "p", "q"][a % 4].to_owned();
    let what = EDITS[kind % EDITS.len()];
    // The other channel has nearly all bundles.
    let channel = if what.starts_with("promote") { "stable" } else { ["fast", "stable"][b % 2] }.to_owned();
    let bundles: Vec<&String> = before.bundles.iter().filter(|name| name.starts_with(&package)).collect();
    let bundle = |number: usize| {
        bundles.get(number % bundles.len().max(1)).map_or(format!("{package}.v1.0.0"), |name| (*name).clone())
    };
    let entries: Vec<String> = before
        .channels
        .get(&(package.clone(), channel.clone()))
        .map_or(Vec::new(), |entries| entries.iter().map(|entry| entry.name.clone()).collect());
    let entry = |number: usize| entries.get(number % entries.len().max(1)).cloned().unwrap_or_default();
    let mentioned: Vec<String> = before
        .channels
        .get(&(package.clone(), channel.clone()))
        .map_or(Vec::new(), |entries| names(entries).into_iter().map(str::to_owned).collect());
    let any = |number: usize| mentioned.get(number % mentioned.len().max(1)).cloned().unwrap_or_default();
    let nothing: Named = Box::new(|_, _, _| false);
    let made = |edited| Made { edited, named: nothing };
    let policy = |text: &str| match text {
        "semver" => EdgePolicy::Semver,
        "skip-patch" => EdgePolicy::SkipPatch,
        _ => EdgePolicy::Replaces,
    };
    let detail = what.split(": ").nth(1).unwrap_or_default();
    match what.split(": ").next().unwrap_or_default() {
        "add-bundle" => {
            let name = format!("{package}.v1.{}.{}", c / 4, 3 + c % 4);
            let (replaces, skips) = match detail {
                "declared" => (entry(c), vec![any(a), any(c + 1)]),
                _ => (String::new(), Vec::new()),
            };
            let directory = scratch.join("bundle");
            bundle_directory(&directory, &package, &name, &channel, &replaces, &skips);
            let request = AddBundle {
                options: options(),
                name: "bundle".to_owned(),
                directory,
                image: "i".to_owned(),
                migrate: Some(true),
                channels: Vec::new(),
                policy: (detail != "declared").then(|| policy(detail)),
                replaces: None,
                skips: Vec::new(),
                skip_range: None,
                create: false,
            };
            made(operations::add_bundle(&request, &NoNotices))
        }
        "alpha add" => {
            let name = format!("{package}.v2.{}.0", c % 4);
            let directory = scratch.join("bundle");
            bundle_directory(&directory, &package, &name, &channel, &entry(c), &[any(a), any(c + 1)]);
            let read =
                LegacyBundle::read("bundle", &directory, "i", &Overrides::default(), &Limits::default(), &NoNotices);
            made(read.and_then(|bundle| {
                let catalog = scratch.join("catalog");
                let limits = Limits::default();
                legacy::add(&legacy::Add { catalog, bundles: vec![bundle], allow_stranded: false, limits }, &NoNotices)
            }))
        }
        "promote" => {
            let chosen = detail == "chosen";
            let promotion = Promotion {
                policy: policy(detail),
                replaces: chosen.then(|| if b < 6 { entry(c + 1) } else { entry(entries.len().saturating_sub(1)) }),
                skips: if chosen { vec![any(a + c), any(c)] } else { Vec::new() },
                skip_range: None,
                create: false,
            };
            let missing: Vec<&&String> = bundles.iter().filter(|bundle| !entries.contains(bundle)).collect();
            let bundle = missing.get(c % missing.len().max(1)).map_or(bundle(c), |bundle| bundle.to_string());
            let request = Promote { options: options(), package: Some(package), bundle, channel, promotion };
            made(operations::promote(&request, &NoNotices))
        }
        "deprecate" => {
            let target = DeprecationTarget::Bundle { package: Some(package.clone()), bundle: bundle(c % 2) };
            let message = (detail != "undo").then(|| "do not use".to_owned());
            made(operations::deprecate(&Deprecate { options: options(), target, message }, &NoNotices))
        }
        "remove package" => {
            let target = DeprecationTarget::Package("q".to_owned());
            let removal = Removal::default();
            let edited = operations::remove(&Remove { options: options(), target, removal }, &NoNotices);
            Made { edited, named: Box::new(|package, _, _| package == "q") }
        }
        "remove channel" => {
            let target = DeprecationTarget::Channel { package: package.clone(), channel: channel.clone() };
            let other = if channel == "fast" { "stable" } else { "fast" };
            let removal = Removal { default_channel: Some(other.to_owned()), ..Removal::default() };
            let edited = operations::remove(&Remove { options: options(), target, removal }, &NoNotices);
            Made { edited, named: Box::new(move |of, in_channel, _| of == package && in_channel == channel) }
        }
        removes @ ("remove bundle" | "remove entry") => {
            let bundle = if removes == "remove entry" { entry(c) } else { bundle(c) };
            let target = DeprecationTarget::Bundle { package: Some(package.clone()), bundle: bundle.clone() };
            let forget = detail == "forget";
            let channel = (removes == "remove entry").then_some(channel);
            let removal = Removal { channel, forget, ..Removal::default() };
            let edited = operations::remove(&Remove { options: options(), target, removal }, &NoNotices);
            Made { edited, named: Box::new(move |_, _, name| forget && name == bundle) }
        }
        "set-default" => {
            made(operations::set_default(&SetDefault { options: options(), package, channel }, &NoNotices))
        }
        "set-edge" => {
            let bundle = entry(c);
            let own = before.channels.get(&(package.clone(), channel.clone()));
            let skips = own
                .and_then(|entries| entries.iter().find(|entry| entry.name == bundle))
                .map_or(Vec::new(), |entry| entry.skips.clone());
            // One of the entries before it, if there are any.
            let below = |number: usize| match number % entries.len().max(1) {
                0 => format!("{package}.v0.8.0"),
                at => entry(at.saturating_sub(1 + a % 3)),
            };
            let edges = match detail {
                "replaces" => Edges { replaces: Some(below(c)), ..Edges::default() },
                "skips" => Edges { add_skips: vec![below(c), format!("{package}.v0.8.{a}")], ..Edges::default() },
                "no skips" if a % 2 == 0 => Edges { skips: Some(Vec::new()), ..Edges::default() },
                "no skips" => {
                    Edges { remove_skips: skips.into_iter().skip(b % 2).take(1).collect(), ..Edges::default() }
                }
                _ => {
                    let below = bundle.split_once(".v").map_or("1.0.0", |(_, version)| version);
                    Edges { skip_range: Some(format!(">=1.{}.0 <{below}", a % 2)), ..Edges::default() }
                }
            };
            let request = SetEdge { options: options(), package: Some(package), channel, bundle, edges };
            made(operations::set_edge(&request, &NoNotices))
        }
        "filter" => {
            let mut selection = KeptPart { choose_default: true, dependencies: a % 2 == 0, ..KeptPart::default() };
            let mut named: Named = Box::new(|_, _, _| false);
            match detail {
                "packages" => {
                    selection.packages.push(package.clone());
                    named = Box::new(move |of, _, _| of != package);
                }
                "channels" => {
                    selection.channels.push((package.clone(), channel.clone()));
                    named = Box::new(move |of, in_channel, _| of != package || in_channel != channel);
                }
                "versions" => {
                    let range =
                        if a % 2 == 0 { format!(">=1.{}.{}", c / 3, c % 3) } else { format!("<1.{}.{}", c / 3, c % 3) };
                    let range = VersionRange::parse(&range).unwrap();
                    selection.versions.push(((b % 3 == 0).then_some(package), range));
                }
                _ => {
                    selection.heads_only = true;
                    selection.packages.extend((c % 2 == 0).then(|| package.clone()));
                    named = Box::new(move |of, _, _| c % 2 == 0 && of != package);
                }
            }
            let edited = operations::filter(&Filter { options: options(), selection }, &NoNotices);
            Made { edited, named }
        }
        _ => {
            let shape: Vec<Numbers> = (0..2 + c % 5).map(|i| (a + i * b, b + i, a + c + i, c + i)).collect();
            fs::create_dir_all(scratch.join("other")).unwrap();
            fs::write(scratch.join("other/p.json"), self::package(&package, &shape)).unwrap();
            let request = Merge { options: options(), other: scratch.join("other"), prefer_first: a % 4 != 0 };
            made(operations::merge(&request, &NoNotices))
        }
    }
}

/// Compares the catalogs before and after an edit.
fn compare(
    before: &Catalog,
    after: &Catalog,
    edited: &Edited,
    named: &dyn Fn(&str, &str, &str) -> bool,
) -> Vec<String> {
    let bundles: BTreeSet<String> = before.bundles.union(&after.bundles).cloned().collect();
    let reported: BTreeSet<(&str, &str, &str)> = edited
        .stranded
        .iter()
        .flat_map(|it| it.bundles.iter().map(|bundle| (&*it.package, &*it.channel, bundle.as_str())))
        .collect();
    let mut faults = Vec::new();
    for ((package, channel), was) in &before.channels {
        let nothing = Vec::new();
        let is = after.channels.get(&(package.clone(), channel.clone())).unwrap_or(&nothing);
        let names = names(was);
        let now = reaching(is, &bundles, &names);
        for name in reaching(was, &bundles, &names).difference(&now) {
            if is.iter().any(|entry| entry.name == *name) {
                faults.push(format!("{package} / {channel}: {name} is stranded"));
            } else if !reported.contains(&(package, channel, *name)) && !named(package, channel, name) {
                faults.push(format!("{package} / {channel}: {name} is lost without a word"));
            }
        }
    }
    faults
}

#[test]
fn no_edit_strands_a_version_that_it_keeps_and_every_report_names_the_others() {
    // How often each edit was made, was refused because it strands versions, and was refused for another reason.
    let counts: RefCell<BTreeMap<&str, [usize; 3]>> = RefCell::default();
    let config = ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() };
    let numbers = || (0..EDITS.len(), 0..12usize, 0..12usize, 0..12usize);
    let shape = |most| prop::collection::vec((0..6usize, 0..4usize, 0..4usize, 0..6usize), 1..most);
    let strategy = (shape(9), shape(4), prop::collection::vec(numbers(), 1..10));
    // The same in every run, so that each edit succeeds at least once.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let run = TestRunner::new_with_rng(config, rng).run(&strategy, |(p, q, edits)| {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("catalog")).unwrap();
        fs::write(scratch.path().join("catalog/p.json"), package("p", &p)).unwrap();
        fs::write(scratch.path().join("catalog/q.json"), package("q", &q)).unwrap();
        for edit in edits {
            let before = Catalog::read(&scratch.path().join("catalog"));
            let made = make(scratch.path(), &before, edit);
            let mut counts = counts.borrow_mut();
            let count = counts.entry(EDITS[edit.0]).or_default();
            match made.edited {
                Ok(edited) => {
                    count[0] += 1;
                    let after = Catalog::read(&scratch.path().join("catalog"));
                    let faults = compare(&before, &after, &edited, &*made.named);
                    prop_assert!(
                        faults.is_empty(),
                        "{} {edit:?}: {faults:#?}\n{before:#?}\n{after:#?}\n{:?}",
                        EDITS[edit.0],
                        edited.stranded
                    );
                }
                Err(EditError::Refused(refusal)) if refusal.message.contains("strand") => count[1] += 1,
                Err(EditError::Refused(_) | EditError::Invalid(_)) => count[2] += 1,
                Err(error) => return Err(TestCaseError::fail(format!("{edit:?}: {error}"))),
            }
        }
        Ok(())
    });
    let counts = counts.into_inner();
    run.unwrap();
    assert!(EDITS.iter().all(|edit| counts.get(edit).is_some_and(|[made, ..]| *made > 0)), "{counts:#?}");
    assert!(counts.values().map(|[_, stranding, _]| stranding).sum::<usize>() > 0, "{counts:#?}");
}
