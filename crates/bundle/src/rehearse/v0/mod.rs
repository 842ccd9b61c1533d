//! OLM v0: derives the objects of a Subscription from a bundle.

mod apis;
mod deployments;
mod rights;
mod webhooks;

use std::collections::BTreeSet;

use fbc::version::Version;
use serde_json::{Value, json};

use crate::pointer::text;
use crate::rehearse::input::RehearsalInput;
use crate::rehearse::modes::{self, InstallModeType};
use crate::rehearse::served::{self, Availability};
use crate::rehearse::{ClusterRefusal, Note, display_name, names, v1};

/// The options of an installation.
#[derive(Debug, Clone)]
pub struct V0Install {
    /// The namespace of the Subscription.
    pub namespace: String,
    /// The namespaces of the OperatorGroup; `""` for all.
    pub targets: Vec<String>,
    /// The name of the OperatorGroup.
    pub group: String,
    /// `spec.config` of the Subscription.
    pub config: Option<Value>,
}

/// The objects that OLM v0 creates from a bundle.
#[derive(Debug, Clone, Default)]
pub struct V0Installation {
    /// The steps of the install plan, in order.
    pub plan: Vec<Value>,
    /// The objects that OLM derives from the CSV afterwards.
    pub derived: Vec<Value>,
    /// Notes for the user.
    pub notes: Vec<Note>,
}

impl V0Installation {
    /// Returns all objects in creation order.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.plan.iter().chain(&self.derived)
    }
}

/// The kinds that an install plan supports besides CSVs, CRDs and the core kinds of Kubernetes.
const PLAN_KINDS: [&str; 11] = [
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PriorityClass",
    "PrometheusRule",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];
const CORE_KINDS: [&str; 8] =
    ["ClusterRole", "ClusterRoleBinding", "ConfigMap", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount"];

/// Returns the objects that OLM v0 would create.
///
/// # Errors
/// Returns the error message of OLM if the installation would fail.
pub fn install(bundle: &RehearsalInput, options: &V0Install) -> Result<V0Installation, ClusterRefusal> {
    check_namespaces(options)?;
    for other in &bundle.others {
        let kind = text(other, "/kind");
        if !PLAN_KINDS.contains(&kind) && !CORE_KINDS.contains(&kind) {
            let message = format!("the InstallPlan contains invalid data: {kind} is not supported");
            return Err(ClusterRefusal { id: "olmv0-kind", message });
        }
    }
    let name = &bundle.name;
    check_targets(bundle, options)?;
    check_kubernetes(bundle)?;
    webhooks::check(bundle)?;
    let mut renderer = Renderer { bundle, options, plan: Vec::new(), derived: Vec::new(), notes: Vec::new() };
    renderer.csv();
    for crd in &bundle.crds {
        let mut crd = crd.clone();
        // An install plan applies objects as written, without the fields that types add.
        crd.as_object_mut().map(|crd| crd.remove("status"));
        renderer.add(crd);
    }
    renderer.others();
    renderer.rights();
    renderer.deployments();
    renderer.condition();
    renderer.api_roles();
    renderer.webhooks();
    if name.len() > names::LABEL {
        let message = format!(
            "the name {name} is {} characters long and becomes the label olm.owner: 63 is the most",
            name.len()
        );
        renderer.notes.push(Note {
            id: "size-label",
            refused: true,
            message,
            object: format!("ClusterServiceVersion {name}"),
        });
    }
    let Renderer { plan, derived, mut notes, .. } = renderer;
    for object in plan.iter().chain(&derived) {
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        // Steps of these kinds are decoded and sent as the type of that name, whatever API they name.
        if CORE_KINDS.contains(&kind) || matches!(kind, fbc::csv::KIND | "OperatorCondition") {
            continue;
        }
        // The steps before them create the CRDs of the bundle, and dependencies are installed with it.
        let served = served::served(version, kind);
        let (message, refused) = match served {
            Availability::Always => continue,
            _ if bundle.brings(version, kind) => continue,
            Availability::With(by) => (format!("needs {version} {kind}, which clusters have with {by}"), false),
            Availability::Never if bundle.requires(version, kind) => {
                (format!("needs {version} {kind}, which the bundle requires from another operator"), false)
            }
            Availability::Never => (format!("no current cluster knows {kind} in {version}"), true),
        };
        notes.push(Note { id: "rehearse-needs-api", refused, message, object: display_name(object) });
    }
    Ok(V0Installation { plan, derived, notes })
}

/// Returns why OLM v0 refuses a bundle, as far as the metadata in a catalog decides it.
pub fn refused_by_metadata(bundle: &RehearsalInput, options: &V0Install) -> Option<ClusterRefusal> {
    check_namespaces(options).and_then(|()| check_targets(bundle, options)).err()
}

fn check_namespaces(options: &V0Install) -> Result<(), ClusterRefusal> {
    let targets = options.targets.iter().filter(|target| !target.is_empty());
    std::iter::once(&options.namespace).chain(targets).try_for_each(|name| names::check_namespace(name))
}

/// Checks that an install mode of the bundle fits the OperatorGroup.
fn check_targets(bundle: &RehearsalInput, options: &V0Install) -> Result<(), ClusterRefusal> {
    let Err(reason) = modes::check_targets(&bundle.modes, &options.namespace, &options.targets) else { return Ok(()) };
    let missing = missing_mode(&options.targets, &options.namespace);
    let message = if bundle.modes.is_empty() {
        reason.to_string()
    } else {
        format!("{missing:?} InstallModeType not supported, cannot configure to watch {}", watched(options))
    };
    Err(ClusterRefusal { id: "olmv0-install-mode", message: format!("UnsupportedOperatorGroup: {message}") })
}

/// Checks that OLM can compare the Kubernetes version that the bundle needs with that of the cluster.
fn check_kubernetes(bundle: &RehearsalInput) -> Result<(), ClusterRefusal> {
    let needed = text(&bundle.csv, "/spec/minKubeVersion");
    if needed.is_empty() || Version::parse_strict(needed.strip_prefix('v').unwrap_or(needed)).is_ok() {
        return Ok(());
    }
    let message = format!("RequirementsNotMet: CSV version parsing error: minKubeVersion {needed:?}");
    Err(ClusterRefusal { id: "olmv0-min-kube-version", message })
}

fn missing_mode(targets: &[String], namespace: &str) -> InstallModeType {
    match targets {
        [only] if only.is_empty() => InstallModeType::AllNamespaces,
        [only] if only == namespace => InstallModeType::OwnNamespace,
        [_] => InstallModeType::SingleNamespace,
        _ => InstallModeType::MultiNamespace,
    }
}

fn watched(options: &V0Install) -> &'static str {
    match missing_mode(&options.targets, &options.namespace) {
        InstallModeType::AllNamespaces => "all namespaces",
        InstallModeType::OwnNamespace => "own namespace",
        InstallModeType::SingleNamespace => "one namespace",
        InstallModeType::MultiNamespace => "multiple namespaces",
    }
}

