//! Programs for images.

/// Returns the smallest static program for Linux: a header, and one segment.
pub fn static_program() -> Vec<u8> {
    let mut program = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    program.resize(16, 0);
    for (value, width) in
        [(2u64, 2), (62, 2), (1, 4), (0x40_0078, 8), (64, 8), (0, 8), (0, 4), (64, 2), (56, 2), (1, 2)]
    {
        program.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    program.resize(64, 0);
    for (value, width) in [(1u64, 4), (5, 4), (0, 8), (0x40_0000, 8), (0x40_0000, 8), (120, 8), (120, 8), (4096, 8)] {
        program.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    program
}
