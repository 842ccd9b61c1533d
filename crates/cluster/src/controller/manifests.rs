//! The manifests of a controller deployment.

use serde_json::{Value, json};

use crate::ResourceKind;

/// How a controller is deployed.
#[derive(Debug, Clone)]
pub struct ManifestPlan {
    /// The name of all objects.
    pub name: String,
    /// The namespace of the controller.
    pub namespace: String,
    /// The namespace of the catalogs to serve; `None` means all.
    pub watched: Option<String>,
    /// The image with `opm`.
    pub image: String,
    /// The number of replicas, of which one is active.
    pub replicas: u32,
    /// Additional arguments of the controller.
    pub arguments: Vec<String>,
    /// How ClusterCatalogs are served; `None` for a controller of CatalogSources.
    pub cluster_catalogs: Option<ServedCatalogs>,
}

/// How a controller serves ClusterCatalogs.
#[derive(Debug, Clone)]
pub struct ServedCatalogs {
    /// The Secret of type `kubernetes.io/tls` with the certificate; without one, catalogs are served over plain HTTP.
    pub tls_secret: Option<String>,
}

/// The port of health and metrics.
const HTTP_PORT: u16 = 8080;
/// The port of ClusterCatalogs.
const CATALOGS_PORT: u16 = 8443;
/// The mount path of the certificate.
const CERTIFICATE: &str = "/var/run/opm-controller/tls";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the objects of a controller deployment, in creation order.
pub fn manifests(plan: &ManifestPlan) -> Vec<Value> {
    let labels = json!({"app.kubernetes.io/name": plan.name});
    let metadata = |namespace: Option<&str>, suffix: &str| {
        let mut metadata = json!({"name": format!("{}{suffix}", plan.name), "labels": labels});
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        metadata
    };
    let own = Some(plan.namespace.as_str());
    let watched = plan.watched.as_deref();
    let version = format!("{RBAC}/v1");
    let (role_kind, binding_kind) =
        if watched.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
    let subject = json!([{"kind": "ServiceAccount", "name": plan.name, "namespace": plan.namespace}]);
    let role_ref = |kind: &str, name: String| json!({"apiGroup": RBAC, "kind": kind, "name": name});
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(own, "")}),
        json!({"apiVersion": version, "kind": role_kind, "metadata": metadata(watched, ""), "rules": rules(plan)}),
        json!({
            "apiVersion": version, "kind": binding_kind, "metadata": metadata(watched, ""),
            "roleRef": role_ref(role_kind, plan.name.clone()), "subjects": subject,
        }),
        json!({
            "apiVersion": version, "kind": "Role", "metadata": metadata(own, "-lease"),
            "rules": [
                {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
                {
                    "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [plan.name],
                    "verbs": ["get", "update"],
                },
            ],
        }),
        json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": metadata(own, "-lease"),
            "roleRef": role_ref("Role", format!("{}-lease", plan.name)), "subjects": subject,
        }),
    ];
    if let Some(catalogs) = &plan.cluster_catalogs {
        let port = json!({"name": "catalogs", "port": catalogs.port(), "targetPort": "catalogs", "protocol": "TCP"});
        objects.push(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata(own, ""),
            "spec": {"selector": labels, "ports": [port]},
        }));
    }
    let mut deployment = deployment(plan, metadata(own, ""), &labels);
    if let Some(catalogs) = &plan.cluster_catalogs {
        serve(&mut deployment, catalogs);
    }
    objects.push(deployment);
    objects
}

impl ServedCatalogs {
    /// The service port: the default of the scheme, so that URLs need no port.
    fn port(&self) -> u16 {
        if self.tls_secret.is_some() { 443 } else { 80 }
    }

    fn arguments(&self, plan: &ManifestPlan) -> Vec<String> {
        let mut arguments = vec![
            "--olm=v1".to_owned(),
            format!("--catalogs-address=:{CATALOGS_PORT}"),
            format!("--external-address={}.{}.svc", plan.name, plan.namespace),
        ];
        if self.tls_secret.is_some() {
            arguments.extend([format!("--tls-cert={CERTIFICATE}/tls.crt"), format!("--tls-key={CERTIFICATE}/tls.key")]);
        }
        arguments
    }
}

/// Returns a container port. The protocol is part of its key, and older API servers do not default it in server-side apply.
fn container_port(name: &str, port: u16) -> Value {
    json!({"name": name, "containerPort": port, "protocol": "TCP"})
}

/// Adds what serving ClusterCatalogs needs to a Deployment: a volume for images, a port and a certificate.
fn serve(deployment: &mut Value, catalogs: &ServedCatalogs) {
    let pod = &mut deployment["spec"]["template"]["spec"];
    let mut volumes = vec![json!({"name": "images", "emptyDir": {}})];
    let mut mounts = vec![json!({"name": "images", "mountPath": "/tmp"})];
    if let Some(secret) = &catalogs.tls_secret {
        volumes.push(json!({"name": "tls", "secret": {"secretName": secret}}));
        mounts.push(json!({"name": "tls", "mountPath": CERTIFICATE, "readOnly": true}));
    }
    pod["volumes"] = volumes.into();
    let container = &mut pod["containers"][0];
    container["volumeMounts"] = mounts.into();
    container["ports"] = json!([container_port("http", HTTP_PORT), container_port("catalogs", CATALOGS_PORT)]);
    container["resources"] = json!({"requests": {"cpu": "10m", "memory": "128Mi"}});
}

/// The permissions of the controller: exactly what it uses.
fn rules(plan: &ManifestPlan) -> Value {
    if plan.cluster_catalogs.is_some() {
        let group = ResourceKind::CLUSTER_CATALOG.group;
        return json!([
            {"apiGroups": [group], "resources": ["clustercatalogs"], "verbs": ["list", "watch", "patch"]},
            {"apiGroups": [group], "resources": ["clustercatalogs/status"], "verbs": ["patch"]},
        ]);
    }
    let watched = plan.watched.as_deref();
    let mut namespaces = json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]});
    if let Some(watched) = watched {
        // The Role of a namespace can allow reading that namespace, whose labels state the pod security level.
        namespaces["resourceNames"] = json!([watched]);
    }
    json!([
        {"apiGroups": [ResourceKind::CATALOG_SOURCE.group], "resources": ["catalogsources"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [ResourceKind::CATALOG_SOURCE.group], "resources": ["catalogsources/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["services", "serviceaccounts"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["get", "create", "patch", "delete"]},
        namespaces,
    ])
}

fn deployment(plan: &ManifestPlan, metadata: Value, labels: &Value) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "http"}});
    let mut arguments = vec![
        "controller".to_owned(),
        format!("--http=:{HTTP_PORT}"),
        format!("--lease-name={}", plan.name),
        format!("--lease-namespace={}", plan.namespace),
    ];
    if let Some(watched) = &plan.watched {
        arguments.push(format!("--namespace={watched}"));
    }
    arguments.extend(plan.cluster_catalogs.iter().flat_map(|catalogs| catalogs.arguments(plan)));
    arguments.extend(plan.arguments.iter().cloned());
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": plan.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": plan.name,
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                        "weight": 100,
                        "podAffinityTerm": {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"},
                    }]}},
                    "containers": [{
                        "name": "controller",
                        "image": plan.image,
                        "command": ["/bin/opm"],
                        "args": arguments,
                        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                        "ports": [container_port("http", HTTP_PORT)],
                        "livenessProbe": probe("/healthz"),
                        "readinessProbe": probe("/readyz"),
                        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }],
                },
            },
        },
    })
}
