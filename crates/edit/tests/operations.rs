//! Edits of catalog directories, from a request to a report.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use edit::deprecate::DeprecationTarget;
use edit::filter::KeptPart;
use edit::operations::{Filter, Promote, Remove, SetDefault, SetEdge, filter, promote, remove, set_default, set_edge};
use edit::promote::Promotion;
use edit::remove::Removal;
use edit::set_edge::Edges;
use edit::{EditError, EditOptions, Edited, EditedPart, NoNotices, Notices, Write};
use fbc::Limits;

const CATALOG: &str = r#"{"schema": "olm.package", "name": "p", "defaultChannel": "stable"}
{"schema": "olm.channel", "package": "p", "name": "stable", "entries": [{"name": "p.v1.0.0"}, {"name": "p.v1.1.0", "replaces": "p.v1.0.0"}]}
{"schema": "olm.channel", "package": "p", "name": "fast", "entries": [{"name": "p.v1.1.0"}]}
{"schema": "olm.bundle", "package": "p", "name": "p.v1.0.0", "image": "quay.io/p:v1.0.0", "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}}]}
{"schema": "olm.bundle", "package": "p", "name": "p.v1.1.0", "image": "quay.io/p:v1.1.0", "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": "1.1.0"}}]}
"#;

fn catalog() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    fs::create_dir(scratch.path().join("catalog")).unwrap();
    fs::write(scratch.path().join("catalog/p.json"), CATALOG).unwrap();
    scratch
}

fn options(scratch: &Path) -> EditOptions {
    EditOptions {
        catalog: scratch.join("catalog"),
        write: Write::InPlace,
        dry_run: false,
        allow_stranded: false,
        limits: Limits::default(),
    }
}

