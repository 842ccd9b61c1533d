//! Pipeline checks of the catalogs that contain a bundle.

use std::path::{Component, Path};

use fbc::blob::BUNDLE;
use fbc::locate::Locator;
use fbc::{BlobContent, Fbc, path};

use crate::file;
use crate::finding::{Finding, Severity};
use crate::whole::Position;

/// The suites whose pipelines check catalogs and repositories of operators.
pub(super) const PIPELINES: &[&str] = &["community", "certified"];
/// The first OpenShift version whose catalogs must not contain bundle objects.
const NO_OBJECTS_SINCE: (u32, u32) = (4, 17);

/// Checks that the bundles of a catalog contain no objects, and that their images come from `registries` unless that is
/// empty. `reference` is the catalog's name: its path can tell the OpenShift version that it is for.
pub fn check_catalog(reference: &str, fbc: &Fbc, registries: &[String]) -> Vec<Finding> {
    findings_in(fbc, openshift(Path::new(reference)), registries)
}

/// Returns the OpenShift version of a catalog, from a path component like `v4.17` as operator repositories use it.
fn openshift(path: &Path) -> Option<(u32, u32)> {
    let whole = file::canonical(path).unwrap_or_else(|_| path.to_owned());
    let version = |component: Component<'_>| {
        let (major, minor) = component.as_os_str().to_str()?.strip_prefix('v')?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    whole.components().rev().find_map(version)
}

fn findings_in(fbc: &Fbc, openshift: Option<(u32, u32)>, registries: &[String]) -> Vec<Finding> {
    let mut locator = Locator::new(fbc);
    let mut found = Vec::new();
    for blob in fbc.blobs().iter().filter(|blob| *blob.schema == *BUNDLE) {
        let BlobContent::Bundle(bundle) = &blob.content else { continue };
        let mut error = |id: &'static str, field: &'static str, message: String| {
            let mut finding = Finding::new(id, Severity::Error, message).of(&blob.name).in_suites(PIPELINES);
            if let Some(place) = blob.place(path![field]) {
                finding.file = fbc.full_path_of(place.file).map(|path| path.display().to_string()).unwrap_or_default();
                let at = locator.locate(&place);
                finding.position = at.map(|at| Position { line: at.line, column: at.column });
            }
            found.push(finding);
        };
        if bundle.objects > 0 && openshift.is_none_or(|version| version >= NO_OBJECTS_SINCE) {
            let text = "the bundle carries its objects (olm.bundle.object), and catalogs from OpenShift 4.17 on have \
                        olm.csv.metadata in their place";
            error("bundle-object-in-catalog", "properties", text.into());
        }
        let allowed = registries.iter().any(|registry| bundle.image.starts_with(registry.as_str()));
        if !registries.is_empty() && !bundle.image.is_empty() && !allowed {
            let text = format!("{} comes from none of {}", bundle.image, registries.join(", "));
            error("bundle-registry", "image", text);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_directory_names_the_version() {
        assert_eq!(openshift(Path::new("/r/catalogs/v4.17/foo")), Some((4, 17)));
        assert_eq!(openshift(Path::new("/v1.2/catalogs/v4.9")), Some((4, 9)));
        assert_eq!(openshift(Path::new("/r/catalogs/foo")), None);
    }
}
