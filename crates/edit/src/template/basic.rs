//! The basic template: a catalog that lists its bundles by image.

use std::collections::HashMap;

use fbc::blob::BUNDLE;
use fbc::json::{Raw, Text};
use fbc::{Blob, BlobContent, Fbc, Limits};

use super::{Bundles, TemplateError};

/// The number of bundles that are requested, and held in memory, at a time.
const BATCH_SIZE: usize = 64;

/// Replaces the entries that name images with the bundles; all other entries stay unchanged.
pub(super) fn render(document: Raw<'_>, limits: &Limits, bundles: &mut Bundles<'_>) -> Result<Fbc, TemplateError> {
    super::check(fbc::template::BASIC, document)?;
    let fbc = Fbc::default();
    let entries = super::entries(document, &fbc, limits)?;
    render_entries(fbc, entries, "entries", limits, bundles)
}

/// Does the same for the legacy form of the template, whose entries are separate documents.
pub(super) fn render_plain(
    documents: &[Text],
    limits: &Limits,
    bundles: &mut Bundles<'_>,
) -> Result<Fbc, TemplateError> {
    let fbc = Fbc::default();
    let documents = documents.iter().map(Text::raw);
    let entries = super::blobs(documents, "documents", &fbc, limits)?;
    render_entries(fbc, entries, "documents", limits, bundles)
}

