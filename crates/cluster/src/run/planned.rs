//! The objects that OLM creates from an InstallPlan, as far as they belong to the run.
//!
//! A plan covers a whole namespace: it may also upgrade other operators. The run owns its bundle and the dependencies
//! that the plan adds for it, whose Subscriptions the plan creates.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::recreated::Recreated;
use super::{in_use, wait};
use crate::ledger::RolledBack;
use crate::request::{ObjectName, Requests};
use crate::views::{InstallPlan, PlanStep, Stored, Subscription, View, annotate};
use crate::{Error, ResourceKind};

/// The annotation of a CatalogSource with the objects that the InstallPlans of a run created, for `cleanup`.
pub(crate) const CREATED: &str = "opm.run/created";

/// The prefix of annotations on CRDs, with the versions that OLM created them for.
const ALONGSIDE: &str = "operatorframework.io/installed-alongside-";

/// An InstallPlan of a run.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) plan: ObjectName,
    uid: Option<String>,
    /// The package that the run installs.
    package: String,
    /// The catalog of the run.
    source: String,
    /// The version that the run installs.
    csv: String,
    /// The steps before the approval whose objects did not exist.
    missing: Vec<PlannedObject>,
    /// The objects of the other steps.
    before: Vec<ObjectName>,
}

/// One object that a plan creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedObject {
    pub(crate) object: ObjectName,
    /// The version that needs it.
    pub(crate) csv: String,
    /// The status that OLM reports.
    ///
    /// `Created` is certain. `Present` is not: if OLM cannot store the result of an execution, it executes the plan
    /// again, and finds its own objects.
    pub(crate) status: String,
}

/// Returns the kind of an object that plans create, of the kinds that are not deleted with others.
fn kind_named(name: &str) -> Option<ResourceKind> {
    let kinds = [ResourceKind::SUBSCRIPTION, ResourceKind::CSV, ResourceKind::PRIORITY_CLASS, ResourceKind::CRD];
    kinds.into_iter().find(|kind| kind.kind == name)
}

/// Returns the objects of a plan, of the kinds that are not deleted with others.
fn steps(plan: &InstallPlan) -> Vec<PlannedObject> {
    let namespace = plan.metadata.namespace();
    let step = |step: &PlanStep| {
        let kind = kind_named(&step.resource.kind)?;
        let object = ObjectName::new(kind, if kind.namespaced { namespace } else { "" }, &step.resource.name);
        Some(PlannedObject { object, csv: step.resolving.clone(), status: step.status.clone() })
    };
    plan.status.plan.iter().filter_map(step).collect()
}

/// Returns the steps of a plan for the given version, or for one that the plan itself subscribes to: OLM plans no
/// Subscription to a package that has one.
pub(crate) fn own_steps(plan: &InstallPlan, csv: &str) -> Vec<PlannedObject> {
    let steps = steps(plan);
    let subscribed = steps.iter().filter(|step| step.object.kind == ResourceKind::SUBSCRIPTION);
    let brought: Vec<String> = subscribed.map(|step| step.csv.clone()).collect();
    steps.into_iter().filter(|step| step.csv == csv || brought.contains(&step.csv)).collect()
}

/// Returns whether an existing object of a step comes from its plan, and not from others: `plans` are all plans of the
/// namespace, if they can be listed.
pub(crate) fn is_by_plan(
    step: &PlannedObject,
    existing: &ObjectMeta,
    plan: &ObjectName,
    plans: Option<&[InstallPlan]>,
) -> bool {
    match step.object.kind {
        // OLM annotates a CRD with the version that it was created for.
        ResourceKind::CRD => is_only_for(existing, &[format!("{}/{}", plan.namespace, step.csv)]),
        _ if step.status == "Created" => true,
        // Plans of all namespaces create these.
        ResourceKind::PRIORITY_CLASS => step.status != "Present",
        _ => plans.map_or(step.status != "Present", |plans| !is_in_another(plans, plan, &step.object)),
    }
}

/// Returns whether one of these plans, other than `plan`, may have created an object.
fn is_in_another(plans: &[InstallPlan], plan: &ObjectName, object: &ObjectName) -> bool {
    let executed = |step: &PlannedObject| step.object == *object && matches!(&*step.status, "Created" | "Present");
    let others = plans.iter().filter(|other| other.object_name() != *plan);
    others.flat_map(steps).any(|step| executed(&step))
}

