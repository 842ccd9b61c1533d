//! A process that is about to end leaves no scratch file. The only test of its program: it is about all of them.

use std::fs;
use std::io::Write;

use image::{Digest, ScratchGuard, Store};

#[test]
fn what_is_half_written_is_gone_when_the_process_ends() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let blobs = || fs::read_dir(dir.path().join("blobs")).unwrap().count();
    let mut writer = store.writer().unwrap();
    writer.write_all(b"half").unwrap();
    assert_eq!(blobs(), 2, "the directory of blobs, and one on its way");
    let ending = ScratchGuard::remove_all();
    assert_eq!(blobs(), 1);
    let (store_too, content) = (store.clone(), b"later");
    let late = std::thread::spawn(move || store_too.put(content));
    assert!(!late.is_finished(), "nothing new begins");
    drop(ending);
    // Who goes on all the same gets an error, not a blob.
    assert!(writer.finish(None).is_err());
    assert!(store.blob(&Digest::of(b"half")).unwrap().is_none());
    assert_eq!(late.join().unwrap().unwrap(), Digest::of(content));
}
