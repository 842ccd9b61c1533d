//! Validates the user configuration of an installation: `spec.config.inline` of a ClusterExtension.

use fbc::yaml::{self, YamlError, YamlLimits};
use serde_json::{Map, Value};

use crate::rehearse::input::RehearsalInput;
use crate::rehearse::modes::InstallModeType;
use crate::rehearse::typed;

/// The size of a configuration file.
const LIMITS: YamlLimits = YamlLimits { depth: 100, nodes: 100_000, bytes: 1 << 20 };

/// Why a configuration cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigInputError {
    #[error(transparent)]
    Yaml(#[from] YamlError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Parses a configuration, which is YAML or JSON.
///
/// # Errors
/// Fails if the text is neither, or too large.
pub fn parse(text: &[u8]) -> Result<Value, ConfigInputError> {
    let mut json = Vec::new();
    yaml::to_json(text, &LIMITS, &mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

/// Sets a field like `deploymentConfig.env`, and creates its parent objects.
pub fn set(config: &mut Value, field: &str, value: Value) {
    let mut at = config;
    for step in field.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[step];
    }
    *at = value;
}

/// The validated fields of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstallConfig {
    /// The namespace to watch.
    pub watch_namespace: Option<String>,
    /// The changes to deployments.
    pub deployment: Option<Value>,
}

/// Why a configuration is invalid, in the words of OLM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid ClusterExtension configuration: invalid configuration: {}", list(.0))]
pub struct ConfigError(Vec<ConfigFault>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum ConfigFault {
    #[error("input is not a valid JSON object")]
    NotObject,
    #[error("unknown field \"{0}\"")]
    Unknown(String),
    #[error("required field \"watchNamespace\" is missing")]
    NoWatchNamespace,
    #[error("invalid type for field \"{field}\": got {found}, want {expected}")]
    Type { field: &'static str, found: &'static str, expected: &'static str },
    #[error("invalid value \"{text}\" for field \"watchNamespace\": {fault}")]
    WatchNamespace { text: String, fault: WatchFault },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum WatchFault {
    #[error("is not a DNS label (`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, 1 to 63 characters)")]
    NotLabel,
    #[error("must be the install namespace \"{0}\" (the bundle supports OwnNamespace)")]
    NotOwn(String),
    #[error("must differ from the install namespace \"{0}\" (the bundle supports SingleNamespace)")]
    Own(String),
}

fn list(faults: &[ConfigFault]) -> String {
    match faults {
        [one] => one.to_string(),
        _ => {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            format!("multiple errors found:\n  - {}", faults.join("\n  - "))
        }
    }
}

/// Validates a configuration as OLM v1 does.
///
/// # Errors
/// Returns the error message of OLM.
pub fn check(
    bundle: &RehearsalInput,
    namespace: &str,
    given: Option<&Value>,
    deployments: bool,
) -> Result<InstallConfig, ConfigError> {
    let empty = Map::new();
    let fields = match given {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(ConfigError(vec![ConfigFault::NotObject])),
    };
    let (own, single) =
        (bundle.supports(InstallModeType::OwnNamespace), bundle.supports(InstallModeType::SingleNamespace));
    let all = bundle.supports(InstallModeType::AllNamespaces);
    let mut faults = Vec::new();
    let mut config = InstallConfig::default();
    for key in fields.keys() {
        let known = key == "watchNamespace" && (own || single) || key == "deploymentConfig" && deployments;
        if !known {
            faults.push(ConfigFault::Unknown(key.clone()));
        }
    }
    let watch = fields.get("watchNamespace");
    if own || single {
        match watch {
            None if !all => faults.push(ConfigFault::NoWatchNamespace),
            None => {}
            Some(Value::Null) if all => {}
            Some(Value::String(text)) => match watch_fault(text, namespace, own, single) {
                None => config.watch_namespace = Some(text.clone()),
                Some(fault) => faults.push(ConfigFault::WatchNamespace { text: text.clone(), fault }),
            },
            Some(other) => {
                let expected = if all { "string or null" } else { "string" };
                faults.push(ConfigFault::Type {
                    field: "watchNamespace",
                    found: crate::check::json_type(other),
                    expected,
                });
            }
        }
    }
    if let Some(deployment) = fields.get("deploymentConfig").filter(|_| deployments) {
        match deployment {
            Value::Object(_) => {
                let mut unknown = Vec::new();
                config.deployment = Some(typed::convert("DeploymentConfig", deployment.clone(), "", &mut unknown));
                // The schema rejects unknown fields at the first level only.
                let first = unknown.iter().filter(|pointer| pointer.matches('/').count() == 1);
                faults.extend(first.map(|pointer| ConfigFault::Unknown(format!("deploymentConfig.{}", &pointer[1..]))));
            }
            Value::Null => {}
            other => faults.push(ConfigFault::Type {
                field: "deploymentConfig",
                found: crate::check::json_type(other),
                expected: "object",
            }),
        }
    }
    if faults.is_empty() { Ok(config) } else { Err(ConfigError(faults)) }
}

fn watch_fault(text: &str, namespace: &str, own: bool, single: bool) -> Option<WatchFault> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let good = (1..=63).contains(&bytes.len())
        && bytes.iter().all(|&byte| inner(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| inner(byte))
        && bytes.last().is_some_and(|&byte| inner(byte));
    if !good {
        Some(WatchFault::NotLabel)
    } else if own && !single && text != namespace {
        Some(WatchFault::NotOwn(namespace.to_owned()))
    } else if single && !own && text == namespace {
        Some(WatchFault::Own(namespace.to_owned()))
    } else {
        None
    }
}
