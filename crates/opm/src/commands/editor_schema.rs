//! The comment that names the schema of a YAML file for editors.

use fbc::Format;

use crate::exit::Failure;

/// Flags of commands that print files to edit by hand.
#[derive(clap::Args)]
pub(crate) struct EditorFlags {
    /// Start with a comment that names this schema for editors; requires -o yaml ('opm schema' prints schemas)
    #[arg(long, value_name = "FILE|URL")]
    editor_schema: Option<String>,
}

impl EditorFlags {
    /// Returns the comment line to print first, or an empty string without the flag.
    pub(crate) fn comment(&self, format: Option<Format>) -> Result<String, Failure> {
        let Some(place) = &self.editor_schema else { return Ok(String::new()) };
        if format != Some(Format::Yaml) {
            return Err(Failure::usage("--editor-schema requires -o yaml: JSON has no comments"));
        }
        if place.is_empty() || place.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Failure::usage(format!("--editor-schema {place:?}: expected a file or URL without spaces")));
        }
        Ok(format!("# yaml-language-server: $schema={place}\n"))
    }
}
