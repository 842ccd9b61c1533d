//! The basic template: a catalog whose bundles are given by their images.

use fbc::blob::BUNDLE;
use fbc::json::Raw;
use fbc::shape::Shape;
use fbc::{Blob, Content, Fbc, Limits};

use super::{Bundles, Error};

const SHAPE: Shape = Shape::Object(&[("entries", Shape::List(&Shape::Any))]);

/// Puts the bundles that the entries name in their places; all other entries stay as they are.
pub(super) fn render(document: Raw<'_>, limits: &Limits, bundles: &mut Bundles<'_>) -> Result<Fbc, Error> {
    super::check(SHAPE, document)?;
    let mut fbc = Fbc::default();
    let entries = super::entries(document, &fbc, limits)?;
    // Fetching bundles takes time: what is wrong with the template itself is told before.
    let faults = entries.iter().enumerate().filter_map(|(index, (entry, blob))| {
        let excess = excess(*entry, blob)?;
        Some(format!("entries[{index}]: unexpected fields present in basic template bundle: {excess}"))
    });
    let faults: Vec<String> = faults.collect();
    if !faults.is_empty() {
        return Err(Error::Entries(faults));
    }
    for (_, blob) in entries {
        match image(&blob) {
            None => fbc.push(blob),
            Some(reference) => {
                for bundle in super::fetch(bundles, reference)? {
                    let bundle = super::made(&fbc, reference, &bundle.json, limits)?;
                    fbc.push(bundle);
                }
            }
        }
    }
    Ok(fbc)
}

/// Returns the image of an entry, if it is a bundle.
fn image(blob: &Blob) -> Option<&str> {
    match &blob.content {
        Content::Bundle(bundle) => Some(&bundle.image),
        _ => None,
    }
}

/// Tells what keeps an entry from being no more than the image of a bundle.
fn excess(entry: Raw<'_>, blob: &Blob) -> Option<String> {
    if &*blob.schema != BUNDLE {
        return None;
    }
    if image(blob).is_none_or(str::is_empty) {
        return Some("there is no \"image\"".to_owned());
    }
    if !blob.package.is_empty() {
        return Some("\"package\" comes from the bundle".to_owned());
    }
    let filled = |name: &&str| entry.get(name).is_some_and(|list| list.items().next().is_some());
    ["properties", "relatedImages"].into_iter().find(filled).map(|name| format!("\"{name}\" come from the bundle"))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::template::sample::rendered;

    #[test]
    fn bundles_take_the_places_of_their_images() {
        let template = "\
schema: olm.template.basic
extra: ignored
entries:
- {schema: custom, package: foo, z: 1, a: 2.50}
- {schema: olm.bundle, image: foo:1.1.0, name: any}
- {schema: olm.package, name: foo, defaultChannel: stable, description: ''}
- {schema: olm.channel, package: foo, name: stable, entries: [{name: foo.v1.0.0}]}
- {schema: olm.bundle, image: foo:1.0.0, properties: [], relatedImages: null}
- {schema: olm.bundle, image: foo:1.0.0}
";
        assert_snapshot!(rendered(template), @r#"
        {"schema": "olm.package","name": "foo","defaultChannel": "stable"}
        channel stable
          foo.v1.0.0
        bundle foo.v1.0.0
        bundle foo.v1.0.0
        bundle foo.v1.1.0
        custom
        "#);
    }

    #[test]
    fn a_template_may_be_empty_and_need_not_be_valid() {
        assert_eq!(rendered("schema: olm.template.basic\n"), "");
        assert_snapshot!(rendered("schema: olm.template.basic\nentries: [{schema: olm.package, name: foo}]\n"), @r#"{"schema": "olm.package","name": "foo","defaultChannel": ""}"#);
    }

    #[test]
    fn bundles_hold_nothing_but_their_image() {
        let template = "\
schema: olm.template.basic
entries:
- {schema: olm.bundle, name: foo.v1.0.0}
- {schema: olm.bundle, image: foo:1.0.0, package: foo}
- {schema: olm.bundle, image: foo:1.0.0, properties: [{type: a, value: 1}]}
- {schema: olm.bundle, image: foo:1.0.0, relatedImages: [{image: a}]}
- {schema: olm.bundle, image: foo:1.0.0}
";
        assert_snapshot!(rendered(template), @r#"
        entries[0]: unexpected fields present in basic template bundle: there is no "image"
        entries[1]: unexpected fields present in basic template bundle: "package" comes from the bundle
        entries[2]: unexpected fields present in basic template bundle: "properties" come from the bundle
        entries[3]: unexpected fields present in basic template bundle: "relatedImages" come from the bundle
        "#);
    }

    #[test]
    fn entries_that_are_no_blobs_are_all_told() {
        assert_snapshot!(rendered("schema: olm.template.basic\nentries: {}\n"), @r#"unmarshalling template: json: cannot unmarshal object into field "entries" of type list"#);
        let template = "schema: olm.template.basic\nentries: [{name: x}, ~, {schema: olm.channel, entries: 1}]\n";
        assert_snapshot!(rendered(template), @r#"
        entries[0]: object '{"name":"x"}' is missing root schema field
        entries[1]: object '{}' is missing root schema field
        entries[2]: parse channel: json: cannot unmarshal number into field "entries" of type list
        "#);
    }

    #[test]
    fn a_bundle_that_cannot_be_had_is_named() {
        assert_snapshot!(rendered("schema: olm.template.basic\nentries: [{schema: olm.bundle, image: missing}]\n"), @r#"render reference "missing": it is gone"#);
    }
}
