//! The properties of bundles.

use catalog::needs;
use fbc::property;
use fbc::shape::Shape;

use crate::document::{Document, Field, Kind, Must, field};
use crate::patterns;

const NAMED: &[Must] = &[Must::BeGiven, Must::BeFilled];

pub(crate) fn documents() -> Vec<Document> {
    let of = |name, shape, about, example, fields: &'static [Field], closed| Document {
        kind: Kind::Property,
        name,
        about,
        example,
        envelope: &[],
        shape,
        fields,
        also: "{}",
        closed,
    };
    let known =
        |name: &'static str, about, example, fields| of(name, property::shape(name), about, example, fields, false);
    vec![
        Document {
            also: PACKAGE_ALSO,
            ..known(
                property::PACKAGE,
                "The package and version of a bundle. Every bundle has exactly one",
                r#"{"packageName": "etcd", "version": "1.0.0"}"#,
                PACKAGE,
            )
        },
        known(
            property::PACKAGE_REQUIRED,
            "A package that must be installed, in a version of a range",
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
            "An API that some other bundle must provide",
            r#"{"group": "etcd.example.com", "kind": "EtcdCluster", "version": "v1"}"#,
            API,
        ),
        Document {
            also: OBJECT_ALSO,
            ..known(
                property::BUNDLE_OBJECT,
                "A manifest of the bundle, inside the catalog or in a file beside it. olm.csv.metadata has taken its \
                 place",
                r#"{"data": "e30="}"#,
                OBJECT,
            )
        },
        known(
            property::CSV_METADATA,
            "What consoles show of a bundle, taken from its ClusterServiceVersion",
            r#"{"displayName": "etcd", "description": "A key-value store", "provider": {"name": "Example"}}"#,
            CSV_METADATA,
        ),
        of(
            property::CHANNEL,
            CHANNEL_VALUE,
            "A channel of a bundle as the first format had it (name, replaces), or as databases have it (channelName, \
             priority). Today channels are blobs",
            r#"{"name": "stable", "replaces": "etcd.v1.0.0"}"#,
            CHANNEL,
            false,
        ),
        of(
            property::SKIPS,
            property::FIRST_FORM_TEXT,
            "A bundle that this one skips in all its channels, as the first format had it",
            "\"etcd.v1.0.1\"",
            &[],
            false,
        ),
        of(
            property::SKIP_RANGE,
            property::FIRST_FORM_TEXT,
            "The versions that upgrade to this bundle directly in all its channels, as the first format had it",
            "\">=1.0.0 <1.1.0\"",
            &[],
            false,
        ),
        of(
            needs::CONSTRAINT,
            needs::CONSTRAINT_VALUE,
            "A condition that one other bundle must meet: an API, a package, a rule, or a combination. The first of gvk, \
             package, all, any, not and cel that is given counts. Clusters refuse fields that they do not know",
            r#"{"failureMessage": "needs a certificate manager", "any": {"constraints": [{"package": {"packageName": "cert-manager", "versionRange": ">=1.0.0"}}, {"gvk": {"group": "cert-manager.io", "kind": "Issuer", "version": "v1"}}]}}"#,
            CONSTRAINT,
            true,
        ),
        of(needs::LABEL, needs::LABEL_VALUE, "A label that others can require", r#"{"label": "fast"}"#, LABEL, false),
        of(
            needs::LABEL_REQUIRED,
            needs::LABEL_VALUE,
            "A label that some other bundle must have",
            r#"{"label": "fast"}"#,
            LABEL,
            false,
        ),
        of(
            needs::DEPRECATED,
            Shape::Any,
            "Marks a bundle that clusters of the first generation never choose. Databases write it when they truncate a \
             channel; olm.deprecations blobs are for people",
            "{}",
            &[],
            false,
        ),
    ]
}

/// Both forms of a channel property; whether one has a `name` distinguishes them.
const CHANNEL_VALUE: Shape = Shape::Object(&[
    ("name", Shape::Str),
    ("replaces", Shape::Str),
    ("channelName", Shape::Str),
    ("priority", Shape::Int),
]);

