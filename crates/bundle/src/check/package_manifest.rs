//! Checks package manifests, which list the channels of an operator in the layout that preceded bundles.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::finding::{Finding, Severity};
use crate::pointer::{list, text};

/// Checks a package manifest; findings refer to it as `file`.
pub(super) fn check(manifest: &Value, file: &str) -> Vec<Finding> {
    let package = text(manifest, "/packageName");
    let mut found = Vec::new();
    let mut error = |pointer: String, message: String| {
        let finding = Finding::new("package-manifest", Severity::Error, format!("({package}) {message}"));
        found.push(finding.at(file, 0, pointer));
    };
    if package.is_empty() {
        error("/packageName".into(), "packageName empty".into());
    }
    let channels = list(manifest, "/channels");
    if channels.is_empty() {
        error("/channels".into(), "channels empty".into());
        return found;
    }
    let default = text(manifest, "/defaultChannel");
    if default.is_empty() && channels.len() > 1 {
        error(String::new(), "default channel is empty but more than one channel exists".into());
    }
    let mut names = BTreeSet::new();
    for (at, channel) in channels.iter().enumerate() {
        let name = text(channel, "/name");
        if name.is_empty() {
            error(format!("/channels/{at}"), format!("channel {at} name is empty"));
        }
        if text(channel, "/currentCSV").is_empty() {
            error(format!("/channels/{at}"), format!("channel {name:?} currentCSV is empty"));
        }
        if !names.insert(name) {
            error(format!("/channels/{at}/name"), format!("duplicate package manifest channel name {name:?}"));
        }
    }
    if !default.is_empty() && !names.contains(default) {
        let text = format!("default channel {default:?} not found in the list of declared channels");
        error("/defaultChannel".into(), text);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_field_of_a_package_manifest_is_required() {
        let messages = |manifest: Value| {
            let found = check(&manifest, "foo.package.yaml");
            found.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>().join("; ")
        };
        let channel = |name: &str| json!({"name": name, "currentCSV": "foo.v1"});
        assert_eq!(messages(json!({"packageName": "foo", "channels": [channel("a")]})), "");
        assert_eq!(
            messages(json!({"packageName": "foo", "channels": [channel("a"), channel("b")], "defaultChannel": "b"})),
            ""
        );
        assert_eq!(messages(json!({"channels": [channel("a")]})), "() packageName empty");
        assert_eq!(messages(json!({"packageName": "foo"})), "(foo) channels empty");
        assert_eq!(
            messages(json!({"packageName": "foo", "channels": [channel("a"), channel("b")]})),
            "(foo) default channel is empty but more than one channel exists"
        );
        assert_eq!(
            messages(json!({"packageName": "foo", "channels": [{"name": "a"}]})),
            "(foo) channel \"a\" currentCSV is empty"
        );
        assert_eq!(
            messages(json!({"packageName": "foo", "channels": [{"currentCSV": "x"}]})),
            "(foo) channel 0 name is empty"
        );
        assert_eq!(
            messages(json!({"packageName": "foo", "defaultChannel": "c", "channels": [channel("a"), channel("a")]})),
            "(foo) duplicate package manifest channel name \"a\"; (foo) default channel \"c\" not found in the list of declared channels"
        );
    }
}
