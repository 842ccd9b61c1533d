//! Icons of packages: served unchanged, or not at all.

use serde::{Deserialize, Serialize};
use xml::reader::{EventReader, ParserConfig, XmlEvent};

/// The maximum size of an icon.
pub const MAX_SIZE: usize = 512 << 10;
/// The maximum nesting of an SVG.
const MAX_DEPTH: usize = 64;
const SVG: &str = "http://www.w3.org/2000/svg";

/// The format of an icon, detected from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IconFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    Webp,
    /// SVG without active or external content.
    Svg,
}

impl IconFormat {
    /// Returns the file extension.
    pub fn extension(self) -> &'static str {
        match self {
            IconFormat::Png => "png",
            IconFormat::Jpeg => "jpg",
            IconFormat::Gif => "gif",
            IconFormat::Webp => "webp",
            IconFormat::Svg => "svg",
        }
    }

    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            IconFormat::Png => "image/png",
            IconFormat::Jpeg => "image/jpeg",
            IconFormat::Gif => "image/gif",
            IconFormat::Webp => "image/webp",
            IconFormat::Svg => "image/svg+xml",
        }
    }
}

/// Why an icon is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IconError {
    /// It has this many bytes.
    #[error("it has {0} bytes, more than {MAX_SIZE}")]
    TooLarge(usize),
    /// It is not base64.
    #[error("it is not base64")]
    NotBase64,
    /// It is neither an SVG nor of another known format.
    #[error("its bytes are not an image that browsers display")]
    Format,
    /// It is not XML.
    #[error("it is not XML: {0}")]
    Xml(String),
    /// It defines entities.
    #[error("it defines entities")]
    Entities,
    /// It is XML, but not an SVG.
    #[error("it is not an SVG")]
    NotSvg,
    /// It is nested too deep.
    #[error("it is nested too deep")]
    TooDeep,
    /// It has an element that does more than draw.
    #[error("it contains a disallowed element {0}")]
    Element(String),
    /// It has an element of another language.
    #[error("it contains a foreign element {0}")]
    ForeignElement(String),
    /// It has a processing instruction.
    #[error("it contains a processing instruction {0}")]
    Instruction(String),
    /// It has an event handler.
    #[error("it contains an event handler {0}")]
    EventHandler(String),
    /// It changes the base of references.
    #[error("it changes the base of references")]
    Base,
    /// It refers to something else than itself.
    #[error("it refers to an external resource")]
    External,
    /// Its styles refer to something else than the image.
    #[error("its styles refer to an external resource")]
    ExternalStyle,
    /// Its styles may hide a reference.
    #[error("its styles contain a hidden reference")]
    HiddenReference,
}

/// Checks whether bytes are an icon that is safe to show.
///
/// # Errors
/// Fails with the reason why not.
pub fn check(bytes: &[u8]) -> Result<IconFormat, IconError> {
    if bytes.len() > MAX_SIZE {
        return Err(IconError::TooLarge(bytes.len()));
    }
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Ok(IconFormat::Png),
        [0xff, 0xd8, 0xff, ..] => Ok(IconFormat::Jpeg),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Ok(IconFormat::Gif),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(IconFormat::Webp),
        _ => check_svg(bytes).map(|()| IconFormat::Svg),
    }
}

/// The allowed elements, which only draw.
const ELEMENTS: &[&str] = &[
    "svg",
    "g",
    "defs",
    "desc",
    "title",
    "symbol",
    "use",
    "path",
    "rect",
    "circle",
    "ellipse",
    "line",
    "polyline",
    "polygon",
    "text",
    "tspan",
    "tref",
    "textPath",
    "image",
    "style",
    "switch",
    "metadata",
    "marker",
    "mask",
    "pattern",
    "clipPath",
    "linearGradient",
    "radialGradient",
    "stop",
    "filter",
    "feBlend",
    "feColorMatrix",
    "feComponentTransfer",
    "feComposite",
    "feConvolveMatrix",
    "feDiffuseLighting",
    "feDisplacementMap",
    "feDistantLight",
    "feDropShadow",
    "feFlood",
    "feFuncA",
    "feFuncB",
    "feFuncG",
    "feFuncR",
    "feGaussianBlur",
    "feImage",
    "feMerge",
    "feMergeNode",
    "feMorphology",
    "feOffset",
    "fePointLight",
    "feSpecularLighting",
    "feSpotLight",
    "feTile",
    "feTurbulence",
    "font",
    "font-face",
    "font-face-name",
    "font-face-src",
    "missing-glyph",
    "glyph",
    "hkern",
    "vkern",
    "color-profile",
    "view",
];

