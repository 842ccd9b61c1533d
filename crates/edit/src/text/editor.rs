//! Turns changes of values into splices that follow the style of the surrounding text.

use std::ops::Range;

use super::tree::TreeNode;
use super::{Splice, Unwritable, lines, scalar};

/// A value to write.
#[derive(Debug, Clone)]
pub(crate) enum NewValue {
    Str(String),
    List(Vec<NewValue>),
    Map(Vec<(&'static str, NewValue)>),
}

/// Collects the changes of one document.
pub(crate) struct Editor<'t> {
    text: &'t str,
    json: bool,
    ending: &'static str,
    /// The indentation step inside brackets, if values are on separate lines.
    unit: Option<String>,
    /// Whether a space follows colons and commas inside brackets on one line.
    spaced: bool,
    /// The indentation of list dashes relative to their key.
    dashes: usize,
    /// Whether strings are in quotes that do not need them.
    quotes: bool,
    splices: Vec<Splice>,
}

impl<'t> Editor<'t> {
    /// Creates an editor for the document `text` with the values of `root`.
    pub(crate) fn new(text: &'t str, json: bool, root: &TreeNode) -> Editor<'t> {
        let mut editor = Editor {
            text,
            json,
            ending: lines::ending(text),
            unit: None,
            spaced: !json || text.contains(": ") || text.contains(":\n"),
            dashes: 0,
            quotes: false,
            splices: Vec::new(),
        };
        if let (true, Some(first)) = (editor.is_flow(root), root.members().first()) {
            editor.unit = editor.break_before(root.span.start, first.key.start);
        }
        for member in root.members() {
            let value = &member.value;
            let plain = value.text().map(|text| scalar::yaml(text, false, None)).unwrap_or_default();
            editor.quotes |= text[value.span.clone()].starts_with('"') && !plain.starts_with('"');
            let first = member.value.items().first().filter(|_| !editor.is_flow(&member.value));
            if let Some(dash) = first.and_then(|item| editor.dash(item).ok()) {
                editor.dashes = editor.column(dash).saturating_sub(editor.column(member.key.start));
            }
        }
        editor
    }

    /// Returns the changes, shifted by `base` bytes and sorted.
    pub(crate) fn finish(mut self, base: usize) -> Vec<Splice> {
        for splice in &mut self.splices {
            splice.range = splice.range.start + base..splice.range.end + base;
        }
        super::sort(&mut self.splices);
        self.splices
    }

    /// Replaces a value with a string.
    pub(crate) fn set_string(&mut self, node: &TreeNode, text: &str, in_flow: bool) {
        let old = &self.text[node.span.clone()];
        // Quotes that the old string needs are no style of the author, so the new one does without if it can.
        let needed = node.text().is_some_and(|text| scalar::yaml(text, in_flow, None) == old);
        let old = Some(old).filter(|_| self.quotes || !needed);
        let new = if self.json { scalar::json(text) } else { scalar::yaml(text, in_flow, old) };
        self.splice(node.span.clone(), new);
    }

    /// Returns whether a collection is in flow style.
    pub(crate) fn is_flow(&self, node: &TreeNode) -> bool {
        matches!(self.text.as_bytes().get(node.span.start), Some(b'[' | b'{'))
    }

    /// Removes members of a map, at least one of which remains.
    pub(crate) fn remove_members(&mut self, map: &TreeNode, removed: &[bool]) -> Result<(), Unwritable> {
        let members = map.members();
        if self.is_flow(map) {
            let places: Vec<_> = members.iter().map(|member| member.key.start..member.value.span.end).collect();
            return self.remove_in_flow(map, &places, removed);
        }
        let stays = removed.iter().position(|removed| !removed).ok_or(Unwritable)?;
        if stays > 0 && !self.starts_line(members[0].key.start) {
            self.splice(members[0].key.start..members[stays].key.start, String::new());
        } else {
            for member in &members[..stays] {
                self.remove_lines(member.key.start, member.value.span.end);
            }
        }
        for (member, removed) in members.iter().zip(removed).skip(stays) {
            if *removed {
                self.remove_lines(member.key.start, member.value.span.end);
            }
        }
        Ok(())
    }

    /// Replaces an empty list in brackets with these items, on one line.
    pub(crate) fn fill(&mut self, list: &TreeNode, items: Vec<NewValue>) {
        let new = self.flow(&NewValue::List(items), None);
        self.splice(list.span.clone(), new);
    }

    /// Inserts a member into a map after the one at `after`.
    pub(crate) fn insert_member(&mut self, map: &TreeNode, after: usize, key: &str, value: &NewValue) {
        let members = map.members();
        let before = &members[after];
        if self.is_flow(map) {
            let gap = self.gap(map, members.iter().map(|member| member.key.start..member.value.span.end));
            let indent = self.indent_of(&gap);
            let text = format!(",{gap}{}{}", self.flow_key(key), self.flow(value, indent.as_deref()));
            self.splice(before.value.span.end..before.value.span.end, text);
            return;
        }
        let column = self.column(members[0].key.start);
        let mut text = " ".repeat(column);
        self.block_member(key, value, column, &mut text);
        self.insert_lines(lines::next(self.text, before.value.span.end.max(before.key.end)), text);
    }

    /// Removes list items and inserts others, each with the index of the item before it.
    pub(crate) fn change_items(
        &mut self,
        list: &TreeNode,
        removed: &[bool],
        added: &[(Option<usize>, NewValue)],
    ) -> Result<(), Unwritable> {
        let items = list.items();
        if self.is_flow(list) {
            if removed.iter().all(|removed| *removed) {
                if !(items.is_empty() && added.is_empty()) {
                    let values: Vec<NewValue> = added.iter().map(|(_, value)| value.clone()).collect();
                    let indent = self.line_indent(list.span.start);
                    let multi_line =
                        self.unit.is_some() && (items.is_empty() || self.text[list.span.clone()].contains('\n'));
                    let new = self.flow(&NewValue::List(values), multi_line.then_some(indent).as_deref());
                    self.splice(list.span.clone(), new);
                }
                return Ok(());
            }
            let places: Vec<_> = items.iter().map(|item| item.span.clone()).collect();
            let gap = self.gap(list, places.iter().cloned());
            let pattern = items.last().map(|item| &self.text[item.span.clone()]).unwrap_or_default();
            let indent = self.indent_of(&gap).filter(|_| pattern.contains('\n') || !pattern.starts_with(['{', '[']));
            for (after, value) in added {
                let value = self.flow(value, indent.as_deref());
                match after.or_else(|| removed[0].then_some(0)) {
                    Some(after) => self.splice(places[after].end..places[after].end, format!(",{gap}{value}")),
                    None => self.splice(places[0].start..places[0].start, format!("{value},{gap}")),
                }
            }
            return self.remove_in_flow(list, &places, removed);
        }
        let places = items.iter().map(|item| self.lines_of(item)).collect::<Result<Vec<_>, _>>()?;
        let dash = self.column(self.dash(items.first().ok_or(Unwritable)?)?);
        let in_brackets = items.last().is_some_and(|item| self.is_flow(item));
        for (after, value) in added {
            let mut text = " ".repeat(dash) + "- ";
            match value {
                NewValue::Map(members) if !in_brackets => {
                    for (i, (key, value)) in members.iter().enumerate() {
                        if i > 0 {
                            text += self.ending;
                            text += &" ".repeat(dash + 2);
                        }
                        self.block_member(key, value, dash + 2, &mut text);
                    }
                }
                value => text += &self.flow(value, None),
            }
            self.insert_lines(after.map_or(places[0].start, |after| places[after].end), text);
        }
        for (place, _) in places.iter().zip(removed).filter(|(_, removed)| **removed) {
            self.remove_range(place.clone());
        }
        Ok(())
    }

    fn splice(&mut self, range: Range<usize>, text: String) {
        self.splices.push(Splice { range, text: text.into_bytes() });
    }

    /// Removes parts of a flow collection, with their commas.
    fn remove_in_flow(
        &mut self,
        collection: &TreeNode,
        places: &[Range<usize>],
        removed: &[bool],
    ) -> Result<(), Unwritable> {
        let Some(stays) = removed.iter().position(|removed| !removed) else {
            let inner = collection.span.start + 1..collection.span.end.saturating_sub(1);
            self.splice(inner, String::new());
            return Ok(());
        };
        if stays > 0 {
            self.splice(places[0].start..places[stays].start, String::new());
        }
        for i in stays + 1..places.len() {
            if removed[i] {
                self.splice(places[i - 1].end..places[i].end, String::new());
            }
        }
        Ok(())
    }

    /// Removes the lines from `start` to `end`, with the comments directly above.
    fn remove_lines(&mut self, start: usize, end: usize) {
        let column = self.column(start);
        let first = lines::comments_above(self.text, lines::start(self.text, start), |indent| indent == column);
        self.remove_range(first..lines::next(self.text, end.max(start)));
    }

    fn remove_range(&mut self, range: Range<usize>) {
        self.splice(range, String::new());
    }

    fn insert_lines(&mut self, at: usize, text: String) {
        let ending = self.ending;
        self.splice(at..at, format!("{text}{ending}"));
    }

    /// Returns the lines of an item of a block list, with its comments.
    fn lines_of(&self, item: &TreeNode) -> Result<Range<usize>, Unwritable> {
        let dash = self.dash(item)?;
        if !self.starts_line(dash) {
            return Err(Unwritable);
        }
        let column = self.column(dash);
        let first = lines::comments_above(self.text, lines::start(self.text, dash), |indent| indent <= column);
        let end = lines::next(self.text, item.span.end.max(dash + 1));
        Ok(first..lines::comments_below(self.text, end, |indent| indent > column))
    }

    /// Returns the offset of the dash before an item.
    fn dash(&self, item: &TreeNode) -> Result<usize, Unwritable> {
        let before = self.text[..item.span.start].trim_end();
        if before.ends_with('-') { Ok(before.len() - 1) } else { Err(Unwritable) }
    }

    fn starts_line(&self, at: usize) -> bool {
        self.text[lines::start(self.text, at)..at].trim_matches(' ').is_empty()
    }

    fn column(&self, at: usize) -> usize {
        at - lines::start(self.text, at)
    }

    /// Returns the leading whitespace of the line at `at`.
    fn line_indent(&self, at: usize) -> String {
        let line = &self.text[lines::start(self.text, at)..];
        line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned()
    }

    /// Returns the indentation of `inner` relative to the line of `outer`, if it is on a separate line.
    fn break_before(&self, outer: usize, inner: usize) -> Option<String> {
        if !self.text[outer..inner].contains('\n') {
            return None;
        }
        let (outer, inner) = (self.line_indent(outer), self.line_indent(inner));
        inner.strip_prefix(&outer).map(str::to_owned)
    }

    /// Returns the whitespace after commas.
    fn gap(&self, collection: &TreeNode, mut places: impl Iterator<Item = Range<usize>>) -> String {
        let first = places.next().unwrap_or_default();
        let usual = || if self.spaced { " ".to_owned() } else { String::new() };
        let white = |text: &str| text.chars().all(char::is_whitespace).then(|| text.to_owned());
        if let Some(second) = places.next() {
            let between = &self.text[first.end..second.start];
            return between.split_once(',').and_then(|(_, gap)| white(gap)).unwrap_or_else(usual);
        }
        let opening = &self.text[collection.span.start + 1..first.start];
        white(opening).filter(|opening| opening.contains('\n')).unwrap_or_else(usual)
    }

    /// Returns the indentation after a line break in `gap`.
    fn indent_of(&self, gap: &str) -> Option<String> {
        self.unit.as_ref()?;
        gap.rsplit_once('\n').map(|(_, indent)| indent.to_owned())
    }

    fn flow_key(&self, key: &str) -> String {
        let space = if self.spaced { " " } else { "" };
        if self.json { format!("{}:{space}", scalar::json(key)) } else { format!("{key}: ") }
    }

    /// Writes a value in flow style, on several lines if an indentation is given.
    fn flow(&self, value: &NewValue, indent: Option<&str>) -> String {
        let parts: Vec<String>;
        let inner = indent.map(|indent| format!("{indent}{}", self.unit.as_deref().unwrap_or_default()));
        let (open, close) = match value {
            NewValue::Str(text) if self.json => return scalar::json(text),
            NewValue::Str(text) => return scalar::yaml(text, true, None),
            NewValue::List(items) => {
                parts = items.iter().map(|item| self.flow(item, inner.as_deref())).collect();
                ('[', ']')
            }
            NewValue::Map(members) => {
                let member = |(key, value): &(&str, NewValue)| self.flow_key(key) + &self.flow(value, inner.as_deref());
                parts = members.iter().map(member).collect();
                ('{', '}')
            }
        };
        match (indent, inner) {
            (Some(indent), Some(inner)) if !parts.is_empty() => {
                let (ending, comma) = (self.ending, format!(",{}{inner}", self.ending));
                format!("{open}{ending}{inner}{}{ending}{indent}{close}", parts.join(&comma))
            }
            _ => format!("{open}{}{close}", parts.join(if self.spaced { ", " } else { "," })),
        }
    }

    /// Writes a member at the end of an already indented line.
    fn block_member(&self, key: &str, value: &NewValue, column: usize, out: &mut String) {
        *out += key;
        *out += ":";
        match value {
            NewValue::Str(text) => *out += &format!(" {}", scalar::yaml(text, false, None)),
            NewValue::List(items) if items.is_empty() => *out += " []",
            NewValue::List(items) => {
                for item in items {
                    *out += self.ending;
                    *out += &" ".repeat(column + self.dashes);
                    *out += "- ";
                    match item {
                        NewValue::Str(text) => *out += &scalar::yaml(text, false, None),
                        other => *out += &self.flow(other, None),
                    }
                }
            }
            NewValue::Map(members) => {
                for (key, value) in members {
                    *out += self.ending;
                    *out += &" ".repeat(column + 2);
                    self.block_member(key, value, column + 2, out);
                }
            }
        }
    }
}
