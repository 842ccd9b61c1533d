//! Work grows linearly with its input, not quadratically: each case runs at one, two and four times the size, and tests
//! count steps, not seconds. Whole edits take many kinds of steps, so their time on a processor is measured.

use std::fs;
use std::path::Path;
use std::time::Duration;

use catalog::Warnings;
use catalog::channel::ChannelView;
use edit::changes::FileChanges;
use edit::deprecate::DeprecationTarget;
use edit::filter::{AllFacts, KeptPart};
use edit::outline::{OutlineBundle, OutlineChannel, OutlinePackage};
use edit::remove::Removal;
use edit::rewrite::{RewrittenFile, rewrite};
use edit::set_edge::Edges;
use edit::text::Splice;
use edit::upgrades::Offered;
use edit::upgrades::{Forbidden, Unmet, UpgradeCatalog};
use edit::verify::{Purpose, Stranded};
use edit::{Outline, merge};
use fbc::blob::ChannelEntry;
use fbc::locate::Locator;
use fbc::version::Version;
use fbc::{Arrangement, Fbc, Format, LoadOptions, step_counter};
use resolve::input::CatalogInput;

const SMALL: usize = 500;

/// Checks that the steps of `task` grow with its input.
fn assert_linear(task: impl Fn(usize)) {
    testkit::assert_linear(SMALL, step_counter::count, task);
}

/// Loads a catalog from one file and passes it on with its problems.
fn load(text: &str, task: impl FnOnce(&Fbc, &catalog::CheckOutcome)) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("catalog.yaml"), text).unwrap();
    let mut fbc = Fbc::default();
    let inspect = catalog::inspect(Warnings::On);
    let options = LoadOptions { keep_text: true, inspect: Some(&inspect), ..LoadOptions::default() };
    let loaded = fbc.load_dir(dir.path(), &options).unwrap();
    let checked = catalog::check(&fbc, loaded, Warnings::On);
    task(&fbc, &checked);
}

fn bundle(package: &str, name: &str, version: usize) -> String {
    format!(
        "---\nschema: olm.bundle\npackage: {package}\nname: {name}\nimage: quay.io/a/b:v{version}\nproperties:\n\
         - type: olm.package\n  value: {{packageName: {package}, version: {version}.0.0}}\n"
    )
}

/// Returns a package with a channel of these entries, and bundles for those below `bundles`.
fn package(entries: &str, bundles: usize) -> String {
    let mut text = format!(
        "schema: olm.package\nname: p\ndefaultChannel: c\n---\nschema: olm.channel\npackage: p\nname: c\nentries:\n{entries}"
    );
    text.extend((0..bundles).map(|number| bundle("p", &format!("p.v{number}"), number)));
    text
}

#[test]
fn many_problems_in_one_document_are_located_together() {
    assert_linear(|size| {
        let entries: String =
            (0..size).map(|number| format!("- {{name: absent-{number}, skipRange: nonsense}}\n")).collect();
        load(&package(&entries, 1), |fbc, checked| {
            assert!(checked.problems().len() > size);
            let mut locator = Locator::new(fbc);
            let located =
                checked.problems().iter().filter_map(|problem| locator.locate(problem.place.as_ref()?)).count();
            assert!(located > size, "{located}");
        });
    });
}

#[test]
fn problems_are_printed_as_a_tree() {
    assert_linear(|size| {
        let text: String =
            (0..size).map(|number| format!("---\nschema: olm.package\nname: p{number}\ndefaultChannel: c\n")).collect();
        load(&text, |_, checked| {
            let message = catalog::tree::message(checked.errors());
            assert_eq!(message.matches("invalid package").count(), size);
        });
    });
}

#[test]
fn channels_of_many_heads_have_many_chains() {
    assert_linear(|size| {
        // All heads lead to the same chain, which has as many entries as there are heads.
        let entry = |name: String, replaces: String| ChannelEntry {
            name: name.into(),
            replaces: replaces.into(),
            ..ChannelEntry::default()
        };
        let mut entries: Vec<ChannelEntry> =
            (0..size).map(|number| entry(format!("t{}", number + 1), format!("t{number}"))).collect();
        entries.extend((0..size).map(|number| entry(format!("h{number}"), format!("t{size}"))));
        let error = catalog::chain::chain(&ChannelView::new(&entries)).unwrap_err();
        assert_eq!(error.heads().len(), size);
    });
}

#[test]
fn channels_of_the_legacy_format_are_collected_for_each_package() {
    assert_linear(|size| {
        let text: String = (0..size)
            .map(|number| {
                format!(
                    "---\nschema: olm.package\nname: p{number}\ndefaultChannel: c\n{}- type: olm.channel\n  value: \
                     {{name: c}}\n",
                    bundle(&format!("p{number}"), &format!("p{number}.v1"), 1)
                )
            })
            .collect();
        load(&text, |fbc, checked| {
            assert!(checked.catalog.is_ok(), "{}", catalog::tree::message(checked.errors()));
            assert_eq!(fbc.blobs().iter().filter(|blob| &*blob.schema == "olm.channel").count(), size);
        });
    });
}

