//! How often tests repeat what chance decides.

/// Names the number of rounds of tests that kill programs.
const KILL_ROUNDS: &str = "OPM_KILL_ROUNDS";
/// What fits into a run of all tests, on two cores that others use.
const DEFAULT: u64 = 20;

/// Returns how often a test kills a program; `OPM_KILL_ROUNDS` says so where more time is at hand.
///
/// # Panics
/// Panics when the variable is no number above zero: a test that kills nothing would pass.
pub fn kill_rounds() -> u64 {
    match std::env::var(KILL_ROUNDS) {
        Ok(text) => text
            .parse()
            .ok()
            .filter(|rounds| *rounds > 0)
            .unwrap_or_else(|| panic!("{KILL_ROUNDS} is {text:?}: expected a number above zero")),
        Err(_) => DEFAULT,
    }
}
