//! The search: assigns variables so that every constraint holds, in the order of preference.
//!
//! A solver library would find some solution, or the best by a measure. Clusters take the first solution in an order
//! that grows while they search: choices are made breadth first, each by its own order of preference, and reconsidered
//! from the latest on. What they install depends on that order, so this search keeps it and adds only propagation that
//! finds dead ends early. A choice that comes up again after an earlier one changed starts from its first candidate.
//!
//! The work is bounded: the author of a catalog can make any such search long.

use std::collections::VecDeque;

/// A variable, by number.
pub(crate) type Var = usize;

/// The problem to solve.
#[derive(Debug, Default)]
pub(crate) struct SearchProblem {
    /// The number of variables.
    pub(crate) variables: usize,
    /// The variables that must hold, in order.
    pub(crate) mandatory: Vec<Var>,
    /// The variables that must not hold.
    pub(crate) forbidden: Vec<Var>,
    /// If the first holds, one of the others must; in order of preference.
    pub(crate) clauses: Vec<(Var, Vec<Var>)>,
    /// At most one of these holds.
    pub(crate) exclusive: Vec<Vec<Var>>,
}

/// A constraint of a [`SearchProblem`], by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SearchCondition {
    Mandatory(usize),
    Forbidden(usize),
    Clause(usize),
    Exclusive(usize),
}

/// The outcome of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// The variables that hold, in the order they were chosen.
    Solution(Vec<Var>),
    /// There is no solution; these conditions cannot all hold.
    Conflict(Vec<SearchCondition>),
    /// The work budget was exhausted.
    GaveUp,
}

/// The maximum number of steps per search. Real catalogs need some thousands.
const MAX_STEPS: u64 = 5_000_000;

impl SearchProblem {
    /// Solves the problem.
    ///
    /// `work` is the step budget; the search subtracts its steps.
    pub(crate) fn solve(&self, work: &mut u64) -> SearchResult {
        let all = vec![true; self.conditions().count()];
        let index = Index::new(self);
        let allowed = MAX_STEPS.min(*work);
        let mut steps = allowed;
        let mut search = Search::new(self, &index, &all, &mut steps);
        let found = match search.run() {
            Some(true) => SearchResult::Solution(search.chosen()),
            Some(false) => {
                let used = std::mem::take(&mut search.used);
                SearchResult::Conflict(self.shrink(&index, used, &mut steps))
            }
            None => SearchResult::GaveUp,
        };
        *work -= allowed - steps;
        found
    }

    fn conditions(&self) -> impl Iterator<Item = SearchCondition> + '_ {
        (0..self.mandatory.len())
            .map(SearchCondition::Mandatory)
            .chain((0..self.forbidden.len()).map(SearchCondition::Forbidden))
            .chain((0..self.clauses.len()).map(SearchCondition::Clause))
            .chain((0..self.exclusive.len()).map(SearchCondition::Exclusive))
    }

    /// Removes constraints while the rest has no solution.
    ///
    /// The remaining constraints explain the conflict. When the budget runs out, some of them may be superfluous.
    fn shrink(&self, index: &Index, used: Vec<bool>, steps: &mut u64) -> Vec<SearchCondition> {
        let mut kept = used;
        let unsolvable = |kept: &[bool], steps: &mut u64| Search::new(self, index, kept, steps).run() == Some(false);
        if !unsolvable(&kept, steps) {
            kept = vec![true; kept.len()];
        }
        let mut size = kept.iter().filter(|kept| **kept).count().div_ceil(2).max(1);
        loop {
            let places: Vec<usize> = (0..kept.len()).filter(|&place| kept[place]).collect();
            for chunk in places.chunks(size) {
                chunk.iter().for_each(|&place| kept[place] = false);
                if !unsolvable(&kept, steps) {
                    chunk.iter().for_each(|&place| kept[place] = true);
                }
            }
            if size == 1 {
                break;
            }
            size = size.div_ceil(2);
        }
        self.conditions().zip(kept).filter(|(_, kept)| *kept).map(|(condition, _)| condition).collect()
    }
}

/// The occurrences of variables.
struct Index {
    /// The clauses that a variable owns.
    owned: Vec<Vec<usize>>,
    /// The clauses that it is a candidate of.
    candidate_of: Vec<Vec<usize>>,
    exclusive: Vec<Vec<usize>>,
}

