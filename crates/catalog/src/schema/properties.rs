//! The properties of bundles.

use crate::needs;
use fbc::property;
use fbc::shape::Shape;

use crate::schema::document::{Constraint, DocumentCategory, FieldDescription, SchemaDocument, field};
use crate::schema::patterns;

const NON_EMPTY: &[Constraint] = &[Constraint::Required, Constraint::NonEmpty];

pub(crate) fn documents() -> Vec<SchemaDocument> {
    let of = |name, shape, about, example, fields: &'static [FieldDescription], closed| SchemaDocument {
        kind: DocumentCategory::Property,
        name,
        about,
        example,
        envelope: &[],
        shape,
        fields,
        extra: "{}",
        closed,
    };
    let known =
        |name: &'static str, about, example, fields| of(name, property::shape(name), about, example, fields, false);
    vec![
        SchemaDocument {
            extra: PACKAGE_EXTRA,
            ..known(
                property::PACKAGE,
                "The package and version of a bundle. Every bundle has exactly one",
                r#"{"packageName": "etcd", "version": "1.0.0"}"#,
                PACKAGE,
            )
        },
        known(
            property::PACKAGE_REQUIRED,
            "A package that must be installed, in a version within a range",
            r#"{"packageName": "etcd", "versionRange": ">=1.0.0 <2.0.0"}"#,
            PACKAGE_REQUIRED,
        ),
        known(
            property::GVK,
            "An API that the bundle provides",
            r#"{"group": "etcd.example.com", "kind": "EtcdCluster", "version": "v1"}"#,
            API,
        ),
        known(
            property::GVK_REQUIRED,
            "An API that another bundle must provide",
            r#"{"group": "etcd.example.com", "kind": "EtcdCluster", "version": "v1"}"#,
            API,
        ),
        SchemaDocument {
            extra: OBJECT_EXTRA,
            ..known(
                property::BUNDLE_OBJECT,
                "A manifest of the bundle, embedded in the catalog or in a separate file. Superseded by olm.csv.metadata",
                r#"{"data": "e30="}"#,
                OBJECT,
            )
        },
        known(
            property::CSV_METADATA,
            "Metadata for consoles, extracted from the ClusterServiceVersion of the bundle",
            r#"{"displayName": "etcd", "description": "A key-value store", "provider": {"name": "Example"}}"#,
            CSV_METADATA,
        ),
        of(
            property::CHANNEL,
            CHANNEL_VALUE,
            "A channel of a bundle in the legacy format (name, replaces) or in databases (channelName, priority). Now \
              superseded by olm.channel blobs",
            r#"{"name": "stable", "replaces": "etcd.v1.0.0"}"#,
            CHANNEL,
            false,
        ),
        of(
            property::SKIPS,
            property::FIRST_FORM_TEXT,
            "A bundle that this one skips in all its channels; part of the legacy format",
            "\"etcd.v1.0.1\"",
            &[],
            false,
        ),
        of(
            property::SKIP_RANGE,
            property::FIRST_FORM_TEXT,
            "The versions that upgrade to this bundle directly in all its channels; part of the legacy format",
            "\">=1.0.0 <1.1.0\"",
            &[],
            false,
        ),
        of(
            needs::CONSTRAINT,
            needs::CONSTRAINT_VALUE,
            "A constraint that a single other bundle must satisfy: an API, a package, a CEL rule, or a combination. Only the \
              first of gvk, package, all, any, not and cel applies. Clusters reject unknown fields",
            r#"{"failureMessage": "needs a certificate manager", "any": {"constraints": [{"package": {"packageName": "cert-manager", "versionRange": ">=1.0.0"}}, {"gvk": {"group": "cert-manager.io", "kind": "Issuer", "version": "v1"}}]}}"#,
            CONSTRAINT,
            true,
        ),
        of(
            needs::LABEL,
            needs::LABEL_VALUE,
            "A label that other bundles can require",
            r#"{"label": "fast"}"#,
            LABEL,
            false,
        ),
        of(
            needs::LABEL_REQUIRED,
            needs::LABEL_VALUE,
            "A label that another bundle must have",
            r#"{"label": "fast"}"#,
            LABEL,
            false,
        ),
        of(
            needs::DEPRECATED,
            Shape::Any,
            "Marks a bundle that OLM v0 never selects. Databases add it when they truncate a channel; olm.deprecations blobs \
              carry deprecation messages for users",
            "{}",
            &[],
            false,
        ),
    ]
}

