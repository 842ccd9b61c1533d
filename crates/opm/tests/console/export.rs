//! Pages as files: in a folder, on a host, below a path.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;
use testkit::{Browser, Setup};

use crate::harness::{Workspace, files, links, text_of, value};
use crate::host::Host;

fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    files(root).into_iter().map(|path| (path.clone(), fs::read(root.join(&path)).unwrap())).collect()
}

/// Follows every link of every page; returns how many lead to files.
fn crawl(root: &Path) -> usize {
    let all: std::collections::HashSet<String> = files(root).into_iter().collect();
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    let mut checked = 0;
    for path in all.iter().filter(|path| path.ends_with(".html")) {
        let html = fs::read_to_string(root.join(path)).unwrap();
        for link in links(&html) {
            if link.starts_with("http") || link.starts_with("mailto:") || link.starts_with('#') {
                continue;
            }
            let mut parts: Vec<&str> = path.split('/').collect();
            parts.pop();
            for part in link.split(['#', '?']).next().unwrap().split('/') {
                match part {
                    "." => {}
                    ".." => assert!(parts.pop().is_some(), "{path}: {link} leaves the site"),
                    part => parts.push(part),
                }
            }
            let target = parts.join("/");
            assert!(all.contains(&target), "{path} has a link to {link}");
            if let Some((_, id)) = link.split_once('#') {
                let text = ids.entry(target.clone()).or_insert_with(|| fs::read_to_string(root.join(&target)).unwrap());
                let anchors = [format!("id=\"{id}\""), format!("id={id}>"), format!("id={id} ")];
                assert!(anchors.iter().any(|id| text.contains(id)), "{path}: {link}");
                if ids.len() > 50 {
                    ids.clear();
                }
            }
            checked += 1;
        }
    }
    checked
}

/// C-16: every link of every page leads to a file.
#[test]
fn c16_every_link_of_an_export_leads_to_a_file() {
    let workspace = Workspace::with_example();
    crate::random::write(&workspace, "catalog", 5);
    for versions in ["all", "heads", "2"] {
        workspace.run(&["site", "build", "catalog", "-o", "site", "--versions", versions, "--previous", "previous"]);
        let checked = crawl(&workspace.path("site"));
        assert!(checked > 200, "{checked}");
    }
}

/// A version without its own page is shown, and not linked.
#[test]
fn c_118_versions_without_a_page_are_shown_and_not_linked() {
    let workspace = Workspace::with_example();
    workspace.run(&["site", "build", "catalog", "-o", "site", "--versions", "heads"]);
    assert!(!workspace.path("site/p/lantern/v/lantern.v1.0.1.html").exists());
    for (path, name) in [("p/lantern.html", "1.0.1"), ("p/lantern/graph.html", "lantern.v1.0.1")] {
        let page = fs::read_to_string(workspace.path("site").join(path)).unwrap();
        assert!(text_of(&page).contains(name), "{path}");
        let linked = links(&page).into_iter().filter(|link| link.contains(".v1.0.1") || link.contains("#versions"));
        assert_eq!(linked.collect::<Vec<_>>(), Vec::<String>::new(), "{path}");
    }
    let head = fs::read_to_string(workspace.path("site/p/lantern/v/lantern.v1.1.0.html")).unwrap();
    assert!(head.contains("2.0.0 →") && !head.contains("← 1.0.1"), "a button leads to a missing page");
}

/// C-17: the same catalog gives the same bytes, and a change of one package affects only its files and the lists.
#[test]
fn an_export_changes_only_with_the_catalog() {
    let workspace = Workspace::with_example();
    workspace.run(&["site", "build", "catalog", "-o", "one", "--name", "x"]);
    workspace.run(&["site", "build", "catalog", "-o", "two", "--name", "x"]);
    assert!(contents(&workspace.path("one")) == contents(&workspace.path("two")));
    let modified = |path: &str| fs::metadata(workspace.path("one").join(path)).unwrap().modified().unwrap();
    let before = modified("-/d/p/lantern.json");
    let text = fs::read_to_string(workspace.path("catalog/beacon.json")).unwrap().replace("Shows where", "Tells where");
    workspace.write("catalog/beacon.json", &text);
    workspace.run(&["site", "build", "catalog", "-o", "one", "--name", "x"]);
    let (old, new) = (contents(&workspace.path("two")), contents(&workspace.path("one")));
    let changed: Vec<&String> = old.keys().filter(|path| old[*path] != new[*path]).collect();
    let may = |path: &str| {
        path.contains("beacon")
            || ["-/d/index.js", "-/d/index.json", "-/site.json", "index.html", "about.html"].contains(&path)
    };
    assert!(changed.iter().all(|path| may(path)) && changed.len() > 5, "{changed:?}");
    assert_eq!(modified("-/d/p/lantern.json"), before);
}

