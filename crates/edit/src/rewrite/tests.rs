use super::*;
use crate::text::apply;

fn entry(text: &str) -> ChannelEntry {
    let mut entry = ChannelEntry::default();
    let mut words = text.split(' ');
    entry.name = words.next().unwrap().into();
    for word in words {
        match word.split_once('=').unwrap() {
            ("r", name) => entry.replaces = name.into(),
            ("s", names) => entry.skips = names.split(',').map(Into::into).collect(),
            (_, range) => entry.skip_range = range.replace('_', " ").into(),
        }
    }
    entry
}

fn changed(text: &str, entries: &[&str]) -> String {
    let start = documents::find(text).unwrap()[0].start as u64;
    let entries = entries.iter().map(|text| entry(text)).collect();
    let change = FileChange { changed: [(start, BlobChange::Entries(entries))].into(), ..FileChange::default() };
    let RewrittenFile::Spliced(splices) = rewrite(text, &change).unwrap() else { panic!("gone") };
    String::from_utf8(apply(text.as_bytes(), &splices).unwrap()).unwrap()
}

const YAML: &str = "\
schema: olm.channel  # the schema
package: foo
name: stable
# oldest first
entries:
  # the first one
  - name: a
  - name: \"b\"   # quoted
    replaces: a # see above
    # for those in a hurry
    skipRange: '<1.1.0'
  # the last one
  - {name: c, replaces: b}
";

