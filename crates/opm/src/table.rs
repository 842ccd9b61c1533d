//! Tables for people, and for spreadsheets.

/// Lays rows out in columns, each as wide as its widest cell and two spaces; the last is not padded.
pub(crate) fn text(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let mut widths = vec![0; headings.len()];
    let all = || std::iter::once(&headings).chain(&rows);
    for row in all() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in all() {
        for (i, cell) in row.iter().enumerate() {
            out.push_str(cell);
            if i + 1 < row.len() {
                let padding = widths[i] + 2 - cell.chars().count();
                out.extend(std::iter::repeat_n(' ', padding));
            }
        }
        out.push('\n');
    }
    out
}

/// Writes rows as comma-separated values, quoted where needed.
pub(crate) fn csv(columns: &[String], rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    for row in std::iter::once(&columns.to_vec()).chain(rows) {
        let cells: Vec<String> = row.iter().map(|cell| csv_cell(cell)).collect();
        out += &cells.join(",");
        out += "\r\n";
    }
    out
}

fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Makes a heading of a field name: `skipRange` becomes `SKIP RANGE`.
pub(crate) fn heading(field: &str) -> String {
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
        assert_eq!(text(&["A", "B"], rows), "A     B\né     b\nlong  \n");
    }

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        assert_eq!(csv(&["a".into()], &[vec!["x,\"y\"".into()]]), "a\r\n\"x,\"\"y\"\"\"\r\n");
        assert_eq!(heading("skipRange"), "SKIP RANGE");
    }
}