/// The installation under construction.
struct Renderer<'a> {
    bundle: &'a RehearsalInput,
    options: &'a V0Install,
    plan: Vec<Value>,
    derived: Vec<Value>,
    notes: Vec<Note>,
}

impl Renderer<'_> {
    /// Returns whether the operator watches all namespaces.
    fn everywhere(&self) -> bool {
        matches!(&*self.options.targets, [only] if only.is_empty())
    }

    /// Adds an object to the plan, with the label of OLM-managed objects.
    fn add(&mut self, mut object: Value) {
        managed(&mut object);
        self.plan.push(object);
    }

    /// Adds the CSV, with the annotations of its OperatorGroup.
    fn csv(&mut self) {
        let mut csv = self.bundle.csv.clone();
        csv["metadata"]["namespace"] = self.options.namespace.clone().into();
        let annotations = v1::part(&mut csv["metadata"], "annotations");
        for (key, value) in self.group_annotations() {
            annotations.insert(key.into(), value.into());
        }
        self.add(csv);
    }

    fn group_annotations(&self) -> [(&'static str, String); 3] {
        [
            ("olm.operatorGroup", self.options.group.clone()),
            ("olm.operatorNamespace", self.options.namespace.clone()),
            ("olm.targetNamespaces", self.options.targets.join(",")),
        ]
    }

    fn others(&mut self) {
        for other in &self.bundle.others {
            let mut object = other.clone();
            if served::namespaced(text(other, "/kind")) == Some(true) {
                v1::part(&mut object, "metadata").insert("namespace".into(), self.options.namespace.clone().into());
            } else {
                self.own(&mut object);
            }
            self.add(object);
        }
    }

    /// Labels an object that cannot have the CSV as its owner.
    fn own(&self, object: &mut Value) {
        let labels = v1::part(&mut object["metadata"], "labels");
        labels.insert("olm.owner".into(), self.bundle.name.clone().into());
        labels.insert("olm.owner.namespace".into(), self.options.namespace.clone().into());
        labels.insert("olm.owner.kind".into(), "ClusterServiceVersion".into());
    }

    /// Adds the OperatorCondition, and the right of all accounts to use it.
    fn condition(&mut self) {
        let (name, namespace) = (&self.bundle.name, &self.options.namespace);
        let metadata = json!({"name": name, "namespace": namespace, "labels": {"olm.managed": "true"}});
        let deployments: Vec<&str> = self.bundle.deployments.iter().map(|one| text(one, "/name")).collect();
        let accounts = self.accounts();
        self.derived.push(json!({
            "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition", "metadata": metadata,
            "spec": {"deployments": deployments, "serviceAccounts": accounts},
        }));
        let api = "rbac.authorization.k8s.io/v1";
        self.derived.push(json!({
            "apiVersion": api, "kind": "Role", "metadata": metadata,
            "rules": [{
                "apiGroups": ["operators.coreos.com"], "resources": ["operatorconditions"], "resourceNames": [name],
                "verbs": ["get", "update", "patch"],
            }],
        }));
        let subjects: Vec<Value> =
            accounts.iter().map(|account| json!({"kind": "ServiceAccount", "name": account})).collect();
        self.derived.push(json!({
            "apiVersion": api, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": subjects,
        }));
    }

    /// Returns the accounts of the deployments.
    fn accounts(&self) -> Vec<String> {
        let (mut accounts, mut seen) = (Vec::new(), BTreeSet::new());
        for deployment in &self.bundle.deployments {
            let name = match text(deployment, "/spec/template/spec/serviceAccountName") {
                "" => "default",
                name => name,
            };
            if seen.insert(name) {
                accounts.push(name.to_owned());
            }
        }
        accounts
    }
}

fn managed(object: &mut Value) {
    v1::part(&mut object["metadata"], "labels").insert("olm.managed".into(), "true".into());
}
