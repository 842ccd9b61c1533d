use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn html(text: &str) -> String {
    render(text, &LinkBase::default()).html.into_string()
}

/// All elements that the writer can emit.
fn ours() -> HashSet<&'static str> {
    "p h3 h4 h5 h6 ul ol li pre code blockquote em strong del a hr br table thead tbody tr th td img b i kbd sub sup"
        .split(' ')
        .collect()
}

#[test]
fn markdown_is_rendered() {
    assert_eq!(html("# One\n\ntwo *three*"), "<h3 id=\"d-1\">One</h3><p>two <em>three</em></p>");
    assert_eq!(
        html("see https://a.test/x."),
        "<p>see <a href=\"https://a.test/x\" rel=\"noopener noreferrer nofollow\">https://a.test/x</a>.</p>"
    );
    assert_eq!(html("run `x <plan>` or <plan>"), "<p>run <code>x &lt;plan&gt;</code> or &lt;plan&gt;</p>");
    assert_eq!(
        html("![logo](https://a.test/l.png)"),
        "<p><a href=\"https://a.test/l.png\" rel=\"noopener noreferrer nofollow\">picture: logo (a.test)</a></p>"
    );
    assert_eq!(html("[x](javascript:alert(1))"), "<p>x</p>");
    assert_eq!(html("a<br/>b<script>c</script>d"), "<p>a<br>bd</p>");
    assert_eq!(html("<div onclick=\"x\">a</div>"), "a");
    assert!(html(&"> ".repeat(500)).matches("<blockquote>").count() <= 32);
    assert!(html(&"x".repeat(LONGEST + 1)).starts_with("<pre>xxx"));
}

/// No input is slow.
#[test]
fn hostile_sizes_are_rendered_quickly() {
    for piece in ["[", "![", "*a ", "<b>", "<", "`", "> ", "|a|\n|-|\n", "https://a.test ", "&amp;", "\\", "- "] {
        let text = piece.repeat(LONGEST / 8 / piece.len());
        let start = std::time::Instant::now();
        let _ = html(&text);
        assert!(start.elapsed().as_secs() < 2, "{piece:?}: {:?}", start.elapsed());
    }
}

proptest! {
    /// C-7: an independent sanitizer finds no disallowed or unclosed element.
    #[test]
    fn only_elements_of_the_allowlist_are_emitted(text in "([<>a-z/!=\"'&#*_`\\[\\]()|:. \n-]|<b>|</b>|<script>|</p>|<td>|<svg onload=x>|javascript:|<!--){0,60}") {
        let rendered = html(&text);
        let list = ammonia::Builder::default()
            .tags(ours())
            .generic_attributes(["id"].into())
            .tag_attributes([("a", ["href"].into()), ("ol", ["start"].into()), ("img", ["src", "alt"].into())].into())
            .link_rel(Some("noopener noreferrer nofollow"))
            .url_schemes(["http", "https", "mailto", "data"].into())
            .clean(&rendered)
            .to_string();
        // Every element that a parser sees is allowed: sanitizing removes no element and no attribute.
        let count = |html: &str, what: &str| html.matches(what).count();
        for name in ours() {
            prop_assert!(count(&list, &format!("<{name}>")) + count(&list, &format!("<{name} ")) >= usize::from(count(&rendered, &format!("<{name}>")) > 0 && !matches!(name, "tr" | "td" | "th" | "thead" | "tbody" | "li")), "{} in {rendered} and {list}", name);
        }
        let lower = rendered.to_lowercase();
        prop_assert!(!lower.contains("<script") && !lower.contains("<svg") && !lower.contains("<!--"));
        prop_assert!(!lower.contains("href=\"javascript"));
        let mut open: Vec<String> = Vec::new();
        for part in rendered.split('<').skip(1) {
            let name: String = part.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
            prop_assert!(ours().contains(name.as_str()), "{} in {rendered}", name);
            if part.starts_with('/') {
                prop_assert_eq!(open.pop(), Some(name));
            } else if !matches!(name.as_str(), "br" | "hr" | "img") {
                open.push(name);
            }
        }
        prop_assert!(open.is_empty());
    }
}
