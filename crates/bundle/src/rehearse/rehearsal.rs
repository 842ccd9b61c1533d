//! Rehearses bundles: from a request to a report.
//!
//! [`Rehearse::predict`] is the only place that decides what OLM does with a bundle. `bundle validate` asks it for its
//! suites, `run bundle` before it installs, and [`rehearse`] for the whole report.

use std::collections::{BTreeMap, BTreeSet};

use fbc::fault::{Class, Fault};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::finding::{Finding, FindingCounts, Findings, Severity};
use crate::loaded::LoadedBundle;
use crate::pointer::text;
use crate::rehearse::input::RehearsalInput;
use crate::rehearse::installer::{Installer, installer};
use crate::rehearse::limits::{self, Level, Limit, OlmTarget};
use crate::rehearse::v1::{CertificateProvider, Profile, Runtime};
use crate::rehearse::{ClusterRefusal, InstallModeType, Note, ObjectChange, display_name, upgrade, v0, v1};
use crate::review::crd::{self, Rules};
use crate::whole::ParsedBundle;

/// A generation of OLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OlmGeneration {
    /// OLM v0: Subscriptions.
    V0,
    /// OLM v1: ClusterExtensions.
    V1,
}

impl OlmGeneration {
    /// Returns the other generation.
    #[must_use]
    pub fn other(self) -> OlmGeneration {
        match self {
            OlmGeneration::V0 => OlmGeneration::V1,
            OlmGeneration::V1 => OlmGeneration::V0,
        }
    }

    /// Returns the suite of checks for this generation.
    pub(crate) fn suite(self) -> &'static str {
        match self {
            OlmGeneration::V0 => "olm-v0",
            OlmGeneration::V1 => "olm-v1",
        }
    }

    /// Returns the rules by which this generation judges changes of CRDs.
    pub fn crd_rules(self) -> Rules {
        match self {
            OlmGeneration::V0 => Rules::ClusterV0,
            OlmGeneration::V1 => Rules::ClusterV1,
        }
    }
}

/// How a bundle is to be installed.
#[derive(Debug, Clone)]
pub struct Rehearse {
    pub generation: OlmGeneration,
    /// The release of OLM v1 and its enabled features.
    pub profile: Profile,
    /// The namespace to install in; defaults to the one that the bundle suggests, or `PACKAGE-system`.
    pub namespace: Option<String>,
    /// The namespaces that the operator watches; by default what the first of its install modes allows.
    pub watch: Vec<String>,
    /// The name of the ClusterExtension; defaults to the package.
    pub extension: Option<String>,
    /// The provider of webhook certificates in OLM v1.
    pub certificates: CertificateProvider,
    /// `spec.config.inline` of the ClusterExtension.
    pub config: Option<Value>,
}

/// What one generation of OLM does with a bundle.
#[derive(Debug, Clone)]
pub struct Prediction {
    pub generation: OlmGeneration,
    /// The OLM release to display: `OLM v1 (1.11, helm)`.
    pub title: String,
    /// The namespace of the installation.
    pub namespace: String,
    /// The name of the ClusterExtension.
    pub extension: String,
    /// The watched namespaces; `""` for all.
    pub targets: Vec<String>,
    /// Why it refuses the bundle.
    pub refusal: Option<ClusterRefusal>,
    /// The objects that it creates, in order.
    pub objects: Vec<Value>,
    /// Notes about them.
    pub notes: Vec<Note>,
    /// The limits that they hit.
    pub limits: Vec<Limit>,
    /// Whether they are applied in phases.
    pub phases: bool,
}

/// Whether OLM installs a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallDecision {
    /// It does.
    Installs,
    /// It does not, for this reason.
    Refused(String),
    /// The metadata in the catalog does not decide it.
    NeedsImage,
}

impl InstallDecision {
    /// Returns the reason of a refusal.
    pub fn reason(&self) -> Option<&str> {
        match self {
            InstallDecision::Refused(reason) => Some(reason),
            InstallDecision::Installs | InstallDecision::NeedsImage => None,
        }
    }
}

