//! Tables as text and comma-separated values.

use std::iter;

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub headings: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table.
    pub fn new(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
        Table { headings: headings.iter().map(|it| (*it).to_owned()).collect(), rows: rows.into_iter().collect() }
    }

    /// Formats the rows in columns, each as wide as its widest cell plus two spaces; the last is not padded.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let mut out = String::new();
        for row in iter::once(&self.headings).chain(&self.rows) {
            for (i, cell) in row.iter().enumerate() {
                out.push_str(cell);
                if i + 1 < row.len() {
                    let padding = widths[i] + 2 - cell.chars().count();
                    out.extend(iter::repeat_n(' ', padding));
                }
            }
            out.push('\n');
        }
        out
    }

    /// The same without spaces at the ends of lines.
    pub fn trimmed(&self) -> String {
        self.text().lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// Formats the rows to fit `width` characters: truncates the widest columns with `…`.
    pub fn fitted(&self, width: usize) -> String {
        let mut widths = self.widths();
        let least: Vec<usize> = self.headings.iter().map(|heading| heading.chars().count().max(MIN_WIDTH)).collect();
        while widths.iter().map(|it| it + 2).sum::<usize>().saturating_sub(2) > width {
            let wide = widths.iter().enumerate().filter(|(column, it)| **it > least[*column]);
            let Some((column, _)) = wide.max_by_key(|(_, it)| **it) else { break };
            widths[column] -= 1;
        }
        let fit = |row: &Vec<String>| row.iter().zip(&widths).map(|(cell, width)| truncated(cell, *width)).collect();
        Table { headings: self.headings.clone(), rows: self.rows.iter().map(fit).collect() }.text()
    }

    /// Returns the width of each column.
    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.headings.len()];
        for row in iter::once(&self.headings).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

/// The minimum width of a truncated column.
const MIN_WIDTH: usize = 6;

/// Truncates a cell to `width` characters: text at its end, and a name in the middle, because names often differ at
/// their ends, as versions do.
fn truncated(cell: &str, width: usize) -> String {
    let length = cell.chars().count();
    if length <= width {
        return cell.to_owned();
    }
    let kept = width.saturating_sub(1);
    let tail = if cell.contains(' ') { 0 } else { kept * 2 / 3 };
    let (start, end) = (cell.chars().take(kept - tail), cell.chars().skip(length - tail));
    start.chain(['…']).chain(end).collect()
}

/// Formats rows as comma-separated values, quoted where needed.
pub fn csv(columns: &[String], rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    for row in iter::once(&columns.to_vec()).chain(rows) {
        let cells: Vec<String> = row.iter().map(|cell| csv_cell(cell)).collect();
        out += &cells.join(",");
        out += "\r\n";
    }
    out
}

fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Converts a field name to a heading: `skipRange` becomes `SKIP RANGE`.
pub fn heading(field: &str) -> String {
    let mut out = String::new();
    for c in field.chars() {
        if c.is_uppercase() {
            out.push(' ');
        }
        out.extend(c.to_uppercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_in_characters() {
        let rows = vec![vec!["é".into(), "b".into()], vec!["long".into(), String::new()]];
        assert_eq!(Table::new(&["A", "B"], rows).text(), "A     B\né     b\nlong  \n");
    }

    #[test]
    fn the_widest_columns_are_truncated_to_fit() {
        let rows = vec![vec!["short".into(), "a name that is far too long".into(), "another long name".into()]];
        let whole = Table::new(&["A", "B", "C"], rows);
        let table = whole.fitted(40);
        assert_eq!(table, "A      B                 C\nshort  a name that is …  another long n…\n");
        assert!(table.lines().all(|line| line.chars().count() <= 40));
        assert_eq!(whole.fitted(80), whole.text());
        let narrow = Table::new(&["HEADING", "B"], [vec!["x".into(), "a long name".into()]]).fitted(3);
        assert_eq!(narrow, "HEADING  B\nx        a lon…\n");
    }

    #[test]
    fn names_that_differ_at_their_ends_stay_distinct() {
        let rows = ["etcdoperator.v0.9.2", "etcdoperator.v0.9.4"].map(|name| vec![name.to_owned()]).to_vec();
        assert_eq!(Table::new(&["BUNDLE"], rows).fitted(12), "BUNDLE\netcd….v0.9.2\netcd….v0.9.4\n");
    }

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        assert_eq!(csv(&["a".into()], &[vec!["x,\"y\"".into()]]), "a\r\n\"x,\"\"y\"\"\"\r\n");
        assert_eq!(heading("skipRange"), "SKIP RANGE");
    }
}
