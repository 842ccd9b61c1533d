//! The descriptive part of a bundle: from its CSV, or from CSV metadata in the catalog.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The description of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsvDescription {
    /// Its display name.
    pub title: String,
    /// Its description, as Markdown.
    pub description: String,
    /// The name of the provider.
    pub provider: String,
    /// The website of the provider.
    pub provider_url: String,
    /// Its keywords.
    pub keywords: Vec<String>,
    /// Links: name and address.
    pub links: Vec<(String, String)>,
    /// Maintainers: name and mail address.
    pub maintainers: Vec<(String, String)>,
    /// Install modes, and whether they are supported.
    pub modes: Vec<(String, bool)>,
    /// The minimum version of Kubernetes.
    pub kube: String,
    /// Its maturity.
    pub maturity: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The kinds it provides.
    pub owned: Vec<DescribedApi>,
    /// The kinds it requires.
    pub required: Vec<DescribedApi>,
}

/// A kind that a bundle provides or requires, with its description.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DescribedApi {
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Its display name.
    pub title: String,
    /// Its description.
    pub description: String,
    /// The name of its definition.
    pub definition: String,
    /// Whether it is an aggregated API.
    pub service: bool,
    /// Its described fields: path, name, description.
    pub descriptors: Vec<[String; 3]>,
}

/// The five capability levels, from lowest to highest.
pub(crate) const LEVELS: [&str; 5] =
    ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];

/// Features by the names of their annotations.
const FEATURES: [(&str, &str); 10] = [
    ("disconnected", "Disconnected"),
    ("fips-compliant", "FIPS"),
    ("proxy-aware", "Proxy"),
    ("cnf", "Cloud-native network function"),
    ("cni", "Network plugin"),
    ("csi", "Storage plugin"),
    ("tls-profiles", "TLS profiles"),
    ("token-auth-aws", "AWS tokens"),
    ("token-auth-azure", "Azure tokens"),
    ("token-auth-gcp", "GCP tokens"),
];

impl CsvDescription {
    /// Reads a CSV, or the value of an `olm.csv.metadata` property.
    pub fn of(value: &Value) -> CsvDescription {
        let whole = value.get("spec").is_some();
        let spec = if whole { &value["spec"] } else { value };
        let meta = if whole { &value["metadata"] } else { value };
        let crds = if whole { &spec["customresourcedefinitions"] } else { &spec["crdDescriptions"] };
        let services = if whole { &spec["apiservicedefinitions"] } else { &spec["apiServiceDefinitions"] };
        let both = |side: &str| {
            let crds = items(&crds[side]).iter().map(|crd| DescribedApi::of(crd, false));
            crds.chain(items(&services[side]).iter().map(|service| DescribedApi::of(service, true))).collect()
        };
        CsvDescription {
            title: text(&spec["displayName"]),
            description: text(&spec["description"]),
            provider: text(&spec["provider"]["name"]),
            provider_url: text(&spec["provider"]["url"]),
            keywords: items(&spec["keywords"]).iter().map(text).collect(),
            links: items(&spec["links"]).iter().map(|link| (text(&link["name"]), text(&link["url"]))).collect(),
            maintainers: items(&spec["maintainers"])
                .iter()
                .map(|one| (text(&one["name"]), text(&one["email"])))
                .collect(),
            modes: items(&spec["installModes"])
                .iter()
                .map(|mode| (text(&mode["type"]), mode["supported"].as_bool().unwrap_or_default()))
                .collect(),
            kube: text(&spec["minKubeVersion"]),
            maturity: text(&spec["maturity"]),
            annotations: strings(&meta["annotations"]),
            labels: strings(&meta["labels"]),
            owned: both("owned"),
            required: both("required"),
        }
    }

    /// Keeps what a package page shows.
    pub(crate) fn for_shelf(mut self) -> CsvDescription {
        for api in self.owned.iter_mut().chain(&mut self.required) {
            api.descriptors.clear();
        }
        self.annotations.retain(|name, _| name != "alm-examples" && !name.contains("initialization-resource"));
        self
    }

    /// Returns an annotation, trimmed; empty if there is none.
    pub fn annotation(&self, name: &str) -> &str {
        self.annotations.get(name).map_or("", |text| text.trim())
    }

    /// Returns its short description.
    pub fn short(&self) -> &str {
        self.annotation("description")
    }

    /// Returns its categories.
    pub fn categories(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for one in self.annotation("categories").split(',').map(str::trim).filter(|one| !one.is_empty()) {
            if !found.iter().any(|known| known.eq_ignore_ascii_case(one)) {
                found.push(one.to_owned());
            }
        }
        found
    }

