//! Reads the content of a namespace from its objects, as printed by `kubectl get -o json`.

use std::collections::BTreeSet;

use fbc::json::{Raw, Text};
use fbc::version::Version;

use crate::error::NamespaceError;
use crate::input::{CandidateBundle, CatalogInput, ClusterNamespace, NamespaceSubscription};
use crate::request;

/// The Subscriptions, CSVs and catalog priorities of a cluster.
#[derive(Debug, Default)]
pub struct Objects {
    /// The namespaces that have Subscriptions or CSVs of their own.
    namespaces: BTreeSet<String>,
    subscriptions: Vec<(String, NamespaceSubscription)>,
    csvs: Vec<(String, CandidateBundle, bool)>,
    /// The priorities of catalogs, by name and namespace.
    pub priorities: Vec<((String, String), i64)>,
}

impl Objects {
    /// Reads documents: objects, or lists of them. Objects of other kinds are ignored.
    ///
    /// # Errors
    /// Fails when a document is not a Kubernetes object.
    pub fn read(documents: &[Text]) -> Result<Objects, NamespaceError> {
        let mut objects = Objects::default();
        for document in documents {
            let raw = document.raw();
            match text(raw, &["kind"]).as_str() {
                "" => return Err(NamespaceError::NoKind),
                kind if kind.ends_with("List") => {
                    raw.get_items("items").for_each(|item| objects.add(item, kind));
                }
                _ => objects.add(raw, ""),
            }
        }
        Ok(objects)
    }

    fn add(&mut self, object: Raw<'_>, list: &str) {
        let kind = match text(object, &["kind"]) {
            // Items of a list of one kind need not repeat it.
            kind if kind.is_empty() => list.trim_end_matches("List").to_owned(),
            kind => kind,
        };
        let (name, namespace) = (text(object, &["metadata", "name"]), text(object, &["metadata", "namespace"]));
        let some = |path: &[&str]| Some(text(object, path)).filter(|text| !text.is_empty());
        match kind.as_str() {
            "Subscription" => {
                self.namespaces.insert(namespace.clone());
                let subscription = NamespaceSubscription {
                    name,
                    package: text(object, &["spec", "name"]),
                    channel: some(&["spec", "channel"]),
                    starting_csv: some(&["spec", "startingCSV"]),
                    installed: some(&["status", "installedCSV"]),
                    source: (text(object, &["spec", "source"]), text(object, &["spec", "sourceNamespace"])),
                };
                self.subscriptions.push((namespace, subscription));
            }
            "ClusterServiceVersion" => {
                let copied = some(&["metadata", "labels", "olm.copiedFrom"]).is_some()
                    || text(object, &["status", "reason"]) == "Copied";
                if !copied {
                    self.namespaces.insert(namespace.clone());
                    let (bundle, complete) = csv(object, &name);
                    self.csvs.push((namespace, bundle, complete));
                }
            }
            "CatalogSource" => {
                let priority = object.get("spec").and_then(|spec| spec.get("priority")?.text().parse().ok());
                self.priorities.push(((name, namespace), priority.unwrap_or_default()));
            }
            _ => {}
        }
    }

    /// Returns the names of the namespaces that have Subscriptions or CSVs of their own.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(String::as_str)
    }

    /// Returns the content of one namespace, and its name.
    ///
    /// # Errors
    /// Fails when there are several and none is given, or the given one has no content.
    pub fn namespace(&self, wanted: Option<&str>) -> Result<(String, ClusterNamespace), NamespaceError> {
        let names = || self.namespaces.iter().cloned().collect();
        let name = match (wanted, self.namespaces.first(), self.namespaces.len()) {
            (Some(name), ..) if self.namespaces.contains(name) => name,
            (Some(name), ..) => return Err(NamespaceError::NoNamespace { name: name.to_owned(), others: names() }),
            (None, Some(only), 1) => only,
            (None, None, _) => return Err(NamespaceError::Empty),
            (None, ..) => return Err(NamespaceError::Several(names())),
        };
        let here = |(namespace, it): &(String, NamespaceSubscription)| (namespace == name).then(|| it.clone());
        let subscriptions: Vec<NamespaceSubscription> = self.subscriptions.iter().filter_map(here).collect();
        let mut installed = Vec::new();
        for (_, csv, complete) in self.csvs.iter().filter(|(namespace, ..)| namespace == name) {
            let mut csv = csv.clone();
            let known = subscriptions.iter().find(|it| it.installed.as_deref() == Some(csv.name.as_str()));
            if let Some(known) = known.filter(|_| !complete) {
                // Without the annotation, clusters take the package from the Subscription.
                csv.package = known.package.clone();
                csv.facts.packages.push((known.package.clone(), csv.version.clone()));
            }
            installed.push(csv);
        }
        Ok((name.to_owned(), ClusterNamespace { installed, subscriptions }))
    }

    /// Returns the name and the content of one namespace of a cluster that has the given catalogs, which get the names
    /// and priorities of the cluster's.
    ///
    /// A Subscription names its installed CSV even if the objects lack the CSV itself; its bundle then comes from the
    /// catalogs, as the notes say.
    ///
    /// # Errors
    /// Fails like [`Objects::namespace`], and when a Subscription uses none of the catalogs.
    pub fn with_catalogs(
        &self,
        wanted: Option<&str>,
        catalogs: &mut [CatalogInput],
    ) -> Result<(String, ClusterNamespace, Vec<MissingCsv>), NamespaceError> {
        let (namespace, mut state) = self.namespace(wanted)?;
        // A single catalog takes the name that the first Subscription uses.
        if let ([only], Some(first)) = (&mut *catalogs, state.subscriptions.first()) {
            only.name.clone_from(&first.source.0);
        }
        for wish in &state.subscriptions {
            match catalogs.iter_mut().find(|catalog| catalog.name == wish.source.0) {
                Some(catalog) => catalog.namespace.clone_from(&wish.source.1),
                None => {
                    return Err(NamespaceError::UnknownCatalog {
                        subscription: wish.name.clone(),
                        catalog: wish.source.0.clone(),
                        known: catalogs.iter().map(|catalog| catalog.name.clone()).collect(),
                    });
                }
            }
        }
        for ((name, namespace), priority) in &self.priorities {
            if let Some(catalog) = catalogs.iter_mut().find(|it| it.name == *name && it.namespace == *namespace) {
                catalog.priority = *priority;
            }
        }
        let mut missing = Vec::new();
        for wish in &state.subscriptions {
            let Some(name) = &wish.installed else { continue };
            if state.installed.iter().any(|csv| csv.name == *name) {
                continue;
            }
            let mut bundles = catalogs.iter().flat_map(|catalog| &catalog.bundles);
            let known = bundles.find(|bundle| bundle.name == *name && bundle.package == wish.package);
            missing.push(MissingCsv { name: name.clone(), in_catalog: known.is_some() });
            state.installed.push(known.cloned().unwrap_or_else(|| request::unknown(name, &wish.package, None)));
        }
        Ok((namespace, state, missing))
    }
}

