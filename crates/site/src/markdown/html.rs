//! Raw HTML in Markdown: which elements are kept, and which are removed.

/// Elements that are kept, without attributes.
const ALLOWED: &[&str] = &[
    "b", "i", "em", "strong", "code", "kbd", "sub", "sup", "pre", "p", "ul", "ol", "li", "table", "thead", "tbody",
    "tr", "th", "td",
];
/// Elements that are removed with their content.
const REMOVED: &[&str] = &[
    "script",
    "style",
    "iframe",
    "object",
    "svg",
    "math",
    "template",
    "noscript",
    "textarea",
    "title",
    "xmp",
    "plaintext",
    "noembed",
    "noframes",
    "select",
];
/// Known elements whose tags are removed.
const KNOWN: &[&str] = &[
    "a",
    "abbr",
    "address",
    "article",
    "aside",
    "audio",
    "base",
    "big",
    "blockquote",
    "body",
    "button",
    "caption",
    "center",
    "cite",
    "col",
    "colgroup",
    "dd",
    "del",
    "details",
    "dfn",
    "dir",
    "div",
    "dl",
    "dt",
    "embed",
    "fieldset",
    "figcaption",
    "figure",
    "font",
    "footer",
    "form",
    "frame",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "html",
    "img",
    "input",
    "ins",
    "label",
    "legend",
    "link",
    "main",
    "map",
    "mark",
    "meta",
    "nav",
    "option",
    "picture",
    "q",
    "s",
    "samp",
    "section",
    "small",
    "source",
    "span",
    "strike",
    "summary",
    "tfoot",
    "time",
    "tt",
    "u",
    "var",
    "video",
    "wbr",
];

/// A piece of raw HTML.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HtmlPiece<'a> {
    /// Plain text.
    Text(&'a str),
    /// An element starts.
    Open(&'static str),
    /// An element ends.
    Close(&'static str),
}

/// The element that is being removed with its content.
#[derive(Debug, Default)]
pub(super) struct Skip {
    element: Option<&'static str>,
    /// Whether a comment is being removed.
    comment: bool,
}

impl Skip {
    pub(super) fn is_on(&self) -> bool {
        self.element.is_some() || self.comment
    }
}

/// Splits raw HTML into pieces.
pub(super) fn pieces<'a>(raw: &'a str, skip: &mut Skip) -> Vec<HtmlPiece<'a>> {
    let mut out = Vec::new();
    let mut rest = raw;
    while !rest.is_empty() {
        if skip.comment {
            match rest.find("-->") {
                Some(end) => {
                    skip.comment = false;
                    rest = &rest[end + 3..];
                    continue;
                }
                None => return out,
            }
        }
        if let Some(element) = skip.element {
            match find_end(rest, element) {
                Some(end) => {
                    skip.element = None;
                    rest = &rest[end..];
                    continue;
                }
                None => return out,
            }
        }
        let Some(at) = rest.find('<') else {
            out.push(HtmlPiece::Text(rest));
            return out;
        };
        if at > 0 {
            out.push(HtmlPiece::Text(&rest[..at]));
            rest = &rest[at..];
        }
        if rest.starts_with("<!--") {
            skip.comment = true;
            rest = &rest[4..];
            continue;
        }
        let Some((name, closing, length)) = tag(rest) else {
            out.push(HtmlPiece::Text(&rest[..1]));
            rest = &rest[1..];
            continue;
        };
        let whole = &rest[..length];
        rest = &rest[length..];
        let is = |list: &[&'static str]| list.iter().copied().find(|known| known.eq_ignore_ascii_case(name));
        if name.is_empty() {
            // A declaration or a processing instruction.
        } else if name.eq_ignore_ascii_case("br") {
            out.push(HtmlPiece::Open("br"));
        } else if name.eq_ignore_ascii_case("hr") {
            out.push(HtmlPiece::Open("hr"));
        } else if let Some(name) = is(REMOVED) {
            if !closing && !whole.ends_with("/>") {
                skip.element = Some(name);
            }
        } else if let Some(name) = is(ALLOWED) {
            if !(whole.ends_with("/>")) {
                out.push(if closing { HtmlPiece::Close(name) } else { HtmlPiece::Open(name) });
            }
        } else if is(KNOWN).is_none() {
            out.push(HtmlPiece::Text(whole));
        }
    }
    out
}

/// Parses a tag: its name, whether it closes an element, and its length.
fn tag(text: &str) -> Option<(&str, bool, usize)> {
    let inner = text.strip_prefix('<')?;
    if inner.starts_with(['!', '?']) {
        let end = text.find('>').map_or(text.len(), |end| end + 1);
        return Some(("", false, end));
    }
    let (closing, inner) = inner.strip_prefix('/').map_or((false, inner), |inner| (true, inner));
    let length = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == ':')).unwrap_or(inner.len());
    let name = &inner[..length];
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    // A quoted value may contain `>`.
    let mut quote = None;
    for (at, c) in text.char_indices().skip(1) {
        match (quote, c) {
            (None, '>') => return Some((name, closing, at + 1)),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    Some((name, closing, text.len()))
}

/// Returns the end of the closing tag of an element.
fn find_end(text: &str, element: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find("</") {
        let start = from + at + 2;
        if text[start..].get(..element.len()).is_some_and(|name| name.eq_ignore_ascii_case(element)) {
            return Some(text[start..].find('>').map_or(text.len(), |end| start + end + 1));
        }
        from = start;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_elements_are_kept() {
        let of = |raw| pieces(raw, &mut Skip::default());
        assert_eq!(of("<br/>"), [HtmlPiece::Open("br")]);
        assert_eq!(of("<B onclick=\"x>y\">"), [HtmlPiece::Open("b")]);
        assert_eq!(of("<plan>"), [HtmlPiece::Text("<plan>")]);
        assert_eq!(of("<div class=x>a</div>"), [HtmlPiece::Text("a")]);
        assert_eq!(of("<script>alert(1)</script>b"), [HtmlPiece::Text("b")]);
        assert_eq!(of("<!-- x --><?php ?><!DOCTYPE x>"), []);
        assert_eq!(of("a < b"), [HtmlPiece::Text("a "), HtmlPiece::Text("<"), HtmlPiece::Text(" b")]);
    }
}
