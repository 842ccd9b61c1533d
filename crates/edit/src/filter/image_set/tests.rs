//! M-2 and M-3: which bundles a request keeps.

use std::collections::{BTreeMap, BTreeSet};

use fbc::blob::ChannelEntry;
use fbc::version::Version;

use super::*;
use crate::filter::bounds::Bound;
use crate::outline::OutlineBundle;

fn entry(name: &str, replaces: &str, skips: &[&str]) -> ChannelEntry {
    ChannelEntry {
        name: name.into(),
        replaces: replaces.into(),
        skips: skips.iter().map(|skip| (*skip).into()).collect(),
        skip_range: "".into(),
    }
}

/// A package whose bundles are named `p.v<version>`.
fn package(default: &str, channels: &[(&str, Vec<ChannelEntry>)]) -> OutlinePackage {
    let mut package = OutlinePackage { blob: Some(0), default_channel: default.into(), ..OutlinePackage::default() };
    for (name, entries) in channels {
        for entry in entries {
            let version = Version::parse_strict(entry.name.trim_start_matches("p.v")).ok().map(|it| (it, None));
            let bundle = OutlineBundle { blob: Some(0), new_blob: None, version };
            package.bundles.insert(entry.name.to_string(), bundle);
        }
        package
            .channels
            .insert((*name).into(), OutlineChannel { blob: Some(0), new_blob: None, entries: entries.clone() });
    }
    package
}

fn outline(package: OutlinePackage) -> Outline {
    Outline { packages: BTreeMap::from([("p".to_owned(), package)]), ..Outline::default() }
}

fn bounds(min: &str, max: &str) -> Bounds {
    let bound = |text: &str| (!text.is_empty()).then(|| Bound::parse(text).unwrap());
    Bounds { min: bound(min), max: bound(max) }
}

fn wanted(min: &str, max: &str) -> PackageRequest {
    PackageRequest { name: "p".into(), bounds: bounds(min, max), ..PackageRequest::default() }
}

fn shown(outline: &Outline) -> String {
    let channels = outline.packages["p"].channels.iter().map(|(name, channel)| {
        let entries: Vec<&str> = channel.entries.iter().map(|entry| entry.name.trim_start_matches("p.v")).collect();
        format!("{name}: {}", entries.join(" "))
    });
    channels.collect::<Vec<_>>().join("; ")
}

fn selected(package: &OutlinePackage, request: &ImageSetRequest) -> Result<String, String> {
    let mut outline = outline(package.clone());
    match choose(&mut outline, request, &AllFacts::default()) {
        Ok(_) => Ok(shown(&outline)),
        Err(refused) => Err(refused.iter().map(|it| it.message.clone()).collect::<Vec<_>>().join("; ")),
    }
}

fn line() -> OutlinePackage {
    package(
        "stable",
        &[
            (
                "stable",
                vec![
                    entry("p.v1.0.0", "", &[]),
                    entry("p.v1.1.0", "p.v1.0.0", &[]),
                    entry("p.v1.2.0", "p.v1.1.0", &["p.v1.1.1"]),
                    entry("p.v1.1.1", "", &[]),
                    entry("p.v2.0.0", "p.v1.2.0", &[]),
                ],
            ),
            ("beta", vec![entry("p.v2.0.0", "", &[]), entry("p.v2.1.0-rc.1", "p.v2.0.0", &[])]),
        ],
    )
}

#[test]
fn m2_without_a_range_every_channel_keeps_its_head() {
    let request = ImageSetRequest { packages: vec![wanted("", "")], ..ImageSetRequest::default() };
    assert_eq!(selected(&line(), &request).unwrap(), "beta: 2.1.0-rc.1; stable: 2.0.0");
    let all = ImageSetRequest { full: true, ..request };
    assert_eq!(selected(&line(), &all).unwrap(), "beta: 2.0.0 2.1.0-rc.1; stable: 1.0.0 1.1.0 1.2.0 1.1.1 2.0.0");
    assert_eq!(selected(&line(), &ImageSetRequest::default()).unwrap(), "beta: 2.1.0-rc.1; stable: 2.0.0");
}

#[test]
fn m2_a_range_keeps_a_part_of_the_chain_and_skips_in_range() {
    let range = |min: &str, max: &str| {
        selected(&line(), &ImageSetRequest { packages: vec![wanted(min, max)], ..ImageSetRequest::default() })
    };
    assert_eq!(range("1.1.0", "1.2").unwrap(), "stable: 1.1.0 1.2.0 1.1.1");
    assert_eq!(range("1.1.1", "1.2").unwrap(), "stable: 1.2.0 1.1.1");
    assert_eq!(range("", "1.1.0").unwrap(), "stable: 1.0.0 1.1.0");
    // The head is the lowest entry with the full count, and entries in between stay.
    assert_eq!(range("", "1.1").unwrap(), "stable: 1.0.0 1.1.0 1.2.0 1.1.1");
    // A pre-release is in a range by precedence.
    assert_eq!(range("2.0.0", "").unwrap(), "beta: 2.0.0 2.1.0-rc.1; stable: 2.0.0");
    // Equal bounds select exactly that version.
    assert_eq!(range("1.1.1", "1.1.1").unwrap(), "stable: 1.1.1");
    assert_eq!(
        range("3", "").unwrap_err(),
        "no bundle of package \"p\" is in the range: beta (3 and above), stable (3 and above)"
    );
}

