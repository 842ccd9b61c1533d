//! Packets and multiprecision integers.

use super::error::OpenPgpError;

/// Maximum number of packets.
pub(crate) const MAX_PACKETS: usize = 20_000;

pub(crate) const SIGNATURE: u8 = 2;
pub(crate) const ONE_PASS: u8 = 4;
pub(crate) const PUBLIC_KEY: u8 = 6;
pub(crate) const COMPRESSED: u8 = 8;
pub(crate) const MARKER: u8 = 10;
pub(crate) const LITERAL: u8 = 11;
pub(crate) const USER_ID: u8 = 13;
pub(crate) const PUBLIC_SUBKEY: u8 = 14;
pub(crate) const USER_ATTRIBUTE: u8 = 17;

/// One packet.
pub(crate) struct Packet {
    pub(crate) tag: u8,
    pub(crate) body: Vec<u8>,
}

/// Parses all packets.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Packet>, OpenPgpError> {
    let mut found = Vec::new();
    let mut rest = Bytes(bytes);
    while !rest.0.is_empty() {
        if found.len() == MAX_PACKETS {
            return Err(OpenPgpError::TooManyPackets);
        }
        found.push(packet(&mut rest).ok_or(OpenPgpError::DamagedPacket)?);
    }
    Ok(found)
}

fn packet(rest: &mut Bytes<'_>) -> Option<Packet> {
    let first = rest.byte()?;
    if first & 0x80 == 0 {
        return None;
    }
    if first & 0x40 == 0 {
        let length = match first & 3 {
            0 => usize::from(rest.byte()?),
            1 => usize::from(rest.u16()?),
            2 => usize::try_from(rest.u32()?).ok()?,
            // To the end.
            _ => rest.0.len(),
        };
        return Some(Packet { tag: first >> 2 & 0xf, body: rest.take(length)?.to_vec() });
    }
    let mut body = Vec::new();
    loop {
        let (length, partial) = match rest.byte()? {
            length @ 0..192 => (usize::from(length), false),
            high @ 192..224 => (usize::from(high - 192) * 256 + usize::from(rest.byte()?) + 192, false),
            255 => (usize::try_from(rest.u32()?).ok()?, false),
            part => (1 << (part & 0x1f), true),
        };
        body.extend_from_slice(rest.take(length)?);
        if !partial {
            return Some(Packet { tag: first & 0x3f, body });
        }
    }
}

/// A byte reader. Missing bytes are `None`.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Reads a multiprecision integer, without leading zeros.
    pub(crate) fn number(&mut self) -> Option<&'a [u8]> {
        let bits = usize::from(self.u16()?);
        let number = self.take(bits.div_ceil(8))?;
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        Some(&number[zeros..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(bytes: &[u8]) -> Vec<(u8, usize)> {
        read(bytes).unwrap().iter().map(|packet| (packet.tag, packet.body.len())).collect()
    }

    #[test]
    fn lengths_are_parsed_in_all_forms() {
        assert_eq!(shapes(&[0x88, 1, 7, 0x89, 0, 1, 7, 0x8a, 0, 0, 0, 1, 7]), [(2, 1); 3]);
        assert_eq!(shapes(&[0xa3, 1, 2, 3]), [(8, 3)]);
        assert_eq!(shapes(&[0xc2, 1, 7, 0xc2, 0xff, 0, 0, 0, 1, 7]), [(2, 1); 2]);
        assert_eq!(shapes(&[&[0xcb, 192, 8][..], &[0; 200]].concat()), [(11, 200)]);
        assert_eq!(shapes(&[0xcb, 0xe1, 1, 2, 1, 3]), [(11, 3)]);
    }

    #[test]
    fn truncated_packets_are_rejected() {
        for bytes in [&[0x02][..], &[0x88], &[0x88, 2, 1], &[0xcb, 0xe1, 1, 2], &[0xcb, 0xff, 0xff, 0xff, 0xff, 0xff]] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }
}
