//! The parsed form of a rule.

use super::pattern::Pattern;

/// A part of a rule.
#[derive(Debug)]
pub(super) enum Expression {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
    /// A name that is not resolved yet.
    Name(String),
    /// A variable, by its index among those in scope.
    Variable(usize),
    /// The name of a type, used as a value.
    Type(ExprType),
    List(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
    /// Whether a map has a field.
    Has(Box<Expression>, String),
    Not(Box<Expression>),
    Negate(Box<Expression>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    /// Conditions with their branches, and the branch if none holds.
    Choose(Vec<(Expression, Expression)>, Box<Expression>),
    Call(Function, Vec<Expression>),
    /// A value, and the links applied to it, from left to right. A chain of any length is one level of nesting.
    Chain(Box<Expression>, Vec<Link>),
}

/// An operation on the value before it.
#[derive(Debug)]
pub(super) enum Link {
    /// A field of a map.
    Select(String),
    /// An operator, and its right operand.
    Binary(Binary, Expression),
    /// A function, and its other arguments.
    Call(Function, Vec<Expression>),
    /// A search for a pattern literal.
    Matches(Pattern),
    Each(Each),
}

/// A loop over the elements of a list, or over the keys of a map.
#[derive(Debug)]
pub(super) struct Each {
    pub(super) what: Macro,
    pub(super) variable: String,
    /// The condition for an element.
    pub(super) condition: Option<Expression>,
    /// The result for an element.
    pub(super) result: Option<Expression>,
}

/// The macros that are loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

/// Binary operators that evaluate both operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Index,
}

impl Binary {
    /// Returns the name of the function behind an operator.
    pub(super) fn name(self) -> &'static str {
        match self {
            Binary::Equal => "_==_",
            Binary::NotEqual => "_!=_",
            Binary::Less => "_<_",
            Binary::LessOrEqual => "_<=_",
            Binary::Greater => "_>_",
            Binary::GreaterOrEqual => "_>=_",
            Binary::In => "@in",
            Binary::Add => "_+_",
            Binary::Subtract => "_-_",
            Binary::Multiply => "_*_",
            Binary::Divide => "_/_",
            Binary::Remainder => "_%_",
            Binary::Index => "_[_]",
        }
    }
}

/// The functions that rules can call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Bool,
    Bytes,
    Contains,
    Double,
    Dyn,
    EndsWith,
    Int,
    Matches,
    SemverCompare,
    Size,
    StartsWith,
    String,
    Type,
    Uint,
}

impl Function {
    const NAMES: &[(&str, Function)] = &[
        ("bool", Function::Bool),
        ("bytes", Function::Bytes),
        ("contains", Function::Contains),
        ("double", Function::Double),
        ("dyn", Function::Dyn),
        ("endsWith", Function::EndsWith),
        ("int", Function::Int),
        ("matches", Function::Matches),
        ("semver_compare", Function::SemverCompare),
        ("size", Function::Size),
        ("startsWith", Function::StartsWith),
        ("string", Function::String),
        ("type", Function::Type),
        ("uint", Function::Uint),
    ];

    /// Returns the function with this name.
    pub(super) fn named(name: &str) -> Option<Function> {
        Function::NAMES.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
    }

    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        Function::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Returns whether it can be called as `value.function()`.
    pub(super) fn of_value(self) -> bool {
        use Function::{Contains, EndsWith, Matches, Size, StartsWith};
        matches!(self, Contains | EndsWith | Matches | Size | StartsWith)
    }

    /// Returns whether it can be called as `function(value)`.
    pub(super) fn alone(self) -> bool {
        !matches!(self, Function::Contains | Function::EndsWith | Function::StartsWith)
    }
}

/// The types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExprType {
    Bool,
    Bytes,
    Double,
    Int,
    List,
    Map,
    Null,
    String,
    Type,
    Uint,
}

impl ExprType {
    const NAMES: &[(&str, ExprType)] = &[
        ("bool", ExprType::Bool),
        ("bytes", ExprType::Bytes),
        ("double", ExprType::Double),
        ("int", ExprType::Int),
        ("list", ExprType::List),
        ("map", ExprType::Map),
        ("null_type", ExprType::Null),
        ("string", ExprType::String),
        ("type", ExprType::Type),
        ("uint", ExprType::Uint),
    ];

    /// Returns the type with this name.
    pub(super) fn named(name: &str) -> Option<ExprType> {
        ExprType::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        ExprType::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}
