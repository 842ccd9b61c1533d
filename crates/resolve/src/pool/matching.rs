//! Finds the members that meet a requirement.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use catalog::needs::Need;

use super::{Matches, MemberIndex, Pool};
use crate::error::PoolError;
use crate::input::CandidateBundle;
use olm_cel::{CelRule, RuleError};

/// The maximum number of members in cached answers.
const MAX_CACHED: usize = 5_000_000;

impl Pool<'_> {
    /// Returns whether a bundle meets a requirement.
    ///
    /// # Errors
    /// Fails when the requirement cannot be read, or takes too long.
    pub fn meets(&self, bundle: &CandidateBundle, need: &Need) -> Result<bool, PoolError> {
        self.check(need)?;
        self.decide(bundle, need)
    }

    /// The same for a valid requirement.
    fn decide(&self, bundle: &CandidateBundle, need: &Need) -> Result<bool, PoolError> {
        let failed: RefCell<Option<PoolError>> = RefCell::default();
        let rule = |text: &str| match self.holds(text, bundle) {
            Ok(holds) => Some(holds),
            Err(error) => {
                failed.replace(Some(error));
                None
            }
        };
        let met = need.met_by(&bundle.package, bundle.version.as_ref(), &bundle.facts, &rule);
        match (met, failed.into_inner()) {
            (Some(met), _) => Ok(met),
            (None, error) => Err(error.unwrap_or_else(|| PoolError::Undecided(need.to_string()))),
        }
    }

    /// Checks that a requirement is valid.
    ///
    /// # Errors
    /// Fails with its problem.
    pub fn check(&self, need: &Need) -> Result<(), PoolError> {
        if let Need::Broken(reason) = need {
            return Err(reason.clone().into());
        }
        for rule in need.rules() {
            if let Err(error) = &*self.compile(rule) {
                return Err(error.clone().into());
            }
        }
        Ok(())
    }

    /// Returns the members that meet a requirement.
    pub(super) fn matches(&self, need: &Need) -> Matches {
        let key = format!("{need:?}");
        if let Some(known) = self.matches.borrow().get(&key) {
            return known.clone();
        }
        let found = self.check(need).and_then(|()| {
            let mut found = Vec::new();
            // Most bundles are in several channels.
            let mut known: HashMap<*const CandidateBundle, bool> = HashMap::new();
            for node in self.may_meet(need) {
                self.charge(3)?;
                let bundle = self.members[node].bundle;
                let met = match known.get(&std::ptr::from_ref(bundle)) {
                    Some(met) => *met,
                    None => self.decide(bundle, need)?,
                };
                known.insert(bundle, met);
                if met {
                    found.push(node);
                }
            }
            Ok(found)
        });
        let found = Rc::new(found);
        self.make_room(&found);
        self.matches.borrow_mut().insert(key, found.clone());
        found
    }

    /// Makes room in the cache for an answer; clears the cache when it is full.
    pub(super) fn make_room(&self, found: &Result<Vec<MemberIndex>, PoolError>) {
        let cached = self.cached.get() + found.as_ref().map_or(1, |found| found.len() + 1);
        if cached > MAX_CACHED {
            self.matches.borrow_mut().clear();
            self.candidates.borrow_mut().clear();
            self.cached.set(0);
        } else {
            self.cached.set(cached);
        }
    }

    fn compile(&self, text: &str) -> Rc<Result<CelRule, RuleError>> {
        if let Some(known) = self.rules.borrow().get(text) {
            return known.clone();
        }
        let rule = Rc::new(CelRule::compile(text));
        self.rules.borrow_mut().insert(text.to_owned(), rule.clone());
        rule
    }

    fn holds(&self, text: &str, bundle: &CandidateBundle) -> Result<bool, PoolError> {
        let rule = self.compile(text);
        let rule = rule.as_ref().as_ref().map_err(Clone::clone)?;
        let answer = rule.run(&bundle.properties)?;
        self.charge(answer.steps)?;
        Ok(answer.holds)
    }
}
