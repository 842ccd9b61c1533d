//! Templates for bundle image references.

/// A template for the image references of bundles, such as `quay.io/me/{{.Package}}:v{{.Version}}`.
///
/// It supports the useful subset of the existing tool's templates: text, the fields `.Package`, `.Name` and `.Version`,
/// comments, and the trim markers `{{-` and `-}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageTemplate {
    parts: Vec<TemplatePart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Field(TemplateField),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplateField {
    Package,
    Name,
    Version,
}

/// The reason why a template is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid image reference template: {message}")]
pub struct TemplateSyntaxError {
    message: String,
}

impl ImageTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// Fails if braces do not match, or contain anything but a field or a comment.
    pub fn parse(text: &str) -> Result<ImageTemplate, TemplateSyntaxError> {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut trim_next = false;
        loop {
            let (before, action) = match rest.split_once("{{") {
                None => (rest, None),
                Some((before, action)) => (before, Some(action)),
            };
            let action = action.map(Action::read).transpose()?;
            let mut before = if trim_next { before.trim_start_matches(SPACE) } else { before };
            if action.as_ref().is_some_and(|action| action.trim_before) {
                before = before.trim_end_matches(SPACE);
            }
            if !before.is_empty() {
                parts.push(TemplatePart::Text(before.to_owned()));
            }
            let Some(action) = action else { return Ok(ImageTemplate { parts }) };
            parts.extend(action.field.map(TemplatePart::Field));
            trim_next = action.trim_after;
            rest = action.rest;
        }
    }

    /// Fills in the template.
    pub(crate) fn fill(&self, package: &str, name: &str, version: &str) -> String {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Field(TemplateField::Package) => package.to_owned(),
            TemplatePart::Field(TemplateField::Name) => name.to_owned(),
            TemplatePart::Field(TemplateField::Version) => version.to_owned(),
        };
        self.parts.iter().map(part).collect()
    }
}

/// The whitespace characters of templates.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// The content between `{{` and `}}`, and the text after it.
struct Action<'a> {
    field: Option<TemplateField>,
    trim_before: bool,
    trim_after: bool,
    rest: &'a str,
}

impl Action<'_> {
    /// Parses an action from the text after its opening braces.
    fn read(text: &str) -> Result<Action<'_>, TemplateSyntaxError> {
        let fail = |message: String| Err(TemplateSyntaxError { message });
        let Some((inside, rest)) = text.split_once("}}") else {
            return fail(format!("unclosed action {:?}", format!("{{{{{text}")));
        };
        // A minus trims only if a space separates it from the rest; otherwise it could be a sign.
        let opened = inside.strip_prefix('-').filter(|rest| rest.starts_with(SPACE));
        let closed = opened.unwrap_or(inside).strip_suffix('-').filter(|rest| rest.ends_with(SPACE));
        let word = closed.or(opened).unwrap_or(inside).trim_matches(SPACE);
        let field = match word {
            ".Package" => Some(TemplateField::Package),
            ".Name" => Some(TemplateField::Name),
            ".Version" => Some(TemplateField::Version),
            "" => return fail("missing value for command".into()),
            comment if comment.starts_with("/*") && comment.ends_with("*/") && comment.len() >= 4 => None,
            other => {
                return match other.strip_prefix('.') {
                    Some(field) if field.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                        fail(format!("can't evaluate field {field}, expected one of .Package, .Name and .Version"))
                    }
                    _ => fail(format!("unexpected {other:?}, expected one of .Package, .Name and .Version")),
                };
            }
        };
        Ok(Action { field, trim_before: opened.is_some(), trim_after: closed.is_some(), rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str) -> String {
        match ImageTemplate::parse(template) {
            Ok(template) => template.fill("p", "p.v1", "1"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn template_fields_are_replaced() {
        assert_eq!(filled("r/{{.Package}}/{{ .Name }}:v{{\t.Version\n}}"), "r/p/p.v1:v1");
        assert_eq!(filled("constant"), "constant");
        assert_eq!(filled("a {{- .Name -}} b{{- /* nothing */ -}} c"), "ap.v1bc");
        assert_eq!(filled("{{.Name}}}}{"), "p.v1}}{");
    }

    #[test]
    fn invalid_templates_are_reported() {
        insta::assert_snapshot!(filled("r/{{.Package"), @r#"invalid image reference template: unclosed action "{{.Package""#);
        insta::assert_snapshot!(filled("r/{{.Nope}}"), @"invalid image reference template: can't evaluate field Nope, expected one of .Package, .Name and .Version");
        insta::assert_snapshot!(filled("{{ }}"), @"invalid image reference template: missing value for command");
        insta::assert_snapshot!(filled("{{printf .Name}}"), @r#"invalid image reference template: unexpected "printf .Name", expected one of .Package, .Name and .Version"#);
        insta::assert_snapshot!(filled("{{-.Name}}"), @r#"invalid image reference template: unexpected "-.Name", expected one of .Package, .Name and .Version"#);
    }
}