#[test]
fn edges_change_in_place() {
    let text = changed(YAML, &["a", "b r=z s=x,y", "c r=b R=>=1.0.0_<2.0.0"]);
    insta::assert_snapshot!(text, @r#"
    schema: olm.channel  # the schema
    package: foo
    name: stable
    # oldest first
    entries:
      # the first one
      - name: a
      - name: "b"   # quoted
        replaces: z # see above
        skips:
          - x
          - "y"
      # the last one
      - {name: c, replaces: b, skipRange: '>=1.0.0 <2.0.0'}
    "#);
    assert_eq!(changed(&text, &["a", "b r=z", "c r=b"]), changed(YAML, &["a", "b r=z", "c r=b"]));
}

#[test]
fn entries_are_added_and_removed_with_their_comments() {
    insta::assert_snapshot!(changed(YAML, &["a", "c r=a", "d r=c s=b"]), @r"
    schema: olm.channel  # the schema
    package: foo
    name: stable
    # oldest first
    entries:
      # the first one
      - name: a
      # the last one
      - {name: c, replaces: a}
      - {name: d, replaces: c, skips: [b]}
    ");
    insta::assert_snapshot!(changed("entries:\n- name: a\n- name: b\n  replaces: a\n", &["b r=a", "c r=b R=<1"]), @r"
    entries:
    - name: b
      replaces: a
    - name: c
      replaces: b
      skipRange: <1
    ");
}

#[test]
fn an_undone_change_restores_the_text() {
    for text in [
        "entries:\n- name: a\n",
        "entries:\n- name: a",
        "entries:\r\n- name: a\r\nname: x\r\n",
        "entries: [{name: a}]\n",
        "{\"entries\":[{\"name\":\"a\"}]}",
        "{\n  \"entries\": [\n    {\n      \"name\": \"a\"\n    }\n  ]\n}\n",
        "{\n\t\"entries\": [\n\t\t{\"name\": \"a\"}\n\t]\n}\n",
        "entries:\n  - name: a # one\n    # two\n# three\n",
    ] {
        for more in [&["a", "b r=a"] as &[&str], &["a r=z s=x,y R=<1", "b"], &["0", "a"], &["a s=x"], &["a R=>1_<2"]] {
            let extended = changed(text, more);
            assert_ne!(extended, text);
            assert_eq!(changed(&extended, &["a"]), text, "{extended}");
        }
        let skips = changed(text, &["a s=x,y,z"]);
        assert_eq!(changed(&changed(&skips, &["a s=y"]), &["a s=y,z"]), changed(text, &["a s=y,z"]));
    }
}

#[test]
fn new_edges_of_an_entry_precede_a_new_entry_behind_it() {
    let newest_first = "entries:\n- name: c\n  replaces: b\n- name: b\n";
    insta::assert_snapshot!(changed(newest_first, &["c r=b", "b r=a s=x", "a"]), @r"
    entries:
    - name: c
      replaces: b
    - name: b
      replaces: a
      skips:
      - x
    - name: a
    ");
    let text = "entries:\n- name: b\n  skips:\n  - x\n";
    insta::assert_snapshot!(changed(text, &["b s=x,y R=<1", "a"]), @r#"
    entries:
    - name: b
      skips:
      - x
      - "y"
      skipRange: <1
    - name: a
    "#);
}

#[test]
fn several_changes_at_the_end_of_a_file_without_a_newline_are_made_together() {
    for ending in ["\n", "\r\n"] {
        let text =
            "entries:\n- name: a\n- name: b\n  replaces: a\n  skips:\n  - x\n  skipRange: <1".replace('\n', ending);
        for wanted in [
            &["a", "b"] as &[&str],
            &["a", "b R=<1"],
            &["a", "b s=y"],
            &["a s=z"],
            &["a s=z", "c"],
            &["a", "b", "c r=b"],
            &["a", "b r=a s=x,y R=<2", "c r=b"],
            &["b s=x"],
        ] {
            // The same as with a newline at the end.
            let ended = changed(&format!("{text}{ending}"), wanted);
            assert_eq!(changed(&text, wanted), ended.strip_suffix(ending).unwrap(), "{wanted:?}");
        }
    }
    for (text, removed, left) in [
        ("a: 1\n---\nb: 2", [false, true], Some("a: 1")),
        ("a: 1\n---\nb: 2", [true, false], Some("b: 2")),
        ("a: 1\n---\nb: 2", [true, true], None),
    ] {
        let starts: Vec<u64> = documents::find(text).unwrap().iter().map(|document| document.start as u64).collect();
        let removed = starts.into_iter().zip(removed).filter(|(_, removed)| *removed);
        let change =
            FileChange { changed: removed.map(|(at, _)| (at, BlobChange::Remove)).collect(), ..FileChange::default() };
        let new = match rewrite(text, &change).unwrap() {
            RewrittenFile::Spliced(splices) => {
                Some(String::from_utf8(apply(text.as_bytes(), &splices).unwrap()).unwrap())
            }
            RewrittenFile::Deleted => None,
        };
        assert_eq!(new.as_deref(), left);
    }
}

#[test]
fn json_is_written_like_the_json_around_it() {
    let text = "{\n  \"entries\": [\n    {\n      \"name\": \"a\"\n    }\n  ]\n}\n";
    insta::assert_snapshot!(changed(text, &["a s=x", "b r=a s=y,z"]), @r#"
    {
      "entries": [
        {
          "name": "a",
          "skips": [
            "x"
          ]
        },
        {
          "name": "b",
          "replaces": "a",
          "skips": [
            "y",
            "z"
          ]
        }
      ]
    }
    "#);
    assert_eq!(
        changed("{\"entries\":[{\"name\":\"a\"}]}", &["a", "b s=x"]),
        "{\"entries\":[{\"name\":\"a\"},{\"name\":\"b\",\"skips\":[\"x\"]}]}"
    );
}

#[test]
fn aliases_are_not_changed() {
    let text = "x: &x [{name: a}]\nentries: *x\n";
    let change = BlobChange::Entries(vec![entry("b")]);
    let change = FileChange { changed: [(0, change)].into(), ..FileChange::default() };
    assert!(rewrite(text, &change).unwrap_err().help.unwrap().contains("aliases"));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 2000, ..Default::default() })]

    #[test]
    fn any_text_is_changed_correctly_or_not_at_all(
        lines in proptest::collection::vec("( |  |    )?(- |-|---|)(entries:|name:|skips:|\\{|\\[|\\]|\\}|\"|'|é|# ü|&x|\\*x|\\||,|:| )?(name: a|replaces: b|\"a\"|[a-c]|\\{name: é\\}|\\[a, b\\])?", 0..8),
        json in proptest::bool::ANY,
        crlf in proptest::bool::ANY,
    ) {
        let text = lines.join(if crlf { "\r\n" } else { "\n" });
        let text = if json { format!("{{\"entries\": [{text}]}}") } else { format!("entries:\n{text}") };
        for document in documents::find(&text).unwrap_or_default() {
            let entries = vec![entry("a r=b s=x,y"), entry("c R=<1")];
            let changed = [(document.start as u64, BlobChange::Entries(entries))].into();
            let change = FileChange { changed, ..FileChange::default() };
            if let Ok(RewrittenFile::Spliced(splices)) = rewrite(&text, &change)
                && let Some(new) = apply(text.as_bytes(), &splices)
            {
                proptest::prop_assert!(String::from_utf8(new).is_ok());
            }
            let all = documents::find(&text).unwrap_or_default();
            let removed: Vec<bool> = all.iter().map(|other| other.start != document.start).collect();
            if let Some(splices) = documents::remove(&text, &all, &removed) {
                proptest::prop_assert!(apply(text.as_bytes(), &splices).is_some());
            }
            documents::insert(lines::ending(&text), &document, "x: y\n");
        }
    }
}
