//! Turns changes of blobs into changes of the source text.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use fbc::blob::{ChannelEntry, Deprecation};
use fbc::json::{JsonLayout, Raw, write_as_written};
use fbc::yaml;

use crate::new_blob::NewBlob;
use crate::refusal::EditRefusal;
use crate::text::documents::{self, TextDocument};
use crate::text::editor::{Editor, NewValue};
use crate::text::tree::TreeNode;
use crate::text::{Splice, Unwritable, lines, sort};

/// The change of an existing blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobChange {
    /// The blob is removed.
    Remove,
    /// The default channel of a package changes.
    DefaultChannel(String),
    /// The entries of a channel change; remaining entries keep their order.
    Entries(Vec<ChannelEntry>),
    /// The deprecations of a package change; remaining ones keep their order.
    Deprecations(Vec<Deprecation>),
}

/// The changes of a file.
#[derive(Debug, Clone, Default)]
pub struct FileChange {
    /// The changed blobs, by offset.
    pub changed: BTreeMap<u64, BlobChange>,
    /// The blobs to insert after existing ones, by the offset of those.
    pub added: BTreeMap<u64, Vec<NewBlob>>,
}

/// The result of rewriting a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewrittenFile {
    /// The text changes at these positions.
    Spliced(Vec<Splice>),
    /// The file becomes empty and is deleted.
    Deleted,
}

/// Applies the changes of a file to its text.
///
/// # Errors
/// Refuses if the source form does not allow an edit by position.
pub fn rewrite(text: &str, change: &FileChange) -> Result<RewrittenFile, EditRefusal> {
    // Edits of lines need a newline after each.
    let ended = documents::with_last_newline(text);
    let rewritten = rewrite_lines(&ended, change)?;
    Ok(match rewritten {
        RewrittenFile::Spliced(splices) => {
            RewrittenFile::Spliced(documents::without_last_newline(text, &ended, splices))
        }
        RewrittenFile::Deleted => RewrittenFile::Deleted,
    })
}

fn rewrite_lines(text: &str, change: &FileChange) -> Result<RewrittenFile, EditRefusal> {
    let documents = documents::find(text).ok_or_else(unreadable)?;
    let at = |start: &u64| {
        documents.binary_search_by_key(&usize::try_from(*start).unwrap_or(usize::MAX), |document| document.start)
    };
    let mut removed = vec![false; documents.len()];
    let mut splices = Vec::new();
    for (start, change) in &change.changed {
        let index = at(start).map_err(|_| unreadable())?;
        match change {
            BlobChange::Remove => removed[index] = true,
            change => {
                let document = &documents[index];
                let edited = edit(text, document, change).map_err(|_| {
                    let line = text[..document.body].matches('\n').count() + 1;
                    let message = format!("line {line}: opm cannot edit this form in place");
                    EditRefusal::new(message).help(
                        "aliases and unusual list dashes prevent the edit: rewrite that part in plain YAML, or edit it by hand",
                    )
                })?;
                splices.extend(edited);
            }
        }
    }
    // Insertions go after the changes of the preceding document and keep their order.
    let ending = lines::ending(text);
    for (start, new_blobs) in &change.added {
        let index = at(start).map_err(|_| unreadable())?;
        for new_blob in new_blobs {
            splices.push(documents::insert(ending, &documents[index], &print(new_blob, text, &documents, index)));
        }
    }
    if removed.contains(&true) {
        match documents::remove(text, &documents, &removed) {
            Some(removals) => splices.extend(removals),
            None if change.added.is_empty() => return Ok(RewrittenFile::Deleted),
            None => return Err(EditRefusal::new("the edit would remove everything else in the file")),
        }
    }
    sort(&mut splices);
    Ok(RewrittenFile::Spliced(splices))
}

