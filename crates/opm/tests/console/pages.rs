//! The content of pages, requested without a browser.

use serde_json::{Value, json};

use crate::harness::{PAGES, Workspace, links};

/// C-1: all content is present without scripts: text, links, tables, pictures, forms.
#[test]
fn every_page_is_complete_without_scripts() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    for path in PAGES {
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.body.matches("<h1").count(), 1, "{path}");
        assert!(!page.body.contains("being loaded"), "{path}");
        for word in ["<main", "<header", "<footer", "<nav", "Skip to content", "<title>"] {
            assert!(page.body.contains(word), "{path} lacks {word}");
        }
    }
    let list = server.get("/").body;
    assert!(list.contains("Lantern") && list.contains("Beacon") && list.contains("type=\"checkbox\""));
    let package = server.get("/p/lantern").body;
    for word in ["Full Lifecycle", "all namespaces", "Needed by", "Full support", "1.25.0"] {
        assert!(package.contains(word), "{word}");
    }
    let version = server.get("/p/lantern/v/lantern.v1.1.0").body;
    for word in [
        "an account may read or write Secrets",
        "lumen",
        "registry.test/lantern:1.1.0",
        "by tag",
        "ClusterRole",
        "requires more",
    ] {
        assert!(version.contains(word), "{word}");
    }
    let graph = server.get("/p/lantern/graph").body;
    assert!(graph.contains("<svg class=\"opm\"") && graph.contains("skipRange") && graph.contains("Entries of stable"));
    let metadata_only = server.get("/p/beacon/v/beacon.v0.1.0").body;
    assert!(metadata_only.contains("does not carry the manifests"));
    assert!(server.get("/problems").body.contains("createdAt is not a date"));
}

/// Every link of every page has a target.
#[test]
fn every_link_of_every_page_has_a_target() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let mut todo: Vec<String> = PAGES.iter().map(|path| (*path).to_owned()).collect();
    let mut seen: std::collections::BTreeSet<String> = todo.iter().cloned().collect();
    while let Some(path) = todo.pop() {
        let page = server.get(&path);
        assert!(page.status == 200, "{path}: {}", page.status);
        if !page.header("content-type").unwrap_or_default().starts_with("text/html") {
            continue;
        }
        for link in links(&page.body) {
            if link.starts_with("http") || link.starts_with("mailto:") || link.starts_with('#') {
                continue;
            }
            let target = resolved(&path, &link);
            if seen.insert(target.clone()) {
                todo.push(target);
            }
        }
    }
    assert!(seen.len() > 40, "{}", seen.len());
}

/// Resolves a relative link like a browser.
fn resolved(from: &str, link: &str) -> String {
    let link = link.split('#').next().unwrap_or_default();
    if let Some(query) = link.strip_prefix('?') {
        return format!("{}?{query}", from.split('?').next().unwrap_or_default());
    }
    let base = from.split('?').next().unwrap_or_default();
    let mut parts: Vec<&str> = base.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." => {}
            ".." => {
                assert!(parts.len() > 1, "{link} on {from} leaves the site");
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    // A last part of `.` or `..` keeps the slash.
    if link.is_empty() {
        base.to_owned()
    } else if path.is_empty() {
        "/".to_owned()
    } else if link.ends_with("./") || link == "." {
        format!("{}/", path.trim_end_matches('/'))
    } else {
        path
    }
}

/// C-12: pages match the output of commands.
#[test]
fn paths_match_the_command() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    for (from, to, channel) in [
        ("1.0.0", "", ""),
        ("1.0.1", "", ""),
        ("1.0.0", "1.1.0", ""),
        ("1.1.0", "", "fast"),
        ("1.0.0", "2.0.0", "fast"),
        ("2.0.0", "", ""),
    ] {
        let mut arguments = vec!["upgrade-path", "catalog", "lantern", "--from", from, "-o", "json"];
        if !to.is_empty() {
            arguments.extend(["--to", to]);
        }
        if !channel.is_empty() {
            arguments.extend(["--channel", channel]);
        }
        let output = workspace.opm(&arguments).output().unwrap();
        let page = server.get(&format!("/p/lantern/path?from={from}&to={to}&channel={channel}"));
        let Ok(reported) = serde_json::from_slice::<Value>(&output.stdout) else {
            assert_eq!(page.status, 400, "{arguments:?}");
            continue;
        };
        let steps = reported["steps"].as_array().map(Vec::len).unwrap_or_default();
        assert_eq!(page.body.matches("<ol class=\"steps\">").count(), 1, "{arguments:?}");
        let shown = page.body.split("<ol class=\"steps\">").nth(1).unwrap().split("</ol>").next().unwrap();
        assert_eq!(shown.matches("<li").count(), steps + 1, "{arguments:?}: {reported}");
        assert_eq!(page.body.contains("It does not get there"), !output.status.success(), "{arguments:?}");
    }
    let nonsense = server.get("/p/lantern/path?from=never");
    assert_eq!(nonsense.status, 400);
    assert!(nonsense.body.contains("is neither a version") && nonsense.body.contains("value=\"never\""));
}

