//! Reads `manifests/`: the objects of a bundle.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fbc::json::{JsonKind, Raw, Text};
use fbc::{Limits, csv};

use crate::apis::{self, ApiKey};
use crate::document::{self, DocumentError};
use crate::error::Error;
use crate::file::{self, ReadOutcome, Unreadable};

/// The objects of a bundle.
#[derive(Clone)]
pub(crate) struct BundleManifests {
    /// The canonical JSON of the objects, in file order.
    objects: Vec<Text>,
    /// The index of the CSV among the objects.
    csv: usize,
    pub(crate) csv_file: String,
    /// The APIs that the CRDs define.
    pub(crate) defined: BTreeSet<ApiKey>,
}

impl BundleManifests {
    /// Reads the objects in `dir`, one from each file regardless of its extension.
    ///
    /// Directories, hidden files and all CSVs except the first are skipped. Files without an object are skipped with a
    /// warning.
    pub(crate) fn read(dir: &Path, limits: &Limits, warnings: &mut Vec<String>) -> Result<BundleManifests, Error> {
        let mut reader = ManifestReader { limits, objects: Vec::new(), size: 0, csv: None, crds: Vec::new() };
        let skipped = warnings.len();
        let mut text = Vec::new();
        for name in file::names(dir, limits)? {
            if name.as_bytes().starts_with(b".") {
                continue;
            }
            let shown = format!("manifests/{}", name.display());
            let added = match file::read(&dir.join(&name), limits, &mut text)? {
                ReadOutcome::Directory => continue,
                ReadOutcome::Unreadable(reason) => Err(reason.into()),
                ReadOutcome::Read => reader.add(&text, &shown, warnings),
            };
            if let Err(reason) = added {
                warnings.push(format!("{shown} is left out: {reason}"));
            }
            if reader.size > limits.file_size {
                return Err(Error::TooLarge { path: dir.to_owned(), limit: limits.file_size });
            }
        }
        let skipped = || warnings[skipped..].to_vec();
        let ManifestReader { objects, csv, crds, .. } = reader;
        if objects.is_empty() {
            return Err(Error::NoObjects { skipped: skipped() });
        }
        let defined = crds.into_iter().collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect();
        let (csv, csv_file) = csv.ok_or_else(|| Error::NoCsv { skipped: skipped() })?;
        Ok(BundleManifests { objects, csv, csv_file, defined })
    }

    /// Reads objects from JSON or YAML texts.
    pub(crate) fn of_texts<'a>(
        texts: impl IntoIterator<Item = &'a [u8]>,
        limits: &Limits,
        warnings: &mut Vec<String>,
    ) -> Result<BundleManifests, Error> {
        let mut reader = ManifestReader { limits, objects: Vec::new(), size: 0, csv: None, crds: Vec::new() };
        for (i, text) in texts.into_iter().enumerate() {
            let shown = format!("object {i}");
            if let Err(reason) = reader.add(text, &shown, warnings) {
                warnings.push(format!("{shown} is left out: {reason}"));
            }
        }
        let ManifestReader { objects, csv, crds, .. } = reader;
        let defined = crds.into_iter().collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect();
        let (csv, csv_file) = csv.ok_or(Error::NoCsv { skipped: warnings.clone() })?;
        Ok(BundleManifests { objects, csv, csv_file, defined })
    }

    /// Returns the CSV.
    pub(crate) fn csv(&self) -> Raw<'_> {
        self.objects[self.csv].raw()
    }

    /// Returns the JSON of the objects.
    pub(crate) fn into_objects(self) -> Vec<Text> {
        self.objects
    }
}

/// Why a file has no object of the bundle.
#[derive(Debug, thiserror::Error)]
enum NoObject {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("{0} holds the CSV of this bundle")]
    SecondCsv(String),
    #[error("its first document is empty")]
    EmptyDocument,
    #[error("not a Kubernetes object but a value of kind {0}")]
    Value(JsonKind),
    #[error("Object 'Kind' is missing")]
    NoKind,
}

struct ManifestReader<'a> {
    limits: &'a Limits,
    objects: Vec<Text>,
    /// The total size of the objects in bytes.
    size: u64,
    csv: Option<(usize, String)>,
    crds: Vec<Result<Vec<ApiKey>, Error>>,
}

