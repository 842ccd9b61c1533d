//! The fields of a CSV that bundles need, decoded lazily.

use std::borrow::Cow;

use crate::json::{Cursor, JsonKind, JsonPath, Raw};
use crate::path;
use crate::shape::{Mismatch, Shape, ShapeFault};

/// The release of a CSV has the wrong type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("release field must be a string or number")]
pub struct CsvReleaseError;

/// The metadata fields of every object.
pub const OBJECT_META: Shape = Shape::Object(&[
    ("name", Shape::Str),
    ("generateName", Shape::Str),
    ("namespace", Shape::Str),
    ("uid", Shape::Str),
    ("resourceVersion", Shape::Str),
    ("generation", Shape::Int),
    ("creationTimestamp", Shape::Str),
    ("labels", Shape::Map(&Shape::Str)),
    ("annotations", Shape::Map(&Shape::Str)),
    ("finalizers", Shape::List(&Shape::Str)),
]);

const DESCRIPTION: Shape =
    Shape::Object(&[("name", Shape::Str), ("group", Shape::Str), ("version", Shape::Str), ("kind", Shape::Str)]);
const DESCRIPTIONS: Shape =
    Shape::Object(&[("owned", Shape::List(&DESCRIPTION)), ("required", Shape::List(&DESCRIPTION))]);

const CRDS: &str = "customresourcedefinitions";
const API_SERVICES: &str = "apiservicedefinitions";

/// A lazily decoded CSV.
pub struct Csv<'a> {
    /// The name of the object, which is also the name of the bundle.
    pub name: String,
    annotations: Option<Raw<'a>>,
    spec: Spec<'a>,
}

/// The undecoded fields of a CSV's spec.
#[derive(Default)]
struct Spec<'a> {
    version: Option<Raw<'a>>,
    release: Option<Raw<'a>>,
    replaces: Option<Raw<'a>>,
    skips: Option<Raw<'a>>,
    crds: Option<Raw<'a>>,
    api_services: Option<Raw<'a>>,
    related_images: Option<Raw<'a>>,
    install: Option<Raw<'a>>,
}

/// The description of an API that a CSV owns or requires.
#[derive(Debug, Clone)]
pub struct Description {
    /// The name of the CRD; empty for API services.
    pub name: String,
    /// The group; only set for API services.
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl<'a> Csv<'a> {
    /// Reads a CSV from its canonical JSON.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn read(csv: Raw<'a>) -> Result<Csv<'a>, Mismatch> {
        let (mut metadata, mut spec_kind) = (None, JsonKind::Null);
        let mut spec = Spec::default();
        Cursor::new(csv).members(|key, value| match key {
            "metadata" => metadata = Some(value.value()),
            "spec" => {
                spec_kind = value.kind();
                value.members(|key, value| {
                    let field = match key {
                        "version" => &mut spec.version,
                        "release" => &mut spec.release,
                        "replaces" => &mut spec.replaces,
                        "skips" => &mut spec.skips,
                        CRDS => &mut spec.crds,
                        API_SERVICES => &mut spec.api_services,
                        "relatedImages" => &mut spec.related_images,
                        "install" => &mut spec.install,
                        _ => return,
                    };
                    *field = Some(value.value()).filter(|value| !value.is_null());
                });
            }
            _ => {}
        });
        if spec_kind != JsonKind::Object {
            let fault = ShapeFault::Kind { found: spec_kind, expected: "object" };
            return Err(Mismatch { path: path!["spec"], fault });
        }
        if let Some(metadata) = metadata {
            OBJECT_META.check(metadata, &path!["metadata"])?;
        }
        let metadata = |field| metadata.and_then(|metadata| member(metadata, field));
        Ok(Csv { name: text(metadata("name")), annotations: metadata("annotations"), spec })
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<Cow<'a, str>> {
        member(self.annotations?, key)?.as_str()
    }

