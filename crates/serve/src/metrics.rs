//! Metrics, in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use catalog::query::CatalogCounts;

/// The methods with counters of their own; all others share the last one.
const METHODS: &[&str] = &[
    "api.Registry/ListPackages",
    "api.Registry/GetPackage",
    "api.Registry/GetBundle",
    "api.Registry/GetBundleForChannel",
    "api.Registry/GetChannelEntriesThatReplace",
    "api.Registry/GetBundleThatReplaces",
    "api.Registry/GetChannelEntriesThatProvide",
    "api.Registry/GetLatestChannelEntriesThatProvide",
    "api.Registry/GetDefaultBundleThatProvides",
    "api.Registry/ListBundles",
    "api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas",
    "grpc.health.v1.Health/Check",
    "grpc.health.v1.Health/Watch",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "other",
];

/// Names of status codes.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// Upper bounds of the buckets for durations, in microseconds.
const BUCKETS: [u64; 10] = [100, 250, 500, 1_000, 2_500, 5_000, 25_000, 100_000, 1_000_000, 10_000_000];

/// All metrics of a server.
#[derive(Default)]
pub struct ServerMetrics {
    methods: [Method; METHODS.len()],
    packages: AtomicU64,
    channels: AtomicU64,
    bundles: AtomicU64,
    quarantined: AtomicU64,
    loads: AtomicU64,
    refusals: AtomicU64,
    last_refused: AtomicU64,
    loaded_at: AtomicU64,
    /// Open connections.
    pub(crate) open: AtomicU64,
    /// Accepted connections.
    pub(crate) accepted: AtomicU64,
    /// Connections rejected at the limit.
    pub(crate) turned_away: AtomicU64,
    /// Idle connections closed to make room.
    pub(crate) evicted: AtomicU64,
    /// HTTP requests by status class.
    http: [AtomicU64; 6],
}

#[derive(Default)]
struct Method {
    started: AtomicU64,
    codes: [AtomicU64; CODES.len()],
    buckets: [AtomicU64; BUCKETS.len() + 1],
    microseconds: AtomicU64,
}

/// Returns the index of a method, given its path without the first slash.
pub(crate) fn method(path: &str) -> usize {
    METHODS.iter().position(|method| *method == path).unwrap_or(METHODS.len() - 1)
}

/// Returns the name of a status code.
pub(crate) fn code_name(code: usize) -> &'static str {
    CODES.get(code).copied().unwrap_or("Unknown")
}

impl ServerMetrics {
    pub(crate) fn started(&self, method: usize) {
        self.methods[method].started.fetch_add(1, Relaxed);
    }

