//! Pages as files: from a folder, from a host, below a path.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;
use testkit::{Browser, Setup};

use crate::harness::{Place, files, links};

fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    files(root).into_iter().map(|path| (path.clone(), fs::read(root.join(&path)).unwrap())).collect()
}

/// T-16: every link of every page leads to a file.
#[test]
fn every_link_of_an_export_leads_to_a_file() {
    let place = Place::with_example();
    for versions in ["all", "heads", "2"] {
        place.run(&["site", "build", "catalog", "-o", "site", "--versions", versions]);
        let root = place.path("site");
        let mut checked = 0;
        for path in files(&root).iter().filter(|path| path.ends_with(".html")) {
            let html = fs::read_to_string(root.join(path)).unwrap();
            for link in links(&html) {
                if link.starts_with("http") || link.starts_with("mailto:") || link.starts_with('#') {
                    continue;
                }
                let target = link.split(['#', '?']).next().unwrap();
                let full = root.join(path).parent().unwrap().join(target);
                assert!(full.is_file(), "{path} has a link to {link}");
                if let Some((_, id)) = link.split_once('#') {
                    assert!(fs::read_to_string(&full).unwrap().contains(&format!("id=\"{id}\"")), "{path}: {link}");
                }
                checked += 1;
            }
        }
        assert!(checked > 200, "{checked}");
    }
}

/// T-17: the same catalog gives the same bytes, and a change of one package touches only its files and the lists.
#[test]
fn an_export_changes_only_with_the_catalog() {
    let place = Place::with_example();
    place.run(&["site", "build", "catalog", "-o", "one", "--name", "x"]);
    place.run(&["site", "build", "catalog", "-o", "two", "--name", "x"]);
    assert!(contents(&place.path("one")) == contents(&place.path("two")));
    let modified = |path: &str| fs::metadata(place.path("one").join(path)).unwrap().modified().unwrap();
    let before = modified("-/d/p/lantern.json");
    let text = fs::read_to_string(place.path("catalog/beacon.json")).unwrap().replace("Shows where", "Tells where");
    place.write("catalog/beacon.json", &text);
    place.run(&["site", "build", "catalog", "-o", "one", "--name", "x"]);
    let (old, new) = (contents(&place.path("two")), contents(&place.path("one")));
    // The revision stands in every page; all else of other packages is the same.
    let revision = |root: &BTreeMap<String, Vec<u8>>| {
        let mark: serde_json::Value = serde_json::from_slice(&root["-/site.json"]).unwrap();
        mark["revision"].as_str().unwrap().to_owned()
    };
    let (from, to) = (revision(&old), revision(&new));
    let changed: Vec<&String> = old
        .keys()
        .filter(|path| {
            String::from_utf8_lossy(&old[*path]).replace(&from, "")
                != String::from_utf8_lossy(&new[*path]).replace(&to, "")
        })
        .collect();
    assert!(
        changed.iter().all(|path| path.contains("beacon") || path.starts_with("-/d/index.") || *path == "index.html"),
        "{changed:?}"
    );
    assert_eq!(modified("-/d/p/lantern.json"), before);
}

/// T-18: an export says what the server says, but for links and live parts.
#[test]
fn an_export_says_what_the_server_says() {
    let place = Place::with_example();
    place.run(&["site", "build", "catalog", "-o", "site", "--name", "test"]);
    let server = place.serve(&[]);
    let plain = |html: &str| -> String {
        let main = html.split("<main").nth(1).unwrap().split("</main>").next().unwrap();
        let mut out = String::new();
        let mut inside = false;
        for c in main.chars() {
            match c {
                '<' => inside = true,
                '>' => inside = false,
                c if !inside => out.push(c),
                _ => {}
            }
        }
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for path in ["apis", "apis/lantern.test/lamp", "problems", "p/beacon"] {
        let exported = fs::read_to_string(place.path("site").join(format!("{path}.html"))).unwrap();
        let served = server.get(&format!("/{path}")).body;
        let live = ["Kind or group", "offer.Show", "offer.", "DataJSON"];
        let without = |text: String| live.iter().fold(text, |text, one| text.replace(one, ""));
        assert_eq!(without(plain(&exported)), without(plain(&served)), "{path}");
    }
    let revision = server.get("/about").body;
    let mark = fs::read_to_string(place.path("site/-/site.json")).unwrap();
    let mark: serde_json::Value = serde_json::from_str(&mark).unwrap();
    assert!(revision.contains(mark["revision"].as_str().unwrap()), "one revision for both");
}

/// T-16: from a folder, search, theme and the path picker work.
#[test]
fn an_export_works_from_a_folder() {
    let place = Place::with_example();
    place.run(&["site", "build", "catalog", "-o", "deep/below/site"]);
    let browser = Browser::start(Setup::default());
    let at = |path: &str| format!("file://{}/{path}", place.path("deep/below/site").display());
    browser.open(&at("index.html"));
    browser.run("document.getElementById('q').focus()", &[]);
    browser.keys("beacon");
    browser.wait("return document.querySelectorAll('.tile').length === 1");
    browser.open(&at("p/lantern/path.html?from=lantern.v1.0.0"));
    browser.wait("return document.querySelectorAll('#answer .steps li').length === 2");
    browser.open(&at("p/lantern.html"));
    browser.run("document.getElementById('theme').click()", &[]);
    assert_eq!(browser.run("return document.documentElement.dataset.theme", &[]), json!("light"));
    browser.open(&at("p/lantern/graph.html"));
    let colour = browser.run("return getComputedStyle(document.querySelector('.opm .r')).stroke !== 'none'", &[]);
    assert_eq!(colour, json!(true));
    assert_eq!(browser.log(), Vec::<String>::new());
}

#[test]
fn a_directory_that_is_not_ours_is_left_alone() {
    let place = Place::with_example();
    place.write("mine/file.txt", "precious");
    let output = place.opm(&["site", "build", "catalog", "-o", "mine"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("did not write it"));
    assert_eq!(files(&place.path("mine")), ["file.txt"]);
    place.write("catalog/bad.json", "{\"schema\":\"olm.channel\"}");
    let output = place.opm(&["site", "build", "catalog", "-o", "fresh"]).output().unwrap();
    assert!(!output.status.success());
    assert!(!place.path("fresh").exists());
}
