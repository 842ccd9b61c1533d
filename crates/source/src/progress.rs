//! What a caller hears while sources are opened.

/// Receives progress and warnings.
pub trait SourceProgress: Send + Sync {
    /// A stage starts. It ends when the returned value is dropped.
    fn start(&self, stage: SourceStage) -> Box<dyn RunningStage>;

    /// Something is probably wrong, but not fatal.
    fn warn(&self, warning: &str);
}

/// A stage that runs.
pub trait RunningStage: Send + Sync {
    /// More work is done: bytes, or bundles.
    fn advance(&self, by: u64);
}

/// What takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceStage {
    /// Images are transferred; the name of the activity is given. The client reports the bytes itself.
    Transfer(&'static str),
    /// Images are unpacked, in bytes.
    Unpacking,
    /// Catalogs are read, in bytes.
    Reading,
    /// Bundles are rendered.
    Rendering,
}

/// Ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl SourceProgress for NoProgress {
    fn start(&self, _: SourceStage) -> Box<dyn RunningStage> {
        Box::new(NoProgress)
    }

    fn warn(&self, _: &str) {}
}

impl RunningStage for NoProgress {
    fn advance(&self, _: u64) {}
}