/// Versions by number, old links, unknown URLs.
#[test]
fn similar_urls_redirect_or_suggest() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let by_number = server.get("/p/lantern/v/1.1.0");
    assert_eq!((by_number.status, by_number.header("location")), (302, Some("lantern.v1.1.0")));
    let slash = server.get("/p/lantern/");
    assert_eq!((slash.status, slash.header("location")), (302, Some("../lantern")));
    assert_eq!(server.get("/p/lantern.html").status, 200);
    let missing = server.get("/p/lantern/v/lantern.v0.0.1");
    assert_eq!(missing.status, 404);
    assert!(missing.body.contains("the newest") && missing.body.contains("path?from=lantern.v0.0.1"));
    let near = server.get("/p/lanten");
    assert_eq!(near.status, 404);
    assert!(near.body.contains("href=\"lantern\""));
    let program = server.request("GET", "/nothing", "Accept: */*\r\n");
    assert_eq!((program.status, program.body.as_str()), (404, "404 page not found\n"));
    let reader = server.get("/nothing");
    assert_eq!(reader.status, 404);
    assert!(reader.body.contains("Not found"));
}

/// The content of pages is available as data.
#[test]
fn data_matches_pages() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let index: Value = serde_json::from_str(&server.get("/-/d/index.json").body).unwrap();
    assert_eq!(index["rows"].as_array().unwrap().len(), 2);
    let package: Value = serde_json::from_str(&server.get("/-/d/p/lantern.json").body).unwrap();
    assert_eq!(package["defaultChannel"], "stable");
    assert_eq!(package["versions"].as_array().unwrap().len(), 4);
    let stable = package["channels"].as_array().unwrap().iter().find(|channel| channel["name"] == "stable").unwrap();
    let first = stable["entries"].as_array().unwrap().iter().find(|entry| entry["name"] == "lantern.v1.0.0").unwrap();
    assert_eq!(first["next"], "lantern.v1.1.0");
    for (file, start) in [("svg", "<svg"), ("dot", "digraph"), ("txt", ""), ("json", "[")] {
        let graph = server.get(&format!("/-/d/p/lantern/graph.{file}"));
        assert_eq!(graph.status, 200, "{file}");
        assert!(graph.body.starts_with(start), "{file}: {}", &graph.body[..60.min(graph.body.len())]);
    }
    assert!(server.get("/images.txt").body.contains("registry.test/lantern:1.0.0\n"));
    assert_eq!(json!(server.get("/images.csv").body.lines().next()), json!("image,by,versions,packages"));
}

/// C-20: the API is the same with and without the console.
#[test]
fn the_api_is_the_same_with_and_without_the_console() {
    let workspace = Workspace::with_example();
    let (with, without) = (workspace.serve(&[]), workspace.serve(&["--no-console"]));
    for path in [
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/catalogs/test/api/v1/all",
        "/catalogs/test/api/v1/metas?schema=olm.bundle",
        "/catalogs/test/api/v1/packages/lantern",
        "/catalogs/other/api/v1/all",
        "/catalogs/test/api/v1/metas?x=1",
        "/catalogs/test/api/v2",
    ] {
        for accept in ["Accept: */*\r\n", "Accept: text/html\r\n"] {
            let (a, b) = (with.request("GET", path, accept), without.request("GET", path, accept));
            assert_eq!((a.status, &a.body), (b.status, &b.body), "{path}");
            let stable = |head: &str| -> Vec<String> {
                let lines =
                    head.lines().filter(|line| !line.starts_with("date:") && !line.starts_with("last-modified:"));
                lines.map(str::to_owned).collect()
            };
            assert_eq!(stable(&a.head), stable(&b.head), "{path}");
        }
    }
    assert_eq!(without.get("/p/lantern").status, 404);
    assert_eq!(without.request("GET", "/nothing", "").body, "404 page not found\n");
    assert_eq!(with.request("POST", "/", "").status, 405);
}

/// C-21: no page depends on the clock, the time zone or the language.
#[test]
fn c21_pages_are_the_same_bytes_anywhere() {
    let workspace = Workspace::with_example();
    let one = workspace.serve_with(&[], &[("TZ", "UTC"), ("LC_ALL", "C")]);
    let before: Vec<String> = PAGES.iter().map(|path| one.get(path).body).collect();
    drop(one);
    let other = [("TZ", "Pacific/Kiritimati"), ("LC_ALL", "ar_EG.UTF-8"), ("LANG", "ar_EG.UTF-8"), ("LANGUAGE", "ar")];
    let two = workspace.serve_with(&[], &other);
    let accept = "Accept: text/html\r\nAccept-Language: ar, de;q=0.5\r\n";
    let now = fbc::spelling::calendar::rfc3339(fbc::spelling::calendar::now());
    for (path, before) in PAGES.iter().zip(before) {
        let page = two.request("GET", path, accept).body;
        assert!(page == before, "{path}");
        // No page contains the current day or year: the dates of the example are others.
        assert!(!page.contains(&now[..10]), "{path} contains the current day");
        assert!(!page.contains(&format!("{}-", &now[..4])), "{path} contains the current year");
    }
}
