//! Bundles in temporary directories.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

const CRD: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: foos.example.com
spec:
  group: example.com
  names: {kind: Foo, plural: foos}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
";

const CSV: &str = "\
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo.v1.2.3
spec:
  version: 1.2.3
";

const ANNOTATIONS: &str = "\
annotations:
  operators.operatorframework.io.bundle.package.v1: foo
  operators.operatorframework.io.bundle.channels.v1: stable
";

/// A bundle directory, removed on drop.
#[derive(Debug)]
pub struct BundleDir {
    root: TempDir,
}

impl BundleDir {
    /// Creates a bundle without any files.
    pub fn empty() -> BundleDir {
        let root = tempfile::tempdir().expect("scratch directory");
        for part in ["manifests", "metadata"] {
            fs::create_dir(root.path().join(part)).expect("part of a bundle");
        }
        BundleDir { root }
    }

    /// Creates the bundle `foo.v1.2.3` of package `foo`, with the API `v1` of `foos.example.com` in `crd.yaml`, a CSV
    /// in `csv.yaml` and annotations in `annotations.yaml`.
    #[expect(clippy::new_without_default, reason = "a bundle with content is no default value")]
    pub fn new() -> BundleDir {
        BundleDir::empty().manifest("crd.yaml", CRD).manifest("csv.yaml", CSV).metadata("annotations.yaml", ANNOTATIONS)
    }

    /// Adds `fields`, indented by two, to the spec of the CSV.
    #[must_use]
    pub fn csv_spec(self, fields: &str) -> BundleDir {
        self.manifest("csv.yaml", format!("{CSV}{fields}"))
    }

    /// Writes a file to `manifests/`.
    #[must_use]
    pub fn manifest(self, name: &str, text: impl AsRef<[u8]>) -> BundleDir {
        self.file(&Path::new("manifests").join(name), text.as_ref())
    }

    /// Writes a file to `metadata/`.
    #[must_use]
    pub fn metadata(self, name: &str, text: impl AsRef<[u8]>) -> BundleDir {
        self.file(&Path::new("metadata").join(name), text.as_ref())
    }

    /// Removes a file, given by its path in the bundle.
    #[must_use]
    pub fn without(self, path: &str) -> BundleDir {
        fs::remove_file(self.root.path().join(path)).expect("file of a bundle");
        self
    }

    /// Returns the path of the bundle.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    fn file(self, path: &Path, text: &[u8]) -> BundleDir {
        let path: PathBuf = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(&path)).expect("directory in a bundle");
        fs::write(path, text).expect("file of a bundle");
        self
    }
}
