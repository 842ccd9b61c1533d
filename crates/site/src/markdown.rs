//! Renders descriptions of operators from Markdown to HTML.
//!
//! The writer is the allowlist: it can emit only the elements and attributes spelled out here. All text reaches a page
//! through [`push_escaped`].

mod html;
mod link;

use fbc::spelling::html::entity;
use maud::{Markup, PreEscaped};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::text::visible;
pub use link::{LinkBase, safe as safe_link};

/// A longer text is shown as plain text.
pub const LONGEST: usize = 256 << 10;
/// The maximum number of links in a text.
const LINKS: usize = 2_000;
/// Deeper nesting is flattened.
const MAX_DEPTH: usize = 32;
/// Headings of the text are below those of the page.
const HEADINGS: [&str; 4] = ["h3", "h4", "h5", "h6"];
/// The maximum size of an embedded image.
const PICTURE: usize = 256 << 10;

/// A rendered description.
pub struct RenderedMarkdown {
    /// Its HTML.
    pub html: Markup,
    /// Its headings: level, anchor, text.
    pub headings: Vec<(u8, String, String)>,
}

/// Renders a description as HTML; `base` resolves its relative links.
pub fn render(text: &str, base: &LinkBase) -> RenderedMarkdown {
    let mut writer = Writer::new(base);
    if text.len() > LONGEST {
        writer.out.push_str("<pre>");
        push_escaped(&mut writer.out, text, true);
        writer.out.push_str("</pre>");
    } else {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        for event in Parser::new_ext(text, options) {
            writer.event(event);
        }
    }
    writer.finish()
}

/// Escapes characters so that they are text only.
fn push_escaped(out: &mut String, text: &str, lines: bool) {
    for c in text.chars() {
        match c {
            '&' | '<' | '>' | '"' => out.push_str(entity(c).unwrap_or_default()),
            '\n' if lines => out.push('\n'),
            '\t' if lines => out.push('\t'),
            '\r' => {}
            // Joins letters and emoji of running text.
            '\u{200c}' | '\u{200d}' => out.push(c),
            c => out.push(visible(c)),
        }
    }
}

struct Writer<'a> {
    base: &'a LinkBase,
    out: String,
    /// The open elements, innermost last.
    open: Vec<&'static str>,
    /// The number of open tags without an element.
    flat: usize,
    headings: Vec<(u8, String, String)>,
    /// The text of the current heading, and its level.
    heading: Option<(String, usize)>,
    /// The level of the previous heading.
    level: usize,
    /// The target of an image, while its alternative text is read.
    picture: Option<(String, String)>,
    links: usize,
    in_link: bool,
    in_head: bool,
    skip: html::Skip,
}

impl<'a> Writer<'a> {
    fn new(base: &'a LinkBase) -> Writer<'a> {
        Writer {
            base,
            out: String::new(),
            open: Vec::new(),
            flat: 0,
            headings: Vec::new(),
            heading: None,
            level: 0,
            picture: None,
            links: 0,
            in_link: false,
            in_head: false,
            skip: html::Skip::default(),
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Html(raw) | Event::InlineHtml(raw) => self.raw(&raw),
            _ if self.skip.is_on() => {}
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                self.words(&text);
                self.out.push_str("</code>");
            }
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            _ => {}
        }
    }

    fn words(&mut self, text: &str) {
        if let Some(heading) = &mut self.heading {
            heading.0.push_str(text);
        }
        match &mut self.picture {
            Some((_, words)) => words.push_str(text),
            None => push_escaped(&mut self.out, text, true),
        }
    }

    fn text(&mut self, text: &str) {
        if self.in_link || self.picture.is_some() || self.open.contains(&"pre") || self.open.contains(&"code") {
            return self.words(text);
        }
        let mut rest = text;
        while let Some((before, url, after)) = link::bare(rest) {
            self.words(before);
            match link::safe(url, self.base) {
                Some(target) if self.links < LINKS => {
                    self.links += 1;
                    self.open_link(&target);
                    self.words(url);
                    self.out.push_str("</a>");
                }
                _ => self.words(url),
            }
            rest = after;
        }
        self.words(rest);
    }

    fn open_link(&mut self, target: &str) {
        self.out.push_str("<a href=\"");
        push_escaped(&mut self.out, target, false);
        self.out.push_str("\" rel=\"noopener noreferrer nofollow\">");
    }

    fn element(&mut self, name: &'static str) {
        if self.open.len() >= MAX_DEPTH {
            self.flat += 1;
            return;
        }
        self.out.push('<');
        self.out.push_str(name);
        self.out.push('>');
        self.open.push(name);
    }

