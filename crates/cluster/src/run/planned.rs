//! The objects that OLM creates from an InstallPlan, as far as they belong to the run.
//!
//! A plan covers a whole namespace: it may also upgrade other operators. The run owns its bundle and the dependencies
//! that the plan adds for it, whose Subscriptions the plan creates.

use serde_json::{Value, json};

use super::in_use;
use crate::ledger::RolledBack;
use crate::request::{ObjectName, Requests, uid};
use crate::{Error, Kind};

/// The annotation of a CatalogSource with the objects that the InstallPlans of a run created, for `cleanup`.
pub(crate) const CREATED: &str = "opm.run/created";

/// The prefix of annotations on CRDs, with the versions that OLM created them for.
const ALONGSIDE: &str = "operatorframework.io/installed-alongside-";

/// An InstallPlan of a run.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    /// The plan.
    pub(crate) plan: ObjectName,
    uid: Option<String>,
    /// The version that the run installs.
    csv: String,
    /// The objects of the plan that already exist.
    before: Vec<ObjectName>,
}

/// One object that a plan creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    object: ObjectName,
    /// The version that needs it.
    csv: String,
    /// The status that OLM reports.
    status: String,
}

/// Returns the objects of a plan, of the kinds that are not deleted with others.
fn steps(plan: &Value) -> Vec<Step> {
    let namespace = plan["metadata"]["namespace"].as_str().unwrap_or_default();
    let all = plan["status"]["plan"].as_array().map(Vec::as_slice).unwrap_or_default();
    let step = |step: &Value| {
        let text = |pointer: &str| step.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kinds = [Kind::SUBSCRIPTION, Kind::CSV, Kind::PRIORITY_CLASS, Kind::CRD];
        let kind = kinds.into_iter().find(|kind| kind.kind == text("/resource/kind"))?;
        let object = ObjectName::new(kind, if kind.namespaced { namespace } else { "" }, text("/resource/name"));
        Some(Step { object, csv: text("/resolving").to_owned(), status: text("/status").to_owned() })
    };
    all.iter().filter_map(step).collect()
}

/// Returns the steps of a plan for the given version, or for one that the plan itself subscribes to.
fn own_steps(plan: &Value, csv: &str) -> Vec<Step> {
    let steps = steps(plan);
    let brought: Vec<String> = steps
        .iter()
        .filter(|step| step.object.kind == Kind::SUBSCRIPTION && step.status != "Present")
        .map(|step| step.csv.clone())
        .collect();
    steps.into_iter().filter(|step| step.csv == csv || brought.contains(&step.csv)).collect()
}

impl Planned {
    /// Reads the objects of a plan before its approval.
    pub(crate) async fn read(requests: &Requests<'_>, plan: &Value, csv: &str) -> Result<Planned, Error> {
        let mut before = Vec::new();
        for step in own_steps(plan, csv) {
            match requests.get(&step.object).await {
                Ok(None) => {}
                Ok(Some(_)) => before.push(step.object),
                // Without permission to read it, the user cannot delete it either.
                Err(error) if error.is_forbidden() => before.push(step.object),
                Err(error) => return Err(error),
            }
        }
        let named = ObjectName::of(Kind::INSTALL_PLAN, plan);
        Ok(Planned { plan: named, uid: uid(plan).map(str::to_owned), csv: csv.to_owned(), before })
    }

    /// Returns the steps of the run. Objects that existed before, or that others created first, are excluded.
    pub(crate) async fn steps(&self, requests: &Requests<'_>) -> Result<Vec<Step>, Error> {
        let plan = requests.get(&self.plan).await?.unwrap_or_default();
        let mut steps = own_steps(&plan, &self.csv);
        steps.retain(|step| step.status != "Present" && !self.before.contains(&step.object));
        steps.sort_by_key(|step| order(step.object.kind));
        Ok(steps)
    }

    /// Returns the objects of the run that the plan has created, with uids.
    pub(crate) async fn created(&self, requests: &Requests<'_>) -> Result<Vec<(ObjectName, String)>, Error> {
        self.completed(requests, &self.steps(requests).await?).await
    }

    /// Returns the completed steps, with the uids of their objects.
    async fn completed(&self, requests: &Requests<'_>, steps: &[Step]) -> Result<Vec<(ObjectName, String)>, Error> {
        let mut made = Vec::new();
        for step in steps {
            let Some(existing) = requests.get(&step.object).await? else { continue };
            // OLM annotates a CRD with the version that it was created for; the plan itself may lag behind.
            let only = [format!("{}/{}", self.plan.namespace, step.csv)];
            if step.object.kind == Kind::CRD && step.status != "Created" && !is_only_for(&existing, &only) {
                continue;
            }
            made.extend(uid(&existing).map(|uid| (step.object.clone(), uid.to_owned())));
        }
        Ok(made)
    }

    /// Removes the plan and its objects, except CRDs that others need.
    pub(crate) async fn remove(
        &self,
        requests: &Requests<'_>,
        steps: &[Step],
        outcome: &mut RolledBack,
        done: &(dyn Fn(&ObjectName) + Sync),
    ) -> Result<(), Error> {
        requests.delete(&self.plan, self.uid.as_deref()).await?;
        requests.wait_until_gone(&self.plan, self.uid.as_deref()).await?;
        done(&self.plan);
        let made = self.completed(requests, steps).await?;
        remove(requests, &made, InUse::Kept, &[], outcome, done).await
    }
}