/// Removes the elements of a class from a page: those that only a server, or only an export, has.
fn without(html: &str, class: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    // The removed element, and how deep equal elements are nested.
    let mut inside: Option<(String, usize)> = None;
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').map_or(rest.len(), |at| start + at + 1);
        let (text, tag) = (&rest[..start], &rest[start..end]);
        if inside.is_none() {
            out.push_str(text);
        }
        let closing = tag.starts_with("</");
        let name: String = tag.trim_start_matches(['<', '/']).chars().take_while(char::is_ascii_alphanumeric).collect();
        let classes = tag.split(" class=").nth(1).map(value).unwrap_or_default();
        match &mut inside {
            Some((of, depth)) if *of == name => {
                *depth = if closing { *depth - 1 } else { *depth + 1 };
                if *depth == 0 {
                    inside = None;
                }
            }
            Some(_) => {}
            None if !closing && classes.split(' ').any(|one| one == class) => inside = Some((name, 1)),
            None => out.push_str(tag),
        }
        rest = &rest[end..];
    }
    out + rest
}

/// Returns the element with an id: from its start tag to its end tag.
fn element<'a>(html: &'a str, id: &str) -> &'a str {
    let at = html.find(&format!("<div id={id}>")).unwrap_or_else(|| panic!("the page has no {id}"));
    let (mut depth, mut end) = (0, at);
    while end == at || depth > 0 {
        let next = html[end..].find("div").map(|next| end + next).unwrap();
        match &html[..next] {
            before if before.ends_with("</") => depth -= 1,
            before if before.ends_with('<') => depth += 1,
            _ => {}
        }
        end = next + 3;
    }
    &html[at..end]
}

/// Inserts the parts that an exported page shares with the page of another version.
fn with_shared_parts(html: &str, page: &Path) -> String {
    let mut parts = html.split("<p class=still>The same as in <a href=");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (file, id) = value(part).split_once('#').unwrap();
        let other = fs::read_to_string(page.parent().unwrap().join(file)).unwrap();
        out.push_str(element(&other, id));
        out.push_str(part.split_once("</p>").unwrap().1);
    }
    out
}

fn same(exported: &str, served: &str, path: &str) {
    let exported = text_of(&without(exported, "still"));
    let served = text_of(&without(served, "live"));
    assert_eq!(exported, served, "{path}");
}

