//! Configuration for clusters and nodes: mirror sets, catalogs, and container engine settings.

mod engines;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use fbc::yaml;
use image::Reference;
use serde_json::{Value, json};

use crate::ResourceError;
use crate::destination::MirrorDestination;
use crate::lock::{Lock, LockedCatalog, LockedImage, Role};

/// How the objects are written.
#[derive(Debug, Clone, Default)]
pub struct ResourceOptions {
    /// The names of catalog objects, by catalog source or destination path.
    pub names: Vec<(String, String)>,
    /// Writes each object to its own file.
    pub one_object_per_file: bool,
    /// Whether the registry uses plain HTTP.
    pub plain_http: bool,
    /// Whether nodes never contact the source.
    pub no_fallback: bool,
}

/// Files by name, and notes.
#[derive(Debug, Default)]
pub struct Resources {
    pub files: BTreeMap<String, String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A source prefix and its mirror.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MirroredPrefix {
    source: String,
    mirror: String,
}

/// Creates all files for a set at a registry.
///
/// # Errors
/// Fails when clusters would reject the name of an object.
pub fn make(lock: &Lock, target: &MirrorDestination, options: &ResourceOptions) -> Result<Resources, ResourceError> {
    let mut resources = Resources::default();
    let images: Vec<(&LockedImage, Reference)> = lock
        .images
        .iter()
        .filter(|image| image.role != Role::Catalog)
        .filter_map(|image| Some((image, Reference::parse(image.source.trim_start_matches("docker://")).ok()?)))
        .collect();
    for (file, kind, field, wants) in [
        ("idms", "ImageDigestMirrorSet", "imageDigestMirrors", (|it| it.digest().is_some()) as fn(&Reference) -> bool),
        ("itms", "ImageTagMirrorSet", "imageTagMirrors", |it| it.tag().is_some()),
    ] {
        let mut documents = Vec::new();
        for category in ["generic", "operator"] {
            let own = images.iter().filter(|(image, source)| category_of(image) == category && wants(source));
            let scopes: BTreeSet<MirroredPrefix> = own.map(|(image, source)| scope(image, source, target)).collect();
            if scopes.is_empty() {
                continue;
            }
            let mirrors = by_source(&scopes).into_iter();
            let entry = |(source, mirrors): (&str, Vec<&str>)| match options.no_fallback {
                true => json!({"mirrorSourcePolicy": "NeverContactSource", "mirrors": mirrors, "source": source}),
                false => json!({"mirrors": mirrors, "source": source}),
            };
            let list: Vec<Value> = mirrors.map(entry).collect();
            let name = format!("{file}-{category}-0");
            documents.push((
                name.clone(),
                json!({
                    "apiVersion": "config.openshift.io/v1",
                    "kind": kind,
                    "metadata": {"annotations": annotations(), "name": name},
                    "spec": {field: list},
                }),
            ));
        }
        put(&mut resources, &format!("{file}-oc-mirror.yaml"), &documents, options.one_object_per_file);
    }
    catalogs(&mut resources, lock, target, options)?;
    engines::add(&mut resources, &images, target, options);
    Ok(resources)
}

fn annotations() -> Value {
    json!({"createdBy": "opm mirror"})
}

fn category_of(image: &LockedImage) -> &'static str {
    if image.role == Role::Additional { "generic" } else { "operator" }
}

/// Returns the scope of an image: source and destination without their common path suffix.
fn scope(image: &LockedImage, source: &Reference, target: &MirrorDestination) -> MirroredPrefix {
    let mirror = target.path(&image.path);
    let repository = source.repository();
    let same = mirror == repository || mirror.ends_with(&format!("/{repository}"));
    if target.max_nested_paths.is_some() || !same {
        return MirroredPrefix { source: source.name(), mirror: format!("{}/{mirror}", target.host) };
    }
    let without_last = |path: &str| path.rsplit_once('/').map(|(front, _)| format!("/{front}")).unwrap_or_default();
    MirroredPrefix {
        source: format!("{}{}", source.host(), without_last(repository)),
        mirror: format!("{}{}", target.host, without_last(&mirror)),
    }
}

fn by_source(scopes: &BTreeSet<MirroredPrefix>) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for scope in scopes {
        found.entry(&scope.source).or_default().push(&scope.mirror);
    }
    found
}

/// Writes documents to one file, or each to its own.
fn put(resources: &mut Resources, file: &str, documents: &[(String, Value)], apart: bool) {
    if apart {
        for (name, document) in documents {
            resources.files.insert(format!("{name}.yaml"), yaml::objects([document]));
        }
    } else if !documents.is_empty() {
        let stream = yaml::objects(documents.iter().map(|(_, document)| document));
        resources.files.insert(file.to_owned(), stream);
    }
}