impl Planned {
    /// Reads the objects of a plan before its approval.
    pub(crate) async fn read(
        requests: &Requests<'_>,
        plan: &InstallPlan,
        csv: &str,
        subscription: &Subscription,
    ) -> Result<Planned, Error> {
        let (mut missing, mut before) = (Vec::new(), Vec::new());
        for step in own_steps(plan, csv) {
            match requests.metadata(&step.object).await {
                Ok(None) => missing.push(step),
                Ok(Some(_)) => before.push(step.object),
                // Without permission to read it, the user cannot delete it either.
                Err(error) if error.is_forbidden() => before.push(step.object),
                Err(error) => return Err(error),
            }
        }
        Ok(Planned {
            plan: plan.object_name(),
            uid: plan.metadata.uid.clone(),
            package: subscription.spec.name.clone(),
            source: subscription.spec.source.clone(),
            csv: csv.to_owned(),
            missing,
            before,
        })
    }

    /// Returns the steps of the run in the last state of the plan, without those whose objects existed before. OLM may
    /// add steps after the approval. Of a deleted plan, the steps before the approval are known.
    fn steps(&self, state: Option<&InstallPlan>) -> Vec<PlannedObject> {
        let mut steps = state.map_or_else(Vec::new, |state| own_steps(state, &self.csv));
        steps.retain(|step| !self.before.contains(&step.object));
        let unknown = self.missing.iter().filter(|known| steps.iter().all(|step| step.object != known.object));
        steps.extend(unknown.cloned().collect::<Vec<_>>());
        steps.sort_by_key(|step| order(step.object.kind));
        steps
    }

    /// Returns the objects of the run that the plan has created, with uids.
    pub(crate) async fn created(&self, requests: &Requests<'_>) -> Result<Vec<(ObjectName, String)>, Error> {
        let state = requests.read(&self.plan).await?;
        let all = self.objects(requests, &self.steps(state.as_ref())).await?;
        Ok(all.into_iter().filter_map(|(object, uid)| Some((object, uid?))).collect())
    }

    /// Returns the objects of steps, with the uids of those that the plan has created. Objects that others created first
    /// are excluded.
    async fn objects(
        &self,
        requests: &Requests<'_>,
        steps: &[PlannedObject],
    ) -> Result<Vec<(ObjectName, Option<String>)>, Error> {
        let plans: Option<Vec<InstallPlan>> = match requests.list(&self.plan.namespace, &ListParams::default()).await {
            Ok(plans) => Some(plans),
            Err(error) if error.is_forbidden() => None,
            Err(error) => return Err(error),
        };
        let mut objects = Vec::new();
        for step in steps {
            let PlannedObject { object, status, .. } = step;
            let Some(existing) = requests.metadata(object).await? else {
                objects.push((object.clone(), None));
                continue;
            };
            let was_missing = self.missing.iter().any(|step| step.object == *object);
            let ours = match status.as_str() {
                "Created" => true,
                "Present" if !was_missing => false,
                _ => is_by_plan(step, &existing, &self.plan, plans.as_deref()),
            };
            if ours {
                objects.push((object.clone(), existing.uid));
            }
        }
        Ok(objects)
    }

    /// Removes the plan, whose last state is `state` unless it was deleted, and its objects, except CRDs that others need.
    pub(crate) async fn remove(
        &self,
        requests: &Requests<'_>,
        state: Option<&InstallPlan>,
        outcome: &mut RolledBack,
        done: &(dyn Fn(&ObjectName) + Sync),
    ) -> Result<(), Error> {
        requests.delete(&self.plan, self.uid.as_deref()).await?;
        requests.wait_until_gone(&self.plan, self.uid.as_deref()).await?;
        done(&self.plan);
        let steps = self.steps(state);
        let objects = self.objects(requests, &steps).await?;
        let uid = |(object, uid): &(ObjectName, Option<String>)| Some((object.clone(), uid.clone()?));
        let created: Vec<_> = objects.iter().filter_map(uid).collect();
        remove(requests, &created, InUse::Kept, &[], outcome, done).await?;
        if state.is_some_and(wait::is_long_done) {
            return Ok(());
        }
        let recreated = Recreated {
            package: &self.package,
            source: &self.source,
            objects,
            versions: steps.iter().map(|step| format!("{}/{}", self.plan.namespace, step.csv)).collect(),
        };
        recreated.remove(requests, InUse::Kept, outcome, done).await
    }
}