    pub(crate) fn finished(&self, method: usize, code: usize, took: Duration) {
        let method = &self.methods[method];
        method.codes[code.min(CODES.len() - 1)].fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|bound| micros <= *bound).unwrap_or(BUCKETS.len());
        method.buckets[bucket].fetch_add(1, Relaxed);
        method.microseconds.fetch_add(micros, Relaxed);
    }

    pub(crate) fn loaded(&self, counts: CatalogCounts, quarantined: usize) {
        self.packages.store(counts.packages as u64, Relaxed);
        self.channels.store(counts.channels as u64, Relaxed);
        self.bundles.store(counts.bundles as u64, Relaxed);
        self.quarantined.store(quarantined as u64, Relaxed);
        self.last_refused.store(0, Relaxed);
        self.loads.fetch_add(1, Relaxed);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.loaded_at.store(now, Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refusals.fetch_add(1, Relaxed);
        self.last_refused.store(1, Relaxed);
    }

    pub(crate) fn clear_stale(&self) {
        self.last_refused.store(0, Relaxed);
    }

    pub(crate) fn http(&self, status: u16) {
        self.http[usize::from(status / 100).min(5)].fetch_add(1, Relaxed);
    }

    /// Returns all metrics in the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut one = |name: &str, kind: &str, help: &str, value: &AtomicU64| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {}", value.load(Relaxed));
        };
        one("opm_catalog_packages", "gauge", "Served packages.", &self.packages);
        one("opm_catalog_channels", "gauge", "Served channels.", &self.channels);
        one("opm_catalog_bundles", "gauge", "Served bundles.", &self.bundles);
        one(
            "opm_catalog_packages_left_out",
            "gauge",
            "Packages quarantined because they are invalid.",
            &self.quarantined,
        );
        one("opm_catalog_loads_total", "counter", "Catalogs loaded since the server started.", &self.loads);
        one("opm_catalog_refused_total", "counter", "Refused updates.", &self.refusals);
        one("opm_catalog_stale", "gauge", "1 if the last update was refused, else 0.", &self.last_refused);
        one(
            "opm_catalog_loaded_timestamp_seconds",
            "gauge",
            "Unix time at which the catalog was loaded.",
            &self.loaded_at,
        );
        one("opm_connections", "gauge", "Open connections.", &self.open);
        one("opm_connections_total", "counter", "Accepted connections.", &self.accepted);
        one("opm_connections_turned_away_total", "counter", "Connections rejected at the limit.", &self.turned_away);
        one("opm_connections_evicted_total", "counter", "Idle connections closed to make room.", &self.evicted);
        self.calls(&mut out);
        out
    }

    fn calls(&self, out: &mut String) {
        let split = |name: &'static str| name.split_once('/').unwrap_or((name, ""));
        let used = || METHODS.iter().zip(&self.methods).filter(|(_, method)| method.started.load(Relaxed) > 0);
        out.push_str("# HELP grpc_server_started_total Started calls.\n# TYPE grpc_server_started_total counter\n");
        for (name, method) in used() {
            let (service, name) = split(name);
            let started = method.started.load(Relaxed);
            let _ = writeln!(
                out,
                "grpc_server_started_total{{grpc_service=\"{service}\",grpc_method=\"{name}\"}} {started}"
            );
        }
        out.push_str("# HELP grpc_server_handled_total Completed calls, by status code.\n# TYPE grpc_server_handled_total counter\n");
        for (name, method) in used() {
            let (service, name) = split(name);
            for (code, count) in CODES.iter().zip(&method.codes).filter(|(_, count)| count.load(Relaxed) > 0) {
                let labels = format!("grpc_service=\"{service}\",grpc_method=\"{name}\",grpc_code=\"{code}\"");
                let _ = writeln!(out, "grpc_server_handled_total{{{labels}}} {}", count.load(Relaxed));
            }
        }
        out.push_str(
            "# HELP grpc_server_handling_seconds Duration of calls.\n# TYPE grpc_server_handling_seconds histogram\n",
        );
        for (name, method) in used() {
            let (service, name) = split(name);
            let labels = format!("grpc_service=\"{service}\",grpc_method=\"{name}\"");
            let mut sum = 0;
            for (i, bucket) in method.buckets.iter().enumerate() {
                sum += bucket.load(Relaxed);
                let bound = BUCKETS.get(i).map_or("+Inf".to_owned(), |bound| (*bound as f64 / 1e6).to_string());
                let _ = writeln!(out, "grpc_server_handling_seconds_bucket{{{labels},le=\"{bound}\"}} {sum}");
            }
            let seconds = method.microseconds.load(Relaxed) as f64 / 1e6;
            let _ = writeln!(out, "grpc_server_handling_seconds_sum{{{labels}}} {seconds}");
            let _ = writeln!(out, "grpc_server_handling_seconds_count{{{labels}}} {sum}");
        }
        out.push_str(
            "# HELP opm_http_requests_total HTTP requests, by status class.\n# TYPE opm_http_requests_total counter\n",
        );
        for (class, count) in self.http.iter().enumerate().skip(1) {
            let _ = writeln!(out, "opm_http_requests_total{{code=\"{class}xx\"}} {}", count.load(Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_method_and_code() {
        let metrics = ServerMetrics::default();
        let bundle = method("api.Registry/GetBundle");
        metrics.started(bundle);
        metrics.finished(bundle, 2, Duration::from_micros(300));
        metrics.started(method("no.Such/Thing"));
        let text = metrics.text();
        assert!(text.contains(
            r#"grpc_server_handled_total{grpc_service="api.Registry",grpc_method="GetBundle",grpc_code="Unknown"} 1"#
        ));
        assert!(text.contains(r#"le="0.0005"} 1"#));
        assert!(text.contains(r#"grpc_service="other""#));
    }
}
