//! Detects the media type of icons.

/// Returns the media type of `bytes`, if it can be detected from their beginning.
///
/// Images are distinguished; of other files only the kinds that are most often mistaken for one.
pub fn detect(bytes: &[u8]) -> Option<&'static str> {
    MAGIC.iter().find(|(test, _)| test(bytes)).map(|(_, name)| *name)
}

type Test = fn(&[u8]) -> bool;

/// The first match counts.
const MAGIC: &[(Test, &str)] = &[
    (|b| b.starts_with(b"\xff\xd8\xff"), "image/jpeg"),
    (|b| b.starts_with(b"\0\0\0\x0cjP  \r\n\x87\n\0"), "image/jp2"),
    (|b| b.starts_with(b"\x89PNG"), "image/png"),
    (|b| b.starts_with(b"GIF"), "image/gif"),
    (|b| b.get(8..12) == Some(b"WEBP"), "image/webp"),
    (|b| is_tiff(b) && b.get(8..10) == Some(b"CR"), "image/x-canon-cr2"),
    (|b| is_tiff(b) && b.len() > 9, "image/tiff"),
    (|b| b.starts_with(b"BM"), "image/bmp"),
    (|b| b.starts_with(b"II\xbc"), "image/vnd.ms-photo"),
    (|b| b.starts_with(b"8BPS"), "image/vnd.adobe.photoshop"),
    (|b| b.starts_with(b"\0\0\x01\0"), "image/vnd.microsoft.icon"),
    (is_heif, "image/heif"),
    (|b| b.starts_with(b"AC10"), "image/vnd.dwg"),
    (is_svg, "image/svg+xml"),
    (
        |b| b.starts_with(b"PK\x03\x04") || b.starts_with(b"PK\x05\x06") || b.starts_with(b"PK\x07\x08"),
        "application/zip",
    ),
    (|b| b.starts_with(b"\x1f\x8b\x08"), "application/gzip"),
    (|b| b.starts_with(b"BZh"), "application/x-bzip2"),
    (|b| b.starts_with(b"\xfd7zXZ\0"), "application/x-xz"),
    (|b| b.starts_with(b"\x28\xb5\x2f\xfd"), "application/zstd"),
    (|b| b.get(257..262) == Some(b"ustar"), "application/x-tar"),
    (|b| b.starts_with(b"%PDF"), "application/pdf"),
    (|b| b.starts_with(b"\x7fELF"), "application/x-executable"),
    (|b| b.starts_with(b"SQLite format 3\0"), "application/vnd.sqlite3"),
    (|b| b.get(4..8) == Some(b"ftyp"), "video/mp4"),
    (|b| b.starts_with(b"wOF2"), "application/font-woff"),
];

fn is_tiff(bytes: &[u8]) -> bool {
    bytes.starts_with(b"II*\0") || bytes.starts_with(b"MM\0*")
}

fn is_heif(bytes: &[u8]) -> bool {
    let brand = bytes.get(8..12).unwrap_or_default();
    bytes.get(4..8) == Some(b"ftyp")
        && [b"heic", b"heix", b"hevc", b"mif1", b"msf1"].iter().any(|known| brand == *known)
}

/// Returns whether `bytes` are an SVG: nothing but comments, an XML declaration and a document type may precede its
/// root element, and nothing may follow it.
fn is_svg(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut rest = text.trim_start_matches('\u{feff}').trim();
    loop {
        let end = if rest.starts_with("<!--") {
            "-->"
        } else if starts_with_name(rest, "<?xml") {
            "?>"
        } else if starts_with_name(rest, "<!doctype") {
            // A document type can declare entities in brackets.
            match (rest.find('['), rest.find('>')) {
                (Some(bracket), Some(close)) if bracket < close => "]>",
                _ => ">",
            }
        } else {
            break;
        };
        match rest.find(end) {
            Some(at) => rest = rest[at + end.len()..].trim_start(),
            None => return false,
        }
    }
    while rest.ends_with("-->") {
        match rest.rfind("<!--") {
            Some(at) => rest = rest[..at].trim_end(),
            None => return false,
        }
    }
    starts_with_name(rest, "<svg") && (rest.ends_with("</svg>") || (rest.ends_with("/>") && !rest[4..].contains('<')))
}

fn starts_with_name(text: &str, name: &str) -> bool {
    text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        && text[name.len()..].starts_with(|c: char| c.is_whitespace() || c == '>' || c == '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_svg_may_have_comments() {
        let svg =
            "<?xml version=\"1.0\"?>\n<!-- * a star -->\n<!DOCTYPE svg>\n<svg a='1'><text>*</text></svg>\n<!-- end -->";
        assert_eq!(detect(svg.as_bytes()), Some("image/svg+xml"));
        assert_eq!(detect(b"<svg/>"), Some("image/svg+xml"));
        assert_eq!(detect(b"<svgx></svg>"), None);
        assert_eq!(detect(b"<html><svg></svg></html>"), None);
        assert_eq!(detect(b"<!-- <svg></svg>"), None);
    }

    #[test]
    fn other_files_are_no_images() {
        assert_eq!(detect(b"PK\x03\x04rest"), Some("application/zip"));
        assert_eq!(detect(b"hello"), None);
        assert_eq!(detect(b""), None);
    }
}
