//! Parses an `ImageSetConfiguration` and reports all problems with their lines.

mod package;

use std::collections::BTreeSet;

use edit::filter::image_set::PackageRequest;
use fbc::json::{JsonKind, JsonPath, Raw};
use fbc::yaml;
use image::{ImageReferenceError, Platform, Reference};
use regex::Regex;

use super::fields::{FieldValue, Fields, shown};
use super::{AdditionalImage, CatalogLocation, CatalogRequest, ImageSet, ImageSetKind, ImageSetProblem, LIMIT};
use crate::destination::is_path;
use package::package;

/// Limits of the YAML parser.
const YAML: yaml::YamlLimits = yaml::YamlLimits { depth: 64, nodes: 1 << 20, bytes: LIMIT * 4 };

/// Parses a file of the given kind.
///
/// # Errors
/// Fails with all problems, sorted by line.
pub fn read(text: &[u8], kind: ImageSetKind) -> Result<ImageSet, Vec<ImageSetProblem>> {
    let one = |line: usize, message: String| vec![ImageSetProblem { line, message, help: None }];
    if text.len() > LIMIT {
        return Err(one(1, format!("the file has more than {LIMIT} bytes")));
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let document = match yaml::documents(text).find(|document| {
        // Comments and blank lines before a separator are not a document.
        document.as_ref().map_or(true, |document| !is_blank(document.text))
    }) {
        Some(Ok(document)) => document,
        Some(Err(error)) => return Err(one(error.line + 1, error.to_string())),
        None => return Err(one(1, "the file is empty".to_owned())),
    };
    let json =
        yaml::to_text(document.text, &YAML).map_err(|error| one(document.line + error.line + 1, error.to_string()))?;
    let mut fields = Fields::new(document.text, document.line);
    if let Some((key, offset)) = yaml::repeated_key(document.text) {
        let line = fields.line_at(offset);
        fields.problems.push(ImageSetProblem { line, message: format!("{key}: duplicate key"), help: None });
    }
    let set = top(&mut fields, json.raw(), kind);
    let mut problems = fields.problems;
    problems.sort_by_key(|problem| problem.line);
    problems.dedup();
    if problems.is_empty() { Ok(set) } else { Err(problems) }
}

fn is_blank(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#') || line.starts_with("---"))
}

fn top(fields: &mut Fields<'_>, value: Raw<'_>, kind: ImageSetKind) -> ImageSet {
    let mut set = ImageSet::default();
    let (name, part, other) = match kind {
        ImageSetKind::Mirror => ("ImageSetConfiguration", "mirror", "delete"),
        ImageSetKind::Delete => ("DeleteImageSetConfiguration", "delete", "mirror"),
    };
    let root = JsonPath::default();
    let known = ["kind", "apiVersion", "metadata", "archiveSize", "mirror", "delete"];
    let found = fields.of(value, &root, &known, &["kind", "mirror", "delete"]);
    let get = |name: &str| found.iter().find(|field| field.name == name);
    match get("kind") {
        None => fields.problem(&root, format!("kind: missing, expected {name}")),
        Some(field) => {
            let text = fields.text(field);
            if let Some(text) = text.filter(|text| text != name) {
                fields.problem(&field.path, format!("kind: expected {name}, found {text}"));
            }
        }
    }
    if let Some(field) = get("archiveSize") {
        set.archive_size = fields.number(field).filter(|size| *size > 0);
    }
    if let Some(field) = get(other) {
        fields.problem(&field.path, format!("{other}: not allowed in a file of kind {name}"));
    }
    match get(part) {
        None if value.kind() == JsonKind::Object => fields.problem(&root, format!("{part}: missing")),
        None => {}
        Some(field) => mirror(fields, field, kind, &mut set),
    }
    set
}

fn mirror(fields: &mut Fields<'_>, field: &FieldValue<'_>, kind: ImageSetKind, set: &mut ImageSet) {
    let known = ["operators", "additionalImages", "blockedImages", "helm", "platform", "samples"];
    for field in fields.of(field.value, &field.path, &known, &[]) {
        match field.name {
            "operators" => {
                for (value, path) in fields.list(&field) {
                    set.catalogs.extend(catalog(fields, value, &path, kind));
                }
                check_unique(fields, &field, &set.catalogs);
            }
            "additionalImages" => {
                for (value, path) in fields.list(&field) {
                    set.additional.extend(additional(fields, value, &path));
                }
            }
            "blockedImages" => {
                for (value, path) in fields.list(&field) {
                    set.blocked.extend(blocked(fields, value, &path));
                }
            }
            "helm" | "platform" if !is_empty(field.value) => {
                if field.name == "platform" {
                    platform_content(fields, &field);
                }
                let line = fields.line(&field.path);
                set.unsupported.push((field.name, line));
            }
            _ => {}
        }
    }
}

/// Returns whether a value is empty: it contains no scalar.
fn is_empty(value: Raw<'_>) -> bool {
    match value.kind() {
        JsonKind::Object => value.members().all(|(_, value)| is_empty(value)),
        JsonKind::Array => value.items().next().is_none(),
        JsonKind::Bool => value.as_bool() == Some(false),
        JsonKind::String => value.as_str().is_some_and(|text| text.is_empty()),
        JsonKind::Null => true,
        JsonKind::Number => false,
    }
}

fn platform_content(fields: &mut Fields<'_>, field: &FieldValue<'_>) {
    let known = ["graph", "channels", "architectures", "platforms", "release", "kubeVirtContainer"];
    let found = fields.of(field.value, &field.path, &known, &[]);
    let has = |name: &str| found.iter().any(|field| field.name == name && !is_empty(field.value));
    if has("architectures") && has("platforms") {
        fields.problem(&field.path, "platform: architectures and platforms are mutually exclusive");
    }
    let mut seen = BTreeSet::new();
    for channels in found.iter().filter(|field| field.name == "channels") {
        for (value, path) in fields.list(channels) {
            let known = ["name", "type", "minVersion", "maxVersion", "shortestPath", "full"];
            for field in fields.of(value, &path, &known, &[]).iter().filter(|field| field.name == "name") {
                let name = fields.text(field).unwrap_or_default();
                if !seen.insert(name.clone()) {
                    fields.problem(&field.path, format!("duplicate release channel {name:?}"));
                }
            }
        }
    }
}

fn catalog(fields: &mut Fields<'_>, value: Raw<'_>, path: &JsonPath, kind: ImageSetKind) -> Option<CatalogRequest> {
    let known = [
        "catalog",
        "full",
        "skipDependencies",
        "targetCatalog",
        "targetTag",
        "targetCatalogSourceTemplate",
        "platforms",
        "packages",
    ];
    let mut source = None;
    let mut request = CatalogRequest {
        source: CatalogLocation::Layout("/".into()),
        full: false,
        target_catalog: None,
        target_tag: None,
        template: None,
        platforms: Vec::new(),
        packages: Vec::new(),
    };
    let found = fields.of(value, path, &known, &[]);
    for field in &found {
        match field.name {
            "catalog" => source = fields.text(field).and_then(|text| catalog_source(fields, field, &text)),
            "full" => request.full = fields.switch(field),
            "skipDependencies" => drop(fields.switch(field)),
            "targetCatalog" => request.target_catalog = target(fields, field),
            "targetTag" => request.target_tag = tag(fields, field),
            "targetCatalogSourceTemplate" => request.template = fields.text(field).filter(|text| !text.is_empty()),
            "platforms" => request.platforms = platforms(fields, field),
            _ => {
                for (value, path) in fields.list(field) {
                    let package = package(fields, value, &path, kind);
                    if package.as_ref().is_some_and(|it| request.packages.iter().any(|other| other.name == it.name)) {
                        let name = package.map(|package| package.name).unwrap_or_default();
                        fields.problem(&path, format!("duplicate package {name:?}"));
                        continue;
                    }
                    request.packages.extend(package);
                }
            }
        }
    }
    if !found.iter().any(|field| field.name == "catalog") && value.kind() == JsonKind::Object {
        fields.problem(path, format!("{}: catalog is missing", shown(path)));
    }
    if request.full {
        let ranged = |package: &PackageRequest| {
            !package.bounds.is_open() || package.channels.iter().any(|(_, bounds)| !bounds.is_open())
        };
        for package in request.packages.iter().filter(|package| ranged(package)) {
            let message = format!("package {:?} has a version range, but full is true", package.name);
            fields.problem_with_help(path, message, "remove 'full: true' to apply the range");
        }
    }
    request.source = source?;
    Some(request)
}

fn catalog_source(fields: &mut Fields<'_>, field: &FieldValue<'_>, text: &str) -> Option<CatalogLocation> {
    if let Some(directory) = text.strip_prefix("oci://") {
        if !directory.starts_with('/') {
            fields.problem(&field.path, format!("{text:?}: expected oci:// and an absolute path"));
            return None;
        }
        return Some(CatalogLocation::Layout(directory.into()));
    }
    reference(fields, field, text).map(CatalogLocation::Registry)
}

fn reference(fields: &mut Fields<'_>, field: &FieldValue<'_>, text: &str) -> Option<Reference> {
    match Reference::parse(text.strip_prefix("docker://").unwrap_or(text)) {
        Ok(reference) => Some(reference),
        Err(error) => {
            let message = format!("{}: {text:?}: {error}", shown(&field.path));
            match error {
                ImageReferenceError::NoVersion(_) => fields.problem_with_help(
                    &field.path,
                    format!("{}: {text:?} has neither tag nor digest", shown(&field.path)),
                    format!("write {text}:latest for the latest image"),
                ),
                _ => fields.problem(&field.path, message),
            }
            None
        }
    }
}

fn target(fields: &mut Fields<'_>, field: &FieldValue<'_>) -> Option<String> {
    let text = fields.text(field).filter(|text| !text.is_empty())?;
    if !is_path(&text) {
        let message = format!("{}: {text:?} is not a repository path", shown(&field.path));
        fields.problem_with_help(
            &field.path,
            message,
            "use lowercase letters, digits, '.', '_' and '-', separated by '/'",
        );
        return None;
    }
    Some(text)
}

fn tag(fields: &mut Fields<'_>, field: &FieldValue<'_>) -> Option<String> {
    let text = fields.text(field).filter(|text| !text.is_empty())?;
    if Reference::parse(&format!("registry.invalid/x:{text}")).is_err() {
        fields.problem(&field.path, format!("{}: {text:?} is not a valid tag", shown(&field.path)));
        return None;
    }
    Some(text)
}

fn platforms(fields: &mut Fields<'_>, field: &FieldValue<'_>) -> Vec<Platform> {
    let mut platforms = Vec::new();
    for (value, path) in fields.list(field) {
        let mut platform = Platform::default();
        for field in fields.of(value, &path, &["os", "architecture", "variant"], &[]) {
            let text = fields.text(&field).unwrap_or_default();
            match field.name {
                "os" => platform.os = text,
                "architecture" => platform.architecture = text,
                _ => platform.variant = text,
            }
        }
        if platform.os.is_empty() || platform.architecture.is_empty() {
            fields.problem(&path, format!("{}: os and architecture are required", shown(&path)));
            continue;
        }
        platforms.push(platform);
    }
    platforms
}

fn additional(fields: &mut Fields<'_>, value: Raw<'_>, path: &JsonPath) -> Option<AdditionalImage> {
    let (mut found, mut target_repo, mut target_tag, mut wanted) = (None, None, None, Vec::new());
    let own = fields.of(value, path, &["name", "targetRepo", "targetTag", "platforms"], &[]);
    for field in &own {
        match field.name {
            "name" => {
                let text = fields.text(field).unwrap_or_default();
                if text.starts_with("oci:") {
                    let message = format!("{}: {text:?}: expected an image in a registry", shown(&field.path));
                    fields.problem_with_help(&field.path, message, "copy it to a registry with 'opm copy'");
                } else {
                    found = reference(fields, field, &text);
                }
            }
            "targetRepo" => target_repo = target(fields, field),
            "targetTag" => target_tag = tag(fields, field),
            _ => wanted = platforms(fields, field),
        }
    }
    if !own.iter().any(|field| field.name == "name") && value.kind() == JsonKind::Object {
        fields.problem(path, format!("{}: name is missing", shown(path)));
    }
    Some(AdditionalImage { reference: found?, target_repo, target_tag, platforms: wanted })
}

fn blocked(fields: &mut Fields<'_>, value: Raw<'_>, path: &JsonPath) -> Option<Regex> {
    let own = fields.of(value, path, &["name"], &[]);
    let Some(field) = own.first() else {
        if value.kind() == JsonKind::Object {
            fields.problem(path, format!("{}: name is missing", shown(path)));
        }
        return None;
    };
    let text = fields.text(field)?;
    match regex::RegexBuilder::new(&text).size_limit(1 << 20).build() {
        Ok(regex) => Some(regex),
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
            fields.problem(
                &field.path,
                format!("{}: {text:?} is not a regular expression: {reason}", shown(&field.path)),
            );
            None
        }
    }
}

/// Reports catalogs with the same name at the destination.
fn check_unique(fields: &mut Fields<'_>, field: &FieldValue<'_>, catalogs: &[CatalogRequest]) {
    let mut seen = BTreeSet::new();
    for (number, catalog) in catalogs.iter().enumerate() {
        let name = unique_name(catalog);
        if !seen.insert(name.clone()) {
            let path = field.path.then(number).then("catalog");
            let message = format!("duplicate catalog {name:?}");
            fields.problem_with_help(&path, message, "set a different targetCatalog or targetTag for one of them");
        }
    }
}

fn unique_name(catalog: &CatalogRequest) -> String {
    let CatalogLocation::Registry(reference) = &catalog.source else { return catalog.source.to_string() };
    let path = catalog.target_catalog.as_deref().unwrap_or(reference.repository());
    let version = match (&catalog.target_tag, reference.tag(), reference.digest()) {
        (Some(tag), _, _) => format!(":{tag}"),
        (None, Some(tag), _) => format!(":{tag}"),
        (None, None, Some(digest)) => format!("@{digest}"),
        (None, None, None) => String::new(),
    };
    format!("{}/{path}{version}", reference.host())
}
