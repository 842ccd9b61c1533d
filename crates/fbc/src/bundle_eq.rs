//! Compares bundles of two catalogs.

use std::collections::BTreeSet;
use std::io;

use crate::blob::{Blob, BlobContent, Fbc, TextBuffer};
use crate::json::Raw;
use crate::property;

/// A property in canonical form, for comparison.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalProperty {
    /// The type.
    pub kind: String,
    /// The value, as JSON on one line with sorted keys.
    pub value: String,
}

/// A related image of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalImage {
    /// The name in the bundle, possibly empty.
    pub name: String,
    /// The pull spec.
    pub image: String,
}

impl Fbc {
    /// Returns whether a bundle equals one of another catalog: the same image, properties and related images, and the
    /// same objects in the same order.
    ///
    /// The order and form of properties and images are irrelevant. A blob that is not a bundle equals nothing.
    ///
    /// # Errors
    /// Fails as [`Fbc::text`] does.
    pub fn same_bundle(&self, blob: &Blob, other: &Fbc, counterpart: &Blob) -> io::Result<bool> {
        let (BlobContent::Bundle(a), BlobContent::Bundle(b)) = (&blob.content, &counterpart.content) else {
            return Ok(false);
        };
        if a.image != b.image {
            return Ok(false);
        }
        let (mut a_buffer, mut b_buffer) = (TextBuffer::default(), TextBuffer::default());
        let (a_raw, b_raw) = (self.text(blob, &mut a_buffer)?, other.text(counterpart, &mut b_buffer)?);
        let (a, b) = (self.bundle_properties(blob, a_raw)?, other.bundle_properties(counterpart, b_raw)?);
        // Most bundles never change, so most texts are equal; but equal references may refer to different files.
        let leads_away = |property: &crate::write::PrintedProperty<'_>| property.is_reference();
        if a.len() == b.len() && a_raw.text() == b_raw.text() && !a.iter().chain(&b).any(leads_away) {
            return Ok(true);
        }
        if related_images(a_raw) != related_images(b_raw) {
            return Ok(false);
        }
        let texts = |properties: Vec<crate::write::PrintedProperty<'_>>| {
            let texts = properties.into_iter().map(|property| (property.kind.to_string(), property.text(false)));
            texts.collect::<Vec<_>>()
        };
        let (a, b) = (texts(a), texts(b));
        let objects = |texts: &[(String, Vec<u8>)]| {
            texts.iter().filter(|(kind, _)| kind == property::BUNDLE_OBJECT).cloned().collect::<Vec<_>>()
        };
        Ok(objects(&a) == objects(&b) && BTreeSet::from_iter(&a) == BTreeSet::from_iter(&b))
    }

    /// Returns the properties of a bundle except objects and metadata, sorted and without duplicates.
    ///
    /// `text` is the result of [`Fbc::text`] for `blob`.
    ///
    /// # Errors
    /// Fails if an object cannot be read.
    pub fn plain_properties(&self, blob: &Blob, text: Raw<'_>) -> io::Result<BTreeSet<CanonicalProperty>> {
        let properties = self.bundle_properties(blob, text)?.into_iter();
        let plain = properties
            .filter(|property| !matches!(&*property.kind, property::BUNDLE_OBJECT | property::CSV_METADATA))
            .map(|property| CanonicalProperty {
                value: String::from_utf8_lossy(&property.text(false)).into_owned(),
                kind: property.kind.into_owned(),
            });
        Ok(plain.collect())
    }
}

/// Returns the related images of a bundle, sorted and without duplicates.
pub fn related_images(bundle: Raw<'_>) -> BTreeSet<CanonicalImage> {
    let images = bundle.get_items("relatedImages");
    images
        .map(|image| CanonicalImage { name: image.get_str("name").into(), image: image.get_str("image").into() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn same(a: &str, b: &str) -> bool {
        let (a_fbc, b_fbc) = (Fbc::default(), Fbc::default());
        let blob = |fbc: &Fbc, text: &str| {
            fbc.stored_blob(&format!(r#"{{"schema":"olm.bundle","name":"b",{text}}}"#), &Limits::default()).unwrap()
        };
        let (a, b) = (blob(&a_fbc, a), blob(&b_fbc, b));
        a_fbc.same_bundle(&a, &b_fbc, &b).unwrap()
    }

    #[test]
    fn formatting_does_not_affect_equality() {
        assert!(same(r#""image":"i""#, r#""image": "i""#));
        assert!(same(
            r#""properties":[{"type":"a","value":{"x":1,"y":2}},{"type":"b","value":1}]"#,
            r#""properties":[{"value":1,"type":"b"},{"type":"a","value":{"y":2,"x":1}},{"type":"b","value":1}]"#
        ));
        assert!(same(
            r#""relatedImages":[{"name":"n","image":"i"},{"image":"j"}]"#,
            r#""relatedImages":[{"name":"","image":"j"},{"name":"n","image":"i"}]"#
        ));
    }

    #[test]
    fn image_properties_related_images_and_objects_affect_equality() {
        assert!(!same(r#""image":"i""#, r#""image":"j""#));
        assert!(!same(r#""properties":[{"type":"a","value":1}]"#, r#""properties":[{"type":"a","value":2}]"#));
        assert!(!same(r#""properties":[{"type":"a","value":1}]"#, r#""properties":[]"#));
        assert!(!same(r#""relatedImages":[{"name":"n","image":"i"}]"#, r#""relatedImages":[{"image":"i"}]"#));
        let object = |data: &str| format!(r#"{{"type":"olm.bundle.object","value":{{"data":"{data}"}}}}"#);
        let (one, two) = (object("e30="), object("eyB9"));
        assert!(!same(&format!(r#""properties":[{one},{two}]"#), &format!(r#""properties":[{two},{one}]"#)));
        assert!(same(&format!(r#""properties":[{one},{two}]"#), &format!(r#""properties": [{one},{two}]"#)));
    }
}
