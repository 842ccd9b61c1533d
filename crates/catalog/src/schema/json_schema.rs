//! Documents as JSON Schema 2020-12.

use fbc::property;
use fbc::shape::Shape;
use serde_json::{Map, Value, json};

use crate::schema::document::{Constraint, DocumentCategory, SchemaDocument, documents, is_same};
use crate::schema::patterns;

/// The name of the schema that covers every document of a catalog.
pub const CATALOG: &str = "catalog";

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the names of all schemas.
pub fn names() -> Vec<String> {
    std::iter::once(CATALOG.to_owned()).chain(documents().iter().map(SchemaDocument::full_name)).collect()
}

/// Returns the schema with this name.
///
/// A property can be required by its type alone if no blob has that name.
pub fn json_schema(name: &str) -> Option<Value> {
    let documents = documents();
    if name == CATALOG {
        return Some(catalog(&documents));
    }
    let full = documents.iter().find(|document| document.full_name() == name);
    let document = full.or_else(|| documents.iter().find(|document| document.name == name))?;
    let mut schema = start(&document.full_name());
    let mut definitions = Map::new();
    let body = body(document, &documents, &mut definitions);
    if is_recursive(document) {
        schema.insert("$ref".into(), reference(document).into());
        definitions.insert(key(document), body.into());
    } else {
        schema.extend(body);
    }
    if !definitions.is_empty() {
        schema.insert("$defs".into(), definitions.into());
    }
    Some(schema.into())
}

fn start(title: &str) -> Map<String, Value> {
    Map::from_iter([("$schema".to_owned(), DIALECT.into()), ("title".to_owned(), title.into())])
}

/// Returns the schema of any document of a catalog, which branches on the `schema` field.
fn catalog(documents: &[SchemaDocument]) -> Value {
    let mut schema = start(CATALOG);
    let about = "A document of a file-based catalog, called a blob. Its schema determines its type. Anyone may define \
                 schemas that do not start with olm.";
    schema.insert("description".into(), about.into());
    schema.insert("type".into(), "object".into());
    schema.insert("required".into(), json!(["schema"]));
    schema.insert(
        "properties".into(),
        json!({"schema": {"type": "string", "minLength": 1}, "package": {"type": "string"}, "name": {"type": "string"}}),
    );
    let mut definitions = Map::new();
    let mut cases = Vec::new();
    for document in documents.iter().filter(|document| document.kind == DocumentCategory::Blob) {
        let of_this = json!({"properties": {"schema": {"const": document.name}}, "required": ["schema"]});
        cases.push(json!({"if": of_this, "then": {"$ref": reference(document)}}));
        let body = body(document, documents, &mut definitions);
        definitions.insert(key(document), body.into());
    }
    schema.insert("allOf".into(), cases.into());
    schema.insert("$defs".into(), definitions.into());
    schema.into()
}

/// Returns the name of a definition. It is part of a JSON pointer, so it contains no slash.
fn key(document: &SchemaDocument) -> String {
    document.full_name().replace('/', "-")
}

fn reference(document: &SchemaDocument) -> String {
    format!("#/$defs/{}", key(document))
}

fn is_recursive(document: &SchemaDocument) -> bool {
    document.paths().iter().any(|(_, shape)| matches!(shape, Shape::List(item) if is_same(**item, document.shape)))
}

