//! Evaluates a rule.

use std::rc::Rc;

use super::expression::{Binary, Each, Expression, Link, Macro};
use super::steps::{EvaluationFault, Steps};
use super::value::{Key, Map, Text, Value, find};
use super::{functions, operators};

/// The result of an expression.
pub(super) type EvaluationResult<'v> = Result<Value<'v>, EvaluationFault>;

/// An evaluation of a rule.
pub(super) struct Run<'v> {
    /// The variables in scope, the innermost last.
    variables: Vec<Value<'v>>,
    pub(super) steps: Steps,
}

impl<'v> Run<'v> {
    pub(super) fn new(properties: Value<'v>, limit: u64) -> Run<'v> {
        Run { variables: vec![properties], steps: Steps { used: 0, limit } }
    }

    /// Evaluates an expression.
    pub(super) fn evaluate(&mut self, expression: &'v Expression) -> EvaluationResult<'v> {
        self.steps.spend(1)?;
        Ok(match expression {
            Expression::Null => Value::Null,
            Expression::Bool(of) => Value::Bool(*of),
            Expression::Int(of) => Value::Int(*of),
            Expression::Uint(of) => Value::Uint(*of),
            Expression::Double(of) => Value::Double(*of),
            Expression::String(of) => Value::String(Text::Borrowed(of)),
            Expression::Bytes(of) => {
                self.steps.read(of.len())?;
                Value::Bytes(of.as_slice().into())
            }
            Expression::Type(of) => Value::Type(*of),
            Expression::Variable(place) => self.variables.get(*place).cloned().ok_or(EvaluationFault::Wrong)?,
            // Names were resolved when the rule was checked.
            Expression::Name(_) => return Err(EvaluationFault::Wrong),
            Expression::List(elements) => {
                let elements: Result<Vec<_>, _> = elements.iter().map(|each| self.evaluate(each)).collect();
                Value::List(elements?.into())
            }
            Expression::Map(entries) => self.map(entries)?,
            Expression::Has(of, field) => match self.evaluate(of)? {
                Value::Map(map) => Value::Bool(member(&map, field).is_some()),
                // A list expects an index, and a name is none. A scalar has no field.
                Value::List(_) => return Err(EvaluationFault::Wrong),
                _ => Value::Bool(false),
            },
            Expression::Not(of) => match self.evaluate(of)? {
                Value::Bool(of) => Value::Bool(!of),
                _ => return Err(EvaluationFault::Wrong),
            },
            Expression::Negate(of) => operators::negate(&self.evaluate(of)?)?,
            Expression::And(sides) => self.logic(sides, false)?,
            Expression::Or(sides) => self.logic(sides, true)?,
            Expression::Choose(choices, otherwise) => self.choose(choices, otherwise)?,
            Expression::Call(function, arguments) => match arguments.as_slice() {
                [of] => {
                    let of = self.evaluate(of)?;
                    functions::unary(*function, of, &mut self.steps)?
                }
                [first, second] => {
                    let (first, second) = (self.evaluate(first)?, self.evaluate(second)?);
                    functions::binary(*function, &first, &second, &mut self.steps)?
                }
                _ => return Err(EvaluationFault::Wrong),
            },
            Expression::Chain(of, links) => {
                let mut of = self.evaluate(of)?;
                for link in links {
                    of = self.link(link, of)?;
                }
                of
            }
        })
    }

    /// Applies a link to a value.
    fn link(&mut self, link: &'v Link, of: Value<'v>) -> EvaluationResult<'v> {
        self.steps.spend(1)?;
        match link {
            Link::Select(field) => match of {
                Value::Map(map) => member(&map, field).cloned().ok_or(EvaluationFault::Wrong),
                _ => Err(EvaluationFault::Wrong),
            },
            Link::Binary(operator, right) => {
                let right = self.evaluate(right)?;
                self.binary(*operator, &of, &right)
            }
            Link::Call(function, arguments) => match arguments.as_slice() {
                [] => functions::unary(*function, of, &mut self.steps),
                [second] => {
                    let second = self.evaluate(second)?;
                    functions::binary(*function, &of, &second, &mut self.steps)
                }
                _ => Err(EvaluationFault::Wrong),
            },
            Link::Matches(pattern) => match of {
                Value::String(text) => {
                    self.steps.spend(pattern.steps(&text))?;
                    Ok(Value::Bool(pattern.is_in(&text)))
                }
                _ => Err(EvaluationFault::Wrong),
            },
            Link::Each(each) => self.each(each, of),
        }
    }

    /// Evaluates the branch of the first condition that holds.
    fn choose(&mut self, choices: &'v [(Expression, Expression)], otherwise: &'v Expression) -> EvaluationResult<'v> {
        for (condition, then) in choices {
            match self.evaluate(condition)? {
                Value::Bool(true) => return self.evaluate(then),
                Value::Bool(false) => {}
                _ => return Err(EvaluationFault::Wrong),
            }
        }
        self.evaluate(otherwise)
    }

