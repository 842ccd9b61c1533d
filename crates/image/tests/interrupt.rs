//! A process that is about to exit removes all scratch files. This is the only test of its binary, because it affects
//! the whole process.

use std::fs;
use std::io::Write;

use fbc::scratch::Guard;
use image::{Digest, Store};

#[test]
fn partial_blobs_are_removed_before_the_process_exits() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let blobs = || fs::read_dir(dir.path().join("blobs")).unwrap().count();
    let mut writer = store.writer().unwrap();
    writer.write_all(b"half").unwrap();
    assert_eq!(blobs(), 2, "the directory of blobs, and one partial blob");
    let guard = Guard::remove_all();
    assert_eq!(blobs(), 1);
    let (other_store, content) = (store.clone(), b"later");
    let late = std::thread::spawn(move || other_store.put(content));
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(!late.is_finished(), "a new write started");
    drop(guard);
    // A writer that continues gets an error, and its blob is not stored.
    assert!(writer.finish(None).is_err());
    assert!(store.blob(&Digest::of(b"half")).unwrap().is_none());
    assert_eq!(late.join().unwrap().unwrap(), Digest::of(content));
}
