//! Reads the headers of an untrusted tar stream.

use super::LayerProblem;
use super::stream::LayerStream;

const BLOCK: usize = 512;

/// Maximum size of the extension headers of an entry. Real names are far shorter.
const MAX_EXTENSION: u64 = 1 << 20;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TarEntryKind {
    File,
    Directory,
    Symlink,
    HardLink,
    /// A device or a pipe.
    Special,
}

/// An entry as described by its headers.
#[derive(Debug)]
pub(crate) struct TarEntry {
    /// The name, unmodified.
    pub(crate) path: Vec<u8>,
    /// The target of a link, unmodified.
    pub(crate) link: Vec<u8>,
    pub(crate) kind: TarEntryKind,
    /// The size of the content in bytes.
    pub(crate) size: u64,
}

/// A tar stream, read entry by entry.
pub(crate) struct TarReader<'a> {
    stream: LayerStream<'a>,
    /// The unread content of the current entry, and its padding.
    content: u64,
    padding: u64,
    ended: bool,
}

/// Overrides for the next entry from extension headers.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

impl<'a> TarReader<'a> {
    pub(crate) fn new(stream: LayerStream<'a>) -> TarReader<'a> {
        TarReader { stream, content: 0, padding: 0, ended: false }
    }

    /// Returns the next entry, skipping unread content of the previous one. `headers` is called for each header,
    /// including extension headers.
    pub(crate) fn next(
        &mut self,
        mut headers: impl FnMut() -> Result<(), LayerProblem>,
    ) -> Result<Option<TarEntry>, LayerProblem> {
        let mut extension = Extension::default();
        let mut extended = false;
        loop {
            self.stream.skip(self.content)?;
            // Some writers omit the padding of the last entry.
            let at_end = !self.stream.skip_padding(self.padding)?;
            (self.content, self.padding) = (0, 0);
            if at_end {
                return if extended { Err(LayerProblem::Truncated) } else { Ok(None) };
            }
            let Some(header) = self.header()? else {
                return if extended { Err(LayerProblem::Truncated) } else { Ok(None) };
            };
            headers()?;
            let size = number(&header[124..136]).ok_or(LayerProblem::Header("its size is not a number"))?;
            match header[156] {
                b'x' => {
                    let text = self.extension(size)?;
                    extension.read_pax(&text)?;
                    extended = true;
                }
                // Global headers are ignored; they hold mostly comments.
                b'g' => drop(self.extension(size)?),
                b'L' => {
                    extension.path = Some(until_nul(&self.extension(size)?).to_vec());
                    extended = true;
                }
                b'K' => {
                    extension.link = Some(until_nul(&self.extension(size)?).to_vec());
                    extended = true;
                }
                flag => return self.entry(&header, flag, size, extension).map(Some),
            }
        }
    }

    /// Passes the content of the current entry to `sink` in chunks.
    pub(crate) fn content(
        &mut self,
        mut sink: impl FnMut(&[u8]) -> Result<(), LayerProblem>,
    ) -> Result<(), LayerProblem> {
        let mut buffer = vec![0; usize::try_from(self.content).unwrap_or(usize::MAX).clamp(1, 64 << 10)];
        while self.content > 0 {
            let wanted = buffer.len().min(usize::try_from(self.content).unwrap_or(usize::MAX));
            let length = self.stream.read(&mut buffer[..wanted])?;
            if length == 0 {
                return Err(LayerProblem::Truncated);
            }
            self.content -= length as u64;
            sink(&buffer[..length])?;
        }
        Ok(())
    }

    /// Returns the next header block, or `None` at the end: a zero block or the end of the file.
    fn header(&mut self) -> Result<Option<[u8; BLOCK]>, LayerProblem> {
        let mut block = [0; BLOCK];
        if self.ended || !self.stream.read_block(&mut block)? {
            self.ended = true;
            return Ok(None);
        }
        if block.iter().all(|byte| *byte == 0) {
            // Data after the end marker is not part of the archive.
            self.ended = true;
            return Ok(None);
        }
        let sum = number(&block[148..156]).ok_or(LayerProblem::Header("its checksum is not a number"))?;
        let others = block[..148].iter().chain(&block[156..]);
        let unsigned: u64 = others.clone().map(|byte| u64::from(*byte)).sum::<u64>() + 8 * 32;
        // Old tools sum signed bytes.
        let signed: i64 = others.map(|byte| i64::from(*byte as i8)).sum::<i64>() + 8 * 32;
        if sum != unsigned && i64::try_from(sum) != Ok(signed) {
            return Err(LayerProblem::Header("its checksum is wrong"));
        }
        Ok(Some(block))
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, LayerProblem> {
        if size > MAX_EXTENSION {
            return Err(LayerProblem::Header("its extension headers exceed 1 MiB"));
        }
        self.set_content(size);
        let mut text = Vec::with_capacity(size as usize);
        self.content(|piece| {
            text.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(text)
    }

    fn entry(
        &mut self,
        header: &[u8; BLOCK],
        flag: u8,
        size: u64,
        extension: Extension,
    ) -> Result<TarEntry, LayerProblem> {
        let path = extension.path.unwrap_or_else(|| name_in(header));
        let kind = match flag {
            // Before directories had their own type, a trailing slash marked them.
            0 if path.ends_with(b"/") => TarEntryKind::Directory,
            b'0' | 0 | b'7' => TarEntryKind::File,
            b'1' => TarEntryKind::HardLink,
            b'2' => TarEntryKind::Symlink,
            b'3' | b'4' | b'6' => TarEntryKind::Special,
            b'5' => TarEntryKind::Directory,
            b'S' => return Err(LayerProblem::Sparse),
            other => return Err(LayerProblem::UnknownType(other)),
        };
        // Only files have content, whatever the headers of other entries say.
        let size = if kind == TarEntryKind::File { extension.size.unwrap_or(size) } else { 0 };
        self.set_content(size);
        let link = extension.link.unwrap_or_else(|| until_nul(&header[157..257]).to_vec());
        Ok(TarEntry { path, link, kind, size })
    }

    fn set_content(&mut self, size: u64) {
        self.content = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
    }
}

impl Extension {
    /// Parses records of the form `LENGTH KEY=VALUE\n`, where the length is that of the whole record.
    fn read_pax(&mut self, mut text: &[u8]) -> Result<(), LayerProblem> {
        let invalid = || LayerProblem::Header("a pax record is malformed");
        while !text.is_empty() {
            let blank = text.iter().take(20).position(|byte| *byte == b' ').ok_or_else(invalid)?;
            let length = decimal(&text[..blank]).and_then(|length| usize::try_from(length).ok()).ok_or_else(invalid)?;
            if length <= blank + 1 || length > text.len() || text[length - 1] != b'\n' {
                return Err(invalid());
            }
            let record = &text[blank + 1..length - 1];
            text = &text[length..];
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(invalid)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                // An empty value removes an earlier one.
                b"path" => self.path = (!value.is_empty()).then(|| value.to_vec()),
                b"linkpath" => self.link = (!value.is_empty()).then(|| value.to_vec()),
                b"size" if value.is_empty() => self.size = None,
                b"size" => self.size = Some(decimal(value).ok_or_else(invalid)?),
                _ if key.starts_with(b"GNU.sparse.") => return Err(LayerProblem::Sparse),
                // Times, owners and extended attributes are dropped.
                _ => {}
            }
        }
        Ok(())
    }
}

fn name_in(header: &[u8; BLOCK]) -> Vec<u8> {
    let name = until_nul(&header[..100]);
    // Only ustar has a prefix here; GNU tar uses these bytes differently.
    let prefix = if &header[257..263] == b"ustar\0" { until_nul(&header[345..500]) } else { &[] };
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

fn until_nul(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|byte| *byte == 0).unwrap_or(field.len())]
}

/// Parses a number field: octal digits between blanks and NULs, or binary if the first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    match field.first()? {
        0x80 => {
            let (high, low) = field.split_at(field.len() - 8);
            high[1..].iter().all(|byte| *byte == 0).then_some(())?;
            let value = u64::from_be_bytes(low.try_into().ok()?);
            // In the eight-byte checksum field, the first byte is the marker itself.
            let value = if high.is_empty() { value & !(0x80 << 56) } else { value };
            (value <= i64::MAX as u64).then_some(value)
        }
        0x81.. => None,
        _ => {
            let digits = field.iter().position(|byte| *byte != b' ').map_or(&[][..], |start| &field[start..]);
            let end = digits.iter().position(|byte| matches!(byte, 0 | b' ')).unwrap_or(digits.len());
            let (digits, rest) = digits.split_at(end);
            rest.iter().all(|byte| matches!(byte, 0 | b' ')).then_some(())?;
            digits.iter().try_fold(0_u64, |value, digit| match digit {
                b'0'..=b'7' => Some(value << 3 | u64::from(digit - b'0')),
                _ => None,
            })
        }
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok().filter(|value| *value <= i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary_and_never_negative() {
        for (field, value) in [
            (&b"0000644\0"[..], Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"77777777777 ", Some(0o77777777777)),
            (b"\x80\0\0\0\0\0\0\0\0\0\x01\0", Some(256)),
            (b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"-0000001\0\0\0\0", None),
            (b"0000648\0", None),
            (b"12 34\0\0\0", None),
        ] {
            assert_eq!(number(field), value, "{field:?}");
        }
    }
}
