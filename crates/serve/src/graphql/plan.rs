//! Checks a query against the types, before any blob is read.

use std::collections::{BTreeMap, BTreeSet};

use fbc::json::{JsonKind, Raw};

use super::measure::TYPE_DEPTH;
use super::parse::{self, Directive, Operation, QueryDocument, Selection, Value, Variable};
use super::types::{ArgumentDefinition, BOOLEAN, FLOAT, FieldDefinition, INT, Id, QUERY, Ref, STRING, Shape, Types};
use super::{Deadline, QueryFailure, Span};

/// Maximum number of fields after fragments are expanded.
const EXPANDED: usize = 20_000;

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArgumentValue {
    Null,
    Int(i64),
    Text(String),
    Bool(bool),
    /// A floating-point number; no argument accepts one, but variables may hold one.
    Float,
}

/// A field to answer.
#[derive(Debug)]
pub(super) struct PlannedField<'a> {
    /// The key in the answer.
    pub(super) key: &'a str,
    pub(super) what: PlanTarget<'a>,
    pub(super) children: Vec<PlannedField<'a>>,
}

#[derive(Debug)]
pub(super) enum PlanTarget<'a> {
    /// `__typename`
    TypeName(Id),
    /// `__schema`
    Schema,
    /// `__type`, and its argument.
    Type(String),
    Field {
        field: &'a FieldDefinition,
        arguments: Vec<(&'static str, ArgumentValue)>,
    },
}

/// Selects the operation to execute.
///
/// # Errors
/// Fails when none or several match, or the operation is not a query.
pub(super) fn operation<'a>(
    document: &'a QueryDocument<'a>,
    name: Option<&str>,
) -> Result<&'a Operation<'a>, QueryFailure> {
    let operations = &document.operations;
    for (index, operation) in operations.iter().enumerate() {
        if operations.len() > 1 && operation.name.is_none() {
            return Err(QueryFailure::at(operation.at, "This anonymous operation must be the only defined operation."));
        }
        if operation.name.is_some() && operations[..index].iter().any(|other| other.name == operation.name) {
            let name = operation.name.unwrap_or_default();
            return Err(QueryFailure::at(operation.at, format!("There can only be one operation named {name:?}.")));
        }
    }
    let operation = match (name, operations.as_slice()) {
        (None, [operation]) => operation,
        (None, _) => {
            return Err(QueryFailure::new("Must provide operation name if query contains multiple operations."));
        }
        (Some(name), _) => operations
            .iter()
            .find(|operation| operation.name == Some(name))
            .ok_or_else(|| QueryFailure::new(format!("Unknown operation named {name:?}.")))?,
    };
    if operation.kind != "query" {
        return Err(QueryFailure::at(operation.at, format!("Schema is not configured for {}s", operation.kind)));
    }
    Ok(operation)
}

/// Checks `operation` and returns the fields to answer.
///
/// # Errors
/// Fails where the query does not match the types.
pub(super) fn plan<'a>(
    types: &'a Types,
    document: &'a QueryDocument<'a>,
    operation: &'a Operation<'a>,
    variables: Option<Raw<'_>>,
    deadline: &Deadline,
) -> Result<Vec<PlannedField<'a>>, QueryFailure> {
    let mut given = BTreeMap::new();
    for variable in &operation.variables {
        if let Some(value) = bound(types, variable, variables)? {
            given.insert(variable.name, value);
        }
    }
    let names = operation.variables.iter().map(|variable| variable.name).collect();
    let mut planner = Planner { types, document, given, names, expanded: 0, depth: 0, deadline };
    planner.object(QUERY, &[&operation.selections])
}

