use super::*;

#[test]
fn preferences_apply_from_the_latest_choice_on() {
    // 0 needs 1 or 2, and 3 or 4; 1 and 3 exclude each other.
    let problem = SearchProblem {
        variables: 5,
        mandatory: vec![0],
        clauses: vec![(0, vec![1, 2]), (0, vec![3, 4])],
        exclusive: vec![vec![1, 3]],
        ..SearchProblem::default()
    };
    assert_eq!(problem.solve(&mut MAX_STEPS.clone()), SearchResult::Solution(vec![0, 1, 4]));
}

#[test]
fn a_conflict_is_minimal() {
    let problem = SearchProblem {
        variables: 6,
        mandatory: vec![0, 5],
        forbidden: vec![4],
        clauses: vec![(0, vec![1]), (0, vec![2]), (1, vec![3, 4])],
        exclusive: vec![vec![2, 3], vec![1, 5], vec![4, 5]],
    };
    assert_eq!(
        problem.solve(&mut MAX_STEPS.clone()),
        SearchResult::Conflict(vec![
            SearchCondition::Mandatory(0),
            SearchCondition::Mandatory(1),
            SearchCondition::Clause(0),
            SearchCondition::Exclusive(1)
        ])
    );
}

#[test]
fn searches_without_a_solution_end() {
    // Pigeonhole problem: short to write, and long to refute.
    let (pigeons, holes) = (14, 13);
    let place = |pigeon: usize, hole: usize| 1 + pigeon * holes + hole;
    let problem = SearchProblem {
        variables: 1 + pigeons * holes,
        mandatory: vec![0],
        clauses: (0..pigeons).map(|pigeon| (0, (0..holes).map(|hole| place(pigeon, hole)).collect())).collect(),
        exclusive: (0..holes).map(|hole| (0..pigeons).map(|pigeon| place(pigeon, hole)).collect()).collect(),
        ..SearchProblem::default()
    };
    assert_eq!(problem.solve(&mut MAX_STEPS.clone()), SearchResult::GaveUp);
}
