//! The related images of a bundle.

use std::collections::BTreeSet;

use fbc::go_sort;
use fbc::shape::Mismatch;

use fbc::csv::Csv;

/// An image, and its name in the CSV.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CsvImage {
    pub(crate) name: String,
    pub(crate) image: String,
}

/// Returns the images that the CSV lists, plus the bundle's own image and deployed images that it does not list, sorted
/// by image.
pub(crate) fn related(csv: &Csv<'_>, bundle_image: &str) -> Result<Vec<CsvImage>, Mismatch> {
    let mut related: Vec<CsvImage> =
        csv.related_images()?.into_iter().map(|(name, image)| CsvImage { name, image }).collect();
    let mut seen: BTreeSet<String> = related.iter().map(|related| related.image.clone()).collect();
    let own = Some(bundle_image.to_owned()).filter(|image| !image.is_empty());
    for image in own.into_iter().chain(csv.deployed_images()?) {
        if seen.insert(image.clone()) {
            related.push(CsvImage { name: String::new(), image });
        }
    }
    go_sort::sort_by(&mut related, |a, b| a.image < b.image);
    Ok(related)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use testkit::BundleDir;

    use crate::RenderOptions;
    use crate::testing::{OPTIONS, lines, rendered, rendered_with};

    const INSTALL: &str = "  install:
    strategy: deployment
    spec:
      deployments:
      - spec: {template: {spec: {containers: [{image: op:1}, {image: zz:1}, {image: zz:1}], initContainers: [{image: aa:1}]}}}
      - {}
";

    #[test]
    fn deployed_images_are_added_to_related_images() {
        let listed = "  relatedImages: [{name: b, image: b:1}, {image: a:1}, {name: dup, image: a:1}, {name: op, image: op:1}, {name: empty}]\n";
        let bundle = BundleDir::new().csv_spec(&format!("{listed}{INSTALL}"));
        assert_snapshot!(lines(&bundle, &["image"]), @r#"
        image  empty
        image a:1
        image a:1 dup
        image aa:1
        image b:1 b
        image op:1 op
        image zz:1
        "#);
    }

    #[test]
    fn the_bundle_image_is_a_related_image() {
        let bundle = BundleDir::new().csv_spec("  relatedImages: [{name: self, image: r/foo:1}]\n");
        let options = |image| RenderOptions { image, ..OPTIONS };
        let images = |image| {
            rendered_with(&bundle, &options(image))
                .lines()
                .filter(|l| l.contains("r/foo"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_snapshot!(images("r/foo:2"), @r#"
        foo foo.v1.2.3 r/foo:2
        object {"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"foo.v1.2.3"},"spec":{"relatedImages":[{"image":"r/foo:1","name":"self"}],"version":"1.2.3"}}
        image r/foo:1 self
        image r/foo:2
        "#);
        assert_snapshot!(images("r/foo:1"), @r#"
        foo foo.v1.2.3 r/foo:1
        object {"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"foo.v1.2.3"},"spec":{"relatedImages":[{"image":"r/foo:1","name":"self"}],"version":"1.2.3"}}
        image r/foo:1 self
        "#);
    }

    #[test]
    fn other_install_strategies_have_no_deployments() {
        let bundle = BundleDir::new().csv_spec(&INSTALL.replace("deployment\n", "other\n"));
        assert_eq!(lines(&bundle, &["image"]), "");
    }

    #[test]
    fn images_of_the_wrong_type_are_rejected() {
        assert_snapshot!(rendered(&BundleDir::new().csv_spec("  relatedImages: r/foo\n")), @r#"get related images for bundle "foo.v1.2.3": json: cannot unmarshal string into field "spec.relatedImages" of type list (manifests/csv.yaml)"#);
        let install = INSTALL.replace("[{image: aa:1}]", "[{image: 1}]");
        assert_snapshot!(rendered(&BundleDir::new().csv_spec(&install)), @r#"get related images for bundle "foo.v1.2.3": json: cannot unmarshal number into field "spec.install.spec.deployments[0].spec.template.spec.initContainers[0].image" of type string (manifests/csv.yaml)"#);
    }
}