/// Returns the schema of a document and adds the definitions that it references.
fn body(
    document: &SchemaDocument,
    documents: &[SchemaDocument],
    definitions: &mut Map<String, Value>,
) -> Map<String, Value> {
    let mut schema = Writer { document }.value(document.shape, "", true);
    if document.kind == DocumentCategory::Blob {
        let properties = Writer { document }.envelope();
        let fields = schema.get_mut("properties").and_then(Value::as_object_mut).map(std::mem::take);
        let all: Map<String, Value> = properties.into_iter().chain(fields.unwrap_or_default()).collect();
        schema.insert("properties".into(), all.into());
        schema["properties"]["schema"] = json!({"const": document.name, "description": "The schema of this blob"});
    } else {
        let fields = Writer { document }.envelope();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            for (name, value) in fields {
                properties.insert(name, value);
            }
        }
    }
    if document.name == fbc::blob::BUNDLE {
        // Catalogs may hold any value that decoding does not check.
        let is_checked = |name: &str| !matches!(property::shape(name), Shape::Any);
        let values =
            documents.iter().filter(|other| other.kind == DocumentCategory::Property && is_checked(other.name));
        let mut cases = Vec::new();
        for property in values {
            let of_this = json!({"properties": {"type": {"const": property.name}}, "required": ["type"]});
            cases.push(json!({"if": of_this, "then": {"properties": {"value": {"$ref": reference(property)}}}}));
            let body = body(property, documents, definitions);
            definitions.insert(key(property), body.into());
        }
        schema["properties"]["properties"]["items"]["allOf"] = cases.into();
    }
    if let Ok(Value::Object(mut extra)) = serde_json::from_str(document.extra) {
        if let Some(Value::Object(more)) = extra.remove("$defs") {
            definitions.extend(more);
        }
        if !extra.is_empty() {
            schema.insert("allOf".into(), json!([extra]));
        }
    }
    schema.insert("examples".into(), json!([parsed(document.example)]));
    // The description comes first.
    let about = Map::from_iter([("description".to_owned(), document.about.into())]);
    about.into_iter().chain(schema).collect()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

struct Writer<'a> {
    document: &'a SchemaDocument,
}

impl Writer<'_> {
    fn envelope(&self) -> Map<String, Value> {
        let fields = self.document.envelope.iter().map(|name| {
            let mut value = Map::from_iter([("type".to_owned(), json!("string"))]);
            self.describe(name, &mut value);
            ((*name).to_owned(), value.into())
        });
        fields.collect()
    }

    /// Returns the schema of a value of this type. An optional value may be `null`.
    fn value(&self, shape: Shape, path: &str, required: bool) -> Map<String, Value> {
        let mut schema = Map::new();
        let kind = match shape {
            Shape::Any => None,
            Shape::Str | Shape::Base64 => Some("string"),
            Shape::Bool => Some("boolean"),
            Shape::Int => Some("integer"),
            Shape::List(_) => Some("array"),
            Shape::Map(_) | Shape::Object(_) => Some("object"),
        };
        if let Some(kind) = kind {
            schema.insert("type".into(), if required { json!(kind) } else { json!([kind, "null"]) });
        }
        match shape {
            Shape::Base64 => {
                schema.insert("contentEncoding".into(), "base64".into());
                schema.insert("pattern".into(), patterns::BASE64.into());
            }
            Shape::List(item) => {
                let items = if is_same(*item, self.document.shape) {
                    json!({"$ref": reference(self.document)})
                } else {
                    // A null item is one without fields, which is valid unless a field is required.
                    self.value(*item, path, self.requires_nested(path)).into()
                };
                schema.insert("items".into(), items);
            }
            Shape::Map(item) => {
                schema.insert("additionalProperties".into(), self.value(*item, path, false).into());
            }
            Shape::Object(fields) => self.object(fields, path, &mut schema),
            Shape::Any | Shape::Str | Shape::Bool | Shape::Int => {}
        }
        schema
    }

    fn object(&self, fields: &[(&'static str, Shape)], path: &str, schema: &mut Map<String, Value>) {
        let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let envelope = if path.is_empty() { self.document.envelope } else { &[] };
        let names = envelope.iter().copied().chain(fields.iter().map(|(name, _)| *name));
        let required: Vec<&str> = names.clone().filter(|name| self.has(&at(name), Constraint::Required)).collect();
        if !required.is_empty() {
            schema.insert("required".into(), json!(required));
        }
        let properties = fields.iter().map(|(name, shape)| {
            let path = at(name);
            let mut value = self.value(*shape, &path, self.has(&path, Constraint::Required));
            self.describe(&path, &mut value);
            ((*name).to_owned(), Value::from(value))
        });
        schema.insert("properties".into(), properties.collect::<Map<_, _>>().into());
        if self.document.closed {
            let any_case: Vec<String> = names.map(any_case).collect();
            schema.insert("propertyNames".into(), json!({"pattern": format!("^(?:{})$", any_case.join("|"))}));
        }
    }

    /// Adds the description and the constraints of a field.
    fn describe(&self, path: &str, schema: &mut Map<String, Value>) {
        let Some(field) = self.document.field(path) else { return };
        let kind = schema.get("type").cloned().unwrap_or_default();
        let is_list = kind == "array" || kind.get(0).is_some_and(|kind| kind == "array");
        for constraint in field.constraints {
            let (key, value) = match constraint {
                Constraint::Required => continue,
                Constraint::NonEmpty if is_list => ("minItems", json!(1)),
                Constraint::NonEmpty => ("minLength", json!(1)),
                Constraint::Pattern(pattern) => ("pattern", json!(pattern)),
                Constraint::OneOf([one]) => ("const", json!(one)),
                Constraint::OneOf(some) => ("enum", json!(some)),
            };
            schema.insert(key.into(), value);
        }
        schema.insert("description".into(), field.about.into());
        if !field.example.is_empty() {
            schema.insert("examples".into(), json!([parsed(field.example)]));
        }
    }

    fn has(&self, path: &str, constraint: Constraint) -> bool {
        self.document.field(path).is_some_and(|field| field.constraints.contains(&constraint))
    }

    /// Returns whether a field directly inside this one is required.
    fn requires_nested(&self, path: &str) -> bool {
        let inside = |field: &&crate::schema::FieldDescription| {
            field
                .path
                .strip_prefix(path)
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|rest| !rest.contains('.'))
        };
        self.document.fields.iter().filter(inside).any(|field| field.constraints.contains(&Constraint::Required))
    }
}