impl ManifestReader<'_> {
    /// Adds the object in the text of a file, or returns why there is none.
    fn add(&mut self, text: &[u8], file: &str, warnings: &mut Vec<String>) -> Result<(), NoObject> {
        let first = document::first(text, self.limits)?;
        let json = first.body.to_json(self.limits)?;
        let object = json.raw();
        let header = Header::of(object)?;
        if header.kind == csv::KIND {
            if let Some((_, first)) = &self.csv {
                return Err(NoObject::SecondCsv(first.clone()));
            }
            self.csv = Some((self.objects.len(), file.to_owned()));
        } else if let Some(version) = header.crd_version() {
            let keys = apis::of_crd(object, version);
            self.crds.push(keys.map_err(|mismatch| Error::Crd { version, file: file.to_owned(), mismatch }));
        }
        self.size += json.len() as u64;
        self.objects.push(json);
        if first.more {
            warnings.push(format!("found more than one document inside {file}, using only the first one"));
        }
        Ok(())
    }
}

/// The type of an object.
struct Header {
    api_version: String,
    kind: String,
}

impl Header {
    fn of(object: Raw<'_>) -> Result<Header, NoObject> {
        match object.kind() {
            JsonKind::Object => {}
            // Often caused by a comment above a `---`, which starts a separate document.
            JsonKind::Null => return Err(NoObject::EmptyDocument),
            kind => return Err(NoObject::Value(kind)),
        }
        let mut header = Header { api_version: String::new(), kind: String::new() };
        // Keys are sorted, so the large fields come later and are not parsed.
        for (key, value) in object.members().take_while(|(key, _)| key.as_ref() <= "kind") {
            match &*key {
                "apiVersion" => header.api_version = value.as_str().unwrap_or_default().into_owned(),
                "kind" => header.kind = value.as_str().unwrap_or_default().into_owned(),
                _ => {}
            }
        }
        if header.kind.is_empty() { Err(NoObject::NoKind) } else { Ok(header) }
    }

