//! Locks of a mirror, blob lists, and lists of images to remove: encoding and parsing round-trips.

use mirror::destination::MirrorDestination;
use mirror::lock::Lock;
use mirror::resources::{self, ResourceOptions};
use mirror::{known_blobs, listed};

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let target = MirrorDestination::parse("registry.example.com/mirror", None).expect("a registry");
    if let Ok(lock) = Lock::read(bytes) {
        let text = lock.to_text();
        let reread = Lock::read(text.as_bytes()).expect("a written lock is parsed");
        assert_eq!(lock, reread);
        assert_eq!(lock.digest(), reread.digest());
        let mut sorted = lock.clone();
        sorted.sort();
        let _ = lock.bundles();
        for image in &lock.images {
            image.digest().expect("a digest");
            // A path that is too long for a registry is rejected before any request.
            if let Ok(place) = target.repository(&image.path) {
                assert!(place.name().starts_with("registry.example.com/mirror/"));
            }
        }
        // Files of objects stay inside their directory.
        if let Ok(objects) = resources::make(&lock, &target, &ResourceOptions::default()) {
            assert!(
                objects.files.keys().all(|name| !name.starts_with('/') && !name.contains("..")),
                "{:?}",
                objects.files
            );
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(blobs) = known_blobs::parse(text)
    {
        assert!(blobs.len() <= text.lines().count());
    }
    if let Ok((names, _)) = listed::read(bytes, &target) {
        assert!(names.iter().all(|name| name.to_string().starts_with("registry.example.com/mirror/")));
    }
}
