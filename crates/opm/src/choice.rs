//! Values of flags.

use std::borrow::Cow;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Parses one of a fixed set of words and returns its value. Help and completion show the words.
///
/// An empty word selects the first, as in Go programs.
pub(crate) fn choice<T: Clone + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let values = words.iter().enumerate().map(|(number, (word, _))| {
        let value = PossibleValue::new(*word);
        if number == 0 { value.alias("") } else { value }
    });
    let parser = PossibleValuesParser::new(values.collect::<Vec<_>>());
    parser.try_map(move |given| {
        let found =
            words.iter().find(|(word, _)| *word == given).or_else(|| words.first().filter(|_| given.is_empty()));
        found.map(|(_, value)| value.clone()).ok_or("no such choice")
    })
}

/// Why the value of a flag is invalid. clap adds the flag and the value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidValue(Cow<'static, str>);

impl From<&'static str> for InvalidValue {
    fn from(reason: &'static str) -> InvalidValue {
        InvalidValue(reason.into())
    }
}

impl From<String> for InvalidValue {
    fn from(reason: String) -> InvalidValue {
        InvalidValue(reason.into())
    }
}