/// Returns the text of a new file.
pub fn new_file(blobs: &[NewBlob], json: bool) -> String {
    let mut out = String::new();
    for new_blob in blobs {
        let text = printed(new_blob, json, JsonLayout::Indented(4));
        match (json, &new_blob.yaml) {
            (true, _) => out += &text,
            (false, Some(_)) => out += &format!("---\n{text}"),
            (false, None) => out += &format!("---\n{}", in_order(&text, new_blob.json.raw())),
        }
    }
    out
}

/// Returns the ranges of the YAML documents of a file, by offset.
///
/// # Errors
/// Refuses if the text is not a catalog file.
pub fn yaml_documents(text: &str) -> Result<BTreeMap<u64, Range<usize>>, EditRefusal> {
    let found = documents::find(text).ok_or_else(unreadable)?.into_iter().filter(|document| !document.json);
    Ok(found.map(|document| (document.start as u64, document.range())).collect())
}

/// Returns whether the deprecations of a blob were added to an empty list, `[]`: they are on the line of the brackets, in
/// a blob of several lines. A new blob never looks like this.
///
/// # Errors
/// Refuses if the text is not a catalog file.
pub(crate) fn was_empty(text: &str, start: u64) -> Result<bool, EditRefusal> {
    let documents = documents::find(text).ok_or_else(unreadable)?;
    let document = documents.iter().find(|document| document.start as u64 == start).ok_or_else(unreadable)?;
    let own = &text[document.range()];
    let root = TreeNode::parse(own, document.json).ok_or_else(unreadable)?;
    let lines = |node: &TreeNode| own[node.span.clone()].trim_end().contains('\n');
    Ok(lines(&root) && root.get("entries").is_some_and(|list| own[list.span.clone()].starts_with('[') && !lines(list)))
}

fn unreadable() -> EditRefusal {
    EditRefusal::new("the file has changed since the catalog was read").help("try again")
}

/// Prints a blob in the format of the document that precedes it.
fn print(new_blob: &NewBlob, text: &str, documents: &[TextDocument], index: usize) -> String {
    let document = &documents[index];
    let own = &text[document.range()];
    // A document without a line break implies one value per line.
    let layout = match own.split_once('\n') {
        Some((_, rest)) => JsonLayout::Indented((rest.len() - rest.trim_start_matches(' ').len()).clamp(1, 8)),
        None => JsonLayout::Compact,
    };
    let text = printed(new_blob, document.json, layout);
    // People write the schema first; programs sort the keys.
    let authored = own.lines().find(|line| !line.is_empty() && !line.starts_with('#'));
    match !document.json && new_blob.yaml.is_none() && authored.is_some_and(|line| line.starts_with("schema:")) {
        true => in_order(&text, new_blob.json.raw()),
        false => text,
    }
}

/// Reorders the members of a YAML document to match `json`.
fn in_order(text: &str, json: Raw<'_>) -> String {
    let mut members: Vec<(&str, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        match members.last_mut() {
            Some((_, member)) if line.starts_with([' ', '-', '\n']) => member.push_str(line),
            _ => members.push((line.split(':').next().unwrap_or_default(), line.to_owned())),
        }
    }
    let order: Vec<String> = json.members().map(|(name, _)| name.into_owned()).collect();
    members.sort_by_key(|(name, _)| order.iter().position(|key| key == name));
    members.into_iter().map(|(_, member)| member).collect()
}

