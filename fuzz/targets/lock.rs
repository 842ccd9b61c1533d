//! The lock of a mirror, and lists of blobs and of images to remove: what is accepted is written and read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mirror::destination::Target;
use mirror::lock::Lock;
use mirror::resources::{self, Options};
use mirror::{have, listed};

fuzz_target!(|bytes: &[u8]| {
    let target = Target::parse("registry.example.com/mirror", None).expect("a registry");
    if let Ok(lock) = Lock::read(bytes) {
        let text = lock.to_text();
        let again = Lock::read(text.as_bytes()).expect("what was written is read");
        assert_eq!(lock, again);
        assert_eq!(lock.digest(), again.digest());
        let mut sorted = lock.clone();
        sorted.sort();
        let _ = (lock.bytes(), lock.bundles());
        for image in &lock.images {
            image.digest().expect("a digest");
            // A path that is too long for a registry is refused before anything is sent.
            if let Ok(place) = target.repository(&image.path) {
                assert!(place.name().starts_with("registry.example.com/mirror/"));
            }
        }
        // No file of the objects is outside of their directory.
        if let Ok(made) = resources::make(&lock, &target, &Options::default()) {
            assert!(made.files.keys().all(|name| !name.starts_with('/') && !name.contains("..")), "{:?}", made.files);
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(found) = have::parse(text)
    {
        assert!(found.len() <= text.lines().count());
    }
    if let Ok((names, _)) = listed::read(bytes, &target) {
        assert!(names.iter().all(|name| name.to_string().starts_with("registry.example.com/mirror/")));
    }
});
