//! Packages with two versions whose CRDs differ, upgraded by operator-controller and judged by `crd-diff`.

use std::collections::BTreeSet;
use std::fmt;

use cluster::ResourceKind;
use serde_json::{Value, json};

use crate::stage::until;
use crate::stage_v1::{StageV1, condition};

/// The label of objects that a ClusterExtension created.
const OWNER: &str = "olm.operatorframework.io/owner-name";
/// How many extensions are installed in parallel.
const IN_PARALLEL: usize = 25;

/// A package with two versions.
pub(crate) struct Case {
    pub(crate) package: String,
    /// A description of the difference.
    pub(crate) what: String,
    pub(crate) crds: [Vec<Value>; 2],
}

/// The result of a comparison.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) compared: usize,
    pub(crate) refused: usize,
    /// The first versions that the cluster did not install, and why.
    pub(crate) left_out: Vec<String>,
    pub(crate) differences: Vec<String>,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compared { compared, refused, left_out, differences } = self;
        writeln!(f, "{compared} upgrades compared, {refused} refused, {} differ", differences.len())?;
        writeln!(f, "{} left out:\n{}", left_out.len(), left_out.join("\n"))?;
        write!(f, "{}", differences.join("\n\n"))
    }
}

impl Case {
    /// Returns the names of its CRDs.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.crds.iter().flatten().filter_map(|crd| crd["metadata"]["name"].as_str())
    }

    /// Pushes both bundles, and returns the blobs of the package.
    fn blobs(&self, stage: &StageV1) -> String {
        let package = &self.package;
        let mut text = format!(
            "---\nschema: olm.package\nname: {package}\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: {package}\n\
             name: stable\nentries:\n- name: {package}.v1.0.0\n- name: {package}.v2.0.0\n  replaces: {package}.v1.0.0\n"
        );
        for (version, crds) in ["1.0.0", "2.0.0"].into_iter().zip(&self.crds) {
            let mut operator = stage.stage.operator(package, version);
            // Only the CRDs matter here.
            operator.more = json!({
                "installModes": [{"type": "AllNamespaces", "supported": true}],
                "install": {"strategy": "deployment", "spec": {"deployments": []}},
                "customresourcedefinitions": {},
            });
            let mut files = operator.files();
            files.retain(|(path, _)| !path.ends_with("crd.json"));
            for (at, crd) in crds.iter().enumerate() {
                files.push((format!("/manifests/crd{at}.json"), crd.to_string().into_bytes()));
            }
            let image = stage.stage.push(&format!("{package}-bundle:v{version}"), &files, &operator.labels());
            text += &format!(
                "---\nschema: olm.bundle\nname: {package}.v{version}\npackage: {package}\nimage: {image}\nproperties:\n\
                 - type: olm.package\n  value: {{packageName: {package}, version: {version}}}\n"
            );
        }
        text
    }

    /// Compares the message of operator-controller with our findings.
    fn judge(&self, message: &str, found: &mut Compared) {
        let theirs = message.contains("validating upgrade for CRD");
        if !theirs && !message.is_empty() {
            found.left_out.push(format!("{}: {message}", self.what));
            return;
        }
        let both = self.crds[1].iter().filter_map(|new| {
            let old = self.crds[0].iter().find(|old| old["metadata"]["name"] == new["metadata"]["name"])?;
            Some((old, new))
        });
        let changes: Vec<bundle::review::crd::CrdDifference> =
            both.flat_map(|(old, new)| bundle::review::crd::compare([old], [new])).collect();
        let ours = changes.iter().any(|change| change.blocks);
        found.compared += 1;
        found.refused += usize::from(theirs);
        // operator-controller names each rule that we name; long messages are truncated.
        let cut = message.len() > 30_000;
        let unnamed = changes.iter().find(|change| change.blocks && !message.contains(change.olm_rule()) && !cut);
        if ours != theirs || unnamed.is_some() {
            let ours: Vec<String> = changes
                .iter()
                .filter(|change| change.blocks)
                .map(bundle::review::crd::CrdDifference::olm_message)
                .collect();
            let ours = ours.join("\n  ");
            found.differences.push(format!("{}\nopm: {ours}\noperator-controller: {message}", self.what));
        }
    }
}

/// Returns the message of a refusal, or `None` once the version is installed.
fn outcome(status: &Value, version: &str) -> Option<Option<String>> {
    if status["install"]["bundle"]["version"] == version {
        return Some(None);
    }
    let progressing = condition(status, "Progressing");
    let retrying = matches!(progressing["reason"].as_str(), Some("Retrying" | "Blocked"));
    retrying.then(|| progressing["message"].as_str().map(str::to_owned))
}

/// Groups cases that can be on a cluster together: no two share a CRD.
fn groups(cases: &[Case]) -> Vec<Vec<&Case>> {
    let mut groups: Vec<(Vec<&Case>, BTreeSet<&str>)> = Vec::new();
    for case in cases {
        let fits = |(group, known): &&mut (Vec<&Case>, BTreeSet<&str>)| {
            group.len() < IN_PARALLEL && case.names().all(|name| !known.contains(name))
        };
        match groups.iter_mut().find(fits) {
            Some((group, known)) => {
                group.push(case);
                known.extend(case.names());
            }
            None => groups.push((vec![case], case.names().collect())),
        }
    }
    groups.into_iter().map(|(group, _)| group).collect()
}

/// Lets operator-controller install and upgrade all packages, and compares its verdicts with ours.
#[expect(clippy::print_stderr, reason = "long runs report their progress")]
pub(crate) async fn compared(stage: &StageV1, cases: &[Case]) -> Compared {
    let text: String = cases.iter().map(|case| case.blobs(stage)).collect();
    stage.stage.env.file("catalog/catalog.yaml", text);
    stage.catalog("catalog", json!({})).await;
    stage.account().await;
    let mut found = Compared::default();
    for group in groups(cases) {
        for case in &group {
            stage.extension(&case.package, &case.package, json!({"version": "1.0.0"})).await;
        }
        let mut installed = Vec::new();
        for case in &group {
            let status = stage.decided(&case.package, |status| outcome(status, "1.0.0").is_some()).await;
            match outcome(&status, "1.0.0").flatten() {
                Some(why) => found.left_out.push(format!("{}: {why}", case.what)),
                None => {
                    stage.change(&case.package, json!({"version": "2.0.0"})).await;
                    installed.push(case);
                }
            }
        }
        for case in installed {
            let status = stage.decided(&case.package, |status| outcome(status, "2.0.0").is_some()).await;
            case.judge(&outcome(&status, "2.0.0").flatten().unwrap_or_default(), &mut found);
        }
        let done = found.compared + found.left_out.len();
        eprintln!("{done} of {}: {} refused, {} differ", cases.len(), found.refused, found.differences.len());
        let names: Vec<&str> = group.iter().map(|case| case.package.as_str()).collect();
        stage.remove(&names, &[]).await;
        // Other cases have CRDs of the same names, and the garbage collector takes minutes while many kinds change.
        let crds = stage.stage.cluster.objects(ResourceKind::CRD);
        for name in group.iter().flat_map(|case| case.names()) {
            let owned = stage
                .stage
                .get(ResourceKind::CRD, name)
                .await
                .is_some_and(|crd| crd["metadata"]["labels"][OWNER].is_string());
            if owned {
                // The CRD may be deleted meanwhile.
                let _ = crds.delete(name, &Default::default()).await;
                until("a CRD is gone", || async {
                    stage.stage.get(ResourceKind::CRD, name).await.is_none().then_some(())
                })
                .await;
            }
        }
    }
    stage.remove(&[], &["catalog"]).await;
    found
}