fn printed(new_blob: &NewBlob, json: bool, layout: JsonLayout) -> String {
    let mut out = Vec::new();
    match (&new_blob.yaml, json) {
        (Some(yaml), false) => return yaml.clone(),
        (_, true) => write_as_written(new_blob.json.raw(), layout, 0, &mut out),
        (None, false) => yaml::write_document(new_blob.json.raw(), &mut out),
    }
    if out.last() != Some(&b'\n') {
        out.push(b'\n');
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn edit(text: &str, document: &TextDocument, change: &BlobChange) -> Result<Vec<Splice>, Unwritable> {
    let own = &text[document.range()];
    let root = TreeNode::parse(own, document.json).ok_or(Unwritable)?;
    let mut editor = Editor::new(own, document.json, &root);
    match change {
        BlobChange::Remove => {}
        BlobChange::DefaultChannel(name) => set_field(&mut editor, &root, "defaultChannel", name, &["schema", "name"])?,
        BlobChange::Entries(entries) => {
            let list = root.get("entries").ok_or(Unwritable)?;
            let keys: Vec<String> = list.items().iter().map(|item| item.string("name").to_owned()).collect();
            let new: Vec<(String, NewValue)> =
                entries.iter().map(|entry| (entry.name.to_string(), value(entry))).collect();
            // New members of an item precede a new item behind it, which may have the same position.
            let by_name: HashMap<&str, &ChannelEntry> =
                entries.iter().rev().map(|entry| (&*entry.name, entry)).collect();
            for item in list.items() {
                if let Some(entry) = by_name.get(item.string("name")) {
                    change_entry(&mut editor, item, entry)?;
                }
            }
            change_list(&mut editor, list, &keys, &new)?;
        }
        BlobChange::Deprecations(entries) => {
            let list = root.get("entries").ok_or(Unwritable)?;
            let key = |schema: &str, name: &str| format!("{schema}\0{name}");
            let key_of = |item: &TreeNode| {
                item.get("reference").map(|it| key(it.string("schema"), it.string("name"))).unwrap_or_default()
            };
            let keys: Vec<String> = list.items().iter().map(key_of).collect();
            let new: Vec<(String, NewValue)> =
                entries.iter().map(|entry| (key(&entry.schema, &entry.name), deprecation(entry))).collect();
            let by_key: HashMap<String, &Deprecation> =
                entries.iter().rev().map(|entry| (key(&entry.schema, &entry.name), entry)).collect();
            for (item, key) in list.items().iter().zip(&keys) {
                if let Some(entry) = by_key.get(key).filter(|entry| item.string("message") != &*entry.message) {
                    set_field(&mut editor, item, "message", &entry.message, &["reference"])?;
                }
            }
            match keys.is_empty() && editor.is_flow(list) {
                // On one line, so that removing them restores the empty list.
                true => editor.fill(list, new.into_iter().map(|(_, value)| value).collect()),
                false => change_list(&mut editor, list, &keys, &new)?,
            }
        }
    }
    Ok(editor.finish(document.body))
}

/// Removes list items whose keys are not wanted, and adds missing ones.
fn change_list(
    editor: &mut Editor<'_>,
    list: &TreeNode,
    keys: &[String],
    wanted: &[(String, NewValue)],
) -> Result<(), Unwritable> {
    let names: HashSet<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    let removed: Vec<bool> = keys.iter().map(|key| !names.contains(key.as_str())).collect();
    // The first item counts if several have one key.
    let places: HashMap<&str, usize> = keys.iter().enumerate().rev().map(|(at, key)| (key.as_str(), at)).collect();
    let mut added = Vec::new();
    let mut before: Option<usize> = None;
    // The last of the removed items that follow the previous one.
    let mut behind = (0..keys.len()).take_while(|&at| removed[at]).last();
    for (name, value) in wanted {
        match places.get(name.as_str()).copied() {
            // Remaining items have to keep their order.
            Some(at) if before.is_some_and(|before| at <= before) => return Err(Unwritable),
            Some(at) => {
                before = Some(at);
                behind = (at + 1..keys.len()).take_while(|&at| removed[at]).last();
            }
            // Insert after these, so that a renamed item keeps its position.
            None => added.push((behind.or(before), value.clone())),
        }
    }
    if added.is_empty() && !removed.contains(&true) {
        return Ok(());
    }
    editor.change_items(list, &removed, &added)
}

/// The fields of an entry, in output order.
const FIELDS: [&str; 4] = ["name", "replaces", "skips", "skipRange"];

fn change_entry(editor: &mut Editor<'_>, item: &TreeNode, entry: &ChannelEntry) -> Result<(), Unwritable> {
    let mut removed = vec![false; item.members().len()];
    let mut missing: Vec<(usize, NewValue)> = Vec::new();
    for (rank, text) in [(1, &entry.replaces), (3, &entry.skip_range)] {
        match item.position(FIELDS[rank]) {
            Some(at) if text.is_empty() => removed[at] = !item.members()[at].value.text().is_none_or(str::is_empty),
            Some(at) if item.members()[at].value.text() != Some(text) => {
                let flow = editor.is_flow(item);
                set_value(editor, &item.members()[at].value, text, flow)?;
            }
            None if !text.is_empty() => missing.push((rank, NewValue::Str(text.to_string()))),
            _ => {}
        }
    }
    let wanted: Vec<(String, NewValue)> =
        entry.skips.iter().map(|skip| (skip.to_string(), NewValue::Str(skip.to_string()))).collect();
    let list = || NewValue::List(wanted.iter().map(|(_, skip)| skip.clone()).collect());
    match item.position(FIELDS[2]) {
        Some(at) if wanted.is_empty() => removed[at] = !item.members()[at].value.items().is_empty(),
        Some(at) => {
            let node = &item.members()[at].value;
            let keys: Vec<String> =
                node.items().iter().map(|skip| skip.text().unwrap_or_default().to_owned()).collect();
            change_list(editor, node, &keys, &wanted)?;
        }
        None if !wanted.is_empty() => missing.push((2, list())),
        None => {}
    }
    missing.sort_by_key(|(rank, _)| *rank);
    for (rank, value) in &missing {
        let before = FIELDS[..*rank].iter().rev().find_map(|field| item.position(field).filter(|&at| !removed[at]));
        editor.insert_member(item, before.ok_or(Unwritable)?, FIELDS[*rank], value);
    }
    if removed.contains(&true) {
        editor.remove_members(item, &removed)?;
    }
    Ok(())
}

/// Sets a string member of a map; a new member goes after the last existing one of `before`.
fn set_field(
    editor: &mut Editor<'_>,
    map: &TreeNode,
    field: &'static str,
    text: &str,
    before: &[&str],
) -> Result<(), Unwritable> {
    let flow = editor.is_flow(map);
    match map.get(field) {
        Some(node) => set_value(editor, node, text, flow),
        None => {
            let after = before.iter().rev().find_map(|name| map.position(name)).ok_or(Unwritable)?;
            editor.insert_member(map, after, field, &NewValue::Str(text.to_owned()));
            Ok(())
        }
    }
}

fn set_value(editor: &mut Editor<'_>, node: &TreeNode, text: &str, flow: bool) -> Result<(), Unwritable> {
    node.text().ok_or(Unwritable)?;
    editor.set_string(node, text, flow);
    Ok(())
}

fn value(entry: &ChannelEntry) -> NewValue {
    let mut fields = vec![(FIELDS[0], NewValue::Str(entry.name.to_string()))];
    if !entry.replaces.is_empty() {
        fields.push((FIELDS[1], NewValue::Str(entry.replaces.to_string())));
    }
    if !entry.skips.is_empty() {
        fields.push((
            FIELDS[2],
            NewValue::List(entry.skips.iter().map(|skip| NewValue::Str(skip.to_string())).collect()),
        ));
    }
    if !entry.skip_range.is_empty() {
        fields.push((FIELDS[3], NewValue::Str(entry.skip_range.to_string())));
    }
    NewValue::Map(fields)
}

fn deprecation(entry: &Deprecation) -> NewValue {
    let mut reference = vec![("schema", NewValue::Str(entry.schema.to_string()))];
    if !entry.name.is_empty() {
        reference.push(("name", NewValue::Str(entry.name.to_string())));
    }
    NewValue::Map(vec![("reference", NewValue::Map(reference)), ("message", NewValue::Str(entry.message.to_string()))])
}

#[cfg(test)]
mod tests;
