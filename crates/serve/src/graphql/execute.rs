//! Executes a query.

use fbc::json::{JsonKind, JsonLayout, Raw, write_canonical, write_str};

use super::introspect::{self, IntrospectionAnswer, SchemaNode, number, string};
use super::plan::{PlanTarget, PlannedField};
use super::types::{BOOLEAN, FLOAT, INT, Id, Ref, Schema, Types};
use super::{Deadline, QueryFailure};
use crate::content::CatalogContent;

/// The default and maximum number of blobs per field.
const PAGE: i64 = 100;
/// Larger blobs are rejected.
const BLOB: u32 = 16 << 20;
/// Maximum size of an answer, in bytes.
pub(super) const ANSWER: usize = 32 << 20;

/// A node with fields.
enum Parent<'a> {
    Query,
    /// The members of a blob, or of an object in it.
    Object(Vec<(std::borrow::Cow<'a, str>, Raw<'a>)>),
    Summary,
    SchemaSummary(&'a Schema),
    Types(SchemaNode<'a>),
}

pub(super) struct Execution<'a> {
    pub(super) types: &'a Types,
    pub(super) content: &'a CatalogContent,
    pub(super) deadline: &'a Deadline,
    pub(super) out: Vec<u8>,
}

impl Execution<'_> {
    /// Writes the answer to a whole query.
    ///
    /// # Errors
    /// Fails when the answer takes too long or is too large, or a blob cannot be read.
    pub(super) fn run(&mut self, wanted: &[PlannedField<'_>]) -> Result<(), QueryFailure> {
        self.object(&Parent::Query, wanted)
    }

    fn object(&mut self, parent: &Parent<'_>, wanted: &[PlannedField<'_>]) -> Result<(), QueryFailure> {
        self.out.push(b'{');
        for (index, wanted) in wanted.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            write_str(&mut self.out, wanted.key);
            self.out.push(b':');
            self.field(parent, wanted)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Fails when the answer takes too long or is too large.
    fn check(&self) -> Result<(), QueryFailure> {
        self.deadline.check()?;
        if self.out.len() > ANSWER {
            let limit = ANSWER >> 20;
            return Err(QueryFailure::new(format!(
                "the answer is larger than {limit} MiB, ask for less with \"limit\""
            )));
        }
        Ok(())
    }

    fn null(&mut self) {
        self.out.extend_from_slice(b"null");
    }

    fn text(&mut self, text: &str) {
        write_str(&mut self.out, text);
    }

    fn number(&mut self, number: usize) {
        self.out.extend_from_slice(number.to_string().as_bytes());
    }

    fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result<(), QueryFailure>,
    ) -> Result<(), QueryFailure> {
        self.out.push(b'[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            write(self, item)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn field(&mut self, parent: &Parent<'_>, wanted: &PlannedField<'_>) -> Result<(), QueryFailure> {
        self.check()?;
        let types = self.types;
        match (&wanted.what, parent) {
            (PlanTarget::TypeName(id), _) => self.text(&types.types[*id].name),
            (PlanTarget::Schema, _) => self.object(&Parent::Types(SchemaNode::Schema), &wanted.children)?,
            (PlanTarget::Type(name), _) => match introspect::type_named(types, name) {
                Some(node) => self.object(&Parent::Types(node), &wanted.children)?,
                None => self.null(),
            },
            (PlanTarget::Field { field, arguments }, Parent::Query) => match field.sources.first() {
                None => self.object(&Parent::Summary, &wanted.children)?,
                Some(schema) => {
                    let limit = number(arguments, "limit").filter(|limit| (1..=PAGE).contains(limit)).unwrap_or(PAGE);
                    let offset = number(arguments, "offset").unwrap_or(0).max(0);
                    let names = (string(arguments, "package"), string(arguments, "name"));
                    let rows = self.content.rows(schema, names.0, names.1).skip(offset as usize).take(limit as usize);
                    let rows: Vec<usize> = rows.collect();
                    self.list(rows, |this, row| this.blob(row, &wanted.children))?;
                }
            },
            (PlanTarget::Field { field, .. }, Parent::Object(members)) => {
                let value = members.iter().find(|(key, _)| field.sources.iter().any(|source| source == key));
                match value {
                    None => self.null(),
                    Some((_, value)) => self.value(&field.kind, *value, &wanted.children)?,
                }
            }
            (PlanTarget::Field { field, .. }, Parent::Summary) => match field.name.as_str() {
                "totalSchemas" => self.number(types.schemas.len()),
                _ => self.list(&types.schemas, |this, schema| {
                    this.object(&Parent::SchemaSummary(schema), &wanted.children)
                })?,
            },
            (PlanTarget::Field { field, .. }, Parent::SchemaSummary(schema)) => match field.name.as_str() {
                "name" => self.text(&schema.name),
                "totalObjects" => self.number(schema.objects),
                _ => self.number(schema.fields),
            },
            (what @ PlanTarget::Field { .. }, Parent::Types(node)) => self.about_types(node, what, &wanted.children)?,
        }
        Ok(())
    }

    fn about_types(
        &mut self,
        node: &SchemaNode<'_>,
        what: &PlanTarget<'_>,
        children: &[PlannedField<'_>],
    ) -> Result<(), QueryFailure> {
        match introspect::answer(self.types, node, what) {
            IntrospectionAnswer::Null => self.null(),
            IntrospectionAnswer::Bool(value) => self.out.extend_from_slice(if value { b"true" } else { b"false" }),
            IntrospectionAnswer::Text(text) => self.text(text),
            IntrospectionAnswer::Texts(texts) => self.list(texts, |this, text| {
                this.text(text);
                Ok(())
            })?,
            IntrospectionAnswer::One(node) => self.object(&Parent::Types(node), children)?,
            IntrospectionAnswer::Many(nodes) => {
                self.list(nodes, |this, node| this.object(&Parent::Types(node), children))?
            }
        }
        Ok(())
    }

    fn blob(&mut self, row: usize, children: &[PlannedField<'_>]) -> Result<(), QueryFailure> {
        let line = self.content.line(row, BLOB).map_err(|error| QueryFailure::new(error.to_string()))?;
        let blob = Raw::parse(&line, fbc::limits::MAX_DEPTH).map_err(|error| QueryFailure::new(error.to_string()))?;
        let members = blob.members().collect();
        self.object(&Parent::Object(members), children)
    }

    /// Writes a value of a blob as the type of its field; `null` if the types differ.
    fn value(&mut self, kind: &Ref, value: Raw<'_>, children: &[PlannedField<'_>]) -> Result<(), QueryFailure> {
        self.check()?;
        match kind {
            Ref::NonNull(inner) => self.value(inner, value, children),
            Ref::List(inner) => match value.kind() {
                JsonKind::Array => self.list(value.items(), |this, item| this.value(inner, item, children)),
                _ => {
                    self.null();
                    Ok(())
                }
            },
            Ref::Named(_) if !children.is_empty() => match value.kind() {
                JsonKind::Object => self.object(&Parent::Object(value.members().collect()), children),
                _ => {
                    self.null();
                    Ok(())
                }
            },
            Ref::Named(id) => {
                self.scalar(*id, value);
                Ok(())
            }
        }
    }

    fn scalar(&mut self, id: Id, value: Raw<'_>) {
        match (id, value.kind()) {
            (_, JsonKind::Null) => self.null(),
            (INT, JsonKind::Number) => {
                let number = value.text().parse::<f64>().ok().filter(|number| number.fract() == 0.0);
                let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
                match number.filter(|number| range.contains(number)) {
                    Some(number) => self.out.extend_from_slice((number as i32).to_string().as_bytes()),
                    None => self.null(),
                }
            }
            (FLOAT, JsonKind::Number) | (BOOLEAN, JsonKind::Bool) => {
                self.out.extend_from_slice(value.text().as_bytes())
            }
            (INT | FLOAT | BOOLEAN, _) => self.null(),
            (_, JsonKind::String) => match value.as_str() {
                Some(text) => self.text(&text),
                None => self.null(),
            },
            (_, JsonKind::Number | JsonKind::Bool) => self.text(value.text()),
            (_, JsonKind::Array | JsonKind::Object) => {
                let mut json = Vec::new();
                write_canonical(value, JsonLayout::Compact, &mut json);
                // catalogd escapes these as Go does; in JSON they occur in strings only.
                let json = String::from_utf8_lossy(&json).replace('<', "\\u003c").replace('>', "\\u003e");
                self.text(&json.replace('&', "\\u0026"));
            }
        }
    }
}