/// Returns whether OLM created a CRD for these versions, each with its namespace, and for no other.
pub(crate) fn is_only_for(crd: &ObjectMeta, csvs: &[String]) -> bool {
    let annotations = crd.annotations.iter().flatten();
    let mut named = annotations.filter(|(key, _)| key.starts_with(ALONGSIDE)).peekable();
    named.peek().is_some() && named.all(|(_, value)| csvs.contains(value))
}

/// Subscriptions are deleted first, or OLM would recreate the rest; CRDs last, when they are unused.
fn order(kind: ResourceKind) -> u8 {
    match kind {
        ResourceKind::SUBSCRIPTION => 0,
        ResourceKind::CSV => 1,
        ResourceKind::CRD => 3,
        _ => 2,
    }
}

/// How a CRD with objects is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InUse {
    /// It is kept, with its objects.
    Kept,
    /// It is deleted, with its objects.
    Removed,
}

/// Removes objects that plans created. Those in `except` do not count as users of CRDs, because they are removed,
/// too.
pub(crate) async fn remove(
    requests: &Requests<'_>,
    created: &[(ObjectName, String)],
    in_use: InUse,
    except: &[ObjectName],
    outcome: &mut RolledBack,
    done: &(dyn Fn(&ObjectName) + Sync),
) -> Result<(), Error> {
    for (object, made) in created {
        if requests.metadata(object).await?.is_none_or(|existing| existing.uid.as_ref() != Some(made)) {
            continue;
        }
        if object.kind == ResourceKind::CRD
            && let Some(why) = in_use::reason_to_keep(requests, object, in_use == InUse::Kept, except).await?
        {
            outcome.kept.push(format!("{object}: {why}"));
            continue;
        }
        if let Err(error) = requests.delete(object, Some(made)).await {
            outcome.failed.push(format!("{object}: {error}"));
            continue;
        }
        requests.wait_until_gone(object, Some(made)).await?;
        done(object);
    }
    Ok(())
}

/// One object in the annotation.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Recorded {
    kind: String,
    name: String,
    uid: String,
}

/// The record of created objects has another form than opm writes.
#[derive(Debug, thiserror::Error)]
#[error(
    "annotation {CREATED} of CatalogSource {namespace}/{name} cannot be read: {source}\n  help: it lists objects that OLM \
     created for the operator: delete what is left of them, and remove it with 'kubectl annotate -n {namespace} \
     catalogsource {name} {CREATED}-'"
)]
pub struct RecordError {
    namespace: String,
    name: String,
    source: serde_json::Error,
}

