//! Pages in a real browser: barriers, keys, both themes.

use serde_json::{Value, json};
use testkit::{Browser, Setup};

use crate::harness::{PAGES, Place, Server};

const ENTER: &str = "\u{e007}";

fn axe() -> String {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(std::path::PathBuf::from);
    let cache = given("OPM_TEST_CACHE")
        .or_else(|| given("XDG_CACHE_HOME").map(|cache| cache.join("opm-tests")))
        .or_else(|| given("HOME").map(|home| home.join(".cache/opm-tests")));
    let place = cache.expect("a place for what tests use").join("axe.min.js");
    std::fs::read_to_string(&place).unwrap_or_else(|_| panic!("{} is missing: cargo xtask browser", place.display()))
}

/// Looks for barriers; the script comes by the browser's own tools, since pages allow no foreign one.
fn barriers(browser: &Browser, axe: &str) -> Vec<String> {
    browser.devtools("Runtime.evaluate", json!({"expression": axe}));
    let found = browser.run_later(
        "const done = arguments[0]; axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
            .then(result => done(result.violations.map(one => one.id + ': ' + one.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | '))), error => done(['axe: ' + error]));",
        &[],
    );
    found.as_array().cloned().unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn check(setup: Setup, server: &Server, axe: &str) {
    let browser = Browser::start(setup);
    browser.requests();
    for page in PAGES {
        browser.open(&server.address(page));
        assert_eq!(barriers(&browser, axe), Vec::<String>::new(), "{page} {setup:?}");
        let wide = browser.run("return document.documentElement.scrollWidth > window.innerWidth", &[]);
        assert_eq!(wide, json!(false), "{page} scrolls sideways {setup:?}");
        assert_eq!(browser.run("return document.querySelectorAll('h1').length", &[]), json!(1), "{page}");
    }
    browser.open(&server.address("/p/lantern"));
    browser.run("document.getElementById('help').click()", &[]);
    assert_eq!(barriers(&browser, axe), Vec::<String>::new(), "help {setup:?}");
    for request in browser.requests() {
        assert!(request.starts_with(&server.address("/")) || request.starts_with("data:"), "{request}");
    }
    let log: Vec<String> = browser.log().into_iter().filter(|line| !line.contains("status of 40")).collect();
    assert_eq!(log, Vec::<String>::new(), "{setup:?}");
}

/// T-2: no barrier that axe knows, on any kind of page, light and dark, wide and narrow.
#[test]
fn pages_have_no_barriers_in_the_light() {
    let (place, axe) = (Place::with_example(), axe());
    let server = place.serve(&[]);
    check(Setup::default(), &server, &axe);
    check(Setup { size: (320, 800), ..Setup::default() }, &server, &axe);
}

/// T-2, in the dark.
#[test]
fn pages_have_no_barriers_in_the_dark() {
    let (place, axe) = (Place::with_example(), axe());
    let server = place.serve(&[]);
    check(Setup { dark: true, ..Setup::default() }, &server, &axe);
    check(Setup { dark: true, size: (320, 800), ..Setup::default() }, &server, &axe);
}

/// T-2: the check notices a picture without words.
#[test]
fn the_check_for_barriers_notices_one() {
    let (place, axe) = (Place::with_example(), axe());
    let server = place.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/"));
    browser.run("document.querySelector('.icon img').removeAttribute('alt')", &[]);
    assert!(barriers(&browser, &axe).iter().any(|found| found.starts_with("image-alt")));
}

/// T-4: with keys alone: find a package, open its newest version, compare it, copy its name.
#[test]
fn keys_alone_do() {
    let place = Place::with_example();
    let server = place.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/about"));
    browser.keys("/");
    browser.wait("return document.activeElement.id === 'q'");
    browser.keys("lant");
    browser.wait("return document.querySelectorAll('#suggest a').length === 1");
    browser.keys("\u{e015}");
    browser.keys(ENTER);
    browser.wait("return location.pathname === '/p/lantern'");
    browser.run("document.querySelector('.hero .actions a').focus()", &[]);
    let ring = browser.run("return getComputedStyle(document.activeElement).outlineStyle", &[]);
    assert_eq!(ring, json!("solid"));
    browser.keys(ENTER);
    browser.wait("return location.pathname === '/p/lantern/v/lantern.v1.1.0'");
    browser.keys("y");
    browser.wait("return [...document.querySelectorAll('[role=status]')].some(one => one.textContent === 'copied')");
    browser.keys("c");
    browser.wait("return location.pathname === '/p/lantern/compare'");
    browser.keys("gp");
    browser.wait("return location.pathname === '/'");
    browser.keys("j");
    browser.wait("return document.activeElement.closest('.tile') !== null");
    // Silent in fields, and when switched off.
    browser.run("document.getElementById('q').focus()", &[]);
    browser.keys("gk?");
    assert_eq!(
        browser.run(
            "return [location.pathname, document.querySelector('dialog').open, document.getElementById('q').value]",
            &[]
        ),
        json!(["/", false, "gk?"])
    );
    browser.run("localStorage.setItem('opm-keys', 'off'); document.activeElement.blur()", &[]);
    browser.keys("?");
    assert_eq!(browser.run("return document.querySelector('dialog').open", &[]), json!(false));
}

/// T-8: nothing makes markup of a text, even if a script tries.
#[test]
fn pages_refuse_markup_from_scripts() {
    let place = Place::with_example();
    let server = place.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/"));
    let outcome = browser
        .run("try { document.body.innerHTML = '<b>x</b>'; return 'taken' } catch (error) { return error.name }", &[]);
    assert_eq!(outcome, json!("TypeError"));
}

/// T-9: the browser finds what the server finds, and the address keeps it.
#[test]
fn the_browser_ranks_as_the_server_does() {
    let place = Place::with_example();
    let server = place.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/"));
    let shared: Value = serde_json::from_str(include_str!("../../../site/tests/queries.json")).unwrap();
    let rows: Vec<site::shelf::Row> = serde_json::from_value(shared["rows"].clone()).unwrap();
    let index = site::pages::list::index(&rows, "x");
    for case in shared["queries"].as_array().unwrap() {
        let places =
            browser.run("return opmFind(arguments[0], arguments[1])", &[index["rows"].clone(), case["query"].clone()]);
        let names: Vec<&str> = places
            .as_array()
            .unwrap()
            .iter()
            .map(|place| rows[place.as_u64().unwrap() as usize].name.as_str())
            .collect();
        assert_eq!(json!(names), case["order"], "{}", case["query"]);
    }
    browser.run("document.getElementById('q').focus()", &[]);
    browser.keys("beacon");
    browser.wait("return document.querySelectorAll('.tile').length === 1 && location.search === '?q=beacon'");
    browser.open(&server.address("/?q=lantern"));
    assert_eq!(
        browser.run("return [document.querySelectorAll('.tile').length, document.getElementById('q').value]", &[]),
        json!([1, "lantern"])
    );
    browser.open(&server.address("/"));
    browser.run("document.querySelector('input[value=Networking]').click()", &[]);
    browser.wait("return document.querySelectorAll('.tile').length === 1");
    browser.run("history.back()", &[]);
    browser.wait("return document.querySelectorAll('.tile').length === 2");
}

/// T-11: choosing two entries shows the way of the command.
#[test]
fn the_graph_shows_the_way_of_a_cluster() {
    let place = Place::with_example();
    let server = place.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/p/lantern/graph"));
    let pick = "const row = [...document.querySelectorAll('.opm .e')].find(row => row.querySelector('.nam').textContent === arguments[0]);
        row.dispatchEvent(new MouseEvent('click', {bubbles: true})); return document.getElementById('way').textContent";
    let way = browser.run(pick, &[json!("lantern.v1.0.0")]);
    assert!(way.as_str().unwrap().starts_with("1.0.0 → 1.1.0"), "{way}");
    let way = browser.run(pick, &[json!("lantern.v1.1.0")]);
    assert!(way.as_str().unwrap().contains("Compare"), "{way}");
    assert!(browser.address().contains("from=lantern.v1.0.0&to=lantern.v1.1.0"), "{}", browser.address());
    let shown = browser.run("return document.querySelectorAll('.opm .e.on').length", &[]);
    assert_eq!(shown, json!(2));
}

/// T-3: names and roles of the list, a package and a graph.
#[test]
fn landmarks_and_headings_are_in_order() {
    let place = Place::with_example();
    let server = place.serve(&[]);
    let browser = Browser::start(Setup::default());
    for page in ["/", "/p/lantern", "/p/lantern/graph"] {
        browser.open(&server.address(page));
        let levels = browser.run("return [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].filter(one => one.checkVisibility()).map(one => +one.tagName[1])", &[]);
        let levels: Vec<u64> = levels.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        assert_eq!(levels.first(), Some(&1), "{page}");
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{page}: {levels:?}");
        let landmarks =
            browser.run("return ['header', 'main', 'footer', 'nav'].every(name => document.querySelector(name))", &[]);
        assert_eq!(landmarks, json!(true), "{page}");
    }
    browser.open(&server.address("/p/lantern/graph"));
    let tree = browser.devtools("Accessibility.getFullAXTree", json!({}));
    let text = tree.to_string();
    assert!(
        text.contains("lantern.v1.0.0, version 1.0.0, upgrades to lantern.v1.1.0"),
        "entries are named by what they do"
    );
}

/// T-22: narrow, with wide spacing, in forced colours, in print: nothing is cut, and the table takes the picture's place.
#[test]
fn pages_adapt_to_how_they_are_read() {
    let place = Place::with_example();
    let server = place.serve(&[]);
    let browser = Browser::start(Setup { size: (320, 800), ..Setup::default() });
    browser.open(&server.address("/p/lantern/graph"));
    let shown = "return ['.graph', '.scroll table'].map(query => document.querySelector(query).checkVisibility())";
    assert_eq!(browser.run(shown, &[]), json!([false, true]));
    browser.devtools("Emulation.setEmulatedMedia", json!({"media": "print"}));
    assert_eq!(browser.run(shown, &[]), json!([false, true]));
    browser.devtools(
        "Emulation.setEmulatedMedia",
        json!({"media": "", "features": [{"name": "forced-colors", "value": "active"}]}),
    );
    for page in ["/", "/p/lantern", "/p/lantern/v/lantern.v1.1.0"] {
        browser.open(&server.address(page));
        let spaced = "for (const sheet of document.adoptedStyleSheets) void sheet; const sheet = new CSSStyleSheet(); sheet.replaceSync('*{line-height:1.5!important;letter-spacing:.12em!important;word-spacing:.16em!important}'); document.adoptedStyleSheets = [sheet]; return document.documentElement.scrollWidth <= window.innerWidth";
        assert_eq!(browser.run(spaced, &[]), json!(true), "{page}");
    }
}

/// T-24: pictures of every kind of page, for people to look at, where `OPM_SCREENSHOTS` names a directory.
#[test]
fn screenshots_are_kept_for_reviewers() {
    let place = Place::with_example();
    let server = place.serve(&[]);
    let target = std::env::var_os("OPM_SCREENSHOTS").map(std::path::PathBuf::from);
    for dark in [false, true] {
        let browser = Browser::start(Setup { dark, ..Setup::default() });
        for (number, page) in PAGES.iter().enumerate() {
            browser.open(&server.address(page));
            let picture = browser.screenshot();
            assert!(picture.starts_with(b"\x89PNG"), "{page}");
            if let Some(target) = &target {
                std::fs::create_dir_all(target).unwrap();
                let theme = if dark { "dark" } else { "light" };
                std::fs::write(target.join(format!("{number:02}-{theme}.png")), picture).unwrap();
            }
        }
    }
}
