//! `registries.conf`: two files, of which the second takes precedence.

use std::path::Path;

use image::{Reference, RegistriesConf};

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut conf = RegistriesConf::default();
    for part in text.splitn(2, '\0') {
        if let Err(error) = conf.add(Path::new("registries.conf"), part) {
            let error = error.to_string();
            assert!(!error.is_empty() && !error.contains('\n'));
        }
    }
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    for name in ["reg.test/a/b:v1", "sub.reg.test:5000/a:v1", &format!("reg.test/a@sha256:{digest}")] {
        let reference = Reference::parse(name).expect("a reference");
        match conf.places(&reference) {
            Ok(places) => {
                assert!(!places.is_empty());
                for place in places {
                    assert_eq!(Reference::parse(&place.to_string()).as_ref(), Ok(&place));
                    assert_eq!(place.version(), reference.version());
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
