//! The number of repetitions of randomized tests.

/// The variable with the number of rounds of tests that kill processes.
const KILL_ROUNDS: &str = "OPM_KILL_ROUNDS";
/// Fits into a full test run on two shared cores.
const DEFAULT: u64 = 10;

/// Returns how often a test kills a process; `OPM_KILL_ROUNDS` raises it for longer runs.
///
/// # Panics
/// Panics when the variable is not a positive number: a test that kills nothing would pass.
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
