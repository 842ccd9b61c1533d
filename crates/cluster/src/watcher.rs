//! Who hears how things go.

/// Hears of steps done and of the state that objects are in.
pub trait Watcher: Send + Sync {
    /// Hears that something was done.
    fn done(&self, text: &str);
    /// Hears what the user should know.
    fn warn(&self, text: &str);
    /// Hears what an object is at just now; an empty state means that it needs no more attention.
    fn state(&self, object: &str, state: &str);
    /// Hears of a request before it is sent.
    fn request(&self, what: &str);
}

/// Somebody who does not want to know.
pub(crate) struct Quiet;

impl Watcher for Quiet {
    fn done(&self, _: &str) {}
    fn warn(&self, _: &str) {}
    fn state(&self, _: &str, _: &str) {}
    fn request(&self, _: &str) {}
}
