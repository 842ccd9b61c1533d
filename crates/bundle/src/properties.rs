//! The properties of a bundle: declared, derived and required.

use std::collections::BTreeSet;

use fbc::json::{JsonKind, JsonPath, Raw, Text};
use fbc::property;

use crate::apis::ApiKey;
use crate::error::{AnnotationError, PropertyError};

/// A property whose value is JSON text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BundleProperty {
    /// The type.
    pub kind: String,
    /// The value in its source form, if there is one.
    pub value: Option<Text>,
}

impl BundleProperty {
    pub(crate) fn new(kind: impl Into<String>, value: Option<Raw<'_>>) -> BundleProperty {
        BundleProperty { kind: kind.into(), value: value.map(Text::from) }
    }

    /// Builds a property whose value has these fields in this order.
    fn with_fields(kind: &str, fields: &[(&str, &str)]) -> BundleProperty {
        let value = Text::object(|value| {
            for (name, text) in fields {
                value.string(name, text);
            }
        });
        BundleProperty { kind: kind.to_owned(), value: Some(value) }
    }
}

/// Properties, or dependencies of the same form, from one file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListedProperties {
    pub(crate) file: String,
    pub(crate) properties: Vec<BundleProperty>,
}

/// A property whose value is invalid for its type.
#[derive(Debug)]
pub(crate) struct InvalidProperty {
    pub(crate) file: String,
    pub(crate) source: PropertyError,
}

/// The content of the `olm.package` property of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OlmPackage {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) release: String,
}

impl OlmPackage {
    fn read(value: Raw<'_>) -> OlmPackage {
        let [name, version, release] = fields(value, ["packageName", "version", "release"]);
        OlmPackage { name, version, release }
    }

    pub(crate) fn property(&self) -> BundleProperty {
        let fields = [("packageName", &*self.name), ("version", &*self.version), ("release", &*self.release)];
        let length = if self.release.is_empty() { 2 } else { 3 };
        BundleProperty::with_fields(property::PACKAGE, &fields[..length])
    }
}

/// The sources of the properties of a bundle.
pub(crate) struct Sources<'a> {
    /// The properties in `metadata/`.
    pub(crate) declared: ListedProperties,
    /// The package from the annotations and the CSV.
    pub(crate) package: OlmPackage,
    /// The properties in an annotation of the CSV.
    pub(crate) annotated: ListedProperties,
    /// The APIs that the bundle provides.
    pub(crate) provided: &'a BTreeSet<ApiKey>,
    /// The APIs that the bundle requires.
    pub(crate) required: &'a [ApiKey],
    /// The dependencies in `metadata/`.
    pub(crate) dependencies: &'a ListedProperties,
}

/// Returns the properties of a bundle, sorted by type and value, and its package.
///
/// The last of several packages wins; duplicate APIs are merged.
pub(crate) fn collect(sources: Sources<'_>) -> Result<(Vec<BundleProperty>, OlmPackage), InvalidProperty> {
    let mut package = sources.package;
    let Sources { declared, annotated, dependencies, .. } = sources;
    let derived = ListedProperties { file: annotated.file.clone(), properties: vec![package.property()] };
    let mut seen = BTreeSet::new();
    let mut properties = Vec::new();
    let mut provided: BTreeSet<Gvk> = sources.provided.iter().map(Gvk::of).collect();
    let mut required: BTreeSet<Gvk> = sources.required.iter().map(Gvk::of).collect();
    for ListedProperties { file, properties: listed } in [declared, derived, annotated] {
        for listed in listed {
            if seen.contains(&listed) {
                continue;
            }
            let value = || typed(&file, seen.len(), &listed);
            match &*listed.kind {
                property::GVK => drop(provided.insert(Gvk::read(value()?))),
                property::PACKAGE => package = OlmPackage::read(value()?),
                _ => properties.push(listed.clone()),
            }
            seen.insert(listed);
        }
    }
    for (index, dependency) in dependencies.properties.iter().enumerate() {
        let value = || typed(&dependencies.file, index, dependency);
        match &*dependency.kind {
            property::GVK => drop(required.insert(Gvk::read(value()?))),
            property::PACKAGE => {
                let [name, range] = fields(value()?, ["packageName", "version"]);
                let fields = [("packageName", &*name), ("versionRange", &*range)];
                properties.push(BundleProperty::with_fields(property::PACKAGE_REQUIRED, &fields));
            }
            _ => properties.push(dependency.clone()),
        }
    }
    properties.push(package.property());
    properties.extend(provided.iter().map(|gvk| gvk.property(property::GVK)));
    properties.extend(required.iter().map(|gvk| gvk.property(property::GVK_REQUIRED)));
    properties.sort();
    Ok((properties, package))
}