/// The fields of both forms of a channel property; only one form has a `name`.
const CHANNEL_VALUE: Shape = Shape::Object(&[
    ("name", Shape::Str),
    ("replaces", Shape::Str),
    ("channelName", Shape::Str),
    ("priority", Shape::Int),
]);

const PACKAGE: &[FieldDescription] = &[
    field("packageName", "The name of the package that the bundle belongs to", "\"etcd\"", NON_EMPTY),
    field(
        "version",
        "The version, a semantic version of three numbers",
        "\"1.0.0\"",
        &[Constraint::Required, Constraint::Pattern(patterns::VERSION)],
    ),
    field(
        "release",
        "Distinguishes rebuilds of one version. The bundle is then named PACKAGE-vVERSION-RELEASE",
        "\"1\"",
        &[Constraint::Pattern(patterns::RELEASE)],
    ),
];
/// A release replaces build metadata.
const PACKAGE_EXTRA: &str = r#"{
    "if": {"required": ["release"], "properties": {"release": {"type": "string", "minLength": 1}}},
    "then": {"properties": {"version": {"not": {"type": "string", "pattern": "[+]"}}}}
}"#;
const PACKAGE_REQUIRED: &[FieldDescription] = &[
    field("packageName", "The name of the package", "\"etcd\"", &[]),
    field("versionRange", "The accepted versions", "\">=1.0.0 <2.0.0\"", &[]),
];
const API: &[FieldDescription] = &[
    field("group", "The group, a DNS name", "\"etcd.example.com\"", &[]),
    field("kind", "The kind, in CamelCase", "\"EtcdCluster\"", &[]),
    field("version", "The version of the API", "\"v1\"", &[]),
];
const OBJECT: &[FieldDescription] = &[
    field("data", "The manifest, as base64", "\"e30=\"", &[]),
    field(
        "ref",
        "A file with the manifest, relative to the catalog file and inside the catalog; excludes data",
        "\"objects/etcd.v1.0.0.clusterserviceversion.yaml\"",
        &[Constraint::Pattern(patterns::RELATIVE)],
    ),
];
/// Data or a reference, not both.
const OBJECT_EXTRA: &str = r#"{
    "if": {"required": ["ref"], "properties": {"ref": {"type": "string", "minLength": 1}}},
    "then": {"properties": {"data": {"enum": ["", null]}}}
}"#;
const CHANNEL: &[FieldDescription] = &[
    field("name", "The name of the channel", "\"stable\"", &[]),
    field("replaces", "The bundle that this one replaces in the channel", "\"etcd.v1.0.0\"", &[]),
    field("channelName", "The name of the channel, in databases", "\"stable\"", &[]),
    field("priority", "The distance from the end of the channel, in databases", "1", &[]),
];
const LABEL: &[FieldDescription] = &[field("label", "The label", "\"fast\"", &[])];