#[test]
fn properties_of_many_types_are_sorted() {
    assert_linear(|size| {
        let mut text = package("- {name: p.v0}\n", 1);
        text.extend((0..size).map(|number| format!("- {{type: kind-{number}, value: 1}}\n")));
        load(&text, |fbc, _| {
            let mut out = Vec::new();
            fbc.write_arranged(&fbc.in_order(), Format::Json, Arrangement::Sorted, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap().matches("\"kind-").count(), size);
        });
    });
}

/// Returns a chain of versions; each entry also has a range that covers all earlier ones.
fn outline(size: usize) -> Outline {
    let name = |number: usize| format!("p.v{number}");
    let mut package = OutlinePackage { default_channel: "c".to_owned(), ..OutlinePackage::default() };
    let mut channel = OutlineChannel::default();
    for number in 0..size {
        let entry = ChannelEntry {
            name: name(number).into(),
            replaces: if number == 0 { "".into() } else { name(number - 1).into() },
            skips: Vec::new(),
            skip_range: format!(">=0.0.0 <{number}.0.0").into(),
        };
        channel.entries.push(entry);
        let version = Version::parse_strict(&format!("{number}.0.0")).unwrap();
        package
            .bundles
            .insert(name(number), OutlineBundle { blob: None, new_blob: None, version: Some((version, None)) });
    }
    package.channels.insert("c".to_owned(), channel);
    let mut outline = Outline::default();
    outline.packages.insert("p".to_owned(), package);
    outline
}

#[test]
fn upgrades_of_long_channels_are_checked() {
    let (forbidden, unmet) = (Forbidden::new(), Unmet::new());
    assert_linear(|size| {
        let (old, mut new) = (outline(size), outline(size));
        let channel = new.packages.get_mut("p").unwrap().channels.get_mut("c").unwrap();
        for entry in &mut channel.entries {
            // Versions below 99 have no upgrade.
            entry.skip_range = entry.skip_range.replace(">=0.0.0", ">=100.0.0").into();
        }
        channel.entries[100].replaces = "".into();
        channel.entries[100].skips = vec!["p.v99".into()];
        let side = |outline| UpgradeCatalog { outline, forbidden: &forbidden, unmet: &unmet };
        let reports = edit::upgrades::check(side(&old), side(&new));
        let worse = reports[0].outcomes.iter().filter(|outcome| outcome.is_regression()).count();
        assert_eq!((reports[0].outcomes.len(), worse), (size, 99));
    });
}

#[test]
fn every_second_version_is_removed() {
    assert_linear(|size| {
        let mut outline = outline(size);
        let package = outline.packages.get_mut("p").unwrap();
        // The head has to skip each of the entries that lead nowhere.
        for entry in &mut package.channels.get_mut("c").unwrap().entries {
            entry.skip_range = "".into();
        }
        let ranges: Vec<String> =
            (0..size / 50).map(|block| format!(">={}.0.0 <{}.0.0", 50 * block, 50 * block + 25)).collect();
        let range = fbc::range::VersionRange::parse(&ranges.join(" || ")).unwrap();
        let selection = KeptPart { versions: vec![(None, range)], ..KeptPart::default() };
        let notes = edit::filter::filter(&mut outline, &selection, &AllFacts::new()).unwrap();
        assert!(notes.len() >= size / 50, "{notes:?}");
    });
}

#[test]
fn a_splice_over_all_lines_shows_only_the_difference() {
    assert_linear(|size| {
        let old: String = (0..size).map(|number| format!("line {number}\n")).collect();
        // One splice replaces all lines, but only the last one differs.
        let new = old.replace(&format!("line {}\n", size - 1), "the last line\n");
        let splices = [Splice { range: 0..old.len(), text: new.clone().into() }];
        let shown = edit::unified::unified(Path::new("x"), Some(&old), Some(&new), &splices);
        assert!(shown.contains("+the last line") && shown.lines().count() < 10, "{shown}");
    });
}