/// Returns the properties in the `olm.properties` annotation of a CSV.
pub(crate) fn annotated(annotation: &str, max_depth: usize) -> Result<Vec<BundleProperty>, AnnotationError> {
    let list = Raw::parse(annotation, max_depth)?;
    let kind = |expected, found| AnnotationError::Kind { expected, found };
    let property = |item: Raw<'_>| {
        let named = item.get("type").filter(|named| !named.is_null());
        match (item.kind(), named.map(|named| (named.kind(), named.as_str()))) {
            (JsonKind::Object | JsonKind::Null, None) => Ok(BundleProperty::new("", item.get("value"))),
            (JsonKind::Object, Some((_, Some(named)))) => Ok(BundleProperty::new(named, item.get("value"))),
            (JsonKind::Object, Some((found, None))) => Err(kind("a string as type", found)),
            (found, _) => Err(kind("an object", found)),
        }
    };
    match list.kind() {
        JsonKind::Array => list.items().map(property).collect(),
        JsonKind::Null => Ok(Vec::new()),
        found => Err(kind("a list", found)),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Gvk {
    group: String,
    kind: String,
    version: String,
}

impl Gvk {
    fn of(key: &ApiKey) -> Gvk {
        Gvk { group: key.group.clone(), kind: key.kind.clone(), version: key.version.clone() }
    }

    fn read(value: Raw<'_>) -> Gvk {
        let [group, kind, version] = fields(value, ["group", "kind", "version"]);
        Gvk { group, kind, version }
    }

    fn property(&self, kind: &str) -> BundleProperty {
        BundleProperty::with_fields(kind, &[("group", &self.group), ("kind", &self.kind), ("version", &self.version)])
    }
}

/// Returns why the value of a property is invalid for its type, if it is.
pub(crate) fn validate(file: &str, index: usize, property: &BundleProperty) -> Option<InvalidProperty> {
    typed(file, index, property).err()
}

/// Builds the property for a provided API.
pub(crate) fn of_api(key: &ApiKey) -> BundleProperty {
    Gvk::of(key).property(property::GVK)
}

/// Returns the value of a property after validating it against its type.
fn typed<'a>(file: &str, index: usize, property: &'a BundleProperty) -> Result<Raw<'a>, InvalidProperty> {
    let invalid = |source| InvalidProperty { file: file.to_owned(), source };
    let kind = || property.kind.clone();
    let value = property.value.as_ref().ok_or_else(|| invalid(PropertyError::NoValue { index, kind: kind() }))?.raw();
    let fits = property::shape(&property.kind).check(value, &JsonPath::default());
    fits.map_err(|source| invalid(PropertyError::Value { index, kind: kind(), source }))?;
    Ok(value)
}

