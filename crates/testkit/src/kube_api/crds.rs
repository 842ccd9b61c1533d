//! OLM's kinds: the schema of CatalogSource is as strict as on clusters, the others accept anything.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::discovery::ApiResource;
use serde_json::{Value, json};

const GROUP: &str = "operators.coreos.com";

/// The kinds: name, plural, short name, version.
pub const OLM_CRDS: &[(&str, &str, &str, &str)] = &[
    ("CatalogSource", "catalogsources", "catsrc", "v1alpha1"),
    ("Subscription", "subscriptions", "sub", "v1alpha1"),
    ("InstallPlan", "installplans", "ip", "v1alpha1"),
    ("ClusterServiceVersion", "clusterserviceversions", "csv", "v1alpha1"),
    ("OperatorGroup", "operatorgroups", "og", "v1"),
];

/// Creates the CRDs, and waits until they are established.
pub(super) async fn apply(client: Client) {
    let resource = ApiResource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        api_version: "apiextensions.k8s.io/v1".into(),
        kind: "CustomResourceDefinition".into(),
        plural: "customresourcedefinitions".into(),
    };
    let crds: Api<DynamicObject> = Api::all_with(client, &resource);
    for (kind, plural, short, version) in OLM_CRDS {
        let name = format!("{plural}.{GROUP}");
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {
                    "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                    "singular": kind.to_lowercase(), "shortNames": [short], "categories": ["olm"],
                },
                "versions": [{
                    "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": if *kind == "CatalogSource" { catalog_source() } else { any_object() }},
                }],
            },
        });
        let applied = crds.patch(&name, &PatchParams::apply("testkit").force(), &Patch::Apply(&crd)).await;
        applied.expect("the kind is defined");
    }
    for (_, plural, ..) in OLM_CRDS {
        let name = format!("{plural}.{GROUP}");
        while !crds.get(&name).await.is_ok_and(|crd| is_established(&crd.data)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

pub(super) fn is_established(crd: &Value) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
}

fn any_object() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn string_fields(names: &[&str]) -> Value {
    let fields = names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"})));
    Value::Object(fields.collect())
}

/// Adds fields to those of an object.
fn with_fields(mut fields: Value, more: Value) -> Value {
    if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
        fields.extend(more);
    }
    fields
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn catalog_source() -> Value {
    let time = json!({"type": "string", "format": "date-time"});
    let list_of = |items: Value| json!({"type": "array", "items": items});
    let security = json!({"type": "string", "enum": ["legacy", "restricted"]});
    let quantity = json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true});
    let mut extract = object(string_fields(&["catalogDir", "cacheDir"]));
    extract["required"] = json!(["catalogDir"]);
    let pod_config = object(with_fields(
        string_fields(&["priorityClassName"]),
        json!({
            "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
            "tolerations": list_of(any_object()),
            "affinity": any_object(),
            "securityContextConfig": security,
            "memoryTarget": quantity,
            "extractContent": extract,
        }),
    ));
    let mut spec = object(with_fields(
        string_fields(&["sourceType", "image", "address", "configMap", "displayName", "description", "publisher"]),
        json!({
            "priority": {"type": "integer"},
            "secrets": list_of(json!({"type": "string"})),
            "updateStrategy": object(json!({"registryPoll": object(string_fields(&["interval"]))})),
            "grpcPodConfig": pod_config,
            "icon": object(string_fields(&["base64data", "mediatype"])),
        }),
    ));
    spec["required"] = json!(["sourceType"]);
    // This server, built with a newer Go, treats an empty string as absent; others accept it.
    spec["properties"]["sourceType"]["nullable"] = json!(true);
    let service = with_fields(
        string_fields(&["protocol", "serviceName", "serviceNamespace", "port"]),
        json!({"createdAt": time}),
    );
    let connection =
        with_fields(string_fields(&["address"]), json!({"lastObservedState": {"type": "string"}, "lastConnect": time}));
    let mut connection = object(connection);
    connection["required"] = json!(["lastObservedState"]);
    let status = object(with_fields(
        string_fields(&["reason", "message"]),
        json!({
            "latestImageRegistryPoll": time,
            "registryService": object(service),
            "connectionState": connection,
            "configMapReference": object(with_fields(
                string_fields(&["name", "namespace", "uid", "resourceVersion"]),
                json!({"lastUpdateTime": time}),
            )),
            "conditions": list_of(any_object()),
        }),
    ));
    let mut schema =
        object(with_fields(string_fields(&["apiVersion", "kind"]), json!({"metadata": {"type": "object"}})));
    schema["properties"]["spec"] = spec;
    schema["properties"]["status"] = status;
    schema["required"] = json!(["metadata", "spec"]);
    schema
}
