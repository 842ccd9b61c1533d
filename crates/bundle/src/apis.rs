//! The APIs that a bundle provides and requires.

use std::collections::BTreeSet;

use fbc::json::{Cursor, JsonKind, JsonPath, Raw};
use fbc::path;
use fbc::shape::{Mismatch, Shape, ShapeFault};

use fbc::csv::{Csv, Description, OBJECT_META};

use crate::error::ApiError;

/// An API, and the name of its resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiKey {
    /// The group, possibly empty.
    pub group: String,
    pub version: String,
    pub kind: String,
    /// The plural name of its resource.
    pub plural: String,
}

type Fields = &'static [(&'static str, Shape)];

const STRINGS: Shape = Shape::List(&Shape::Str);
const SPEC: Fields = &[
    ("group", Shape::Str),
    ("version", Shape::Str),
    ("scope", Shape::Str),
    (
        "names",
        Shape::Object(&[
            ("plural", Shape::Str),
            ("singular", Shape::Str),
            ("shortNames", STRINGS),
            ("kind", Shape::Str),
            ("listKind", Shape::Str),
            ("categories", STRINGS),
        ]),
    ),
    ("preserveUnknownFields", Shape::Bool),
    ("conversion", Shape::Object(&[("strategy", Shape::Str), ("conversionReviewVersions", STRINGS)])),
    ("additionalPrinterColumns", COLUMNS),
];
const VERSION: Fields = &[
    ("name", Shape::Str),
    ("served", Shape::Bool),
    ("storage", Shape::Bool),
    ("deprecated", Shape::Bool),
    ("deprecationWarning", Shape::Str),
    ("additionalPrinterColumns", COLUMNS),
];
const COLUMNS: Shape = Shape::List(&Shape::Object(&[
    ("name", Shape::Str),
    ("type", Shape::Str),
    ("format", Shape::Str),
    ("description", Shape::Str),
    ("priority", Shape::Int),
    ("jsonPath", Shape::Str),
]));

/// Returns the APIs that a CRD of API version `crd_version` defines, one for each of its versions.
///
/// The schemas of the CRD are skipped: they are most of its text and not needed here.
pub(crate) fn of_crd(crd: Raw<'_>, crd_version: &str) -> Result<Vec<ApiKey>, Mismatch> {
    let mut checks = Checks { fault: None };
    let (mut group, mut names, mut single) = (None, None, None);
    let mut versions = Vec::new();
    Cursor::new(crd).members(|key, value| match key {
        "metadata" => checks.fits(value.value(), OBJECT_META, path!["metadata"]),
        "spec" => {
            checks.is(value.kind(), JsonKind::Object, || path!["spec"]);
            value.members(|key, value| {
                if key == "versions" {
                    checks.is(value.kind(), JsonKind::Array, || path!["spec", "versions"]);
                    value.items(|item| versions.push(checks.version(item, versions.len())));
                } else if let Some(field) = checks.field(SPEC, key, value, || path!["spec"]) {
                    match key {
                        "group" => group = field.as_str(),
                        "names" => names = Some(field),
                        "version" => single = field.as_str(),
                        _ => {}
                    }
                }
            });
        }
        _ => {}
    });
    if let Some(fault) = checks.fault {
        return Err(fault);
    }
    if crd_version == "v1beta1" {
        versions.extend(single.filter(|version| !version.is_empty()).map(|version| version.into_owned()));
    }
    let name = |field| names.and_then(|names| names.members().find(|(key, _)| key == field)?.1.as_str());
    let (group, kind, plural) = (group.unwrap_or_default(), name("kind"), name("plural"));
    let key = |version| ApiKey {
        group: group.clone().into_owned(),
        version,
        kind: kind.clone().unwrap_or_default().into_owned(),
        plural: plural.clone().unwrap_or_default().into_owned(),
    };
    Ok(versions.into_iter().map(key).collect())
}

/// Checks the fields of a CRD while it is parsed, and keeps the first error.
struct Checks {
    fault: Option<Mismatch>,
}

impl Checks {
    fn keep(&mut self, result: Result<(), Mismatch>) {
        if let (None, Err(fault)) = (&self.fault, result) {
            self.fault = Some(fault);
        }
    }

    fn fits(&mut self, value: Raw<'_>, shape: Shape, path: JsonPath) {
        self.keep(shape.check(value, &path));
    }

