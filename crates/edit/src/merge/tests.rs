use fbc::{Fbc, Limits};

use super::*;

/// A catalog of one package, its blobs made from JSON.
fn catalog(channel: &str, more: &str) -> Fbc {
    let mut fbc = Fbc::default();
    for json in [
        r#"{"schema":"olm.package","name":"p","defaultChannel":"stable"}"#.to_owned(),
        format!(r#"{{"schema":"olm.channel","package":"p","name":"stable","entries":[{channel}]}}"#),
        format!(r#"{{"schema":"olm.deprecations","package":"p","entries":[{more}]}}"#),
    ] {
        fbc.add_generated(&json, &Limits::default()).unwrap();
    }
    fbc
}

fn text(fbc: &Fbc) -> impl Fn(usize) -> Result<NewBlob, EditRefusal> {
    move |blob| {
        let mut buffer = fbc::blob::TextBuffer::default();
        let text = fbc.text(&fbc.blobs()[blob], &mut buffer).map_err(|error| EditRefusal::new(error.to_string()))?;
        Ok(NewBlob::json(text))
    }
}

fn merged(first: &Fbc, second: &Fbc) -> Result<Outline, EditRefusal> {
    let (outline, other) = (Outline::new(first), Outline::new(second));
    let (first, second) = (text(first), text(second));
    let first = MergeSide { outline: &outline, text: &first };
    merge(first, MergeSide { outline: &other, text: &second }, false).map(|(merged, _)| merged)
}

#[test]
fn an_unreadable_blob_aborts_the_merge() {
    let (one, two) = (catalog(r#"{"name":"a"}"#, ""), catalog(r#"{"name":"a"}"#, ""));
    let (outline, other) = (Outline::new(&one), Outline::new(&two));
    let empty = Outline::default();
    let good = text(&one);
    let unreadable = |blob: usize| match blob {
        // Only the text of the channel cannot be read.
        1 => Err(EditRefusal::new("file changed while it was being read")),
        _ => text(&two)(blob),
    };
    for outline in [&outline, &empty] {
        let first = MergeSide { outline, text: &good };
        let refusal = merge(first, MergeSide { outline: &other, text: &unreadable }, false).unwrap_err();
        assert_eq!(refusal.message, "file changed while it was being read");
        let refusal =
            merge(MergeSide { outline: &other, text: &unreadable }, MergeSide { outline: &other, text: &good }, false);
        assert!(refusal.is_err());
    }
}

#[test]
fn unknown_fields_are_not_dropped() {
    let plain = catalog(r#"{"name":"a"}"#, "");
    let refused = |first: &Fbc, second: &Fbc| {
        merged(first, second).unwrap_err().message.replace("the catalogs conflict:\n  ", "")
    };
    assert_eq!(
        refused(&plain, &catalog(r#"{"name":"a"},{"name":"b","note":1}"#, "")),
        r#"package "p": entry "b" of channel "stable" has unknown fields that would be dropped"#
    );
    assert_eq!(
        refused(&plain, &catalog(r#"{"name":"a","note":1}"#, "")),
        r#"package "p": entry "a" of channel "stable" has different fields"#
    );
    let deprecation = |more: &str| {
        let entry = format!(r#"{{"reference":{{"schema":"olm.bundle","name":"a"}},"message":"m"{more}}}"#);
        catalog(r#"{"name":"a"}"#, &entry)
    };
    assert_eq!(
        refused(&plain, &deprecation(r#","since":1"#)),
        r#"package "p": the deprecation of olm.bundle "a" has unknown fields that would be dropped"#
    );
    assert_eq!(
        refused(&deprecation(r#","since":2"#), &deprecation(r#","since":1"#)),
        r#"package "p": the deprecation of olm.bundle "a" has different fields"#
    );
    assert!(merged(&deprecation(""), &deprecation("")).is_ok());
}
