//! Patterns for the small grammars inside fields, restricted to syntax that every JSON Schema validator supports.

/// A semantic version of three numbers.
pub(crate) const VERSION: &str = concat!(
    r"^(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)",
    r"(?:-(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?",
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$",
);

/// The release of a bundle, or an empty string.
pub(crate) const RELEASE: &str = concat!(
    r"^(?=.{0,20}$)(?:(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)",
    r"(?:\.(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?$",
);

/// A DNS label.
pub(crate) const LABEL: &str = "^(?=.{1,63}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$";

/// The characters of a version range, or an empty string. Only a parser can decide whether the range is valid.
pub(crate) const RANGE: &str = r"^(?:$|(?=.*[0-9x]\.[0-9x])[-<>=!| 0-9A-Za-z.+]+$)";

/// A relative path.
pub(crate) const RELATIVE: &str = "^(?!/)";

/// The pull spec of an image, or an empty string.
pub(crate) const PULL_SPEC: &str = concat!(
    "^(?:$|(?![a-f0-9]{64}$)",
    r"(?:(?:[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?)+(?::[0-9]+)?",
    r"|[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?:[0-9]+|localhost)/)?",
    r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*",
    r"(?::[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?",
    "(?:@(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}))?$)",
);

/// Base64, with line breaks anywhere.
pub(crate) const BASE64: &str = concat!(
    r"^[\r\n]*(?:(?:[A-Za-z0-9+/][\r\n]*){4})*",
    r"(?:(?:[A-Za-z0-9+/][\r\n]*){2}=[\r\n]*=[\r\n]*|(?:[A-Za-z0-9+/][\r\n]*){3}=[\r\n]*)?$",
);