    fn close(&mut self, name: &'static str) {
        if self.flat > 0 {
            self.flat -= 1;
            return;
        }
        let Some(place) = self.open.iter().rposition(|open| *open == name) else { return };
        while self.open.len() > place {
            if let Some(open) = self.open.pop().filter(|open| !open.is_empty()) {
                self.out.push_str("</");
                self.out.push_str(open);
                self.out.push('>');
            }
        }
        self.in_link = self.open.contains(&"a");
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.element("p"),
            Tag::Heading { level, .. } => {
                // No level is skipped, so that screen readers can follow the outline.
                self.level = (level as usize).min(self.level + 1).min(HEADINGS.len());
                self.heading = Some((String::new(), self.level));
                let name = HEADINGS[self.level - 1];
                let id = format!("d-{}", self.headings.len() + 1);
                if self.open.len() >= MAX_DEPTH {
                    self.flat += 1;
                    return;
                }
                self.out.push_str(&format!("<{name} id=\"{id}\">"));
                self.open.push(name);
            }
            Tag::BlockQuote(_) => self.element("blockquote"),
            Tag::CodeBlock(_) => {
                self.element("pre");
                self.element("code");
            }
            Tag::List(Some(start)) if start != 1 && self.open.len() < MAX_DEPTH => {
                self.out.push_str(&format!("<ol start=\"{start}\">"));
                self.open.push("ol");
            }
            Tag::List(Some(_)) => self.element("ol"),
            Tag::List(None) => self.element("ul"),
            Tag::Item => self.element("li"),
            Tag::Emphasis => self.element("em"),
            Tag::Strong => self.element("strong"),
            Tag::Strikethrough => self.element("del"),
            Tag::Table(_) => self.element("table"),
            Tag::TableHead => {
                self.element("thead");
                self.element("tr");
                self.in_head = true;
            }
            Tag::TableRow => self.element("tr"),
            Tag::TableCell => self.element(if self.in_head { "th" } else { "td" }),
            Tag::Link { dest_url, .. } => match link::safe(&dest_url, self.base) {
                Some(target) if self.links < LINKS && !self.in_link && self.open.len() < MAX_DEPTH => {
                    self.links += 1;
                    self.in_link = true;
                    self.open_link(&target);
                    self.open.push("a");
                }
                _ => self.flat_link(),
            },
            Tag::Image { dest_url, .. } => self.picture = Some((dest_url.to_string(), String::new())),
            _ => {}
        }
    }

    /// A link with a disallowed target becomes plain text.
    fn flat_link(&mut self) {
        self.open.push("");
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.close("p"),
            TagEnd::Heading(level) => {
                let (words, depth) = self.heading.take().unwrap_or_default();
                let id = format!("d-{}", self.headings.len() + 1);
                self.headings.push((level as u8, id, words));
                self.close(HEADINGS[depth.max(1) - 1]);
            }
            TagEnd::BlockQuote(_) => self.close("blockquote"),
            TagEnd::CodeBlock => {
                self.close("code");
                self.close("pre");
            }
            TagEnd::List(true) => self.close("ol"),
            TagEnd::List(false) => self.close("ul"),
            TagEnd::Item => self.close("li"),
            TagEnd::Emphasis => self.close("em"),
            TagEnd::Strong => self.close("strong"),
            TagEnd::Strikethrough => self.close("del"),
            TagEnd::Table => self.close("table"),
            TagEnd::TableHead => {
                self.in_head = false;
                self.close("tr");
                self.close("thead");
            }
            TagEnd::TableRow => self.close("tr"),
            TagEnd::TableCell => {
                let name = if self.in_head { "th" } else { "td" };
                self.close(name);
            }
            TagEnd::Link => match self.open.iter().rposition(|open| matches!(*open, "a" | "")) {
                Some(place) if self.open[place].is_empty() => {
                    self.open.remove(place);
                }
                Some(_) => self.close("a"),
                None => {}
            },
            TagEnd::Image => self.end_picture(),
            _ => {}
        }
    }

    /// External images become links; embedded ones are shown.
    fn end_picture(&mut self) {
        let Some((source, words)) = self.picture.take() else { return };
        let words = if words.trim().is_empty() { "picture".to_owned() } else { words };
        if link::is_picture(&source) && source.len() <= PICTURE {
            self.out.push_str("<img src=\"");
            push_escaped(&mut self.out, &source, false);
            self.out.push_str("\" alt=\"");
            push_escaped(&mut self.out, &words, false);
            self.out.push_str("\">");
            return;
        }
        let target = link::safe(&source, self.base);
        let host = target.as_deref().map(link::host).unwrap_or_default();
        let label = if host.is_empty() { format!("picture: {words}") } else { format!("picture: {words} ({host})") };
        match target {
            Some(target) if self.links < LINKS && !self.in_link => {
                self.links += 1;
                self.open_link(&target);
                push_escaped(&mut self.out, &label, false);
                self.out.push_str("</a>");
            }
            _ => push_escaped(&mut self.out, &label, false),
        }
    }

    /// Handles raw HTML: formatting elements are kept without attributes.
    fn raw(&mut self, raw: &str) {
        for piece in html::pieces(raw, &mut self.skip) {
            match piece {
                html::HtmlPiece::Text(text) => self.words(text),
                html::HtmlPiece::Open(name) if matches!(name, "br" | "hr") => {
                    self.out.push('<');
                    self.out.push_str(name);
                    self.out.push('>');
                }
                html::HtmlPiece::Open(name) => self.element(name),
                html::HtmlPiece::Close(name) => self.close(name),
            }
        }
    }

    fn finish(mut self) -> RenderedMarkdown {
        while let Some(open) = self.open.pop() {
            if !open.is_empty() {
                self.out.push_str(&format!("</{open}>"));
            }
        }
        RenderedMarkdown { html: PreEscaped(self.out), headings: self.headings }
    }
}

#[cfg(test)]
mod tests;
