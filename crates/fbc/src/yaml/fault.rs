//! Why a document cannot be converted.

/// Why a document cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlFault {
    /// It violates the syntax, in the words of the parser.
    #[error("{0}")]
    Syntax(&'static str),
    /// A tab is part of the indentation; in the words of the parser.
    #[error("{0}")]
    Tab(&'static str),
    /// It is not UTF-8; in the words of the parser.
    #[error("{0}")]
    NotUtf8(&'static str),
    /// It is of another version of YAML.
    #[error("found incompatible YAML document")]
    Version,
    /// Another document follows.
    #[error("there is text after the end of the document")]
    Trailing,
    /// No node has this anchor.
    #[error("unknown anchor '{0}' referenced")]
    UnknownAnchor(String),
    /// The node with this anchor is still open.
    #[error("anchor '{0}' value contains itself")]
    Recursive(String),
    /// A collection is the key of a mapping.
    #[error("invalid map key: a mapping or sequence")]
    CollectionKey,
    /// Null is the key of a mapping.
    #[error("unsupported map key: null")]
    NullKey,
    /// The value of a merge key has no members.
    #[error("map merge requires map or sequence of maps as the value")]
    Merge,
    /// A number that JSON lacks.
    #[error("json: unsupported value: {0}")]
    NotFinite(&'static str),
    /// A value after `!!binary` is not base64.
    #[error("!!binary value contains invalid base64 data")]
    NotBase64,
    /// A value does not have the type of its tag.
    #[error("cannot decode !!{found} `{text}` as a !!{tag}")]
    Tag {
        /// The type of the value.
        found: &'static str,
        /// The value.
        text: String,
        /// The expected type.
        tag: String,
    },
    /// Aliases make the document too large.
    #[error("document contains excessive aliasing")]
    Aliasing,
    /// The nodes with anchors are too large.
    #[error("document contains excessive anchors")]
    Anchors,
    /// The JSON is larger than this number of bytes.
    #[error("document is larger than {0} bytes")]
    TooLarge(usize),
    /// There are more values than this.
    #[error("document has more than {0} values")]
    TooManyValues(usize),
    /// It is nested deeper than this.
    #[error("document is nested more than {0} levels deep")]
    TooDeep(usize),
}

impl YamlFault {
    /// Classifies a problem of the parser, which has no codes for them.
    pub(super) fn of_parser(problem: &'static str) -> YamlFault {
        match problem {
            "found a tab character that violates indentation"
            | "found a tab character where an indentation space is expected" => YamlFault::Tab(problem),
            "invalid leading UTF-8 octet"
            | "incomplete UTF-8 octet sequence"
            | "invalid trailing UTF-8 octet"
            | "invalid length of a UTF-8 sequence"
            | "found an incorrect leading UTF-8 octet"
            | "found an incorrect trailing UTF-8 octet" => YamlFault::NotUtf8(problem),
            _ => YamlFault::Syntax(problem),
        }
    }
}
