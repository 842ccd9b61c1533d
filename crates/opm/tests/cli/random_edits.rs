//! Many edits of one large file; after each, all untouched bytes are compared.
//!
//! `OPM_EDIT_ROUNDS=200` makes 200 edits of a file of 60 MB, which takes minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::env::TestEnv;

/// A document of the file; each starts with a comment that names it, except those that edits add.
#[derive(Debug, PartialEq, Eq)]
struct Document {
    id: Option<String>,
    text: String,
}

/// Splits the file at its separators. No document contains such a line.
fn documents(text: &str) -> Vec<Document> {
    let cut = text.split("\n---\n").map(|text| {
        let first = text.lines().next().unwrap_or_default();
        Document { id: first.strip_prefix("# id: ").map(str::to_owned), text: text.trim_end().to_owned() }
    });
    cut.collect()
}

const CHANNELS: [&str; 3] = ["fast", "stable", "slow"];

/// Returns a file of `packages` packages with `bundles` bundles each, and `padding` bytes in every bundle.
fn file(packages: usize, bundles: usize, padding: usize) -> String {
    let mut text = String::new();
    for p in 0..packages {
        let _ = write!(
            text,
            "# id: p{p} package\nschema: olm.package\nname: p{p}\ndefaultChannel: stable # for now\n---\n"
        );
        for (c, channel) in CHANNELS.iter().enumerate() {
            let _ = writeln!(
                text,
                "# id: p{p} channel {channel}\nschema: olm.channel\npackage: p{p}\nname: {channel}\nentries:"
            );
            for b in 0..bundles / (c + 1) {
                let _ = writeln!(text, "# entry {b}\n- name: p{p}.v1.{b}.0   # of {channel}");
                if b > 0 {
                    let _ = writeln!(text, "  replaces: p{p}.v1.{}.0", b - 1);
                }
            }
            text += "---\n";
        }
        for b in 0..bundles {
            let _ = write!(
                text,
                "# id: p{p} bundle p{p}.v1.{b}.0\nschema: olm.bundle\npackage: p{p}\nname: p{p}.v1.{b}.0\n\
                 image: registry.example.com/p{p}:v1.{b}.0\nproperties:\n\
                 - {{type: olm.package, value: {{packageName: p{p}, version: 1.{b}.0}}}}\n- type: notes\n  value: |\n"
            );
            // Lines have different lengths, so that every edit moves the boundaries of chunks.
            let mut left = padding;
            while left > 0 {
                let line = left.min(40 + (left * 7 + b * 13 + p) % 60);
                let _ = writeln!(text, "    {}", &"é# - x: y ".repeat(12)[..line / 10 * 11].trim_end());
                left -= line;
            }
            text += "---\n";
        }
    }
    text.truncate(text.len() - "---\n".len());
    text
}

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }
}

/// An edit: its arguments, and the documents that it may change, remove and add.
struct Edit {
    name: &'static str,
    arguments: Vec<String>,
    changes: Vec<String>,
    removes: Vec<String>,
    adds: usize,
}

fn edit(env: &TestEnv, dice: &mut Dice, deprecated: &mut Vec<String>, (packages, bundles): (usize, usize)) -> Edit {
    let p = format!("p{}", dice.roll(packages));
    let bundle = |dice: &mut Dice| format!("{p}.v1.{}.0", dice.roll(bundles));
    let (one, two) = (bundle(dice), bundle(dice));
    let channel = CHANNELS[dice.roll(CHANNELS.len())];
    let of_channel = |channel: &str| format!("{p} channel {channel}");
    let every_channel = || CHANNELS.map(of_channel).to_vec();
    let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let edit_of = |name, arguments: &str, changes: Vec<String>, removes: Vec<String>, adds| Edit {
        name,
        arguments: words(arguments),
        changes,
        removes,
        adds,
    };
    match dice.roll(9) {
        0 => edit_of(
            "set-default",
            &format!("set-default catalog {p} {channel}"),
            vec![format!("{p} package")],
            vec![],
            0,
        ),
        1 => {
            let policy = ["replaces", "semver", "skip-patch"][dice.roll(3)];
            let line = format!("promote catalog {one} {channel} --edge {policy}");
            edit_of("promote", &line, vec![of_channel(channel)], vec![], 0)
        }
        2 => {
            let line =
                format!("set-edge catalog {one} --channel {channel} --add-skip {two} --skip-range <1.{}.0", bundles);
            edit_of("set-edge", &line, vec![of_channel(channel)], vec![], 0)
        }
        4 if !deprecated.is_empty() => {
            let one = deprecated.swap_remove(dice.roll(deprecated.len()));
            let line = format!("deprecate catalog --bundle {one} --undo");
            edit_of("deprecate --undo", &line, vec![], vec![], 0)
        }
        3 | 4 => {
            deprecated.push(one.clone());
            let line = format!("deprecate catalog --bundle {one} --message use-{two}");
            edit_of("deprecate", &line, vec![], vec![], 0)
        }
        5 => {
            let line = format!("remove catalog --bundle {one}");
            edit_of("remove bundle", &line, every_channel(), vec![format!("{p} bundle {one}")], 0)
        }
        6 => {
            let line = format!("remove catalog --bundle {one} --channel {channel} --forget");
            edit_of("remove entry", &line, vec![of_channel(channel)], vec![format!("{p} bundle {one}")], 0)
        }
        7 => {
            let version = format!("1.{}.1", dice.roll(bundles));
            env.file(
                "bundle/manifests/csv.yaml",
                format!("apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: {p}.v{version}}}\nspec: {{version: {version}}}\n"),
            );
            env.file(
                "bundle/metadata/annotations.yaml",
                format!("annotations:\n  operators.operatorframework.io.bundle.package.v1: {p}\n"),
            );
            let line =
                format!("add-bundle catalog bundle --image r.test/{p}:v{version} --channel {channel} --edge semver");
            edit_of("add-bundle", &line, vec![of_channel(channel)], vec![], 1)
        }
        _ => {
            let new = dice.roll(1000);
            env.file(
                "other/o.yaml",
                format!(
                    "schema: olm.package\nname: {p}\ndefaultChannel: stable\n---\n# new\nschema: olm.channel\npackage: {p}\n\
                     name: new-{new}\nentries:\n- name: {p}.v9.{new}.0\n---\nschema: olm.bundle\n\
                     package: {p}\nname: {p}.v9.{new}.0\nimage: r.test/{p}:v9\nproperties:\n\
                     - {{type: olm.package, value: {{packageName: {p}, version: 9.{new}.0}}}}\n"
                ),
            );
            edit_of("merge", "merge catalog other --prefer-first", vec![], vec![], 2)
        }
    }
}

