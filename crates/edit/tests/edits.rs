//! Any sequence of edits on a valid catalog gives a valid catalog, or a refusal.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use catalog::Warnings;
use edit::changes::Changes;
use edit::deprecate::{self, Target};
use edit::filter::{AllFacts, Selection, filter};
use edit::promote::{Policy, Promotion, promote};
use edit::remove::{Removal, remove};
use edit::rewrite::{Rewritten, new_file, rewrite};
use edit::set_edge::{Edges, set_edge};
use edit::{Outline, Refusal, set_default};
use fbc::range::VersionRange;
use fbc::{Fbc, LoadOptions};
use proptest::prelude::*;

type Files = BTreeMap<PathBuf, String>;

/// A catalog on disk, loaded and checked.
struct Read {
    fbc: Fbc,
    outline: Outline,
    errors: Vec<String>,
    directory: tempfile::TempDir,
}

fn read(files: &Files) -> Read {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let inspect = catalog::inspect(Warnings::Off);
    let mut fbc = Fbc::default();
    let options = LoadOptions { inspect: Some(&inspect), ..LoadOptions::default() };
    let loaded = fbc.load_dir(directory.path(), &options).unwrap();
    let checked = catalog::check(&fbc, loaded, Warnings::Off);
    let errors = checked.errors().map(ToString::to_string).collect();
    Read { outline: Outline::new(&fbc), fbc, errors, directory }
}

/// Makes an edit in the text of a catalog; tells what it says afterwards too.
fn edited(files: &Files, verb: impl FnOnce(&mut Outline) -> Result<(), Refusal>) -> Result<(Files, Outline), Refusal> {
    let before = read(files);
    let mut wanted = before.outline.clone();
    verb(&mut wanted)?;
    let changes = Changes::between(&before.fbc, &before.outline, &wanted)?;
    let mut new = files.clone();
    for (file, change) in &changes.files {
        let path = before.fbc.full_path_of(*file).unwrap();
        let path = path.strip_prefix(before.directory.path()).unwrap().to_path_buf();
        match rewrite(&files[&path], change)? {
            Rewritten::Gone => {
                new.remove(&path);
            }
            Rewritten::Spliced(splices) => {
                let text = edit::text::apply(files[&path].as_bytes(), &splices).expect("no changes overlap");
                new.insert(path, String::from_utf8(text).unwrap());
            }
        }
    }
    for (package, blobs) in &changes.new_packages {
        new.insert(Changes::path_for(package, false), new_file(blobs, false));
    }
    Ok((new, wanted))
}

#[derive(Debug, Clone, Copy)]
enum Style {
    Block,
    Commented,
    Flow,
    Json,
    Compact,
}

