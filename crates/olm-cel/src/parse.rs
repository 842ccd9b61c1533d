//! The parser of rules.

use super::error::{RuleError, RuleFault};
use super::expression::{Binary, Expression, Function, Link};
use super::lex::{Token, tokens};
use super::macros;

/// The maximum nesting of brackets.
pub(super) const MAX_DEPTH: usize = 50;
/// The maximum number of operators: each may add one level of nesting.
pub(super) const MAX_OPERATORS: usize = 500;

/// The reserved names of the language.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

/// The binary operators by precedence, the lowest first.
const LEVELS: &[&[(&str, Binary)]] = &[
    &[
        ("<", Binary::Less),
        ("<=", Binary::LessOrEqual),
        (">=", Binary::GreaterOrEqual),
        (">", Binary::Greater),
        ("==", Binary::Equal),
        ("!=", Binary::NotEqual),
        ("in", Binary::In),
    ],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("/", Binary::Divide), ("%", Binary::Remainder)],
];

/// Parses a rule.
///
/// # Errors
/// Fails with the position of the syntax error, or the exceeded limit.
pub(super) fn parse(text: &str) -> Result<Expression, RuleError> {
    let tokens = tokens(text)?;
    bounded(&tokens)?;
    let mut parser = Parser { text, tokens, at: 0 };
    let expression = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(expression),
        _ => Err(parser.unexpected()),
    }
}