fn set_default_to(channel: &str, options: EditOptions) -> SetDefault {
    SetDefault { options, package: "p".to_owned(), channel: channel.to_owned() }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_edit_in_place_changes_the_file_and_leaves_nothing_else() {
    let scratch = catalog();
    let edited = set_default(&set_default_to("fast", options(scratch.path())), &NoNotices).unwrap();
    assert_eq!(edited.summary.unwrap(), "the default channel of p is fast, was stable");
    let files: Vec<(&str, EditedPart)> = edited.files.iter().map(|file| (&*file.path, file.change)).collect();
    assert_eq!(files, [("p.json", EditedPart::Changed)]);
    assert_eq!(edited.diff, None);
    let text = fs::read_to_string(scratch.path().join("catalog/p.json")).unwrap();
    assert_eq!(text, CATALOG.replacen("\"stable\"", "\"fast\"", 1));
    assert_eq!(names(scratch.path()), ["catalog"]);
}

#[test]
fn a_dry_run_returns_the_diff_and_writes_nothing() {
    let scratch = catalog();
    let request = set_default_to("fast", EditOptions { dry_run: true, ..options(scratch.path()) });
    let diff = set_default(&request, &NoNotices).unwrap().diff.unwrap();
    assert!(
        diff.contains("\n+{\"schema\": \"olm.package\", \"name\": \"p\", \"defaultChannel\": \"fast\"}\n"),
        "{diff}"
    );
    assert_eq!(fs::read_to_string(scratch.path().join("catalog/p.json")).unwrap(), CATALOG);
    assert_eq!(names(scratch.path()), ["catalog"]);
}

#[test]
fn a_new_directory_gets_the_whole_catalog_and_must_be_empty() {
    let scratch = catalog();
    fs::write(scratch.path().join("catalog/q.json"), CATALOG.replace("p.v", "q.v").replace("\"p\"", "\"q\"")).unwrap();
    let to = scratch.path().join("new");
    let request = set_default_to("fast", EditOptions { write: Write::To(to.clone()), ..options(scratch.path()) });
    set_default(&request, &NoNotices).unwrap();
    assert_eq!(names(&to), ["p.json", "q.json"]);
    assert_eq!(fs::read_to_string(scratch.path().join("catalog/p.json")).unwrap(), CATALOG);
    let error = set_default(&request, &NoNotices).unwrap_err();
    assert!(matches!(error, EditError::Refused(_)), "{error}");
}

#[test]
fn a_removed_head_is_reported_with_the_versions_that_lose_their_upgrade() {
    let scratch = catalog();
    let target = DeprecationTarget::Bundle { package: None, bundle: "p.v1.1.0".to_owned() };
    let removal = Removal { channel: Some("stable".to_owned()), ..Removal::default() };
    let edited = remove(&Remove { options: options(scratch.path()), target, removal }, &NoNotices).unwrap();
    let entries: Vec<(&str, &str, EditedPart)> =
        edited.entries.iter().map(|entry| (&*entry.channel, &*entry.name, entry.change)).collect();
    assert_eq!(entries, [("stable", "p.v1.1.0", EditedPart::Removed)]);
    let stranded: Vec<String> = edited.stranded.iter().map(ToString::to_string).collect();
    assert_eq!(stranded, ["p / stable: this version loses its upgrade path: p.v1.1.0"]);
}

/// Adds `q`, whose newer version requires `p`.
fn add_dependent(scratch: &Path) {
    let bundle = |version: &str, needs: &str| {
        format!(
            r#"{{"schema": "olm.bundle", "package": "q", "name": "q.v{version}", "image": "quay.io/q:v{version}", "properties": [{{"type": "olm.package", "value": {{"packageName": "q", "version": "{version}"}}}}{needs}]}}"#
        )
    };
    let needs = r#", {"type": "olm.package.required", "value": {"packageName": "p", "versionRange": ">=1.0.0"}}"#;
    let text = [
        r#"{"schema": "olm.package", "name": "q", "defaultChannel": "c"}"#.to_owned(),
        r#"{"schema": "olm.channel", "package": "q", "name": "c", "entries": [{"name": "q.v1.0.0"}, {"name": "q.v2.0.0", "replaces": "q.v1.0.0"}]}"#.to_owned(),
        bundle("1.0.0", ""),
        bundle("2.0.0", needs),
    ];
    fs::write(scratch.join("catalog/q.json"), text.join("\n")).unwrap();
}

#[test]
fn an_edit_that_removes_a_dependency_is_refused_unless_it_may_strand_versions() {
    let scratch = catalog();
    add_dependent(scratch.path());
    let mut request = Remove {
        options: options(scratch.path()),
        target: DeprecationTarget::Package("p".to_owned()),
        removal: Removal::default(),
    };
    let Err(EditError::Refused(refusal)) = remove(&request, &NoNotices) else { panic!("q.v2.0.0 requires p") };
    let reason = "q / c: q.v1.0.0 stays: q.v2.0.0 comes next, but cannot be installed: it requires package p >=1.0.0";
    assert!(refusal.message.contains(reason), "{refusal}");
    assert_eq!(names(&scratch.path().join("catalog")), ["p.json", "q.json"]);
    request.options.allow_stranded = true;
    let edited = remove(&request, &NoNotices).unwrap();
    let stranded: Vec<String> = edited.stranded.iter().map(ToString::to_string).collect();
    let reported = "q / c: this version loses its upgrade path: q.v1.0.0 (q.v2.0.0 cannot be installed: it requires package \
                    p >=1.0.0 (no catalog here has package \"p\"))";
    assert_eq!(stranded, [reported]);
}

#[test]
fn a_filter_without_a_dependency_is_refused_unless_it_may_strand_the_versions_that_require_it() {
    let scratch = catalog();
    add_dependent(scratch.path());
    let select = |dependencies, allow_stranded| {
        let request = Filter {
            options: EditOptions { dry_run: true, allow_stranded, ..options(scratch.path()) },
            selection: KeptPart { packages: ["q".to_owned()].into(), dependencies, ..KeptPart::default() },
        };
        filter(&request, &NoNotices)
    };
    let stranded = |filtered: Edited| filtered.stranded.iter().map(ToString::to_string).collect::<Vec<String>>();
    assert_eq!(stranded(select(true, false).unwrap()), [""; 0]);
    let Err(EditError::Refused(refusal)) = select(false, false) else { panic!("q.v2.0.0 requires p") };
    assert!(refusal.message.contains("q / c: q.v1.0.0 stays: q.v2.0.0 comes next"), "{refusal}");
    let help = "--with-dependencies also keeps what these versions require; --allow-stranded makes the edit anyway";
    assert_eq!(refusal.help.as_deref(), Some(help));
    let without = stranded(select(false, true).unwrap());
    assert!(without.len() == 1 && without[0].contains("it requires package p >=1.0.0"), "{without:?}");
}

#[test]
fn a_forgotten_bundle_that_another_package_requires_is_refused() {
    let scratch = catalog();
    add_dependent(scratch.path());
    let file = scratch.path().join("catalog/q.json");
    // Clusters may still run the older version, which the channel mentions only.
    let text =
        fs::read_to_string(&file).unwrap().replace(r#"{"name": "q.v1.0.0"}, "#, "").replace(">=1.0.0", ">=1.1.0");
    let lines = text.lines().filter(|line| !line.contains("q:v1.0.0"));
    fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let target = DeprecationTarget::Bundle { package: None, bundle: "p.v1.1.0".to_owned() };
    let removal = Removal { forget: true, default_channel: Some("stable".to_owned()), ..Removal::default() };
    let request = Remove { options: options(scratch.path()), target, removal };
    let Err(EditError::Refused(refusal)) = remove(&request, &NoNotices) else { panic!("q.v2.0.0 requires it") };
    assert!(refusal.message.contains("q / c: q.v1.0.0 stays: q.v2.0.0 comes next"), "{refusal}");
}

#[test]
fn a_filter_reports_the_versions_of_a_package_that_it_removes_entirely() {
    let scratch = catalog();
    let other = CATALOG.replace("p.v", "q.v").replace("\"p\"", "\"q\"").replace("1.1.0", "2.0.0");
    fs::write(scratch.path().join("catalog/q.json"), other).unwrap();
    let range = fbc::range::VersionRange::parse(">=2.0.0").unwrap();
    let request = Filter {
        options: EditOptions { dry_run: true, ..options(scratch.path()) },
        selection: KeptPart { versions: vec![(None, range)], ..KeptPart::default() },
    };
    let filtered = filter(&request, &NoNotices).unwrap();
    assert_eq!(
        filtered.stranded.iter().map(ToString::to_string).collect::<Vec<String>>(),
        [
            "p / fast: this version loses its upgrade path: p.v1.1.0",
            "p / stable: 2 versions lose their upgrade path: p.v1.0.0, p.v1.1.0",
        ]
    );
}

#[test]
fn an_invalid_result_is_not_written_and_its_problems_are_placed_in_the_catalog() {
    let scratch = catalog();
    let request = SetEdge {
        options: options(scratch.path()),
        package: None,
        channel: "stable".to_owned(),
        bundle: "p.v1.1.0".to_owned(),
        edges: Edges { replaces: Some(String::new()), ..Edges::default() },
    };
    let Err(EditError::Invalid(invalid)) = set_edge(&request, &NoNotices) else { panic!("two heads are not valid") };
    let found = fbc::locate::find(&invalid.catalog, &invalid.problems);
    let place = found[0].located.as_ref().unwrap();
    assert_eq!(found[0].path.as_deref(), scratch.path().join("catalog/p.json").to_str());
    let line = CATALOG.lines().nth(place.line - 1).unwrap();
    assert_eq!(line, place.text, "the line of the catalog before the edit");
    assert_eq!(fs::read_to_string(scratch.path().join("catalog/p.json")).unwrap(), CATALOG);
}

#[test]
fn problems_of_other_packages_do_not_refuse_an_edit() {
    let scratch = catalog();
    // Both packages have two heads.
    let broken = CATALOG.replace(r#", "replaces": "p.v1.0.0""#, "");
    fs::write(scratch.path().join("catalog/p.json"), &broken).unwrap();
    let other = broken.replace("p.v", "q.v").replace("\"p\"", "\"q\"");
    fs::write(scratch.path().join("catalog/q.json"), &other).unwrap();
    let request = |package: &str| SetEdge {
        options: options(scratch.path()),
        package: Some(package.to_owned()),
        channel: "stable".to_owned(),
        bundle: format!("{package}.v1.1.0"),
        edges: Edges { replaces: Some(format!("{package}.v1.0.0")), ..Edges::default() },
    };
    let first = set_edge(&request("p"), &NoNotices).unwrap();
    assert_eq!(first.notes.len(), 1, "{:?}", first.notes);
    assert!(first.notes[0].starts_with("the catalog has 1 problem that was there before"), "{:?}", first.notes);
    assert_eq!(fs::read_to_string(scratch.path().join("catalog/q.json")).unwrap(), other);
    assert_eq!(set_edge(&request("q"), &NoNotices).unwrap().notes, Vec::<String>::new());

    // An edit that adds a problem is refused, whatever else is wrong.
    fs::write(scratch.path().join("catalog/q.json"), &other).unwrap();
    let worse = SetEdge { edges: Edges { replaces: Some(String::new()), ..Edges::default() }, ..request("p") };
    let Err(EditError::Invalid(invalid)) = set_edge(&worse, &NoNotices) else { panic!("two heads are not valid") };
    assert_eq!(invalid.problems.len(), 1);
    assert_eq!(invalid.problems[0].scope.package.as_deref(), Some("p"));
}

#[test]
fn a_locked_catalog_is_not_edited() {
    let scratch = catalog();
    let lock = fs::File::open(scratch.path().join("catalog")).unwrap();
    lock.lock().unwrap();
    let error = set_default(&set_default_to("fast", options(scratch.path())), &NoNotices).unwrap_err();
    assert!(matches!(error, EditError::Locked { .. }), "{error}");
}

#[test]
fn a_catalog_with_problems_and_an_unknown_name_are_different_errors() {
    let scratch = catalog();
    let request = Promote {
        options: options(scratch.path()),
        package: None,
        bundle: "p.v9.0.0".to_owned(),
        channel: "fast".to_owned(),
        promotion: Promotion::default(),
    };
    let Err(EditError::Refused(refusal)) = promote(&request, &NoNotices) else { panic!("there is no such bundle") };
    assert!(refusal.message.contains("p.v9.0.0"), "{refusal}");
    fs::write(scratch.path().join("catalog/q.json"), "{").unwrap();
    let Err(EditError::Unreadable { fbc, problems }) = promote(&request, &NoNotices) else {
        panic!("it cannot be read")
    };
    let file = problems[0].place.as_ref().and_then(|place| fbc.full_path_of(place.file));
    assert_eq!(file.unwrap(), scratch.path().join("catalog/q.json"));
}

/// Collects warnings.
#[derive(Default)]
struct Collected(RefCell<Vec<String>>);

impl Notices for Collected {
    fn warn(&self, warning: &str) {
        self.0.borrow_mut().push(warning.to_owned());
    }
}

#[test]
fn the_user_learns_of_a_completed_edit_even_if_the_next_one_is_refused() {
    let scratch = catalog();
    let root = fs::canonicalize(scratch.path()).unwrap();
    let staging = root.join(".opm-edit-x");
    fs::create_dir_all(staging.join("tree")).unwrap();
    let new = CATALOG.replacen("\"stable\"", "\"fast\"", 1);
    fs::write(staging.join("tree/p.json"), &new).unwrap();
    // The first of its two files is in place.
    let added = "{\"schema\": \"custom\"}";
    fs::write(root.join("catalog/c.json"), added).unwrap();
    let journal = serde_json::json!({"catalog": root.join("catalog"), "files": [
        {"path": "c.json", "old": null, "new": sha256(added)},
        {"path": "p.json", "old": sha256(CATALOG), "new": sha256(&new)},
    ]});
    fs::write(staging.join("journal"), journal.to_string()).unwrap();
    let collected = Collected::default();
    let error = set_default(&set_default_to("none", options(&root)), &collected).unwrap_err();
    assert!(matches!(error, EditError::Refused(_)), "{error}");
    assert_eq!(collected.0.into_inner(), ["an earlier edit of this catalog was interrupted; opm has completed it now"]);
    assert_eq!(fs::read_to_string(root.join("catalog/p.json")).unwrap(), new);
    assert!(!staging.exists());
}

fn sha256(text: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(text).iter().fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}
