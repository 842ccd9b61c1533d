//! Renders the file of a template.

use std::path::Path;

use fbc::fault::{Class, Fault};
use fbc::stream::StreamError;
use fbc::{Fbc, Limits};

use super::{Bundles, Template, TemplateError, TemplateKind, is_plain, line_of, relative_to, render, render_basic};

/// The file of a template.
#[derive(Debug, Clone, Copy)]
pub struct TemplateFile<'a> {
    /// Its path; relative bundle directories start at its directory.
    pub name: &'a str,
    pub text: &'a [u8],
    /// The kind that it must have; `None` to detect it from the schema.
    pub kind: Option<TemplateKind>,
    /// Whether a basic template can be a plain catalog, its legacy form.
    pub plain: bool,
}

/// Why the file of a template cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum TemplateFileError {
    #[error("{doing}: {file}:{line}: {source}")]
    Syntax { doing: &'static str, file: String, line: usize, source: StreamError },
    /// The schema is that of no template; the error has its position.
    #[error("{DETECTING}: {0}")]
    Kind(String),
    /// The template is invalid; the error has its position.
    #[error("{RENDERING}: {0}")]
    Invalid(String),
    /// The legacy form is invalid.
    #[error("{RENDERING}: {0}")]
    Plain(TemplateError),
}

const RENDERING: &str = "rendering template";
const DETECTING: &str = "auto-detecting template type";

impl Fault for TemplateFileError {
    fn class(&self) -> Class {
        Class::Refused
    }
}

impl TemplateFile<'_> {
    /// Renders the catalog.
    ///
    /// # Errors
    /// Fails if the file is no template of the kind, or a bundle cannot be rendered.
    pub fn render(&self, limits: &Limits, bundles: &mut Bundles<'_>) -> Result<Fbc, TemplateFileError> {
        let TemplateFile { name, text, kind, plain } = *self;
        let template = Template::parse(text, limits).map_err(|source| TemplateFileError::Syntax {
            doing: if kind.is_some() { RENDERING } else { DETECTING },
            file: name.to_owned(),
            line: line_of(text, source.offset),
            source,
        })?;
        let mut bundles = relative_to(Path::new(name), bundles);
        if plain && kind.is_none_or(|kind| kind == TemplateKind::Basic) && is_plain(&template) {
            return render_basic(text, limits, &mut bundles).map_err(TemplateFileError::Plain);
        }
        let kind = kind.map_or_else(|| template.kind(), Ok);
        let kind = kind.map_err(|error| TemplateFileError::Kind(error.located(name, text)))?;
        let rendered = render(&template, kind, limits, &mut bundles);
        rendered.map_err(|error| TemplateFileError::Invalid(error.located(name, text)))
    }
}
