//! Validates the user configuration of an installation: `spec.config.inline` of a ClusterExtension.

use serde_json::{Map, Value};

use crate::input::Bundle;
use crate::modes::Mode;
use crate::typed;

/// The validated fields of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// The namespace to watch.
    pub watch_namespace: Option<String>,
    /// The changes to deployments.
    pub deployment: Option<Value>,
}

/// Validates a configuration as OLM v1 does.
///
/// # Errors
/// Returns the error message of OLM.
pub fn check(bundle: &Bundle, namespace: &str, given: Option<&Value>, deployments: bool) -> Result<Config, String> {
    let empty = Map::new();
    let fields = match given {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(refused(vec!["input is not a valid JSON object".into()])),
    };
    let (own, single) = (bundle.supports(Mode::OwnNamespace), bundle.supports(Mode::SingleNamespace));
    let all = bundle.supports(Mode::AllNamespaces);
    let mut faults = Vec::new();
    let mut config = Config::default();
    for key in fields.keys() {
        let known = key == "watchNamespace" && (own || single) || key == "deploymentConfig" && deployments;
        if !known {
            faults.push(format!("unknown field \"{key}\""));
        }
    }
    let watch = fields.get("watchNamespace");
    if own || single {
        match watch {
            None if !all => faults.push("required field \"watchNamespace\" is missing".into()),
            None => {}
            Some(Value::Null) if all => {}
            Some(Value::String(text)) => match watch_fault(text, namespace, own, single) {
                None => config.watch_namespace = Some(text.clone()),
                Some(fault) => faults.push(fault),
            },
            Some(other) => {
                let expected = if all { "string or null" } else { "string" };
                faults.push(format!(
                    "invalid type for field \"watchNamespace\": got {}, want {expected}",
                    bundle::json_type(other)
                ));
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
                faults.extend(first.map(|pointer| format!("unknown field \"deploymentConfig.{}\"", &pointer[1..])));
            }
            Value::Null => {}
            other => faults.push(format!(
                "invalid type for field \"deploymentConfig\": got {}, want object",
                bundle::json_type(other)
            )),
        }
    }
    if faults.is_empty() { Ok(config) } else { Err(refused(faults)) }
}

fn watch_fault(text: &str, namespace: &str, own: bool, single: bool) -> Option<String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let good = (1..=63).contains(&bytes.len())
        && bytes.iter().all(|&byte| inner(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| inner(byte))
        && bytes.last().is_some_and(|&byte| inner(byte));
    let why = if !good {
        "is not a DNS label (`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, 1 to 63 characters)".to_owned()
    } else if own && !single && text != namespace {
        format!("must be the install namespace \"{namespace}\" (the bundle supports OwnNamespace)")
    } else if single && !own && text == namespace {
        format!("must differ from the install namespace \"{namespace}\" (the bundle supports SingleNamespace)")
    } else {
        return None;
    };
    Some(format!("invalid value \"{text}\" for field \"watchNamespace\": {why}"))
}

fn refused(mut faults: Vec<String>) -> String {
    const HEAD: &str = "invalid ClusterExtension configuration: invalid configuration: ";
    match faults.len() {
        1 => format!("{HEAD}{}", faults.remove(0)),
        _ => format!("{HEAD}multiple errors found:\n  - {}", faults.join("\n  - ")),
    }
}
