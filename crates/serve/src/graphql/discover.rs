//! Discovers the types of a catalog in its blobs.

use std::collections::BTreeMap;
use std::io;

use fbc::json::{self, JsonKind, Raw};

use super::names;
use super::types::{BOOLEAN, FLOAT, FieldDefinition, INT, Id, QUERY, Ref, STRING, Schema, Shape, Types, argument};

/// The number of objects per list whose fields are read.
const SAMPLES: usize = 10;
/// Maximum number of schemas in a catalog, and of fields in an object.
const MAX_NAMES: usize = 1000;

/// The inferred type of a field.
struct InferredField {
    scalar: Id,
    list: bool,
    /// Whether only empty lists and `null` were seen so far, so that objects may still follow.
    open: bool,
    /// The fields of the objects in a list.
    inner: BTreeMap<String, InferredField>,
    sources: Vec<String>,
}

#[derive(Default)]
struct SchemaFields {
    objects: usize,
    fields: BTreeMap<String, InferredField>,
}

/// Infers types from the blobs of a catalog.
#[derive(Default)]
pub(super) struct Discovery {
    schemas: BTreeMap<String, SchemaFields>,
}

/// Why a catalog has no types.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiscoverError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] json::JsonSyntaxError),
    #[error("the catalog has more than {MAX_NAMES} schemas")]
    TooManySchemas,
    #[error("schema {0:?} has more than {MAX_NAMES} fields")]
    TooManyFields(String),
    #[error("the catalog has several schemas or fields that GraphQL would call {0:?}")]
    SameName(String),
}

/// A schema has too many fields.
struct TooManyFields;

impl Discovery {
    /// Adds a blob.
    ///
    /// # Errors
    /// Fails when there are too many schemas or fields.
    pub(super) fn add(&mut self, schema: &str, blob: Raw<'_>) -> Result<(), DiscoverError> {
        if !self.schemas.contains_key(schema) {
            if self.schemas.len() == MAX_NAMES {
                return Err(DiscoverError::TooManySchemas);
            }
            self.schemas.insert(schema.to_owned(), SchemaFields::default());
        }
        let Some(found) = self.schemas.get_mut(schema) else { return Ok(()) };
        found.objects += 1;
        members(&mut found.fields, blob, true).map_err(|TooManyFields| DiscoverError::TooManyFields(schema.to_owned()))
    }

    /// Builds the types.
    ///
    /// # Errors
    /// Fails when two types or fields would have the same name.
    pub(super) fn types(self) -> Result<Types, DiscoverError> {
        let mut types = Types::built_in();
        let mut roots: Vec<FieldDefinition> = Vec::new();
        let clash = |name: &str| DiscoverError::SameName(name.to_owned());
        for (schema, found) in self.schemas {
            let (type_name, root) = (names::kind(&schema), names::root(&schema));
            let Some(id) = types.add(type_name.clone(), Shape::Object, "", &[]) else { return Err(clash(&type_name)) };
            if roots.iter().any(|other| other.name == root) {
                return Err(clash(&root));
            }
            types.schemas.push(Schema { name: schema.clone(), objects: found.objects, fields: found.fields.len() });
            let mut fields = Vec::new();
            for (name, seen) in found.fields {
                let kind = if seen.inner.is_empty() {
                    seen.reference()
                } else {
                    let nested = format!("{type_name}{}", names::kind(&name));
                    let Some(id) = types.add(nested.clone(), Shape::Object, "", &[]) else {
                        return Err(clash(&nested));
                    };
                    let inner = seen.inner.into_iter();
                    types.types[id].fields = inner.map(|(name, seen)| seen.field(name)).collect();
                    Ref::List(Box::new(Ref::Named(id)))
                };
                fields.push(FieldDefinition {
                    name,
                    description: "",
                    kind,
                    arguments: Vec::new(),
                    sources: seen.sources,
                });
            }
            types.types[id].fields = fields;
            roots.push(FieldDefinition {
                name: root,
                description: "",
                kind: Ref::List(Box::new(Ref::Named(id))),
                arguments: vec![
                    argument("limit", "Maximum number of items to return", INT, Some("100")),
                    argument("offset", "Number of items to skip", INT, Some("0")),
                    argument("package", "Only blobs of this package", STRING, None),
                    argument("name", "Only blobs of this name", STRING, None),
                ],
                sources: vec![schema],
            });
        }
        roots.push(FieldDefinition {
            name: "summary".into(),
            description: "",
            kind: types.reference("CatalogSummary"),
            arguments: Vec::new(),
            sources: Vec::new(),
        });
        types.types[QUERY].fields = roots;
        Ok(types)
    }
}

impl InferredField {
    fn reference(&self) -> Ref {
        let scalar = Ref::Named(self.scalar);
        if self.list { Ref::List(Box::new(scalar)) } else { scalar }
    }

    fn field(self, name: String) -> FieldDefinition {
        FieldDefinition { name, description: "", kind: self.reference(), arguments: Vec::new(), sources: self.sources }
    }
}

/// Adds the members of an object; those of objects in lists only if `nested`.
fn members(fields: &mut BTreeMap<String, InferredField>, object: Raw<'_>, nested: bool) -> Result<(), TooManyFields> {
    for (key, value) in object.members() {
        let name = names::field(&key);
        if !fields.contains_key(&name) {
            if fields.len() == MAX_NAMES {
                return Err(TooManyFields);
            }
            let (list, sample) = match value.kind() {
                JsonKind::Array => (true, value.items().next()),
                _ => (false, Some(value)),
            };
            let open = sample.is_none_or(|sample| matches!(sample.kind(), JsonKind::Null | JsonKind::Object));
            let seen =
                InferredField { scalar: scalar(sample), list, open, inner: BTreeMap::new(), sources: Vec::new() };
            fields.insert(name.clone(), seen);
        }
        let Some(seen) = fields.get_mut(&name) else { continue };
        if !seen.sources.iter().any(|source| *source == key) {
            if seen.sources.len() == MAX_NAMES {
                return Err(TooManyFields);
            }
            seen.sources.push(key.into_owned());
        }
        if nested && seen.open && value.kind() == JsonKind::Array {
            for item in value.items().take(SAMPLES).filter(|item| item.kind() == JsonKind::Object) {
                members(&mut seen.inner, item, false)?;
            }
        }
    }
    Ok(())
}

/// Returns the scalar type of a value.
fn scalar(value: Option<Raw<'_>>) -> Id {
    match value.map(|value| (value.kind(), value.text())) {
        Some((JsonKind::Bool, _)) => BOOLEAN,
        Some((JsonKind::Number, text)) if text.parse::<f64>().is_ok_and(|number| number.fract() == 0.0) => INT,
        Some((JsonKind::Number, _)) => FLOAT,
        _ => STRING,
    }
}
