//! Typed views of Kubernetes objects: the fields that opm reads or writes.
//!
//! An empty text or list stands for an absent field, as in OLM's own types. A view that is written back keeps all
//! other fields of each level in `rest`, because an update replaces whole objects. A value of the wrong type is an
//! error that names the object and the field.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::catalog_source::CatalogSpec;
use crate::request::ObjectName;
use crate::{ClusterObject, Error, ResourceKind};

/// The fields that a view does not name.
pub(crate) type Rest = Map<String, Value>;

/// A view of the objects of a kind.
pub(crate) trait View: DeserializeOwned {
    const KIND: ResourceKind;

    fn metadata(&self) -> &ObjectMeta;

    /// Returns the name of the object.
    fn object_name(&self) -> ObjectName {
        ObjectName::named(Self::KIND, self.metadata())
    }

    /// Returns the reference by which other objects name this one as their owner.
    fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: Self::KIND.api_version(),
            kind: Self::KIND.kind.to_owned(),
            name: self.metadata().name().to_owned(),
            uid: self.metadata().uid().to_owned(),
            ..OwnerReference::default()
        }
    }

    /// Returns the view of an object.
    fn of(object: &ClusterObject) -> Result<Self, Error> {
        decode(json!(object))
    }
}

/// Returns the view of an object.
pub(crate) fn decode<K: View>(object: Value) -> Result<K, Error> {
    readable(&object, || {
        let [namespace, name] = ["namespace", "name"].map(|field| text(&object["metadata"][field]));
        ObjectName::new(K::KIND, namespace, name).to_string()
    })
}

/// Reads an object, or names it and the field that cannot be read.
fn readable<T: DeserializeOwned>(object: &Value, name: impl FnOnce() -> String) -> Result<T, Error> {
    T::deserialize(object).map_err(|source| {
        let field = wrong_field(object, &|part| T::deserialize(part).is_err()).trim_start_matches('.').to_owned();
        Error::Field { object: name(), field, source }
    })
}

/// Returns a text for a message; empty if the value is not a text.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// Returns the path of a value that cannot be decoded: `fails` returns whether a part of the whole alone fails, which
/// works because no field is required.
fn wrong_field(value: &Value, fails: &dyn Fn(Value) -> bool) -> String {
    let (step, inner, within): (String, &Value, Box<dyn Fn(Value) -> Value>) = match value {
        Value::Object(fields) if !fails(json!({})) => {
            match fields.iter().find(|(key, value)| fails(json!({ key.as_str(): value }))) {
                Some((key, inner)) => (format!(".{key}"), inner, Box::new(move |part| json!({ key.as_str(): part }))),
                None => return String::new(),
            }
        }
        Value::Array(items) if !fails(json!([])) => match items.iter().position(|item| fails(json!([item]))) {
            Some(at) => (format!("[{at}]"), &items[at], Box::new(|part| json!([part]))),
            None => return String::new(),
        },
        _ => return String::new(),
    };
    step + &wrong_field(inner, &|part| fails(within(part)))
}

/// The kind of any object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Identity {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

/// The kind and the metadata of any object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AnyObject {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) metadata: ObjectMeta,
}

impl AnyObject {
    /// Reads an object that may come from a user, not from an API server.
    pub(crate) fn of(object: &Value) -> Result<AnyObject, Error> {
        readable(object, || format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"])))
    }
}

/// The fields of metadata that an API server sets, or requires, in every object; empty in a description of an object
/// that has none of its own.
pub(crate) trait Stored {
    fn name(&self) -> &str;
    /// The namespace; empty for a cluster-scoped object.
    fn namespace(&self) -> &str;
    fn uid(&self) -> &str;
    /// The number of changes to the spec.
    fn generation(&self) -> i64;
    fn owners(&self) -> &[OwnerReference];
}

impl Stored for ObjectMeta {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.uid.as_deref().unwrap_or_default()
    }

    fn generation(&self) -> i64 {
        self.generation.unwrap_or_default()
    }

