//! Figures of the console on a large catalog: `cargo xtask bench --console`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::{Browser, Setup};

use crate::harness::{Place, Server};

/// Returns the median of several runs.
fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

fn share(mut all: Vec<f64>, share: f64) -> f64 {
    all.sort_by(f64::total_cmp);
    all[((all.len() - 1) as f64 * share) as usize]
}

/// Returns how many bytes a reply has on the wire.
fn packed(server: &Server, path: &str) -> f64 {
    let reply = server.ask("GET", path, "Accept: text/html\r\nAccept-Encoding: gzip\r\n");
    assert_eq!(reply.status, 200, "{path}");
    reply.header("content-length").and_then(|length| length.parse().ok()).unwrap_or_default()
}

/// Returns how long a reply takes, in milliseconds.
fn taken(server: &Server, path: &str) -> f64 {
    let start = Instant::now();
    let reply = server.get(path);
    assert!(reply.status == 200, "{path}: {}", reply.status);
    start.elapsed().as_secs_f64() * 1e3
}

fn throttle(browser: &Browser, on: bool) {
    let rate = if on { 4 } else { 1 };
    browser.devtools("Network.enable", json!({}));
    let (latency, speed) = if on { (150, 200_000) } else { (0, -1) };
    let network = json!({"offline": false, "latency": latency, "downloadThroughput": speed, "uploadThroughput": speed});
    browser.devtools("Network.emulateNetworkConditions", network);
    browser.devtools("Emulation.setCPUThrottlingRate", json!({"rate": rate}));
    browser.devtools("Network.setCacheDisabled", json!({"cacheDisabled": true}));
}

/// Opens a page and returns when its first and its largest content were painted, and how much it moved.
fn painted(browser: &Browser, address: &str) -> [f64; 3] {
    browser.open(address);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let script = "const fcp = performance.getEntriesByName('first-contentful-paint')[0]?.startTime || 0;
        const done = arguments[0]; let lcp = fcp, shift = 0;
        new PerformanceObserver(list => { for (const one of list.getEntries()) lcp = one.startTime }).observe({type: 'largest-contentful-paint', buffered: true});
        new PerformanceObserver(list => { for (const one of list.getEntries()) shift += one.value }).observe({type: 'layout-shift', buffered: true});
        setTimeout(() => done([fcp, lcp, shift]), 100);";
    let found = browser.run_later(script, &[]);
    [0, 1, 2].map(|place| found[place].as_f64().unwrap_or_default())
}