/// Checks that an edit changed, removed and added only the intended documents; returns the number of compared bytes.
fn compare(edit: &Edit, before: &[Document], after: &[Document]) -> usize {
    let ids = |documents: &[Document]| -> BTreeSet<String> {
        documents.iter().filter_map(|document| document.id.clone()).collect()
    };
    let missing: Vec<String> = ids(before).difference(&ids(after)).cloned().collect();
    assert!(missing.iter().all(|id| edit.removes.contains(id)), "{}: {missing:?} are missing", edit.name);
    // Documents that earlier edits added have no name; edits may only change deprecations among them.
    let deprecations = |document: &Document| document.text.contains("schema: olm.deprecations");
    let about_deprecations = edit.name.starts_with("deprecate") || edit.name.starts_with("remove");
    let unnamed: BTreeSet<&str> =
        before.iter().filter(|document| document.id.is_none()).map(|document| document.text.as_str()).collect();
    let mut added = 0;
    let mut compared = 0;
    let mut expected = before.iter().filter(|document| match &document.id {
        Some(id) => !missing.contains(id),
        None => !(about_deprecations && deprecations(document)),
    });
    for new in after {
        if new.id.is_none() && about_deprecations && deprecations(new) {
            continue;
        }
        if new.id.is_none() && !unnamed.contains(new.text.as_str()) {
            added += 1;
            continue;
        }
        let old = expected.next().unwrap_or_else(|| panic!("{}: {:?} is new", edit.name, new.id));
        assert_eq!(old.id, new.id, "{}", edit.name);
        if new.id.as_ref().is_none_or(|id| !edit.changes.contains(id)) {
            assert!(old.text == new.text, "{}: {:?} changed", edit.name, new.id);
            compared += new.text.len();
        }
    }
    assert!(expected.next().is_none() && added <= edit.adds, "{}: {added} documents are new", edit.name);
    compared
}

#[test]
#[expect(clippy::print_stdout, reason = "long runs report their figures")]
fn random_edits_of_a_large_file_change_nothing_else() {
    let rounds: usize = std::env::var("OPM_EDIT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let (packages, bundles, padding) = if rounds >= 100 { (150, 20, 20_000) } else { (8, 12, 50_000) };
    let env = TestEnv::new();
    let text = file(packages, bundles, padding);
    let size = text.len();
    assert!(size > 4 << 20);
    env.file("catalog/all.yaml", &text);
    let mut dice = Dice(7);
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut before = text;
    let mut compared = 0;
    let mut deprecated = Vec::new();
    for _ in 0..rounds {
        let edit = edit(&env, &mut dice, &mut deprecated, (packages, bundles));
        let arguments: Vec<&str> = std::iter::once("edit").chain(edit.arguments.iter().map(String::as_str)).collect();
        let output = env.command().args(&arguments).output().expect("opm runs");
        let after = env.read("catalog/all.yaml");
        let (applied, refused) = counts.entry(edit.name).or_default();
        if output.status.success() {
            *applied += 1;
            compared += compare(&edit, &documents(&before), &documents(&after));
        } else {
            *refused += 1;
            assert!(after == before, "{}: a rejected edit changed the file", edit.name);
        }
        before = after;
    }
    env.stdout(&["validate", "catalog"]);
    println!("{size} bytes, {rounds} edits, {compared} bytes compared; applied and rejected: {counts:?}");
    assert!(counts.values().map(|(applied, _)| applied).sum::<usize>() * 3 > rounds, "{counts:?}");
    if rounds >= 100 {
        assert!(counts.len() == 9 && counts.values().all(|(applied, _)| *applied > 0), "{counts:?}");
    }
}
