//! Figures of the console on a large catalog: `cargo xtask bench --console`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Browser, Setup};

use crate::harness::{Server, Workspace, free_port};

/// When the memory of the resolver is released: it is kept for a minute, and checked every few seconds.
const RELEASED_AFTER: Duration = Duration::from_secs(75);

/// Returns the median of several runs.
fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

fn share(mut all: Vec<f64>, share: f64) -> f64 {
    all.sort_by(f64::total_cmp);
    all[((all.len() - 1) as f64 * share) as usize]
}

/// Returns the number of runs: five, or `OPM_CONSOLE_RUNS`.
fn runs() -> usize {
    std::env::var("OPM_CONSOLE_RUNS").ok().and_then(|runs| runs.parse().ok()).filter(|runs| *runs > 0).unwrap_or(5)
}

/// Returns the size of a reply on the wire, in bytes.
fn packed(server: &Server, path: &str) -> f64 {
    let reply = server.request("GET", path, "Accept: text/html\r\nAccept-Encoding: gzip\r\n");
    assert_eq!(reply.status, 200, "{path}");
    reply.header("content-length").and_then(|length| length.parse().ok()).unwrap_or_default()
}

/// Returns the latency of a reply, in milliseconds.
fn latency(server: &Server, path: &str) -> f64 {
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

/// Opens a page and returns the times of its first and its largest paint, its layout shift, and how long it blocked
/// input.
fn painted(browser: &Browser, address: &str) -> [f64; 4] {
    browser.open(address);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let script = "const fcp = performance.getEntriesByName('first-contentful-paint')[0]?.startTime || 0;
        const done = arguments[0]; let lcp = fcp, shift = 0, busy = 0;
        new PerformanceObserver(list => { for (const one of list.getEntries()) busy += Math.max(0, one.duration - 50) }).observe({type: 'longtask', buffered: true});
        new PerformanceObserver(list => { for (const one of list.getEntries()) lcp = one.startTime }).observe({type: 'largest-contentful-paint', buffered: true});
        new PerformanceObserver(list => { for (const one of list.getEntries()) shift += one.value }).observe({type: 'layout-shift', buffered: true});
        setTimeout(() => done([fcp, lcp, shift, busy]), 100);";
    let found = browser.run_later(script, &[]);
    [0, 1, 2, 3].map(|workspace| found[workspace].as_f64().unwrap_or_default())
}

/// Measures pages that need two blobs, or the whole catalog.
fn measure_queries(server: &Server, versions: &[String], row: &mut dyn FnMut(&str, String, &str)) {
    let of = |path: &str| path.split("/v/").next().unwrap_or_default().to_owned();
    let compare: Vec<f64> = versions.iter().map(|path| latency(server, &format!("{}/compare", of(path)))).collect();
    let first = latency(server, &format!("{}/why", of(&versions[0])));
    let why: Vec<f64> = versions.iter().map(|path| latency(server, &format!("{}/why", of(path)))).collect();
    let path: Vec<f64> = versions
        .iter()
        .map(|path| latency(server, &format!("{}/path?from={}", of(path), path.rsplit('/').next().unwrap_or_default())))
        .collect();
    let p99 = |all: Vec<f64>| share(all, 0.99);
    row("server time p99: compare", format!("{:.1} ms", p99(compare)), "60 ms");
    row(
        "server time p99: path / why / the first of them",
        format!("{:.1} / {:.1} / {first:.0} ms", p99(path), p99(why)),
        "50 / 50 / 700 ms",
    );
}

/// Measures how many lists per second the server sends on open connections, for each core that it uses.
fn rate(server: &Server) -> f64 {
    use std::io::{Read, Write};
    let time = |pid: u32| -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        (fields[11].parse::<f64>().unwrap_or_default() + fields[12].parse::<f64>().unwrap_or_default()) / 100.0
    };
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\n\r\n";
    let length = packed(server, "/") as usize;
    let (before, pages) = (time(server.pid()), 2000);
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..pages {
        socket.write_all(request.as_bytes()).unwrap();
        let (mut read, mut head) = (0, None);
        let mut start = Vec::new();
        while head.is_none_or(|head| read < head + length) {
            let got = socket.read(&mut buffer).unwrap();
            assert!(got > 0, "the server closed the connection");
            read += got;
            if head.is_none() {
                start.extend_from_slice(&buffer[..got]);
                head = start.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
            }
        }
    }
    pages as f64 / (time(server.pid()) - before).max(0.01)
}