fn catalogs(
    resources: &mut Resources,
    lock: &Lock,
    target: &MirrorDestination,
    options: &ResourceOptions,
) -> Result<(), ResourceError> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for catalog in &lock.catalogs {
        let name = name_of(catalog, &mut taken, options, &mut resources.notes)?;
        let image = format!("{}/{}:{}", target.host, target.path(&catalog.path), catalog.tag);
        let mut source = catalog.template.clone().unwrap_or_else(|| json!({}));
        source["apiVersion"] = "operators.coreos.com/v1alpha1".into();
        source["kind"] = "CatalogSource".into();
        let metadata = &mut source["metadata"];
        metadata["annotations"]["createdBy"] = "opm mirror".into();
        metadata["name"] = format!("cs-{name}").into();
        metadata["namespace"] = "openshift-marketplace".into();
        source["spec"]["image"] = image.clone().into();
        source["spec"]["sourceType"] = "grpc".into();
        let mut second = json!({
            "apiVersion": "olm.operatorframework.io/v1",
            "kind": "ClusterCatalog",
            "metadata": {"annotations": annotations(), "name": format!("cc-{name}")},
            "spec": {"priority": 0, "source": {"image": {"ref": image}, "type": "Image"}},
        });
        if let Some(directory) = &catalog.extract_content {
            extract(&mut source["spec"], directory);
        }
        if !catalog.whole && drop_cache(&mut source["spec"]) {
            let source = &catalog.source;
            resources.notes.push(format!(
                "{source}: the template extracts the cache of the original catalog; the mirrored catalog is extracted without a cache"
            ));
        }
        if let Some(template) = &catalog.template {
            from_template(&mut second["spec"], &template["spec"]);
        }
        second.sort_all_objects();
        source.sort_all_objects();
        resources.files.insert(format!("cs-{name}.yaml"), yaml::objects([&source]));
        resources.files.insert(format!("cc-{name}.yaml"), yaml::objects([&second]));
    }
    Ok(())
}

/// Makes clusters extract the content of an image that has no program, unless the template does so already. The server
/// builds its own cache: the one in the image may be of another format.
fn extract(spec: &mut Value, directory: &str) {
    let extracted = &mut spec["grpcPodConfig"]["extractContent"];
    if extracted.is_null() {
        *extracted = json!({"catalogDir": directory});
    }
}

/// Makes a rebuilt catalog extract its content without the original's cache, which does not match; returns whether
/// the template had one.
fn drop_cache(spec: &mut Value) -> bool {
    let Some(extracted) = spec.pointer_mut("/grpcPodConfig/extractContent").and_then(Value::as_object_mut) else {
        return false;
    };
    extracted.insert("catalogDir".into(), "/configs".into());
    extracted.remove("cacheDir").is_some()
}

/// Copies the settings that a CatalogSource and a ClusterCatalog share: the priority and the poll interval.
fn from_template(spec: &mut Value, template: &Value) {
    if let Some(priority) = template["priority"].as_i64() {
        spec["priority"] = priority.into();
    }
    let interval = template["updateStrategy"]["registryPoll"]["interval"].as_str().unwrap_or_default();
    if let Some(interval) = fbc::spelling::duration::parse(interval).filter(|interval| !interval.is_zero()) {
        spec["source"]["image"]["pollIntervalMinutes"] = interval.as_secs().div_ceil(60).into();
    }
}

/// Returns the name of a catalog's objects, without their prefix.
fn name_of(
    catalog: &LockedCatalog,
    taken: &mut BTreeSet<String>,
    options: &ResourceOptions,
    notes: &mut Vec<String>,
) -> Result<String, ResourceError> {
    let chosen = options.names.iter().find(|(of, _)| *of == catalog.source || *of == catalog.path);
    if let Some((_, name)) = chosen {
        check_name(name)?;
        return match taken.insert(name.clone()) {
            true => Ok(name.clone()),
            false => Err(ResourceError::Taken(name.clone())),
        };
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '-' };
    let version: String = match catalog.tag.strip_prefix("sha256-") {
        Some(hex) => hex.chars().take(12).collect(),
        None => catalog.tag.chars().take(12).map(plain).collect(),
    };
    let parts: Vec<&str> = catalog.path.split('/').collect();
    for count in 1..=parts.len() {
        let path = parts[parts.len() - count..].join("-").replace('.', "-");
        let name = format!("{path}-{version}");
        if taken.insert(name.clone()) {
            if count > 1 {
                notes.push(format!(
                    "{}: its objects are named {name:?}, because another catalog has its name",
                    catalog.source
                ));
            }
            return check_name(&name).map(|()| name);
        }
    }
    Err(ResourceError::NoFreeName(catalog.source.clone()))
}

/// Checks a name as clusters do, including its prefix.
fn check_name(name: &str) -> Result<(), ResourceError> {
    let whole = format!("cs-{name}");
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match !name.is_empty() && whole.len() <= 63 && whole.bytes().all(plain) && !whole.ends_with('-') {
        true => Ok(()),
        false => Err(ResourceError::Name(whole)),
    }
}

/// Checks a CatalogSource template.
///
/// # Errors
/// Fails when the template cannot be used.
pub fn check_template(template: &Value) -> Result<(), ResourceError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if text(&template["kind"]) != "CatalogSource" {
        return Err(ResourceError::TemplateKind(text(&template["kind"])));
    }
    let kind = text(&template["spec"]["sourceType"]);
    if !matches!(kind.as_str(), "" | "grpc") {
        return Err(ResourceError::TemplateSource(kind));
    }
    match template["spec"]["configMap"].is_null() {
        true => Ok(()),
        false => Err(ResourceError::TemplateConfigMap),
    }
}
