//! Documents as JSON Schema 2020-12.

use fbc::property;
use fbc::shape::Shape;
use serde_json::{Map, Value, json};

use crate::document::{Document, Kind, Must, documents, is_same};
use crate::patterns;

/// The name of the schema of any document of a catalog.
pub const CATALOG: &str = "catalog";

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the names of all schemas.
pub fn names() -> Vec<String> {
    std::iter::once(CATALOG.to_owned()).chain(documents().iter().map(Document::full_name)).collect()
}

/// Returns the schema of this name, if there is one.
///
/// A property can be named by its type alone where no blob has that name.
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

/// Any document of a catalog: what its schema says.
fn catalog(documents: &[Document]) -> Value {
    let mut schema = start(CATALOG);
    let about = "A document of a file-based catalog: a blob, whose schema says what it is. Schemas that do not start with \
                 olm. are anybody's";
    schema.insert("description".into(), about.into());
    schema.insert("type".into(), "object".into());
    schema.insert("required".into(), json!(["schema"]));
    schema.insert(
        "properties".into(),
        json!({"schema": {"type": "string", "minLength": 1}, "package": {"type": "string"}, "name": {"type": "string"}}),
    );
    let mut definitions = Map::new();
    let mut cases = Vec::new();
    for document in documents.iter().filter(|document| document.kind == Kind::Blob) {
        let of_this = json!({"properties": {"schema": {"const": document.name}}, "required": ["schema"]});
        cases.push(json!({"if": of_this, "then": {"$ref": reference(document)}}));
        let body = body(document, documents, &mut definitions);
        definitions.insert(key(document), body.into());
    }
    schema.insert("allOf".into(), cases.into());
    schema.insert("$defs".into(), definitions.into());
    schema.into()
}

/// Returns the name of a definition; it stands in a pointer, and so has no slash.
fn key(document: &Document) -> String {
    document.full_name().replace('/', "-")
}

fn reference(document: &Document) -> String {
    format!("#/$defs/{}", key(document))
}

fn is_recursive(document: &Document) -> bool {
    document.paths().iter().any(|(_, shape)| matches!(shape, Shape::List(item) if is_same(**item, document.shape)))
}

/// Returns what a document must be; what it refers to is added to `definitions`.
fn body(document: &Document, documents: &[Document], definitions: &mut Map<String, Value>) -> Map<String, Value> {
    let mut schema = Writer { document }.value(document.shape, "", true);
    if document.kind == Kind::Blob {
        let properties = Writer { document }.envelope();
        let fields = schema.get_mut("properties").and_then(Value::as_object_mut).map(std::mem::take);
        let all: Map<String, Value> = properties.into_iter().chain(fields.unwrap_or_default()).collect();
        schema.insert("properties".into(), all.into());
        schema["properties"]["schema"] = json!({"const": document.name, "description": "What this blob is"});
    } else {
        let fields = Writer { document }.envelope();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            for (name, value) in fields {
                properties.insert(name, value);
            }
        }
    }
    if document.name == fbc::blob::BUNDLE {
        // What decoding does not look at, catalogs may hold in any form.
        let is_checked = |name: &str| !matches!(property::shape(name), Shape::Any);
        let values = documents.iter().filter(|other| other.kind == Kind::Property && is_checked(other.name));
        let mut cases = Vec::new();
        for property in values {
            let of_this = json!({"properties": {"type": {"const": property.name}}, "required": ["type"]});
            cases.push(json!({"if": of_this, "then": {"properties": {"value": {"$ref": reference(property)}}}}));
            let body = body(property, documents, definitions);
            definitions.insert(key(property), body.into());
        }
        schema["properties"]["properties"]["items"]["allOf"] = cases.into();
    }
    if let Ok(Value::Object(mut also)) = serde_json::from_str(document.also) {
        if let Some(Value::Object(more)) = also.remove("$defs") {
            definitions.extend(more);
        }
        if !also.is_empty() {
            schema.insert("allOf".into(), json!([also]));
        }
    }
    schema.insert("examples".into(), json!([parsed(document.example)]));
    // What it is comes first.
    let about = Map::from_iter([("description".to_owned(), document.about.into())]);
    about.into_iter().chain(schema).collect()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

struct Writer<'a> {
    document: &'a Document,
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

    /// Returns what a value of this type must be. Where it need not be given, it may be `null`.
    fn value(&self, shape: Shape, path: &str, given: bool) -> Map<String, Value> {
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
            schema.insert("type".into(), if given { json!(kind) } else { json!([kind, "null"]) });
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
                    // An item that is null is one without fields, which is fine where none must be given.
                    self.value(*item, path, self.asks_inside(path)).into()
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
        let required: Vec<&str> = names.clone().filter(|name| self.must(&at(name), Must::BeGiven)).collect();
        if !required.is_empty() {
            schema.insert("required".into(), json!(required));
        }
        let properties = fields.iter().map(|(name, shape)| {
            let path = at(name);
            let mut value = self.value(*shape, &path, self.must(&path, Must::BeGiven));
            self.describe(&path, &mut value);
            ((*name).to_owned(), Value::from(value))
        });
        schema.insert("properties".into(), properties.collect::<Map<_, _>>().into());
        if self.document.closed {
            let any_case: Vec<String> = names.map(any_case).collect();
            schema.insert("propertyNames".into(), json!({"pattern": format!("^(?:{})$", any_case.join("|"))}));
        }
    }

    /// Adds what is said about a field.
    fn describe(&self, path: &str, schema: &mut Map<String, Value>) {
        let Some(field) = self.document.field(path) else { return };
        let kind = schema.get("type").cloned().unwrap_or_default();
        let is_list = kind == "array" || kind.get(0).is_some_and(|kind| kind == "array");
        for must in field.must {
            let (key, value) = match must {
                Must::BeGiven => continue,
                Must::BeFilled if is_list => ("minItems", json!(1)),
                Must::BeFilled => ("minLength", json!(1)),
                Must::Match(pattern) => ("pattern", json!(pattern)),
                Must::BeOneOf([one]) => ("const", json!(one)),
                Must::BeOneOf(some) => ("enum", json!(some)),
            };
            schema.insert(key.into(), value);
        }
        schema.insert("description".into(), field.about.into());
        if !field.example.is_empty() {
            schema.insert("examples".into(), json!([parsed(field.example)]));
        }
    }

    fn must(&self, path: &str, must: Must) -> bool {
        self.document.field(path).is_some_and(|field| field.must.contains(&must))
    }

    /// Returns whether a field directly inside this one must be given.
    fn asks_inside(&self, path: &str) -> bool {
        let inside = |field: &&crate::Field| {
            field
                .path
                .strip_prefix(path)
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|rest| !rest.contains('.'))
        };
        self.document.fields.iter().filter(inside).any(|field| field.must.contains(&Must::BeGiven))
    }
}

/// Returns a regular expression for a name in upper and lower case alike, as decoding reads it.
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
        insta::assert_snapshot!(range, @r#"{"type":["string","null"],"pattern":"^(?:$|(?=.*[0-9x]\\.[0-9x])[-<>=!| 0-9A-Za-z.+]+$)","description":"A range of versions that upgrade to this bundle directly. It adds ways to upgrade, but no place in the chain: a channel whose entries are linked by ranges alone has several heads","examples":[">=1.0.0 <1.1.0"]}"#);
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
