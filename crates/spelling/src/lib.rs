//! What others have laid down how to write: times, durations, names in addresses, text in markup, words of a shell.
//!
//! Every crate may use this one, so that each of these is written once.

pub mod calendar;
pub mod duration;
pub mod html;
pub mod percent;
pub mod shell;
