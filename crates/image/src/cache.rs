//! The image cache: a store that persists between runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Environment, Store, shared};

impl Store {
    /// Opens the store of an image cache directory such as `$OLM_CACHE_DIR/images`. The layout is in `oci-layout`,
    /// next to `blob-info-cache`, which other tools write.
    ///
    /// # Errors
    /// Fails when the directory cannot be created or written.
    pub fn in_cache(images: &Path) -> io::Result<Store> {
        let layout = images.join("oci-layout");
        fs::create_dir_all(images)?;
        shared::create_dir(&images.join("blob-info-cache"))?;
        shared::create_dir(&layout)?;
        Store::open(&layout)
    }
}

impl Environment {
    /// Returns the image cache directory that the environment sets: `$OLM_CACHE_DIR/images`.
    pub fn image_cache(&self) -> Option<PathBuf> {
        self.dir("OLM_CACHE_DIR").map(|dir| dir.join("images"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_has_the_layout_of_other_tools() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::isolated(dir.path(), &[("OLM_CACHE_DIR", dir.path().to_str().unwrap())]);
        let store = Store::in_cache(&environment.image_cache().unwrap()).unwrap();
        assert_eq!(store.root(), dir.path().join("images/oci-layout"));
        assert!(store.root().join("oci-layout").is_file());
        assert!(dir.path().join("images/blob-info-cache").is_dir());
        assert_eq!(Environment::isolated(dir.path(), &[]).image_cache(), None);
    }
}