/// Returns the private memory of a process, in megabytes.
fn memory(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}

/// Starts a server with a cache, and returns it with the time to the first page, in milliseconds.
fn started(workspace: &Workspace, arguments: &[&str], page: &str) -> (Server, f64) {
    let start = Instant::now();
    let server = workspace.start(free_port(), arguments, &[]);
    server.wait(page, |reply| reply.status == 200);
    (server, start.elapsed().as_secs_f64() * 1e3)
}

/// Measures the start with a cache, and the memory of a server: without the console, with it, with streams, with the
/// resolver in use, and after the release of its memory.
fn memories(workspace: &Workspace, package: &str, row: &mut dyn FnMut(&str, String, &str)) {
    let cached = ["--cache-dir", "cache", "--cache-enforce-integrity=false"];
    // The first server builds the cache.
    drop(workspace.serve(&cached));
    let bare_arguments = [&cached[..], &["--no-console"]].concat();
    let (mut api, mut list, mut one) = (Vec::new(), Vec::new(), Vec::new());
    let (mut idle, mut streaming, mut resolving, mut after) = (Vec::new(), Vec::new(), Vec::new(), f64::NAN);
    for round in 0..runs() {
        api.push(started(workspace, &cached, "/readyz").1);
        list.push(started(workspace, &cached, "/").1);
        one.push(started(workspace, &cached, package).1);
        let bare = workspace.serve(&bare_arguments);
        let without = memory(bare.pid());
        drop(bare);
        let server = workspace.serve(&cached);
        assert_eq!(server.get("/").status, 200);
        let alone = memory(server.pid());
        idle.push(alone - without);
        let streams: Vec<std::net::TcpStream> = (0..100)
            .map(|_| {
                use std::io::{Read, Write};
                let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
                write!(socket, "GET /-/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
                assert!(socket.read(&mut [0; 512]).unwrap() > 0);
                socket
            })
            .collect();
        streaming.push(memory(server.pid()) - alone);
        drop(streams);
        let before = memory(server.pid()).min(alone);
        assert_eq!(server.get(&format!("{package}/why")).status, 200);
        resolving.push(memory(server.pid()) - before);
        if round + 1 == runs() {
            std::thread::sleep(RELEASED_AFTER);
            after = memory(server.pid()) - before;
        }
    }
    row(
        "memory: console idle / 100 streams / resolver",
        format!("{:+.1} / {:+.1} / {:+.1} MB", median(idle), median(streaming), median(resolving)),
        "+8 / +2 / +60 MB",
    );
    row(&format!("memory: {} s after the resolver", RELEASED_AFTER.as_secs()), format!("{after:+.1} MB"), "given back");
    row(
        "start with a cache: API / list / package page",
        format!("{:.0} / {:.0} / {:.0} ms", median(api), median(list), median(one)),
        "50 ms, as the API",
    );
}

/// Measures the static export: time, memory and size, for all versions and for heads.
fn exports(workspace: &Workspace, row: &mut dyn FnMut(&str, String, &str)) {
    for (versions, budget) in [("all", "8 s, 120 MB, 180 MB"), ("heads", "1.5 s, 15 MB of files")] {
        let mut times = Vec::new();
        let (mut peak, mut size) = (0.0f64, 0);
        for run in 0..runs() {
            // Each export gets another directory: file systems are slow where many files were removed shortly before.
            let target = format!("site-{versions}-{run}");
            let start = Instant::now();
            let mut child = workspace
                .opm(&["site", "build", "catalog", "--to", &target, "--no-blobs", "--versions", versions])
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let status = format!("/proc/{}/status", child.id());
            while child.try_wait().unwrap().is_none() {
                let text = std::fs::read_to_string(&status).unwrap_or_default();
                let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default().to_owned();
                let now = line.split_whitespace().nth(1).and_then(|number| number.parse::<f64>().ok());
                peak = peak.max(now.unwrap_or_default() / 1024.0);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert!(child.wait().unwrap().success());
            times.push(start.elapsed().as_secs_f64());
            let root = workspace.path(&target);
            size =
                crate::harness::files(&root).iter().map(|path| std::fs::metadata(root.join(path)).unwrap().len()).sum();
        }
        row(
            &format!("site build --versions {versions}"),
            format!("{:.1} s, {peak:.0} MB memory, {:.0} MB files", median(times), size as f64 / 1e6),
            budget,
        );
    }
}

/// C-10: the budgets of the console, printed as a table. Needs `OPM_CONSOLE_CATALOG`, a directory.
#[test]
#[ignore = "measures: cargo xtask bench --console"]
fn budgets() {
    let catalog = PathBuf::from(std::env::var_os("OPM_CONSOLE_CATALOG").expect("OPM_CONSOLE_CATALOG is a catalog"));
    let workspace = Workspace::new();
    std::os::unix::fs::symlink(&catalog, workspace.path("catalog")).unwrap();
    let server = workspace.serve(&[]);
    let index: Value = serde_json::from_str(&server.get("/-/d/index.json").body).unwrap();
    let rows = index["rows"].as_array().unwrap();
    let name = |row: &Value| row["a"].as_str().unwrap().to_owned();
    let mut table = String::from("what | measured | budget\n---|---|---\n");
    let mut row = |what: &str, measured: String, budget: &str| {
        let _ = writeln!(table, "{what} | {measured} | {budget}");
    };
    let kb = |bytes: f64| format!("{:.1} KB", bytes / 1e3);
    let list = server.get("/").body;
    row("list, compressed / raw", format!("{} / {}", kb(packed(&server, "/")), kb(list.len() as f64)), "40 / 240 KB");
    // The program under test may differ from this build, so its page provides the names.
    let part = |end: &str| -> f64 {
        let parts = list.split("-/a/").skip(1).filter_map(|rest| rest.split('"').next());
        parts.filter(|name| name.ends_with(end)).map(|name| packed(&server, &format!("/-/a/{name}"))).sum()
    };
    row("style / script, compressed", format!("{} / {}", kb(part(".css")), kb(part(".js"))), "9 / 14 KB");
    let some: Vec<&Value> = rows.iter().step_by(rows.len().div_ceil(100)).collect();
    let packages: Vec<f64> = some.iter().map(|row| packed(&server, &format!("/{}", name(row)))).collect();
    let mut versions = Vec::new();
    for row in &some {
        let data: Value = serde_json::from_str(&server.get(&format!("/-/d/{}.json", name(row))).body).unwrap();
        let bundles = data["versions"].as_array().unwrap();
        let middle = bundles[bundles.len() / 2]["name"].as_str().unwrap();
        for bundle in [data["head"].as_str().unwrap(), middle] {
            versions.push(format!("/{}/v/{}", name(row), site::names::part(bundle)));
        }
    }
    let sizes: Vec<f64> = versions.iter().map(|path| packed(&server, path)).collect();
    row(
        "package, version page compressed, p95",
        format!("{} / {}", kb(share(packages, 0.95)), kb(share(sizes, 0.95))),
        "30 / 40 KB",
    );
    let lists: Vec<f64> = (0..100).map(|_| latency(&server, "/")).collect();
    let packages: Vec<f64> = some.iter().map(|row| latency(&server, &format!("/{}", name(row)))).collect();
    let pages: Vec<f64> = versions.iter().map(|path| latency(&server, path)).collect();
    row(
        "server time p99: list / package / version",
        format!("{:.1} / {:.1} / {:.1} ms", share(lists, 0.99), share(packages, 0.99), share(pages, 0.99)),
        "5 / 15 / 15 ms",
    );
    measure_queries(&server, &versions, &mut row);
    let largest = rows.iter().max_by_key(|row| row["c"].as_u64()).map(name).unwrap();
    let graph = format!("/{largest}/graph");
    row("largest graph, compressed", kb(packed(&server, &graph)), "45 KB");

    row("lists a second and core", format!("{:.0}", rate(&server)), "2000");
    memories(&workspace, &format!("/{}", name(&rows[0])), &mut row);
    exports(&workspace, &mut row);
    let browser = Browser::start(Setup::default());
    throttle(&browser, false);
    browser.requests();
    browser.open(&server.address("/"));
    let requests = browser.requests().len();
    // The page, and everything that blocks its first paint; a deferred script does not.
    let early = "return 1 + performance.getEntriesByType('resource').filter(one => one.renderBlockingStatus === 'blocking').length";
    let early = browser.run(early, &[]);
    row("requests that the first paint waits for / in all", format!("{early} / {requests}"), "3 / 45");
    let opened = |address: &str| -> Vec<[f64; 4]> { (0..runs()).map(|_| painted(&browser, address)).collect() };
    let of = |runs: &[[f64; 4]], workspace: usize| median(runs.iter().map(|run| run[workspace]).collect());
    let empty = opened(&server.address("/healthz"));
    let desktop = opened(&server.address("/"));
    row(
        "first / largest paint, desktop",
        format!("{:.0} / {:.0} ms (empty page {:.0} ms)", of(&desktop, 0), of(&desktop, 1), of(&empty, 0)),
        "400 ms",
    );
    // From the key to the paint that shows the results.
    let watch = "const input = document.getElementById('q'); let start = 0; input.focus(); window.took = 0;
        input.addEventListener('keydown', event => { start = event.timeStamp }, true);
        new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => { window.took ||= performance.now() - start })))
            .observe(document.getElementById('tiles'), {childList: true});";
    let key = |browser: &Browser| {
        let times = (0..runs()).map(|_| {
            browser.open(&server.address("/"));
            // The index is loaded by the time that a user continues to type.
            browser.run(
                "window.shown = document.querySelectorAll('.tile').length; document.getElementById('q').focus()",
                &[],
            );
            browser.keys("z");
            browser.wait("return document.querySelectorAll('.tile').length < window.shown");
            browser.keys("\u{e003}");
            browser.wait("return document.querySelectorAll('.tile').length === window.shown");
            browser.run(watch, &[]);
            browser.keys("p");
            browser.wait("return window.took > 0");
            browser.run("return window.took", &[]).as_f64().unwrap_or_default()
        });
        median(times.collect())
    };
    let fast = key(&browser);
    throttle(&browser, true);
    let (empty, slow) = (opened(&server.address("/healthz")), opened(&server.address("/")));
    row(
        "first / largest paint, throttled",
        format!("{:.0} / {:.0} ms (empty page {:.0} ms)", of(&slow, 0), of(&slow, 1), of(&empty, 0)),
        "1600 / 2200 ms",
    );
    row("blocking time, throttled", format!("{:.0} ms", of(&slow, 3)), "150 ms");
    row("layout shift", format!("{:.3}", of(&slow, 2).max(of(&desktop, 2))), "0.01");
    row("key to paint, desktop / throttled", format!("{fast:.0} / {:.0} ms", key(&browser)), "50 / 200 ms");
    browser.devtools(
        "Network.emulateNetworkConditions",
        json!({"offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}),
    );
    let drawn = opened(&server.address(&graph));
    row("largest graph, first paint at CPU / 4", format!("{:.0} ms", of(&drawn, 0)), "800 ms");
    #[expect(clippy::print_stderr, reason = "the figures are the result")]
    {
        eprintln!("{table}");
    }
}