/// Returns whether OLM created a CRD for these versions, each with its namespace, and for no other.
pub(crate) fn is_only_for(crd: &Value, csvs: &[String]) -> bool {
    let annotations = crd["metadata"]["annotations"].as_object();
    let mut named = annotations.into_iter().flatten().filter(|(key, _)| key.starts_with(ALONGSIDE)).peekable();
    named.peek().is_some() && named.all(|(_, value)| csvs.iter().any(|csv| value == csv))
}

/// Subscriptions are deleted first, or OLM would recreate the rest; CRDs last, when they are unused.
fn order(kind: Kind) -> u8 {
    match kind {
        Kind::SUBSCRIPTION => 0,
        Kind::CSV => 1,
        Kind::CRD => 3,
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
        let existing = requests.get(object).await?.filter(|existing| uid(existing) == Some(made));
        let Some(existing) = existing else { continue };
        if object.kind == Kind::CRD
            && let Some(why) = in_use::reason_to_keep(requests, &existing, in_use == InUse::Kept, except).await?
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

/// Records the objects of plans in an annotation of the CatalogSource.
pub(crate) fn record(catalog_source: &mut Value, created: &[(ObjectName, String)]) {
    let mut all = recorded(catalog_source);
    for one in created {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
    let one = |(object, uid): &(ObjectName, String)| json!({"kind": object.kind.kind, "name": object.name, "uid": uid});
    let list: Vec<Value> = all.iter().map(one).collect();
    if !list.is_empty() {
        catalog_source["metadata"]["annotations"][CREATED] = json!(Value::Array(list).to_string());
    }
}

/// Reads the recorded objects; an invalid annotation gives none.
pub(crate) fn recorded(catalog_source: &Value) -> Vec<(ObjectName, String)> {
    let namespace = catalog_source["metadata"]["namespace"].as_str().unwrap_or_default();
    let text = catalog_source["metadata"]["annotations"][CREATED].as_str().unwrap_or_default();
    let list: Value = serde_json::from_str(text).unwrap_or_default();
    let read = |one: &Value| {
        let text = |key: &str| one[key].as_str().filter(|text| !text.is_empty());
        let kinds = [Kind::SUBSCRIPTION, Kind::CSV, Kind::PRIORITY_CLASS, Kind::CRD];
        let kind = kinds.into_iter().find(|kind| Some(kind.kind) == text("kind"))?;
        let object = ObjectName::new(kind, if kind.namespaced { namespace } else { "" }, text("name")?);
        Some((object, text("uid")?.to_owned()))
    };
    list.as_array().into_iter().flatten().filter_map(read).collect()
}

/// Returns the objects that a plan creates for a version, with the version that needs each, from the plan alone.
pub(crate) fn created_by(plan: &Value, csv: &str) -> Vec<(ObjectName, String)> {
    let steps = own_steps(plan, csv).into_iter().filter(|step| step.status != "Present");
    steps.map(|step| (step.object, step.csv)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(steps: Value) -> Value {
        json!({"metadata": {"name": "install-1", "namespace": "ns"}, "status": {"plan": steps}})
    }

    fn step(kind: &str, name: &str, csv: &str, status: &str) -> Value {
        json!({"resolving": csv, "status": status, "resource": {"kind": kind, "name": name}})
    }

    #[test]
    fn operators_that_a_plan_upgrades_are_not_owned() {
        let plan = plan(json!([
            step("ClusterServiceVersion", "foo.v1", "foo.v1", "Created"),
            step("CustomResourceDefinition", "foos.example.com", "foo.v1", "Present"),
            step("ClusterServiceVersion", "bar.v2", "bar.v2", "Created"),
            step("ClusterServiceVersion", "dep.v1", "dep.v1", "Created"),
            step("Subscription", "dep-stable", "dep.v1", "Created"),
            step("CustomResourceDefinition", "deps.example.com", "dep.v1", "Created"),
        ]));
        let created: Vec<String> = created_by(&plan, "foo.v1").iter().map(|(object, _)| object.to_string()).collect();
        assert_eq!(
            created,
            [
                "ClusterServiceVersion ns/foo.v1",
                "ClusterServiceVersion ns/dep.v1",
                "Subscription ns/dep-stable",
                "CustomResourceDefinition deps.example.com"
            ]
        );
    }

    #[test]
    fn created_objects_are_read_back() {
        let mut source = json!({"metadata": {"namespace": "ns", "annotations": {}}});
        let created = [(ObjectName::new(Kind::CRD, "", "foos.example.com"), "u1".to_owned())];
        record(&mut source, &created);
        record(&mut source, &created);
        assert_eq!(recorded(&source), created);
        let crd = |versions: &[&str]| {
            let one = |(at, version): (usize, &&str)| (format!("{ALONGSIDE}{at}"), json!(version));
            json!({"metadata": {"annotations": versions.iter().enumerate().map(one).collect::<serde_json::Map<_, _>>()}})
        };
        let versions = ["ns/foo.v1".to_owned()];
        assert!(is_only_for(&crd(&["ns/foo.v1"]), &versions));
        assert!(!is_only_for(&crd(&["ns/foo.v1", "other/foo.v1"]), &versions) && !is_only_for(&crd(&[]), &versions));
        for text in ["", "{}", "[{}]", r#"[{"kind": "Node", "name": "a", "uid": "b"}]"#] {
            assert_eq!(recorded(&json!({"metadata": {"annotations": {CREATED: text}}})), []);
        }
    }
}