/// Returns string fields of an object; absent fields are empty.
fn fields<const N: usize>(value: Raw<'_>, names: [&str; N]) -> [String; N] {
    names.map(|name| value.get_str(name).into_owned())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use testkit::BundleDir;

    use crate::testing::{lines, rendered};

    fn annotation(properties: &str) -> BundleDir {
        let csv = format!(
            "kind: ClusterServiceVersion\nmetadata: {{name: foo, annotations: {{olm.properties: '{properties}'}}}}\nspec: {{}}"
        );
        BundleDir::new().manifest("csv.yaml", csv)
    }

    #[test]
    fn properties_of_all_sources_are_sorted_by_type_and_value() {
        let bundle = BundleDir::new()
            .metadata(
                "properties.yaml",
                "properties:
- {type: z, value: {b: <1>, a: 1.50}}
- {type: z, value: {a: 1.5, b: <1>}}
- {type: olm.gvk, value: {group: g, version: v, kind: K, extra: dropped}}
- {type: olm.gvk, value: {group: example.com, version: v1, kind: Foo}}
- {type: olm.package, value: {packageName: loses, version: 9.9.9}}
- {type: none}
",
            )
            .metadata(
                "dependencies.json",
                r#"{"dependencies":[
                    {"type":"olm.package","value":{"packageName":"bar","version":">=1.0.0 <2.0.0"}},
                    {"type":"olm.gvk","value":{"group":"b.example.com","kind":"Bar","version":"v1"}},
                    {"type":"olm.constraint","value":{"z": 1,  "a":"<"}},
                    {"type":"z","value":{ "x":1}}]}"#,
            );
        assert_snapshot!(lines(&bundle, &["olm", "z", "none"]), @r#"
        none null
        olm.constraint {"z":1,"a":"<"}
        olm.gvk {"group":"example.com","kind":"Foo","version":"v1"}
        olm.gvk {"group":"g","kind":"K","version":"v"}
        olm.gvk.required {"group":"b.example.com","kind":"Bar","version":"v1"}
        olm.package {"packageName":"foo","version":"1.2.3"}
        olm.package.required {"packageName":"bar","versionRange":">=1.0.0 <2.0.0"}
        z {"x":1}
        z {"a":1.5,"b":"\u003c1\u003e"}
        "#);
    }

    #[test]
    fn properties_of_the_annotation_keep_their_text_and_take_precedence() {
        let bundle = annotation(
            r#"[{"type":"custom","value":{"z":1.0,"a":"<\u003c"}},{"type":"olm.package","value":{"packageName":"bar","version":"9"}},null]"#,
        );
        assert_snapshot!(lines(&bundle, &["custom", "olm", " "]), @r#"
         null
        custom {"z":1.0,"a":"<\u003c"}
        olm.gvk {"group":"example.com","kind":"Foo","version":"v1"}
        olm.package {"packageName":"bar","version":"9"}
        "#);
    }

    #[test]
    fn an_annotation_without_a_list_of_properties_is_ignored() {
        for (text, reason) in [
            ("not json", "invalid character"),
            ("{}", "expected a list"),
            ("[1]", "expected an object"),
            (r#"[{"type":1}]"#, "expected a string"),
        ] {
            let shown = lines(&annotation(text), &["warning"]);
            assert!(shown.contains("csv.yaml: annotation olm.properties is ignored: "), "{shown}");
            assert!(shown.contains(reason), "{shown}");
        }
    }

    #[test]
    fn values_of_known_types_are_validated() {
        let given = |list: &str| BundleDir::new().metadata("x.yaml", list);
        assert_snapshot!(rendered(&given("properties: [{type: a, value: 1}, {type: olm.gvk, value: bar}]")), @r#"get properties for bundle "foo.v1.2.3": parse property[1] of type "olm.gvk": json: cannot unmarshal string into value of type object (metadata/x.yaml)"#);
        assert_snapshot!(rendered(&given("properties: [{type: olm.package}]")), @r#"get properties for bundle "foo.v1.2.3": parse property[0] of type "olm.package": value is missing (metadata/x.yaml)"#);
        assert_snapshot!(rendered(&given("dependencies: [{type: olm.package, value: {version: 1.0}}]")), @r#"get properties for bundle "foo.v1.2.3": parse property[0] of type "olm.package": json: cannot unmarshal number into field "version" of type string (metadata/x.yaml)"#);
    }
}