/// Returns a regular expression that matches a name in any case, as decoding does.
fn any_case(name: &str) -> String {
    let letters = name.chars().map(|c| {
        let (lower, upper) = (c.to_ascii_lowercase(), c.to_ascii_uppercase());
        if lower == upper { c.to_string() } else { format!("[{lower}{upper}]") }
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_types_conditions_descriptions_and_examples() {
        let schema = json_schema("olm.channel").expect("a schema");
        let range = &schema["properties"]["entries"]["items"]["properties"]["skipRange"];
        insta::assert_snapshot!(range, @r#"{"type":["string","null"],"pattern":"^(?:$|(?=.*[0-9x]\\.[0-9x])[-<>=!| 0-9A-Za-z.+]+$)","description":"A range of versions that upgrade to this bundle directly. It adds upgrade edges, but does not link the chain: a channel whose entries are linked by ranges alone has several heads","examples":[">=1.0.0 <1.1.0"]}"#);
        assert_eq!(schema["required"], json!(["schema", "package", "name", "entries"]));
        assert_eq!(schema["properties"]["schema"]["const"], "olm.channel");
    }

    #[test]
    fn every_reference_leads_to_a_definition() {
        for name in names() {
            let schema = json_schema(&name).expect("a schema");
            let text = schema.to_string();
            for key in text.split("\"#/$defs/").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(schema["$defs"].get(key).is_some(), "{name}: {key}");
            }
        }
    }

    #[test]
    fn a_property_is_found_by_its_type() {
        assert_eq!(json_schema("olm.gvk"), json_schema("property/olm.gvk"));
        assert_ne!(json_schema("olm.package"), json_schema("property/olm.package"));
        assert_eq!(json_schema("olm.nothing"), None);
    }
}
