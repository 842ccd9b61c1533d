//! Receives progress reports.

/// Receives completed steps and the state of objects.
pub trait Watcher: Send + Sync {
    /// A step is done.
    fn done(&self, text: &str);
    /// A warning for the user.
    fn warn(&self, text: &str);
    /// The current state of an object; an empty state means that it is done.
    fn state(&self, object: &str, state: &str);
    /// A request is about to be sent.
    fn request(&self, what: &str);
}

/// Ignores all reports.
pub(crate) struct NoReports;

impl Watcher for NoReports {
    fn done(&self, _: &str) {}
    fn warn(&self, _: &str) {}
    fn state(&self, _: &str, _: &str) {}
    fn request(&self, _: &str) {}
}
