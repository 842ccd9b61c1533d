//! Checks bundles before they are published.
//!
//! `format` checks the layout and annotations of a bundle, `content` its objects; `csv`, `crd` and `meta` check objects
//! of their kinds; `hub` and `objects` are optional. `suites` lists all validators, each of which is a separate file.

mod author;
mod bundle;
mod catalogs;
mod certified;
mod community;
mod configuration;
mod content;
mod crd;
mod csv;
mod format;
mod good_practices;
mod hub;
mod image_exists;
mod media_type;
mod meta;
mod multiarch;
mod objects;
mod openshift;
mod operator_group;
mod package_manifest;
mod pod_security;
mod removed_apis;
mod repository;
mod schema;
mod scorecard;
mod siblings;
mod suites;
mod whole_bundle;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use fbc::Limits;
use fbc::fault::{Class, Fault};
use serde_json::Value;

use crate::document;
use crate::error::{Error, ReadError};
use crate::file::{self, ReadOutcome};
use crate::finding::{Finding, Severity};
use crate::whole::BundleObject;

pub use bundle::{BundleCheck, BundleDirectory, CheckedBundle, Platforms, PlatformsError, Previous, check};
pub use catalogs::check_catalog;
pub use configuration::ConfigurationError;
pub use hub::{Categories, CategoriesError, CategoriesFault, read_categories};
pub use media_type::{MediaType, media_type};
pub use pod_security::{BASELINE_CAPABILITIES, PodSecurity, pod_security};
pub use repository::{OperatorDirectory, RepositoryFileError, check_package_manifest};
pub(crate) use schema::{json_type, schema_faults};
pub use suites::{SUITES, VALIDATORS, Validator};

/// Why a bundle, or what belongs to it, cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A file or directory cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The configuration is invalid.
    #[error("{}: {source}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        source: Box<ConfigurationError>,
    },
    /// A label selector selects nothing.
    #[error("invalid command args: selector \"{0}\" does not match any validator labels")]
    Selector(String),
    /// The previous version belongs to another package.
    #[error("\"{reference}\" belongs to package \"{package}\", but the bundle belongs to package \"{wanted}\"")]
    OtherPackage {
        /// The previous version, as the user named it.
        reference: String,
        /// Its package.
        package: String,
        /// The package of the bundle.
        wanted: String,
    },
    /// An operator has too many versions.
    #[error("{} has more than {limit} versions", repository.display())]
    TooManyVersions {
        /// The directory of the operator.
        repository: PathBuf,
        limit: usize,
    },
    /// A directory has no versions of an operator.
    #[error("{} contains no bundle directory", .0.display())]
    NoVersions(PathBuf),
    /// A version of an operator cannot be read.
    #[error("{}: {source}", path.display())]
    Version {
        /// The directory of the version.
        path: PathBuf,
        source: Box<Error>,
    },
    /// A file of a repository cannot be read.
    #[error("{}: {source}", path.display())]
    RepositoryFile {
        /// The file.
        path: PathBuf,
        source: RepositoryFileError,
    },
    /// A package manifest cannot be read.
    #[error("could not decode contents of file {} into package: {source}", path.display())]
    PackageManifest {
        /// The file.
        path: PathBuf,
        source: RepositoryFileError,
    },
}

impl Fault for CheckError {
    fn class(&self) -> Class {
        match self {
            CheckError::File { .. } => Class::World,
            CheckError::Configuration { .. } => Class::Usage,
            _ => Class::Refused,
        }
    }
}

/// The annotations that every bundle has.
pub(crate) const MEDIA_TYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
pub(crate) const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
pub(crate) const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";

/// Collects the findings of checks.
///
/// Messages are those of the existing tools, so that scripts can match them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Collector {
    /// The findings, in order.
    list: Vec<Finding>,
    /// Whether a rule of a dependency is missing or malformed, so that the rules need not be compiled.
    has_broken_rule: bool,
    /// The file being checked, and the document in it.
    file: String,
    document: usize,
}

/// Optional checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optional {
    /// The requirements of operatorhub.io for a CSV.
    OperatorHub,
    /// Whether objects harm the stability of a cluster.
    BundleObjects,
}

impl Collector {
    /// Sets the file that further findings refer to.
    fn set_file(&mut self, file: impl Into<String>) {
        self.file = file.into();
        self.document = 0;
    }

    /// Sets the object that further findings refer to.
    fn set_object(&mut self, object: &BundleObject) {
        self.file = object.file.clone();
        self.document = object.document;
    }

    fn error(&mut self, id: &'static str, pointer: impl Into<String>, text: impl Into<String>) {
        self.list.push(Finding::new(id, Severity::Error, text).at(&self.file, self.document, pointer));
    }

    fn info(&mut self, id: &'static str, pointer: impl Into<String>, text: impl Into<String>) {
        self.list.push(Finding::new(id, Severity::Info, text).at(&self.file, self.document, pointer));
    }

