//! Reproduces the order that Go's `sort.Slice` gives to equal elements.
//!
//! The existing tool sorts related images by image only, with an unstable sort: if an image has two names, the steps of
//! the algorithm determine which comes first. They are deterministic for a given input, so identical output requires
//! identical steps: pattern-defeating quicksort, with insertion sort for twelve elements or fewer.
//!
//! Elements move only by swaps and are compared only with `less`, both by index.

/// The maximum length of a range for insertion sort.
const INSERTION: usize = 12;
/// The minimum length of a range whose pivot is a median of medians, and in which misplaced elements are shifted.
const LONG: usize = 50;
/// The maximum number of misplaced elements that [`Sort::finish_if_almost_sorted`] shifts.
const SHIFTS: usize = 5;
/// The number of swaps that [`Sort::pivot`] counts on a range in descending order.
const ALL_SWAPPED: usize = 12;

/// Sorts `items` as Go's `sort.Slice` does with this `less`.
pub fn sort_by<T>(items: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let length = items.len();
    let limit = bit_length(length);
    Sort { items, less }.range(0, length, limit);
}

/// The order of the sampled elements of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trend {
    Ascending,
    Descending,
    Unknown,
}

struct Sort<'a, T, F> {
    items: &'a mut [T],
    less: F,
}

impl<T, F: Fn(&T, &T) -> bool> Sort<'_, T, F> {
    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.items[a], &self.items[b])
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
    }

    /// Sorts `start..end`; after `limit` bad pivots, heap sort takes over.
    fn range(&mut self, mut start: usize, mut end: usize, mut limit: u32) {
        let (mut balanced, mut partitioned) = (true, true);
        loop {
            let length = end - start;
            if length <= INSERTION {
                return self.insertion(start, end);
            }
            if limit == 0 {
                return self.heap(start, end);
            }
            if !balanced {
                self.break_patterns(start, end);
                limit -= 1;
            }
            let (mut pivot, mut trend) = self.pivot(start, end);
            if trend == Trend::Descending {
                self.items[start..end].reverse();
                pivot = end - 1 - (pivot - start);
                trend = Trend::Ascending;
            }
            let may_be_sorted = balanced && partitioned && trend == Trend::Ascending;
            if may_be_sorted && self.finish_if_almost_sorted(start, end) {
                return;
            }
            // No element of the range is less than the preceding one, so elements equal to the pivot come first.
            if start > 0 && !self.less(start - 1, pivot) {
                start = self.partition_equal(start, end, pivot);
                continue;
            }
            let middle;
            (middle, partitioned) = self.partition(start, end, pivot);
            let (left, right) = (middle - start, end - middle);
            balanced = left.min(right) >= length / 8;
            if left < right {
                self.range(start, middle, limit);
                start = middle + 1;
            } else {
                self.range(middle + 1, end, limit);
                end = middle;
            }
        }
    }

    fn insertion(&mut self, start: usize, end: usize) {
        for next in start + 1..end {
            let mut at = next;
            while at > start && self.less(at, at - 1) {
                self.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    fn heap(&mut self, start: usize, end: usize) {
        let length = end - start;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift_down(root, length, start);
        }
        for last in (0..length).rev() {
            self.swap(start, start + last);
            self.sift_down(0, last, start);
        }
    }

    fn sift_down(&mut self, mut root: usize, end: usize, first: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(first + child, first + child + 1) {
                child += 1;
            }
            if !self.less(first + root, first + child) {
                return;
            }
            self.swap(first + root, first + child);
            root = child;
        }
    }

    /// Moves elements less than the pivot before it; returns the new index of the pivot and whether nothing had to
    /// move.
    fn partition(&mut self, start: usize, end: usize, pivot: usize) -> (usize, bool) {
        self.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        let mut already = true;
        loop {
            while low <= high && self.less(low, start) {
                low += 1;
            }
            while low <= high && !self.less(high, start) {
                high -= 1;
            }
            if low > high {
                break;
            }
            already = false;
            self.swap(low, high);
            low += 1;
            high -= 1;
        }
        self.swap(high, start);
        (high, already)
    }

    /// Moves elements equal to the pivot to the front and returns the start of the rest; no element is less than the
    /// pivot.
    fn partition_equal(&mut self, start: usize, end: usize, pivot: usize) -> usize {
        self.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        loop {
            while low <= high && !self.less(start, low) {
                low += 1;
            }
            while low <= high && self.less(start, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.swap(low, high);
            low += 1;
            high -= 1;
        }
    }

    /// Sorts a range with few misplaced elements and returns whether it is sorted now.
    fn finish_if_almost_sorted(&mut self, start: usize, end: usize) -> bool {
        let mut at = start + 1;
        for _ in 0..SHIFTS {
            while at < end && !self.less(at, at - 1) {
                at += 1;
            }
            if at == end {
                return true;
            }
            if end - start < LONG {
                return false;
            }
            self.swap(at, at - 1);
            if at - start >= 2 {
                let mut smaller = at - 1;
                while smaller >= 1 && self.less(smaller, smaller - 1) {
                    self.swap(smaller, smaller - 1);
                    smaller -= 1;
                }
            }
            if end - at >= 2 {
                let mut greater = at + 1;
                while greater < end && self.less(greater, greater - 1) {
                    self.swap(greater, greater - 1);
                    greater += 1;
                }
            }
        }
        false
    }

    /// Scatters some elements, so that no input makes every pivot bad. The pattern depends only on the length.
    fn break_patterns(&mut self, start: usize, end: usize) {
        let length = end - start;
        let mut random = length as u64;
        let mask = (1 << bit_length(length)) - 1;
        let middle = start + length / 4 * 2;
        for offset in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let mut other = random as usize & mask;
            if other >= length {
                other -= length;
            }
            self.swap(middle - 1 + offset, start + other);
        }
    }

    /// Chooses a pivot and returns the order of the compared elements.
    fn pivot(&self, start: usize, end: usize) -> (usize, Trend) {
        let length = end - start;
        let mut swaps = 0;
        let mut at = [1, 2, 3].map(|quarter| start + length / 4 * quarter);
        if length >= LONG {
            at = at.map(|middle| self.median([middle - 1, middle, middle + 1], &mut swaps));
        }
        let pivot = self.median(at, &mut swaps);
        let trend = match swaps {
            0 => Trend::Ascending,
            ALL_SWAPPED => Trend::Descending,
            _ => Trend::Unknown,
        };
        (pivot, trend)
    }

    fn median(&self, [mut a, mut b, mut c]: [usize; 3], swaps: &mut usize) -> usize {
        let mut order = |first: &mut usize, second: &mut usize| {
            if self.less(*second, *first) {
                *swaps += 1;
                std::mem::swap(first, second);
            }
        };
        order(&mut a, &mut b);
        order(&mut b, &mut c);
        order(&mut a, &mut b);
        b
    }
}

