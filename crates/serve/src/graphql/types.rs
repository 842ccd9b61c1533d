//! The types that queries are checked against: built-in ones, and those of a catalog.

use std::collections::BTreeMap;

/// The index of a type in [`Types`].
pub(super) type Id = usize;

/// A reference to a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ref {
    Named(Id),
    List(Box<Ref>),
    NonNull(Box<Ref>),
}

impl Ref {
    /// Returns the named type inside lists and non-null wrappers.
    pub(super) fn named(&self) -> Id {
        match self {
            Ref::Named(id) => *id,
            Ref::List(inner) | Ref::NonNull(inner) => inner.named(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Scalar,
    Object,
    Enum,
}

#[derive(Debug)]
pub(super) struct Type {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) description: &'static str,
    pub(super) fields: Vec<FieldDefinition>,
    /// The values of an enumeration.
    pub(super) values: &'static [&'static str],
}

#[derive(Debug)]
pub(super) struct FieldDefinition {
    pub(super) name: String,
    pub(super) description: &'static str,
    pub(super) kind: Ref,
    pub(super) arguments: Vec<ArgumentDefinition>,
    /// The names in a catalog that map to this field.
    pub(super) sources: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct ArgumentDefinition {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) kind: Ref,
    pub(super) default: Option<&'static str>,
}

/// The blobs of one schema.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) objects: usize,
    pub(super) fields: usize,
}

/// All types of a catalog.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) types: Vec<Type>,
    pub(super) by_name: BTreeMap<String, Id>,
    /// Schemas, sorted by name; the fields of `Query` are theirs, then `summary`.
    pub(super) schemas: Vec<Schema>,
}

/// The built-in types at fixed indexes.
pub(super) const STRING: Id = 0;
pub(super) const INT: Id = 1;
pub(super) const FLOAT: Id = 2;
pub(super) const BOOLEAN: Id = 3;
pub(super) const QUERY: Id = 4;

const SCALARS: [(&str, &str); 4] = [
    ("String", "Text; objects and lists of a catalog are JSON text."),
    ("Int", "A whole number of 32 bits."),
    ("Float", "A number."),
    ("Boolean", "`true` or `false`."),
];

pub(super) const KINDS: [&str; 8] =
    ["SCALAR", "OBJECT", "INTERFACE", "UNION", "ENUM", "INPUT_OBJECT", "LIST", "NON_NULL"];
pub(super) const LOCATIONS: [&str; 19] = [
    "QUERY",
    "MUTATION",
    "SUBSCRIPTION",
    "FIELD",
    "FRAGMENT_DEFINITION",
    "FRAGMENT_SPREAD",
    "INLINE_FRAGMENT",
    "VARIABLE_DEFINITION",
    "SCHEMA",
    "SCALAR",
    "OBJECT",
    "FIELD_DEFINITION",
    "ARGUMENT_DEFINITION",
    "INTERFACE",
    "UNION",
    "ENUM",
    "ENUM_VALUE",
    "INPUT_OBJECT",
    "INPUT_FIELD_DEFINITION",
];

/// Built-in types: a name, then fields with their types.
const BUILT_IN: [(&str, &[(&str, &str)]); 8] = [
    ("CatalogSummary", &[("totalSchemas", "Int"), ("schemas", "[SchemaSummary]")]),
    ("SchemaSummary", &[("name", "String"), ("totalObjects", "Int"), ("totalFields", "Int")]),
    (
        "__Schema",
        &[
            ("description", "String"),
            ("types", "[__Type!]!"),
            ("queryType", "__Type!"),
            ("mutationType", "__Type"),
            ("subscriptionType", "__Type"),
            ("directives", "[__Directive!]!"),
        ],
    ),
    (
        "__Type",
        &[
            ("kind", "__TypeKind!"),
            ("name", "String"),
            ("description", "String"),
            ("specifiedByURL", "String"),
            ("fields", "[__Field!]"),
            ("interfaces", "[__Type!]"),
            ("possibleTypes", "[__Type!]"),
            ("enumValues", "[__EnumValue!]"),
            ("inputFields", "[__InputValue!]"),
            ("ofType", "__Type"),
            ("isOneOf", "Boolean"),
        ],
    ),
    (
        "__Field",
        &[
            ("name", "String!"),
            ("description", "String"),
            ("args", "[__InputValue!]!"),
            ("type", "__Type!"),
            ("isDeprecated", "Boolean!"),
            ("deprecationReason", "String"),
        ],
    ),
    (
        "__InputValue",
        &[
            ("name", "String!"),
            ("description", "String"),
            ("type", "__Type!"),
            ("defaultValue", "String"),
            ("isDeprecated", "Boolean!"),
            ("deprecationReason", "String"),
        ],
    ),
    (
        "__EnumValue",
        &[
            ("name", "String!"),
            ("description", "String"),
            ("isDeprecated", "Boolean!"),
            ("deprecationReason", "String"),
        ],
    ),
    (
        "__Directive",
        &[
            ("name", "String!"),
            ("description", "String"),
            ("isRepeatable", "Boolean!"),
            ("locations", "[__DirectiveLocation!]!"),
            ("args", "[__InputValue!]!"),
        ],
    ),
];

