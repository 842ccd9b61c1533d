//! Type checks rules: rejects what clusters reject before a rule runs.
//!
//! Property values may be anything, so whatever depends on them is `dyn`, which matches every type.

use std::fmt;
use std::rc::Rc;

use super::error::RuleFault;
use super::expression::{Binary, Each, ExprType, Expression, Function, Link, Macro};
use super::pattern::Pattern;

/// The maximum number of patterns compiled in advance. Others are compiled, and charged, while the rule runs.
const MAX_PATTERNS: usize = 20;

/// The maximum depth of known list and map types. A type may occur twice in another, so sizes double with each level.
const MAX_DEPTH: usize = 8;

/// The static type of a value.
#[derive(Clone, Debug, PartialEq)]
enum Type {
    Dyn,
    /// A type without parameters.
    Plain(ExprType),
    List(Rc<Type>),
    Map(Rc<Type>, Rc<Type>),
}

use Type::{Dyn, Plain};

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dyn => write!(f, "dyn"),
            Plain(kind) => write!(f, "{}", kind.name().trim_end_matches("_type")),
            Type::List(of) => write!(f, "list({of})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
        }
    }
}

impl Type {
    fn list(of: Type) -> Type {
        Type::List(Rc::new(of.cut()))
    }

    fn map(key: Type, value: Type) -> Type {
        Type::Map(Rc::new(key.cut()), Rc::new(value.cut()))
    }

    /// Replaces types that are nested too deep by `dyn`.
    fn cut(self) -> Type {
        if self.depth() < MAX_DEPTH { self } else { Dyn }
    }

    fn depth(&self) -> usize {
        match self {
            Dyn | Plain(_) => 0,
            Type::List(of) => of.depth() + 1,
            Type::Map(key, value) => key.depth().max(value.depth()) + 1,
        }
    }

    fn kind(&self) -> Option<ExprType> {
        match self {
            Dyn => None,
            Plain(kind) => Some(*kind),
            Type::List(_) => Some(ExprType::List),
            Type::Map(..) => Some(ExprType::Map),
        }
    }

    /// Returns whether a value of this type may have one of these kinds.
    fn may_be(&self, kinds: &[ExprType]) -> bool {
        self.kind().is_none_or(|kind| kinds.contains(&kind))
    }

    /// Returns whether a value may have both types.
    fn agrees(&self, other: &Type) -> bool {
        match (self, other) {
            (Dyn, _) | (_, Dyn) => true,
            (Plain(a), Plain(b)) => a == b,
            (Type::List(a), Type::List(b)) => a.agrees(b),
            (Type::Map(a, x), Type::Map(b, y)) => a.agrees(b) && x.agrees(y),
            _ => false,
        }
    }

    /// Returns the common type of two alternatives.
    fn join(self, other: &Type) -> Type {
        if self == *other { self } else { Dyn }
    }
}

/// Resolves the names of a rule and checks its types. The rule must return a boolean.
///
/// # Errors
/// Fails with the unknown name, or the types that do not match.
pub(super) fn check(rule: &mut Expression) -> Result<(), RuleFault> {
    let property = Type::map(Plain(ExprType::String), Dyn);
    let variables = vec![("properties".to_owned(), Type::list(property))];
    match (Checker { variables, patterns: 0 }).infer(rule)? {
        Plain(ExprType::Bool) => Ok(()),
        _ => Err(RuleFault::NotBool),
    }
}

struct Checker {
    variables: Vec<(String, Type)>,
    patterns: usize,
}