/// Returns the value of a variable, if it has one.
fn bound(
    types: &Types,
    variable: &Variable<'_>,
    variables: Option<Raw<'_>>,
) -> Result<Option<ArgumentValue>, QueryFailure> {
    let fail = |message: String| QueryFailure::at(variable.at, message);
    let (name, kind) = (variable.name, variable.kind.as_str());
    let (base, required) = kind.strip_suffix('!').map_or((kind, false), |base| (base, true));
    // `ID` is accepted too; its values are text.
    let id = if base == "ID" { Some(STRING) } else { types.named(base) };
    let id = match id {
        Some(id) if types.types[id].shape == Shape::Scalar => id,
        _ => {
            return Err(fail(format!("Variable \"${name}\" cannot be of type {kind:?}: no argument has that type.")));
        }
    };
    let value = variables.and_then(|all| all.members().find(|(key, _)| key == name)).map(|(_, value)| value);
    let given = match value {
        None => match &variable.default {
            Some(Value::Variable(_)) => None,
            Some(value) => Some(literal(value, id).ok_or_else(|| {
                fail(format!("Variable \"${name}\" has a default value that is not of type {base:?}."))
            })?),
            None => None,
        },
        Some(value) => Some(from_json(value, id).ok_or_else(|| {
            fail(format!("Variable \"${name}\" got invalid value; expected type {kind:?}, found {}.", value.kind()))
        })?),
    };
    if required && matches!(given, None | Some(ArgumentValue::Null)) {
        return Err(fail(format!("Variable \"${name}\" of required type {kind:?} was not provided.")));
    }
    Ok(given)
}

fn from_json(value: Raw<'_>, id: Id) -> Option<ArgumentValue> {
    match (value.kind(), id) {
        (JsonKind::Null, _) => Some(ArgumentValue::Null),
        (JsonKind::Number, INT) => value.text().parse::<i32>().ok().map(|number| ArgumentValue::Int(number.into())),
        (JsonKind::Number, FLOAT) => Some(ArgumentValue::Float),
        (JsonKind::Bool, BOOLEAN) => value.as_bool().map(ArgumentValue::Bool),
        (JsonKind::String, STRING) => value.as_str().map(|text| ArgumentValue::Text(text.into_owned())),
        _ => None,
    }
}

fn literal(value: &Value<'_>, id: Id) -> Option<ArgumentValue> {
    match (value, id) {
        (Value::Null, _) => Some(ArgumentValue::Null),
        (Value::Int(text), INT) => text.parse::<i32>().ok().map(|number| ArgumentValue::Int(number.into())),
        (Value::Int(_) | Value::Float(_), FLOAT) => Some(ArgumentValue::Float),
        (Value::Bool(value), BOOLEAN) => Some(ArgumentValue::Bool(*value)),
        (Value::Text(text), STRING) => Some(ArgumentValue::Text(text.clone())),
        _ => None,
    }
}

struct Planner<'a, 'c> {
    types: &'a Types,
    document: &'a QueryDocument<'a>,
    given: BTreeMap<&'a str, ArgumentValue>,
    names: BTreeSet<&'a str>,
    expanded: usize,
    /// The depth of the object that is being planned.
    depth: usize,
    deadline: &'c Deadline,
}

