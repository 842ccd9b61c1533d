//! The YAML parser: turns text into events.
//!
//! The grammar is that of libyaml, which the existing tools use. Only this file accesses it; the rest of the crate uses
//! [`YamlEvent`].

#![expect(unsafe_code, reason = "the parser is a translation of a C library with a C interface")]

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use unsafe_libyaml as unsafe_yaml;

use super::fault::YamlFault;

/// A part of a document, as the parser encounters it.
///
/// Text is borrowed from the parser until the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YamlEvent<'p> {
    DocumentStart {
        /// The version of a `%YAML` directive, if there is one.
        version: Option<(i32, i32)>,
    },
    DocumentEnd,
    /// There are no more documents.
    StreamEnd,
    /// A node given by reference to an anchor.
    Alias(&'p str),
    Scalar(Scalar<'p>),
    SequenceStart {
        /// The anchor of the sequence.
        anchor: Option<&'p str>,
    },
    /// The innermost open sequence ends.
    SequenceEnd,
    MappingStart {
        /// The anchor of the mapping.
        anchor: Option<&'p str>,
    },
    /// The innermost open mapping ends.
    MappingEnd,
}

/// A scalar as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scalar<'p> {
    /// The text, quotes and folding resolved.
    pub text: &'p str,
    /// The tag in its long form.
    pub tag: Option<&'p str>,
    /// Whether the text alone determines the type: it is plain, or tagged `!`.
    pub plain: bool,
    /// The anchor of the scalar.
    pub anchor: Option<&'p str>,
}

/// The byte range of the text that an event covers.
pub type Span = std::ops::Range<usize>;

/// An error in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlSyntaxError {
    /// The byte offset of the error.
    pub offset: usize,
    /// What is wrong there.
    pub fault: YamlFault,
    /// What the parser was reading, with its start as a byte offset.
    pub context: Option<(usize, &'static str)>,
}

impl YamlSyntaxError {
    /// Creates a fault without context.
    pub fn new(offset: usize, fault: YamlFault) -> YamlSyntaxError {
        YamlSyntaxError { offset, fault, context: None }
    }
}

/// Turns one text into events.
pub struct Parser<'a> {
    // On the heap and accessed only through this pointer, because the parser contains a pointer to itself.
    parser: NonNull<unsafe_yaml::yaml_parser_t>,
    event: MaybeUninit<unsafe_yaml::yaml_event_t>,
    /// The length of a byte order mark, which the parser does not count.
    skipped: usize,
    /// Whether `\/` occurs anywhere in the text.
    has_slash_escape: bool,
    text: &'a [u8],
}