/// C-18: an export shows the same as the server, except for links and live parts: on every page of the example, and on
/// 200 pages of a larger catalog.
#[test]
fn c18_an_export_shows_the_same_as_the_server() {
    let workspace = Workspace::with_example();
    workspace.run(&["site", "build", "catalog", "-o", "site", "--name", "test", "--previous", "previous"]);
    let server = workspace.serve(&[]);
    let mut compared = 0;
    let pages = |root: &Path| {
        files(root).into_iter().filter(|path| path.ends_with(".html") && path != "404.html").collect::<Vec<_>>()
    };
    for path in pages(&workspace.path("site")) {
        let page = workspace.path("site").join(&path);
        let exported = with_shared_parts(&fs::read_to_string(&page).unwrap(), &page);
        same(&exported, &server.get(&format!("/{path}")).body, &path);
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
    let mark = fs::read_to_string(workspace.path("site/-/site.json")).unwrap();
    let mark: serde_json::Value = serde_json::from_str(&mark).unwrap();
    assert!(server.get("/about").body.contains(mark["revision"].as_str().unwrap()), "the revisions differ");
    let workspace = Workspace::new();
    crate::random::write(&workspace, "catalog", crate::random::VERSIONS);
    workspace.run(&["site", "build", "catalog", "-o", "site", "--name", "test"]);
    let server = workspace.serve(&[]);
    let pages = pages(&workspace.path("site"));
    let mut dice = crate::random::Dice(18);
    for _ in 0..200 {
        let path = dice.pick(&pages);
        let page = workspace.path("site").join(path);
        let exported = with_shared_parts(&fs::read_to_string(&page).unwrap(), &page);
        same(&exported, &server.get(&format!("/{path}")).body, path);
    }
}

/// Checks that an export works at any location, except for features that need a server.
fn works(browser: &Browser, at: &dyn Fn(&str) -> String) {
    browser.open(&at("index.html"));
    browser.run("localStorage.clear(); document.getElementById('q').focus()", &[]);
    browser.keys("beacon");
    browser.wait("return document.querySelectorAll('.tile').length === 1");
    browser.open(&at("index.html?category=Networking"));
    browser.wait("return document.querySelectorAll('.tile').length === 1 && document.querySelector('input[value=Networking]').checked");
    browser.open(&at("p/lantern/path.html?from=lantern.v1.0.0"));
    browser.wait("return document.querySelectorAll('#answer .steps li').length === 2");
    browser.open(&at("p/lantern.html"));
    browser.run("document.getElementById('theme').click()", &[]);
    assert_eq!(browser.run("return document.documentElement.dataset.theme", &[]), json!("light"));
    browser.open(&at("p/lantern/graph.html"));
    let colour = browser.run("return getComputedStyle(document.querySelector('.opm .r')).stroke !== 'none'", &[]);
    assert_eq!(colour, json!(true));
    // C-4: the keyboard alone suffices.
    browser.open(&at("about.html"));
    browser.run("document.activeElement.blur()", &[]);
    browser.keys("/");
    browser.wait("return document.activeElement.id === 'q'");
    browser.keys("lant");
    browser.wait("return document.querySelectorAll('#suggest a').length === 1");
    browser.keys("\u{e015}");
    browser.keys("\u{e007}");
    browser.wait("return location.pathname.endsWith('/p/lantern.html')");
    browser.run("document.querySelector('.hero .actions a').focus()", &[]);
    browser.keys("\u{e007}");
    browser.wait("return location.pathname.endsWith('/v/lantern.v1.1.0.html')");
    browser.keys("y");
    browser.wait("return [...document.querySelectorAll('[role=status]')].some(one => one.textContent === 'copied')");
    browser.keys("[");
    browser.wait("return location.pathname.endsWith('/v/lantern.v1.0.1.html')");
    browser.keys("gp");
    browser.wait("return location.pathname.endsWith('/index.html')");
    assert_eq!(browser.log(), Vec::<String>::new());
}

/// C-16: an export works in a folder, at the root of a static host and below a path, also without scripts.
#[test]
fn c16_an_export_works_at_any_location() {
    let workspace = Workspace::with_example();
    workspace.run(&["site", "build", "catalog", "-o", "deep/below/site"]);
    let root = workspace.path("deep/below/site");
    let (top, below) = (Host::start(&root, "/"), Host::start(&root, "/a/b/"));
    let browser = Browser::start(Setup::default());
    works(&browser, &|path| format!("file://{}/{path}", root.display()));
    works(&browser, &|path| top.address(path));
    works(&browser, &|path| below.address(path));
    // C-1: without scripts the page shows all that is in the file.
    let still = Browser::start(Setup { scripts: false, ..Setup::default() });
    let pages = files(&root).into_iter().filter(|path| path.ends_with(".html"));
    for (number, path) in pages.enumerate() {
        let written = text_of(&fs::read_to_string(root.join(&path)).unwrap());
        // The location does not matter without scripts, so each page is opened at one of them.
        let address = match number % 3 {
            0 => format!("file://{}/{path}", root.display()),
            1 => top.address(&path),
            _ => below.address(&path),
        };
        still.open(&address);
        let shown = still.evaluate("document.querySelector('main').textContent");
        let squeezed = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        assert_eq!(squeezed(shown.as_str().unwrap()), squeezed(&written), "{address}");
    }
}

/// C-16: every link of the whole export of a large catalog leads to a file. Needs `OPM_CONSOLE_CATALOG`, a directory.
#[test]
#[ignore = "needs a large catalog: OPM_CONSOLE_CATALOG"]
fn c16_every_link_of_a_large_export_leads_to_a_file() {
    let catalog = std::env::var("OPM_CONSOLE_CATALOG").expect("OPM_CONSOLE_CATALOG is a catalog");
    let workspace = Workspace::new();
    workspace.run(&["site", "build", &catalog, "-o", "site", "--no-blobs"]);
    let checked = crawl(&workspace.path("site"));
    assert!(checked > 100_000, "{checked}");
}

#[test]
fn a_foreign_directory_is_not_overwritten() {
    let workspace = Workspace::with_example();
    workspace.write("mine/file.txt", "precious");
    let output = workspace.opm(&["site", "build", "catalog", "-o", "mine"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("did not write it"));
    assert_eq!(files(&workspace.path("mine")), ["file.txt"]);
    workspace.write("catalog/bad.json", "{\"schema\":\"olm.channel\"}");
    let output = workspace.opm(&["site", "build", "catalog", "-o", "fresh"]).output().unwrap();
    assert!(!output.status.success());
    assert!(!workspace.path("fresh").exists());
}

#[test]
fn an_interrupted_export_keeps_the_old_one() {
    let workspace = Workspace::with_example();
    workspace.run(&["site", "build", "catalog", "--to", "out"]);
    let before = contents(&workspace.path("out"));
    crate::random::write(&workspace, "catalog", crate::random::VERSIONS);
    let names = || {
        let entries = fs::read_dir(workspace.path("")).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<String>>()
    };
    let mut export = workspace.opm(&["site", "build", "catalog", "--to", "out"]).spawn().unwrap();
    while !names().iter().any(|name| name.starts_with(".opm-site-")) {
        assert!(export.try_wait().unwrap().is_none(), "the export ended before the interrupt");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let killed = std::process::Command::new("kill").args(["-TERM", &export.id().to_string()]).status().unwrap();
    assert!(killed.success() && !export.wait().unwrap().success());
    assert!(!names().iter().any(|name| name.starts_with(".opm-site-")), "{:?}", names());
    assert_eq!(contents(&workspace.path("out")), before);
}
