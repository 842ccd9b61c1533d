//! Introspection.

use super::plan::{ArgumentValue, Target};
use super::types::{Argument, BOOLEAN, Field, Id, QUERY, Ref, Shape, Types};

/// A node of the introspection schema.
#[derive(Clone)]
pub(super) enum Node<'a> {
    Schema,
    Named(Id),
    /// A list or a non-null type.
    Wrapped(&'a Ref),
    Field(&'a Field),
    Input(&'a Argument),
    /// The argument of a directive: a condition.
    Condition,
    Value(&'static str),
    Directive(usize),
}

/// The answer to an introspection field.
pub(super) enum Answer<'a> {
    Null,
    Bool(bool),
    Text(&'a str),
    Texts(&'static [&'static str]),
    One(Node<'a>),
    Many(Vec<Node<'a>>),
}

/// Directives with their descriptions.
const DIRECTIVES: [(&str, &str); 2] = [
    ("include", "Includes the field or fragment only when the `if` argument is true."),
    ("skip", "Leaves the field or fragment out when the `if` argument is true."),
];
const LOCATIONS: [&str; 3] = ["FIELD", "FRAGMENT_SPREAD", "INLINE_FRAGMENT"];

fn text(text: &str) -> Answer<'_> {
    if text.is_empty() { Answer::Null } else { Answer::Text(text) }
}

fn reference(kind: &Ref) -> Node<'_> {
    match kind {
        Ref::Named(id) => Node::Named(*id),
        wrapped => Node::Wrapped(wrapped),
    }
}

/// Answers the field `what` of `node`.
pub(super) fn answer<'a>(types: &'a Types, node: &Node<'a>, what: &Target<'a>) -> Answer<'a> {
    let Target::Field { field, .. } = what else { return Answer::Null };
    let name = field.name.as_str();
    match node {
        Node::Schema => match name {
            "types" => Answer::Many((0..types.types.len()).map(Node::Named).collect()),
            "queryType" => Answer::One(Node::Named(QUERY)),
            "directives" => Answer::Many((0..DIRECTIVES.len()).map(Node::Directive).collect()),
            _ => Answer::Null,
        },
        Node::Named(id) => named(types, *id, name),
        Node::Wrapped(kind) => match (kind, name) {
            (Ref::List(_), "kind") => Answer::Text("LIST"),
            (_, "kind") => Answer::Text("NON_NULL"),
            (Ref::List(inner) | Ref::NonNull(inner), "ofType") => Answer::One(reference(inner)),
            _ => Answer::Null,
        },
        Node::Field(field) => match name {
            "name" => Answer::Text(&field.name),
            "description" => text(field.description),
            "args" => Answer::Many(field.arguments.iter().map(Node::Input).collect()),
            "type" => Answer::One(reference(&field.kind)),
            "isDeprecated" => Answer::Bool(false),
            _ => Answer::Null,
        },
        Node::Input(argument) => match name {
            "name" => Answer::Text(argument.name),
            "description" => text(argument.description),
            "type" => Answer::One(reference(&argument.kind)),
            "defaultValue" => argument.default.map_or(Answer::Null, Answer::Text),
            "isDeprecated" => Answer::Bool(false),
            _ => Answer::Null,
        },
        Node::Condition => match name {
            "name" => Answer::Text("if"),
            // The argument `if` has the type `Boolean!`, which is shared with a built-in field.
            "type" => types
                .named("__Field")
                .and_then(|id| types.field(id, "isDeprecated"))
                .map_or(Answer::One(Node::Named(BOOLEAN)), |field| Answer::One(reference(&field.kind))),
            "isDeprecated" => Answer::Bool(false),
            _ => Answer::Null,
        },
        Node::Value(value) => match name {
            "name" => Answer::Text(value),
            "isDeprecated" => Answer::Bool(false),
            _ => Answer::Null,
        },
        Node::Directive(index) => {
            let (directive, description) = DIRECTIVES[*index];
            match name {
                "name" => Answer::Text(directive),
                "description" => Answer::Text(description),
                "isRepeatable" => Answer::Bool(false),
                "locations" => Answer::Texts(&LOCATIONS),
                "args" => Answer::Many(vec![Node::Condition]),
                _ => Answer::Null,
            }
        }
    }
}

fn named<'a>(types: &'a Types, id: Id, name: &str) -> Answer<'a> {
    let kind = &types.types[id];
    match (name, kind.shape) {
        ("kind", Shape::Scalar) => Answer::Text("SCALAR"),
        ("kind", Shape::Object) => Answer::Text("OBJECT"),
        ("kind", Shape::Enum) => Answer::Text("ENUM"),
        ("name", _) => Answer::Text(&kind.name),
        ("description", _) => text(kind.description),
        ("fields", Shape::Object) => Answer::Many(kind.fields.iter().map(Node::Field).collect()),
        ("interfaces", Shape::Object) => Answer::Many(Vec::new()),
        ("enumValues", Shape::Enum) => Answer::Many(kind.values.iter().map(|value| Node::Value(value)).collect()),
        _ => Answer::Null,
    }
}

/// Returns the type that `__type` names.
pub(super) fn type_named<'a>(types: &Types, name: &str) -> Option<Node<'a>> {
    types.named(name).map(Node::Named)
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