impl<'a> Planner<'a, '_> {
    /// Plans an object: fields with the same key are merged.
    fn object(&mut self, of: Id, selections: &[&'a [Selection<'a>]]) -> Result<Vec<PlannedField<'a>>, QueryFailure> {
        let mut groups: Vec<(&'a str, Vec<&'a parse::SelectedField<'a>>)> = Vec::new();
        let mut places = BTreeMap::new();
        let mut visited = BTreeSet::new();
        for selections in selections {
            self.collect(of, selections, &mut groups, &mut places, &mut visited)?;
        }
        self.depth += 1;
        if self.depth > TYPE_DEPTH {
            return Err(QueryFailure::new(format!("query exceeds maximum depth of {TYPE_DEPTH}")));
        }
        let planned = groups.into_iter().map(|(key, fields)| self.wanted(of, key, &fields)).collect();
        self.depth -= 1;
        planned
    }

    fn collect(
        &mut self,
        of: Id,
        selections: &'a [Selection<'a>],
        groups: &mut Vec<(&'a str, Vec<&'a parse::SelectedField<'a>>)>,
        places: &mut BTreeMap<&'a str, usize>,
        visited: &mut BTreeSet<&'a str>,
    ) -> Result<(), QueryFailure> {
        for selection in selections {
            self.deadline.check()?;
            match selection {
                Selection::Field(field) => {
                    if self.is_asked(&field.directives)? {
                        let place = *places.entry(field.key()).or_insert(groups.len());
                        match groups.get_mut(place) {
                            Some((_, fields)) => fields.push(field),
                            None => groups.push((field.key(), vec![field])),
                        }
                    }
                }
                Selection::Inline { on, directives, selections, at } => {
                    if let Some(on) = on {
                        self.fits(of, on, *at)?;
                    }
                    if self.is_asked(directives)? {
                        self.collect(of, selections, groups, places, visited)?;
                    }
                }
                Selection::Spread { name, directives, at } => {
                    let Some(fragment) = self.document.fragments.get(name) else {
                        return Err(QueryFailure::at(*at, format!("Unknown fragment {name:?}.")));
                    };
                    self.fits(of, fragment.on, fragment.at)?;
                    if self.is_asked(directives)? && visited.insert(name) {
                        self.collect(of, &fragment.selections, groups, places, visited)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that a fragment applies to the type of its parent.
    fn fits(&self, of: Id, on: &str, at: Span) -> Result<(), QueryFailure> {
        match self.types.named(on) {
            Some(id) if id == of => Ok(()),
            Some(_) => {
                let of = &self.types.types[of].name;
                Err(QueryFailure::at(
                    at,
                    format!("Fragment cannot be spread here as objects of type {of:?} can never be of type {on:?}."),
                ))
            }
            None => Err(QueryFailure::at(at, format!("Unknown type {on:?}."))),
        }
    }

    /// Evaluates `@include` and `@skip`.
    fn is_asked(&self, directives: &[Directive<'a>]) -> Result<bool, QueryFailure> {
        let mut asked = true;
        for directive in directives {
            let skips = match directive.name {
                "include" => false,
                "skip" => true,
                name => return Err(QueryFailure::at(directive.at, format!("Unknown directive {name:?}."))),
            };
            let [argument] = directive.arguments.as_slice() else {
                let name = directive.name;
                return Err(QueryFailure::at(
                    directive.at,
                    format!("Directive \"@{name}\" takes one argument, \"if\"."),
                ));
            };
            let condition =
                if argument.name == "if" { self.value(&argument.value, BOOLEAN, argument.at)? } else { None };
            let Some(ArgumentValue::Bool(condition)) = condition else {
                return Err(QueryFailure::at(argument.at, "Argument \"if\" of type \"Boolean!\" is required."));
            };
            asked &= condition != skips;
        }
        Ok(asked)
    }

    /// Returns a value of the type `id`; `None` if a variable has no value.
    fn value(&self, value: &Value<'a>, id: Id, at: Span) -> Result<Option<ArgumentValue>, QueryFailure> {
        let wrong = || QueryFailure::at(at, format!("Expected type {:?}.", self.types.types[id].name));
        let Value::Variable(name) = value else { return literal(value, id).map(Some).ok_or_else(wrong) };
        if !self.names.contains(name) {
            return Err(QueryFailure::at(at, format!("Variable \"${name}\" is not defined.")));
        }
        match (self.given.get(name), id) {
            (None, _) => Ok(None),
            (Some(given @ (ArgumentValue::Null | ArgumentValue::Int(_))), INT)
            | (Some(given @ (ArgumentValue::Null | ArgumentValue::Text(_))), STRING)
            | (Some(given @ (ArgumentValue::Null | ArgumentValue::Bool(_))), BOOLEAN) => Ok(Some(given.clone())),
            _ => Err(wrong()),
        }
    }

    /// Plans the fields with one key.
    fn wanted(
        &mut self,
        of: Id,
        key: &'a str,
        fields: &[&'a parse::SelectedField<'a>],
    ) -> Result<PlannedField<'a>, QueryFailure> {
        let [first, rest @ ..] = fields else { return Err(QueryFailure::new("no field")) };
        self.expanded += 1;
        if self.expanded > EXPANDED {
            return Err(QueryFailure::new(format!("query requests more than {EXPANDED} fields")));
        }
        let (what, kind) = self.what(of, first)?;
        for other in rest {
            let same = other.name == first.name && {
                let (other, _) = self.what(of, other)?;
                matches!(
                    (&what, &other),
                    (PlanTarget::Field { arguments: a, .. }, PlanTarget::Field { arguments: b, .. }) if a == b
                ) || matches!((&what, &other), (PlanTarget::Type(a), PlanTarget::Type(b)) if a == b)
                    || matches!(
                        (&what, &other),
                        (PlanTarget::Schema, PlanTarget::Schema) | (PlanTarget::TypeName(_), PlanTarget::TypeName(_))
                    )
            };
            if !same {
                return Err(QueryFailure::at(
                    other.at,
                    format!(
                        "Fields {key:?} conflict because they ask for different things. Use different aliases on \
                         the fields to fetch both if this was intentional."
                    ),
                ));
            }
        }
        let (id, name) = (kind.named(), first.name);
        let written = self.types.written(&kind);
        let inner: Vec<&'a [Selection<'a>]> =
            fields.iter().map(|field| field.selections.as_slice()).filter(|inner| !inner.is_empty()).collect();
        let composite = self.types.types[id].shape == Shape::Object;
        if composite && inner.is_empty() {
            return Err(QueryFailure::at(
                first.at,
                format!("Field {name:?} of type {written:?} must have a sub selection."),
            ));
        }
        if !composite && !inner.is_empty() {
            return Err(QueryFailure::at(
                first.at,
                format!("Field {name:?} must not have a selection since type {written:?} has no subfields."),
            ));
        }
        let children = if composite { self.object(id, &inner)? } else { Vec::new() };
        Ok(PlannedField { key, what, children })
    }

    /// Finds a field and the values of its arguments.
    fn what(&self, of: Id, field: &'a parse::SelectedField<'a>) -> Result<(PlanTarget<'a>, Ref), QueryFailure> {
        match (field.name, of) {
            ("__typename", _) => {
                self.arguments(field, &[])?;
                return Ok((PlanTarget::TypeName(of), Ref::NonNull(Box::new(Ref::Named(STRING)))));
            }
            ("__schema", QUERY) => {
                self.arguments(field, &[])?;
                return Ok((PlanTarget::Schema, self.types.reference("__Schema!")));
            }
            ("__type", QUERY) => {
                let known = [super::types::argument("name", "", STRING, None)];
                let given = self.arguments(field, &known)?;
                let Some((_, ArgumentValue::Text(name))) = given.into_iter().next() else {
                    return Err(QueryFailure::at(
                        field.at,
                        "Field \"__type\" argument \"name\" of type \"String!\" is required but not provided.",
                    ));
                };
                return Ok((PlanTarget::Type(name), self.types.reference("__Type")));
            }
            _ => {}
        }
        let Some(found) = self.types.field(of, field.name) else {
            let (name, of) = (field.name, &self.types.types[of].name);
            return Err(QueryFailure::at(field.at, format!("Cannot query field {name:?} on type {of:?}.")));
        };
        let arguments = self.arguments(field, &found.arguments)?;
        Ok((PlanTarget::Field { field: found, arguments }, found.kind.clone()))
    }

    fn arguments(
        &self,
        field: &parse::SelectedField<'a>,
        known: &[ArgumentDefinition],
    ) -> Result<Vec<(&'static str, ArgumentValue)>, QueryFailure> {
        let mut given = Vec::new();
        for argument in &field.arguments {
            let Some(known) = known.iter().find(|known| known.name == argument.name) else {
                let (name, field) = (argument.name, field.name);
                return Err(QueryFailure::at(argument.at, format!("Unknown argument {name:?} on field {field:?}.")));
            };
            if let Some(value) = self.value(&argument.value, known.kind.named(), argument.at)? {
                given.push((known.name, value));
            }
        }
        given.sort_by_key(|(name, _)| *name);
        Ok(given)
    }
}
