//! Explanations of fields, documents and rules as text.

use std::fmt::Write as _;

use fbc::json::Raw;
use fbc::shape::Shape;

use crate::schema::document::{Constraint, DocumentCategory, SchemaDocument, documents};
use crate::schema::names::nearest;
use crate::schema::rules::{self, RuleDoc};

/// The error for an unknown name.
#[derive(Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Similar names, the nearest first.
    pub nearest: Vec<String>,
}

/// A file of a catalog that has no schema: its name, what it is, and the explanation.
const INDEX_IGNORE: (&str, &str, &str) = (
    ".indexignore",
    "names the files of a directory that are not part of the catalog",
    ".indexignore: a file of a catalog directory

  It names files that are not part of the catalog, for its directory and those below, in the syntax and with the
  precedence of .gitignore. What it names is never read, packed, copied or changed.

  Example:

    # Notes, scripts, and the manifests that bundles refer to
    *.md
    /scripts/
    **/objects/*
",
);

/// Explains a field, a schema, a property, a rule or a file.
///
/// # Errors
/// Fails if the name is unknown.
pub fn explain(name: &str) -> Result<String, Unknown> {
    let mut parts = Vec::new();
    parts.extend((name == INDEX_IGNORE.0).then(|| INDEX_IGNORE.2.to_owned()));
    parts.extend(rules::all().into_iter().filter(|rule| rule.name == name).map(|rule| rule_text(&rule)));
    let documents = documents();
    for document in &documents {
        let full = document.full_name();
        // Users often give a property by its type alone.
        let Some(rest) = name.strip_prefix(&*full).or_else(|| name.strip_prefix(document.name)) else { continue };
        match rest.strip_prefix('.') {
            None if rest.is_empty() => parts.push(document_text(document)),
            Some(path) if document.field(path).is_some() => parts.push(field_text(document, path)),
            _ => {}
        }
    }
    if parts.is_empty() { Err(Unknown { nearest: nearest(name, all_names(&documents)) }) } else { Ok(parts.join("\n")) }
}

/// Lists everything that can be explained.
pub fn overview() -> String {
    let documents = documents();
    let mut text = String::new();
    for (title, kind) in [
        ("Blobs", DocumentCategory::Blob),
        ("Properties", DocumentCategory::Property),
        ("Templates", DocumentCategory::Template),
        ("Files", DocumentCategory::File),
    ] {
        let of_kind = documents.iter().filter(|document| document.kind == kind);
        let rows = of_kind.map(|document| (document.full_name(), first_sentence(document.about)));
        let other = (kind == DocumentCategory::File).then(|| (INDEX_IGNORE.0.to_owned(), INDEX_IGNORE.1.to_owned()));
        list(&mut text, title, rows.chain(other));
    }
    let rules = rules::all();
    for group in rules::GROUPS {
        let of_group = rules.iter().filter(|rule| rule.group == group);
        list(&mut text, group.title(), of_group.map(|rule| (rule.name.to_owned(), rule.about.to_owned())));
    }
    text
}

fn list(text: &mut String, title: &str, rows: impl Iterator<Item = (String, String)>) {
    let rows: Vec<(String, String)> = rows.collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let gap = if text.is_empty() { "" } else { "\n" };
    let _ = writeln!(text, "{gap}{title}:");
    for (name, about) in rows {
        let _ = writeln!(text, "  {name:width$}  {about}");
    }
}

fn first_sentence(text: &str) -> String {
    text.split(". ").next().unwrap_or(text).to_owned()
}

fn all_names(documents: &[SchemaDocument]) -> impl Iterator<Item = String> {
    let fields = documents.iter().flat_map(|document| {
        let full = document.full_name();
        let fields = document.fields.iter().map(|field| format!("{full}.{}", field.path)).collect::<Vec<_>>();
        std::iter::once(full).chain(fields)
    });
    let rules = rules::all().into_iter().map(|rule| rule.name.to_owned());
    fields.chain(rules).chain([INDEX_IGNORE.0.to_owned()]).collect::<Vec<_>>().into_iter()
}

fn rule_text(rule: &RuleDoc) -> String {
    let mut text = format!("{}: {}\n\n", rule.name, rule.group.summary());
    paragraph(&mut text, &sentence(rule.about));
    paragraph(&mut text, &format!("Why: {}", sentence(rule.why)));
    paragraph(&mut text, &format!("To fix it: {}", sentence(rule.fix)));
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn document_text(document: &SchemaDocument) -> String {
    let what = match document.kind {
        DocumentCategory::Blob => "a blob of a catalog",
        DocumentCategory::Property => "a property of a bundle",
        DocumentCategory::Template => "a template",
        DocumentCategory::File => "a file",
    };
    let mut text = format!("{}: {what}\n\n", document.full_name());
    paragraph(&mut text, &sentence(document.about));
    let paths = document.paths();
    if paths.is_empty() {
        let _ = writeln!(text, "  Its value is {}.\n", type_name(document.shape));
    } else {
        let rows: Vec<(String, String)> = paths
            .iter()
            .map(|(path, shape)| {
                let given = document.field(path).is_some_and(|field| field.constraints.contains(&Constraint::Required));
                (path.clone(), format!("{}{}", type_name(*shape), if given { ", required" } else { "" }))
            })
            .collect();
        let width = rows.iter().map(|(path, _)| path.len()).max().unwrap_or_default();
        text += "  Fields:\n";
        for (path, kind) in rows {
            let _ = writeln!(text, "    {path:width$}  {kind}");
        }
        text.push('\n');
    }
    example(&mut text, document.example);
    text
}

fn field_text(document: &SchemaDocument, path: &str) -> String {
    let shape = document.paths().into_iter().find(|(known, _)| known == path).map_or(Shape::Any, |(_, shape)| shape);
    let mut text = format!("{}.{path}: {}", document.full_name(), type_name(shape));
    let Some(field) = document.field(path) else { return text };
    for constraint in field.constraints {
        match constraint {
            Constraint::Required => text += ", required",
            Constraint::NonEmpty => text += ", not empty",
            Constraint::Pattern(_) => text += ", matches a pattern",
            Constraint::OneOf(some) => {
                let _ = write!(
                    text,
                    ", one of {}",
                    some.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" ")
                );
            }
        }
    }
    text += "\n\n";
    paragraph(&mut text, &sentence(field.about));
    let inside: Vec<&str> = document
        .fields
        .iter()
        .filter_map(|field| field.path.strip_prefix(path)?.strip_prefix('.'))
        .filter(|rest| !rest.contains('.'))
        .collect();
    if !inside.is_empty() {
        let _ = writeln!(text, "  Fields: {}\n", inside.join(", "));
    }
    if field.example.is_empty() {
        text.truncate(text.trim_end().len());
        text.push('\n');
    } else {
        example(&mut text, field.example);
    }
    text
}

fn type_name(shape: Shape) -> String {
    match shape {
        Shape::Any => "any value".into(),
        Shape::Str => "a string".into(),
        Shape::Bool => "true or false".into(),
        Shape::Int => "an integer".into(),
        Shape::Base64 => "base64".into(),
        Shape::List(item) => match *item {
            Shape::Str => "a list of strings".into(),
            Shape::Object(_) => "a list of objects".into(),
            _ => "a list".into(),
        },
        Shape::Map(_) | Shape::Object(_) => "an object".into(),
    }
}

/// Renders an example as YAML, the format that users write.
fn example(text: &mut String, json: &str) {
    // Tests parse every example of the tables.
    let Ok(json) = Raw::parse(json, fbc::limits::MAX_DEPTH) else { return };
    let yaml = fbc::yaml::document(json);
    text.push_str("  Example:\n");
    for line in yaml.trim_start_matches("---\n").trim_end().lines() {
        let _ = writeln!(text, "    {line}");
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    // Names keep their case.
    let start = if text.starts_with(|c: char| c.is_ascii_lowercase()) && !text.starts_with("olm.") {
        first + letters.as_str()
    } else {
        text.to_owned()
    };
    if start.ends_with(['.', '!', '?']) { start } else { start + "." }
}

/// Appends `text`, wrapped to fit a terminal.
fn paragraph(out: &mut String, text: &str) {
    const WIDTH: usize = 78;
    let mut line = String::from(" ");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && !line.trim().is_empty() {
            out.push_str(&line);
            out.push('\n');
            line = String::from(" ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push_str("\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_explained_with_its_type_and_an_example() {
        insta::assert_snapshot!(explain("olm.channel.entries.skipRange").unwrap(), @r"
        olm.channel.entries.skipRange: a string, matches a pattern

          A range of versions that upgrade to this bundle directly. It adds upgrade
          edges, but does not link the chain: a channel whose entries are linked by
          ranges alone has several heads.

          Example:
            '>=1.0.0 <1.1.0'
        ");
        insta::assert_snapshot!(explain("olm.deprecations.entries.reference").unwrap(), @r"
        olm.deprecations.entries.reference: an object, required

          The deprecated package, channel or bundle.

          Fields: schema, name
        ");
    }

    #[test]
    fn a_rule_is_explained_with_its_reason_and_its_fix() {
        insta::assert_snapshot!(explain("channel-single-head").unwrap(), @r"
        channel-single-head: a rule that every catalog must satisfy

          A channel has exactly one head: an entry that no entry replaces or skips.

          Why: Clusters install and upgrade to the head; with two heads the target is
          ambiguous.

          To fix it: Make the newest entry replace or skip the others; skipRange alone
          does not link entries.
        ");
    }

    #[test]
    fn an_ambiguous_name_explains_both_meanings() {
        let text = explain("olm.package").unwrap();
        assert!(text.contains("olm.package: a blob") && text.contains("property/olm.package: a property"), "{text}");
        assert!(!explain("property/olm.package").unwrap().contains("a blob"));
    }

    #[test]
    fn similar_names_are_suggested() {
        let near = |name: &str| explain(name).unwrap_err().nearest;
        assert_eq!(near("channel-single-heads"), ["channel-single-head"]);
        assert_eq!(near("olm.chanel"), ["olm.channel"]);
        assert!(near("skipRange").contains(&"olm.channel.entries.skipRange".to_owned()), "{:?}", near("skipRange"));
        assert_eq!(near("no such thing at all"), Vec::<String>::new());
    }

    #[test]
    fn everything_in_the_overview_can_be_explained() {
        let overview = overview();
        let names =
            overview.lines().filter_map(|line| line.strip_prefix("  ")).filter_map(|line| line.split("  ").next());
        let names: Vec<&str> = names.collect();
        assert!(names.len() > 80, "{}", names.len());
        for name in names {
            assert!(explain(name).is_ok(), "{name}");
        }
    }
}