fn render_entries(
    mut fbc: Fbc,
    entries: Vec<(Raw<'_>, Blob)>,
    list: &str,
    limits: &Limits,
    bundles: &mut Bundles<'_>,
) -> Result<Fbc, TemplateError> {
    // Fetching bundles takes time, so faults of the template itself are reported first.
    let faults = entries.iter().enumerate().filter_map(|(index, (entry, blob))| {
        let excess = excess(*entry, blob)?;
        Some(format!("{list}[{index}]: unexpected fields present in basic template bundle: {excess}"))
    });
    let faults: Vec<String> = faults.collect();
    if !faults.is_empty() {
        return Err(TemplateError::Entries(faults));
    }
    fill_in(entries.into_iter().map(|(_, blob)| blob).collect(), &mut fbc, limits, bundles)?;
    Ok(fbc)
}

/// Adds blobs to `fbc`, replacing those that only name an image with the bundle.
fn fill_in(blobs: Vec<Blob>, fbc: &mut Fbc, limits: &Limits, bundles: &mut Bundles<'_>) -> Result<(), TemplateError> {
    let images: Vec<String> = blobs.iter().filter_map(image).map(str::to_owned).collect();
    let mut ahead = images.chunks(BATCH_SIZE);
    let mut fetched = HashMap::new();
    let mut left = 0;
    for blob in blobs {
        let Some(reference) = image(&blob) else {
            fbc.push(blob);
            continue;
        };
        if left == 0 {
            let next = ahead.next().unwrap_or_default();
            fetched = super::fetch_all(bundles, next.iter().map(String::as_str))?;
            left = next.len();
        }
        left -= 1;
        for bundle in fetched.get(reference).into_iter().flatten() {
            let bundle = super::bundle_blob(fbc, reference, &bundle.json, limits)?;
            fbc.push(bundle);
        }
    }
    Ok(())
}

/// Returns the image of an entry, if it is a bundle.
fn image(blob: &Blob) -> Option<&str> {
    match &blob.content {
        BlobContent::Bundle(bundle) => Some(&bundle.image),
        _ => None,
    }
}

/// Reports why an entry has more, or less, than the image of a bundle.
fn excess(entry: Raw<'_>, blob: &Blob) -> Option<String> {
    if &*blob.schema != BUNDLE {
        return None;
    }
    if image(blob).is_none_or(str::is_empty) {
        return Some("\"image\" is missing".to_owned());
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

    use super::*;
    use crate::template::Template;
    use crate::template::sample::{bundles, rendered, shown};

    #[test]
    fn bundles_replace_their_images() {
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
    fn bundle_entries_contain_only_an_image() {
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
        entries[0]: unexpected fields present in basic template bundle: "image" is missing
        entries[1]: unexpected fields present in basic template bundle: "package" comes from the bundle
        entries[2]: unexpected fields present in basic template bundle: "properties" come from the bundle
        entries[3]: unexpected fields present in basic template bundle: "relatedImages" come from the bundle
        "#);
    }

    #[test]
    fn all_entries_that_are_not_blobs_are_reported() {
        assert_snapshot!(rendered("schema: olm.template.basic\nentries: {}\n"), @r#"unmarshalling template: json: cannot unmarshal object into field "entries" of type list"#);
        let template = "schema: olm.template.basic\nentries: [{name: x}, ~, {schema: olm.channel, entries: 1}]\n";
        assert_snapshot!(rendered(template), @r#"
        entries[0]: object '{"name":"x"}' is missing root schema field
        entries[1]: object '{}' is missing root schema field
        entries[2]: parse channel: json: cannot unmarshal number into field "entries" of type list
        "#);
    }

    #[test]
    fn the_legacy_form_has_one_document_per_entry() {
        let render = |text: &str| {
            let limits = Limits::default();
            let documents = fbc::stream::documents(text.as_bytes(), &limits).unwrap();
            let rendered = render_plain(&documents, &limits, &mut |all| all.iter().map(|one| bundles(one)).collect());
            rendered.map_or_else(|error| error.to_string(), |fbc| shown(&fbc))
        };
        let text = "\
schema: olm.package
name: foo
defaultChannel: stable
---
schema: olm.bundle
image: foo:1.0.0
---
{schema: olm.channel, package: foo, name: stable, entries: [{name: foo.v1.0.0}]}
";
        assert_snapshot!(render(text), @r#"
        {"schema": "olm.package","name": "foo","defaultChannel": "stable"}
        channel stable
          foo.v1.0.0
        bundle foo.v1.0.0
        "#);
        assert_snapshot!(render("schema: olm.bundle\nimage: foo:1.0.0\npackage: foo\n---\nname: x\n"), @r#"documents[1]: object '{"name":"x"}' is missing root schema field"#);
        assert_snapshot!(render("schema: olm.bundle\nimage: foo:1.0.0\npackage: foo\n"), @r#"documents[0]: unexpected fields present in basic template bundle: "package" comes from the bundle"#);
    }

    #[test]
    fn many_bundles_are_requested_in_batches_and_stay_in_order() {
        let entries: String =
            (0..150).map(|number| format!("- {{schema: olm.bundle, image: 'foo:1.0.{}'}}\n", number % 100)).collect();
        let text = format!("schema: olm.template.basic\nentries:\n{entries}");
        let limits = Limits::default();
        let template = Template::parse(text.as_bytes(), &limits).unwrap();
        let mut goes = Vec::new();
        let fbc = render(template.raw(), &limits, &mut |all| {
            goes.push(all.len());
            all.iter().map(|one| bundles(one)).collect()
        });
        assert_eq!(goes, [64, 64, 22]);
        let names: Vec<_> = fbc.unwrap().blobs().iter().map(|blob| blob.name.to_string()).collect();
        let expected: Vec<_> = (0..150).map(|number| format!("foo.v1.0.{}", number % 100)).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn all_bundles_that_cannot_be_rendered_are_reported() {
        let text = "schema: olm.template.basic\nentries: [{schema: olm.bundle, image: missing}, {schema: olm.bundle, image: x}]\n";
        assert_snapshot!(rendered(text), @r#"
        render reference "missing": it is gone
        render reference "x": no version
        "#);
    }

    #[test]
    fn a_bundle_that_cannot_be_fetched_is_reported() {
        assert_snapshot!(rendered("schema: olm.template.basic\nentries: [{schema: olm.bundle, image: missing}]\n"), @r#"render reference "missing": it is gone"#);
    }
}