    /// Returns its capability level, 1 to 5; 0 if it has none.
    pub fn capability(&self) -> u8 {
        let text = self.annotation("capabilities");
        match LEVELS.iter().position(|level| level.eq_ignore_ascii_case(text)) {
            Some(place) => place as u8 + 1,
            None => u8::from(!text.is_empty()),
        }
    }

    /// Returns its infrastructure features.
    pub fn features(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for old in json_list(self.annotation("operators.openshift.io/infrastructure-features")) {
            // The old list may name one feature twice.
            let known = FEATURES.iter().find(|(name, title)| feature_is(&old, name, title));
            if let Some((_, title)) = known
                && !found.iter().any(|one| one == title)
            {
                found.push((*title).to_owned());
            }
        }
        for (name, title) in FEATURES {
            match self.annotation(&format!("features.operators.openshift.io/{name}")) {
                "true" if !found.iter().any(|known| known == title) => found.push(title.to_owned()),
                "false" => found.retain(|known| known != title),
                _ => {}
            }
        }
        found
    }

    /// Returns the values of labels such as `operatorframework.io/arch.amd64`.
    pub fn supported(&self, prefix: &str, default: &str) -> Vec<String> {
        let found: Vec<String> = self
            .labels
            .iter()
            .filter(|(_, value)| *value == "supported")
            .filter_map(|(name, _)| name.strip_prefix(prefix).map(str::to_owned))
            .collect();
        if found.is_empty() { vec![default.to_owned()] } else { found }
    }

    /// Returns the install modes that it supports.
    pub(crate) fn supported_modes(&self) -> Vec<&str> {
        self.modes.iter().filter(|(_, supported)| *supported).map(|(mode, _)| mode.as_str()).collect()
    }

    /// Describes the install modes in words.
    pub(crate) fn modes_in_words(&self) -> String {
        let has = |mode: &str| self.modes.iter().any(|(name, supported)| name == mode && *supported);
        let mut words = Vec::new();
        for (mode, word) in [
            ("AllNamespaces", "all namespaces"),
            ("MultiNamespace", "several namespaces"),
            ("SingleNamespace", "one namespace"),
            ("OwnNamespace", "its own namespace"),
        ] {
            if has(mode) {
                words.push(word);
            }
        }
        match words.as_slice() {
            [] => String::new(),
            [one] => (*one).to_owned(),
            [most @ .., last] => format!("{}, or {last}", most.join(", ")),
        }
    }
}

impl DescribedApi {
    fn of(value: &Value, service: bool) -> DescribedApi {
        let definition = text(&value["name"]);
        let group = match service {
            true => text(&value["group"]),
            false => definition.split_once('.').map(|(_, group)| group.to_owned()).unwrap_or_default(),
        };
        let mut descriptors = Vec::new();
        for (side, list) in
            [("spec", "specDescriptors"), ("status", "statusDescriptors"), ("action", "actionDescriptors")]
        {
            for one in items(&value[list]) {
                descriptors.push([
                    format!("{side}.{}", text(&one["path"])),
                    text(&one["displayName"]),
                    text(&one["description"]),
                ]);
            }
        }
        DescribedApi {
            group,
            version: text(&value["version"]),
            kind: text(&value["kind"]),
            title: text(&value["displayName"]),
            description: text(&value["description"]),
            definition,
            service,
            descriptors,
        }
    }
}

fn feature_is(old: &str, name: &str, title: &str) -> bool {
    let old = old.to_lowercase().replace([' ', '_'], "-");
    old == name
        || old == title.to_lowercase()
        || (name == "fips-compliant" && old.starts_with("fips"))
        || (name == "proxy-aware" && old == "proxy-aware")
}

/// Parses a JSON list of texts in an annotation.
pub(crate) fn json_list(text: &str) -> Vec<String> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns the text of a value; empty if it is not a text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the items of a list; none if it is not a list.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    let members = value.as_object().into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_features_are_merged() {
        let csv = CsvDescription::of(&serde_json::json!({"annotations": {
            "operators.openshift.io/infrastructure-features": "[\"Disconnected\", \"Proxy\", \"proxy-aware\", \"fips\"]",
            "features.operators.openshift.io/proxy-aware": "true",
            "features.operators.openshift.io/fips-compliant": "false",
        }}));
        assert_eq!(csv.features(), ["Disconnected", "Proxy"]);
    }
}
