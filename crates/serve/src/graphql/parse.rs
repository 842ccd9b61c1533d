//! The parser of queries.

use std::collections::BTreeMap;

use super::lex::{Lexer, Token, TokenKind};
use super::{QueryFailure, Span};

/// Maximum nesting of selections and values.
const NESTING: usize = 32;
/// Maximum number of fragments, which bounds walks over them.
const FRAGMENTS: usize = 100;

/// The definitions of a query text.
#[derive(Debug, Default)]
pub(super) struct QueryDocument<'a> {
    pub(super) operations: Vec<Operation<'a>>,
    pub(super) fragments: BTreeMap<&'a str, Fragment<'a>>,
}

#[derive(Debug)]
pub(super) struct Operation<'a> {
    /// `query`, `mutation` or `subscription`.
    pub(super) kind: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) variables: Vec<Variable<'a>>,
    pub(super) selections: Vec<Selection<'a>>,
    pub(super) at: Span,
}

#[derive(Debug)]
pub(super) struct Variable<'a> {
    pub(super) name: &'a str,
    /// The type as written, without white space.
    pub(super) kind: String,
    pub(super) default: Option<Value<'a>>,
    pub(super) at: Span,
}

#[derive(Debug)]
pub(super) struct Fragment<'a> {
    pub(super) on: &'a str,
    pub(super) selections: Vec<Selection<'a>>,
    pub(super) at: Span,
}

#[derive(Debug)]
pub(super) enum Selection<'a> {
    Field(SelectedField<'a>),
    Spread { name: &'a str, directives: Vec<Directive<'a>>, at: Span },
    Inline { on: Option<&'a str>, directives: Vec<Directive<'a>>, selections: Vec<Selection<'a>>, at: Span },
}

#[derive(Debug)]
pub(super) struct SelectedField<'a> {
    pub(super) alias: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) arguments: Vec<GivenArgument<'a>>,
    pub(super) directives: Vec<Directive<'a>>,
    pub(super) selections: Vec<Selection<'a>>,
    pub(super) at: Span,
}

impl<'a> SelectedField<'a> {
    /// Returns the key of the field in the answer.
    pub(super) fn key(&self) -> &'a str {
        self.alias.unwrap_or(self.name)
    }
}

#[derive(Debug)]
pub(super) struct Directive<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Vec<GivenArgument<'a>>,
    pub(super) at: Span,
}

#[derive(Debug)]
pub(super) struct GivenArgument<'a> {
    pub(super) name: &'a str,
    pub(super) value: Value<'a>,
    pub(super) at: Span,
}

