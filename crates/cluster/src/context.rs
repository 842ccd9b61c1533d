//! What work on a cluster needs.

use std::time::Instant;

use crate::request::Requests;
use crate::{Cluster, Watcher};

/// What work on a cluster needs: where it happens, until when, and to whom it reports.
#[derive(Clone, Copy)]
pub struct WorkContext<'a> {
    pub cluster: &'a Cluster,
    pub deadline: Instant,
    pub watcher: &'a dyn Watcher,
}

impl<'a> WorkContext<'a> {
    pub(crate) fn requests(&self) -> Requests<'a> {
        Requests::new(self.cluster, self.watcher, self.deadline)
    }
}
