//! Auth files of docker and podman, in both forms.

use image::AuthFile;

/// Runs the target with one input.
pub fn run(bytes: &[u8]) {
    for old_form in [false, true] {
        match AuthFile::parse(bytes, old_form) {
            Ok(file) => {
                for (host, repository) in [("reg.test", "a/b"), ("reg.test:5000", "a"), ("docker.io", "library/a")] {
                    for key in file.keys(host, repository) {
                        assert!(key.contains(host) || key.contains("docker.io"), "{key} was found for {host}");
                    }
                }
            }
            // A message quotes nothing of the file: it may contain the position only.
            Err(error) => assert!(error.to_string().is_ascii() && error.to_string().len() < 100, "{error}"),
        }
    }
}