const CONSTRAINTS: &str = r#"[{"package": {"packageName": "etcd", "versionRange": ">=1.0.0"}}]"#;
const CONSTRAINT: &[FieldDescription] = &[
    field("failureMessage", "The message for users when no bundle satisfies the constraint", "\"needs etcd\"", &[]),
    field("cel", "A rule in the Common Expression Language", "", &[]),
    field(
        "cel.rule",
        "The rule; `properties` is the list of a bundle's properties",
        "\"properties.exists(p, p.type == 'olm.label')\"",
        &[],
    ),
    field("package", "A package, in a version within a range", "", &[]),
    field("package.packageName", "The name of the package", "\"etcd\"", &[]),
    field("package.versionRange", "The accepted versions", "\">=1.0.0\"", &[]),
    field("gvk", "An API", "", &[]),
    field("gvk.group", "The group, a DNS name", "\"etcd.example.com\"", &[]),
    field("gvk.kind", "The kind, in CamelCase", "\"EtcdCluster\"", &[]),
    field("gvk.version", "The version of the API", "\"v1\"", &[]),
    field("all", "A bundle must satisfy all of these", "", &[]),
    field("all.constraints", "The constraints", CONSTRAINTS, &[]),
    field("any", "A bundle must satisfy at least one of these", "", &[]),
    field("any.constraints", "The constraints", CONSTRAINTS, &[]),
    field("not", "The bundle must satisfy none of these", "", &[]),
    field("not.constraints", "The constraints", CONSTRAINTS, &[]),
];

macro_rules! described_apis {
    ($list:literal, $what:literal, $($more:expr),* $(,)?) => {
        [
            field($list, $what, "", &[]),
            field(concat!($list, ".name"), "The full name of the resource", "\"etcdclusters.etcd.example.com\"", &[]),
            field(concat!($list, ".version"), "The version of the API", "\"v1\"", &[]),
            field(concat!($list, ".kind"), "The kind", "\"EtcdCluster\"", &[]),
            field(concat!($list, ".displayName"), "The display name", "\"etcd cluster\"", &[]),
            field(concat!($list, ".description"), "A description", "\"A cluster of etcd\"", &[]),
            field(concat!($list, ".resources"), "The kinds of objects that it manages", "", &[]),
            field(concat!($list, ".resources.name"), "The name of the object, if it is fixed", "\"\"", &[]),
            field(concat!($list, ".resources.kind"), "The kind of the object", "\"Pod\"", &[]),
            field(concat!($list, ".resources.version"), "The API version of the object", "\"v1\"", &[]),
            field(concat!($list, ".statusDescriptors"), "Status fields that consoles show", "", &[]),
            field(concat!($list, ".statusDescriptors.path"), "The path of the field", "\"size\"", &[]),
            field(concat!($list, ".statusDescriptors.displayName"), "The display name", "\"Size\"", &[]),
            field(concat!($list, ".statusDescriptors.description"), "A description", "\"The number of members\"", &[]),
            field(concat!($list, ".statusDescriptors.x-descriptors"), "How consoles show it", X_DESCRIPTORS, &[]),
            field(concat!($list, ".specDescriptors"), "Spec fields that consoles let users edit", "", &[]),
            field(concat!($list, ".specDescriptors.path"), "The path of the field", "\"size\"", &[]),
            field(concat!($list, ".specDescriptors.displayName"), "The display name", "\"Size\"", &[]),
            field(concat!($list, ".specDescriptors.description"), "A description", "\"The number of members\"", &[]),
            field(concat!($list, ".specDescriptors.x-descriptors"), "How consoles show it", X_DESCRIPTORS, &[]),
            field(concat!($list, ".actionDescriptors"), "Actions that consoles offer", "", &[]),
            field(concat!($list, ".actionDescriptors.path"), "The path of the field", "\"backup\"", &[]),
            field(concat!($list, ".actionDescriptors.displayName"), "The display name", "\"Back up\"", &[]),
            field(concat!($list, ".actionDescriptors.description"), "A description of the action", "\"Makes a backup\"", &[]),
            field(concat!($list, ".actionDescriptors.x-descriptors"), "How consoles show it", X_DESCRIPTORS, &[]),
            $($more),*
        ]
    };
}

