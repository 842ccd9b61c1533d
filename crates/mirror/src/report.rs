//! What is missing, and whom that hits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;

use crate::lock::Role;

/// What becomes of bundles whose images are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnMissing {
    /// The set is not whole until they are there.
    #[default]
    Fail,
    /// They leave the catalog.
    Drop,
    /// They stay in the catalog.
    Keep,
}

/// An image that is missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    /// The image, as somebody names it.
    pub image: String,
    /// What it is for.
    pub role: Role,
    /// Why it is missing.
    pub cause: String,
    /// The bundles that need it, each behind its package.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
    /// What can be done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Missing {
    /// Returns the bundles that need it: package and name.
    pub fn bundles(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.used_by.iter().filter_map(|user| {
            let (package, bundle) = user.split_once('/')?;
            Some((package.to_owned(), bundle.to_owned()))
        })
    }
}

/// Shows what is missing, by package and bundle; images that no bundle needs come last.
pub fn text(missing: &[Missing]) -> String {
    let mut by_bundle: BTreeMap<(String, String), Vec<&Missing>> = BTreeMap::new();
    let mut others = Vec::new();
    for one in missing {
        let mut bundles = one.bundles().peekable();
        if bundles.peek().is_none() {
            others.push(one);
        }
        for bundle in bundles {
            by_bundle.entry(bundle).or_default().push(one);
        }
    }
    let mut out = String::new();
    let mut last = None;
    for ((package, bundle), images) in &by_bundle {
        if last != Some(package) {
            let _ = writeln!(out, "package {package}");
            last = Some(package);
        }
        let _ = writeln!(out, "  bundle {bundle}");
        for one in images {
            line(&mut out, "    ", one);
        }
    }
    for one in others {
        line(&mut out, "", one);
    }
    out
}

fn line(out: &mut String, indent: &str, one: &Missing) {
    let role = match one.role {
        Role::Bundle => "the bundle itself",
        Role::Related => "a related image",
        Role::Additional => "an additional image",
        Role::Catalog => "a catalog",
    };
    let image = if one.image.is_empty() { "(no name)" } else { &one.image };
    let _ = writeln!(out, "{indent}{image}, {role}: {}", one.cause);
    if let Some(help) = &one.help {
        let _ = writeln!(out, "{indent}  help: {help}");
    }
}

/// Returns the bundles that lack something.
pub fn bundles(missing: &[Missing]) -> BTreeSet<(String, String)> {
    missing.iter().flat_map(Missing::bundles).collect()
}

/// Returns what is missing as a document.
pub fn json(missing: &[Missing]) -> String {
    let mut text = serde_json::to_string_pretty(&serde_json::json!({ "missing": missing })).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t18_a_report_names_packages_and_bundles() {
        let missing = |image: &str, role, used_by: &[&str], help: Option<&str>| Missing {
            image: image.into(),
            role,
            cause: "manifest unknown".into(),
            used_by: used_by.iter().map(|user| (*user).to_owned()).collect(),
            help: help.map(str::to_owned),
        };
        let all = [
            missing("q.io/a:v1", Role::Related, &["etcd/etcd.v1", "etcd/etcd.v2"], None),
            missing("q.io/x:v1", Role::Additional, &[], Some("ask for it elsewhere")),
            missing("", Role::Related, &["buoy/buoy.v1"], None),
        ];
        insta::assert_snapshot!(text(&all), @r"
        package buoy
          bundle buoy.v1
            (no name), a related image: manifest unknown
        package etcd
          bundle etcd.v1
            q.io/a:v1, a related image: manifest unknown
          bundle etcd.v2
            q.io/a:v1, a related image: manifest unknown
        q.io/x:v1, an additional image: manifest unknown
          help: ask for it elsewhere
        ");
        assert_eq!(bundles(&all).len(), 3);
    }
}