/// A decision in reports.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InstallDecision")]
struct DecisionReport<'a> {
    /// Whether OLM installs the bundle; `null` if the metadata in the catalog does not decide it.
    installs: Option<bool>,
    /// The reason of a refusal.
    reason: Option<&'a str>,
}

impl<'a> From<&'a InstallDecision> for DecisionReport<'a> {
    fn from(decision: &'a InstallDecision) -> DecisionReport<'a> {
        let installs = match decision {
            InstallDecision::Installs => Some(true),
            InstallDecision::Refused(_) => Some(false),
            InstallDecision::NeedsImage => None,
        };
        DecisionReport { installs, reason: decision.reason() }
    }
}

reported_as!(InstallDecision, DecisionReport<'_>);

impl Rehearse {
    /// Returns the request for an installation as users make it, with the defaults of everything.
    pub fn new(generation: OlmGeneration) -> Rehearse {
        Rehearse {
            generation,
            profile: Profile::default(),
            namespace: None,
            watch: Vec::new(),
            extension: None,
            certificates: CertificateProvider::CertManager,
            config: None,
        }
    }

    /// Returns the same request for another generation.
    #[must_use]
    pub fn with(&self, generation: OlmGeneration) -> Rehearse {
        Rehearse { generation, ..self.clone() }
    }

    /// Returns the namespace in which a bundle is installed.
    pub fn namespace_of(&self, whole: &ParsedBundle) -> String {
        const SUGGESTED: &str = "/metadata/annotations/operatorframework.io~1suggested-namespace";
        let suggested = || whole.csv().map(|csv| text(&csv.value, SUGGESTED)).filter(|name| !name.is_empty());
        let given = self.namespace.as_deref().or_else(suggested).map(str::to_owned);
        given.unwrap_or_else(|| format!("{}-system", whole.package))
    }

    /// Predicts what OLM does with a bundle.
    ///
    /// OLM v0 reads only the first document of each file: its input is [`ParsedBundle::first_documents`].
    pub fn predict(&self, bundle: &RehearsalInput, namespace: &str) -> Prediction {
        match self.generation {
            OlmGeneration::V0 => self.predict_v0(bundle, namespace),
            OlmGeneration::V1 => self.predict_v1(bundle, namespace),
        }
    }

    /// Returns why OLM refuses a bundle, as far as the metadata in a catalog decides it.
    pub fn refused_by_metadata(&self, whole: &ParsedBundle) -> Option<ClusterRefusal> {
        let (bundle, namespace) = (RehearsalInput::new(whole), self.namespace_of(whole));
        match self.generation {
            OlmGeneration::V0 => v0::refused_by_metadata(&bundle, &self.options_v0(&bundle, &namespace)),
            OlmGeneration::V1 => v1::refused_by_metadata(&bundle, &self.options_v1(&bundle, &namespace)),
        }
    }

    /// Decides whether OLM installs a bundle.
    pub fn decide(&self, bundle: &LoadedBundle) -> InstallDecision {
        let prediction = self.predict_loaded(bundle, &self.namespace_of(&bundle.whole));
        if let Some(refusal) = prediction.refusal {
            return InstallDecision::Refused(refusal.message);
        }
        let error = findings(bundle, &prediction).into_iter().find(|finding| finding.severity >= Severity::Error);
        error.map_or(InstallDecision::Installs, |finding| InstallDecision::Refused(finding.message))
    }

    fn predict_loaded(&self, bundle: &LoadedBundle, namespace: &str) -> Prediction {
        match self.generation {
            OlmGeneration::V1 => self.predict(&RehearsalInput::new(&bundle.whole), namespace),
            OlmGeneration::V0 => {
                let first = bundle.whole.clone().first_documents();
                let mut prediction = self.predict(&RehearsalInput::new(&first), namespace);
                if prediction.refusal.is_none() {
                    let (_, packed) = bundle.size();
                    prediction.limits.extend(limits::check_packed(packed));
                    prediction.limits.extend(limits::check_message(&first));
                }
                prediction
            }
        }
    }

    fn options_v1(&self, bundle: &RehearsalInput, namespace: &str) -> v1::V1Install {
        let mut config = self.config.clone();
        if let Some(watched) = self.watch.first().filter(|_| self.watch.iter().any(|name| !name.is_empty())) {
            let config = config.get_or_insert_with(|| json!({}));
            if !config.is_object() {
                *config = json!({});
            }
            config["watchNamespace"] = watched.as_str().into();
        }
        v1::V1Install {
            profile: self.profile.clone(),
            namespace: namespace.to_owned(),
            extension: self.extension.clone().unwrap_or_else(|| bundle.package.clone()),
            certificates: self.certificates,
            config,
        }
    }

    fn options_v0(&self, bundle: &RehearsalInput, namespace: &str) -> v0::V0Install {
        let targets = match &*self.watch {
            [] => default_targets(&bundle.modes, namespace),
            given => given.to_vec(),
        };
        let config = self.config.as_ref().and_then(|config| config.get("deploymentConfig").cloned());
        v0::V0Install { namespace: namespace.to_owned(), targets, group: format!("{namespace}-operators"), config }
    }

    fn predict_v1(&self, bundle: &RehearsalInput, namespace: &str) -> Prediction {
        let options = self.options_v1(bundle, namespace);
        let Profile { minor, runtime, .. } = options.profile;
        let shown = if runtime == Runtime::Helm { "helm" } else { "boxcutter" };
        let mut prediction = Prediction {
            phases: runtime == Runtime::Boxcutter,
            ..Prediction::new(self.generation, format!("OLM v1 (1.{minor}, {shown})"), namespace)
        };
        match v1::install(bundle, &options) {
            Ok(installed) => {
                prediction.limits = limits::check_limits(bundle, &installed.objects, OlmTarget::V1(runtime));
                prediction.objects = installed.objects;
                prediction.notes = installed.notes;
                prediction.targets = installed.targets;
            }
            Err(refusal) => prediction.refusal = Some(refusal),
        }
        prediction.extension = options.extension;
        prediction
    }

    fn predict_v0(&self, bundle: &RehearsalInput, namespace: &str) -> Prediction {
        let options = self.options_v0(bundle, namespace);
        let mut prediction = Prediction::new(self.generation, "OLM v0".into(), namespace);
        match v0::install(bundle, &options) {
            Ok(installed) => {
                prediction.limits = limits::check_limits(bundle, installed.objects(), OlmTarget::V0);
                prediction.objects = installed.plan.into_iter().chain(installed.derived).collect();
                prediction.notes = installed.notes;
            }
            Err(refusal) => prediction.refusal = Some(refusal),
        }
        prediction.targets = options.targets;
        prediction
    }
}

/// Returns the namespaces that an operator watches by default in OLM v0: what the first of its install modes allows.
fn default_targets(modes: &[InstallModeType], namespace: &str) -> Vec<String> {
    match modes {
        [] => vec![String::new()],
        modes if modes.contains(&InstallModeType::AllNamespaces) => vec![String::new()],
        modes if modes.contains(&InstallModeType::OwnNamespace) => vec![namespace.to_owned()],
        modes if modes.contains(&InstallModeType::SingleNamespace) => vec!["watched".into()],
        _ => vec!["watched".into(), "watched-too".into()],
    }
}

/// Why a prediction has no objects for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoObjectsError {
    /// OLM refuses the bundle.
    #[error("{title} refuses: {message}")]
    Refused { title: String, message: String },
    /// OLM v0 has no installer accounts.
    #[error("--installer requires OLM v1: OLM v0 installs with its own permissions")]
    OwnPermissions,
}

