//! The comment by which editors find the schema of a YAML file.

use fbc::Format;

use crate::exit::Failure;

/// Flags of commands that write files which people edit.
#[derive(clap::Args)]
pub(crate) struct EditorFlags {
    /// Start with the comment by which editors find this schema; needs -o yaml ('opm schema' prints schemas)
    #[arg(long, value_name = "FILE|URL")]
    editor_schema: Option<String>,
}

impl EditorFlags {
    /// Returns the comment, with its line break, to be written before everything else; empty unless it is asked for.
    pub(crate) fn comment(&self, format: Option<Format>) -> Result<String, Failure> {
        let Some(place) = &self.editor_schema else { return Ok(String::new()) };
        if format != Some(Format::Yaml) {
            return Err(Failure::message("--editor-schema needs -o yaml: only YAML has comments"));
        }
        if place.is_empty() || place.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Failure::message(format!(
                "--editor-schema {place:?}: expected a file or an address without spaces"
            )));
        }
        Ok(format!("# yaml-language-server: $schema={place}\n"))
    }
}
