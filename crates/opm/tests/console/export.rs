//! Pages as files: from a folder, from a host, below a path.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;
use testkit::{Browser, Setup};

use crate::harness::{Place, files, links, text_of, value};
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
                    ".." => assert!(parts.pop().is_some(), "{path}: {link} leads above the top"),
                    part => parts.push(part),
                }
            }
            let target = parts.join("/");
            assert!(all.contains(&target), "{path} has a link to {link}");
            if let Some((_, id)) = link.split_once('#') {
                let text = ids.entry(target.clone()).or_insert_with(|| fs::read_to_string(root.join(&target)).unwrap());
                let there = [format!("id=\"{id}\""), format!("id={id}>"), format!("id={id} ")];
                assert!(there.iter().any(|id| text.contains(id)), "{path}: {link}");
                if ids.len() > 50 {
                    ids.clear();
                }
            }
            checked += 1;
        }
    }
    checked
}

/// T-16: every link of every page leads to a file.
#[test]
fn t_16_every_link_of_an_export_leads_to_a_file() {
    let place = Place::with_example();
    crate::random::write(&place, "catalog", 5);
    for versions in ["all", "heads", "2"] {
        place.run(&["site", "build", "catalog", "-o", "site", "--versions", versions, "--previous", "previous"]);
        let checked = crawl(&place.path("site"));
        assert!(checked > 200, "{checked}");
    }
}

/// C-118: a version that has no page of its own is named, and not linked.
#[test]
fn c_118_versions_without_a_page_are_named_and_not_linked() {
    let place = Place::with_example();
    place.run(&["site", "build", "catalog", "-o", "site", "--versions", "heads"]);
    assert!(!place.path("site/p/lantern/v/lantern.v1.0.1.html").exists());
    for (path, name) in [("p/lantern.html", "1.0.1"), ("p/lantern/graph.html", "lantern.v1.0.1")] {
        let page = fs::read_to_string(place.path("site").join(path)).unwrap();
        assert!(text_of(&page).contains(name), "{path}");
        let linked = links(&page).into_iter().filter(|link| link.contains(".v1.0.1") || link.contains("#versions"));
        assert_eq!(linked.collect::<Vec<_>>(), Vec::<String>::new(), "{path}");
    }
    let head = fs::read_to_string(place.path("site/p/lantern/v/lantern.v1.1.0.html")).unwrap();
    assert!(head.contains("2.0.0 →") && !head.contains("← 1.0.1"), "buttons lead to pages that are there");
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
    let changed: Vec<&String> = old.keys().filter(|path| old[*path] != new[*path]).collect();
    let may = |path: &str| {
        path.contains("beacon")
            || ["-/d/index.js", "-/d/index.json", "-/site.json", "index.html", "about.html"].contains(&path)
    };
    assert!(changed.iter().all(|path| may(path)) && changed.len() > 5, "{changed:?}");
    assert_eq!(modified("-/d/p/lantern.json"), before);
}