/// Writes a catalog of one package with `count` bundles in a chain, in one file or several.
fn written(style: Style, count: usize, several: bool) -> Files {
    let name = |i: usize| format!("p.v1.{}.{}", i / 2, i % 2);
    let json = |style: Style| matches!(style, Style::Json | Style::Compact);
    let mut blobs: Vec<(&str, String)> = Vec::new();
    let package = r#"{"schema":"olm.package","name":"p","defaultChannel":"stable"}"#;
    let channel = |channel: &str, upto: usize| {
        let entry = |i: usize| match i {
            0 => format!(r#"{{"name":"{}"}}"#, name(0)),
            i => format!(r#"{{"name":"{}","replaces":"{}","skips":["x{i}"]}}"#, name(i), name(i - 1)),
        };
        let entries: Vec<String> = (0..upto).map(entry).collect();
        format!(r#"{{"schema":"olm.channel","package":"p","name":"{channel}","entries":[{}]}}"#, entries.join(","))
    };
    blobs.push(("package", package.to_owned()));
    blobs.push(("channels", channel("fast", count)));
    blobs.push(("channels", channel("stable", count.div_ceil(2))));
    for i in 0..count {
        blobs.push((
            "bundles",
            format!(
                r#"{{"schema":"olm.bundle","package":"p","name":"{}","image":"i","properties":[{{"type":"olm.package","value":{{"packageName":"p","version":"{}"}}}}]}}"#,
                name(i),
                &name(i)[3..]
            ),
        ));
    }
    let mut files = Files::new();
    for (kind, blob) in blobs {
        let extension = if json(style) { "json" } else { "yaml" };
        let path = if several { format!("p/{kind}.{extension}") } else { format!("p.{extension}") };
        let raw = fbc::json::Raw::from_checked(&blob);
        let file = files.entry(PathBuf::from(path)).or_default();
        let mut out = Vec::new();
        match style {
            Style::Json => fbc::json::write_as_written(raw, fbc::json::Layout::Indented(4), 0, &mut out),
            Style::Compact => out.extend_from_slice(blob.as_bytes()),
            Style::Flow => out.extend_from_slice(blob.replace("\":", "\": ").as_bytes()),
            Style::Block | Style::Commented => fbc::yaml::write_document(raw, &mut out),
        }
        let mut text = String::from_utf8(out).unwrap();
        if matches!(style, Style::Commented) {
            text = text.replace("- name", "# about it\n- name").replace("\npackage: p\n", "\npackage: p # this one\n");
        }
        if !json(style) {
            file.push_str("---\n");
        }
        file.push_str(text.trim_end());
        file.push('\n');
    }
    files
}

fn verb() -> impl Strategy<Value = (usize, usize, usize, usize)> {
    (0..9usize, 0..12usize, 0..3usize, 0..12usize)
}

/// Makes the edit that some numbers stand for.
fn act(outline: &mut Outline, (verb, bundle, channel, other): (usize, usize, usize, usize)) -> Result<(), Refusal> {
    let name = |i: usize| format!("p.v1.{}.{}", i / 2, i % 2);
    let (bundle, other) = (name(bundle), name(other));
    let channel = ["fast", "stable", "new"][channel];
    let target = Target::Bundle { package: None, bundle: bundle.clone() };
    match verb {
        0 => set_default::set_default(outline, "p", channel),
        1 => {
            let edges = Edges { add_skips: vec![other], skip_range: Some("<1.2.0".into()), ..Edges::default() };
            set_edge(outline, None, channel, &bundle, &edges)
        }
        2 => {
            let edges = Edges { replaces: Some(other), skips: Some(vec![]), ..Edges::default() };
            set_edge(outline, None, channel, &bundle, &edges)
        }
        3..=5 => {
            let policy = [Policy::Replaces, Policy::Semver, Policy::SkipPatch][verb - 3];
            promote(outline, None, &bundle, channel, &Promotion { policy, create: true, ..Promotion::default() })
        }
        6 => deprecate::deprecate(outline, &target, &format!("use {other}: it's better")),
        7 => remove(outline, &target, &Removal::default()).map(|_| ()),
        _ => {
            let range = VersionRange::parse(&format!(">={}", &bundle[3..])).unwrap();
            let selection = Selection { versions: vec![(None, range)], ..Selection::default() };
            filter(outline, &selection, &AllFacts::new()).map(|_| ())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn edits_keep_a_catalog_valid_or_are_refused(
        style in prop::sample::select(vec![Style::Block, Style::Commented, Style::Flow, Style::Json, Style::Compact]),
        count in 1..10usize,
        several in any::<bool>(),
        verbs in prop::collection::vec(verb(), 1..6),
    ) {
        let mut files = written(style, count, several);
        prop_assert_eq!(read(&files).errors, Vec::<String>::new());
        for verb in verbs {
            let Ok((new, wanted)) = edited(&files, |outline| act(outline, verb)) else { continue };
            let now = read(&new);
            // Whatever the text says now is what was wanted; if that is no valid catalog, the edit is not made.
            prop_assert!(now.outline.agrees_with(&wanted), "{verb:?}\n{files:#?}\n{new:#?}");
            if now.errors.is_empty() {
                files = new;
            }
        }
    }

    #[test]
    fn edits_that_undo_each_other_leave_no_trace(
        style in prop::sample::select(vec![Style::Block, Style::Commented, Style::Flow, Style::Json, Style::Compact]),
        count in 2..10usize,
        several in any::<bool>(),
        pick in 0..10usize,
    ) {
        let files = written(style, count, several);
        let last = format!("p.v1.{}.{}", (count - 1) / 2, (count - 1) % 2);
        let some = format!("p.v1.{}.{}", pick % count / 2, pick % count % 2);
        let bundle = |bundle: &str| Target::Bundle { package: None, bundle: bundle.to_owned() };
        let there_and_back = |there: &dyn Fn(&mut Outline) -> Result<(), Refusal>, back: &dyn Fn(&mut Outline) -> Result<(), Refusal>| {
            let (changed, _) = edited(&files, there).expect("the edit is made");
            assert_ne!(&changed, &files);
            let (undone, _) = edited(&changed, back).expect("it is undone");
            assert_eq!(&undone, &files);
        };
        there_and_back(
            &|outline| set_default::set_default(outline, "p", "fast"),
            &|outline| set_default::set_default(outline, "p", "stable"),
        );
        there_and_back(
            &|outline| deprecate::deprecate(outline, &bundle(&some), "do not use"),
            &|outline| deprecate::undo(outline, &bundle(&some)),
        );
        let edges = |edges: Edges| move |outline: &mut Outline| set_edge(outline, None, "fast", &some.clone(), &edges);
        let range = |range: &str| Edges { skip_range: Some(range.into()), ..Edges::default() };
        there_and_back(&edges.clone()(range(">=1.0.0 <1.1.0")), &edges.clone()(range("")));
        let add = Edges { add_skips: vec!["y".into(), "z".into()], ..Edges::default() };
        let take = Edges { remove_skips: vec!["y".into(), "z".into()], ..Edges::default() };
        there_and_back(&edges.clone()(add), &edges(take));
        let stable = count.div_ceil(2);
        if stable < count {
            let removal = Removal { channel: Some("stable".into()), forget: true, ..Removal::default() };
            there_and_back(
                &|outline| promote(outline, None, &last, "stable", &Promotion::default()),
                &|outline| remove(outline, &bundle(&last), &removal).map(|_| ()),
            );
        }
    }
}
