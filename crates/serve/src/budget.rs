//! Divides the open files that the system allows among connections.

use crate::server::ServerLimits;
use crate::slots::RESERVE;

/// Files reserved for other uses than connections.
const OTHER_FILES: usize = 64;
/// HTTP gets at most one in this many files.
const HTTP_PART: usize = 4;

/// Connections per protocol, so that neither can starve the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionBudget {
    pub(crate) grpc: usize,
    pub(crate) http: usize,
}

impl ConnectionBudget {
    /// Connections to the debug port.
    pub(crate) const DEBUG: usize = 16;

    /// Divides the open files of the system, at most as requested.
    pub(crate) fn of(grpc: usize, http: usize) -> ConnectionBudget {
        ConnectionBudget::within(open_files(), grpc, http)
    }

    fn within(files: usize, grpc: usize, http: usize) -> ConnectionBudget {
        // The gRPC port, the debug port and the HTTP port each have a reserve.
        let reserved = OTHER_FILES + ConnectionBudget::DEBUG + 2 * RESERVE + if http > 0 { RESERVE } else { 0 };
        let files = files.saturating_sub(reserved);
        let both = grpc.saturating_add(http) <= files;
        let http = if both { http } else { http.min(files / HTTP_PART) };
        ConnectionBudget { grpc: grpc.min(files - http.min(files)).max(1), http: http.max(1) }
    }

    /// Returns `limits` with the number of connections capped by the budget.
    pub(crate) fn limits(&self, limits: &ServerLimits) -> ServerLimits {
        ServerLimits { connections: self.grpc, ..limits.clone() }
    }
}

/// Returns the limit of open files of this process.
fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    files.and_then(|files| files.parse::<usize>().ok()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_protocol_starves_the_other() {
        let within = |files, grpc, http| {
            let budget = ConnectionBudget::within(files, grpc, http);
            (budget.grpc, budget.http)
        };
        assert_eq!(within(usize::MAX, 4096, 1024), (4096, 1024));
        assert_eq!(within(1_048_576, 4096, 1024), (4096, 1024));
        let (grpc, http) = within(1024, 4096, 1024);
        assert!(grpc + http + OTHER_FILES + ConnectionBudget::DEBUG + 3 * RESERVE <= 1024 && http >= 200 && grpc > 600);
        assert_eq!(within(10, 4096, 1024), (1, 1));
        assert_eq!(within(1024, 100, 0).0, 100);
    }
}
