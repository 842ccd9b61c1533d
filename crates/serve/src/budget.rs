//! How many connections there can be: the system allows only so many open files.

use crate::http::RESERVE;
use crate::server::ServerLimits;

/// Files that are needed for something else than connections.
const OTHER_FILES: usize = 64;
/// Of what the system allows, HTTP gets no more than this part.
const HTTP_PART: usize = 4;

/// Connections for each kind of client, so that none takes the place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) grpc: usize,
    pub(crate) http: usize,
}

impl Budget {
    /// Connections to the port that shows the state of the server.
    pub(crate) const DEBUG: usize = 16;

    /// Divides what the system allows, at most as wanted.
    pub(crate) fn of(grpc: usize, http: usize) -> Budget {
        Budget::within(open_files(), grpc, http)
    }

    fn within(files: usize, grpc: usize, http: usize) -> Budget {
        let reserved = OTHER_FILES + Budget::DEBUG + RESERVE + if http > 0 { RESERVE } else { 0 };
        let files = files.saturating_sub(reserved);
        let both = grpc.saturating_add(http) <= files;
        let http = if both { http } else { http.min(files / HTTP_PART) };
        Budget { grpc: grpc.min(files - http.min(files)).max(1), http: http.max(1) }
    }

    /// Returns `limits` with no more connections than there is room for.
    pub(crate) fn limits(&self, limits: &ServerLimits) -> ServerLimits {
        ServerLimits { connections: self.grpc, ..limits.clone() }
    }
}

/// Returns how many files the system lets this process open.
fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    files.and_then(|files| files.parse::<usize>().ok()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_the_files_of_another() {
        let within = |files, grpc, http| {
            let budget = Budget::within(files, grpc, http);
            (budget.grpc, budget.http)
        };
        assert_eq!(within(usize::MAX, 4096, 1024), (4096, 1024));
        assert_eq!(within(1_048_576, 4096, 1024), (4096, 1024));
        let (grpc, http) = within(1024, 4096, 1024);
        assert!(grpc + http + OTHER_FILES + Budget::DEBUG + 2 * RESERVE <= 1024 && http >= 200 && grpc > 600);
        assert_eq!(within(10, 4096, 1024), (1, 1));
        assert_eq!(within(1024, 100, 0).0, 100);
    }
}