macro_rules! described_services {
    ($list:literal, $what:literal) => {
        described_apis!(
            $list,
            $what,
            field(concat!($list, ".group"), "The group of the API", "\"etcd.example.com\"", &[]),
            field(concat!($list, ".deploymentName"), "The deployment that serves the API", "\"etcd-api\"", &[]),
            field(concat!($list, ".containerPort"), "The port that serves the API", "5443", &[]),
        )
    };
}

const X_DESCRIPTORS: &str = "[\"urn:alm:descriptor:com.tectonic.ui:podCount\"]";
const OWNED_CRDS: [FieldDescription; 25] = described_apis!("crdDescriptions.owned", "CRDs that the operator provides",);
const REQUIRED_CRDS: [FieldDescription; 25] =
    described_apis!("crdDescriptions.required", "CRDs that the operator needs",);
const OWNED_SERVICES: [FieldDescription; 28] =
    described_services!("apiServiceDefinitions.owned", "API services that the operator provides");
const REQUIRED_SERVICES: [FieldDescription; 28] =
    described_services!("apiServiceDefinitions.required", "API services that the operator needs");

const REST: [FieldDescription; 25] = [
    field("annotations", "The annotations of the ClusterServiceVersion", "{\"capabilities\": \"Basic Install\"}", &[]),
    field("apiServiceDefinitions", "The API services that the operator provides and needs", "", &[]),
    field("crdDescriptions", "The CRDs that the operator provides and needs", "", &[]),
    field("description", "A description of the operator, in Markdown", "\"A key-value store\"", &[]),
    field("displayName", "The display name of the operator", "\"etcd\"", &[]),
    field("installModes", "The ways in which the operator can watch namespaces", "", &[]),
    field(
        "installModes.type",
        "OwnNamespace, SingleNamespace, MultiNamespace or AllNamespaces",
        "\"AllNamespaces\"",
        &[],
    ),
    field("installModes.supported", "Whether the operator supports the mode", "true", &[]),
    field("keywords", "Search keywords", "[\"database\"]", &[]),
    field(
        "labels",
        "The labels of the ClusterServiceVersion",
        "{\"operatorframework.io/arch.amd64\": \"supported\"}",
        &[],
    ),
    field("links", "Pages about the operator", "", &[]),
    field("links.name", "The title of the page", "\"Documentation\"", &[]),
    field("links.url", "The URL of the page", "\"https://example.com/docs\"", &[]),
    field("maintainers", "The maintainers of the operator", "", &[]),
    field("maintainers.name", "The name", "\"Example\"", &[]),
    field("maintainers.email", "The email address", "\"etcd@example.com\"", &[]),
    field("maturity", "The maturity of the operator", "\"stable\"", &[]),
    field("minKubeVersion", "The minimum Kubernetes version", "\"1.27.0\"", &[]),
    field("nativeAPIs", "Cluster APIs that the operator needs", "", &[]),
    field("nativeAPIs.group", "The group", "\"apps\"", &[]),
    field("nativeAPIs.version", "The version", "\"v1\"", &[]),
    field("nativeAPIs.kind", "The kind", "\"Deployment\"", &[]),
    field("provider", "The provider of the operator", "", &[]),
    field("provider.name", "The name", "\"Example\"", &[]),
    field("provider.url", "The website of the provider", "\"https://example.com\"", &[]),
];

const CSV_METADATA: &[FieldDescription] =
    &joined([&OWNED_CRDS, &REQUIRED_CRDS, &OWNED_SERVICES, &REQUIRED_SERVICES, &REST]);

const fn joined(parts: [&[FieldDescription]; 5]) -> [FieldDescription; 131] {
    let mut all = [field("", "", "", &[]); 131];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            all[at] = parts[part][index];
            at += 1;
            index += 1;
        }
        part += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_has_the_fields_of_both_forms() {
        let names = |shape: Shape| shape.fields().iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let both = [names(property::FIRST_FORM_CHANNEL), names(property::shape(property::CHANNEL))].concat();
        assert_eq!(names(CHANNEL_VALUE), both);
    }
}
