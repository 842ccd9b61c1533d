//! Any sequence of edits on a valid catalog gives a valid catalog and strands no version, or is rejected.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use catalog::Warnings;
use edit::add_bundle::{NewBundle, add_bundle};
use edit::changes::FileChanges;
use edit::deprecate::{self, DeprecationTarget};
use edit::filter::{AllFacts, KeptPart, filter};
use edit::merge::{MergeSide, merge};
use edit::promote::{EdgePolicy, Promotion, promote};
use edit::remove::{Removal, remove};
use edit::rewrite::{RewrittenFile, new_file, rewrite};
use edit::set_edge::{Edges, set_edge};
use edit::upgrades::Offered;
use edit::verify::{BlobDigests, CatalogSnapshot, Purpose, Stranded, verify_only_planned_changes};
use edit::{EditRefusal, NewBlob, Outline, set_default};
use fbc::range::VersionRange;
use fbc::{Fbc, LoadOptions};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use resolve::input::CatalogInput;

type Files = BTreeMap<PathBuf, String>;

/// A catalog on disk, loaded and checked.
struct Read {
    fbc: Fbc,
    outline: Outline,
    errors: Vec<String>,
    digests: BlobDigests,
    directory: tempfile::TempDir,
}

impl Read {
    fn snapshot(&self) -> CatalogSnapshot<'_> {
        CatalogSnapshot { fbc: &self.fbc, root: self.directory.path(), digests: &self.digests }
    }
}

fn read(files: &Files) -> Read {
    read_into(files, BlobDigests::default())
}

fn read_into(files: &Files, digests: BlobDigests) -> Read {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let rules = catalog::inspect(Warnings::Off);
    let inspect = |blob: &fbc::Blob, text: fbc::json::Raw<'_>, problems: &mut Vec<fbc::Problem>| {
        digests.note(blob, text);
        rules(blob, text, problems);
    };
    let mut fbc = Fbc::default();
    let options = LoadOptions { inspect: Some(&inspect), keep_text: true, ..LoadOptions::default() };
    let loaded = fbc.load_dir(directory.path(), &options).unwrap();
    let checked = catalog::check(&fbc, loaded, Warnings::Off);
    let errors = checked.errors().map(ToString::to_string).collect();
    Read { outline: Outline::new(&fbc), fbc, errors, digests, directory }
}

/// The outcome of an edit.
struct Edited {
    files: Files,
    outlines: [Outline; 2],
    /// The problems of the edited catalog; an edit with problems is not applied.
    errors: Vec<String>,
}

/// Applies an edit to the text of a catalog, and checks that only the intended part changed.
fn edited(
    files: &Files,
    verb: impl FnOnce(&Read, &mut Outline) -> Result<(), EditRefusal>,
) -> Result<Edited, EditRefusal> {
    let before = read(files);
    let mut wanted = before.outline.clone();
    verb(&before, &mut wanted)?;
    let mut changes = FileChanges::between(&before.fbc, &before.outline, &wanted)?;
    let path_of = |file| {
        let path = before.fbc.full_path_of(file).unwrap();
        path.strip_prefix(before.directory.path()).unwrap().to_path_buf()
    };
    changes.remove_emptied(|file| Ok::<_, EditRefusal>(files[&path_of(file)].clone()))?;
    let mut new = files.clone();
    for (file, change) in &changes.files {
        let path = path_of(*file);
        match rewrite(&files[&path], change)? {
            RewrittenFile::Deleted => {
                new.remove(&path);
            }
            RewrittenFile::Spliced(splices) => {
                let text = edit::text::apply(files[&path].as_bytes(), &splices).expect("no changes overlap");
                new.insert(path, String::from_utf8(text).unwrap());
            }
        }
    }
    let mut new_blob = BTreeMap::new();
    for (package, blobs) in &changes.new_packages {
        let path = FileChanges::path_for(package, false);
        new.insert(path.clone(), new_file(blobs, false));
        new_blob.insert(path, blobs.clone());
    }
    let after = read_into(&new, BlobDigests::of_changed(&before.digests, &changes, &new_blob));
    assert!(after.outline.agrees_with(&wanted), "{files:#?}\n{new:#?}");
    assert_eq!(
        verify_only_planned_changes(before.snapshot(), &changes, &new_blob, after.snapshot()),
        Ok(()),
        "{files:#?}\n{new:#?}"
    );
    Ok(Edited { files: new, outlines: [before.outline, after.outline], errors: after.errors })
}

