//! Checks sizes against the limits of clusters.

use crate::ParsedBundle;
use crate::packed::Counted;
use crate::pointer::{list, text};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::rehearse::display_name;
use crate::rehearse::input::{OmittedBytes, RehearsalInput};
use crate::rehearse::v1::Runtime;

/// How close a size is to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Above 85 %.
    Near,
    /// Above the limit: the cluster rejects it.
    Over,
}

/// A size near or above a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// A machine-readable identifier of the limit.
    pub id: &'static str,
    /// How close it is.
    pub level: Level,
    /// The measured object.
    pub object: String,
    pub size: usize,
    pub limit: usize,
    /// A description of the limited quantity.
    pub what: &'static str,
}

/// The annotations of one object: keys and values together.
const ANNOTATIONS: usize = 262_144;
/// The values of a ConfigMap or Secret.
const VALUES: usize = 1_048_576;
/// One object as sent to the API server: the default limit of etcd.
const OBJECT: usize = 1_572_864;
/// A Helm release, compressed, in Secrets.
pub(crate) const RELEASE: usize = 11 * 1_040_384;
/// One object for Boxcutter.
const BOXCUTTER_OBJECT: usize = 921_600;
/// The number of objects in one phase of Boxcutter.
const PHASE: usize = 50;
/// A bundle in a ConfigMap, for OLM v0.
const BUNDLE: usize = 1_048_576;
/// A message of the registry API: the default of gRPC.
const MESSAGE: usize = 4_194_304;
const NAME: usize = 253;

/// The OLM generation that the objects are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OlmTarget {
    /// OLM v0.
    V0,
    /// OLM v1.
    V1(Runtime),
}

/// Checks the objects that a cluster would receive from a bundle, including omitted bytes.
pub(crate) fn check_limits<'a>(
    bundle: &RehearsalInput,
    objects: impl IntoIterator<Item = &'a Value>,
    of: OlmTarget,
) -> Vec<Limit> {
    measured(objects, of, &bundle.omitted)
}

fn measured<'a>(objects: impl IntoIterator<Item = &'a Value>, of: OlmTarget, omitted: &OmittedBytes) -> Vec<Limit> {
    let mut found = LimitHits(Vec::new());
    let objects: Vec<&Value> = objects.into_iter().collect();
    let mut release = 0;
    let mut phases: Vec<(&'static str, usize)> = Vec::new();
    for object in &objects {
        let (name, kind) = (display_name(object), text(object, "/kind"));
        let omitted = match kind {
            "CustomResourceDefinition" => omitted.get(text(object, "/metadata/name")).copied().unwrap_or_default(),
            _ => 0,
        };
        let size = length(object) + omitted;
        release += size;
        found.measure("size-object", &name, size, OBJECT, "one object as it is sent to the cluster");
        found.measure("size-annotations", &name, annotations(object, ""), ANNOTATIONS, "the annotations of an object");
        let template = annotations(object, "/spec/template");
        found.measure("size-annotations", &format!("pods of {name}"), template, ANNOTATIONS, "the annotations of pods");
        found.measure("size-name", &name, text(object, "/metadata/name").len(), NAME, "the name of an object");
        if matches!(kind, "ConfigMap" | "Secret") {
            found.measure("size-values", &name, values(object), VALUES, "the values of a ConfigMap or Secret");
        }
        if kind == "Service" {
            let length = text(object, "/metadata/name").len();
            if length > crate::rehearse::names::LABEL {
                found.measure(
                    "size-service-name",
                    &name,
                    length,
                    crate::rehearse::names::LABEL,
                    "the name of a Service",
                );
            }
        }
        containers(object, &name, &mut found);
        match of {
            OlmTarget::V1(Runtime::Boxcutter) => {
                let phase = crate::rehearse::v1::phase(kind);
                match phases.iter_mut().find(|(name, _)| *name == phase) {
                    Some((_, count)) => *count += 1,
                    None => phases.push((phase, 1)),
                }
                if size > BOXCUTTER_OBJECT {
                    let packed = compressed(&[object]);
                    let what = "one object for Boxcutter, compressed";
                    found.measure("size-boxcutter", &name, packed, BOXCUTTER_OBJECT, what);
                }
            }
            OlmTarget::V0 | OlmTarget::V1(Runtime::Helm) => {}
        }
    }
    // Objects below the limit need no compression, which adds less than one percent at worst.
    if of == OlmTarget::V1(Runtime::Helm) && release > RELEASE / 5 * 4 {
        let size = compressed(&objects);
        found.measure("size-release", "the Helm release", size, RELEASE, "a Helm release, compressed");
    }
    for (phase, count) in phases {
        found.measure("size-phase", &format!("phase {phase}"), count, PHASE, "objects in a phase of Boxcutter");
    }
    found.0
}

/// Checks the size of a bundle in a ConfigMap, into which OLM v0 unpacks it.
pub(crate) fn check_packed(size: u64) -> Vec<Limit> {
    let mut found = LimitHits(Vec::new());
    found.measure("size-bundle", "the bundle", size as usize, BUNDLE, "a bundle in a ConfigMap, compressed");
    found.0
}

/// Checks the size of the message with which a registry serves a bundle for OLM v0.
pub(crate) fn check_message(whole: &ParsedBundle) -> Vec<Limit> {
    let mut found = LimitHits(Vec::new());
    let objects: usize = whole.objects.iter().map(|object| length(&object.value)).sum();
    found.measure("size-message", "the bundle", objects, MESSAGE, "a message of the registry API");
    found.0
}

/// The limits that objects hit.
struct LimitHits(Vec<Limit>);

impl LimitHits {
    fn measure(&mut self, id: &'static str, object: &str, size: usize, limit: usize, what: &'static str) {
        let level = match size {
            _ if size > limit => Level::Over,
            // Only exceeding a name limit matters.
            _ if limit > NAME && size * 100 > limit * 85 => Level::Near,
            _ => return,
        };
        self.0.push(Limit { id, level, object: object.to_owned(), size, limit, what });
    }
}

fn annotations(object: &Value, at: &str) -> usize {
    let all = object.pointer(&format!("{at}/metadata/annotations")).and_then(Value::as_object);
    all.into_iter().flatten().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

fn values(object: &Value) -> usize {
    ["data", "stringData", "binaryData"]
        .iter()
        .filter_map(|field| object.get(field)?.as_object())
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}

fn containers(object: &Value, name: &str, found: &mut LimitHits) {
    for container in list(object, "/spec/template/spec/containers") {
        let length = text(container, "/name").len();
        if length > crate::rehearse::names::LABEL {
            found.measure(
                "size-container-name",
                name,
                length,
                crate::rehearse::names::LABEL,
                "the name of a container",
            );
        }
        for port in list(container, "/ports") {
            let length = text(port, "/name").len();
            if length > 15 {
                found.measure("size-port-name", name, length, 15, "the name of a port");
            }
        }
    }
}

/// Returns the size of a value as JSON in bytes.
pub(crate) fn length(value: &Value) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(value) => {
            if *value {
                4
            } else {
                5
            }
        }
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => written(text),
        Value::Array(items) => between(items.len()) + items.iter().map(length).sum::<usize>(),
        Value::Object(members) => {
            let each = members.iter().map(|(key, value)| written(key) + 1 + length(value));
            between(members.len()) + each.sum::<usize>()
        }
    }
}