    fn warning(&mut self, id: &'static str, pointer: impl Into<String>, text: impl Into<String>) {
        self.list.push(Finding::new(id, Severity::Warning, text).at(&self.file, self.document, pointer));
    }
}

/// Returns the path of a manifest within a bundle, unless its name is not UTF-8.
fn manifest(name: &OsStr) -> Option<String> {
    Some(format!("manifests/{}", name.to_str()?))
}

/// Reads the first document of a file.
pub(crate) fn read(path: &Path, limits: &Limits) -> Result<Value, ReadError> {
    let mut text = Vec::new();
    match file::read(path, limits, &mut text)? {
        ReadOutcome::Read => {}
        ReadOutcome::Directory => return Err(ReadError::Directory),
        ReadOutcome::Unreadable(reason) => return Err(reason.into()),
    }
    Ok(document::first(&text, limits)?.body.to_value(limits)?)
}

#[cfg(test)]
mod tests {
    use testkit::BundleDir;

    use super::content::{ContentOptions, check_content};
    use super::format::check_format;
    use super::*;

    const ANNOTATIONS: &str = "annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: foo
  operators.operatorframework.io.bundle.channels.v1: stable
";

    const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: foo.v1.2.3}
spec:
  version: 1.2.3
  displayName: Foo
  installModes: [{type: AllNamespaces, supported: true}]
  install: {strategy: deployment, spec: {deployments: [{name: foo}]}}
  customresourcedefinitions: {owned: [{name: foos.example.com, version: v1, kind: Foo}]}