impl Index {
    fn new(problem: &SearchProblem) -> Index {
        let empty = || vec![Vec::new(); problem.variables];
        let mut index = Index { owned: empty(), candidate_of: empty(), exclusive: empty() };
        for (number, (owner, candidates)) in problem.clauses.iter().enumerate() {
            index.owned[*owner].push(number);
            candidates.iter().for_each(|&candidate| index.candidate_of[candidate].push(number));
        }
        for (number, members) in problem.exclusive.iter().enumerate() {
            members.iter().for_each(|&member| index.exclusive[member].push(number));
        }
        index
    }
}

/// A pending choice.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Mandatory(usize),
    Clause(usize),
}

struct Guess {
    choice: Choice,
    /// The index of the current candidate; `None` if there was nothing to choose.
    tried: Option<usize>,
    /// The length of the trail before.
    trail: usize,
    /// The number of choices that follow from it.
    children: usize,
}

/// The candidates of a clause that are not ruled out: their number, and the sum of their variables.
///
/// The sum is the last candidate when one is left, so that finding it takes no walk over thousands of others.
#[derive(Debug, Clone, Copy)]
struct Open {
    count: usize,
    sum: usize,
}

impl Open {
    fn of(candidates: &[Var]) -> Open {
        Open { count: candidates.len(), sum: candidates.iter().sum() }
    }

    fn admit(&mut self, variable: Var) {
        self.count += 1;
        self.sum += variable;
    }

    fn rule_out(&mut self, variable: Var) {
        self.count -= 1;
        self.sum -= variable;
    }
}

struct Search<'a> {
    problem: &'a SearchProblem,
    index: &'a Index,
    /// The constraints that count.
    active: &'a [bool],
    /// The constraints that had an effect.
    used: Vec<bool>,
    steps: &'a mut u64,
    /// The value of each variable, if known.
    value: Vec<Option<bool>>,
    assumed: Vec<bool>,
    /// The candidates of each clause that are not ruled out.
    open: Vec<Open>,
    trail: Vec<Var>,
    /// The length of the trail that has been propagated.
    followed: usize,
    choices: VecDeque<(Choice, usize)>,
    guesses: Vec<Guess>,
}

