//! Sizes against what clusters take.

use std::io::Write;

use bundle::Whole;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::called;
use crate::input::{list, text};
use crate::v1::Runtime;

/// How near something is to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Over 85 %.
    Near,
    /// Over it: the cluster refuses.
    Over,
}

/// Something near or over a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The name of the limit, for programs.
    pub id: &'static str,
    /// How near.
    pub level: Level,
    /// What is measured.
    pub object: String,
    /// The measure of it.
    pub size: usize,
    /// The most that is taken.
    pub limit: usize,
    /// What is limited, in words.
    pub what: &'static str,
}

/// Annotations of one object, keys and values together.
const ANNOTATIONS: usize = 262_144;
/// The values of a ConfigMap or Secret.
const VALUES: usize = 1_048_576;
/// One object as it is sent: what etcd takes unless it is set otherwise.
const OBJECT: usize = 1_572_864;
/// A release of Helm, compressed, in Secrets.
const RELEASE: usize = 11 * 1_040_384;
/// One object for Boxcutter.
const BOXCUTTER_OBJECT: usize = 921_600;
/// Objects in one phase of Boxcutter.
const PHASE: usize = 50;
/// A bundle in a ConfigMap, for OLM v0.
const BUNDLE: usize = 1_048_576;
/// A message of the registry API: gRPC's default.
const MESSAGE: usize = 4_194_304;
const NAME: usize = 253;

/// Which generation the objects are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// OLM v0.
    V0,
    /// OLM v1.
    V1(Runtime),
}

/// Measures the objects that a cluster would get.
pub fn check_limits<'a>(objects: impl IntoIterator<Item = &'a Value>, of: For) -> Vec<Limit> {
    let mut found = Found(Vec::new());
    let objects: Vec<&Value> = objects.into_iter().collect();
    let mut release = 0;
    let mut phases: Vec<(&'static str, usize)> = Vec::new();
    for object in &objects {
        let name = called(object);
        let size = length(object);
        release += size;
        found.measure("size-object", &name, size, OBJECT, "one object as it is sent to the cluster");
        found.measure("size-annotations", &name, annotations(object, ""), ANNOTATIONS, "the annotations of an object");
        let template = annotations(object, "/spec/template");
        found.measure("size-annotations", &format!("pods of {name}"), template, ANNOTATIONS, "the annotations of pods");
        found.measure("size-name", &name, text(object, "/metadata/name").len(), NAME, "the name of an object");
        let kind = text(object, "/kind");
        if matches!(kind, "ConfigMap" | "Secret") {
            found.measure("size-values", &name, values(object), VALUES, "the values of a ConfigMap or Secret");
        }
        if kind == "Service" {
            let length = text(object, "/metadata/name").len();
            if length > crate::names::LABEL {
                found.measure("size-service-name", &name, length, crate::names::LABEL, "the name of a Service");
            }
        }
        containers(object, &name, &mut found);
        match of {
            For::V1(Runtime::Boxcutter) => {
                let phase = crate::v1::phase(kind);
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
            For::V0 | For::V1(Runtime::Helm) => {}
        }
    }
    // What is small enough as it is need not be compressed, which adds less than a hundredth.
    if of == For::V1(Runtime::Helm) && release > RELEASE / 5 * 4 {
        let size = compressed(&objects);
        found.measure("size-release", "the Helm release", size, RELEASE, "a Helm release, compressed");
    }
    for (phase, count) in phases {
        found.measure("size-phase", &format!("phase {phase}"), count, PHASE, "objects in a phase of Boxcutter");
    }
    found.0
}

/// Measures a bundle as OLM v0 unpacks and serves it: `files` are the contents of its files.
pub fn check_bundle<'a>(whole: &Whole, files: impl IntoIterator<Item = &'a [u8]>) -> Vec<Limit> {
    let mut found = Found(Vec::new());
    let size: usize = files.into_iter().map(|file| packed(file).div_ceil(3) * 4).sum();
    found.measure("size-bundle", "the bundle", size, BUNDLE, "a bundle in a ConfigMap, compressed");
    let objects: usize = whole.objects.iter().map(|object| length(&object.value)).sum();
    found.measure("size-message", "the bundle", objects, MESSAGE, "a message of the registry API");
    found.0
}

struct Found(Vec<Limit>);

impl Found {
    fn measure(&mut self, id: &'static str, object: &str, size: usize, limit: usize, what: &'static str) {
        let level = match size {
            _ if size > limit => Level::Over,
            // Names are as long as they are.
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

fn containers(object: &Value, name: &str, found: &mut Found) {
    for container in list(object, "/spec/template/spec/containers") {
        let length = text(container, "/name").len();
        if length > crate::names::LABEL {
            found.measure("size-container-name", name, length, crate::names::LABEL, "the name of a container");
        }
        for port in list(container, "/ports") {
            let length = text(port, "/name").len();
            if length > 15 {
                found.measure("size-port-name", name, length, 15, "the name of a port");
            }
        }
    }
}

/// Returns the bytes of an object as JSON.
fn length(object: &Value) -> usize {
    let mut counter = Counter(0);
    // Writing to a counter does not fail.
    let _ = serde_json::to_writer(&mut counter, object);
    counter.0
}

/// Returns the bytes of objects as JSON, compressed one after the other.
fn compressed(objects: &[&Value]) -> usize {
    let mut encoder = GzEncoder::new(Counter(0), Compression::new(6));
    for object in objects {
        let _ = serde_json::to_writer(&mut encoder, object);
    }
    encoder.finish().map_or(0, |counter| counter.0)
}

fn packed(bytes: &[u8]) -> usize {
    let mut encoder = GzEncoder::new(Counter(0), Compression::new(6));
    let written = encoder.write_all(bytes);
    written.and_then(|()| encoder.finish()).map_or(0, |counter| counter.0)
}

/// Counts what is written to it.
struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