impl Fault for NoObjectsError {
    fn class(&self) -> Class {
        match self {
            NoObjectsError::Refused { .. } => Class::Refused,
            NoObjectsError::OwnPermissions => Class::Usage,
        }
    }
}

impl Prediction {
    /// Returns the objects that OLM creates.
    ///
    /// # Errors
    /// Fails with OLM's own message if OLM refuses the bundle.
    pub fn accepted(&self) -> Result<&[Value], NoObjectsError> {
        match &self.refusal {
            None => Ok(&self.objects),
            Some(refusal) => {
                Err(NoObjectsError::Refused { title: self.title.clone(), message: refusal.message.clone() })
            }
        }
    }

    /// Returns the minimal ClusterRole of an account that installs the bundle.
    ///
    /// # Errors
    /// Fails if OLM refuses the bundle, or installs it with its own permissions.
    pub fn installer_role(&self, how: Installer) -> Result<Value, NoObjectsError> {
        if self.generation == OlmGeneration::V0 {
            return Err(NoObjectsError::OwnPermissions);
        }
        Ok(installer(self.accepted()?, &self.extension, how))
    }

    fn new(generation: OlmGeneration, title: String, namespace: &str) -> Prediction {
        Prediction {
            generation,
            title,
            namespace: namespace.to_owned(),
            extension: String::new(),
            targets: Vec::new(),
            refusal: None,
            objects: Vec::new(),
            notes: Vec::new(),
            limits: Vec::new(),
            phases: false,
        }
    }