/// Returns the number of significant bits.
fn bit_length(number: usize) -> u32 {
    usize::BITS - number.leading_zeros()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::sort_by;

    fn sorted(mut items: Vec<(u32, usize)>) -> Vec<(u32, usize)> {
        sort_by(&mut items, |a, b| a.0 < b.0);
        items
    }

    fn numbered(keys: &[u32]) -> Vec<(u32, usize)> {
        keys.iter().copied().zip(0..).collect()
    }

    #[test]
    fn up_to_twelve_elements_keep_the_order_of_equal_ones() {
        let items = numbered(&[3, 1, 2, 3, 1, 2, 3, 1, 2, 0, 0, 1]);
        let mut expected = items.clone();
        expected.sort_by_key(|item| item.0);
        assert_eq!(sorted(items), expected);
    }

    #[test]
    fn more_than_twelve_elements_may_not() {
        let keys: Vec<u32> = (0..40).map(|n| (n * 7) % 5).collect();
        let mut stable = numbered(&keys);
        stable.sort_by_key(|item| item.0);
        assert_ne!(sorted(numbered(&keys)), stable);
    }

    proptest! {
        #[test]
        fn any_input_is_sorted_completely(keys in prop::collection::vec(0u32..20, 0..300)) {
            let mut all = sorted(numbered(&keys));
            prop_assert!(all.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            all.sort_by_key(|item| item.1);
            prop_assert_eq!(all, numbered(&keys));
        }

        #[test]
        fn sorted_input_is_unchanged(keys in prop::collection::vec(0u32..20, 0..300)) {
            let once = sorted(numbered(&keys));
            prop_assert_eq!(sorted(once.clone()), once);
        }

        #[test]
        fn patterned_input_is_sorted(length in 0u32..400, step in 1u32..50, modulus in 1u32..100) {
            let keys: Vec<u32> = (0..length).rev().map(|n| n * step % modulus).collect();
            let all = sorted(numbered(&keys));
            prop_assert!(all.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        }
    }
}