    fn owners(&self) -> &[OwnerReference] {
        self.owner_references.as_deref().unwrap_or_default()
    }
}

/// Returns a label of an object.
pub(crate) fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Returns an annotation of an object; empty if it has none.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> &'a str {
    metadata.annotations.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str)
}

/// Sets an annotation of an object.
pub(crate) fn annotate(metadata: &mut ObjectMeta, key: &str, value: impl Into<String>) {
    metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.into());
}

/// Returns whether the owner with a uid owns an object.
pub(crate) fn is_owned(metadata: &ObjectMeta, owner: Option<&str>) -> bool {
    owner.is_some_and(|uid| metadata.owners().iter().any(|owner| owner.uid == uid))
}

/// Keeps only the metadata that describes an object to create or print.
pub(crate) fn described(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        labels: metadata.labels.clone(),
        annotations: metadata.annotations.clone(),
        ..ObjectMeta::default()
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads null as an absent field: Go writes it for an empty list, map or time.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// An object with a spec and a status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[serde(bound(
    serialize = "Spec: Serialize, Status: Serialize + Default + PartialEq",
    deserialize = "Spec: Default + Deserialize<'de>, Status: Default + Deserialize<'de>"
))]
pub(crate) struct Resource<Spec, Status> {
    /// Lists omit the version and the kind of their items.
    #[serde(rename = "apiVersion", skip_serializing_if = "is_default")]
    pub(crate) api_version: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) kind: String,
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) status: Status,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

/// The spec of a kind.
pub(crate) trait Spec: Default + DeserializeOwned {
    const KIND: ResourceKind;
}

impl<S: Spec, Status: Default + DeserializeOwned> View for Resource<S, Status> {
    const KIND: ResourceKind = S::KIND;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl<S: Spec, Status: Default> Resource<S, Status> {
    /// Returns a new object.
    pub(crate) fn new(metadata: ObjectMeta, spec: S) -> Resource<S, Status> {
        Resource {
            api_version: S::KIND.api_version(),
            kind: S::KIND.kind.to_owned(),
            metadata,
            spec,
            status: Status::default(),
            rest: Rest::new(),
        }
    }
}

/// A condition of any kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) last_transition_time: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl Condition {
    pub(crate) fn is_true(&self) -> bool {
        self.status == "True"
    }

    pub(crate) fn is_false(&self) -> bool {
        self.status == "False"
    }
}

/// Returns the condition of a type.
pub(crate) fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

// OLM v0.

/// A request for an operator.
pub(crate) type Subscription = Resource<SubscriptionSpec, SubscriptionStatus>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SubscriptionSpec {
    /// The package.
    pub(crate) name: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) channel: String,
    #[serde(rename = "startingCSV", skip_serializing_if = "is_default")]
    pub(crate) starting_csv: String,
    pub(crate) source: String,
    pub(crate) source_namespace: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) install_plan_approval: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SubscriptionStatus {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) install_plan_ref: Option<PlanReference>,
    #[serde(rename = "installedCSV", skip_serializing_if = "is_default")]
    pub(crate) installed_csv: String,
    #[serde(rename = "currentCSV", skip_serializing_if = "is_default")]
    pub(crate) current_csv: String,
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PlanReference {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl SubscriptionStatus {
    /// Returns the name of the InstallPlan.
    pub(crate) fn install_plan(&self) -> Option<&str> {
        self.install_plan_ref.as_ref().map(|plan| plan.name.as_str())
    }

    /// Returns the installed version. The status lags behind OLM: at first it names only the version of the last plan.
    pub(crate) fn version(&self) -> &str {
        if self.installed_csv.is_empty() { &self.current_csv } else { &self.installed_csv }
    }
}

impl Spec for SubscriptionSpec {
    const KIND: ResourceKind = ResourceKind::SUBSCRIPTION;
}

/// The objects that OLM is going to create.
pub(crate) type InstallPlan = Resource<InstallPlanSpec, InstallPlanStatus>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct InstallPlanSpec {
    pub(crate) approved: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) cluster_service_version_names: Vec<String>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct InstallPlanStatus {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) phase: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) bundle_lookups: Vec<BundleLookup>,
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) plan: Vec<PlanStep>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BundleLookup {
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

/// One object that a plan creates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PlanStep {
    /// The version that needs it.
    pub(crate) resolving: String,
    pub(crate) status: String,
    pub(crate) resource: StepResource,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StepResource {
    pub(crate) kind: String,
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl Spec for InstallPlanSpec {
    const KIND: ResourceKind = ResourceKind::INSTALL_PLAN;
}

/// An operator version.
pub(crate) type ClusterServiceVersion = Resource<CsvSpec, CsvStatus>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct CsvSpec {
    #[serde(deserialize_with = "or_default")]
    pub(crate) version: String,
    pub(crate) install: InstallStrategy,
    #[serde(rename = "customresourcedefinitions")]
    pub(crate) definitions: Definitions,
    #[serde(rename = "installModes", deserialize_with = "or_default")]
    pub(crate) install_modes: Vec<SupportedMode>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct InstallStrategy {
    pub(crate) spec: StrategySpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct StrategySpec {
    #[serde(deserialize_with = "or_default")]
    pub(crate) deployments: Vec<Named>,
}

/// The CRDs that an operator version owns and requires.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Definitions {
    #[serde(deserialize_with = "or_default")]
    pub(crate) owned: Vec<Named>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) required: Vec<Named>,
}

/// Anything with a name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct SupportedMode {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) supported: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CsvStatus {
    pub(crate) phase: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) requirement_status: Vec<CsvRequirement>,
}