/// Returns the time that this thread has spent on a processor, which does not depend on other work of the machine.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Measures edits of a catalog at `size` and at four times that size. Nested loops over its entries need sixteen times
/// as long for that, so a factor of seven tells them from everything else.
fn assert_edit_scales(size: usize, text: impl Fn(usize) -> String, verb: impl Fn(usize, &Fbc, &mut Outline)) {
    let times = [size, 4 * size].map(|size| {
        let text = text(size);
        let mut least = Duration::MAX;
        load(&text, |fbc, _| {
            let before = Outline::new(fbc);
            for _ in 0..3 {
                let start = processor_time();
                let mut after = before.clone();
                verb(size, fbc, &mut after);
                let changes = FileChanges::between(fbc, &before, &after).unwrap();
                assert_eq!((changes.files.len(), changes.new_packages.len()), (1, 0));
                for change in changes.files.values() {
                    let RewrittenFile::Spliced(splices) = rewrite(&text, change).unwrap() else { panic!("deleted") };
                    let new = String::from_utf8(edit::text::apply(text.as_bytes(), &splices).unwrap()).unwrap();
                    let shown = edit::unified::unified(Path::new("x"), Some(&text), Some(&new), &splices);
                    assert!(shown.contains("\n@@"));
                }
                assert!(edit::summary::summary(&before, &after).is_some());
                let source = CatalogInput::default();
                let (was, is) = (Offered::catalog(&before, &source), Offered::catalog(&after, &source));
                Stranded::new(was, is, Purpose::Keep);
                least = least.min(processor_time() - start);
            }
        });
        least
    });
    assert!(times[1] <= times[0] * 7, "{times:?}");
}

/// Returns a chain of `size` versions in a catalog that deprecates each of them.
fn deprecated_chain(size: usize) -> String {
    let entries: String = (0..size)
        .map(|number| match number {
            0 => "- name: p.v0\n".to_owned(),
            _ => format!("- name: p.v{number}\n  replaces: p.v{}\n", number - 1),
        })
        .collect();
    let mut text = package(&entries, size) + "---\nschema: olm.deprecations\npackage: p\nentries:\n";
    text.extend((0..size).map(|number| {
        format!(
            "- reference: {{schema: olm.bundle, name: p.v{number}}}\n  message: use a newer version than {number}\n"
        )
    }));
    text
}

fn bundle_target(number: usize) -> DeprecationTarget {
    DeprecationTarget::Bundle { package: None, bundle: format!("p.v{number}") }
}

#[test]
fn a_catalog_is_merged_into_one_with_many_of_its_entries() {
    let new_blob = |fbc: &Fbc, blob: usize| {
        let mut buffer = fbc::blob::TextBuffer::default();
        Ok(edit::NewBlob::json(fbc.text(&fbc.blobs()[blob], &mut buffer).unwrap()))
    };
    assert_edit_scales(1000, deprecated_chain, |size, fbc, outline| {
        // Half of the other catalog is new.
        load(&deprecated_chain(2 * size), |other, _| {
            let theirs = Outline::new(other);
            let (first, second) = (|blob| new_blob(fbc, blob), |blob| new_blob(other, blob));
            let first = merge::MergeSide { outline, text: &first };
            let (merged, _) = merge::merge(first, merge::MergeSide { outline: &theirs, text: &second }, false).unwrap();
            assert_eq!(merged.packages["p"].channels["c"].entries, theirs.packages["p"].channels["c"].entries);
            *outline = merged;
        });
    });
}

#[test]
fn one_of_many_deprecations_changes() {
    assert_edit_scales(2000, deprecated_chain, |size, _, outline| {
        edit::deprecate::deprecate(outline, &bundle_target(size / 2), "use another").unwrap();
        edit::deprecate::undo(outline, &bundle_target(size / 3)).unwrap();
    });
}

#[test]
fn one_of_many_entries_is_removed() {
    assert_edit_scales(2000, deprecated_chain, |size, _, outline| {
        edit::remove::remove(outline, &bundle_target(size / 2), &Removal::default()).unwrap();
    });
}

#[test]
fn half_of_the_versions_are_removed_with_their_deprecations() {
    assert_edit_scales(2000, deprecated_chain, |size, _, outline| {
        let range = fbc::range::VersionRange::parse(&format!(">={}.0.0", size / 2)).unwrap();
        let selection = KeptPart { versions: vec![(None, range)], ..KeptPart::default() };
        edit::filter::filter(outline, &selection, &AllFacts::new()).unwrap();
    });
}

/// Returns an entry that skips `size` others.
fn skipping(size: usize) -> String {
    let skips: String = (0..size).map(|number| format!("  - x{number}\n")).collect();
    package(&format!("- name: p.v0\n- name: p.v1\n  replaces: p.v0\n  skips:\n{skips}"), 2)
}

#[test]
fn many_skips_of_an_entry_change() {
    let every = |step: usize, size: usize| (0..size).step_by(step).map(|number| format!("x{number}")).collect();
    assert_edit_scales(2000, skipping, |size, _, outline| {
        let edges = Edges { skips: Some(every(2, size)), remove_skips: every(4, size), ..Edges::default() };
        edit::set_edge::set_edge(outline, None, "c", "p.v1", &edges).unwrap();
    });
    assert_edit_scales(2000, skipping, |_, _, outline| {
        edit::remove::remove(outline, &bundle_target(1), &Removal::default()).unwrap();
    });
}