const PACKAGE: &[Field] = &[
    field("packageName", "The package, the same as that of the bundle", "\"etcd\"", NAMED),
    field(
        "version",
        "The version, a semantic version of three numbers",
        "\"1.0.0\"",
        &[Must::BeGiven, Must::Match(patterns::VERSION)],
    ),
    field(
        "release",
        "Distinguishes repackagings of one version. The bundle is then called PACKAGE-vVERSION-RELEASE",
        "\"1\"",
        &[Must::Match(patterns::RELEASE)],
    ),
];
/// A release takes the place of build metadata.
const PACKAGE_ALSO: &str = r#"{
    "if": {"required": ["release"], "properties": {"release": {"type": "string", "minLength": 1}}},
    "then": {"properties": {"version": {"not": {"type": "string", "pattern": "[+]"}}}}
}"#;
const PACKAGE_REQUIRED: &[Field] = &[
    field("packageName", "The package", "\"etcd\"", &[]),
    field("versionRange", "The versions that will do", "\">=1.0.0 <2.0.0\"", &[]),
];
const API: &[Field] = &[
    field("group", "The group, a DNS name", "\"etcd.example.com\"", &[]),
    field("kind", "The kind, in CamelCase", "\"EtcdCluster\"", &[]),
    field("version", "The version of the API", "\"v1\"", &[]),
];
const OBJECT: &[Field] = &[
    field("data", "The manifest as base64", "\"e30=\"", &[]),
    field(
        "ref",
        "A file with the manifest, relative to the file of the catalog and inside the catalog; instead of data",
        "\"objects/etcd.v1.0.0.clusterserviceversion.yaml\"",
        &[Must::Match(patterns::RELATIVE)],
    ),
];
/// Data or a reference, not both.
const OBJECT_ALSO: &str = r#"{
    "if": {"required": ["ref"], "properties": {"ref": {"type": "string", "minLength": 1}}},
    "then": {"properties": {"data": {"enum": ["", null]}}}
}"#;
const CHANNEL: &[Field] = &[
    field("name", "The channel", "\"stable\"", &[]),
    field("replaces", "The bundle that this one replaces in the channel", "\"etcd.v1.0.0\"", &[]),
    field("channelName", "The channel, as databases have it", "\"stable\"", &[]),
    field("priority", "The distance from the end of the channel, as databases have it", "1", &[]),
];
const LABEL: &[Field] = &[field("label", "The label", "\"fast\"", &[])];

const CONSTRAINTS: &str = r#"[{"package": {"packageName": "etcd", "versionRange": ">=1.0.0"}}]"#;
const CONSTRAINT: &[Field] = &[
    field("failureMessage", "What users are shown when nothing meets the condition", "\"needs etcd\"", &[]),
    field("cel", "A rule in the Common Expression Language", "", &[]),
    field(
        "cel.rule",
        "The rule; `properties` is the list of a bundle's properties",
        "\"properties.exists(p, p.type == 'olm.label')\"",
        &[],
    ),
    field("package", "A package, in a version of a range", "", &[]),
    field("package.packageName", "The package", "\"etcd\"", &[]),
    field("package.versionRange", "The versions that will do", "\">=1.0.0\"", &[]),
    field("gvk", "An API", "", &[]),
    field("gvk.group", "The group, a DNS name", "\"etcd.example.com\"", &[]),
    field("gvk.kind", "The kind, in CamelCase", "\"EtcdCluster\"", &[]),
    field("gvk.version", "The version of the API", "\"v1\"", &[]),
    field("all", "One bundle meets all of these", "", &[]),
    field("all.constraints", "The conditions", CONSTRAINTS, &[]),
    field("any", "One bundle meets any of these", "", &[]),
    field("any.constraints", "The conditions", CONSTRAINTS, &[]),
    field("not", "The bundle meets none of these", "", &[]),
    field("not.constraints", "The conditions", CONSTRAINTS, &[]),
];

