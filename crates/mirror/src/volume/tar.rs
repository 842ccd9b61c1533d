//! Headers of tar files, as far as volumes need them.

/// The size of headers, and what everything is rounded up to.
pub(super) const BLOCK: u64 = 512;

/// Returns how much room a file takes, with its header.
pub(super) fn room(size: u64) -> u64 {
    BLOCK + size.next_multiple_of(BLOCK)
}

/// Makes the header of a file, always the same for the same name and size.
pub(super) fn header(name: &str, size: u64) -> [u8; 512] {
    let mut header = [0; 512];
    header[..name.len().min(100)].copy_from_slice(&name.as_bytes()[..name.len().min(100)]);
    header[100..107].copy_from_slice(b"0000644");
    header[108..115].copy_from_slice(b"0000000");
    header[116..123].copy_from_slice(b"0000000");
    if size < 1 << 33 {
        header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    } else {
        // Larger sizes are written in base 256, as all tools read them.
        header[124] = 0x80;
        header[128..136].copy_from_slice(&size.to_be_bytes());
    }
    header[136..147].copy_from_slice(b"00000000000");
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}