/// Checks the nesting of brackets, and the number of operators.
fn bounded(tokens: &[(Token<'_>, usize)]) -> Result<(), RuleFault> {
    let (mut depth, mut operators) = (0usize, 0usize);
    for (token, _) in tokens {
        match token {
            Token::Sign("(" | "[" | "{") => (depth, operators) = (depth + 1, operators + 1),
            Token::Sign(")" | "]" | "}") => depth = depth.saturating_sub(1),
            Token::Sign("," | "true" | "false" | "null") => {}
            Token::Sign(_) => operators += 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(RuleFault::Depth);
        }
    }
    if operators > MAX_OPERATORS {
        return Err(RuleFault::Operators);
    }
    Ok(())
}

struct Parser<'t> {
    text: &'t str,
    /// Never empty: the last one is the end.
    tokens: Vec<(Token<'t>, usize)>,
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> &Token<'t> {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    /// Consumes the next token.
    fn next(&mut self) -> Token<'t> {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    /// Consumes the next token if it is this sign.
    fn accept(&mut self, sign: &str) -> bool {
        let accepted = matches!(self.peek(), Token::Sign(next) if *next == sign);
        self.at += usize::from(accepted);
        accepted
    }

    fn expect(&mut self, sign: &str) -> Result<(), RuleError> {
        if self.accept(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> RuleError {
        let next = |at: usize| self.tokens.get(at).map_or(self.text.len(), |(_, place)| *place);
        match self.peek() {
            Token::End => self.failed(RuleFault::End),
            _ => {
                let word = self.text[next(self.at)..next(self.at + 1)].trim();
                self.failed(RuleFault::Token(word.to_owned()))
            }
        }
    }

    /// Places a fault at the next token.
    fn failed(&self, fault: RuleFault) -> RuleError {
        let place = self.tokens.get(self.at).map_or(self.text.len(), |(_, place)| *place);
        fault.placed(self.text, place)
    }

    fn expression(&mut self) -> Result<Expression, RuleError> {
        let mut choices = Vec::new();
        loop {
            let last = self.or()?;
            if !self.accept("?") {
                return Ok(if choices.is_empty() { last } else { Expression::Choose(choices, Box::new(last)) });
            }
            choices.push((last, self.or()?));
            self.expect(":")?;
        }
    }

    fn or(&mut self) -> Result<Expression, RuleError> {
        let first = self.and()?;
        let mut sides = vec![first];
        while self.accept("||") {
            sides.push(self.and()?);
        }
        Ok(alone(sides).unwrap_or_else(Expression::Or))
    }

    fn and(&mut self) -> Result<Expression, RuleError> {
        let first = self.binary(LEVELS)?;
        let mut sides = vec![first];
        while self.accept("&&") {
            sides.push(self.binary(LEVELS)?);
        }
        Ok(alone(sides).unwrap_or_else(Expression::And))
    }

    fn binary(&mut self, levels: &[&[(&'static str, Binary)]]) -> Result<Expression, RuleError> {
        let Some((level, tighter)) = levels.split_first() else { return self.unary() };
        let left = self.binary(tighter)?;
        let mut links = Vec::new();
        while let Some((_, operator)) = level.iter().find(|(sign, _)| *self.peek() == Token::Sign(sign)) {
            self.at += 1;
            links.push(Link::Binary(*operator, self.binary(tighter)?));
        }
        Ok(chain(left, links))
    }

    fn unary(&mut self) -> Result<Expression, RuleError> {
        // A sign belongs to the number that follows it: the smallest integer has no positive counterpart.
        if matches!(
            self.tokens.get(self.at..),
            Some([(Token::Sign("-"), _), (Token::Int(..) | Token::Double(_), _), ..])
        ) {
            return self.member();
        }
        // Two equal operators in a row cancel out.
        for (sign, apply) in [("!", Expression::Not as fn(_) -> _), ("-", Expression::Negate)] {
            let mut count = 0;
            while self.accept(sign) {
                count += 1;
            }
            if count > 0 {
                let of = self.member()?;
                return Ok(if count % 2 == 0 { of } else { apply(Box::new(of)) });
            }
        }
        self.member()
    }

    fn member(&mut self) -> Result<Expression, RuleError> {
        let left = self.primary()?;
        let mut links = Vec::new();
        loop {
            if self.accept("[") {
                links.push(Link::Binary(Binary::Index, self.expression()?));
                self.expect("]")?;
            } else if self.accept(".") {
                let Token::Name(name) = *self.peek() else { return Err(self.unexpected()) };
                self.at += 1;
                links.push(if self.accept("(") { self.call_of(name)? } else { Link::Select(name.to_owned()) });
            } else if matches!(self.peek(), Token::Sign("{")) && is_path(&left, &links) {
                return Err(RuleFault::Message.into());
            } else {
                return Ok(chain(left, links));
            }
        }
    }

    fn primary(&mut self) -> Result<Expression, RuleError> {
        let place = self.at;
        Ok(match self.next() {
            Token::Sign("true") => Expression::Bool(true),
            Token::Sign("false") => Expression::Bool(false),
            Token::Sign("null") => Expression::Null,
            Token::Int(digits, base) => self.integer("", digits, base)?,
            Token::Sign("-") => match self.next() {
                Token::Int(digits, base) => self.integer("-", digits, base)?,
                Token::Double(number) => Expression::Double(-number),
                _ => return Err(self.back(place)),
            },
            Token::Uint(number) => Expression::Uint(number),
            Token::Double(number) => Expression::Double(number),
            Token::String(text) => Expression::String(text),
            Token::Bytes(bytes) => Expression::Bytes(bytes),
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                inner
            }
            Token::Sign("[") => Expression::List(self.list_or_comma()?),
            Token::Sign("{") => self.map()?,
            // A leading point means the outermost scope, and there is no other.
            Token::Sign(".") => match self.next() {
                Token::Name(name) => self.named(name, place)?,
                _ => return Err(self.back(place)),
            },
            Token::Name(name) => self.named(name, place)?,
            _ => return Err(self.back(place)),
        })
    }

    /// Moves back to a misplaced token and returns its error.
    fn back(&mut self, place: usize) -> RuleError {
        self.at = place;
        self.unexpected()
    }

    /// Parses a name, or a function call.
    fn named(&mut self, name: &str, place: usize) -> Result<Expression, RuleError> {
        if RESERVED.contains(&name) {
            self.at = place;
            return Err(self.failed(RuleFault::Reserved(name.to_owned())));
        }
        if !self.accept("(") {
            return Ok(Expression::Name(name.to_owned()));
        }
        let mut arguments = self.list(")")?;
        if name == "has" && arguments.len() == 1 {
            if let Some(Expression::Chain(of, mut links)) = arguments.pop()
                && let Some(Link::Select(field)) = links.pop()
            {
                return Ok(Expression::Has(Box::new(chain(*of, links)), field));
            }
            return Err(self.failed(RuleFault::Has));
        }
        match Function::named(name) {
            // It is the same as a function and as a method.
            Some(function) if function.alone() && function.of_value() && !arguments.is_empty() => {
                let of = arguments.remove(0);
                Ok(chain(of, vec![Link::Call(function, arguments)]))
            }
            Some(function) if function.alone() => Ok(Expression::Call(function, arguments)),
            _ => Err(RuleFault::Undeclared(name.to_owned()).into()),
        }
    }

    /// Parses the arguments of a method call.
    fn call_of(&mut self, name: &str) -> Result<Link, RuleError> {
        let arguments = self.list(")")?;
        match macros::expand(name, arguments).map_err(|fault| self.failed(fault))? {
            Ok(expanded) => Ok(expanded),
            Err(arguments) => match Function::named(name) {
                Some(function) if function.of_value() => Ok(Link::Call(function, arguments)),
                _ => Err(RuleFault::Undeclared(name.to_owned()).into()),
            },
        }
    }

    /// Parses expressions up to a closing bracket.
    fn list(&mut self, end: &str) -> Result<Vec<Expression>, RuleError> {
        let mut list = Vec::new();
        if self.accept(end) {
            return Ok(list);
        }
        loop {
            list.push(self.expression()?);
            if !self.accept(",") {
                self.expect(end)?;
                return Ok(list);
            }
        }
    }

    /// Parses the elements of a list; a trailing comma is allowed.
    fn list_or_comma(&mut self) -> Result<Vec<Expression>, RuleError> {
        let mut list = Vec::new();
        loop {
            if self.accept("]") {
                return Ok(list);
            }
            // A single comma is an empty list, too.
            if !list.is_empty() || !self.accept(",") {
                list.push(self.expression()?);
                if self.accept(",") {
                    continue;
                }
            }
            self.expect("]")?;
            return Ok(list);
        }
    }

    /// Parses the entries of a map; a trailing comma is allowed.
    fn map(&mut self) -> Result<Expression, RuleError> {
        let mut entries = Vec::new();
        loop {
            if self.accept("}") {
                return Ok(Expression::Map(entries));
            }
            if !entries.is_empty() || !self.accept(",") {
                let key = self.expression()?;
                self.expect(":")?;
                entries.push((key, self.expression()?));
                if self.accept(",") {
                    continue;
                }
            }
            self.expect("}")?;
            return Ok(Expression::Map(entries));
        }
    }

    fn integer(&self, sign: &str, digits: &str, base: u32) -> Result<Expression, RuleError> {
        let number = i64::from_str_radix(&format!("{sign}{digits}"), base);
        number.map(Expression::Int).map_err(|_| self.failed(RuleFault::Int(format!("{sign}{digits}"))))
    }
}

/// Returns whether an expression is a dotted name, which a message may follow.
fn is_path(left: &Expression, links: &[Link]) -> bool {
    matches!(left, Expression::Name(_)) && links.iter().all(|link| matches!(link, Link::Select(_)))
}

/// Applies links to a value.
fn chain(of: Expression, links: Vec<Link>) -> Expression {
    if links.is_empty() { of } else { Expression::Chain(Box::new(of), links) }
}

/// Returns the only side, or all of several.
fn alone(mut sides: Vec<Expression>) -> Result<Expression, Vec<Expression>> {
    if sides.len() > 1 { Err(sides) } else { sides.pop().ok_or(sides) }
}