/// A requirement of an operator version, or one of its parts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct CsvRequirement {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) message: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) dependents: Vec<CsvRequirement>,
}

impl Spec for CsvSpec {
    const KIND: ResourceKind = ResourceKind::CSV;
}

/// A catalog that OLM installs operators from.
pub(crate) type CatalogSource = Resource<CatalogSpec, CatalogStatus>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CatalogStatus {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) latest_image_registry_poll: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) connection_state: ConnectionState,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) registry_service: RegistryService,
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ConnectionState {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) address: String,
    /// Empty until OLM has connected.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) last_observed_state: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) last_connect: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RegistryService {
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) created_at: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl Spec for CatalogSpec {
    const KIND: ResourceKind = ResourceKind::CATALOG_SOURCE;
}

/// A CatalogSource whose spec may be invalid.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct CatalogSourceStatus {
    pub(crate) metadata: ObjectMeta,
    pub(crate) status: CatalogStatus,
}

impl View for CatalogSourceStatus {
    const KIND: ResourceKind = ResourceKind::CATALOG_SOURCE;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// The namespaces that operators of a namespace watch.
pub(crate) type OperatorGroup = Resource<OperatorGroupSpec, OperatorGroupStatus>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct OperatorGroupSpec {
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) target_namespaces: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) selector: Option<Selector>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OperatorGroupStatus {
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) namespaces: Vec<String>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl Spec for OperatorGroupSpec {
    const KIND: ResourceKind = ResourceKind::OPERATOR_GROUP;
}

// OLM v1.

/// A catalog of OLM v1.
pub(crate) type ClusterCatalog = Resource<ClusterCatalogSpec, ClusterCatalogStatus>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClusterCatalogSpec {
    pub(crate) source: ImageSource,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) priority: Option<i64>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) availability_mode: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

/// Where the content comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ImageSource {
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub(crate) kind: String,
    pub(crate) image: SourceImage,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SourceImage {
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) poll_interval_minutes: Option<u64>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClusterCatalogStatus {
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) resolved_source: Option<ImageSource>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) urls: Option<Urls>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) last_unpacked: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Urls {
    pub(crate) base: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl Spec for ClusterCatalogSpec {
    const KIND: ResourceKind = ResourceKind::CLUSTER_CATALOG;
}

/// A request for an operator, in OLM v1.
pub(crate) type ClusterExtension = Resource<ClusterExtensionSpec, ClusterExtensionStatus>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClusterExtensionSpec {
    pub(crate) namespace: String,
    pub(crate) source: ExtensionSource,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) service_account: Option<Account>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) config: Option<ExtensionConfig>,
    /// How OLM v1 installs it.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) install: Option<Value>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ExtensionSource {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) source_type: String,
    pub(crate) catalog: CatalogFilter,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