/// T-10: the budgets of the console, printed as a table. Needs `OPM_CONSOLE_CATALOG`, a directory.
#[test]
#[ignore = "measures: cargo xtask bench --console"]
fn budgets() {
    let catalog = PathBuf::from(std::env::var_os("OPM_CONSOLE_CATALOG").expect("OPM_CONSOLE_CATALOG is a catalog"));
    let place = Place::new();
    std::os::unix::fs::symlink(&catalog, place.path("catalog")).unwrap();
    let server = place.serve(&[]);
    let index: Value = serde_json::from_str(&server.get("/-/d/index.json").body).unwrap();
    let rows = index["rows"].as_array().unwrap();
    let name = |row: &Value| row["a"].as_str().unwrap().to_owned();
    let mut table = String::from("what | measured | budget\n---|---|---\n");
    let mut tell = |what: &str, measured: String, budget: &str| {
        let _ = writeln!(table, "{what} | {measured} | {budget}");
    };
    let kb = |bytes: f64| format!("{:.1} KB", bytes / 1e3);
    let list = server.get("/").body;
    tell("list, compressed / raw", format!("{} / {}", kb(packed(&server, "/")), kb(list.len() as f64)), "40 / 240 KB");
    let part = |start: &str| format!("/{}", list[list.find(start).unwrap()..].split('"').next().unwrap());
    let script = format!("/-/a/{}", site::assets::script());
    tell(
        "style / script, compressed",
        format!("{} / {}", kb(packed(&server, &part("-/a/console."))), kb(packed(&server, &script))),
        "9 / 14 KB",
    );
    let some: Vec<&Value> = rows.iter().step_by(rows.len().div_ceil(100)).collect();
    let packages: Vec<f64> = some.iter().map(|row| packed(&server, &format!("/{}", name(row)))).collect();
    let mut versions = Vec::new();
    for row in &some {
        let data: Value = serde_json::from_str(&server.get(&format!("/-/d/{}.json", name(row))).body).unwrap();
        versions.push(format!("/{}/v/{}", name(row), site::names::part(data["head"].as_str().unwrap())));
    }
    let sizes: Vec<f64> = versions.iter().map(|path| packed(&server, path)).collect();
    tell(
        "package, version page compressed, p95",
        format!("{} / {}", kb(share(packages, 0.95)), kb(share(sizes, 0.95))),
        "30 / 40 KB",
    );
    let lists: Vec<f64> = (0..100).map(|_| taken(&server, "/")).collect();
    let packages: Vec<f64> = some.iter().map(|row| taken(&server, &format!("/{}", name(row)))).collect();
    let pages: Vec<f64> = versions.iter().map(|path| taken(&server, path)).collect();
    tell(
        "server time p99: list / package / version",
        format!("{:.1} / {:.1} / {:.1} ms", share(lists, 0.99), share(packages, 0.99), share(pages, 0.99)),
        "5 / 15 / 15 ms",
    );
    let largest = rows.iter().max_by_key(|row| row["c"].as_u64()).map(name).unwrap();
    let graph = format!("/{largest}/graph");
    tell("largest graph, compressed", kb(packed(&server, &graph)), "45 KB");

    let browser = Browser::start(Setup::default());
    throttle(&browser, false);
    browser.requests();
    browser.open(&server.address("/"));
    let requests = browser.requests().len();
    tell("requests in all", requests.to_string(), "45");
    let runs = |address: &str| -> Vec<[f64; 3]> { (0..5).map(|_| painted(&browser, address)).collect() };
    let of = |runs: &[[f64; 3]], place: usize| median(runs.iter().map(|run| run[place]).collect());
    let empty = runs(&server.address("/healthz"));
    let desktop = runs(&server.address("/"));
    tell(
        "first / largest paint, desktop",
        format!("{:.0} / {:.0} ms (empty page {:.0} ms)", of(&desktop, 0), of(&desktop, 1), of(&empty, 0)),
        "400 ms",
    );
    let keys = "const done = arguments[0], input = document.getElementById('q'), start = performance.now(); input.value = 'post'; input.dispatchEvent(new Event('input'));
        const wait = () => document.querySelectorAll('.tile').length < 200 ? requestAnimationFrame(() => done(performance.now() - start)) : setTimeout(wait, 1); wait();";
    let key = |browser: &Browser| {
        let times: Vec<f64> = (0..5)
            .map(|_| {
                browser.open(&server.address("/"));
                // The index is there by the time that somebody types.
                browser.run_later("const done = arguments[0]; const q = document.getElementById('q'); q.value = 'zz'; q.dispatchEvent(new Event('input')); setTimeout(() => { q.value = ''; q.dispatchEvent(new Event('input')); setTimeout(done, 600) }, 1200)", &[]);
                browser.run_later(keys, &[]).as_f64().unwrap_or_default()
            })
            .collect();
        median(times)
    };
    let fast = key(&browser);
    throttle(&browser, true);
    let (empty, slow) = (runs(&server.address("/healthz")), runs(&server.address("/")));
    tell(
        "first / largest paint, throttled",
        format!("{:.0} / {:.0} ms (empty page {:.0} ms)", of(&slow, 0), of(&slow, 1), of(&empty, 0)),
        "1600 / 2200 ms",
    );
    tell("layout shift", format!("{:.3}", of(&slow, 2).max(of(&desktop, 2))), "0.01");
    tell("key to paint, desktop / throttled", format!("{fast:.0} / {:.0} ms", key(&browser)), "50 / 200 ms");
    browser.devtools(
        "Network.emulateNetworkConditions",
        json!({"offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}),
    );
    let drawn = runs(&server.address(&graph));
    tell("largest graph, first paint at CPU / 4", format!("{:.0} ms", of(&drawn, 0)), "800 ms");
    #[expect(clippy::print_stderr, reason = "figures are for the person who asked for them")]
    {
        eprintln!("{table}");
    }
}
