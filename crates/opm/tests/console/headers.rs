//! Headers of every route and status.

use crate::harness::{PAGES, Workspace};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// C-8: pages, assets, pictures and errors have the headers that contain foreign content.
#[test]
fn every_reply_of_the_console_has_security_headers() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let list = server.get("/").body;
    let part = |start: &str| {
        let at = list.find(start).unwrap_or_else(|| panic!("no {start}"));
        format!("/{}", list[at..].split('"').next().unwrap())
    };
    let (style, script, icon) = (part("-/a/console."), part("-/a/theme."), part("-/i/"));
    let mut routes: Vec<String> = PAGES.iter().map(|path| (*path).to_owned()).collect();
    routes.extend([style.clone(), script.clone(), icon.clone()]);
    routes.extend(
        [
            "/-/d/index.json",
            "/-/d/p/lantern.json",
            "/-/d/p/lantern/graph.svg",
            "/images.txt",
            "/nothing",
            "/p/nothing",
            "/p/lantern/v/1.1.0",
            "/p/lantern/path?from=x",
            "/-/a/none",
        ]
        .map(str::to_owned),
    );
    for path in &routes {
        let reply = server.get(path);
        let picture = path.starts_with("/-/i/") || path.ends_with(".svg");
        let policy = if picture { "default-src 'none'; style-src 'unsafe-inline'; sandbox" } else { POLICY };
        assert_eq!(reply.header("content-security-policy"), Some(policy), "{path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("permissions-policy", ""),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path}: {name}");
        }
        assert_eq!(reply.header("set-cookie"), None, "{path}");
        let script_type = reply.header("content-type").unwrap_or_default().contains("javascript");
        assert_eq!(script_type, path.starts_with("/-/a/") && path.ends_with(".js"), "{path}");
        let fixed = path.starts_with("/-/a/") && reply.status == 200 || picture;
        let caching = if fixed { "public, max-age=31536000, immutable" } else { "no-cache" };
        assert_eq!(reply.header("cache-control"), Some(caching), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        assert!(matches!(server.request(method, "/", "").status, 405), "{method}");
        assert!(matches!(server.request(method, "/p/lantern", "").status, 404 | 405), "{method}");
    }
    let head = server.request("HEAD", "/p/lantern", "Accept: text/html\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

/// A request with a foreign host name that resolves to this machine is rejected.
#[test]
fn a_foreign_host_name_for_a_local_server_is_rejected() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&["--http-host", "console.test"]);
    for (host, status) in [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("console.test", 200),
        ("evil.test", 421),
        ("127.0.0.1.evil.test", 421),
    ] {
        let reply = server.request("GET", "/", &format!("Host: {host}\r\nAccept: text/html\r\n"));
        assert_eq!(reply.status, status, "{host}");
    }
}

#[test]
fn an_unchanged_page_is_not_sent_again() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    for path in ["/", "/p/lantern", "/p/lantern/v/lantern.v1.1.0"] {
        let tag = server.get(path).header("etag").unwrap().to_owned();
        let again = server.request(
            "GET",
            path,
            &format!("Accept: text/html,application/xhtml+xml\r\nIf-None-Match: {tag}\r\n"),
        );
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{path}");
        let packed = server.request("GET", path, "Accept: text/html\r\nAccept-Encoding: gzip\r\n");
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
    }
}
