//! Shared test helpers; only this module knows how to render bundles.

use fbc::json::Raw;
use fbc::{Limits, base64, property};
use testkit::BundleDir;

use crate::{ImageTemplate, RenderOptions, render};

pub(crate) const OPTIONS: RenderOptions<'static> = RenderOptions {
    image: "",
    image_template: None,
    migrate: false,
    limits: Limits { file_size: 1 << 20, blob_size: 1 << 20, depth: 50, documents: 100, yaml_nodes: 10_000, files: 20 },
};

/// Renders a bundle and formats its properties, one per line with objects decoded, its images and the warnings; or the
/// error.
pub(crate) fn rendered(bundle: &BundleDir) -> String {
    rendered_with(bundle, &OPTIONS)
}

/// Renders a bundle with an image reference from `template`.
pub(crate) fn templated(bundle: &BundleDir, template: &str, migrate: bool) -> String {
    match ImageTemplate::parse(template) {
        Ok(template) => rendered_with(bundle, &RenderOptions { image_template: Some(&template), migrate, ..OPTIONS }),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn rendered_with(bundle: &BundleDir, options: &RenderOptions<'_>) -> String {
    let rendered = match render(bundle.path(), options) {
        Ok(rendered) => rendered,
        Err(error) => return error.to_string().replace(&bundle.path().display().to_string(), "BUNDLE"),
    };
    let blob = Raw::parse(&rendered.json, 100).expect("valid JSON");
    let field = |value: Raw<'_>, name: &str| value.get_str(name).into_owned();
    assert_eq!((field(blob, "schema"), field(blob, "name")), ("olm.bundle".to_owned(), rendered.name.clone()));
    assert_eq!(field(blob, "package"), rendered.package);
    let mut lines = vec![format!("{} {} {}", rendered.package, rendered.name, field(blob, "image"))];
    for (kind, value) in property::of(blob) {
        let value = value.expect("a value");
        lines.push(match &*kind {
            property::BUNDLE_OBJECT if value.get("data").is_some() => {
                let object = base64::decode(&field(value, "data")).expect("base64");
                format!("object {}", String::from_utf8(object).expect("text"))
            }
            kind => format!("{kind} {}", value.text()),
        });
    }
    for image in blob.get_items("relatedImages") {
        lines.push(format!("image {} {}", field(image, "image"), field(image, "name")));
    }
    lines.extend(rendered.warnings.into_iter().map(|warning| format!("warning: {warning}")));
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// Renders a bundle and formats only the lines that start with one of `words`.
pub(crate) fn lines(bundle: &BundleDir, words: &[&str]) -> String {
    let rendered = rendered(bundle);
    let wanted = |line: &&str| words.iter().any(|word| line.starts_with(word));
    rendered.lines().filter(wanted).collect::<Vec<_>>().join("\n")
}
