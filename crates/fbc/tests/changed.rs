//! Files that change while a catalog is read.

use std::{fs, io};

use fbc::blob::TextBuffer;
use fbc::{Fbc, LoadOptions};

const BEFORE: &str = r#"{"schema":"custom","package":"p","name":"one","list":[1,2,3]}"#;

/// Loads a file, changes it without changing its size and time, and returns the text of its blob.
fn text_after(now: &str) -> io::Result<String> {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("catalog.json");
    fs::write(&path, BEFORE).unwrap();
    let mut fbc = Fbc::default();
    let options = LoadOptions { keep_text: true, ..LoadOptions::default() };
    assert!(fbc.load_dir(scratch.path(), &options).unwrap().problems.is_empty());
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, now).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let mut buffer = TextBuffer::default();
    fbc.text(&fbc.blobs()[0], &mut buffer).map(|text| text.text().to_owned())
}

#[test]
fn a_change_is_detected_even_if_size_and_time_stay_the_same() {
    assert_eq!(text_after(BEFORE).unwrap(), BEFORE);
    for now in [BEFORE.replace("one", "two"), BEFORE.replace("[1,2,3]", "[[[[[[[")] {
        assert_eq!(now.len(), BEFORE.len());
        assert_eq!(text_after(&now).unwrap_err().to_string(), "file changed while it was being read");
    }
}