impl<'a> Parser<'a> {
    /// Starts reading `text`.
    pub fn new(text: &'a [u8]) -> Parser<'a> {
        let parser: NonNull<unsafe_yaml::yaml_parser_t> =
            NonNull::from(Box::leak(Box::new(MaybeUninit::<unsafe_yaml::yaml_parser_t>::uninit()))).cast();
        // SAFETY: the pointer is valid for writes of a whole parser; the call initializes it
        // (it cannot fail: allocation failure aborts). The input pointer is not null, is valid
        // for `text.len()` bytes, and `text` outlives the parser by the lifetime 'a.
        unsafe {
            let _ = unsafe_yaml::yaml_parser_initialize(parser.as_ptr());
            unsafe_yaml::yaml_parser_set_input_string(parser.as_ptr(), text.as_ptr(), text.len() as u64);
        }
        let skipped = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let has_slash_escape = memchr::memmem::find(text, b"\\/").is_some();
        Parser { parser, event: MaybeUninit::zeroed(), skipped, has_slash_escape, text }
    }

    /// Returns the next event and its span.
    ///
    /// There are no events after [`YamlEvent::StreamEnd`] or a fault.
    ///
    /// # Errors
    /// Fails if the text is not YAML.
    pub fn next_event(&mut self) -> Result<(YamlEvent<'_>, Span), YamlSyntaxError> {
        loop {
            let event = self.event.as_mut_ptr();
            // SAFETY: the event is either all zero (which is what an event of no type looks like)
            // or was filled by the parser; deleting frees what it owns and zeroes it. The parser
            // was initialized in `new` and fills the event anew, or leaves it zeroed on failure.
            // Nothing borrowed from the previous event is left: `self` is borrowed mutably.
            let parsed = unsafe {
                unsafe_yaml::yaml_event_delete(event);
                unsafe_yaml::yaml_parser_parse(self.parser.as_ptr(), event).ok
            };
            if !parsed {
                return Err(self.fault());
            }
            // SAFETY: a successful parse has filled the event; all-zero is valid for it, too.
            if unsafe { (*event).type_ } != unsafe_yaml::YAML_STREAM_START_EVENT {
                break;
            }
        }
        // SAFETY: as above; the reference lives as long as the borrow of `self`.
        let event = unsafe { self.event.assume_init_ref() };
        let span = self.place(event.start_mark)..self.place(event.end_mark);
        let start = span.start;
        // SAFETY: each arm reads the part of the union that belongs to the type of the event.
        // The pointers in it are null or point to zero-terminated text owned by the event; a
        // scalar's text has the stated length.
        let event = unsafe {
            match event.type_ {
                unsafe_yaml::YAML_SCALAR_EVENT => {
                    let scalar = &event.data.scalar;
                    let bytes = std::slice::from_raw_parts(scalar.value, scalar.length as usize);
                    if self.has_slash_escape && scalar.style == unsafe_yaml::YAML_DOUBLE_QUOTED_SCALAR_STYLE {
                        self.check_escapes(&span)?;
                    }
                    YamlEvent::Scalar(Scalar {
                        text: self.checked(bytes, start)?,
                        tag: self.name(scalar.tag, start)?.filter(|&tag| tag != "!"),
                        plain: scalar.plain_implicit,
                        anchor: self.name(scalar.anchor, start)?,
                    })
                }
                unsafe_yaml::YAML_MAPPING_START_EVENT => {
                    YamlEvent::MappingStart { anchor: self.name(event.data.mapping_start.anchor, start)? }
                }
                unsafe_yaml::YAML_MAPPING_END_EVENT => YamlEvent::MappingEnd,
                unsafe_yaml::YAML_SEQUENCE_START_EVENT => {
                    YamlEvent::SequenceStart { anchor: self.name(event.data.sequence_start.anchor, start)? }
                }
                unsafe_yaml::YAML_SEQUENCE_END_EVENT => YamlEvent::SequenceEnd,
                unsafe_yaml::YAML_ALIAS_EVENT => {
                    YamlEvent::Alias(self.name(event.data.alias.anchor, start)?.unwrap_or_default())
                }
                unsafe_yaml::YAML_DOCUMENT_START_EVENT => {
                    let version = event.data.document_start.version_directive.as_ref();
                    YamlEvent::DocumentStart { version: version.map(|version| (version.major, version.minor)) }
                }
                unsafe_yaml::YAML_DOCUMENT_END_EVENT => YamlEvent::DocumentEnd,
                _ => YamlEvent::StreamEnd,
            }
        };
        Ok((event, span))
    }

    /// Returns the zero-terminated text at `pointer`, or `None` if it is null.
    ///
    /// # Safety
    /// The pointer is null or points to zero-terminated text owned by the current event.
    unsafe fn name(&self, pointer: *const u8, at: usize) -> Result<Option<&str>, YamlSyntaxError> {
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: not null, and zero-terminated as promised by the caller; the event lives as
        // long as the borrow of `self`.
        let bytes = unsafe { CStr::from_ptr(pointer.cast()) }.to_bytes();
        self.checked(bytes, at).map(Some)
    }

    /// The parser validates its input, so this fails at most for unusual escapes in tags.
    fn checked<'t>(&self, bytes: &'t [u8], at: usize) -> Result<&'t str, YamlSyntaxError> {
        std::str::from_utf8(bytes).map_err(|_| YamlSyntaxError::new(at, YamlFault::NotUtf8("invalid UTF-8")))
    }

    /// Rejects `\/` in a double-quoted scalar: YAML 1.1 lacks that escape, and the existing tools do not load a file
    /// with it.
    #[cold]
    fn check_escapes(&self, span: &Span) -> Result<(), YamlSyntaxError> {
        let source = self.text.get(span.clone()).unwrap_or_default();
        let mut at = memchr::memchr(b'"', source).unwrap_or(source.len());
        while let Some(next) = source.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
            at += next;
            if source.get(at + 1) == Some(&b'/') {
                return Err(YamlSyntaxError {
                    offset: span.start + at,
                    fault: YamlFault::Syntax("found unknown escape character"),
                    context: Some((span.start, "while parsing a quoted scalar")),
                });
            }
            at += 2;
        }
        Ok(())
    }

    #[cold]
    fn fault(&self) -> YamlSyntaxError {
        // SAFETY: the parser was initialized in `new`.
        let parser = unsafe { self.parser.as_ref() };
        let text = |pointer: *const i8| -> Option<&'static str> {
            // SAFETY: problems and contexts are null or static zero-terminated texts.
            (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer.cast()) })?.to_str().ok()
        };
        let reading = parser.error == unsafe_yaml::YAML_READER_ERROR;
        YamlSyntaxError {
            offset: if reading { parser.problem_offset as usize } else { self.place(parser.problem_mark) },
            fault: YamlFault::of_parser(text(parser.problem).unwrap_or("unknown problem")),
            context: text(parser.context).map(|context| (self.place(parser.context_mark), context)),
        }
    }

    fn place(&self, mark: unsafe_yaml::yaml_mark_t) -> usize {
        mark.index as usize + self.skipped
    }
}

