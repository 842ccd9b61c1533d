//! What a caller hears while sources are opened.

/// Receives progress and warnings.
pub trait Progress: Send + Sync {
    /// A stage starts. It ends when the returned value is dropped.
    fn start(&self, stage: Stage) -> Box<dyn Running>;

    /// Something is probably wrong, but not fatal.
    fn warn(&self, warning: &str);
}

/// A stage that runs.
pub trait Running: Send + Sync {
    /// More work is done: bytes, or bundles.
    fn advance(&self, by: u64);
}

/// What takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
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
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _: Stage) -> Box<dyn Running> {
        Box::new(Silent)
    }

    fn warn(&self, _: &str) {}
}

impl Running for Silent {
    fn advance(&self, _: u64) {}
}