";

    fn good() -> BundleDir {
        BundleDir::new().metadata("annotations.yaml", ANNOTATIONS).manifest("csv.yaml", CSV)
    }

    fn errors(bundle: &BundleDir) -> String {
        let limits = Limits::default();
        let mut found = check_format(bundle.path(), None, &limits);
        let all = [Optional::OperatorHub, Optional::BundleObjects];
        let optional = if found.list.is_empty() { &all[1..] } else { &[] };
        found.list.extend(check_content(bundle.path(), &asked(optional), &limits).list);
        texts(&found, Severity::Error)
    }

    fn asked(optional: &[Optional]) -> ContentOptions<'_> {
        ContentOptions { optional, ..ContentOptions::default() }
    }

    fn texts(found: &Collector, severity: Severity) -> String {
        let found = found.list.iter().filter(|finding| finding.severity == severity);
        found.map(|finding| finding.message.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_bundle_that_can_be_published_has_no_errors() {
        assert_eq!(errors(&good()), "");
    }

    #[test]
    fn all_missing_or_wrong_annotations_are_reported() {
        let bundle = good().metadata("annotations.yaml", "annotations: {a: b}\n");
        insta::assert_snapshot!(errors(&bundle), @r#"
        Missing annotation "operators.operatorframework.io.bundle.mediatype.v1"
        Missing annotation "operators.operatorframework.io.bundle.manifests.v1"
        Missing annotation "operators.operatorframework.io.bundle.metadata.v1"
        Missing annotation "operators.operatorframework.io.bundle.package.v1"
        Missing annotation "operators.operatorframework.io.bundle.channels.v1"
        "#);
        let wrong = ANNOTATIONS.replace("registry+v1", "plain").replace("stable", "''")
            + "  operators.operatorframework.io.bundle.channel.default.v1: ''\n";
        insta::assert_snapshot!(errors(&good().metadata("annotations.yaml", wrong)), @r#"
        Expecting annotation "operators.operatorframework.io.bundle.mediatype.v1" to have value "registry+v1" instead of "plain"
        Expecting annotation "operators.operatorframework.io.bundle.channels.v1" to have non-empty value
        Expecting annotation "operators.operatorframework.io.bundle.channel.default.v1" to have non-empty value
        "#);
        let empty = BundleDir::empty();
        std::fs::remove_dir(empty.path().join("metadata")).unwrap();
        let found = check_format(empty.path(), None, &Limits::default());
        insta::assert_snapshot!(texts(&found, Severity::Error), @"Unable to locate metadata directory");
    }

    #[test]
    fn dependencies_are_checked() {
        let dependencies = "dependencies:
- {type: olm.package, value: {packageName: '', version: ''}}
- {type: olm.package, value: {packageName: a, version: x.y}}
- {type: olm.package, value: {packageName: a, version: '>=1.0.0 <2.0.0'}}
- {type: olm.gvk, value: {group: '', kind: K}}
- {type: olm.label, value: {}}
- {type: olm.constraint, value: {failureMessage: x}}
- {type: olm.constraint, value: {cel: {rule: ''}}}
- {type: olm.constraint, value: {cel: {rule: 'properties.exists(p, p.type == \"a'}}}
- {type: olm.constraint, value: {cel: {rule: 'properties.exists(p, p.type == \"a)\")'}}}
- {type: other, value: 1}
- {type: olm.gvk, value: 5}
";
        insta::assert_snapshot!(errors(&good().metadata("dependencies.yaml", dependencies)), @"
        Package name is empty
        Package version is empty
        Invalid semver format version
        API Group is empty
        API Version is empty
        Label information is missing
        The CEL field is missing
        The CEL expression is missing
        Invalid CEL expression: a text has no end
        couldn't parse dependency of type other
        couldn't parse dependency of type olm.gvk
        ");
    }

    #[test]
    fn objects_are_checked() {
        let bundle = good()
            .manifest("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
            .manifest("b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: x, labels: {'-': '*'}}\n")
            .manifest("c.yaml", "a: [\n")
            .manifest("d.yaml", "apiVersion: apiextensions.k8s.io/v2\nkind: CustomResourceDefinition\n")
            .manifest("sub/e.yaml", "kind: ConfigMap\n")
            .manifest("f.yaml", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: f}\nglobalDefault: true\n")
            .manifest("g.yaml", "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: g}\nspec: {maxUnavailable: 0%, minAvailable: 100%}\n");
        insta::assert_snapshot!(errors(&bundle), @r#"
        Pod is not supported type for registryV1 bundle: a.yaml
        error validating object metadata: ConfigMap "": metadata.name: Required value: name or generateName is required
        error validating object metadata: ConfigMap "": metadata.namespace: Forbidden: not allowed on this type
        error validating object metadata: ConfigMap "": metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character
        error validating object metadata: ConfigMap "": metadata.labels: Invalid value: "*": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character
        c.yaml: line 2: did not find expected node content
        Unsupported api version of CRD: apiextensions.k8s.io/v2
        Error: Value PriorityClass "f": globalDefault field cannot be set to true
        Error: Value PodDisruptionBudget "g": maxUnavailable field cannot be set to 0 or 0%
        Error: Value PodDisruptionBudget "g": minAvailable field cannot be set to 100%
        Unable to read file sub in supported types
        "#);
    }

    #[test]
    fn a_csv_is_checked() {
        let csv = CSV
            .replace("foo.v1.2.3", "Foo_1")
            .replace("displayName: Foo\n", "minKubeVersion: '1.16'\n")
            .replace("installModes: [{type: AllNamespaces, supported: true}]", "installModes: [{type: AllNamespaces, supported: false}, {type: AllNamespaces, supported: false}]")
            .replace("kind: Foo}", "kind: Bar}")
            .replace("metadata: {name: Foo_1}", "metadata: {name: Foo_1, annotations: {olm.skiprange: x, alm-examples: '[{\"kind\": \"X\", \"apiVersion\": \"a/v1\"}]'}}");
        insta::assert_snapshot!(errors(&good().manifest("csv.yaml", csv)), @r#"
        Error: Value : (Foo_1) metadata.name "Foo_1" is invalid: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character
        Error: Value a/v1, Kind=X: example must have a provided API
        Error: Value : (Foo_1) duplicate install modes present
        Error: Value : (Foo_1) none of InstallModeTypes are supported
        Error: Value : (Foo_1) csv.Spec.MinKubeVersion has an invalid value: 1.16
        Error: Field Spec.DisplayName, Value field: required field missing
        Error: Value Foo_1: provided annotation olm.skiprange uses wrong case and should be olm.skipRange instead
        owned CRD foos.example.com/v1 not found in bundle "Foo_1"
        "#);
        let csv = "kind: ClusterServiceVersion\nmetadata: {annotations: {alm-examples: '{'}}\n";
        insta::assert_snapshot!(errors(&good().manifest("csv.yaml", csv)), @r#"
        Error: Value : () metadata.name "" is invalid: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character
        Error: Value invalid character at 1
         {<--(see the invalid character): invalid example
        Error: Value : () install modes not found
        Error: Field Spec, Value struct: required field missing
        Error: Value : () 'apiVersion' is missing
        "#);
    }

    #[test]
    fn messages_match_the_existing_validators() {
        let found = |annotations: &str, spec: &str| {
            let csv =
                CSV.replace("{name: foo.v1.2.3}", &format!("{{name: foo.v1.2.3, annotations: {{{annotations}}}}}"));
            let bundle = good().manifest("csv.yaml", format!("{csv}{spec}"));
            let found = check_content(bundle.path(), &asked(&[Optional::OperatorHub]), &Limits::default());
            found.list.into_iter().map(|finding| finding.message).collect::<Vec<_>>()
        };
        let has =
            |found: &[String], text: &str| assert!(found.iter().any(|it| it == text), "{text}\n{}", found.join("\n"));
        let both = found("alm-examples: '[]', olm.examples: '[]', olm.properties: '[]'", "");
        has(
            &both,
            "Warning: Value : (foo.v1.2.3) both `alm-examples` and `olm.examples` are present. Checking only `alm-examples`",
        );
        has(
            &both,
            "Warning: Value : found olm.properties annotation, please define these properties in metadata/properties.yaml instead",
        );
        has(
            &found("alm-examples: '[{\"a\": x}]'", ""),
            "Error: Value invalid character at 8\n [{\"a\": x<--(see the invalid character): invalid example",
        );
        has(
            &found("alm-examples: '{}'", ""),
            "Error: Value json: cannot unmarshal object into Go value of type []unstructured.Unstructured: error decoding example CustomResource",
        );
        let plain = CSV.replace("name: foos.example.com", "name: foos");
        let plain = plain.replace("{name: foo.v1.2.3}", "{name: foo.v1.2.3, annotations: {alm-examples: '[]'}}");
        let found_plain = errors(&good().manifest("csv.yaml", plain));
        assert!(found_plain.contains("Error: : couldn't parse plural.group from crd name: foos"), "{found_plain}");
        let icon = found("a: b", "  icon: [{mediatype: text/plain}]\n");
        has(&icon, "Error: Value : (foo.v1.2.3) csv.Spec.Icon elements should contain both data and mediatype");
        has(&icon, "Error: Value : (foo.v1.2.3) csv.Spec.Icon text/plain does not have a valid mediatype");
    }

    #[test]
    fn a_crd_is_checked() {
        let crd = "apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: foos.example, namespace: x}
spec:
  group: example
  scope: Somewhere
  names: {kind: Foo, plural: foos, listKind: Foo}
  versions: [{name: v1, storage: true, deprecationWarning: x}, {name: v1, storage: true}, {name: 1x}]
";
        insta::assert_snapshot!(errors(&good().manifest("crd.yaml", crd)), @r#"
        Error: Value foos.example: metadata.namespace: Forbidden: not allowed on this type
        Error: Field spec.group, Value example: spec.group: Invalid value: example: should be a domain with at least one dot
        Error: Field spec.names.listKind, Value Foo: spec.names.listKind: Invalid value: Foo: kind and listKind may not be the same
        Error: Field spec.scope, Value Somewhere: spec.scope: Invalid value: Somewhere: supported values: "Cluster", "Namespaced"
        Error: Field spec.versions[0].deprecationWarning, Value x: spec.versions[0].deprecationWarning: Invalid value: x: can only be set for deprecated versions
        Error: Field spec.versions[2].name, Value 1x: spec.versions[2].name: Invalid value: 1x: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, end with an alphanumeric character, and have at most 63 characters
        Error: Field spec.versions: spec.versions: Invalid value: must contain unique version names
        Error: Field spec.versions: spec.versions: Invalid value: must have exactly one version marked as storage version
        Error: Field spec.preserveUnknownFields, Value true: spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead
        owned CRD foos.example.com/v1 not found in bundle "foo.v1.2.3"
        "#);
    }

    #[test]
    fn checks_of_operatorhub_are_optional() {
        let csv = format!("{CSV}  maintainers: [{{name: x, email: nobody}}, {{name: z}}]\n  links: [{{name: x, url: here}}]\n  icon: [{{base64data: x, mediatype: text/plain}}]\n")
            .replace("metadata: {name: foo.v1.2.3}", "metadata: {name: foo.v1.2.3, annotations: {capabilities: Some, categories: 'Database, Cats'}}");
        let bundle = good().manifest("csv.yaml", csv);
        let findings = check_content(bundle.path(), &asked(&[Optional::OperatorHub]), &Limits::default());
        insta::assert_snapshot!(texts(&findings, Severity::Error), @r#"
        Error: Value : (foo.v1.2.3) csv.Spec.Provider.Name not specified
        Error: Value : (foo.v1.2.3) csv.Spec.Maintainers email nobody is invalid: mail: no address
        Error: Value : (foo.v1.2.3) csv.Spec.Maintainers elements should contain both name and email
        Error: Value : (foo.v1.2.3) csv.Spec.Links url here is invalid: parse "here": invalid URI for request
        Error: Value : (foo.v1.2.3) csv.Spec.Icon text/plain does not have a valid mediatype
        Error: Value : (foo.v1.2.3) csv.Metadata.Annotations.Capabilities "Some" is not a valid capabilities level
        Error: Value : (foo.v1.2.3) csv.Metadata.Annotations["categories"] value " Cats" is not in the set of standard categories
        "#);
        insta::assert_snapshot!(texts(&findings, Severity::Warning), @r"
        Warning: Value : (foo.v1.2.3) example annotations not found
        Warning: Value : (foo.v1.2.3) csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. Otherwise, it would mean that your operator project can be distributed and installed in any cluster version available, which is not necessarily the case for all projects.
        ");
    }
}
