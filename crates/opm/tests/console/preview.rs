//! Pages for authors while they edit.

use std::process::Stdio;

use testkit::{Browser, BundleDir, Setup};

use crate::harness::{Server, Workspace, free_port};

fn preview(workspace: &Workspace, directory: &str) -> Server {
    let port = free_port();
    let child = workspace
        .opm(&["preview", directory, "--http", &format!("127.0.0.1:{port}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server::of(child, port);
    server.wait("/about", |page| page.status == 200);
    server
}

/// Pages of a catalog reload by themselves, and show the problems that rules report.
#[test]
fn a_catalog_is_shown_while_it_is_edited() {
    let workspace = Workspace::with_example();
    let server = preview(&workspace, "catalog");
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/p/beacon"));
    let text = std::fs::read_to_string(workspace.path("catalog/beacon.json")).unwrap();
    workspace.write("catalog/beacon.json", &text.replace("Shows where things are", "Says where things went"));
    browser.wait("return document.body.innerText.includes('Says where things went')");
    workspace.write(
        "catalog/wrong.json",
        "{\"schema\":\"olm.channel\",\"package\":\"beacon\",\"name\":\"x\",\"entries\":[{\"name\":\"none.v1\"}]}",
    );
    // The page shows the problem with its position, and that the broken package is not served.
    server.wait("/problems", |page| page.body.contains("wrong.json:1:") && page.body.contains("not served"));
}

/// A bundle directory is shown as the page of its version.
#[test]
fn a_bundle_is_shown_as_its_version_page() {
    let workspace = Workspace::new();
    let bundle = BundleDir::new();
    std::os::unix::fs::symlink(bundle.path(), workspace.path("bundle")).unwrap();
    let server = preview(&workspace, "bundle");
    let list = server.get("/").body;
    assert!(list.contains("p/foo\""), "{list}");
    let version = server.get("/p/foo/v/foo.v1.2.3");
    assert!(version.status == 200 && version.body.contains("foos.example.com") || version.body.contains("Foo"));
    assert_eq!(server.get("/problems").status, 200);
}
