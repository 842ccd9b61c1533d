//! Growth of work with its input, counted in steps, so that the speed of the machine does not matter.

/// Checks that the work of `task` grows with its input, at one, two and four times the size `small`.
///
/// `count` returns the number of steps so far. Sorting and searching need a little more than twice the steps for twice
/// the input; nested loops need four times as many.
///
/// # Panics
/// Panics if the work grows faster, or is not counted.
pub fn assert_linear(small: usize, count: impl Fn() -> u64, task: impl Fn(usize)) {
    let steps = |size: usize| {
        let before = count();
        task(size);
        count() - before
    };
    let [once, twice, four_times] = [1, 2, 4].map(|times| steps(times * small));
    assert!(once >= small as u64, "{once} steps for {small}: the loop is not counted");
    let maximum = |steps: u64| steps * 5 / 2;
    assert!(twice <= maximum(once) && four_times <= maximum(twice), "{once}, {twice}, {four_times} steps");
}