fn check_svg(bytes: &[u8]) -> Result<(), IconError> {
    let text = std::str::from_utf8(bytes).map_err(|_| IconError::Format)?;
    if !text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        return Err(IconError::Format);
    }
    check_doctype(text)?;
    let config = ParserConfig::new().max_entity_expansion_depth(0).max_entity_expansion_length(0);
    let reader = EventReader::new_with_config(bytes, config);
    let (mut depth, mut root, mut style, mut rules) = (0, false, 0usize, String::new());
    for event in reader {
        match event.map_err(|error| IconError::Xml(error.msg().to_string()))? {
            XmlEvent::StartElement { name, attributes, .. } => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(IconError::TooDeep);
                }
                let namespace = name.namespace.as_deref();
                let ours = namespace == Some(SVG);
                if depth == 1 {
                    if !ours || name.local_name != "svg" {
                        return Err(IconError::NotSvg);
                    }
                    root = true;
                }
                if ours && !ELEMENTS.contains(&name.local_name.as_str()) {
                    return Err(IconError::Element(crate::text::summary(&name.local_name, 40)));
                }
                if namespace.is_none() || namespace.is_some_and(|it| it.contains("xhtml")) {
                    return Err(IconError::ForeignElement(crate::text::summary(&name.local_name, 40)));
                }
                if ours && name.local_name == "style" {
                    style = depth;
                }
                for attribute in &attributes {
                    check_attribute(&attribute.name.local_name, &attribute.value)?;
                }
            }
            XmlEvent::EndElement { .. } => {
                if style == depth {
                    style = 0;
                    check_css(&rules)?;
                    rules.clear();
                }
                depth = depth.saturating_sub(1);
            }
            XmlEvent::Characters(text) | XmlEvent::CData(text) if style > 0 => rules.push_str(&text),
            XmlEvent::ProcessingInstruction { name, .. } => {
                return Err(IconError::Instruction(crate::text::summary(&name, 40)));
            }
            _ => {}
        }
    }
    if root { Ok(()) } else { Err(IconError::NotSvg) }
}

/// A document type may name the standard one; it may define nothing.
fn check_doctype(text: &str) -> Result<(), IconError> {
    let mut rest = text;
    while let Some(at) = rest.find("<!") {
        rest = &rest[at + 2..];
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.find("-->").map_or("", |end| &comment[end..]);
        } else if rest.starts_with("[CDATA[") {
            rest = rest.find("]]>").map_or("", |end| &rest[end..]);
        } else {
            let end = rest.find(['[', '>']).unwrap_or(rest.len());
            if !rest.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("DOCTYPE")) || rest[end..].starts_with('[') {
                return Err(IconError::Entities);
            }
        }
    }
    Ok(())
}

fn check_attribute(name: &str, value: &str) -> Result<(), IconError> {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("on") {
        return Err(IconError::EventHandler(crate::text::summary(name, 40)));
    }
    if lower == "href" || lower == "src" {
        check_reference(value)?;
    }
    if lower == "base" {
        return Err(IconError::Base);
    }
    // Any drawing attribute may contain a reference.
    check_css(value)
}

fn check_reference(value: &str) -> Result<(), IconError> {
    let value = value.trim();
    let raster = |kind: &str| {
        let head = value.get(..5 + kind.len()).unwrap_or_default();
        head.eq_ignore_ascii_case(&format!("data:{kind}")) && value[head.len()..].starts_with([';', ','])
    };
    let local = value.is_empty() || value.starts_with('#');
    if local || ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"].iter().any(|kind| raster(kind)) {
        return Ok(());
    }
    Err(IconError::External)
}