    /// Returns the findings about a bundle whose CSV is a document of a file.
    pub(crate) fn findings(&self, bundle: &RehearsalInput, csv: Option<(&str, usize)>) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Some(refusal) = &self.refusal {
            let finding = Finding::new(refusal.id, Severity::Error, refusal.message.clone());
            found.push(match csv {
                Some((file, document)) => finding.at(file, document, pointer_of(refusal.id)),
                None => finding,
            });
        }
        for note in &self.notes {
            let severity = if note.refused { Severity::Error } else { Severity::Info };
            found.push(Finding::new(note.id, severity, note.message.clone()).about(note.object.clone()));
        }
        found.extend(self.limits.iter().map(Limit::finding));
        for field in &bundle.unknown {
            let message = format!("{} is unknown to Kubernetes and will be dropped", field.pointer);
            let finding = Finding::new("rehearse-unknown-field", Severity::Warning, message);
            found.push(finding.at(&field.file, field.document, field.pointer.clone()));
        }
        let suite = self.generation.suite();
        found.into_iter().map(|finding| finding.in_suites(&[suite])).collect()
    }

    /// Lists how the other generation of OLM differs.
    pub fn differences(&self, other: &Prediction) -> Vec<String> {
        if let Some(refusal) = &other.refusal {
            return vec![format!("refuses: {}", refusal.message)];
        }
        if self.refusal.is_some() {
            return vec!["installs the bundle".into()];
        }
        // Role names contain a hash that each generation computes differently.
        let names = |objects: &[Value]| -> BTreeSet<String> {
            let generated = |name: &str| name.rsplit_once('-').is_some_and(|(_, end)| end.len() > 30);
            let named = objects.iter().filter(|object| !generated(text(object, "/metadata/name")));
            named.filter(|object| !text(object, "/metadata/name").is_empty()).map(display_name).collect()
        };
        let (ours, theirs) = (names(&self.objects), names(&other.objects));
        let mut lines = Vec::new();
        lines.extend(theirs.difference(&ours).map(|name| format!("also makes {name}")));
        lines.extend(ours.difference(&theirs).map(|name| format!("does not make {name}")));
        let (our_pods, their_pods) = (pod_annotations(&self.objects), pod_annotations(&other.objects));
        for (name, ours) in our_pods {
            let Some(theirs) = their_pods.get(&name) else { continue };
            let differing: Vec<&str> = ours
                .iter()
                .filter(|(key, value)| theirs.get(*key).is_some_and(|it| it != *value))
                .map(|(key, _)| &**key)
                .collect();
            if !differing.is_empty() {
                lines.push(format!("annotates pods of {name} differently: {}", differing.join(", ")));
            }
        }
        lines
    }
}

impl Limit {
    /// Returns the finding about this limit.
    pub(crate) fn finding(&self) -> Finding {
        let (severity, words) = match self.level {
            Level::Over => (Severity::Error, "more than"),
            Level::Near => (Severity::Warning, "near"),
        };
        let message = format!("{} has {}, {words} {} for {}", self.object, self.size, self.limit, self.what);
        Finding::new(self.id, severity, message)
    }
}

