//! GitHub workflow commands, which annotate files with messages.

/// An annotation.
pub struct Annotation<'a> {
    /// `error` or `warning`.
    pub level: &'a str,
    /// The annotated file.
    pub file: Option<&'a str>,
    /// The line in that file, and the column if known.
    pub line: Option<(u64, Option<u64>)>,
    /// The title.
    pub title: &'a str,
    /// The message.
    pub message: &'a str,
}

impl Annotation<'_> {
    /// Formats the command as one line.
    pub fn line(&self) -> String {
        let escape = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        let property = |text: &str| escape(text).replace(':', "%3A").replace(',', "%2C");
        let mut properties = Vec::new();
        properties.extend(self.file.map(|file| format!("file={}", property(file))));
        properties.extend(self.line.map(|(line, column)| match column {
            Some(column) => format!("line={line},col={column}"),
            None => format!("line={line}"),
        }));
        properties.push(format!("title={}", property(self.title)));
        format!("::{} {}::{}\n", self.level, properties.join(","), escape(self.message))
    }
}