impl Checker {
    fn infer(&mut self, expression: &mut Expression) -> Result<Type, RuleFault> {
        Ok(match expression {
            Expression::Null => Plain(ExprType::Null),
            Expression::Bool(_) => Plain(ExprType::Bool),
            Expression::Int(_) => Plain(ExprType::Int),
            Expression::Uint(_) => Plain(ExprType::Uint),
            Expression::Double(_) => Plain(ExprType::Double),
            Expression::String(_) => Plain(ExprType::String),
            Expression::Bytes(_) => Plain(ExprType::Bytes),
            Expression::Type(_) => Plain(ExprType::Type),
            Expression::Variable(place) => self.variables.get(*place).map_or(Dyn, |(_, of)| of.clone()),
            Expression::Name(name) => {
                *expression = self.named(name)?;
                self.infer(expression)?
            }
            Expression::List(elements) => Type::list(self.common(elements.iter_mut())?),
            Expression::Map(entries) => {
                let keys = self.common(entries.iter_mut().map(|(key, _)| key))?;
                let values = self.common(entries.iter_mut().map(|(_, value)| value))?;
                Type::map(keys, values)
            }
            Expression::Has(of, _) => {
                selected(&self.infer(of)?)?;
                Plain(ExprType::Bool)
            }
            Expression::Not(of) => {
                let of = self.infer(of)?;
                fits("!_", of.may_be(&[ExprType::Bool]), Plain(ExprType::Bool), &[of])?
            }
            Expression::Negate(of) => {
                let of = self.infer(of)?;
                fits("-_", of.may_be(&[ExprType::Int, ExprType::Double]), of.clone(), &[of])?
            }
            Expression::And(sides) => self.logic("_&&_", sides)?,
            Expression::Or(sides) => self.logic("_||_", sides)?,
            Expression::Choose(choices, otherwise) => {
                let mut types = Vec::new();
                for (condition, then) in choices {
                    types.push((self.infer(condition)?, self.infer(then)?));
                }
                let mut result = self.infer(otherwise)?;
                for (condition, then) in types.into_iter().rev() {
                    let good = condition.may_be(&[ExprType::Bool]) && then.agrees(&result);
                    result = fits("_?_:_", good, then.clone().join(&result), &[condition, then, result])?;
                }
                result
            }
            Expression::Call(function, arguments) => {
                let types = arguments.iter_mut().map(|each| self.infer(each)).collect::<Result<Vec<_>, _>>()?;
                called(*function, &types)?
            }
            Expression::Chain(of, links) => {
                let mut of = self.infer(of)?;
                for link in links {
                    of = self.link(link, of)?;
                }
                of
            }
        })
    }

    /// Returns the type of a link applied to a value.
    fn link(&mut self, link: &mut Link, of: Type) -> Result<Type, RuleFault> {
        match link {
            Link::Select(_) => selected(&of),
            Link::Binary(operator, right) => {
                let types = [of, self.infer(right)?];
                let result = binary(*operator, &types[0], &types[1]);
                fits(operator.name(), result.is_some(), result.unwrap_or(Dyn), &types)
            }
            Link::Call(function, arguments) => {
                let mut types = vec![of];
                for argument in arguments {
                    types.push(self.infer(argument)?);
                }
                let result = called(*function, &types)?;
                self.prepare(link);
                Ok(result)
            }
            Link::Matches(_) => Ok(Plain(ExprType::Bool)),
            Link::Each(each) => self.each(each, of),
        }
    }

    /// Resolves a name: the innermost variable, then the types.
    fn named(&self, name: &str) -> Result<Expression, RuleFault> {
        let place = self.variables.iter().rposition(|(known, _)| known == name);
        let kind = || ExprType::named(name).map(Expression::Type);
        place.map(Expression::Variable).or_else(kind).ok_or_else(|| RuleFault::Undeclared(name.to_owned()))
    }

    /// Returns the common type of all parts, or `dyn`.
    fn common<'e>(&mut self, parts: impl Iterator<Item = &'e mut Expression>) -> Result<Type, RuleFault> {
        let mut common: Option<Type> = None;
        for part in parts {
            let of = self.infer(part)?;
            common = Some(match common {
                Some(common) => common.join(&of),
                None => of,
            });
        }
        Ok(common.unwrap_or(Dyn))
    }

    fn logic(&mut self, name: &str, sides: &mut [Expression]) -> Result<Type, RuleFault> {
        let types = sides.iter_mut().map(|side| self.infer(side)).collect::<Result<Vec<_>, _>>()?;
        for side in &types {
            fits(name, side.may_be(&[ExprType::Bool]), Dyn, &types)?;
        }
        Ok(Plain(ExprType::Bool))
    }

    fn each(&mut self, each: &mut Each, range: Type) -> Result<Type, RuleFault> {
        let element = match range {
            Dyn => Rc::new(Dyn),
            Type::List(element) => element,
            Type::Map(key, _) => key,
            of @ Plain(_) => return Err(RuleFault::Range(of.to_string())),
        };
        self.variables.push((each.variable.clone(), (*element).clone()));
        let condition = each.condition.as_mut().map(|condition| self.infer(condition)).transpose();
        let result = each.result.as_mut().map(|result| self.infer(result)).transpose();
        self.variables.pop();
        let (condition, result) = (condition?, result?);
        if let Some(of) = condition {
            let operator = match each.what {
                Macro::All => "_&&_",
                Macro::Exists => "_||_",
                Macro::ExistsOne | Macro::Filter | Macro::Map => "_?_:_",
            };
            fits(operator, of.may_be(&[ExprType::Bool]), Dyn, &[of])?;
        }
        Ok(match each.what {
            Macro::All | Macro::Exists | Macro::ExistsOne => Plain(ExprType::Bool),
            Macro::Filter => Type::List(element),
            Macro::Map => Type::list(result.unwrap_or(Dyn)),
        })
    }

    /// Compiles a pattern literal, so that it is compiled once for all bundles.
    fn prepare(&mut self, link: &mut Link) {
        let Link::Call(Function::Matches, arguments) = link else { return };
        let [Expression::String(text)] = arguments.as_slice() else { return };
        if self.patterns == MAX_PATTERNS {
            return;
        }
        self.patterns += 1;
        // An invalid pattern fails only where the rule evaluates it.
        if let Some(pattern) = Pattern::compile(text) {
            *link = Link::Matches(pattern);
        }
    }
}

