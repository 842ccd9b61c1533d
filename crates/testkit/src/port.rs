//! Ports for servers of tests.

use std::hash::{BuildHasher as _, RandomState};
use std::net::TcpListener;

/// Ports below those that Linux gives to clients, and to servers that ask for any port: until the server of a test
/// starts, or while it restarts, nothing else takes such a port.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// Returns a port of this machine that is free.
///
/// # Panics
/// Panics if many ports in a row are taken.
pub fn free_port() -> u16 {
    let random = RandomState::new();
    let mut ports = (0..100u32).map(|attempt| FIRST + (random.hash_one(attempt) % u64::from(COUNT)) as u16);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_not_those_of_clients() {
        let port = free_port();
        let _server = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("the ports of clients");
        let first: u16 = range.split_whitespace().next().expect("a port").parse().expect("a number");
        assert!(port < first, "{port} may be taken by a client: {range}");
    }
}