/// Styles may refer to parts of the image only.
fn check_css(rules: &str) -> Result<(), IconError> {
    // Escapes could spell a disallowed word.
    let lower = rules.to_ascii_lowercase();
    if lower.contains("@import") || lower.contains("expression(") || lower.contains("javascript:") {
        return Err(IconError::ExternalStyle);
    }
    if lower.contains('\\')
        && (lower.contains("url") || lower.contains("import") || lower.contains("\\75") || lower.contains("\\55"))
    {
        return Err(IconError::HiddenReference);
    }
    let mut rest = rules;
    while let Some(at) = rest.to_ascii_lowercase().find("url(") {
        rest = &rest[at + 4..];
        let end = rest.find(')').unwrap_or(rest.len());
        let target = rest[..end].trim().trim_matches(['"', '\'']);
        check_reference(target)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const XLINK: &str = "http://www.w3.org/1999/xlink";

    fn svg(inner: &str) -> Result<IconFormat, IconError> {
        check(format!("<svg xmlns=\"{SVG}\" xmlns:xlink=\"{XLINK}\">{inner}</svg>").as_bytes())
    }

    /// C-6: active content is rejected, whatever it is called.
    #[test]
    fn pictures_are_accepted_and_active_content_is_rejected() {
        assert_eq!(check(b"\x89PNG\r\n\x1a\nrest"), Ok(IconFormat::Png));
        assert_eq!(check(b"GIF89a"), Ok(IconFormat::Gif));
        assert_eq!(svg("<path d=\"M0 0\" fill=\"url(#a)\"/><use xlink:href=\"#a\"/>"), Ok(IconFormat::Svg));
        assert_eq!(svg("<style>.a{fill:url(#b)}</style><text>é</text>"), Ok(IconFormat::Svg));
        assert_eq!(svg("<image href=\"data:image/png;base64,AA==\"/>"), Ok(IconFormat::Svg));
        assert_eq!(
            check(format!("<?xml version=\"1.0\"?><!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" \"http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd\"><svg xmlns=\"{SVG}\"/>").as_bytes()),
            Ok(IconFormat::Svg)
        );
        for hostile in [
            "<script>1</script>",
            "<g onload=\"x()\"/>",
            "<foreignObject/>",
            "<a href=\"#x\"/>",
            "<animate attributeName=\"href\"/>",
            "<set attributeName=\"onload\"/>",
            "<use href=\"https://other.test/x.svg#a\"/>",
            "<use xlink:href=\"//other.test/x\"/>",
            "<image href=\"data:image/svg+xml;base64,AA==\"/>",
            "<image href=\"data:text/html,x\"/>",
            "<style>@import 'https://other.test/'</style>",
            "<style>a{fill:URL( 'https://other.test/' )}</style>",
            "<style>a{fill:\\75rl(https://other.test/)}</style>",
            "<rect fill=\"url(//other.test/x)\"/>",
            "<rect style=\"background:url(https://other.test/)\"/>",
            "<x xmlns=\"http://www.w3.org/1999/xhtml\"/>",
            "<iframe xmlns=\"\"/>",
            "<rect xml:base=\"https://other.test/\"/>",
            "&bomb;",
            "<g>",
        ] {
            assert!(svg(hostile).is_err(), "{hostile}");
        }
        let bomb = format!("<!DOCTYPE svg [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><svg xmlns=\"{SVG}\">&b;</svg>");
        for hostile in
            [bomb.as_str(), "<html><script>1</script></html>", "", "plain", "<?xml-stylesheet href=\"x\"?><svg/>"]
        {
            assert!(check(hostile.as_bytes()).is_err(), "{hostile}");
        }
        assert!(check(&vec![0; MAX_SIZE + 1]).is_err());
        let deep = "<g>".repeat(500) + &"</g>".repeat(500);
        assert!(svg(&deep).is_err());
    }
}
