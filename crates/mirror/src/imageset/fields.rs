//! Reads the fields of a document: known names, types and positions.

use fbc::json::{JsonKind, JsonPath, PathStep, Raw};
use fbc::spans::Spans;

use super::ImageSetProblem;

/// Reads values and collects all problems.
pub(super) struct Fields<'t> {
    text: &'t [u8],
    spans: Option<Spans>,
    /// The number of lines before the document.
    first_line: usize,
    pub(super) problems: Vec<ImageSetProblem>,
}

/// A field with a value.
#[derive(Clone)]
pub(super) struct FieldValue<'r> {
    pub(super) name: &'static str,
    pub(super) value: Raw<'r>,
    pub(super) path: JsonPath,
}

impl<'t> Fields<'t> {
    pub(super) fn new(text: &'t [u8], first_line: usize) -> Fields<'t> {
        Fields { text, spans: Spans::of_yaml(text), first_line, problems: Vec::new() }
    }

    /// Returns the line of an offset in the document.
    pub(super) fn line_at(&self, offset: usize) -> usize {
        let before = &self.text[..offset.min(self.text.len())];
        self.first_line + before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Returns the line of a value's key, or of the nearest parent if the value is missing.
    pub(super) fn line(&self, path: &JsonPath) -> usize {
        let Some(span) = self.spans.as_ref().and_then(|spans| spans.find_or_ancestor(&path.0)) else {
            return self.first_line + 1;
        };
        let mut at = span.start;
        if let Some(PathStep::Key(key)) = path.0.last()
            && let Some(before) = self.text.get(..span.start).and_then(|text| std::str::from_utf8(text).ok())
        {
            // A value can start on a line below its key.
            let key = before.to_lowercase().rfind(&*key.to_lowercase());
            at = key
                .filter(|key| before[*key..].trim_end().ends_with([':', '-']) || before[*key..].contains(':'))
                .unwrap_or(at);
        }
        self.line_at(at)
    }

    pub(super) fn problem(&mut self, path: &JsonPath, message: impl Into<String>) {
        let line = self.line(path);
        self.problems.push(ImageSetProblem { line, message: message.into(), help: None });
    }

    pub(super) fn problem_with_help(&mut self, path: &JsonPath, message: impl Into<String>, help: impl Into<String>) {
        let line = self.line(path);
        self.problems.push(ImageSetProblem { line, message: message.into(), help: Some(help.into()) });
    }

    /// Returns the fields of an object and reports unknown ones. Names match case-insensitively, except for those in
    /// `exact`.
    pub(super) fn of<'r>(
        &mut self,
        value: Raw<'r>,
        path: &JsonPath,
        known: &[&'static str],
        exact: &[&str],
    ) -> Vec<FieldValue<'r>> {
        if value.kind() != JsonKind::Object {
            let found = type_name(value);
            self.problem(path, format!("{}: expected fields, found {found}", shown(path)));
            return Vec::new();
        }
        let mut found: Vec<FieldValue<'r>> = Vec::new();
        for (name, value) in value.members() {
            let same = |known: &&&'static str| match exact.contains(*known) {
                true => **known == name,
                false => known.eq_ignore_ascii_case(&name),
            };
            let own = path.then(name.clone().into_owned());
            match known.iter().find(same) {
                Some(known) if found.iter().any(|field| field.name == *known) => {
                    self.problem(&own, format!("{}: duplicate field", shown(&own)));
                }
                Some(known) if !value.is_null() => found.push(FieldValue { name: known, value, path: own }),
                Some(_) => {}
                None => {
                    let message = format!("{}: unknown field", shown(&own));
                    match migration_hint(&name) {
                        Some(help) => self.problem_with_help(&own, message, help),
                        None => self.problem_with_help(&own, message, format!("known fields: {}", known.join(", "))),
                    }
                }
            }
        }
        found
    }

    pub(super) fn text(&mut self, field: &FieldValue<'_>) -> Option<String> {
        let text = field.value.as_str().map(std::borrow::Cow::into_owned);
        if text.is_none() {
            let found = type_name(field.value);
            let message = format!("{}: expected text, found {found}", shown(&field.path));
            match field.value.kind() {
                JsonKind::Number => {
                    let help = format!("quote it: \"{}\"", field.value.text());
                    self.problem_with_help(&field.path, message, help);
                }
                _ => self.problem(&field.path, message),
            }
        }
        text
    }

    pub(super) fn switch(&mut self, field: &FieldValue<'_>) -> bool {
        let switch = field.value.as_bool();
        if switch.is_none() {
            let found = type_name(field.value);
            self.problem(&field.path, format!("{}: expected true or false, found {found}", shown(&field.path)));
        }
        switch.unwrap_or_default()
    }

    pub(super) fn number(&mut self, field: &FieldValue<'_>) -> Option<u64> {
        let number = field.value.text().parse().ok();
        if number.is_none() {
            let found = field.value.text();
            self.problem(&field.path, format!("{}: expected a whole number, found {found}", shown(&field.path)));
        }
        number
    }

    pub(super) fn list<'r>(&mut self, field: &FieldValue<'r>) -> Vec<(Raw<'r>, JsonPath)> {
        if field.value.kind() != JsonKind::Array {
            let found = type_name(field.value);
            self.problem(&field.path, format!("{}: expected a list, found {found}", shown(&field.path)));
            return Vec::new();
        }
        field.value.items().enumerate().map(|(number, item)| (item, field.path.then(number))).collect()
    }
}

/// Formats a path for messages.
pub(super) fn shown(path: &JsonPath) -> String {
    if path.0.is_empty() { "the file".to_owned() } else { path.to_string() }
}

fn type_name(value: Raw<'_>) -> &'static str {
    match value.kind() {
        JsonKind::Object => "fields",
        JsonKind::Array => "a list",
        JsonKind::String => "text",
        JsonKind::Number => "a number",
        JsonKind::Bool => "true or false",
        JsonKind::Null => "nothing",
    }
}

/// Explains fields of older versions.
fn migration_hint(name: &str) -> Option<&'static str> {
    Some(match name {
        "storageConfig" => "the mirror needs no separate storage: remove it",
        "headsOnly" => "heads are the default without 'full: true' or a range: remove it",
        "targetName" => "write targetCatalog",
        "minBundle" => "write minVersion, with the version of the bundle",
        "bundles" => "write minVersion and maxVersion with the same version for a single bundle",
        _ => return None,
    })
}
