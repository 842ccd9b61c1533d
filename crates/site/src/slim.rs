//! Pages as short as HTML allows: an export repeats their marks thousands of times.
//!
//! It reads what our own writers made: every `<` starts a tag, and every value of an attribute stands in double quotes.

/// Leaves out end tags and quotes that mean nothing to a parser.
pub fn slim(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        let end = start + tag_length(&rest[start..]);
        let (tag, behind) = (&rest[start..end], &rest[end..]);
        match tag.strip_prefix("</") {
            Some(name) if is_implied(name.trim_end_matches('>'), behind) => {}
            Some(_) => out.push_str(tag),
            None => opening(tag, &mut out),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Returns how long the tag at the start is; a `>` in quotes does not end it.
fn tag_length(text: &str) -> usize {
    let mut quoted = false;
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'>' if !quoted => return place + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns whether a parser ends the element by itself because of what comes next.
fn is_implied(name: &str, behind: &str) -> bool {
    let next: &[&str] = match name {
        "td" | "th" => &["<td", "<th", "</tr>"],
        "tr" => &["<tr", "</tbody>", "</thead>", "</table>"],
        "tbody" => &["</table>"],
        "thead" => &["<tbody"],
        "li" => &["<li", "</ul>", "</ol>"],
        "option" => &["<option", "</select>", "</datalist>"],
        "dt" | "dd" => &["<dt", "<dd", "</dl>"],
        "head" => &["<body"],
        "body" => &["</html>"],
        "html" => return behind.is_empty(),
        _ => return false,
    };
    next.iter().any(|start| behind.starts_with(start))
}

fn opening(tag: &str, out: &mut String) {
    let mut rest = tag;
    while let Some(at) = rest.find("=\"") {
        let (before, value) = (&rest[..at], &rest[at + 2..]);
        let Some(length) = value.find('"') else { break };
        let (value, behind) = (&value[..length], &value[length + 1..]);
        rest = behind;
        // An element of no class is one without the attribute.
        if let Some(before) = before.strip_suffix(" class").filter(|_| value.is_empty()) {
            out.push_str(before);
            continue;
        }
        out.push_str(before);
        out.push('=');
        // Before "/>" the slash would become part of the value.
        if is_plain(value) && !behind.starts_with('/') {
            out.push_str(value);
        } else {
            out.push('"');
            out.push_str(value);
            out.push('"');
        }
    }
    out.push_str(rest);
}

/// Returns whether a value needs no quotes.
fn is_plain(value: &str) -> bool {
    let plain = |byte: u8| !byte.is_ascii_whitespace() && !b"\"'=<>`".contains(&byte);
    !value.is_empty() && value.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Writes what a parser makes of a page; a class without a name is none.
    fn parsed(html: &str) -> String {
        let tags = "a b code dd details div dl dt h2 li main nav ol option p path pre section select small span summary svg table \
            tbody td th thead tr ul";
        let attributes = ["class", "id", "href", "d", "scope", "data-n", "aria-label", "hidden", "value"];
        ammonia::Builder::new()
            .tags(tags.split_whitespace().collect())
            .generic_attributes(attributes.into_iter().collect())
            .tag_attributes(std::collections::HashMap::new())
            .url_relative(ammonia::UrlRelative::PassThrough)
            .clean_content_tags(HashSet::new())
            .link_rel(None)
            .clean(html)
            .to_string()
            .replace(" class=\"\"", "")
    }

    #[test]
    fn slimming_does_not_change_the_parsed_page() {
        let pages = [
            "<ul class=\"a b\"><li>one</li><li id=\"x\">two <b>three</b></li></ul> <ol><li>1</li> text</ol>",
            "<table><thead><tr><th scope=\"col\">A</th><th>B</th></tr></thead><tbody><tr><td data-n=\"1\">1</td><td></td></tr><tr><th>x</th></tr></tbody></table>",
            "<dl><div><dt>a</dt><dd>b</dd></div><dt>c</dt><dd>d</dd></dl>",
            "<svg><path d=\"M0\"/><path class=\"r\" d=\"M0 1\"></path></svg>",
            "<a href=\"../x.html?a=b&amp;c=d\" aria-label=\"a &gt; &quot;b&quot;\">x</a><a href=\"\" hidden>y</a><a href=\"a/\">z</a>",
            "<select><option value=\"1\">a</option><option>b</option></select>",
            "<ul><li><ul><li>deep</li></ul></li><li><p>p</p></li></ul>",
            "<p class=\"it's\">a</p><p class=\"a`b\">c</p><p class=\"ü\">d</p>",
        ];
        for page in pages {
            let short = slim(page);
            assert_eq!(parsed(&short), parsed(page), "{short}");
            assert!(short.len() < page.len(), "{short}");
            assert_eq!(slim(&short), short, "a second time changes nothing");
        }
        assert_eq!(slim("<ul><li class=\"a\">x</li></ul>"), "<ul><li class=a>x</ul>");
        assert_eq!(slim("no tags <"), "no tags <");
        assert_eq!(slim("<b class=\"\">a</b><p class=\"\" id=\"x\">b</p>"), "<b>a</b><p id=x>b</p>");
        let whole = "<html><head><title>a</title></head><body><main><p>b</p></main></body></html>";
        assert_eq!(slim(whole), "<html><head><title>a</title><body><main><p>b</p></main>");
    }

    proptest::proptest! {
        #[test]
        fn slimming_does_not_change_text(words in proptest::collection::vec("\\PC{0,12}", 1..6)) {
            let page = maud::html! { ul { @for word in &words { li class=(word) { a href=(word) { (word) } } } } }.into_string();
            assert_eq!(parsed(&slim(&page)), parsed(&page));
        }
    }
}