/// An installed CSV that is not among the objects of its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCsv {
    /// Its name.
    pub name: String,
    /// Whether a catalog has its bundle.
    pub in_catalog: bool,
}

fn text(object: Raw<'_>, path: &[&str]) -> String {
    let found = path.iter().try_fold(object, |value, name| value.get(name));
    found.and_then(Raw::as_str).unwrap_or_default().into_owned()
}

/// Reads a CSV, and returns whether it carries the properties of its bundle.
fn csv(object: Raw<'_>, name: &str) -> (CandidateBundle, bool) {
    let version = Version::parse_tolerant(&text(object, &["spec", "version"])).ok();
    let annotation = text(object, &["metadata", "annotations", "operatorframework.io/properties"]);
    if let Ok(raw) = Raw::parse(&annotation, fbc::limits::MAX_DEPTH)
        && let Some(properties) = raw.get("properties")
    {
        return (CandidateBundle::installed(name, version, properties.text()), true);
    }
    let mut properties = Vec::new();
    let spec = object.get("spec");
    for (list, kind) in [("owned", "olm.gvk"), ("required", "olm.gvk.required")] {
        let of = |field: &str| spec.and_then(|spec| spec.get(field)?.get(list)).into_iter().flat_map(Raw::items);
        for crd in of("customresourcedefinitions") {
            let name = text(crd, &["name"]);
            let group = name.split_once('.').map_or("", |(_, group)| group);
            properties.push(api(kind, group, &text(crd, &["version"]), &text(crd, &["kind"])));
        }
        for service in of("apiservicedefinitions") {
            let part = |name: &str| text(service, &[name]);
            properties.push(api(kind, &part("group"), &part("version"), &part("kind")));
        }
    }
    (CandidateBundle::installed(name, version, &Text::list(properties.iter().map(Text::raw))), false)
}

fn api(kind: &str, group: &str, version: &str, name: &str) -> Text {
    Text::object(|property| {
        property.string("type", kind).object("value", |value| {
            value.string("group", group).string("kind", name).string("version", version);
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_objects_is_a_namespace() {
        let list = r#"{"kind":"List","items":[
            {"kind":"Subscription","metadata":{"name":"s","namespace":"n"},"spec":{"name":"p","channel":"c","source":"cat","sourceNamespace":"olm"},"status":{"installedCSV":"p.v1"}},
            {"kind":"ClusterServiceVersion","metadata":{"name":"p.v1","namespace":"n"},"spec":{"version":"1.0.0","customresourcedefinitions":{"owned":[{"name":"foos.g.example","version":"v1","kind":"Foo"}],"required":[{"name":"bars.g.example","version":"v1","kind":"Bar"}]}}},
            {"kind":"ClusterServiceVersion","metadata":{"name":"q.v1","namespace":"n","annotations":{"operatorframework.io/properties":"{\"properties\":[{\"type\":\"olm.package\",\"value\":{\"packageName\":\"q\",\"version\":\"1.0.0\"}}]}"}},"spec":{"version":"1.0.0"}},
            {"kind":"ClusterServiceVersion","metadata":{"name":"c.v1","namespace":"n","labels":{"olm.copiedFrom":"x"}}},
            {"kind":"CatalogSource","metadata":{"name":"cat","namespace":"olm"},"spec":{"priority":-7}},
            {"kind":"Pod","metadata":{"name":"x","namespace":"y"}}]}"#;
        let objects = Objects::read(&[Text::parse(list, 100).unwrap()]).unwrap();
        let (name, state) = objects.namespace(None).unwrap();
        assert_eq!((name.as_str(), state.subscriptions.len(), state.installed.len()), ("n", 1, 2));
        let first = &state.installed[0];
        assert_eq!((first.package.as_str(), first.facts.provides.len(), first.facts.needs.len()), ("p", 1, 1));
        assert_eq!(first.facts.provides[0], ["g.example", "v1", "Foo"].map(str::to_owned));
        assert_eq!(state.installed[1].package, "q");
        assert_eq!(objects.priorities, [(("cat".to_owned(), "olm".to_owned()), -7)]);
        assert!(objects.namespace(Some("other")).is_err());
        assert!(Objects::read(&[Text::object(|_| {})]).is_err());
        assert!(Objects::default().namespace(None).is_err());
    }
}
