//! Pages for authors, while they write.

use std::process::Stdio;

use testkit::{Browser, BundleDir, Setup};

use crate::harness::{Place, Server, free_port};

fn preview(place: &Place, directory: &str) -> Server {
    let port = free_port();
    let child = place
        .opm(&["preview", directory, "--http", &format!("127.0.0.1:{port}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server::of(child, port);
    server.wait("/about", |page| page.status == 200);
    server
}

/// C-3: pages of a catalog load again by themselves, with what the rules find beside them.
#[test]
fn a_catalog_is_shown_while_it_is_written() {
    let place = Place::with_example();
    let server = preview(&place, "catalog");
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/p/beacon"));
    let text = std::fs::read_to_string(place.path("catalog/beacon.json")).unwrap();
    place.write("catalog/beacon.json", &text.replace("Shows where things are", "Says where things went"));
    browser.wait("return document.body.innerText.includes('Says where things went')");
    place.write(
        "catalog/wrong.json",
        "{\"schema\":\"olm.channel\",\"package\":\"beacon\",\"name\":\"x\",\"entries\":[{\"name\":\"none.v1\"}]}",
    );
    // What the rules say, with its place, and that the broken package is left out.
    server.wait("/problems", |page| page.body.contains("wrong.json:1:") && page.body.contains("not served"));
}

/// C-3: a bundle directory is shown as the page of its version.
#[test]
fn a_bundle_is_shown_as_it_will_look() {
    let place = Place::new();
    let bundle = BundleDir::new();
    std::os::unix::fs::symlink(bundle.path(), place.path("bundle")).unwrap();
    let server = preview(&place, "bundle");
    let list = server.get("/").body;
    assert!(list.contains("p/foo\""), "{list}");
    let version = server.get("/p/foo/v/foo.v1.2.3");
    assert!(version.status == 200 && version.body.contains("foos.example.com") || version.body.contains("Foo"));
    assert_eq!(server.get("/problems").status, 200);
}
