//! Returns freed memory to the system.
//!
//! The C library caches freed memory per thread. Without trimming, a server that listed all packages once, or loaded a
//! catalog, would keep its peak memory for as long as it runs.

#![cfg_attr(target_env = "gnu", expect(unsafe_code, reason = "only the C library can trim its heap"))]

/// Returns free memory to the system. This takes some milliseconds per 10 MB in use.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: glibc declares `int malloc_trim(size_t)`. Any thread may call it at any time: it locks each arena
        // that it visits, and touches free memory alone.
        unsafe {
            malloc_trim(0);
        }
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Returns the anonymous memory of the process, in megabytes.
    fn held() -> f64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }

    /// Most of it lies between live allocations on the heap of another thread, where the C library keeps it.
    #[test]
    fn what_was_freed_goes_back_to_the_system() {
        let texts = || (0..400_000).map(|number| format!("text {number:0100}")).collect::<Vec<String>>();
        let mut texts = std::thread::spawn(texts).join().unwrap();
        let most = held();
        let mut place = 0;
        texts.retain(|_| {
            place += 1;
            place % 1000 == 0
        });
        let before = held();
        trim();
        let after = held();
        assert!(after < most - 40.0, "{most:.1} MB in use, {before:.1} MB when freed, {after:.1} MB when given back");
        assert_eq!(texts.len(), 400);
    }
}
