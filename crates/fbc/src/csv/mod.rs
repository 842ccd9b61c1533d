//! ClusterServiceVersions: their fields, the metadata that catalogs keep, and the reconstruction from it.

mod fields;
pub mod metadata;
pub mod rebuilt;

pub use fields::{Csv, CsvReleaseError, Description, OBJECT_META};

use crate::json::{Cursor, Raw};

/// The kind of the object.
pub const KIND: &str = "ClusterServiceVersion";

/// The annotation with the version range that upgrades directly.
pub const SKIP_RANGE: &str = "olm.skipRange";

/// Returns whether an object is a CSV; the last of several kinds counts.
pub fn is_csv(object: Raw<'_>) -> bool {
    let mut is = false;
    Cursor::new(object).members(|key, value| {
        if key == "kind" {
            is = value.value().as_str().is_some_and(|kind| kind == KIND);
        }
    });
    is
}

/// Returns a field of the spec.
pub fn spec<'a>(csv: Raw<'a>, name: &str) -> Option<Raw<'a>> {
    csv.get("spec")?.get(name)
}

/// Returns the version range that upgrades directly.
pub fn skip_range(csv: Raw<'_>) -> Option<String> {
    Some(csv.get("metadata")?.get("annotations")?.get(SKIP_RANGE)?.as_str()?.into_owned())
}

/// Returns the related images with their names; non-string values count as empty.
pub fn related_images(csv: Raw<'_>) -> impl Iterator<Item = (String, String)> {
    let images = spec(csv, "relatedImages").into_iter().flat_map(Raw::items);
    images.map(|image| (image.get_str("image").into_owned(), image.get_str("name").into_owned()))
}

/// Returns the first icon: data and media type.
pub fn icon(csv: Raw<'_>) -> Option<(String, String)> {
    let icon = spec(csv, "icon")?.items().next()?;
    Some((icon.get_str("base64data").into_owned(), icon.get_str("mediatype").into_owned()))
}

/// Returns group, version, kind and plural name of each owned CRD.
pub fn owned_crds(csv: Raw<'_>) -> impl Iterator<Item = [String; 4]> {
    let owned = spec(csv, "customresourcedefinitions").and_then(|crds| crds.get("owned"));
    owned.into_iter().flat_map(Raw::items).map(|owned| {
        let name = owned.get_str("name").into_owned();
        let (plural, group) = name.split_once('.').unwrap_or((&name, ""));
        [group.to_owned(), owned.get_str("version").into_owned(), owned.get_str("kind").into_owned(), plural.to_owned()]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_strings_count_as_empty() {
        let csv = r#"{"kind":"ClusterServiceVersion","metadata":{"annotations":{"olm.skipRange":"<1.0.0"}},
            "spec":{"relatedImages":[{"image":"r/a:1","name":"a"},{"image":2}],"icon":[{"mediatype":"image/png"}],
            "customresourcedefinitions":{"owned":[{"name":"foos.g.example","version":"v1","kind":"Foo"},{}]}}}"#;
        let csv = Raw::parse(csv, 20).unwrap();
        assert!(is_csv(csv) && !is_csv(Raw::parse(r#"{"kind":"Pod"}"#, 20).unwrap()));
        assert_eq!(skip_range(csv).as_deref(), Some("<1.0.0"));
        let images: Vec<_> = related_images(csv).collect();
        assert_eq!(images, [("r/a:1".to_owned(), "a".to_owned()), (String::new(), String::new())]);
        assert_eq!(icon(csv), Some((String::new(), "image/png".to_owned())));
        let owned: Vec<_> = owned_crds(csv).collect();
        assert_eq!(owned, [["g.example", "v1", "Foo", "foos"], ["", "", "", ""]]);
    }
}
