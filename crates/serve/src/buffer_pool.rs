//! Reuses the memory of replies: fresh memory costs a page fault for every 4 KiB of a reply.

use std::cell::RefCell;

/// Larger buffers are not kept.
const MAX_REUSED: usize = 1 << 20;

thread_local! {
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty buffer with a capacity of at least `capacity` bytes.
pub(crate) fn buffer(capacity: usize) -> Vec<u8> {
    let mut memory = SPARE.take();
    memory.clear();
    memory.reserve(capacity);
    memory
}

/// Keeps the buffer of a sent reply for the next one.
pub(crate) fn recycle(memory: Vec<u8>) {
    if memory.capacity() <= MAX_REUSED {
        SPARE.with_borrow_mut(|spare| {
            if spare.capacity() < memory.capacity() {
                *spare = memory;
            }
        });
    }
}
