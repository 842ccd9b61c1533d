//! Shell quoting.

/// Quotes a word for a shell, if needed.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@+=%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_parses_the_quoted_word() {
        assert_eq!(quoted("etcd@stable=1.0.0"), "etcd@stable=1.0.0");
        assert_eq!(quoted(">=1 <2"), "'>=1 <2'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
