//! CatalogSources: their spec and its validation.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::views::{Rest, is_default, or_default};

/// The port of catalog servers.
pub(crate) const PORT: u16 = 50051;
/// The label of serving pods, with the catalog name.
pub(crate) const SERVING_LABEL: &str = "olm.catalogSource";
/// The label of update pods, which check for a newer image, with the catalog name.
pub(crate) const UPDATE_LABEL: &str = "catalogsource.operators.coreos.com/update";
/// The label of all objects of a catalog.
pub(crate) const MANAGED_LABEL: &str = "olm.managed";
/// The poll interval if the given one is invalid.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// The spec of a CatalogSource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CatalogSpec {
    /// `grpc`, `configmap` or `internal`.
    pub(crate) source_type: String,
    /// The catalog image.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) image: String,
    /// The address of an existing server.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) address: String,
    /// The ConfigMap with the catalog.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) config_map: String,
    /// The priority; higher values are preferred.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) priority: i64,
    /// The pull secrets.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub(crate) secrets: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) display_name: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) publisher: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) update_strategy: Option<UpdateStrategy>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) grpc_pod_config: Option<PodConfig>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct UpdateStrategy {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) registry_poll: Option<RegistryPoll>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RegistryPoll {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) interval: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

/// The settings of catalog pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodConfig {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) node_selector: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) tolerations: Vec<Value>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) affinity: Option<Value>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) priority_class_name: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) security_context_config: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) memory_target: Option<Value>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) extract_content: Option<ExtractContent>,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

/// The location of the content in an image without a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ExtractContent {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) catalog_dir: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) cache_dir: String,
    #[serde(flatten)]
    pub(crate) rest: Rest,
}

/// Why a CatalogSource cannot be served, as written to its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The poll interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) duration: Duration,
    /// The problem with the given interval.
    pub(crate) complaint: Option<Complaint>,
}

impl CatalogSpec {
    /// Parses the spec of an object.
    pub(crate) fn of(object: &DynamicObject) -> Result<CatalogSpec, Complaint> {
        let spec = object.data.get("spec").cloned().unwrap_or(Value::Null);
        serde_json::from_value(spec).map_err(|error| Complaint::invalid(error.to_string()))
    }

    /// Validates the spec.
    pub(crate) fn check(&self, name: &str) -> Result<(), Complaint> {
        let kind = self.source_type.as_str();
        match kind {
            "grpc" if self.image.is_empty() && self.address.is_empty() => Err(Complaint::invalid(format!(
                "image and address unset: at least one must be set for sourcetype: {kind}"
            ))),
            // The name becomes a label value and a service name.
            "grpc" if !self.image.is_empty() && name.len() > 63 => {
                Err(Complaint::invalid("the name is longer than 63 characters, which labels cannot hold".into()))
            }
            "configmap" | "internal" if self.config_map.is_empty() => {
                Err(Complaint::invalid(format!("configmap name unset: must be set for sourcetype: {kind}")))
            }
            "grpc" | "configmap" | "internal" => Ok(()),
            _ => Err(Complaint::invalid(format!("unknown sourcetype: {kind}"))),
        }
    }

    /// Returns the poll interval, if polling is enabled.
    pub(crate) fn interval(&self) -> Option<Interval> {
        let poll = self.update_strategy.as_ref()?.registry_poll.as_ref()?;
        Some(match fbc::spelling::duration::parse(&poll.interval) {
            Some(duration) if !duration.is_zero() => Interval { duration, complaint: None },
            _ => Interval {
                duration: DEFAULT_INTERVAL,
                complaint: Some(Complaint {
                    reason: "InvalidIntervalError",
                    message: format!("interval {:?} is not a duration; 15m0s is used", poll.interval),
                }),
            },
        })
    }

    /// Returns the pod settings.
    pub(crate) fn pod_config(&self) -> PodConfig {
        self.grpc_pod_config.clone().unwrap_or_default()
    }

    /// Returns the content location, if the image has no server.
    pub(crate) fn extract_content(&self) -> Option<ExtractContent> {
        self.pod_config().extract_content.filter(|extract| !extract.catalog_dir.is_empty())
    }
}

impl Complaint {
    pub(crate) fn invalid(message: String) -> Complaint {
        Complaint { reason: "SpecInvalidError", message }
    }

    pub(crate) fn registry(message: String) -> Complaint {
        Complaint { reason: "RegistryServerError", message }
    }
}

/// Returns the service name of a catalog.
pub(crate) fn service_name(catalog: &str) -> String {
    catalog.replace('.', "-")
}

/// Returns the in-cluster address of a catalog.
pub(crate) fn service_address(catalog: &str, namespace: &str) -> String {
    format!("{}.{namespace}.svc:{PORT}", service_name(catalog))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(value: Value) -> CatalogSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn missing_fields_give_the_messages_of_olm() {
        let checked = |value: Value| spec(value).check("name").map_err(|complaint| complaint.message);
        assert_eq!(checked(serde_json::json!({"sourceType": "grpc", "image": "r.test/a"})), Ok(()));
        assert_eq!(
            checked(serde_json::json!({"sourceType": "grpc"})),
            Err("image and address unset: at least one must be set for sourcetype: grpc".into())
        );
        assert_eq!(
            checked(serde_json::json!({"sourceType": "internal"})),
            Err("configmap name unset: must be set for sourcetype: internal".into())
        );
        assert_eq!(checked(serde_json::json!({"sourceType": "web"})), Err("unknown sourcetype: web".into()));
    }

    #[test]
    fn an_invalid_interval_defaults_to_15_minutes() {
        let interval = |text: &str| {
            spec(serde_json::json!({"updateStrategy": {"registryPoll": {"interval": text}}})).interval().unwrap()
        };
        assert_eq!(interval("1h30m").duration, Duration::from_secs(5400));
        assert_eq!(interval("1.5s").duration, Duration::from_millis(1500));
        for wrong in ["", "10", "often", "0s", "-1m", "1m.", "99999999999999999999h"] {
            let interval = interval(wrong);
            assert_eq!(interval.duration, DEFAULT_INTERVAL, "{wrong}");
            assert_eq!(interval.complaint.unwrap().reason, "InvalidIntervalError");
        }
        assert_eq!(spec(serde_json::json!({"updateStrategy": {}})).interval(), None);
    }
}