/// Records the objects of plans in an annotation of the CatalogSource.
pub(crate) fn record(catalog_source: &mut ObjectMeta, created: &[(ObjectName, String)]) -> Result<(), RecordError> {
    let mut all = recorded(catalog_source)?;
    for one in created {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
    let one = |(object, uid): &(ObjectName, String)| Recorded {
        kind: object.kind.kind.to_owned(),
        name: object.name.clone(),
        uid: uid.clone(),
    };
    let list: Vec<Recorded> = all.iter().map(one).collect();
    if !list.is_empty() {
        annotate(catalog_source, CREATED, json!(list).to_string());
    }
    Ok(())
}

/// Reads the recorded objects; none if there is no annotation.
pub(crate) fn recorded(catalog_source: &ObjectMeta) -> Result<Vec<(ObjectName, String)>, RecordError> {
    let Some(text) = catalog_source.annotations.as_ref().and_then(|all| all.get(CREATED)) else {
        return Ok(Vec::new());
    };
    let namespace = catalog_source.namespace();
    let read = |one: Recorded| {
        let kind = kind_named(&one.kind).filter(|_| !one.name.is_empty() && !one.uid.is_empty());
        let kind = kind.ok_or_else(|| {
            serde_json::Error::custom(format!("{:?} {:?} has no known kind, name and uid", one.kind, one.name))
        })?;
        Ok((ObjectName::new(kind, if kind.namespaced { namespace } else { "" }, &one.name), one.uid))
    };
    let list = serde_json::from_str(text).and_then(|list: Vec<Recorded>| list.into_iter().map(read).collect());
    list.map_err(|source| RecordError {
        namespace: namespace.to_owned(),
        name: catalog_source.name().to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::views::{annotation, decode};

    fn plan(steps: Value) -> InstallPlan {
        decode(json!({"metadata": {"name": "install-1", "namespace": "ns"}, "status": {"plan": steps}})).unwrap()
    }

    fn step(kind: &str, name: &str, csv: &str, status: &str) -> Value {
        json!({"resolving": csv, "status": status, "resource": {"kind": kind, "name": name}})
    }

    #[test]
    fn operators_that_a_plan_upgrades_are_not_owned() {
        let plan = plan(json!([
            step("ClusterServiceVersion", "foo.v1", "foo.v1", "Created"),
            step("ClusterServiceVersion", "bar.v2", "bar.v2", "Created"),
            step("ClusterServiceVersion", "dep.v1", "dep.v1", "Created"),
            step("Subscription", "dep-stable", "dep.v1", "Created"),
            step("CustomResourceDefinition", "deps.example.com", "dep.v1", "Created"),
        ]));
        let own: Vec<String> = own_steps(&plan, "foo.v1").iter().map(|step| step.object.to_string()).collect();
        assert_eq!(
            own,
            [
                "ClusterServiceVersion ns/foo.v1",
                "ClusterServiceVersion ns/dep.v1",
                "Subscription ns/dep-stable",
                "CustomResourceDefinition deps.example.com"
            ]
        );
    }

    #[test]
    fn objects_in_other_executed_plans_are_not_certain() {
        let named = |name: &str, status: &str| {
            let mut plan = plan(json!([step("ClusterServiceVersion", "dep.v1", "dep.v1", status)]));
            plan.metadata.name = Some(name.to_owned());
            plan
        };
        let ours = ObjectName::new(ResourceKind::INSTALL_PLAN, "ns", "install-1");
        let object = ObjectName::new(ResourceKind::CSV, "ns", "dep.v1");
        let plans = |status: &str| [named("install-1", "Present"), named("install-2", status)];
        assert!(!is_in_another(&plans("Unknown"), &ours, &object));
        assert!(!is_in_another(&plans("Created"), &ours, &ObjectName::new(ResourceKind::CSV, "ns", "dep.v2")));
        assert!(is_in_another(&plans("Created"), &ours, &object) && is_in_another(&plans("Present"), &ours, &object));
    }

    #[test]
    fn created_objects_are_read_back() {
        let mut source = ObjectMeta { namespace: Some("ns".into()), ..ObjectMeta::default() };
        let created = [(ObjectName::new(ResourceKind::CRD, "", "foos.example.com"), "u1".to_owned())];
        record(&mut source, &created).unwrap();
        record(&mut source, &created).unwrap();
        assert_eq!(recorded(&source).unwrap(), created);
        let crd = |versions: &[&str]| {
            let one = |(at, version): (usize, &&str)| (format!("{ALONGSIDE}{at}"), (*version).to_owned());
            let annotations = versions.iter().enumerate().map(one).collect();
            ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() }
        };
        let versions = ["ns/foo.v1".to_owned()];
        assert!(is_only_for(&crd(&["ns/foo.v1"]), &versions));
        assert!(!is_only_for(&crd(&["ns/foo.v1", "other/foo.v1"]), &versions) && !is_only_for(&crd(&[]), &versions));
    }

    #[test]
    fn an_invalid_record_of_created_objects_is_an_error() {
        let mut source = ObjectMeta { namespace: Some("ns".into()), name: Some("foo".into()), ..ObjectMeta::default() };
        assert_eq!(recorded(&source).unwrap(), []);
        for text in ["", "{}", "[{}]", r#"[{"kind": "Node", "name": "a", "uid": "b"}]"#] {
            annotate(&mut source, CREATED, text);
            let error = recorded(&source).unwrap_err().to_string();
            assert!(error.contains("'kubectl annotate -n ns catalogsource foo opm.run/created-'"), "{text}: {error}");
            assert!(record(&mut source, &[]).is_err(), "{text}");
            assert_eq!(annotation(&source, CREATED), text);
        }
    }
}