impl<'a> Search<'a> {
    fn new(problem: &'a SearchProblem, index: &'a Index, active: &'a [bool], steps: &'a mut u64) -> Search<'a> {
        Search {
            problem,
            index,
            active,
            used: vec![false; active.len()],
            steps,
            value: vec![None; problem.variables],
            assumed: vec![false; problem.variables],
            open: problem.clauses.iter().map(|(_, candidates)| Open::of(candidates)).collect(),
            trail: Vec::new(),
            followed: 0,
            choices: VecDeque::new(),
            guesses: Vec::new(),
        }
    }

    fn place(&self, condition: SearchCondition) -> usize {
        let problem = self.problem;
        match condition {
            SearchCondition::Mandatory(number) => number,
            SearchCondition::Forbidden(number) => problem.mandatory.len() + number,
            SearchCondition::Clause(number) => problem.mandatory.len() + problem.forbidden.len() + number,
            SearchCondition::Exclusive(number) => {
                problem.mandatory.len() + problem.forbidden.len() + problem.clauses.len() + number
            }
        }
    }

    fn is_active(&self, condition: SearchCondition) -> bool {
        self.active[self.place(condition)]
    }

    fn mark(&mut self, condition: SearchCondition) {
        let place = self.place(condition);
        self.used[place] = true;
    }

    fn chosen(&self) -> Vec<Var> {
        let candidate = |guess: &Guess| guess.tried.map(|tried| self.candidates(guess.choice)[tried]);
        self.guesses.iter().filter_map(candidate).collect()
    }

    fn candidates(&self, choice: Choice) -> &'a [Var] {
        match choice {
            Choice::Mandatory(number) => std::slice::from_ref(&self.problem.mandatory[number]),
            Choice::Clause(number) => &self.problem.clauses[number].1,
        }
    }

    /// Returns whether there is a solution; `None` when the budget is exhausted.
    fn run(&mut self) -> Option<bool> {
        let problem = self.problem;
        *self.steps = self.steps.checked_sub((problem.variables + problem.clauses.len()) as u64)?;
        let mut possible = true;
        for (number, &variable) in problem.forbidden.iter().enumerate() {
            possible &= self.assign(variable, false, SearchCondition::Forbidden(number));
        }
        for number in 0..problem.clauses.len() {
            possible = possible && self.check_clause(number);
        }
        for (number, &variable) in problem.mandatory.iter().enumerate() {
            if self.is_active(SearchCondition::Mandatory(number)) {
                possible = possible && self.assign(variable, true, SearchCondition::Mandatory(number));
                self.choices.push_back((Choice::Mandatory(number), 0));
            }
        }
        if !possible || !self.propagate()? {
            return Some(false);
        }
        loop {
            if !possible {
                match self.pop_guess() {
                    None => return Some(false),
                    // A choice without a candidate does not get one by a retry.
                    Some(tried) => possible = tried,
                }
                continue;
            }
            match self.choices.pop_front() {
                None => return Some(true),
                Some((choice, next)) => possible = self.push_guess(choice, next)?,
            }
        }
    }

    /// Makes a choice, and returns whether it may be right.
    fn push_guess(&mut self, choice: Choice, next: usize) -> Option<bool> {
        let candidates = self.candidates(choice);
        *self.steps = self.steps.checked_sub(candidates.len() as u64)?;
        let mut guess = Guess { choice, tried: None, trail: self.trail.len(), children: 0 };
        if candidates.iter().any(|&candidate| self.assumed[candidate]) {
            self.guesses.push(guess);
            return Some(true);
        }
        let candidate = (next..candidates.len()).find(|&place| self.value[candidates[place]] != Some(false));
        let Some(place) = candidate else {
            if let Choice::Clause(number) = choice {
                self.mark(SearchCondition::Clause(number));
            }
            self.guesses.push(guess);
            return Some(false);
        };
        let variable = candidates[place];
        guess.tried = Some(place);
        for &clause in &self.index.owned[variable] {
            if self.is_active(SearchCondition::Clause(clause)) {
                guess.children += 1;
                self.choices.push_back((Choice::Clause(clause), 0));
            }
        }
        self.guesses.push(guess);
        self.assumed[variable] = true;
        if self.value[variable].is_none() {
            self.value[variable] = Some(true);
            self.trail.push(variable);
        }
        self.propagate()
    }

    /// Undoes the latest choice, and returns whether there was anything to choose; `None` when no choice is left.
    fn pop_guess(&mut self) -> Option<bool> {
        let guess = self.guesses.pop()?;
        self.choices.truncate(self.choices.len() - guess.children);
        let Some(tried) = guess.tried else {
            self.choices.push_front((guess.choice, 0));
            return Some(false);
        };
        let variable = self.candidates(guess.choice)[tried];
        self.assumed[variable] = false;
        for variable in self.trail.drain(guess.trail..) {
            if self.value[variable].take() == Some(false) {
                self.index.candidate_of[variable].iter().for_each(|&clause| self.open[clause].admit(variable));
            }
        }
        self.followed = self.trail.len();
        self.choices.push_front((guess.choice, tried + 1));
        Some(true)
    }

    /// Records the value of a variable, and returns whether it is consistent.
    fn assign(&mut self, variable: Var, value: bool, because: SearchCondition) -> bool {
        if !self.is_active(because) {
            return true;
        }
        match self.value[variable] {
            Some(known) if known == value => true,
            Some(_) => {
                self.mark(because);
                false
            }
            None => {
                self.mark(because);
                self.value[variable] = Some(value);
                self.trail.push(variable);
                if !value {
                    for &clause in &self.index.candidate_of[variable] {
                        self.open[clause].rule_out(variable);
                    }
                }
                true
            }
        }
    }

    /// Propagates known values, and returns whether they are consistent.
    fn propagate(&mut self) -> Option<bool> {
        while let Some(&variable) = self.trail.get(self.followed) {
            self.followed += 1;
            let index = self.index;
            let (clauses, groups): (&[usize], &[usize]) = match self.value[variable] {
                Some(true) => (&index.owned[variable], &index.exclusive[variable]),
                _ => (&index.candidate_of[variable], &[]),
            };
            for &number in groups {
                let members = &self.problem.exclusive[number];
                *self.steps = self.steps.checked_sub(members.len() as u64)?;
                for &member in members.iter().filter(|&&member| member != variable) {
                    if !self.assign(member, false, SearchCondition::Exclusive(number)) {
                        return Some(false);
                    }
                }
            }
            *self.steps = self.steps.checked_sub(clauses.len() as u64 + 1)?;
            for &number in clauses {
                if !self.check_clause(number) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    /// Propagates a clause, and returns whether it can still be satisfied.
    fn check_clause(&mut self, number: usize) -> bool {
        let owner = self.problem.clauses[number].0;
        let because = SearchCondition::Clause(number);
        match (self.open[number], self.value[owner]) {
            (_, Some(false)) => true,
            (Open { count: 0, .. }, _) => self.assign(owner, false, because),
            (Open { count: 1, sum: last }, Some(true)) => self.assign(last, true, because),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests;
