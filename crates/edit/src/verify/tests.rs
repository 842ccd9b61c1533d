use std::fs;

use fbc::LoadOptions;

use super::*;
use crate::Outline;
use crate::set_default::set_default;

const CATALOG: &str = r#"schema: olm.package
name: p
defaultChannel: stable
owner: us
---
schema: olm.channel
package: p
name: stable
entries:
- {name: p.v1.0.0, note: first}
---
schema: olm.channel
package: p
name: fast
entries:
- {name: p.v1.0.0}
---
schema: olm.bundle
package: p
name: p.v1.0.0
image: registry.example.com/p:v1
properties:
- {type: olm.package, value: {packageName: p, version: 1.0.0}}
- {type: note, value: 1}
---
schema: custom
package: p
text: x
"#;

struct Read {
    fbc: Fbc,
    digests: BlobDigests,
    directory: tempfile::TempDir,
}

impl Read {
    fn new(text: &str, digests: BlobDigests) -> Read {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("c.yaml"), text).unwrap();
        let mut fbc = Fbc::default();
        let inspect = |blob: &Blob, text: Raw<'_>, _: &mut Vec<fbc::Problem>| digests.note(blob, text);
        let options = LoadOptions { inspect: Some(&inspect), ..LoadOptions::default() };
        assert!(fbc.load_dir(directory.path(), &options).unwrap().problems.is_empty());
        Read { fbc, digests, directory }
    }

    fn snapshot(&self) -> CatalogSnapshot<'_> {
        CatalogSnapshot { fbc: &self.fbc, root: self.directory.path(), digests: &self.digests }
    }
}

/// Checks a text that claims to be the catalog with another default channel, and whether the outlines agree.
fn checked(text: &str) -> (bool, bool) {
    let before = Read::new(CATALOG, BlobDigests::default());
    let old = Outline::new(&before.fbc);
    let mut wanted = old.clone();
    set_default(&mut wanted, "p", "fast").unwrap();
    let changes = FileChanges::between(&before.fbc, &old, &wanted).unwrap();
    let new = BTreeMap::new();
    let after = Read::new(text, BlobDigests::of_changed(&before.digests, &changes, &new));
    let agree = Outline::new(&after.fbc).agrees_with(&wanted);
    (agree, verify_only_planned_changes(before.snapshot(), &changes, &new, after.snapshot()).is_ok())
}

#[test]
fn untouched_content_must_be_identical() {
    let edited = CATALOG.replace("defaultChannel: stable", "defaultChannel: fast");
    assert_eq!(checked(&edited), (true, true));
    for (from, to) in [
        ("registry.example.com/p:v1", "registry.example.com/p:v2"),
        ("{type: note, value: 1}", "{type: note, value: 2}"),
        ("text: x", "text: y"),
        ("owner: us", "owner: them"),
        ("note: first", "note: second"),
        ("schema: custom\n", "schema: other\n"),
    ] {
        assert_eq!(checked(&edited.replace(from, to)), (true, false), "{to}");
    }
}

#[test]
fn comments_are_no_content() {
    let edited = CATALOG.replace("defaultChannel: stable", "defaultChannel: fast # now");
    assert_eq!(checked(&edited), (true, true));
}