/// Returns the annotations of the pods of deployments, by the name of the deployment.
fn pod_annotations(objects: &[Value]) -> BTreeMap<String, &Map<String, Value>> {
    let deployments = objects.iter().filter(|object| text(object, "/kind") == "Deployment");
    let mut found = BTreeMap::new();
    for object in deployments {
        if let Some(annotations) = object.pointer("/spec/template/metadata/annotations").and_then(Value::as_object) {
            found.entry(display_name(object)).or_insert(annotations);
        }
    }
    found
}

/// Returns the JSON pointer of the CSV field that a refusal is about.
fn pointer_of(id: &str) -> &'static str {
    match id {
        "olmv1-all-namespaces" | "olmv1-install-modes" | "olmv1-targets" | "olmv0-install-mode" => "/spec/installModes",
        "olmv1-api-services" => "/spec/apiservicedefinitions/owned",
        "olmv1-webhooks" | "olmv0-webhook-name" | "olmv0-webhook-rules" => "/spec/webhookdefinitions",
        "namespace-name" => "/metadata/annotations",
        "olmv1-dependency" => "/spec/customresourcedefinitions/required",
        _ => "",
    }
}

/// What OLM does with a bundle: the report of `opm rehearse`.
#[derive(Debug, Clone)]
pub struct Rehearsal {
    /// The name of the CSV.
    pub bundle: Option<String>,
    pub package: String,
    /// What the requested generation does.
    pub prediction: Prediction,
    /// What an upgrade changes, if there is a previous version.
    pub upgrade: Option<Vec<ObjectChange>>,
    /// Why OLM would refuse the previous version.
    pub previous_refusal: Option<ClusterRefusal>,
    /// The other generation.
    pub other: String,
    /// How the other generation differs.
    pub differences: Vec<String>,
    pub findings: Findings,
}

/// Rehearses the installation of a bundle, or the upgrade from `old`.
pub fn rehearse(request: &Rehearse, old: Option<&LoadedBundle>, new: &LoadedBundle) -> Rehearsal {
    // An installed operator stays in its namespace.
    let namespace = request.namespace_of(&old.unwrap_or(new).whole);
    let prediction = request.predict_loaded(new, &namespace);
    let other = request.with(request.generation.other()).predict_loaded(new, &namespace);
    let mut found = findings(new, &prediction);
    let (mut upgraded, mut previous_refusal) = (None, None);
    if let Some(old) = old {
        let before = request.predict_loaded(old, &namespace);
        upgraded = Some(upgrade(&before.objects, &prediction.objects));
        previous_refusal = before.refusal;
        found.extend(crd::findings(&old.whole, &new.whole, request.generation.crd_rules()));
        let suggested = request.namespace_of(&new.whole);
        if suggested != namespace {
            let why = match request.generation {
                OlmGeneration::V0 => "a Subscription stays in its namespace",
                OlmGeneration::V1 => "spec.namespace of a ClusterExtension is immutable",
            };
            let message = format!("the upgrade stays in namespace {namespace}, not in {suggested}: {why}");
            found.push(Finding::new("namespace-kept", Severity::Info, message));
        }
    }
    let mut rehearsal = Rehearsal {
        bundle: new.whole.csv().map(|csv| csv.name().to_owned()),
        package: new.whole.package.clone(),
        differences: prediction.differences(&other),
        other: other.title,
        prediction,
        upgrade: upgraded,
        previous_refusal,
        findings: Findings::new(Vec::new(), |_| false),
    };
    rehearsal.add(found, new);
    rehearsal
}

/// Returns the findings about a bundle and what OLM does with it.
fn findings(read: &LoadedBundle, prediction: &Prediction) -> Vec<Finding> {
    let whole = &read.whole;
    let csv = whole.csv();
    let mut found = Vec::new();
    if let (Some(message), Some(csv)) = (whole.several_csvs(), csv) {
        let finding = Finding::new("csv-several", Severity::Error, message);
        found.push(finding.at(&csv.file, csv.document, ""));
    }
    found.extend(prediction.findings(&RehearsalInput::new(whole), csv.map(|csv| (csv.file.as_str(), csv.document))));
    for object in whole.objects.iter().filter(|object| object.document > 0) {
        let message =
            format!("{} {} is not in the first document: OLM v0 does not see it", object.kind(), object.name());
        let finding = Finding::new("several-documents", Severity::Warning, message);
        found.push(finding.at(&object.file, object.document, ""));
    }
    found
}

