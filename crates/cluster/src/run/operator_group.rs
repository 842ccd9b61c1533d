//! The OperatorGroup of a namespace: an existing or a new one.

use serde_json::Value;

use fbc::quote::quote;

use super::install_mode::{InstallMode, ModeType, Targets};
use super::objects;
use crate::views::{OperatorGroup, Selector, Stored};

/// Why the OperatorGroups of a namespace do not match a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperatorGroupError {
    /// The install mode requires namespaces, and the request has none.
    #[error(
        "install mode {} must have {} target namespace: set --install-mode {_0}=NAMESPACE",
        quote(&_0.to_string()),
        if *_0 == ModeType::MultiNamespace { "at least one" } else { "exactly one" }
    )]
    NoNamespaces(ModeType),
    /// The existing group has other namespaces.
    #[error(
        "existing operatorgroup {} is not compatible with install mode {}",
        quote(group),
        quote(&asked.to_string())
    )]
    Incompatible {
        /// The name of the group.
        group: String,
        /// The requested install mode.
        asked: InstallMode,
    },
    /// Only OLM knows the namespaces that a selector matches.
    #[error(
        "OLM reports no namespaces that the selector of operatorgroup {} matches: check with 'kubectl get operatorgroup \
         {_0} -o yaml', or omit --install-mode",
        quote(_0)
    )]
    Unmatched(String),
    /// OLM installs nothing in a namespace with several groups.
    #[error("more than one operator group in namespace {namespace}: [{}]", groups.join(" "))]
    Several {
        namespace: String,
        /// The names of the groups.
        groups: Vec<String>,
    },
}

/// Decides which OperatorGroup to use; returns the one to create, if there is none.
///
/// # Errors
/// Fails if the existing groups do not match.
pub(crate) fn decide(
    groups: &[OperatorGroup],
    targets: &Targets,
    namespace: &str,
) -> Result<Option<Value>, OperatorGroupError> {
    let name = |group: &OperatorGroup| group.metadata.name().to_owned();
    match groups {
        [] => match (&targets.namespaces, targets.mode) {
            (Some(namespaces), _) => Ok(Some(objects::operator_group(namespace, namespaces))),
            (None, mode) => Err(OperatorGroupError::NoNamespaces(mode)),
        },
        [group] => {
            let Some(asked) = &targets.asked else { return Ok(None) };
            let mut wanted = targets.namespaces.clone().ok_or(OperatorGroupError::NoNamespaces(targets.mode))?;
            wanted.sort();
            let watched = watched(group).ok_or_else(|| OperatorGroupError::Unmatched(name(group)))?;
            if watched == wanted {
                return Ok(None);
            }
            Err(OperatorGroupError::Incompatible { group: name(group), asked: asked.clone() })
        }
        several => Err(OperatorGroupError::Several {
            namespace: namespace.to_owned(),
            groups: several.iter().map(name).collect(),
        }),
    }
}

/// Returns the install mode in a namespace with these groups, or with the new one; `None` if OLM has not reported it.
pub(crate) fn mode(groups: &[OperatorGroup], targets: &Targets, namespace: &str) -> Option<InstallMode> {
    let watched = groups.first().map_or_else(|| targets.namespaces.clone(), watched);
    watched.map(|watched| InstallMode::watching(&watched, namespace))
}