/// Returns the bytes for brackets and commas.
fn between(items: usize) -> usize {
    2 + items.saturating_sub(1)
}

/// Returns the size of a string with quotes in bytes.
fn written(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..32 => 5,
        _ => 0,
    };
    2 + text.len() + text.bytes().map(escaped).sum::<usize>()
}

/// Returns the size of objects as JSON, compressed as one stream.
fn compressed(objects: &[&Value]) -> usize {
    let mut encoder = GzEncoder::new(Counted(0), Compression::new(6));
    for object in objects {
        let _ = serde_json::to_writer(&mut encoder, object);
    }
    encoder.finish().map_or(0, |counted| counted.0 as usize)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lengths_match_the_serialized_text() {
        let all: String = (0..=0x17f).filter_map(char::from_u32).collect();
        let values = [
            json!({"a": [], "b": {}, "c": [1, -2.5, 1e300, u64::MAX, true, false, null], "": {"x\n": "\"\\"}}),
            json!([all, "", "é", "\u{1f600}"]),
            json!({all: [[[]]]}),
        ];
        for value in values {
            assert_eq!(length(&value), value.to_string().len(), "{value}");
        }
    }

    #[test]
    fn sizes_are_compared_with_limits() {
        let check = |objects: &[Value], of| measured(objects, of, &OmittedBytes::new());
        let large = |size: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "x".repeat(size)}});
        let measured = |size| {
            let found = check(&[large(size)], OlmTarget::V0);
            found.iter().map(|limit| (limit.id, limit.level)).collect::<Vec<_>>()
        };
        assert_eq!(measured(1000), []);
        assert_eq!(measured(900_000), [("size-values", Level::Near)]);
        assert_eq!(measured(1_048_576), [("size-values", Level::Over)]);
        assert_eq!(measured(2_000_000), [("size-object", Level::Over), ("size-values", Level::Over)]);
        let annotated = json!({"kind": "A", "metadata": {"annotations": {"k": "x".repeat(262_144)}}});
        assert_eq!(check(&[annotated], OlmTarget::V1(Runtime::Helm))[0].id, "size-annotations");
        let roles: Vec<Value> =
            (0..51).map(|at| json!({"kind": "ClusterRole", "metadata": {"name": at.to_string()}})).collect();
        assert_eq!(check(&roles, OlmTarget::V1(Runtime::Boxcutter))[0].object, "phase roles");
    }
}