/// What a cluster says about an object of a rehearsal.
#[derive(Debug, Clone, Default)]
pub struct OnCluster {
    /// Whether the cluster does not know its kind.
    pub unknown_kind: bool,
    /// The existing object of that name.
    pub there: Option<Value>,
    /// The owner of the existing object; empty if it has none.
    pub owner: String,
    /// Why the cluster would reject the object, in its own words.
    pub refused: Option<String>,
    /// For a definition: existing custom resources with their versions.
    pub resources: Vec<Value>,
}

/// The maximum number of reported custom resources per definition that violate the new schema.
const MAX_RESOURCES: usize = 5;

impl Rehearsal {
    /// Adds what a cluster says about the objects, in their order. `bundle` is the rehearsed one.
    pub fn compare_with_cluster(&mut self, cluster: &[OnCluster], bundle: &LoadedBundle) {
        let mut found = Vec::new();
        for (object, on_cluster) in self.prediction.objects.iter().zip(cluster) {
            self.prediction.judge(object, on_cluster, &mut found);
        }
        self.add(found, bundle);
    }

    fn add(&mut self, mut found: Vec<Finding>, bundle: &LoadedBundle) {
        let name = self.bundle.as_deref().unwrap_or_default();
        let suite = self.prediction.generation.suite();
        for finding in &mut found {
            finding.bundle = name.to_owned();
            finding.suites = vec![suite];
        }
        bundle.locate(&mut found);
        let mut all = std::mem::take(&mut self.findings.findings);
        all.extend(found);
        self.findings = Findings::new(all, |finding| finding.severity >= Severity::Error);
    }

    /// Returns whether OLM installs the bundle.
    pub fn is_installable(&self) -> bool {
        self.prediction.refusal.is_none() && self.findings.passed
    }
}

impl Prediction {
    /// Adds findings about what a cluster says about an object.
    fn judge(&self, object: &Value, on_cluster: &OnCluster, found: &mut Vec<Finding>) {
        let shown = display_name(object);
        let about = |id: &'static str, severity: Severity, message: String| {
            Finding::new(id, severity, message).about(shown.clone())
        };
        if on_cluster.unknown_kind {
            let message =
                format!("this cluster does not know {} {}", text(object, "/apiVersion"), text(object, "/kind"));
            return found.push(about("cluster-unknown-kind", Severity::Error, message));
        }
        if let Some(refused) = &on_cluster.refused {
            let message = format!("this cluster would refuse it: {refused}");
            found.push(about("cluster-refused", Severity::Error, message));
        }
        let Some(there) = &on_cluster.there else { return };
        let owner = match &*on_cluster.owner {
            "" => "nobody",
            owner => owner,
        };
        let is_v1 = self.generation == OlmGeneration::V1;
        if is_v1 && on_cluster.owner != format!("ClusterExtension {}", self.extension) {
            let message =
                format!("{shown} exists and belongs to {owner}: OLM v1 installs nothing over what it did not make");
            found.push(about("cluster-exists", Severity::Error, message));
        } else if on_cluster.owner.is_empty() {
            let message = format!("{shown} exists and belongs to {owner}");
            found.push(about("cluster-exists", Severity::Warning, message));
        }
        if text(object, "/kind") != "CustomResourceDefinition" {
            return;
        }
        let changes = crd::compare([there], [object]);
        found.extend(changes.iter().map(|change| change.finding(self.generation.crd_rules())));
        let unfit = on_cluster.resources.iter().filter_map(|resource| Some((resource, first_fault(object, resource)?)));
        for (resource, fault) in unfit.take(MAX_RESOURCES) {
            let severity = if is_v1 { Severity::Warning } else { Severity::Error };
            let message = format!("{} does not match the new schema: {fault}", display_name(resource));
            found.push(about("cluster-stored-resource", severity, message));
        }
    }
}

