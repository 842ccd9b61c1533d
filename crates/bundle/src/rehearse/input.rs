//! A bundle as input for OLM v0 and v1.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::pointer::{list, text};
use crate::{BundleObject, ParsedBundle};
use serde_json::{Map, Value, json};

use crate::rehearse::modes::InstallModeType;
use crate::rehearse::{limits, typed};

/// The annotation of a CSV with properties.
const PROPERTIES: &str = "olm.properties";
/// The dependency types that OLM v1 does not support, in catalog order.
const DEPENDENCIES: [&str; 3] = ["olm.constraint", "olm.gvk.required", "olm.package.required"];

/// A bundle whose objects are converted to Kubernetes types.
#[derive(Debug, Clone)]
pub struct RehearsalInput {
    pub package: String,
    /// The name of the CSV.
    pub name: String,
    /// The version of the CSV, unparsed.
    pub version: String,
    /// The CSV, as written.
    pub csv: Value,
    /// The annotations of the CSV.
    pub annotations: BTreeMap<String, String>,
    pub crds: Vec<Value>,
    /// All other objects, as written.
    pub others: Vec<Value>,
    /// The supported install modes of the CSV.
    pub modes: Vec<InstallModeType>,
    /// The deployments of the CSV: `name`, `label` and `spec`.
    pub deployments: Vec<Value>,
    /// Namespaced rights: `serviceAccountName` and `rules`.
    pub permissions: Vec<Value>,
    /// Cluster-wide rights.
    pub cluster_permissions: Vec<Value>,
    /// The webhooks of the CSV.
    pub webhooks: Vec<Value>,
    /// The types of dependencies that OLM v1 does not support.
    pub dependencies: Vec<&'static str>,
    /// Fields that are dropped because the Kubernetes types do not know them.
    pub unknown: Vec<DroppedField>,
    /// The error message of OLM v1, if it rejects the directory.
    pub refused: Option<String>,
    /// The omitted bytes per CRD, if [`RehearsalInput::without_schemas`] omitted schemas.
    pub(crate) omitted: OmittedBytes,
}

/// The number of omitted bytes by CRD name.
pub(crate) type OmittedBytes = BTreeMap<String, usize>;

/// A field that is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedField {
    pub file: String,
    /// The index of the document in the file.
    pub document: usize,
    /// The JSON pointer of the field.
    pub pointer: String,
}

impl RehearsalInput {
    /// Creates the input from a bundle.
    pub fn new(whole: &ParsedBundle) -> RehearsalInput {
        RehearsalInput::of(whole.objects.iter().map(Cow::Borrowed), whole.csv_index(), whole)
    }

    /// Creates the input from an owned bundle, which needs less memory.
    fn from_owned(mut whole: ParsedBundle) -> RehearsalInput {
        let csv = whole.csv_index();
        let objects = std::mem::take(&mut whole.objects);
        RehearsalInput::of(objects.into_iter().map(Cow::Owned), csv, &whole)
    }

    /// Creates the input without the schemas of CRDs, which count only by size.
    ///
    /// No check of an installation reads a schema, and schemas are most of a bundle. The sizes are those for OLM v0 and
    /// for Helm. Boxcutter compresses objects, which requires complete ones.
    pub fn without_schemas(whole: ParsedBundle) -> RehearsalInput {
        let mut bundle = RehearsalInput::from_owned(whole);
        // A release of this size is measured by compressing it, which requires the complete objects.
        let sizes: Vec<usize> = bundle.crds.iter().map(limits::length).collect();
        if sizes.iter().sum::<usize>() > limits::RELEASE / 2 {
            return bundle;
        }
        for (crd, size) in bundle.crds.iter_mut().zip(sizes) {
            let spec = crd.pointer_mut("/spec").and_then(Value::as_object_mut);
            let Some(Value::Array(versions)) = spec.and_then(|spec| spec.get_mut("versions")) else { continue };
            for version in versions.iter_mut().filter_map(Value::as_object_mut) {
                version.swap_remove("schema");
            }
            let name = text(crd, "/metadata/name").to_owned();
            let omitted = bundle.omitted.entry(name).or_default();
            *omitted = (*omitted).max(size - limits::length(crd));
        }
        bundle
    }