    fn is(&mut self, found: JsonKind, kind: JsonKind, path: impl Fn() -> JsonPath) {
        if found != kind && found != JsonKind::Null {
            let expected = if kind == JsonKind::Array { "list" } else { "object" };
            self.keep(Err(Mismatch { path: path(), fault: ShapeFault::Kind { found, expected } }));
        }
    }

    /// Consumes the value of `key` if it is one of `fields`.
    fn field<'a>(
        &mut self,
        fields: Fields,
        key: &str,
        value: &mut Cursor<'a>,
        path: impl Fn() -> JsonPath,
    ) -> Option<Raw<'a>> {
        let (name, shape) = fields.iter().find(|(name, _)| *name == key)?;
        let value = value.value();
        self.fits(value, *shape, path().then(*name));
        Some(value)
    }

    /// Skips one version of a CRD and returns its name.
    fn version(&mut self, item: &mut Cursor<'_>, index: usize) -> String {
        let mut name = None;
        self.is(item.kind(), JsonKind::Object, || path!["spec", "versions", index]);
        item.members(|key, value| {
            let field = self.field(VERSION, key, value, || path!["spec", "versions", index]);
            if key == "name" {
                name = field.and_then(Raw::as_str);
            }
        });
        name.unwrap_or_default().into_owned()
    }
}

/// Returns the APIs that a bundle provides: those of its CRDs and of the API services it owns.
///
/// They must include every CRD that the CSV owns.
pub(crate) fn provided(defined: &BTreeSet<ApiKey>, csv: &Csv<'_>) -> Result<BTreeSet<ApiKey>, ApiError> {
    let provided = defined_and_served(defined, csv)?;
    for description in csv.owned_crds()? {
        let key = of_description(&description)?;
        if !provided.contains(&key) {
            return Err(ApiError::NotFound { owned: Box::new(key), found: provided });
        }
    }
    Ok(provided)
}

/// Returns the APIs of a bundle's CRDs and of the API services it owns.
pub(crate) fn defined_and_served(defined: &BTreeSet<ApiKey>, csv: &Csv<'_>) -> Result<BTreeSet<ApiKey>, ApiError> {
    let mut provided = defined.clone();
    provided.extend(csv.owned_api_services()?.iter().map(of_api_service));
    Ok(provided)
}

/// Returns the APIs that a bundle requires.
pub(crate) fn required(csv: &Csv<'_>) -> Result<Vec<ApiKey>, ApiError> {
    let mut required = csv.required_crds()?.iter().map(of_description).collect::<Result<Vec<_>, _>>()?;
    required.extend(csv.required_api_services()?.iter().map(of_api_service));
    Ok(required)
}

fn of_api_service(description: &Description) -> ApiKey {
    let Description { name, group, version, kind } = description.clone();
    ApiKey { group, version, kind, plural: name }
}

/// Returns the API of a CRD from its description, whose name is `plural.group`.
fn of_description(description: &Description) -> Result<ApiKey, ApiError> {
    let Description { name, version, kind, .. } = description.clone();
    match name.split_once('.') {
        Some((plural, group)) => Ok(ApiKey { group: group.to_owned(), version, kind, plural: plural.to_owned() }),
        None => Err(ApiError::CrdName(name)),
    }
}