    fn map(&mut self, entries: &'v [(Expression, Expression)]) -> EvaluationResult<'v> {
        let mut map = Map::new();
        for (key, value) in entries {
            let key = Key::of(self.evaluate(key)?).ok_or(EvaluationFault::Wrong)?;
            map.insert(key, self.evaluate(value)?);
        }
        Ok(Value::Map(Rc::new(map)))
    }

    /// Combines conditions. A deciding value wins even if another side fails.
    fn logic(&mut self, sides: &'v [Expression], decides: bool) -> EvaluationResult<'v> {
        let mut wrong = false;
        for side in sides {
            match self.condition(side)? {
                Some(holds) if holds == decides => return Ok(Value::Bool(decides)),
                Some(_) => {}
                None => wrong = true,
            }
        }
        if wrong { Err(EvaluationFault::Wrong) } else { Ok(Value::Bool(!decides)) }
    }

    /// Returns whether a condition holds; `None` if it fails.
    fn condition(&mut self, expression: &'v Expression) -> Result<Option<bool>, EvaluationFault> {
        match self.evaluate(expression) {
            Ok(Value::Bool(holds)) => Ok(Some(holds)),
            Ok(_) | Err(EvaluationFault::Wrong) => Ok(None),
            Err(EvaluationFault::TooLong) => Err(EvaluationFault::TooLong),
        }
    }

    fn binary(&mut self, operator: Binary, left: &Value<'v>, right: &Value<'v>) -> EvaluationResult<'v> {
        let steps = &mut self.steps;
        match operator {
            Binary::Equal => Ok(Value::Bool(left.equals(right, steps)?)),
            Binary::NotEqual => Ok(Value::Bool(!left.equals(right, steps)?)),
            Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => {
                operators::compare(operator, left, right, steps)
            }
            Binary::In => match right {
                Value::List(list) => {
                    for element in list.iter() {
                        if left.equals(element, steps)? {
                            return Ok(Value::Bool(true));
                        }
                    }
                    Ok(Value::Bool(false))
                }
                Value::Map(map) => Ok(Value::Bool(find(map, left).is_some())),
                _ => Err(EvaluationFault::Wrong),
            },
            Binary::Index => match left {
                Value::List(list) => {
                    let place = right.as_whole().and_then(|place| usize::try_from(place).ok());
                    place.and_then(|place| list.get(place)).cloned().ok_or(EvaluationFault::Wrong)
                }
                Value::Map(map) => find(map, right).cloned().ok_or(EvaluationFault::Wrong),
                _ => Err(EvaluationFault::Wrong),
            },
            Binary::Add => operators::add(left, right, steps),
            Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Remainder => {
                operators::arithmetic(operator, left, right)
            }
        }
    }

    /// Evaluates a loop.
    fn each(&mut self, each: &'v Each, range: Value<'v>) -> EvaluationResult<'v> {
        let elements: Rc<[Value<'v>]> = match range {
            Value::List(list) => list,
            Value::Map(map) => {
                self.steps.spend(map.len() as u64)?;
                map.keys().map(Key::value).collect()
            }
            _ => return Err(EvaluationFault::Wrong),
        };
        let depth = self.variables.len();
        self.variables.push(Value::Null);
        let outcome = match each.what {
            Macro::All => self.any(each, &elements, depth, false),
            Macro::Exists => self.any(each, &elements, depth, true),
            Macro::ExistsOne | Macro::Filter | Macro::Map => self.collect(each, &elements, depth),
        };
        self.variables.truncate(depth);
        outcome
    }

    /// Combines the conditions of all elements as `||` or `&&` do.
    fn any(&mut self, each: &'v Each, elements: &[Value<'v>], depth: usize, decides: bool) -> EvaluationResult<'v> {
        let Some(condition) = &each.condition else { return Err(EvaluationFault::Wrong) };
        let mut wrong = false;
        for element in elements {
            self.variables[depth] = element.clone();
            match self.condition(condition)? {
                Some(holds) if holds == decides => return Ok(Value::Bool(decides)),
                Some(_) => {}
                None => wrong = true,
            }
        }
        if wrong { Err(EvaluationFault::Wrong) } else { Ok(Value::Bool(!decides)) }
    }

    /// Collects the results of the elements for which the condition holds, or returns whether exactly one does.
    fn collect(&mut self, each: &'v Each, elements: &[Value<'v>], depth: usize) -> EvaluationResult<'v> {
        let mut collected = Vec::new();
        for element in elements {
            self.variables[depth] = element.clone();
            if let Some(condition) = &each.condition {
                match self.evaluate(condition)? {
                    Value::Bool(true) => {}
                    Value::Bool(false) => continue,
                    _ => return Err(EvaluationFault::Wrong),
                }
            }
            collected.push(match &each.result {
                Some(result) => self.evaluate(result)?,
                None => element.clone(),
            });
        }
        Ok(match each.what {
            Macro::ExistsOne => Value::Bool(collected.len() == 1),
            _ => Value::List(collected.into()),
        })
    }
}

/// Returns the field of a map.
fn member<'m, 'v>(map: &'m Map<'v>, field: &'v str) -> Option<&'m Value<'v>> {
    map.get(&Key::String(Text::Borrowed(field)))
}
