//! Archives built byte by byte, so that they can be invalid in any way.

use std::io::Write;

/// A tar archive under construction.
#[derive(Clone, Default)]
pub(crate) struct Archive(Vec<u8>);

/// A header with arbitrary content.
pub(crate) struct Header([u8; 512]);

impl Header {
    pub(crate) fn new(name: &[u8], flag: u8) -> Header {
        let mut block = [0; 512];
        let length = name.len().min(100);
        block[..length].copy_from_slice(&name[..length]);
        block[100..108].copy_from_slice(b"0000644\0");
        block[108..116].copy_from_slice(b"0001750\0");
        block[116..124].copy_from_slice(b"0001750\0");
        block[124..136].copy_from_slice(b"00000000000\0");
        block[136..148].copy_from_slice(b"14000000000\0");
        block[156] = flag;
        block[257..265].copy_from_slice(b"ustar\x0000");
        Header(block)
    }

    pub(crate) fn mode(mut self, mode: u32) -> Header {
        self.0[100..108].copy_from_slice(format!("{mode:07o}\0").as_bytes());
        self
    }

    pub(crate) fn size(self, size: u64) -> Header {
        self.size_field(format!("{size:011o}\0").as_bytes())
    }

    pub(crate) fn size_field(mut self, field: &[u8]) -> Header {
        self.0[124..136].copy_from_slice(field);
        self
    }

    pub(crate) fn link(mut self, target: &[u8]) -> Header {
        let length = target.len().min(100);
        self.0[157..157 + length].copy_from_slice(&target[..length]);
        self
    }

    pub(crate) fn prefix(mut self, prefix: &[u8]) -> Header {
        self.0[345..345 + prefix.len()].copy_from_slice(prefix);
        self
    }

    fn with_checksum(mut self) -> [u8; 512] {
        self.0[148..156].copy_from_slice(b"        ");
        let sum: u32 = self.0.iter().map(|byte| u32::from(*byte)).sum();
        self.0[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0
    }
}

impl Archive {
    pub(crate) fn new() -> Archive {
        Archive::default()
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Archive {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn header(self, header: Header) -> Archive {
        let block = header.with_checksum();
        self.raw(&block)
    }

    pub(crate) fn padded(self, content: &[u8]) -> Archive {
        let padding = content.len().next_multiple_of(512) - content.len();
        self.raw(content).raw(&vec![0; padding])
    }

    pub(crate) fn with(self, header: Header, content: &[u8]) -> Archive {
        self.header(header.size(content.len() as u64)).padded(content)
    }

    pub(crate) fn file(self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Archive {
        self.with(Header::new(name.as_ref(), b'0'), content.as_ref())
    }

    pub(crate) fn dir(self, name: impl AsRef<[u8]>) -> Archive {
        self.header(Header::new(name.as_ref(), b'5').mode(0o755))
    }

    pub(crate) fn symlink(self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Archive {
        self.header(Header::new(name.as_ref(), b'2').link(target.as_ref()))
    }

    pub(crate) fn hardlink(self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Archive {
        self.header(Header::new(name.as_ref(), b'1').link(target.as_ref()))
    }

    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Archive {
        let mut text = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let length = (1..8).map(|digits| rest + digits).find(|length| rest + length.to_string().len() == *length);
            text.extend_from_slice(format!("{} {key}=", length.unwrap()).as_bytes());
            text.extend_from_slice(value);
            text.push(b'\n');
        }
        self.with(Header::new(b"PaxHeaders/x", b'x'), &text)
    }

    pub(crate) fn gnu_long(self, flag: u8, name: &[u8]) -> Archive {
        self.with(Header::new(b"././@LongLink", flag), &[name, b"\0"].concat())
    }

    pub(crate) fn end(self) -> Vec<u8> {
        self.raw(&[0; 1024]).0
    }

    pub(crate) fn without_end(self) -> Vec<u8> {
        self.0
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}