/// Formats APIs in the same way as the existing tool.
pub(crate) fn shown(keys: &BTreeSet<ApiKey>) -> String {
    let keys: Vec<String> = keys
        .iter()
        .map(|ApiKey { group, version, kind, plural }| format!("{{{group} {version} {kind} {plural}}}:{{}}"))
        .collect();
    format!("map[{}]", keys.join(" "))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use testkit::BundleDir;

    use crate::testing::{lines, rendered};

    fn crd(api: &str, spec: &str) -> BundleDir {
        let crd = format!("apiVersion: apiextensions.k8s.io/{api}\nkind: CustomResourceDefinition\nspec: {spec}\n");
        BundleDir::new().manifest("crd.yaml", crd)
    }

    #[test]
    fn every_version_of_a_crd_is_provided() {
        let bundle = crd(
            "v1",
            "{group: g, names: {kind: K, plural: ks}, version: v0, versions: [{name: v2}, {schema: {name: x}, name: v1}]}",
        );
        assert_snapshot!(lines(&bundle, &["olm.gvk"]), @r#"
        olm.gvk {"group":"g","kind":"K","version":"v1"}
        olm.gvk {"group":"g","kind":"K","version":"v2"}
        "#);
        let bundle = crd("v1beta1", "{group: g, names: {kind: K}, version: v0, versions: [{name: v1}]}");
        assert_snapshot!(lines(&bundle, &["olm.gvk"]), @r#"
        olm.gvk {"group":"g","kind":"K","version":"v0"}
        olm.gvk {"group":"g","kind":"K","version":"v1"}
        "#);
        assert_snapshot!(lines(&crd("v2", "{group: g, names: {kind: K}, versions: [{name: v1}]}"), &["olm.gvk"]), @"");
    }

    #[test]
    fn a_crd_with_wrong_types_is_rejected() {
        assert_snapshot!(rendered(&crd("v1", "{scope: [Namespaced]}")), @r#"error decoding v1 CRD: json: cannot unmarshal array into field "spec.scope" of type string (manifests/crd.yaml)"#);
        assert_snapshot!(rendered(&crd("v1beta1", "{versions: [{}, {schema: {}, served: 'yes'}]}")), @r#"error decoding v1beta1 CRD: json: cannot unmarshal string into field "spec.versions[1].served" of type bool (manifests/crd.yaml)"#);
        assert_snapshot!(rendered(&crd("v1", "{versions: {}}")), @r#"error decoding v1 CRD: json: cannot unmarshal object into field "spec.versions" of type list (manifests/crd.yaml)"#);
        assert_snapshot!(rendered(&crd("v1", "text")), @r#"error decoding v1 CRD: json: cannot unmarshal string into field "spec" of type object (manifests/crd.yaml)"#);
    }

    #[test]
    fn owned_crds_must_be_in_the_bundle() {
        let owned =
            |crd: &str| BundleDir::new().csv_spec(&format!("  customresourcedefinitions: {{owned: [{crd}]}}\n"));
        assert_snapshot!(lines(&owned("{name: foos.example.com, version: v1, kind: Foo}"), &["olm.gvk"]), @r#"olm.gvk {"group":"example.com","kind":"Foo","version":"v1"}"#);
        assert_snapshot!(rendered(&owned("{name: foos.example.com, version: v2, kind: Foo}")), @"error checking provided apis in bundle foo.v1.2.3: couldn't find example.com/v2/Foo (foos) in bundle. found: map[{example.com v1 Foo foos}:{}] (manifests/csv.yaml)");
        assert_snapshot!(rendered(&owned("{name: foos}")), @"error checking provided apis in bundle foo.v1.2.3: couldn't parse plural.group from crd name: foos (manifests/csv.yaml)");
        assert_snapshot!(rendered(&owned("foos.example.com")), @r#"error checking provided apis in bundle foo.v1.2.3: json: cannot unmarshal string into field "spec.customresourcedefinitions.owned[0]" of type object (manifests/csv.yaml)"#);
        assert_snapshot!(lines(&owned("null"), &["olm.gvk"]), @r#"olm.gvk {"group":"example.com","kind":"Foo","version":"v1"}"#);
    }

    #[test]
    fn required_apis_and_owned_services_become_properties() {
        let spec = "  customresourcedefinitions: {required: [{name: bars.b.example.com, version: v1, kind: Bar}]}
  apiservicedefinitions:
    owned: [{name: bazs, group: z.example.com, version: v1, kind: Baz}]
    required: [{name: quxs, group: q.example.com, version: v2, kind: Qux}]
";
        assert_snapshot!(lines(&BundleDir::new().csv_spec(spec), &["olm.gvk"]), @r#"
        olm.gvk {"group":"example.com","kind":"Foo","version":"v1"}
        olm.gvk {"group":"z.example.com","kind":"Baz","version":"v1"}
        olm.gvk.required {"group":"b.example.com","kind":"Bar","version":"v1"}
        olm.gvk.required {"group":"q.example.com","kind":"Qux","version":"v2"}
        "#);
        let spec = "  customresourcedefinitions: {required: [{name: bars}]}\n";
        assert_snapshot!(rendered(&BundleDir::new().csv_spec(spec)), @r#"get properties for bundle "foo.v1.2.3": couldn't parse plural.group from crd name: bars (manifests/csv.yaml)"#);
    }
}