/// Which versions of which package OLM v1 may install.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CatalogFilter {
    pub(crate) package_name: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) version: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) selector: Option<Selector>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

/// A selection of objects by labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Selector {
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) match_labels: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl Selector {
    /// Returns whether it has no requirements.
    pub(crate) fn matches_all(&self) -> bool {
        let expressions = self.rest.get("matchExpressions").and_then(Value::as_array);
        self.match_labels.is_empty() && expressions.is_none_or(Vec::is_empty)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Account {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ExtensionConfig {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) config_type: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) inline: InlineConfig,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

/// The configuration that the bundle defines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct InlineConfig {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) watch_namespace: Option<String>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterExtensionStatus {
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) install: Option<InstallStatus>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct InstallStatus {
    pub(crate) bundle: InstalledBundle,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct InstalledBundle {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl Spec for ClusterExtensionSpec {
    const KIND: ResourceKind = ResourceKind::CLUSTER_EXTENSION;
}

// Kubernetes.

/// A pod, for reading.
pub(crate) type PodView = Resource<PodSpec, PodStatus>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    pub(crate) init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) working_dir: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) command: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) args: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) image: String,
    #[serde(rename = "imageID")]
    pub(crate) image_id: String,
    pub(crate) ready: bool,
    pub(crate) state: ContainerState,
    pub(crate) last_state: ContainerState,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) waiting: Option<Waiting>,
    pub(crate) terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Waiting {
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Terminated {
    pub(crate) exit_code: i64,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Spec for PodSpec {
    const KIND: ResourceKind = ResourceKind::POD;
}

/// A deployment, for reading.
pub(crate) type Deployment = Resource<DeploymentSpec, Conditions>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct DeploymentSpec {
    pub(crate) selector: Selector,
    pub(crate) template: PodTemplate,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PodTemplate {
    pub(crate) spec: PodSpec,
}

/// A status of which only the conditions are read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    #[serde(deserialize_with = "or_default")]
    pub(crate) conditions: Vec<Condition>,
}

impl Spec for DeploymentSpec {
    const KIND: ResourceKind = ResourceKind::DEPLOYMENT;
}

/// A job, for reading.
pub(crate) type Job = Resource<JobSpec, Conditions>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct JobSpec {}

impl Spec for JobSpec {
    const KIND: ResourceKind = ResourceKind::JOB;
}

/// A certificate, for reading.
pub(crate) type Certificate = Resource<CertificateSpec, Conditions>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct CertificateSpec {}

impl Spec for CertificateSpec {
    const KIND: ResourceKind = ResourceKind::CERTIFICATE;
}

/// An event, for reading.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    pub(crate) metadata: ObjectMeta,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) reason: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) message: String,
}

impl View for Event {
    const KIND: ResourceKind = ResourceKind::EVENT;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// A custom resource definition, for reading.
pub(crate) type Definition = Resource<DefinitionSpec, Conditions>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct DefinitionSpec {
    pub(crate) group: String,
    pub(crate) names: DefinitionNames,
    #[serde(deserialize_with = "or_default")]
    pub(crate) versions: Vec<DefinitionVersion>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct DefinitionNames {
    pub(crate) kind: String,
    pub(crate) plural: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct DefinitionVersion {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) schema: DefinitionSchema,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct DefinitionSchema {
    #[serde(rename = "openAPIV3Schema")]
    pub(crate) open_api: Schema,
}

/// The fields of an object, as far as they are read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Schema {
    #[serde(deserialize_with = "or_default")]
    pub(crate) required: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) properties: BTreeMap<String, Schema>,
}

impl Spec for DefinitionSpec {
    const KIND: ResourceKind = ResourceKind::CRD;
}

/// A custom resource definition whose metadata is changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DefinitionMetadata {
    pub(crate) metadata: ObjectMeta,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl View for DefinitionMetadata {
    const KIND: ResourceKind = ResourceKind::CRD;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ConfigMap {
    pub(crate) metadata: ObjectMeta,
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) data: BTreeMap<String, String>,
    /// The values in base64.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) binary_data: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl View for ConfigMap {
    const KIND: ResourceKind = ResourceKind::CONFIG_MAP;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// Permissions in the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterRole {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub(crate) rules: Vec<Value>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl View for ClusterRole {
    const KIND: ResourceKind = ResourceKind::CLUSTER_ROLE;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// The lock of a leader.
pub(crate) type Lease = Resource<LeaseSpec, Rest>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct LeaseSpec {
    #[serde(deserialize_with = "or_default")]
    pub(crate) holder_identity: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) lease_duration_seconds: u64,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) acquire_time: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub(crate) renew_time: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) lease_transitions: u64,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

impl Spec for LeaseSpec {
    const KIND: ResourceKind = ResourceKind::LEASE;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a field to each level of an object that can have fields that opm does not know.
    fn with_foreign_fields(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (key, inner) in fields.iter_mut() {
                    // Only the API server defines metadata, and only users the keys of the others.
                    if !matches!(key.as_str(), "metadata" | "matchLabels" | "nodeSelector" | "data" | "binaryData") {
                        with_foreign_fields(inner);
                    }
                }
                fields.insert("foreign".into(), json!({"null": null, "list": [1, "", {}]}));
            }
            Value::Array(items) => items.iter_mut().for_each(with_foreign_fields),
            _ => {}
        }
    }

    /// Checks that an object is written as it was read, with all fields.
    fn round_trip<K: View + Serialize>(fields: Value) {
        let mut object = json!({
            "apiVersion": K::KIND.api_version(), "kind": K::KIND.kind,
            "metadata": {"name": "a", "labels": {"l": "v"}, "annotations": {"a": ""}, "uid": "u", "resourceVersion": "1"},
        });
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        with_foreign_fields(&mut object);
        assert_eq!(json!(decode::<K>(object.clone()).unwrap()), object);
    }

    #[test]
    fn a_written_object_keeps_the_fields_of_others_on_every_level() {
        let condition = json!({"type": "t", "status": "True", "reason": "r", "message": "m", "observedGeneration": 1});
        let image = json!({"type": "Image", "image": {"ref": "r.test/a:v1", "pollIntervalMinutes": 1}});
        round_trip::<Subscription>(json!({
            "spec": {"name": "n", "source": "s", "sourceNamespace": "o", "startingCSV": "v", "config": {"env": []}},
            "status": {"installPlanRef": {"name": "p"}, "installedCSV": "v", "conditions": [condition]},
        }));
        round_trip::<InstallPlan>(json!({
            "spec": {"approved": false, "clusterServiceVersionNames": ["v"]},
            "status": {
                "phase": "p", "conditions": [condition], "bundleLookups": [{"conditions": [condition]}],
                "plan": [{"resolving": "v", "status": "Created", "resource": {"kind": "k", "name": "n"}}],
            },
        }));
        round_trip::<CatalogSource>(json!({
            "spec": {
                "sourceType": "grpc", "image": "i", "secrets": ["s"], "updateStrategy": {"registryPoll": {"interval": "1m"}},
                "grpcPodConfig": {
                    "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}], "affinity": {}, "memoryTarget": "1Gi",
                    "extractContent": {"catalogDir": "/c", "cacheDir": "/d"},
                },
            },
            "status": {"connectionState": {"address": "a"}, "registryService": {"createdAt": "t"}, "conditions": [condition]},
        }));
        round_trip::<OperatorGroup>(
            json!({"spec": {"targetNamespaces": ["a"], "selector": {"matchLabels": {"a": "b"}}}, "status": {"namespaces": ["a"]}}),
        );
        round_trip::<ClusterCatalog>(json!({
            "spec": {"source": image, "priority": 0, "availabilityMode": "Available"},
            "status": {"conditions": [condition], "resolvedSource": image, "urls": {"base": "b"}},
        }));
        round_trip::<ClusterExtension>(json!({
            "spec": {
                "namespace": "n",
                "source": {"sourceType": "Catalog", "catalog": {
                    "packageName": "p", "version": "1", "selector": {"matchLabels": {"a": "b"}}}},
                "serviceAccount": {"name": "s"},
                "config": {"configType": "Inline", "inline": {"watchNamespace": "w"}},
                "install": {"preflight": {}},
            },
            "status": {"conditions": [condition], "install": {"bundle": {"name": "b"}}},
        }));
        round_trip::<DefinitionMetadata>(json!({"spec": {"group": "g"}, "status": {"conditions": [condition]}}));
        round_trip::<ConfigMap>(json!({"data": {"a": "b"}, "binaryData": {"c": "ZA=="}, "immutable": false}));
        round_trip::<ClusterRole>(json!({"rules": [{"verbs": ["get"]}], "aggregationRule": {}}));
        round_trip::<Lease>(json!({"spec": {
            "holderIdentity": "h", "leaseDurationSeconds": 1, "acquireTime": "t", "leaseTransitions": 2, "strategy": "s"}}));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named() {
        let metadata = json!({"namespace": "ns", "name": "a"});
        let text = decode::<Subscription>(json!({"metadata": metadata, "spec": {"name": "n", "channel": 3}}));
        assert_eq!(
            text.unwrap_err().to_string(),
            "Subscription ns/a: the field spec.channel cannot be read: invalid type: integer `3`, expected a string"
        );
        let steps = json!([{"resource": {"kind": "k"}}, {"resource": {"kind": "k", "name": ["n"]}}]);
        let plan = decode::<InstallPlan>(json!({"metadata": metadata, "status": {"phase": true, "plan": steps}}));
        assert!(plan.unwrap_err().to_string().contains("the field status.phase cannot be read"));
        let plan = decode::<InstallPlan>(json!({"metadata": metadata, "status": {"plan": steps}}));
        assert!(plan.unwrap_err().to_string().contains("the field status.plan[1].resource.name cannot be read"));
        let source = decode::<CatalogSource>(json!({"metadata": {"name": 1, "namespace": "ns"}}));
        assert!(source.unwrap_err().to_string().contains("the field metadata.name cannot be read"));
    }

    #[test]
    fn a_status_that_lags_behind_names_the_installed_version() {
        let version =
            |status: Value| decode::<Subscription>(json!({"status": status})).unwrap().status.version().to_owned();
        assert_eq!(version(json!({"currentCSV": "foo.v1"})), "foo.v1");
        assert_eq!(version(json!({"currentCSV": "foo.v2", "installedCSV": "foo.v1"})), "foo.v1");
        assert_eq!(version(json!({})), "");
    }

    #[test]
    fn null_stands_for_an_absent_list_map_or_time() {
        let metadata = json!({"name": "a", "namespace": "ns", "creationTimestamp": null});
        let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": null});
        let pod = json!({"metadata": metadata, "spec": {"containers": null},
            "status": {"conditions": [condition], "containerStatuses": null}});
        assert_eq!(decode::<PodView>(pod).unwrap().status.conditions[0].status, "True");
        let plan = json!({"metadata": metadata, "spec": {"clusterServiceVersionNames": null},
            "status": {"conditions": null, "bundleLookups": null, "plan": null}});
        assert_eq!(decode::<InstallPlan>(plan).unwrap().status.plan, []);
        let group = json!({"metadata": metadata, "spec": {"targetNamespaces": null}, "status": {"namespaces": null}});
        assert!(decode::<OperatorGroup>(group).unwrap().spec.target_namespaces.is_empty());
        let source = json!({"metadata": metadata, "spec": {"sourceType": "grpc", "secrets": null}});
        assert!(decode::<CatalogSource>(source).unwrap().spec.secrets.is_empty());
    }
}