impl Types {
    /// Returns the built-in types, and a `Query` without fields.
    pub(super) fn built_in() -> Types {
        let mut types = Types { types: Vec::new(), by_name: BTreeMap::new(), schemas: Vec::new() };
        for (name, description) in SCALARS {
            types.add(name.into(), Shape::Scalar, description, &[]);
        }
        types.add("Query".into(), Shape::Object, "What can be asked of this catalog.", &[]);
        for (name, _) in BUILT_IN {
            types.add(name.into(), Shape::Object, "", &[]);
        }
        types.add("__TypeKind".into(), Shape::Enum, "", &KINDS);
        types.add("__DirectiveLocation".into(), Shape::Enum, "", &LOCATIONS);
        for (name, fields) in BUILT_IN {
            let built = fields
                .iter()
                .map(|(field, kind)| FieldDefinition {
                    name: (*field).into(),
                    description: "",
                    kind: types.reference(kind),
                    arguments: match (name, *field) {
                        ("__Type", "fields" | "enumValues" | "inputFields") | ("__Field" | "__Directive", "args") => {
                            vec![argument("includeDeprecated", "", BOOLEAN, Some("false"))]
                        }
                        _ => Vec::new(),
                    },
                    sources: Vec::new(),
                })
                .collect();
            let id = types.by_name[name];
            types.types[id].fields = built;
        }
        types
    }

    /// Adds a type; `None` if the name is taken.
    pub(super) fn add(
        &mut self,
        name: String,
        shape: Shape,
        description: &'static str,
        values: &'static [&'static str],
    ) -> Option<Id> {
        let id = self.types.len();
        if self.by_name.contains_key(&name) {
            return None;
        }
        self.by_name.insert(name.clone(), id);
        self.types.push(Type { name, shape, description, fields: Vec::new(), values });
        Some(id)
    }

    /// Parses a reference to a built-in type, such as `[__Type!]!`.
    pub(super) fn reference(&self, text: &str) -> Ref {
        if let Some(inner) = text.strip_suffix('!') {
            return Ref::NonNull(Box::new(self.reference(inner)));
        }
        match text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            Some(inner) => Ref::List(Box::new(self.reference(inner))),
            None => Ref::Named(self.by_name.get(text).copied().unwrap_or(STRING)),
        }
    }

    /// Formats a reference as in a query.
    pub(super) fn written(&self, kind: &Ref) -> String {
        match kind {
            Ref::Named(id) => self.types[*id].name.clone(),
            Ref::List(inner) => format!("[{}]", self.written(inner)),
            Ref::NonNull(inner) => format!("{}!", self.written(inner)),
        }
    }

    /// Returns the index of the type with this name.
    pub(super) fn named(&self, name: &str) -> Option<Id> {
        self.by_name.get(name).copied()
    }

    /// Returns a field of a type, including the fields that every query has.
    pub(super) fn field(&self, of: Id, name: &str) -> Option<&FieldDefinition> {
        self.types[of].fields.iter().find(|field| field.name == name)
    }
}

pub(super) fn argument(
    name: &'static str,
    description: &'static str,
    kind: Id,
    default: Option<&'static str>,
) -> ArgumentDefinition {
    ArgumentDefinition { name, description, kind: Ref::Named(kind), default }
}