macro_rules! described_apis {
    ($list:literal, $what:literal, $($more:expr),* $(,)?) => {
        [
            field($list, $what, "", &[]),
            field(concat!($list, ".name"), "The full name of the resource", "\"etcdclusters.etcd.example.com\"", &[]),
            field(concat!($list, ".version"), "The version of the API", "\"v1\"", &[]),
            field(concat!($list, ".kind"), "The kind", "\"EtcdCluster\"", &[]),
            field(concat!($list, ".displayName"), "What consoles call it", "\"etcd cluster\"", &[]),
            field(concat!($list, ".description"), "What it is", "\"A cluster of etcd\"", &[]),
            field(concat!($list, ".resources"), "The kinds of objects that it is made of", "", &[]),
            field(concat!($list, ".resources.name"), "Their names, if they are fixed", "\"\"", &[]),
            field(concat!($list, ".resources.kind"), "Their kind", "\"Pod\"", &[]),
            field(concat!($list, ".resources.version"), "Their version", "\"v1\"", &[]),
            field(concat!($list, ".statusDescriptors"), "Fields of its status that consoles show", "", &[]),
            field(concat!($list, ".statusDescriptors.path"), "The way to the field", "\"size\"", &[]),
            field(concat!($list, ".statusDescriptors.displayName"), "What consoles call it", "\"Size\"", &[]),
            field(concat!($list, ".statusDescriptors.description"), "What it is", "\"The number of members\"", &[]),
            field(concat!($list, ".statusDescriptors.x-descriptors"), "How consoles show it", X_DESCRIPTORS, &[]),
            field(concat!($list, ".specDescriptors"), "Fields of its spec that consoles offer", "", &[]),
            field(concat!($list, ".specDescriptors.path"), "The way to the field", "\"size\"", &[]),
            field(concat!($list, ".specDescriptors.displayName"), "What consoles call it", "\"Size\"", &[]),
            field(concat!($list, ".specDescriptors.description"), "What it is", "\"The number of members\"", &[]),
            field(concat!($list, ".specDescriptors.x-descriptors"), "How consoles show it", X_DESCRIPTORS, &[]),
            field(concat!($list, ".actionDescriptors"), "Actions that consoles offer", "", &[]),
            field(concat!($list, ".actionDescriptors.path"), "The way to the field", "\"backup\"", &[]),
            field(concat!($list, ".actionDescriptors.displayName"), "What consoles call it", "\"Back up\"", &[]),
            field(concat!($list, ".actionDescriptors.description"), "What it does", "\"Makes a backup\"", &[]),
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
            field(concat!($list, ".deploymentName"), "The deployment that answers", "\"etcd-api\"", &[]),
            field(concat!($list, ".containerPort"), "The port that it answers on", "5443", &[]),
        )
    };
}

const X_DESCRIPTORS: &str = "[\"urn:alm:descriptor:com.tectonic.ui:podCount\"]";
const OWNED_CRDS: [Field; 25] = described_apis!("crdDescriptions.owned", "CRDs that the operator provides",);
const REQUIRED_CRDS: [Field; 25] = described_apis!("crdDescriptions.required", "CRDs that the operator needs",);
const OWNED_SERVICES: [Field; 28] =
    described_services!("apiServiceDefinitions.owned", "API services that the operator provides");
const REQUIRED_SERVICES: [Field; 28] =
    described_services!("apiServiceDefinitions.required", "API services that the operator needs");

const REST: [Field; 25] = [
    field("annotations", "The annotations of the ClusterServiceVersion", "{\"capabilities\": \"Basic Install\"}", &[]),
    field("apiServiceDefinitions", "API services", "", &[]),
    field("crdDescriptions", "CRDs", "", &[]),
    field("description", "What the operator is, in Markdown", "\"A key-value store\"", &[]),
    field("displayName", "What consoles call the operator", "\"etcd\"", &[]),
    field("installModes", "Which namespaces the operator can watch", "", &[]),
    field(
        "installModes.type",
        "OwnNamespace, SingleNamespace, MultiNamespace or AllNamespaces",
        "\"AllNamespaces\"",
        &[],
    ),
    field("installModes.supported", "Whether it can", "true", &[]),
    field("keywords", "Words to find the operator by", "[\"database\"]", &[]),
    field(
        "labels",
        "The labels of the ClusterServiceVersion",
        "{\"operatorframework.io/arch.amd64\": \"supported\"}",
        &[],
    ),
    field("links", "Pages about the operator", "", &[]),
    field("links.name", "What the page is", "\"Documentation\"", &[]),
    field("links.url", "Where it is", "\"https://example.com/docs\"", &[]),
    field("maintainers", "Who maintains the operator", "", &[]),
    field("maintainers.name", "The name", "\"Example\"", &[]),
    field("maintainers.email", "The address", "\"etcd@example.com\"", &[]),
    field("maturity", "How far the operator is", "\"stable\"", &[]),
    field("minKubeVersion", "The oldest Kubernetes that it runs on", "\"1.27.0\"", &[]),
    field("nativeAPIs", "APIs of the cluster that it needs", "", &[]),
    field("nativeAPIs.group", "The group", "\"apps\"", &[]),
    field("nativeAPIs.version", "The version", "\"v1\"", &[]),
    field("nativeAPIs.kind", "The kind", "\"Deployment\"", &[]),
    field("provider", "Who provides the operator", "", &[]),
    field("provider.name", "The name", "\"Example\"", &[]),
    field("provider.url", "Their page", "\"https://example.com\"", &[]),
];

const CSV_METADATA: &[Field] = &joined([&OWNED_CRDS, &REQUIRED_CRDS, &OWNED_SERVICES, &REQUIRED_SERVICES, &REST]);

const fn joined(parts: [&[Field]; 5]) -> [Field; 131] {
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