/// Takes the elements of a class out of a page: those that only a server, or only an export, has.
fn without(html: &str, class: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    // The element that is taken out, and how deep its like is nested.
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
    let at = html.find(&format!("<div id={id}>")).unwrap_or_else(|| panic!("there is no {id}"));
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

/// Puts in what a page refers to: the parts that the page of another version of an export shows.
fn filled(html: &str, page: &Path) -> String {
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

/// T-18: an export says what the server says, but for links and live parts: on every page of the example, and on 200 of
/// a larger catalog.
#[test]
fn t_18_an_export_says_what_the_server_says() {
    let place = Place::with_example();
    place.run(&["site", "build", "catalog", "-o", "site", "--name", "test", "--previous", "previous"]);
    let server = place.serve(&[]);
    let mut compared = 0;
    let pages = |root: &Path| {
        files(root).into_iter().filter(|path| path.ends_with(".html") && path != "404.html").collect::<Vec<_>>()
    };
    for path in pages(&place.path("site")) {
        let page = place.path("site").join(&path);
        let exported = filled(&fs::read_to_string(&page).unwrap(), &page);
        same(&exported, &server.get(&format!("/{path}")).body, &path);
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
    let mark = fs::read_to_string(place.path("site/-/site.json")).unwrap();
    let mark: serde_json::Value = serde_json::from_str(&mark).unwrap();
    assert!(server.get("/about").body.contains(mark["revision"].as_str().unwrap()), "one revision for both");
    let place = Place::new();
    crate::random::write(&place, "catalog", crate::random::VERSIONS);
    place.run(&["site", "build", "catalog", "-o", "site", "--name", "test"]);
    let server = place.serve(&[]);
    let pages = pages(&place.path("site"));
    let mut dice = crate::random::Dice(18);
    for _ in 0..200 {
        let path = dice.pick(&pages);
        let page = place.path("site").join(path);
        let exported = filled(&fs::read_to_string(&page).unwrap(), &page);
        same(&exported, &server.get(&format!("/{path}")).body, path);
    }
}

/// What an export must do wherever it is: everything of the console but what needs a server.
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
    // T-4: keys alone.
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

/// T-16: an export works from a folder, at the top of a static host and below a path of one, also without scripts.
#[test]
fn t_16_an_export_works_wherever_it_is() {
    let place = Place::with_example();
    place.run(&["site", "build", "catalog", "-o", "deep/below/site"]);
    let root = place.path("deep/below/site");
    let (top, below) = (Host::start(&root, "/"), Host::start(&root, "/a/b/"));
    let browser = Browser::start(Setup::default());
    works(&browser, &|path| format!("file://{}/{path}", root.display()));
    works(&browser, &|path| top.address(path));
    works(&browser, &|path| below.address(path));
    // T-1: what is written is what is shown, without scripts.
    let still = Browser::start(Setup { scripts: false, ..Setup::default() });
    for path in files(&root).iter().filter(|path| path.ends_with(".html")) {
        let written = text_of(&fs::read_to_string(root.join(path)).unwrap());
        for address in [format!("file://{}/{path}", root.display()), top.address(path), below.address(path)] {
            still.open(&address);
            let shown = still.evaluate("document.querySelector('main').textContent");
            let squeezed = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            assert_eq!(squeezed(shown.as_str().unwrap()), squeezed(&written), "{address}");
        }
    }
}

/// T-16: every link of the whole export of a large catalog leads to a file. Needs `OPM_CONSOLE_CATALOG`, a directory.
#[test]
#[ignore = "needs a large catalog: OPM_CONSOLE_CATALOG"]
fn t_16_every_link_of_a_large_export_leads_to_a_file() {
    let catalog = std::env::var("OPM_CONSOLE_CATALOG").expect("OPM_CONSOLE_CATALOG is a catalog");
    let place = Place::new();
    place.run(&["site", "build", &catalog, "-o", "site", "--no-blobs"]);
    let checked = crawl(&place.path("site"));
    assert!(checked > 100_000, "{checked}");
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

#[test]
fn an_interrupted_export_leaves_nothing_but_the_old_one() {
    let place = Place::with_example();
    place.run(&["site", "build", "catalog", "--to", "out"]);
    let before = contents(&place.path("out"));
    crate::random::write(&place, "catalog", crate::random::VERSIONS);
    let names = || {
        let entries = fs::read_dir(place.path("")).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<String>>()
    };
    let mut export = place.opm(&["site", "build", "catalog", "--to", "out"]).spawn().unwrap();
    while !names().iter().any(|name| name.starts_with(".opm-site-")) {
        assert!(export.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let killed = std::process::Command::new("kill").args(["-TERM", &export.id().to_string()]).status().unwrap();
    assert!(killed.success() && !export.wait().unwrap().success());
    assert!(!names().iter().any(|name| name.starts_with(".opm-site-")), "{:?}", names());
    assert_eq!(contents(&place.path("out")), before);
}