#[derive(Debug, Clone, Copy)]
enum Style {
    Block,
    Commented,
    /// Without a newline at the end of the file.
    Bare,
    NewestFirst,
    Flow,
    Json,
    Compact,
}

/// Returns the files of a catalog: one package with `count` bundles in a chain, in one file or several.
fn catalog_files(style: Style, count: usize, several: bool) -> Files {
    let name = |i: usize| format!("p.v1.{}.{}", i / 2, i % 2);
    let json = |style: Style| matches!(style, Style::Json | Style::Compact);
    let mut blobs: Vec<(&str, String)> = Vec::new();
    let package = r#"{"schema":"olm.package","name":"p","defaultChannel":"stable"}"#;
    let channel = |channel: &str, upto: usize| {
        let entry = |i: usize| match i {
            0 => format!(r#"{{"name":"{}"}}"#, name(0)),
            i => format!(r#"{{"name":"{}","replaces":"{}","skips":["x{i}"]}}"#, name(i), name(i - 1)),
        };
        let mut entries: Vec<String> = (0..upto).map(entry).collect();
        if matches!(style, Style::NewestFirst) {
            entries.reverse();
        }
        format!(r#"{{"schema":"olm.channel","package":"p","name":"{channel}","entries":[{}]}}"#, entries.join(","))
    };
    blobs.push(("package", package.to_owned()));
    blobs.push(("channels", channel("fast", count)));
    blobs.push(("channels", channel("stable", count.div_ceil(2))));
    for i in 0..count {
        blobs.push(("bundles", bundle_json(&name(i))));
    }
    let mut files = Files::new();
    for (kind, blob) in blobs {
        let extension = if json(style) { "json" } else { "yaml" };
        let path = if several { format!("p/{kind}.{extension}") } else { format!("p.{extension}") };
        let raw = fbc::json::Raw::parse(&blob, 100).unwrap();
        let file = files.entry(PathBuf::from(path)).or_default();
        let mut out = Vec::new();
        match style {
            Style::Json => fbc::json::write_as_written(raw, fbc::json::JsonLayout::Indented(4), 0, &mut out),
            Style::Compact => out.extend_from_slice(blob.as_bytes()),
            Style::Flow => out.extend_from_slice(blob.replace("\":", "\": ").as_bytes()),
            _ => fbc::yaml::write_document(raw, &mut out),
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
    if matches!(style, Style::Bare) {
        files.values_mut().for_each(|text| text.truncate(text.trim_end().len()));
    }
    files
}

/// The edits under test.
const VERBS: [&str; 16] = [
    "set-default",
    "set-edge: skips",
    "set-edge: replaces",
    "promote: replaces",
    "promote: semver",
    "promote: skip-patch",
    "deprecate",
    "deprecate: undo",
    "remove bundle",
    "remove bundle: forget",
    "remove entry",
    "remove channel",
    "filter: versions",
    "filter: heads",
    "add-bundle",
    "merge",
];

fn verb() -> impl Strategy<Value = (usize, usize, usize, usize)> {
    (0..VERBS.len(), 0..12usize, 0..3usize, 0..12usize)
}

fn bundle_json(name: &str) -> String {
    format!(
        r#"{{"schema":"olm.bundle","package":"p","name":"{name}","image":"i","properties":[{{"type":"olm.package","value":{{"packageName":"p","version":"{}"}}}}]}}"#,
        &name[3..]
    )
}

/// Returns the name of an entry of a channel, selected by number.
fn entry_of(outline: &Outline, channel: &str, number: usize) -> Option<String> {
    let entries = &outline.packages.get("p")?.channels.get(channel)?.entries;
    entries.get(number % entries.len().max(1)).map(|entry| entry.name.to_string())
}

/// Makes the edit that the numbers select.
fn act(
    before: &Read,
    outline: &mut Outline,
    (verb, bundle, channel, other): (usize, usize, usize, usize),
) -> Result<(), EditRefusal> {
    let name = |i: usize| format!("p.v1.{}.{}", i / 2, i % 2);
    let (number, bundle, other) = (bundle, name(bundle), name(other));
    let channel = ["fast", "stable", "new"][channel];
    let target = DeprecationTarget::Bundle { package: None, bundle: bundle.clone() };
    let promoted = |outline: &mut Outline, policy| {
        promote(outline, None, &bundle, channel, &Promotion { policy, create: true, ..Promotion::default() })
    };
    let filtered =
        |outline: &mut Outline, selection: &KeptPart| filter(outline, selection, &AllFacts::new()).map(|_| ());
    match VERBS[verb] {
        "set-default" => set_default::set_default(outline, "p", channel),
        "set-edge: skips" => {
            let bundle = entry_of(outline, channel, number).unwrap_or(bundle);
            let edges = Edges { add_skips: vec![other], skip_range: Some("<1.2.0".into()), ..Edges::default() };
            set_edge(outline, None, channel, &bundle, &edges)
        }
        "set-edge: replaces" => {
            let bundle = entry_of(outline, channel, number).unwrap_or(bundle);
            let edges = Edges { replaces: Some(other), skips: Some(vec![]), ..Edges::default() };
            set_edge(outline, None, channel, &bundle, &edges)
        }
        "promote: replaces" => promoted(outline, EdgePolicy::Replaces),
        "promote: semver" => promoted(outline, EdgePolicy::Semver),
        "promote: skip-patch" => promoted(outline, EdgePolicy::SkipPatch),
        "deprecate" => deprecate::deprecate(outline, &target, &format!("use {other}: it's better")),
        "deprecate: undo" => {
            let package = outline.package("p")?;
            let deprecated =
                package.deprecations.as_ref().and_then(|it| it.entries.get(number % it.entries.len().max(1)));
            let bundle = deprecated.map_or(bundle.clone(), |entry| entry.name.to_string());
            deprecate::undo(outline, &DeprecationTarget::Bundle { package: None, bundle })
        }
        "remove bundle" => remove(outline, &target, &Removal::default()).map(|_| ()),
        "remove bundle: forget" => {
            remove(outline, &target, &Removal { forget: true, ..Removal::default() }).map(|_| ())
        }
        "remove entry" => {
            let removal = Removal { channel: Some(channel.to_owned()), ..Removal::default() };
            remove(outline, &target, &removal).map(|_| ())
        }
        "remove channel" => {
            let target = DeprecationTarget::Channel { package: "p".to_owned(), channel: channel.to_owned() };
            let removal = Removal { default_channel: Some("fast".to_owned()), ..Removal::default() };
            remove(outline, &target, &removal).map(|_| ())
        }
        "filter: versions" => {
            let range = VersionRange::parse(&format!(">={}", &bundle[3..])).unwrap();
            filtered(outline, &KeptPart { versions: vec![(None, range)], ..KeptPart::default() })
        }
        "filter: heads" => {
            let channels = vec![("p".to_owned(), channel.to_owned())];
            let default_channels = channels.clone();
            filtered(outline, &KeptPart { heads_only: true, channels, default_channels, ..KeptPart::default() })
        }
        "add-bundle" => {
            // Versions between existing ones, into an existing channel and one that may be new.
            let name = format!("p.v1.{}.{}", number / 2, 2 + number);
            let json = fbc::json::Text::parse(&bundle_json(&name), 100).unwrap();
            let new = NewBundle { json, name, package: "p".to_owned(), csv: None, files: Vec::new() };
            let promotion = Promotion { policy: EdgePolicy::Semver, create: true, ..Promotion::default() };
            let channels = [channel.to_owned(), "added".to_owned()];
            add_bundle(outline, &new, &channels, &promotion).map(|_| ())
        }
        _ => {
            let mut second = Fbc::default();
            let name = format!("p.v2.{number}.0");
            for json in [
                format!(r#"{{"schema":"olm.package","name":"p","defaultChannel":"merged-{number}"}}"#),
                format!(
                    r#"{{"schema":"olm.channel","package":"p","name":"merged-{number}","entries":[{{"name":"{name}"}}]}}"#
                ),
                bundle_json(&name),
                r#"{"schema":"custom","package":"q","x":[1.5,"~"]}"#.to_owned(),
            ] {
                second.add_generated(&json, &fbc::Limits::default()).unwrap();
            }
            let text = |fbc: &Fbc, blob: usize| {
                let mut buffer = fbc::blob::TextBuffer::default();
                let text = fbc.text(&fbc.blobs()[blob], &mut buffer).unwrap();
                Ok(NewBlob::json(text))
            };
            let (one, two) = (|blob| text(&before.fbc, blob), |blob| text(&second, blob));
            let theirs = Outline::new(&second);
            let first = MergeSide { outline: &before.outline, text: &one };
            let (merged, _) = merge(first, MergeSide { outline: &theirs, text: &two }, true)?;
            *outline = merged;
            Ok(())
        }
    }
}

/// Returns the versions that an edit strands: they reach the newest version of their channel only before it, and the
/// edit does not remove them on purpose.
fn stranded(verb: (usize, usize, usize, usize), [before, after]: &[Outline; 2]) -> Vec<String> {
    let of_bundle = DeprecationTarget::Bundle { package: None, bundle: format!("p.v1.{}.{}", verb.1 / 2, verb.1 % 2) };
    let channel = ["fast", "stable", "new"][verb.2].to_owned();
    let of_channel = DeprecationTarget::Channel { package: "p".to_owned(), channel };
    let selection = KeptPart::default();
    let purpose = match VERBS[verb.0] {
        "remove bundle" | "remove entry" => Purpose::Remove { target: &of_bundle, forget: false },
        "remove bundle: forget" => Purpose::Remove { target: &of_bundle, forget: true },
        "remove channel" => Purpose::Remove { target: &of_channel, forget: false },
        "filter: versions" | "filter: heads" => Purpose::Select(&selection),
        _ => Purpose::Keep,
    };
    // Its bundles require nothing.
    let source = CatalogInput::default();
    let offered = |outline| Offered::catalog(outline, &source);
    let stranded = Stranded::new(offered(before), offered(after), purpose).refused;
    stranded.iter().flat_map(|report| &report.outcomes).map(|outcome| format!("{outcome:?}")).collect()
}

/// How often each edit was made, was rejected, and would have given an invalid catalog.
type Counts = BTreeMap<&'static str, [usize; 3]>;

fn styles() -> impl Strategy<Value = Style> {
    prop::sample::select(vec![
        Style::Block,
        Style::Commented,
        Style::Bare,
        Style::NewestFirst,
        Style::Flow,
        Style::Json,
        Style::Compact,
    ])
}

#[test]
fn edits_keep_a_catalog_valid_and_strand_no_version_or_are_rejected() {
    let counts: RefCell<Counts> = RefCell::default();
    let mut runner = TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() });
    let strategy = (styles(), 1..10usize, any::<bool>(), prop::collection::vec(verb(), 1..14));
    let run = runner.run(&strategy, |(style, count, several, verbs)| {
        let mut files = catalog_files(style, count, several);
        prop_assert_eq!(read(&files).errors, Vec::<String>::new());
        if count % 2 == 0 {
            let first = DeprecationTarget::Bundle { package: None, bundle: "p.v1.0.0".to_owned() };
            files = edited(&files, |_, outline| deprecate::deprecate(outline, &first, "old")).unwrap().files;
        }
        // Whether the user has chosen edges, such as a range that covers newer versions.
        let mut own_edges = false;
        for (verb, bundle, channel, other) in verbs {
            // Most edits concern objects that exist.
            let verb = (verb, bundle % (count + 2), channel, other % (count + 2));
            let mut counts = counts.borrow_mut();
            let [new_blob, refused, invalid] = counts.entry(VERBS[verb.0]).or_default();
            match edited(&files, |before, outline| act(before, outline, verb)) {
                Err(_) => *refused += 1,
                Ok(edited) if edited.errors.is_empty() => {
                    let stranded = stranded(verb, &edited.outlines);
                    if stranded.is_empty() {
                        own_edges |= VERBS[verb.0].starts_with("set-edge");
                        *new_blob += 1;
                        files = edited.files;
                        continue;
                    }
                    *refused += 1;
                    // The edges of users may strand clusters, and the removal of a head those that only it upgrades.
                    prop_assert!(
                        own_edges || VERBS[verb.0].starts_with("set-edge") || VERBS[verb.0].starts_with("remove"),
                        "{verb:?}\n{stranded:#?}\n{files:#?}\n{:#?}",
                        edited.files
                    );
                }
                Ok(edited) => {
                    *invalid += 1;
                    // Users choose the edges themselves; all other edits keep channels valid.
                    prop_assert!(
                        VERBS[verb.0].starts_with("set-edge"),
                        "{verb:?}\n{:#?}\n{files:#?}\n{:#?}",
                        edited.errors,
                        edited.files
                    );
                }
            }
        }
        Ok(())
    });
    let counts = counts.into_inner();
    run.unwrap();
    for verb in VERBS {
        let [new_blob, ..] = counts.get(verb).copied().unwrap_or_default();
        assert!(new_blob >= 3, "{verb}: {counts:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_and_its_reverse_restore_the_text(
        style in styles(),
        count in 2..10usize,
        several in any::<bool>(),
        pick in 0..10usize,
    ) {
        let files = catalog_files(style, count, several);
        let last = format!("p.v1.{}.{}", (count - 1) / 2, (count - 1) % 2);
        let some = format!("p.v1.{}.{}", pick % count / 2, pick % count % 2);
        let bundle = |bundle: &str| DeprecationTarget::Bundle { package: None, bundle: bundle.to_owned() };
        type Verb<'a> = &'a dyn Fn(&mut Outline) -> Result<(), EditRefusal>;
        let edit_and_reverse = |edit: Verb<'_>, reverse: Verb<'_>| {
            let changed = edited(&files, |_, outline| edit(outline)).expect("the edit succeeds").files;
            assert_ne!(&changed, &files);
            let undone = edited(&changed, |_, outline| reverse(outline)).expect("the reverse edit succeeds").files;
            assert_eq!(&undone, &files);
        };
        edit_and_reverse(
            &|outline| set_default::set_default(outline, "p", "fast"),
            &|outline| set_default::set_default(outline, "p", "stable"),
        );
        edit_and_reverse(
            &|outline| deprecate::deprecate(outline, &bundle(&some), "do not use"),
            &|outline| deprecate::undo(outline, &bundle(&some)),
        );
        let edges = |edges: Edges| move |outline: &mut Outline| set_edge(outline, None, "fast", &some.clone(), &edges);
        let range = |range: &str| Edges { skip_range: Some(range.into()), ..Edges::default() };
        edit_and_reverse(&edges.clone()(range(">=1.0.0 <1.1.0")), &edges.clone()(range("")));
        let add = Edges { add_skips: vec!["y".into(), "z".into()], ..Edges::default() };
        let take = Edges { remove_skips: vec!["y".into(), "z".into()], ..Edges::default() };
        edit_and_reverse(&edges.clone()(add), &edges(take));
        let stable = count.div_ceil(2);
        if stable < count {
            let removal = Removal { channel: Some("stable".into()), forget: true, ..Removal::default() };
            edit_and_reverse(
                &|outline| promote(outline, None, &last, "stable", &Promotion::default()),
                &|outline| remove(outline, &bundle(&last), &removal).map(|_| ()),
            );
        }
    }
}

/// Pseudo-random choices, the same for the same seed.
struct Choices(u64);

impl Choices {
    fn of(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % count
    }

    fn empty_lines(&mut self) -> String {
        "\n".repeat(self.of(6).saturating_sub(3))
    }

    fn quoted(&mut self, value: &str, quotes: usize) -> String {
        match quotes {
            0 if value != "4.10" => value.to_owned(),
            1 => format!("'{value}'"),
            _ => format!("\"{value}\""),
        }
    }

    /// Gives a file another look: quotes, blank lines, comments, line endings. The channel `fast` may be called `4.10`.
    fn restyle(&mut self, text: &str, json: bool, mixed: bool) -> String {
        let mut out = String::new();
        let quotes = self.of(3);
        for line in text.split_inclusive('\n') {
            if json {
                out += line;
                out +=
                    &if line.starts_with('}') || line.starts_with("{\"") { self.empty_lines() } else { String::new() };
                continue;
            }
            let separates = line.starts_with("---");
            if separates && !out.is_empty() {
                out += &self.empty_lines();
                out += ["", "", "# about what follows\n"][self.of(3)];
            }
            let value = line.trim_end().rsplit_once(": ").filter(|(start, value)| {
                value.starts_with(|c: char| c.is_ascii_alphabetic()) && !value.contains('#') && !start.contains('{')
            });
            match value {
                Some((start, value)) => {
                    // Without mixed quotes, names can need them.
                    let value = if value == "fast" && !mixed { "4.10" } else { value };
                    let quotes = if mixed && self.of(3) == 0 { self.of(3) } else { quotes };
                    let comment = ["", "", "", "  # why"][self.of(4)];
                    out += &format!("{start}: {}{comment}\n", self.quoted(value, quotes));
                }
                None => out += line,
            }
            if separates {
                out += ["", "", "\n", "# of this one\n", "# of the file\n\n", "\n# of this one\n"][self.of(6)];
            }
        }
        out += &self.empty_lines();
        out += if json { "" } else { ["", "", "# the end\n"][self.of(3)] };
        if self.of(3) == 0 { out.replace('\n', "\r\n") } else { out }
    }

    /// Returns the files of a catalog, with or without an empty list of deprecations.
    fn files(&mut self, style: Style, count: usize) -> Files {
        let mut files = catalog_files(style, count, self.of(2) == 0);
        let json = matches!(style, Style::Json | Style::Compact);
        let empty = match style {
            Style::Json => {
                "{\n    \"schema\": \"olm.deprecations\",\n    \"package\": \"p\",\n    \"entries\": []\n}\n"
            }
            Style::Block | Style::Commented => "---\nschema: olm.deprecations\npackage: p\nentries: []\n",
            _ => "",
        };
        if let Some(mut file) = files.last_entry().filter(|_| self.of(2) == 0) {
            *file.get_mut() += empty;
        }
        let mixed = self.of(2) == 0;
        files.into_iter().map(|(path, text)| (path, self.restyle(&text, json, mixed))).collect()
    }
}

#[test]
fn an_edit_and_its_reverse_restore_files_of_every_look() {
    type Verb<'a> = &'a dyn Fn(&mut Outline) -> Result<(), EditRefusal>;
    let styles = [Style::Block, Style::Commented, Style::NewestFirst, Style::Flow, Style::Json, Style::Compact];
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..100 {
        let mut choices = Choices(seed);
        let (style, count) = (styles[choices.of(styles.len())], 2 + choices.of(6));
        let mut files = choices.files(style, count);
        assert_eq!(read(&files).errors, Vec::<String>::new(), "{files:#?}");
        let first = read(&files).outline.packages["p"].channels.keys().next().unwrap().clone();
        let number = choices.of(count);
        let name = format!("p.v1.{}.{}", number / 2, number % 2);
        let target = DeprecationTarget::Bundle { package: None, bundle: name.clone() };
        let removal = Removal { channel: Some("stable".into()), forget: true, ..Removal::default() };
        let forget: Verb<'_> = &|outline| remove(outline, &target, &removal).map(|_| ());
        let promoted = |policy| {
            let promotion = Promotion { policy, skips: vec!["y".into()], ..Promotion::default() };
            let name = &name;
            move |outline: &mut Outline| promote(outline, None, name, "stable", &promotion)
        };
        let edge = |edges: Edges| {
            let (name, first) = (&name, &first);
            move |outline: &mut Outline| set_edge(outline, None, first, name, &edges)
        };
        let skips = || vec!["y".to_owned(), "4.10".to_owned()];
        let range = |range: &str| Edges { skip_range: Some(range.into()), ..Edges::default() };
        let pairs: [(&str, Verb<'_>, Verb<'_>); 7] = [
            ("set-default", &|outline| set_default::set_default(outline, "p", &first), &|outline| {
                set_default::set_default(outline, "p", "stable")
            }),
            ("deprecate", &|outline| deprecate::deprecate(outline, &target, "old: 4.10"), &|outline| {
                deprecate::undo(outline, &target)
            }),
            (
                "skips",
                &edge(Edges { add_skips: skips(), ..Edges::default() }),
                &edge(Edges { remove_skips: skips(), ..Edges::default() }),
            ),
            ("range", &edge(range("<1.0.0")), &edge(range(""))),
            ("replaces", &promoted(EdgePolicy::Replaces), forget),
            ("semver", &promoted(EdgePolicy::Semver), forget),
            ("skip-patch", &promoted(EdgePolicy::SkipPatch), forget),
        ];
        // Gives the channel a gap for the bundle, if it has it.
        if let Ok(gap) = edited(&files, |_, outline| forget(outline)) {
            files = gap.files;
        }
        for (verb, edit, reverse) in pairs {
            let Ok(changed) = edited(&files, |_, outline| edit(outline)) else { continue };
            let undone = edited(&changed.files, |_, outline| reverse(outline)).expect("the reverse edit succeeds");
            assert_eq!(undone.files, files, "{verb} {name}: {:#?}", changed.files);
            *made.entry(verb).or_default() += 1;
        }
    }
    assert!(made.len() == 7 && made.values().all(|made| *made > 10), "{made:?}");
}