impl Drop for Parser<'_> {
    fn drop(&mut self) {
        // SAFETY: both were initialized in `new` (an all-zero event is a valid one) and are
        // not used afterwards. The memory of the parser came from a box of the same layout.
        unsafe {
            unsafe_yaml::yaml_event_delete(self.event.as_mut_ptr());
            unsafe_yaml::yaml_parser_delete(self.parser.as_ptr());
            drop(Box::from_raw(self.parser.cast::<MaybeUninit<unsafe_yaml::yaml_parser_t>>().as_ptr()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> String {
        let mut parser = Parser::new(text.as_bytes());
        let mut shown = String::new();
        loop {
            match parser.next_event() {
                Ok((YamlEvent::StreamEnd, ..)) => return shown,
                Ok((event, range)) => {
                    shown += &match event {
                        YamlEvent::Scalar(scalar) => format!(
                            "{}{}{}{:?} at {:?}\n",
                            scalar.anchor.map(|a| format!("&{a} ")).unwrap_or_default(),
                            scalar.tag.map(|t| format!("<{t}> ")).unwrap_or_default(),
                            if scalar.plain { "plain " } else { "" },
                            scalar.text,
                            &text[range],
                        ),
                        other => format!("{other:?}\n"),
                    };
                }
                Err(fault) => return format!("{shown}{fault:?}"),
            }
        }
    }

    #[test]
    fn each_node_of_a_document_is_an_event() {
        insta::assert_snapshot!(events("é: [&x 'ü', *x, !!int \"3\", ! \"4\"]\nb: |\n  text\n"), @r#"
        DocumentStart { version: None }
        MappingStart { anchor: None }
        plain "é" at "é"
        SequenceStart { anchor: None }
        &x "ü" at "&x 'ü'"
        Alias("x")
        <tag:yaml.org,2002:int> "3" at "!!int \"3\""
        plain "4" at "! \"4\""
        SequenceEnd
        plain "b" at "b"
        "text\n" at "|\n  text\n"
        MappingEnd
        DocumentEnd
        "#);
    }

    #[test]
    fn a_version_directive_is_reported() {
        insta::assert_snapshot!(events("%YAML 1.2\n---\n"), @r#"
        DocumentStart { version: Some((1, 2)) }
        plain "" at ""
        DocumentEnd
        "#);
    }

    #[test]
    fn a_fault_is_reported_with_its_context() {
        insta::assert_snapshot!(events("ü: [a\nb: c\n"), @r#"
        DocumentStart { version: None }
        MappingStart { anchor: None }
        plain "ü" at "ü"
        SequenceStart { anchor: None }
        plain "a b" at "a\nb"
        YamlSyntaxError { offset: 8, fault: Syntax("did not find expected ',' or ']'"), context: Some((4, "while parsing a flow sequence")) }
        "#);
    }

    #[test]
    fn forbidden_characters_and_bad_bytes_are_faults() {
        let fault = |text: &[u8]| {
            Parser::new(text).next_event().err().or_else(|| {
                let mut parser = Parser::new(text);
                (0..9).find_map(|_| parser.next_event().err())
            })
        };
        assert_eq!(fault(b"a: \x01").unwrap().fault.to_string(), "control characters are not allowed");
        assert_eq!(fault(b"a: \xff").unwrap().offset, 3);
    }
}