    /// Returns the API version of a CRD itself, if this is a CRD of a supported version.
    fn crd_version(&self) -> Option<&'static str> {
        match (&*self.kind, &*self.api_version) {
            ("CustomResourceDefinition", "apiextensions.k8s.io/v1") => Some("v1"),
            ("CustomResourceDefinition", "apiextensions.k8s.io/v1beta1") => Some("v1beta1"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use insta::assert_snapshot;
    use testkit::BundleDir;

    use crate::RenderOptions;
    use crate::testing::{OPTIONS, lines, rendered, rendered_with};

    const MAP: &str = "{kind: ConfigMap, metadata: {name: ";

    fn map(name: &str) -> String {
        format!("{MAP}{name}}}}}\n")
    }

    #[test]
    fn files_of_any_name_are_read_except_hidden_ones_and_directories() {
        let bundle = BundleDir::new()
            .manifest("plain", map("plain"))
            .manifest("README.md", "# Foo\ntext\n")
            .manifest("list.yaml", "- kind: x\n")
            .manifest("nokind.yaml", "foo: bar\n")
            .manifest("odd-kind.yaml", "kind: [x]\n")
            .manifest("broken.yaml", "a: [b\n")
            .manifest("empty.yaml", "")
            .manifest(".hidden.yaml", map("hidden"))
            .manifest("sub/map.yaml", map("sub"));
        assert_snapshot!(lines(&bundle, &["object {\"kind", "warning"]), @r#"
        object {"kind":"ConfigMap","metadata":{"name":"plain"}}
        warning: manifests/README.md is left out: not a Kubernetes object but a value of kind string
        warning: manifests/broken.yaml is left out: line 2: did not find expected ',' or ']'
        warning: manifests/empty.yaml is left out: file is empty
        warning: manifests/list.yaml is left out: not a Kubernetes object but a value of kind array
        warning: manifests/nokind.yaml is left out: Object 'Kind' is missing
        warning: manifests/odd-kind.yaml is left out: Object 'Kind' is missing
        "#);
    }

    #[test]
    fn only_the_first_document_of_a_file_is_read() {
        let bundle = BundleDir::new()
            .manifest("two.yaml", format!("---\n{}---\n{}", map("a"), map("b")))
            .manifest("two.json", "{\"kind\":\"A\"}\n{\"kind\":\"B\"}")
            .manifest("one.yaml", format!("{}---\n# the end\n", map("one")))
            .manifest("licence.yaml", format!("# licence\n---\n{}", map("lost")));
        assert_snapshot!(lines(&bundle, &["object {\"kind", "warning"]), @r#"
        object {"kind":"ConfigMap","metadata":{"name":"one"}}
        object {"kind":"ConfigMap","metadata":{"name":"a"}}
        object {"kind":"A"}
        warning: manifests/licence.yaml is left out: its first document is empty
        warning: found more than one document inside manifests/two.json, using only the first one
        warning: found more than one document inside manifests/two.yaml, using only the first one
        "#);
    }

    #[test]
    fn the_first_of_several_csvs_is_used() {
        let csv = "kind: ClusterServiceVersion\nmetadata: {name: other}\n";
        let bundle = BundleDir::new().manifest("z.yaml", csv);
        assert_snapshot!(lines(&bundle, &["foo", "warning"]), @r#"
        foo foo.v1.2.3
        warning: manifests/z.yaml is left out: manifests/csv.yaml holds the CSV of this bundle
        "#);
    }

    #[test]
    fn a_bundle_needs_objects_and_a_csv() {
        assert_snapshot!(rendered(&BundleDir::empty()), @"no bundle objects found");
        let broken = BundleDir::new().manifest("csv.yaml", "kind: ClusterServiceVersion\n\tx");
        assert_snapshot!(rendered(&broken), @"no csv in bundle: manifests/csv.yaml is left out: line 2: found a tab character that violates indentation");
        let many = ["a", "b", "c", "d", "e"].iter().fold(BundleDir::empty(), |bundle, name| bundle.manifest(name, "x"));
        assert_snapshot!(rendered(&many), @"no bundle objects found: manifests/a is left out: not a Kubernetes object but a value of kind string; manifests/b is left out: not a Kubernetes object but a value of kind string; manifests/c is left out: not a Kubernetes object but a value of kind string; and 2 more");
    }

    #[test]
    fn links_are_followed_and_pipes_are_not_read() {
        let bundle = BundleDir::new().metadata("shared", "kind: Shared\n");
        let manifests = bundle.path().join("manifests");
        symlink("../metadata/shared", manifests.join("link.yaml")).unwrap();
        symlink("nowhere", manifests.join("dangling.yaml")).unwrap();
        assert!(Command::new("mkfifo").arg(manifests.join("pipe.yaml")).status().unwrap().success());
        assert_snapshot!(lines(&bundle, &["object {\"kind", "warning"]), @r#"
        object {"kind":"Shared"}
        warning: manifests/dangling.yaml is left out: No such file or directory (os error 2)
        warning: manifests/pipe.yaml is left out: not a regular file
        "#);
    }

    #[test]
    fn files_beyond_the_limits_are_rejected() {
        let mut limits = OPTIONS.limits.clone();
        limits.file_size = 100;
        assert_snapshot!(rendered_with(&BundleDir::new(), &RenderOptions { limits, ..OPTIONS }), @"BUNDLE/manifests/crd.yaml: larger than 100 bytes");
        let mut limits = OPTIONS.limits.clone();
        limits.files = 1;
        assert_snapshot!(rendered_with(&BundleDir::new(), &RenderOptions { limits, ..OPTIONS }), @"BUNDLE/manifests: directory holds more than 1 files");
        let bomb = "kind: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b]\n\
            d: &d [*c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d]\n";
        assert_snapshot!(lines(&BundleDir::new().manifest("bomb.yaml", bomb), &["warning"]), @"warning: manifests/bomb.yaml is left out: line 5: document contains excessive aliasing");
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(64))]

        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>, yaml in r#"[\[\]{}:,"'a-e0-9 \n#&*|>\-]{0,60}"#) {
            rendered(&BundleDir::new().manifest("a.yaml", &text).metadata("a.yaml", &text));
            rendered(&BundleDir::new().manifest("b.yaml", &yaml).metadata("b.yaml", &yaml));
            rendered(&BundleDir::new().csv_spec(&yaml));
        }
    }
}