#[test]
fn m2_missing_names_are_rejected_with_existing_ones() {
    let channel = |name: &str| PackageRequest { channels: vec![(name.into(), Bounds::default())], ..wanted("", "") };
    let request = |wanted: PackageRequest| ImageSetRequest { packages: vec![wanted], ..ImageSetRequest::default() };
    assert_eq!(selected(&line(), &request(channel("stabel"))).unwrap_err(), "package \"p\" has no channel \"stabel\"");
    let other = PackageRequest { name: "q".into(), ..PackageRequest::default() };
    assert_eq!(selected(&line(), &request(other)).unwrap_err(), "the catalog has no package \"q\"");
    // If the default channel is removed, the only remaining channel becomes the default; otherwise the user decides.
    let mut only = outline(line());
    let notes = choose(&mut only, &request(channel("beta")), &AllFacts::default()).unwrap();
    assert!(notes.iter().any(|note| note.contains("\"beta\" is the only remaining channel")), "{notes:?}");
    assert_eq!(only.packages["p"].default_channel, "beta");
    let named = PackageRequest { default_channel: Some("stable".into()), ..channel("beta") };
    assert!(selected(&line(), &request(named)).unwrap_err().contains("\"stable\" of package \"p\" is not kept"));
    // A channel that a range empties cannot be the default.
    let emptied = PackageRequest { default_channel: Some("beta".into()), ..wanted("", "1.1.0") };
    assert!(selected(&line(), &request(emptied)).unwrap_err().contains("\"beta\" of package \"p\" is not kept"));
}

/// A deterministic pseudo-random generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A linear channel whose entries skip some of the entries outside the line.
fn random(chance: &mut Random) -> OutlinePackage {
    let versions: Vec<String> = (0..2 + chance.below(9)).map(|minor| format!("p.v1.{minor}.0")).collect();
    let mut entries = Vec::new();
    let mut below = String::new();
    let mut loose: Vec<String> = Vec::new();
    for (number, name) in versions.iter().enumerate() {
        let last = number + 1 == versions.len();
        if !last && chance.below(3) == 0 {
            loose.push(name.clone());
            entries.push(entry(name, "", &[]));
            continue;
        }
        let skips: Vec<&str> = match last {
            true => loose.iter().map(String::as_str).collect(),
            false => loose.iter().map(String::as_str).filter(|_| chance.below(2) == 0).collect(),
        };
        entries.push(entry(name, &below, &skips));
        below.clone_from(name);
    }
    package("c", &[("c", entries)])
}

/// A naive implementation of the rules, without regard to cost.
fn naive(package: &OutlinePackage, bounds: &Bounds) -> BTreeSet<String> {
    let channel = &package.channels["c"];
    let find = |name: &str| channel.entries.iter().find(|entry| &*entry.name == name);
    let fits = |name: &str| find(name).is_some() && bounds.contains(&package.bundles[name].version.as_ref().unwrap().0);
    let referred: BTreeSet<&str> = channel
        .entries
        .iter()
        .flat_map(|entry| entry.skips.iter().map(|skip| &**skip).chain([&*entry.replaces]))
        .collect();
    let head = channel.entries.iter().find(|entry| !referred.contains(&*entry.name)).unwrap();
    let mut chain = vec![head];
    while let Some(next) = find(&chain.last().unwrap().replaces) {
        chain.push(next);
    }
    let count = |from: usize| {
        let all: BTreeSet<&str> = chain[from..]
            .iter()
            .flat_map(|entry| entry.skips.iter().map(|skip| &**skip).chain([&*entry.name]))
            .filter(|name| fits(name))
            .collect();
        all.len()
    };
    let greatest = (0..chain.len()).map(count).max().unwrap();
    let Some(top) = (0..chain.len()).filter(|at| count(*at) == greatest && greatest > 0).max() else {
        return BTreeSet::new();
    };
    let selected = chain[top..].iter().enumerate().take_while(|(number, _)| count(top + number) > 0);
    selected
        .flat_map(|(_, entry)| {
            let skips = entry.skips.iter().map(|skip| &**skip).filter(|skip| fits(skip));
            skips.chain([&*entry.name]).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn m3_random_channels_follow_the_rules_and_the_result_is_stable() {
    let mut chance = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..2000 {
        let package = random(&mut chance);
        let (low, high) = (chance.below(11), chance.below(11));
        let bounds = match chance.below(3) {
            0 => bounds(&format!("1.{low}.0"), ""),
            1 => bounds("", &format!("1.{high}.0")),
            // The bounds differ: equal bounds select a single bundle.
            _ => bounds(&format!("1.{}.0", low.min(high)), &format!("1.{}.1", low.max(high))),
        };
        let expected = naive(&package, &bounds);
        let wanted = PackageRequest { name: "p".into(), bounds: bounds.clone(), ..PackageRequest::default() };
        let request = ImageSetRequest { packages: vec![wanted], ..ImageSetRequest::default() };
        let mut outline = outline(package);
        let outcome = choose(&mut outline, &request, &AllFacts::default());
        if expected.is_empty() {
            assert!(outcome.is_err(), "round {round}");
            continue;
        }
        outcome.unwrap();
        let names: BTreeSet<String> =
            outline.packages["p"].channels["c"].entries.iter().map(|entry| entry.name.to_string()).collect();
        assert_eq!(names, expected, "round {round}: {bounds}");
        let view_heads = outline.packages["p"].channels["c"].heads().len();
        assert_eq!(view_heads, 1, "round {round}: {bounds}");
        let once = shown(&outline);
        choose(&mut outline, &request, &AllFacts::default()).unwrap();
        assert_eq!(shown(&outline), once, "round {round}: {bounds}");
    }
}
