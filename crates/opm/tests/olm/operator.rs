//! Operators for tests, as bundle images.

use serde_json::{Value, json};

/// A version of an operator.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    pub(crate) package: String,
    pub(crate) version: String,
    /// The group of the API that it owns.
    pub(crate) group: String,
    /// The image of its deployment.
    pub(crate) image: String,
    /// Additional fields for the spec of its CSV.
    pub(crate) more: Value,
    /// The content of `metadata/dependencies.yaml`, if any.
    pub(crate) dependencies: Option<String>,
}

impl Operator {
    pub(crate) fn new(package: &str, version: &str, namespace: &str) -> Operator {
        Operator {
            package: package.to_owned(),
            version: version.to_owned(),
            group: format!("{package}.{namespace}.example.com"),
            image: format!("registry.example.com/{package}:v{version}"),
            more: json!({}),
            dependencies: None,
        }
    }

    /// Returns the name of the CSV.
    pub(crate) fn csv_name(&self) -> String {
        format!("{}.v{}", self.package, self.version)
    }

    /// Returns the name of the CRD.
    pub(crate) fn crd_name(&self) -> String {
        format!("{}s.{}", self.package, self.group)
    }

    fn kind(&self) -> String {
        let (first, rest) = self.package.split_at(1);
        format!("{}{rest}", first.to_uppercase())
    }

    pub(crate) fn crd(&self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.crd_name()},
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {"kind": self.kind(), "listKind": format!("{}List", self.kind()),
                    "plural": format!("{}s", self.package), "singular": self.package},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        })
    }

    /// Returns an object of the API that the operator owns.
    pub(crate) fn resource(&self, name: &str) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": self.kind(), "metadata": {"name": name}})
    }

    pub(crate) fn csv(&self) -> Value {
        let name = format!("{}-controller", self.package);
        let labels = json!({"app": name});
        let mut csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": self.csv_name(), "annotations": {"capabilities": "Basic Install"}},
            "spec": {
                "version": self.version, "displayName": self.kind(), "description": "An operator of a test.",
                "provider": {"name": "Tests"}, "maturity": "alpha",
                // OLM would copy operators for all namespaces to those of other tests.
                "installModes": [
                    {"type": "OwnNamespace", "supported": true}, {"type": "SingleNamespace", "supported": true},
                    {"type": "MultiNamespace", "supported": false}, {"type": "AllNamespaces", "supported": false},
                ],
                "customresourcedefinitions": {"owned": [{
                    "name": self.crd_name(), "kind": self.kind(), "version": "v1",
                    "displayName": self.kind(), "description": "A thing.",
                }]},
                "install": {"strategy": "deployment", "spec": {
                    "permissions": [{"serviceAccountName": name, "rules": [
                        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]}],
                    "deployments": [{"name": name, "spec": {
                        "replicas": 1, "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels}, "spec": {
                            "serviceAccountName": name,
                            "containers": [{"name": "controller", "image": self.image}],
                        }},
                    }}],
                }},
            },
        });
        csv["spec"].as_object_mut().expect("a spec").extend(self.more.as_object().expect("fields").clone());
        csv
    }

    /// Returns the files of the bundle image.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let prefix = "operators.operatorframework.io.bundle";
        let annotations = format!(
            "annotations:\n  {prefix}.mediatype.v1: registry+v1\n  {prefix}.manifests.v1: manifests/\n  \
             {prefix}.metadata.v1: metadata/\n  {prefix}.package.v1: {}\n  {prefix}.channels.v1: stable\n  \
             {prefix}.channel.default.v1: stable\n",
            self.package
        );
        let mut files = vec![
            ("/manifests/csv.json".to_owned(), self.csv().to_string().into_bytes()),
            ("/manifests/crd.json".to_owned(), self.crd().to_string().into_bytes()),
            ("/metadata/annotations.yaml".to_owned(), annotations.into_bytes()),
        ];
        if let Some(dependencies) = &self.dependencies {
            files.push(("/metadata/dependencies.yaml".to_owned(), dependencies.clone().into_bytes()));
        }
        files
    }

    /// Returns the labels of the bundle image.
    pub(crate) fn labels(&self) -> Vec<(String, String)> {
        let prefix = "operators.operatorframework.io.bundle";
        let label = |name: &str, value: &str| (format!("{prefix}.{name}"), value.to_owned());
        vec![
            label("mediatype.v1", "registry+v1"),
            label("manifests.v1", "manifests/"),
            label("metadata.v1", "metadata/"),
            label("package.v1", &self.package),
            label("channels.v1", "stable"),
            label("channel.default.v1", "stable"),
        ]
    }
}
