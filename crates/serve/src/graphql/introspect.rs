//! Introspection.

use super::plan::{ArgumentValue, PlanTarget};
use super::types::{ArgumentDefinition, BOOLEAN, FieldDefinition, Id, QUERY, Ref, Shape, Types};

/// A node of the introspection schema.
#[derive(Clone)]
pub(super) enum SchemaNode<'a> {
    Schema,
    Named(Id),
    /// A list or a non-null type.
    Wrapped(&'a Ref),
    Field(&'a FieldDefinition),
    Input(&'a ArgumentDefinition),
    /// The argument of a directive: a condition.
    Condition,
    Value(&'static str),
    Directive(usize),
}

/// The answer to an introspection field.
pub(super) enum IntrospectionAnswer<'a> {
    Null,
    Bool(bool),
    Text(&'a str),
    Texts(&'static [&'static str]),
    One(SchemaNode<'a>),
    Many(Vec<SchemaNode<'a>>),
}

/// Directives with their descriptions.
const DIRECTIVES: [(&str, &str); 2] = [
    ("include", "Includes the field or fragment only when the `if` argument is true."),
    ("skip", "Leaves the field or fragment out when the `if` argument is true."),
];
const LOCATIONS: [&str; 3] = ["FIELD", "FRAGMENT_SPREAD", "INLINE_FRAGMENT"];

fn text(text: &str) -> IntrospectionAnswer<'_> {
    if text.is_empty() { IntrospectionAnswer::Null } else { IntrospectionAnswer::Text(text) }
}

fn reference(kind: &Ref) -> SchemaNode<'_> {
    match kind {
        Ref::Named(id) => SchemaNode::Named(*id),
        wrapped => SchemaNode::Wrapped(wrapped),
    }
}

/// Answers the field `what` of `node`.
pub(super) fn answer<'a>(types: &'a Types, node: &SchemaNode<'a>, what: &PlanTarget<'a>) -> IntrospectionAnswer<'a> {
    let PlanTarget::Field { field, .. } = what else { return IntrospectionAnswer::Null };
    let name = field.name.as_str();
    match node {
        SchemaNode::Schema => match name {
            "types" => IntrospectionAnswer::Many((0..types.types.len()).map(SchemaNode::Named).collect()),
            "queryType" => IntrospectionAnswer::One(SchemaNode::Named(QUERY)),
            "directives" => IntrospectionAnswer::Many((0..DIRECTIVES.len()).map(SchemaNode::Directive).collect()),
            _ => IntrospectionAnswer::Null,
        },
        SchemaNode::Named(id) => named(types, *id, name),
        SchemaNode::Wrapped(kind) => match (kind, name) {
            (Ref::List(_), "kind") => IntrospectionAnswer::Text("LIST"),
            (_, "kind") => IntrospectionAnswer::Text("NON_NULL"),
            (Ref::List(inner) | Ref::NonNull(inner), "ofType") => IntrospectionAnswer::One(reference(inner)),
            _ => IntrospectionAnswer::Null,
        },
        SchemaNode::Field(field) => match name {
            "name" => IntrospectionAnswer::Text(&field.name),
            "description" => text(field.description),
            "args" => IntrospectionAnswer::Many(field.arguments.iter().map(SchemaNode::Input).collect()),
            "type" => IntrospectionAnswer::One(reference(&field.kind)),
            "isDeprecated" => IntrospectionAnswer::Bool(false),
            _ => IntrospectionAnswer::Null,
        },
        SchemaNode::Input(argument) => match name {
            "name" => IntrospectionAnswer::Text(argument.name),
            "description" => text(argument.description),
            "type" => IntrospectionAnswer::One(reference(&argument.kind)),
            "defaultValue" => argument.default.map_or(IntrospectionAnswer::Null, IntrospectionAnswer::Text),
            "isDeprecated" => IntrospectionAnswer::Bool(false),
            _ => IntrospectionAnswer::Null,
        },
        SchemaNode::Condition => match name {
            "name" => IntrospectionAnswer::Text("if"),
            // The argument `if` has the type `Boolean!`, which is shared with a built-in field.
            "type" => types
                .named("__Field")
                .and_then(|id| types.field(id, "isDeprecated"))
                .map_or(IntrospectionAnswer::One(SchemaNode::Named(BOOLEAN)), |field| {
                    IntrospectionAnswer::One(reference(&field.kind))
                }),
            "isDeprecated" => IntrospectionAnswer::Bool(false),
            _ => IntrospectionAnswer::Null,
        },
        SchemaNode::Value(value) => match name {
            "name" => IntrospectionAnswer::Text(value),
            "isDeprecated" => IntrospectionAnswer::Bool(false),
            _ => IntrospectionAnswer::Null,
        },
        SchemaNode::Directive(index) => {
            let (directive, description) = DIRECTIVES[*index];
            match name {
                "name" => IntrospectionAnswer::Text(directive),
                "description" => IntrospectionAnswer::Text(description),
                "isRepeatable" => IntrospectionAnswer::Bool(false),
                "locations" => IntrospectionAnswer::Texts(&LOCATIONS),
                "args" => IntrospectionAnswer::Many(vec![SchemaNode::Condition]),
                _ => IntrospectionAnswer::Null,
            }
        }
    }
}

fn named<'a>(types: &'a Types, id: Id, name: &str) -> IntrospectionAnswer<'a> {
    let kind = &types.types[id];
    match (name, kind.shape) {
        ("kind", Shape::Scalar) => IntrospectionAnswer::Text("SCALAR"),
        ("kind", Shape::Object) => IntrospectionAnswer::Text("OBJECT"),
        ("kind", Shape::Enum) => IntrospectionAnswer::Text("ENUM"),
        ("name", _) => IntrospectionAnswer::Text(&kind.name),
        ("description", _) => text(kind.description),
        ("fields", Shape::Object) => IntrospectionAnswer::Many(kind.fields.iter().map(SchemaNode::Field).collect()),
        ("interfaces", Shape::Object) => IntrospectionAnswer::Many(Vec::new()),
        ("enumValues", Shape::Enum) => {
            IntrospectionAnswer::Many(kind.values.iter().map(|value| SchemaNode::Value(value)).collect())
        }
        _ => IntrospectionAnswer::Null,
    }
}

/// Returns the type that `__type` names.
pub(super) fn type_named<'a>(types: &Types, name: &str) -> Option<SchemaNode<'a>> {
    types.named(name).map(SchemaNode::Named)
}

/// Returns the integer value of an argument.
pub(super) fn number(arguments: &[(&'static str, ArgumentValue)], name: &str) -> Option<i64> {
    arguments.iter().find_map(|(key, value)| match value {
        ArgumentValue::Int(number) if *key == name => Some(*number),
        _ => None,
    })
}

/// Returns the text value of an argument; `None` if it is empty.
pub(super) fn string<'g>(arguments: &'g [(&'static str, ArgumentValue)], name: &str) -> Option<&'g str> {
    arguments.iter().find_map(|(key, value)| match value {
        ArgumentValue::Text(text) if *key == name && !text.is_empty() => Some(text.as_str()),
        _ => None,
    })
}
