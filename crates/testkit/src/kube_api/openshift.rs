//! OpenShift's mirror set kinds, with the fields and patterns that clusters validate.

use serde_json::{Value, json};

/// The pattern of mirrors: a host with an optional port, and a path.
const LOCATION: &str = "((?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:(?:\\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*\
    [a-zA-Z0-9]))+)?(?::[0-9]+)?)(?:(?:/[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?)+)?";
/// The additional pattern of sources: a wildcard domain.
const WILDCARD: &str = "\\*(?:\\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+";

/// Returns the kinds: ImageDigestMirrorSet and ImageTagMirrorSet of `config.openshift.io/v1`.
pub fn mirror_set_crds() -> [Value; 2] {
    [
        crd("ImageDigestMirrorSet", "imagedigestmirrorsets", "idms", "imageDigestMirrors"),
        crd("ImageTagMirrorSet", "imagetagmirrorsets", "itms", "imageTagMirrors"),
    ]
}

fn crd(kind: &str, plural: &str, short: &str, field: &str) -> Value {
    let entry = json!({
        "type": "object",
        "required": ["source"],
        "properties": {
            "mirrorSourcePolicy": {"type": "string", "enum": ["NeverContactSource", "AllowContactingSource"]},
            "mirrors": {
                "type": "array",
                "x-kubernetes-list-type": "set",
                "items": {"type": "string", "pattern": format!("^{LOCATION}$")},
            },
            "source": {"type": "string", "pattern": format!("^{WILDCARD}$|^{LOCATION}$")},
        },
    });
    let spec = json!({
        "type": "object",
        "properties": {field: {"type": "array", "x-kubernetes-list-type": "atomic", "items": entry}},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.config.openshift.io"),
            "annotations": {"api-approved.openshift.io": "https://github.com/openshift/api/pull/1126"},
        },
        "spec": {
            "group": "config.openshift.io",
            "scope": "Cluster",
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
                "shortNames": [short],
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                        "spec": spec, "status": {"type": "object"},
                    },
                }},
            }],
        },
    })
}