/// Returns the first violation of the schema that the definition has for the version of a custom resource.
fn first_fault(crd: &Value, resource: &Value) -> Option<String> {
    let version = resource["apiVersion"].as_str()?.rsplit('/').next()?;
    let versions = crd["spec"]["versions"].as_array()?;
    let schema = versions.iter().find(|one| one["name"] == version)?.pointer("/schema/openAPIV3Schema")?;
    crate::check::schema_faults(schema, resource)?.into_iter().next()
}

/// A rehearsal in reports.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rehearsal")]
struct RehearsalReport<'a> {
    /// The release of OLM.
    olm: &'a str,
    bundle: Option<&'a str>,
    package: &'a str,
    /// The namespace of the installation.
    namespace: &'a str,
    /// The watched namespaces; an empty one stands for all.
    targets: &'a [String],
    /// Whether OLM installs the bundle.
    installable: bool,
    refusal: Option<&'a ClusterRefusal>,
    /// The objects that it creates, in order.
    objects: Vec<AppliedObject<'a>>,
    /// What an upgrade from the previous bundle changes.
    upgrade: Option<&'a [ObjectChange]>,
    other: OtherGeneration<'a>,
    findings: &'a [Finding],
    /// The number of findings by severity.
    counts: FindingCounts<'a>,
}

/// An object that OLM creates.
#[derive(Serialize, JsonSchema)]
struct AppliedObject<'a> {
    /// The phase in which OLM v1 applies it.
    phase: Option<&'a str>,
    /// Its size.
    bytes: usize,
    object: &'a Value,
}

/// How the other generation of OLM differs.
#[derive(Serialize, JsonSchema)]
struct OtherGeneration<'a> {
    /// Its release.
    olm: &'a str,
    differences: &'a [String],
}

impl<'a> From<&'a Rehearsal> for RehearsalReport<'a> {
    fn from(rehearsal: &'a Rehearsal) -> RehearsalReport<'a> {
        let prediction = &rehearsal.prediction;
        let applied = |object| AppliedObject {
            phase: prediction.phases.then(|| v1::phase(text(object, "/kind"))),
            bytes: limits::length(object),
            object,
        };
        RehearsalReport {
            olm: &prediction.title,
            bundle: rehearsal.bundle.as_deref(),
            package: &rehearsal.package,
            namespace: &prediction.namespace,
            targets: &prediction.targets,
            installable: rehearsal.is_installable(),
            refusal: prediction.refusal.as_ref(),
            objects: prediction.objects.iter().map(applied).collect(),
            upgrade: rehearsal.upgrade.as_deref(),
            other: OtherGeneration { olm: &rehearsal.other, differences: &rehearsal.differences },
            findings: &rehearsal.findings.findings,
            counts: rehearsal.findings.counts(),
        }
    }
}

reported_as!(Rehearsal, RehearsalReport<'_>);

#[cfg(test)]
mod tests {
    use super::*;

    fn prediction(generation: OlmGeneration, deployments: usize) -> Prediction {
        let object = |at: usize| {
            let annotations = json!({"by": format!("{generation:?}")});
            json!({
                "kind": "Deployment", "metadata": {"name": format!("d{at}")},
                "spec": {"template": {"metadata": {"annotations": annotations}}},
            })
        };
        let objects = (0..deployments).map(object).collect();
        Prediction { objects, ..Prediction::new(generation, String::new(), "") }
    }

    #[test]
    fn deployments_of_both_generations_are_matched_by_name() {
        let steps = |deployments: usize| {
            let [v0, v1] = [OlmGeneration::V0, OlmGeneration::V1].map(|generation| prediction(generation, deployments));
            let before = fbc::step_counter::count();
            let lines = v1.differences(&v0);
            assert_eq!(lines.len(), deployments);
            assert_eq!(lines[0], "annotates pods of Deployment d0 differently: by");
            fbc::step_counter::count() - before
        };
        let (once, twice) = (steps(200), steps(400));
        assert!(once >= 200 && twice * 2 <= once * 5, "{once}, {twice} steps");
    }
}