    /// Creates the input from objects, the index of the CSV among them, and the rest of their bundle.
    fn of<'a>(
        objects: impl Iterator<Item = Cow<'a, BundleObject>>,
        csv_at: Option<usize>,
        whole: &ParsedBundle,
    ) -> RehearsalInput {
        let mut bundle = RehearsalInput {
            package: whole.package.clone(),
            name: String::new(),
            version: String::new(),
            csv: Value::Null,
            annotations: BTreeMap::new(),
            crds: Vec::new(),
            others: Vec::new(),
            modes: Vec::new(),
            deployments: Vec::new(),
            permissions: Vec::new(),
            cluster_permissions: Vec::new(),
            webhooks: Vec::new(),
            dependencies: Vec::new(),
            unknown: Vec::new(),
            refused: whole.refused.clone(),
            omitted: OmittedBytes::new(),
        };
        let mut csv = None;
        for (index, object) in objects.enumerate() {
            match object.kind() {
                _ if csv_at == Some(index) => csv = Some(object),
                "ClusterServiceVersion" => {}
                "CustomResourceDefinition" => bundle.add_crd(object.into_owned()),
                _ => bundle.others.push(object.into_owned().value),
            }
        }
        if let Some(csv) = csv {
            bundle.add_csv(csv.into_owned(), whole);
        }
        bundle
    }

    fn add_crd(&mut self, object: BundleObject) {
        let mut dropped = Vec::new();
        let named = ["apiVersion", "kind"].map(|field| (field, object.value.get(field).cloned().unwrap_or_default()));
        let mut crd = typed::convert("CustomResourceDefinition", object.value, "", &mut dropped);
        for (field, value) in named {
            crd[field] = value;
        }
        self.crds.push(crd);
        let dropped = dropped.into_iter().filter(|pointer| !matches!(&**pointer, "/apiVersion" | "/kind"));
        self.unknown.extend(dropped.map(|pointer| DroppedField {
            file: object.file.clone(),
            document: object.document,
            pointer,
        }));
    }

    fn add_csv(&mut self, object: BundleObject, whole: &ParsedBundle) {
        let csv = &object.value;
        self.name = text(csv, "/metadata/name").to_owned();
        self.version = text(csv, "/spec/version").to_owned();
        for (key, value) in csv.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten() {
            self.annotations.insert(key.clone(), value.as_str().unwrap_or_default().to_owned());
        }
        for mode in list(csv, "/spec/installModes") {
            let supported = mode.get("supported").and_then(Value::as_bool) == Some(true);
            if let Some(mode) =
                InstallModeType::parse(text(mode, "/type")).filter(|mode| supported && !self.modes.contains(mode))
            {
                self.modes.push(mode);
            }
        }
        self.modes.sort();
        let mut dropped = Vec::new();
        let mut typed = |pointer: &str, kind: &str| -> Vec<Value> {
            let items = list(csv, pointer).iter().enumerate();
            items
                .map(|(at, item)| typed::convert(kind, item.clone(), &format!("{pointer}/{at}"), &mut dropped))
                .collect()
        };
        const STRATEGY: &str = "/spec/install/spec";
        self.deployments = typed(&format!("{STRATEGY}/deployments"), "StrategyDeploymentSpec");
        self.permissions = typed(&format!("{STRATEGY}/permissions"), "StrategyDeploymentPermissions");
        self.cluster_permissions = typed(&format!("{STRATEGY}/clusterPermissions"), "StrategyDeploymentPermissions");
        self.webhooks = typed("/spec/webhookdefinitions", "WebhookDescription");
        self.unknown.extend(dropped.into_iter().map(|pointer| DroppedField {
            file: object.file.clone(),
            document: object.document,
            pointer,
        }));
        self.csv = object.value;
        self.add_properties(whole);
        self.find_dependencies(whole);
    }

    /// Adds the properties from `metadata/` to those of the annotation.
    fn add_properties(&mut self, whole: &ParsedBundle) {
        let annotated = match self.annotations.get(PROPERTIES).map(|text| serde_json::from_str::<Value>(text)) {
            None => Vec::new(),
            Some(Ok(Value::Array(listed))) => listed,
            Some(Ok(Value::Null)) => Vec::new(),
            Some(Ok(_)) => {
                return self.refuse(
                    "failed to unmarshal csv.metadata.annotations['olm.properties']: json: cannot unmarshal object \
                     into Go value of type []property.Property",
                );
            }
            Some(Err(error)) => {
                let reason = format!("failed to unmarshal csv.metadata.annotations['olm.properties']: {error}");
                return self.refuse(&reason);
            }
        };
        if whole.properties.is_empty() {
            return;
        }
        let all = annotated.iter().chain(&whole.properties).map(|listed| {
            let mut kept = Map::new();
            kept.insert("type".into(), listed.get("type").cloned().unwrap_or_else(|| "".into()));
            kept.insert("value".into(), listed.get("value").cloned().unwrap_or_default());
            Value::Object(kept)
        });
        let mut written = String::new();
        for property in all {
            written.push(if written.is_empty() { '[' } else { ',' });
            written.push_str(&property.to_string());
        }
        written.push(']');
        let mut escaped = String::new();
        for c in written.chars() {
            match c {
                '<' | '>' | '&' => escaped.push_str(&format!("\\u{:04x}", c as u32)),
                c => escaped.push(c),
            }
        }
        self.annotations.insert(PROPERTIES.into(), escaped);
    }

    fn refuse(&mut self, reason: &str) {
        self.refused.get_or_insert_with(|| reason.to_owned());
    }

    fn find_dependencies(&mut self, whole: &ParsedBundle) {
        let requires = |field: &str| !list(&self.csv, &format!("/spec/{field}/required")).is_empty();
        let required = requires("customresourcedefinitions") || requires("apiservicedefinitions");
        let listed: Vec<&str> = whole.dependencies.iter().map(|listed| text(listed, "/type")).collect();
        let annotated = self.annotations.get(PROPERTIES).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let annotated = annotated.unwrap_or(json!([]));
        let has = |wanted: &str| list(&annotated, "").iter().any(|listed| text(listed, "/type") == wanted);
        for dependency in DEPENDENCIES {
            let short = dependency.strip_suffix(".required").unwrap_or(dependency);
            let named = listed.iter().any(|&listed| listed == short || listed == dependency) || has(dependency);
            if named || dependency == "olm.gvk.required" && required {
                self.dependencies.push(dependency);
            }
        }
    }

    /// Returns whether the bundle supports an install mode.
    pub fn supports(&self, mode: InstallModeType) -> bool {
        self.modes.contains(&mode)
    }

    /// Returns whether a CRD of the bundle serves a kind.
    pub(crate) fn brings(&self, api_version: &str, kind: &str) -> bool {
        let Some((group, version)) = api_version.split_once('/') else { return false };
        let serves = |served: &Value| {
            text(served, "/name") == version && served.get("served").and_then(Value::as_bool) == Some(true)
        };
        self.crds.iter().any(|crd| {
            text(crd, "/spec/group") == group
                && text(crd, "/spec/names/kind") == kind
                && list(crd, "/spec/versions").iter().any(serves)
        })
    }

    /// Returns whether the bundle requires a CRD that serves a kind.
    pub(crate) fn requires(&self, api_version: &str, kind: &str) -> bool {
        let Some((group, version)) = api_version.split_once('/') else { return false };
        list(&self.csv, "/spec/customresourcedefinitions/required").iter().any(|required| {
            let of_group = text(required, "/name").split_once('.').is_some_and(|(_, of)| of == group);
            of_group && text(required, "/version") == version && text(required, "/kind") == kind
        })
    }

    /// Returns the names of the deployments that serve webhooks.
    pub(crate) fn webhook_deployments(&self) -> BTreeSet<&str> {
        self.webhooks.iter().map(|webhook| text(webhook, "/deploymentName")).collect()
    }
}