/// Returns the type of a field.
fn selected(of: &Type) -> Result<Type, RuleFault> {
    match of {
        Type::Map(_, value) => Ok((**value).clone()),
        Dyn => Ok(Dyn),
        _ => Err(RuleFault::Selection(of.to_string())),
    }
}

/// Returns the type of a function call, or the types that do not match.
fn called(function: Function, types: &[Type]) -> Result<Type, RuleFault> {
    let result = call(function, types);
    fits(function.name(), result.is_some(), result.unwrap_or(Dyn), types)
}

/// Returns the type of a call, or the types that do not match.
fn fits(name: &str, good: bool, result: Type, types: &[Type]) -> Result<Type, RuleFault> {
    if good {
        return Ok(result);
    }
    Err(RuleFault::Overload { name: name.to_owned(), types: types.iter().map(Type::to_string).collect() })
}

/// Returns the result type of an operator, if it accepts these types.
///
/// Null may stand for a time, which can be compared, added, and converted: clusters detect that at run time.
fn binary(operator: Binary, left: &Type, right: &Type) -> Option<Type> {
    use ExprType::{Bool, Bytes, Double, Int, List, Null, String, Uint};
    // The same type on both sides, out of these.
    let same = |kinds: &[ExprType]| left.may_be(kinds) && right.may_be(kinds) && left.agrees(right);
    let known = || if *left == Dyn { right.clone() } else { left.clone() };
    let (good, result) = match operator {
        Binary::Equal | Binary::NotEqual => (left.agrees(right), Plain(Bool)),
        Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => {
            (same(&[Bool, Bytes, Double, Int, Null, String, Uint]), Plain(Bool))
        }
        Binary::Add if left.kind() == Some(List) && right.kind() == Some(List) => {
            (left.agrees(right), if left == right { left.clone() } else { Type::list(Dyn) })
        }
        Binary::Add | Binary::Subtract if known() == Plain(Null) => (same(&[Null]), Dyn),
        Binary::Add => (same(&[Bytes, Double, Int, List, String, Uint]), known()),
        Binary::Subtract | Binary::Multiply | Binary::Divide => (same(&[Double, Int, Uint]), known()),
        Binary::Remainder => (same(&[Int, Uint]), known()),
        Binary::In => match right {
            Type::List(of) | Type::Map(of, _) => (left.agrees(of), Plain(Bool)),
            right => (*right == Dyn, Plain(Bool)),
        },
        Binary::Index => match left {
            Type::List(of) => (right.may_be(&[Int]), (**of).clone()),
            Type::Map(key, of) => (right.agrees(key), (**of).clone()),
            left => (*left == Dyn, Dyn),
        },
    };
    good.then_some(result)
}

/// Returns the result type of a function, if it accepts these types.
fn call(function: Function, types: &[Type]) -> Option<Type> {
    use ExprType::{Bool, Bytes, Double, Int, List, Map, Null, String, Uint};
    let all = |count: usize, kinds: &[ExprType]| types.len() == count && types.iter().all(|of| of.may_be(kinds));
    let (good, result) = match function {
        Function::Size => (all(1, &[Bytes, List, Map, String]), Plain(Int)),
        Function::Contains | Function::EndsWith | Function::StartsWith | Function::Matches => {
            (all(2, &[String]), Plain(Bool))
        }
        Function::Int => (all(1, &[Double, Int, Null, String, Uint]), Plain(Int)),
        Function::Uint => (all(1, &[Double, Int, String, Uint]), Plain(Uint)),
        Function::Double => (all(1, &[Double, Int, String, Uint]), Plain(Double)),
        Function::String => (all(1, &[Bool, Bytes, Double, Int, Null, String, Uint]), Plain(String)),
        Function::Bytes => (all(1, &[Bytes, String]), Plain(Bytes)),
        Function::Bool => (all(1, &[Bool, String]), Plain(Bool)),
        Function::Type => (types.len() == 1, Plain(ExprType::Type)),
        Function::Dyn => (types.len() == 1, Dyn),
        Function::SemverCompare => (types.len() == 2, Plain(Int)),
    };
    good.then_some(result)
}