/// A value as written. The content of lists and objects is checked and dropped: no argument accepts one.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    Variable(&'a str),
    Int(&'a str),
    Float(&'a str),
    Text(String),
    Bool(bool),
    Null,
    Enum(&'a str),
    List,
    Object,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The lookahead token.
    next: Token<'a>,
}

/// Parses a query.
///
/// # Errors
/// Fails on a syntax error.
pub(super) fn document(text: &str) -> Result<QueryDocument<'_>, QueryFailure> {
    let mut lexer = Lexer::new(text);
    let next = lexer.next()?;
    let mut parser = Parser { lexer, next };
    let mut document = QueryDocument::default();
    while parser.next.kind != TokenKind::End {
        parser.definition(&mut document)?;
    }
    if document.operations.is_empty() {
        return Err(parser.unexpected());
    }
    Ok(document)
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Result<Token<'a>, QueryFailure> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn unexpected(&self) -> QueryFailure {
        let found = match &self.next.kind {
            TokenKind::Mark(b'.') => "\"...\"".to_owned(),
            TokenKind::Mark(mark) => format!("\"{}\"", char::from(*mark)),
            TokenKind::Name(name) => format!("Name {name:?}"),
            TokenKind::Int(number) => format!("Int {number:?}"),
            TokenKind::Float(number) => format!("Float {number:?}"),
            TokenKind::Text(_) => "String".to_owned(),
            TokenKind::End => "<EOF>".to_owned(),
        };
        QueryFailure::at(self.next.at, format!("Syntax Error: Unexpected {found}."))
    }

    fn is(&self, mark: u8) -> bool {
        self.next.kind == TokenKind::Mark(mark)
    }

    /// Consumes a mark if it is next.
    fn take(&mut self, mark: u8) -> Result<bool, QueryFailure> {
        if self.is(mark) {
            self.advance()?;
            return Ok(true);
        }
        Ok(false)
    }

    fn expect(&mut self, mark: u8) -> Result<(), QueryFailure> {
        if self.take(mark)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn name(&mut self) -> Result<&'a str, QueryFailure> {
        let TokenKind::Name(name) = self.next.kind else { return Err(self.unexpected()) };
        self.advance()?;
        Ok(name)
    }

    fn definition(&mut self, document: &mut QueryDocument<'a>) -> Result<(), QueryFailure> {
        let at = self.next.at;
        match self.next.kind {
            TokenKind::Mark(b'{') => {
                let selections = self.selections(0)?;
                document.operations.push(Operation {
                    kind: "query",
                    name: None,
                    variables: Vec::new(),
                    selections,
                    at,
                });
            }
            TokenKind::Name("fragment") => {
                self.advance()?;
                let name = self.name()?;
                let condition = if name == "on" { None } else { self.condition()? };
                let Some(on) = condition else { return Err(self.unexpected()) };
                self.directives()?;
                let selections = self.selections(0)?;
                if document.fragments.len() == FRAGMENTS {
                    return Err(QueryFailure::at(at, format!("query exceeds maximum fragment count of {FRAGMENTS}")));
                }
                if document.fragments.insert(name, Fragment { on, selections, at }).is_some() {
                    return Err(QueryFailure::at(at, format!("There can only be one fragment named {name:?}.")));
                }
            }
            TokenKind::Name(kind @ ("query" | "mutation" | "subscription")) => {
                self.advance()?;
                let name = if matches!(self.next.kind, TokenKind::Name(_)) { Some(self.name()?) } else { None };
                let variables = self.variables()?;
                self.directives()?;
                let selections = self.selections(0)?;
                document.operations.push(Operation { kind, name, variables, selections, at });
            }
            _ => return Err(self.unexpected()),
        }
        Ok(())
    }

    fn variables(&mut self) -> Result<Vec<Variable<'a>>, QueryFailure> {
        let mut variables: Vec<Variable<'a>> = Vec::new();
        if !self.take(b'(')? {
            return Ok(variables);
        }
        while !self.take(b')')? {
            let at = self.next.at;
            self.expect(b'$')?;
            let name = self.name()?;
            self.expect(b':')?;
            let mut kind = String::new();
            self.kind(&mut kind, 0)?;
            let default = if self.take(b'=')? { Some(self.value(0)?) } else { None };
            self.directives()?;
            if variables.iter().any(|variable| variable.name == name) {
                return Err(QueryFailure::at(at, format!("There can be only one variable named {name:?}.")));
            }
            variables.push(Variable { name, kind, default, at });
        }
        if variables.is_empty() {
            return Err(self.unexpected());
        }
        Ok(variables)
    }

    fn kind(&mut self, out: &mut String, depth: usize) -> Result<(), QueryFailure> {
        if depth > NESTING {
            return Err(self.unexpected());
        }
        if self.take(b'[')? {
            out.push('[');
            self.kind(out, depth + 1)?;
            self.expect(b']')?;
            out.push(']');
        } else {
            out.push_str(self.name()?);
        }
        if self.take(b'!')? {
            out.push('!');
        }
        Ok(())
    }

    /// Parses `on Type` if it is next.
    fn condition(&mut self) -> Result<Option<&'a str>, QueryFailure> {
        if self.next.kind != TokenKind::Name("on") {
            return Ok(None);
        }
        self.advance()?;
        self.name().map(Some)
    }

    fn selections(&mut self, depth: usize) -> Result<Vec<Selection<'a>>, QueryFailure> {
        if depth >= NESTING {
            return Err(QueryFailure::at(self.next.at, "query exceeds maximum depth of 10"));
        }
        self.expect(b'{')?;
        let mut selections = Vec::new();
        while !self.take(b'}')? {
            selections.push(self.selection(depth)?);
        }
        if selections.is_empty() {
            return Err(self.unexpected());
        }
        Ok(selections)
    }

    fn selection(&mut self, depth: usize) -> Result<Selection<'a>, QueryFailure> {
        let at = self.next.at;
        if self.take(b'.')? {
            if let TokenKind::Name(name) = self.next.kind
                && name != "on"
            {
                self.advance()?;
                return Ok(Selection::Spread { name, directives: self.directives()?, at });
            }
            let on = self.condition()?;
            let directives = self.directives()?;
            return Ok(Selection::Inline { on, directives, selections: self.selections(depth + 1)?, at });
        }
        let mut name = self.name()?;
        let mut alias = None;
        if self.take(b':')? {
            alias = Some(name);
            name = self.name()?;
        }
        let arguments = self.arguments()?;
        let directives = self.directives()?;
        let selections = if self.is(b'{') { self.selections(depth + 1)? } else { Vec::new() };
        Ok(Selection::Field(SelectedField { alias, name, arguments, directives, selections, at }))
    }

    fn arguments(&mut self) -> Result<Vec<GivenArgument<'a>>, QueryFailure> {
        let mut arguments: Vec<GivenArgument<'a>> = Vec::new();
        if !self.take(b'(')? {
            return Ok(arguments);
        }
        while !self.take(b')')? {
            let at = self.next.at;
            let name = self.name()?;
            self.expect(b':')?;
            let value = self.value(0)?;
            if arguments.iter().any(|argument| argument.name == name) {
                return Err(QueryFailure::at(at, format!("There can be only one argument named {name:?}.")));
            }
            arguments.push(GivenArgument { name, value, at });
            // No field has more than a few arguments, and the check for duplicates is quadratic.
            if arguments.len() > NESTING {
                return Err(self.unexpected());
            }
        }
        if arguments.is_empty() {
            return Err(self.unexpected());
        }
        Ok(arguments)
    }

    fn directives(&mut self) -> Result<Vec<Directive<'a>>, QueryFailure> {
        let mut directives = Vec::new();
        while self.is(b'@') {
            let at = self.advance()?.at;
            let name = self.name()?;
            directives.push(Directive { name, arguments: self.arguments()?, at });
        }
        Ok(directives)
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, QueryFailure> {
        if depth > NESTING {
            return Err(self.unexpected());
        }
        let value = match &self.next.kind {
            TokenKind::Mark(b'$') => {
                self.advance()?;
                return self.name().map(Value::Variable);
            }
            TokenKind::Mark(b'[') => {
                self.advance()?;
                while !self.take(b']')? {
                    self.value(depth + 1)?;
                }
                return Ok(Value::List);
            }
            TokenKind::Mark(b'{') => {
                self.advance()?;
                while !self.take(b'}')? {
                    self.name()?;
                    self.expect(b':')?;
                    self.value(depth + 1)?;
                }
                return Ok(Value::Object);
            }
            TokenKind::Int(number) => Value::Int(number),
            TokenKind::Float(number) => Value::Float(number),
            TokenKind::Text(text) => Value::Text(text.clone()),
            TokenKind::Name("true") => Value::Bool(true),
            TokenKind::Name("false") => Value::Bool(false),
            TokenKind::Name("null") => Value::Null,
            TokenKind::Name(name) => Value::Enum(name),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(value)
    }
}