/// Returns the target namespaces of a group; empty means all. `None` if OLM has not reported those that its selector
/// matches.
fn watched(group: &OperatorGroup) -> Option<Vec<String>> {
    let named = |names: &[String]| names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>();
    let mut watched = named(&group.spec.target_namespaces);
    if watched.is_empty() {
        watched = named(&group.status.namespaces);
    }
    watched.sort();
    (!watched.is_empty() || group.spec.selector.as_ref().is_none_or(Selector::matches_all)).then_some(watched)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::views::decode;

    fn targets(requested: Option<&str>, supported: &[&str]) -> Targets {
        let modes: Vec<(String, bool)> = supported.iter().map(|name| ((*name).to_owned(), true)).collect();
        let requested = requested.map(|requested| InstallMode::parse(requested).unwrap());
        Targets::decide(requested.as_ref(), &modes, "foo.v1", "ns").unwrap()
    }

    fn group(name: &str, namespaces: &[&str]) -> OperatorGroup {
        decode(json!({"metadata": {"name": name}, "spec": {"targetNamespaces": namespaces}})).unwrap()
    }

    #[test]
    fn a_missing_group_is_created() {
        let created = decide(&[], &targets(None, &["AllNamespaces"]), "ns").unwrap().unwrap();
        assert_eq!(created["spec"], json!({}));
        let created = decide(&[], &targets(None, &["OwnNamespace"]), "ns").unwrap().unwrap();
        assert_eq!(created["spec"], json!({"targetNamespaces": ["ns"]}));
        assert_eq!(created["metadata"]["name"], "operator-sdk-og");
        assert!(
            decide(&[], &targets(None, &["SingleNamespace"]), "ns").unwrap_err().to_string().ends_with("=NAMESPACE")
        );
    }

    #[test]
    fn an_existing_group_must_match_the_request() {
        let existing = [group("og", &["b", "a"])];
        assert_eq!(decide(&existing, &targets(None, &["AllNamespaces"]), "ns").unwrap(), None);
        assert_eq!(decide(&existing, &targets(Some("MultiNamespace=a,b"), &["MultiNamespace"]), "ns").unwrap(), None);
        assert_eq!(
            decide(&existing, &targets(Some("AllNamespaces"), &["AllNamespaces"]), "ns").unwrap_err().to_string(),
            "existing operatorgroup \"og\" is not compatible with install mode \"AllNamespaces\""
        );
        assert_eq!(
            decide(&[group("a", &[]), group("b", &[])], &targets(None, &["AllNamespaces"]), "ns")
                .unwrap_err()
                .to_string(),
            "more than one operator group in namespace ns: [a b]"
        );
    }
    #[test]
    fn a_selector_without_reported_namespaces_does_not_mean_all_namespaces() {
        let selecting = |status: Value| {
            let selector = json!({"matchLabels": {"team": "a"}});
            decode(json!({"metadata": {"name": "og"}, "spec": {"selector": selector}, "status": status})).unwrap()
        };
        let all = targets(Some("AllNamespaces"), &["AllNamespaces"]);
        insta::assert_snapshot!(
            decide(&[selecting(json!({}))], &all, "ns").unwrap_err(),
            @"OLM reports no namespaces that the selector of operatorgroup \"og\" matches: check with 'kubectl get operatorgroup og -o yaml', or omit --install-mode"
        );
        let own = targets(Some("OwnNamespace"), &["OwnNamespace"]);
        assert_eq!(decide(&[selecting(json!({"namespaces": ["ns"]}))], &own, "ns").unwrap(), None);
        let global: OperatorGroup = decode(json!({"metadata": {"name": "og"}, "spec": {"selector": {}}})).unwrap();
        assert_eq!(decide(&[global], &all, "ns").unwrap(), None);
    }
    #[test]
    fn the_install_mode_is_that_of_the_group_in_use() {
        let mode = |groups: &[OperatorGroup], requested: Option<&str>, supported: &[&str]| {
            mode(groups, &targets(requested, supported), "ns").map(|mode| mode.to_string())
        };
        assert_eq!(mode(&[], None, &["OwnNamespace"]).as_deref(), Some("OwnNamespace"));
        assert_eq!(mode(&[], Some("MultiNamespace=a,b"), &["MultiNamespace"]).as_deref(), Some("MultiNamespace=a,b"));
        let all = ["AllNamespaces"];
        assert_eq!(mode(&[group("og", &[])], None, &all).as_deref(), Some("AllNamespaces"));
        assert_eq!(mode(&[group("og", &["a"])], None, &all).as_deref(), Some("SingleNamespace=a"));
    }
}
