use super::*;

#[test]
fn headers_are_read_back_and_every_flipped_bit_is_detected() {
    let start = HEADER_SIZE as u64;
    let mut sections = [Section { offset: start, ..Section::default() }; KINDS];
    sections[KINDS - 1] = Section { offset: start, length: 5, checksum: 7 };
    let mut file = write_header(&sections, HEADER_SIZE as u64 + 5);
    assert_eq!(file.len(), HEADER_SIZE);
    file.extend_from_slice(b"hello");
    assert_eq!(read_header(&file, file.len() as u64), Ok(sections));
    for bit in 0..HEADER_SIZE * 8 {
        file[bit / 8] ^= 1 << (bit % 8);
        assert!(read_header(&file, file.len() as u64).is_err(), "bit {bit}");
        file[bit / 8] ^= 1 << (bit % 8);
    }
    for length in 0..file.len() {
        assert!(read_header(&file[..length], length as u64).is_err(), "length {length}");
    }
}

/// A catalog that uses every table of the cache.
const FIXED: &str = r#"---
schema: olm.package
name: one
defaultChannel: stable
description: the first
---
schema: olm.channel
package: one
name: stable
entries:
- name: one.v1.0.0
- name: one.v1.1.0
  replaces: one.v1.0.0
  skips: [one.v0.9.0, one.v1.0.1]
  skipRange: ">=0.5.0 <1.1.0"
---
schema: olm.bundle
package: one
name: one.v1.0.0
image: registry.test/one:v1.0.0
properties:
- {type: olm.package, value: {packageName: one, version: 1.0.0}}
- {type: olm.gvk, value: {group: one.test, version: v1, kind: Thing}}
- {type: olm.csv.metadata, value: {displayName: One, description: text of the first}}
---
schema: olm.bundle
package: one
name: one.v1.1.0
image: registry.test/one:v1.1.0
properties:
- {type: olm.package, value: {packageName: one, version: 1.1.0}}
- {type: olm.gvk, value: {group: one.test, version: v1, kind: Thing}}
- {type: olm.gvk.required, value: {group: two.test, version: v1, kind: Other}}
- {type: olm.bundle.object, value: {data: eyJraW5kIjoiQ29uZmlnTWFwIn0=}}
- {type: olm.csv.metadata, value: {displayName: One, description: text of the second}}
relatedImages:
- {name: operator, image: registry.test/operator:v1.1.0}
---
schema: olm.deprecations
package: one
entries:
- reference: {schema: olm.bundle, name: one.v1.0.0}
  message: use the second
---
schema: custom.note
package: one
text: of the package
---
schema: custom.note
text: of nobody
"#;

#[test]
fn the_format_changes_only_with_its_version() {
    let scratch = tempfile::tempdir().unwrap();
    let (root, cache) = (scratch.path().join("catalog"), scratch.path().join("cache"));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("catalog.yaml"), FIXED).unwrap();
    let on_invalid = crate::load::OnInvalid::Fail;
    let directory = crate::load::ServedDirectory {
        root,
        limits: fbc::Limits::default(),
        on_invalid,
        empty: crate::load::Empty::Accepted,
        summarize: false,
    };
    super::super::store::build_portable(&directory, &cache).unwrap();
    let written = std::fs::read(super::super::store::file_in(&cache)).unwrap();
    assert_eq!(
        (VERSION, checksum(&written)),
        RECORDED,
        "the cache bytes changed: raise VERSION, then record the checksum on the left"
    );
}

#[test]
fn records_have_their_declared_size() {
    let mut out = Vec::new();
    Bundle::default().put(&mut out);
    assert_eq!(out.len(), Bundle::SIZE);
    let table = Table::<Bundle>::new(&out);
    assert_eq!((table.len(), table.get(0), table.get(1)), (1, Some(Bundle::default()), None));
    assert_eq!(table.get(usize::MAX), None);
}
