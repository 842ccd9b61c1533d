//! Memory for replies, used again: fresh memory costs a page fault for every 4 KiB of a reply.

use std::cell::RefCell;

/// Larger memory is not kept.
const KEPT: usize = 1 << 20;

thread_local! {
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty vector with room for `room` bytes.
pub(crate) fn take(room: usize) -> Vec<u8> {
    let mut memory = SPARE.take();
    memory.clear();
    memory.reserve(room);
    memory
}

/// Keeps the memory of a reply that was sent for one of the next.
pub(crate) fn give_back(memory: Vec<u8>) {
    if memory.capacity() <= KEPT {
        SPARE.with_borrow_mut(|spare| {
            if spare.capacity() < memory.capacity() {
                *spare = memory;
            }
        });
    }
}
