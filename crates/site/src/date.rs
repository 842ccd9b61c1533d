//! Dates in catalogs.

/// A parsed date: year, month, day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub u16, pub u8, pub u8);

impl Day {
    /// Parses RFC 3339, or anything that starts with `YYYY-MM-DD`.
    pub fn read(text: &str) -> Option<Day> {
        let text = text.trim();
        let bytes = text.as_bytes();
        let digits = |range: std::ops::Range<usize>| -> Option<u16> {
            let part = bytes.get(range)?;
            part.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(part).ok()?.parse().ok()).flatten()
        };
        if bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') || bytes.get(10).is_some_and(u8::is_ascii_digit) {
            return None;
        }
        let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
        let valid = (1970..2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        valid.then_some(Day(year, month as u8, day as u8))
    }

    /// Returns the year.
    pub fn year(self) -> u16 {
        self.0
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_parsed_and_other_text_is_unknown() {
        let day = |text| Day::read(text).map(|day| day.to_string());
        assert_eq!(day("2020-02-03T10:11:12Z").as_deref(), Some("2020-02-03"));
        assert_eq!(day(" 2020-02-03 10:00 ").as_deref(), Some("2020-02-03"));
        for wrong in ["", "2020", "2020-2-3", "2020-13-01", "1919-01-01", "2020-01-011", "Feb 3, 2020", "２020-01-01"]
        {
            assert_eq!(day(wrong), None, "{wrong}");
        }
    }
}
