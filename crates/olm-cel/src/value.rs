//! The values of rules, and how they compare.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use fbc::json::{self, Raw};

use super::expression::ExprType;
use super::steps::{EvaluationFault, Steps};

/// A string that is borrowed from the rule or the properties, or was computed.
#[derive(Clone, Debug)]
pub(super) enum Text<'v> {
    Borrowed(&'v str),
    Owned(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Owned(text) => text,
        }
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text::Owned(text.into())
    }
}

/// A value. The content of lists and maps is shared, so that clones are cheap.
#[derive(Clone, Debug)]
pub(super) enum Value<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'v>),
    Bytes(Rc<[u8]>),
    List(Rc<[Value<'v>]>),
    Map(Rc<Map<'v>>),
    Type(ExprType),
}

/// A map, sorted by key.
pub(super) type Map<'v> = BTreeMap<Key<'v>, Value<'v>>;

/// A map key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key<'v> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Text<'v>),
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<'v> Key<'v> {
    pub(super) fn of(value: Value<'v>) -> Option<Key<'v>> {
        Some(match value {
            Value::Bool(of) => Key::Bool(of),
            Value::Int(of) => Key::Int(of),
            Value::Uint(of) => Key::Uint(of),
            Value::String(of) => Key::String(of),
            _ => return None,
        })
    }

    pub(super) fn value(&self) -> Value<'v> {
        match self {
            Key::Bool(of) => Value::Bool(*of),
            Key::Int(of) => Value::Int(*of),
            Key::Uint(of) => Value::Uint(*of),
            Key::String(of) => Value::String(of.clone()),
        }
    }
}

impl<'v> Value<'v> {
    /// Converts JSON to a value.
    pub(super) fn of_json(raw: Raw<'v>) -> Value<'v> {
        match raw.kind() {
            json::JsonKind::Null => Value::Null,
            json::JsonKind::Bool => Value::Bool(raw.as_bool().unwrap_or_default()),
            // All JSON numbers are doubles in the original, whatever they look like.
            json::JsonKind::Number => Value::Double(raw.text().parse().unwrap_or(f64::NAN)),
            json::JsonKind::String => Value::String(raw.as_str().map_or(Text::Borrowed(""), text)),
            json::JsonKind::Array => Value::List(raw.items().map(Value::of_json).collect()),
            json::JsonKind::Object => {
                let members = raw.members().map(|(key, of)| (Key::String(text(key)), Value::of_json(of)));
                Value::Map(Rc::new(members.collect()))
            }
        }
    }

    pub(super) fn kind(&self) -> ExprType {
        match self {
            Value::Null => ExprType::Null,
            Value::Bool(_) => ExprType::Bool,
            Value::Int(_) => ExprType::Int,
            Value::Uint(_) => ExprType::Uint,
            Value::Double(_) => ExprType::Double,
            Value::String(_) => ExprType::String,
            Value::Bytes(_) => ExprType::Bytes,
            Value::List(_) => ExprType::List,
            Value::Map(_) => ExprType::Map,
            Value::Type(_) => ExprType::Type,
        }
    }

    /// Returns whether two values are equal: numbers by value, values of different types never.
    pub(super) fn equals(&self, other: &Value<'v>, steps: &mut Steps) -> Result<bool, EvaluationFault> {
        steps.spend(1)?;
        Ok(match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => {
                steps.read(a.len().min(b.len()))?;
                a == b
            }
            (Value::Bytes(a), Value::Bytes(b)) => {
                steps.read(a.len().min(b.len()))?;
                a == b
            }
            (Value::Type(a), Value::Type(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (a, b) in a.iter().zip(b.iter()) {
                    if !a.equals(b, steps)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Map(a), Value::Map(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (key, a) in a.iter() {
                    match find(b, &key.value()) {
                        Some(b) if a.equals(b, steps)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            _ => self.number_order(other) == Some(Ordering::Equal),
        })
    }

    /// Compares two values, if they are ordered.
    pub(super) fn order(&self, other: &Value<'v>) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            _ => self.number_order(other),
        }
    }

    /// Compares two numbers. An integer is compared with a double as the nearest double.
    fn number_order(&self, other: &Value<'v>) -> Option<Ordering> {
        match (self, other) {
            (Value::Double(a), b) => a.partial_cmp(&b.as_double()?),
            (a, Value::Double(b)) => a.as_double()?.partial_cmp(b),
            (a, b) => Some(a.as_integer()?.cmp(&b.as_integer()?)),
        }
    }

    fn as_integer(&self) -> Option<i128> {
        match self {
            Value::Int(of) => Some(i128::from(*of)),
            Value::Uint(of) => Some(i128::from(*of)),
            _ => None,
        }
    }

    /// Returns a number as a double.
    #[expect(clippy::cast_precision_loss, reason = "the language rounds to the nearest double")]
    pub(super) fn as_double(&self) -> Option<f64> {
        match self {
            Value::Double(of) => Some(*of),
            other => other.as_integer().map(|of| of as f64),
        }
    }

    /// Returns a whole number as an integer.
    #[expect(clippy::cast_possible_truncation, reason = "values out of range are rejected before")]
    pub(super) fn as_whole(&self) -> Option<i128> {
        match self {
            Value::Double(of) if of.fract() == 0.0 && of.abs() < 1e19 => Some(*of as i128),
            other => other.as_integer(),
        }
    }
}

fn text(text: std::borrow::Cow<'_, str>) -> Text<'_> {
    match text {
        std::borrow::Cow::Borrowed(text) => Text::Borrowed(text),
        std::borrow::Cow::Owned(text) => text.into(),
    }
}

/// Returns the value of a key. A number matches a key of equal value, whatever its type.
pub(super) fn find<'m, 'v>(map: &'m Map<'v>, key: &Value<'v>) -> Option<&'m Value<'v>> {
    if let Some(found) = Key::of(key.clone()).and_then(|key| map.get(&key)) {
        return Some(found);
    }
    let number = key.as_whole()?;
    let signed = || i64::try_from(number).ok().and_then(|number| map.get(&Key::Int(number)));
    signed().or_else(|| u64::try_from(number).ok().and_then(|number| map.get(&Key::Uint(number))))
}