    /// Returns the version, unparsed; empty if there is none.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn version(&self) -> Result<String, Mismatch> {
        Ok(text(checked(self.spec.version, Shape::Str, || path!["spec", "version"])?))
    }

    /// Returns the release; empty if there is none.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn release(&self) -> Result<String, CsvReleaseError> {
        match self.spec.release {
            None => Ok(String::new()),
            Some(release) => match release.kind() {
                JsonKind::String => Ok(text(Some(release))),
                JsonKind::Number => Ok(release.text().to_owned()),
                _ => Err(CsvReleaseError),
            },
        }
    }

    /// Returns the name of the bundle that this one replaces; empty if there is none.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn replaces(&self) -> Result<String, Mismatch> {
        Ok(text(checked(self.spec.replaces, Shape::Str, || path!["spec", "replaces"])?))
    }

    /// Returns the names of the bundles that this one skips.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn skips(&self) -> Result<Vec<String>, Mismatch> {
        let skips = checked(self.spec.skips, Shape::List(&Shape::Str), || path!["spec", "skips"])?;
        Ok(items(skips).map(|skip| text(Some(skip))).collect())
    }

    /// Returns the CRDs that it owns.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn owned_crds(&self) -> Result<Vec<Description>, Mismatch> {
        descriptions(self.spec.crds, CRDS, "owned")
    }

    /// Returns the CRDs that it requires.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn required_crds(&self) -> Result<Vec<Description>, Mismatch> {
        descriptions(self.spec.crds, CRDS, "required")
    }

    /// Returns the API services that it owns.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn owned_api_services(&self) -> Result<Vec<Description>, Mismatch> {
        descriptions(self.spec.api_services, API_SERVICES, "owned")
    }

    /// Returns the API services that it requires.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn required_api_services(&self) -> Result<Vec<Description>, Mismatch> {
        descriptions(self.spec.api_services, API_SERVICES, "required")
    }

    /// Returns the related images of the CSV, with their names.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn related_images(&self) -> Result<Vec<(String, String)>, Mismatch> {
        const IMAGES: Shape = Shape::List(&Shape::Object(&[("name", Shape::Str), ("image", Shape::Str)]));
        let images = checked(self.spec.related_images, IMAGES, || path!["spec", "relatedImages"])?;
        Ok(items(images).map(|image| (text(image.get("name")), text(image.get("image")))).collect())
    }

    /// Returns the images of all containers in the CSV's deployments.
    ///
    /// # Errors
    /// Fails if a field has the wrong type.
    pub fn deployed_images(&self) -> Result<Vec<String>, Mismatch> {
        const CONTAINERS: Shape = Shape::List(&Shape::Object(&[("image", Shape::Str)]));
        const POD: Shape = Shape::Object(&[("containers", CONTAINERS), ("initContainers", CONTAINERS)]);
        const DEPLOYMENT: Shape =
            Shape::Object(&[("spec", Shape::Object(&[("template", Shape::Object(&[("spec", POD)]))]))]);
        const STRATEGY: Shape = Shape::Object(&[("strategy", Shape::Str)]);
        const INSTALL: Shape = Shape::Object(&[("spec", Shape::Object(&[("deployments", Shape::List(&DEPLOYMENT))]))]);
        let path = || path!["spec", "install"];
        let Some(install) = checked(self.spec.install, STRATEGY, path)? else { return Ok(Vec::new()) };
        if text(install.get("strategy")) != "deployment" {
            return Ok(Vec::new());
        }
        INSTALL.check(install, &path())?;
        let mut images = Vec::new();
        for deployment in items(install.get("spec").and_then(|spec| spec.get("deployments"))) {
            let pod = ["spec", "template", "spec"].iter().try_fold(deployment, |value, field| value.get(field));
            for containers in ["containers", "initContainers"] {
                let containers = items(pod.and_then(|pod| pod.get(containers)));
                images.extend(containers.map(|container| text(container.get("image"))));
            }
        }
        Ok(images)
    }
}

fn descriptions(value: Option<Raw<'_>>, field: &'static str, list: &str) -> Result<Vec<Description>, Mismatch> {
    let value = checked(value, DESCRIPTIONS, || path!["spec", field])?;
    let described = items(value.and_then(|value| value.get(list))).filter(|item| !item.is_null());
    let field = |item: Raw<'_>, name| text(item.get(name));
    Ok(described
        .map(|item| Description {
            name: field(item, "name"),
            group: field(item, "group"),
            version: field(item, "version"),
            kind: field(item, "kind"),
        })
        .collect())
}

fn checked<'a>(value: Option<Raw<'a>>, shape: Shape, path: impl Fn() -> JsonPath) -> Result<Option<Raw<'a>>, Mismatch> {
    if let Some(value) = value {
        shape.check(value, &path())?;
    }
    Ok(value)
}

/// Returns the member with exactly this name.
fn member<'a>(value: Raw<'a>, name: &str) -> Option<Raw<'a>> {
    value.members().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn text(value: Option<Raw<'_>>) -> String {
    value.and_then(Raw::as_str).unwrap_or_default().into_owned()
}

fn items(value: Option<Raw<'_>>) -> impl Iterator<Item = Raw<'_>> {
    value.into_iter().flat_map(Raw::items)
}
