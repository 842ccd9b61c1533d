//! Pages in a real browser: accessibility, keys, both themes.

use serde_json::{Value, json};
use testkit::{Browser, Setup};

use crate::harness::{PAGES, Server, Workspace};

const ENTER: &str = "\u{e007}";

fn axe() -> String {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(std::path::PathBuf::from);
    let cache = given("OPM_TEST_CACHE")
        .or_else(|| given("XDG_CACHE_HOME").map(|cache| cache.join("opm-tests")))
        .or_else(|| given("HOME").map(|home| home.join(".cache/opm-tests")));
    let file = cache.expect("a cache directory").join("axe.min.js");
    std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{} is missing: cargo xtask browser", file.display()))
}

/// All rules of axe.
const ALL: &[&str] = &["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
/// The rules about colours. A theme changes nothing else.
const COLOURS: &[&str] = &["color-contrast", "link-in-text-block"];

/// Returns accessibility violations. DevTools inject axe, because pages allow no foreign script.
fn violations(browser: &Browser, axe: &str, rules: &[&str]) -> Vec<String> {
    browser.devtools("Runtime.evaluate", json!({"expression": axe}));
    let found = browser.run_later(
        "const [rules, done] = arguments; axe.run(document, {runOnly: rules})
            .then(result => done(result.violations.map(one => one.id + ': ' + one.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | '))), error => done(['axe: ' + error]));",
        &[json!(rules)],
    );
    found.as_array().cloned().unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn check(setup: Setup, server: &Server, axe: &str) {
    let rules = if setup.dark { COLOURS } else { ALL };
    let browser = Browser::start(setup);
    browser.requests();
    for page in PAGES {
        browser.open(&server.address(page));
        assert_eq!(violations(&browser, axe, rules), Vec::<String>::new(), "{page} {setup:?}");
        let wide = browser.run("return document.documentElement.scrollWidth > window.innerWidth", &[]);
        assert_eq!(wide, json!(false), "{page} scrolls sideways {setup:?}");
        assert_eq!(browser.run("return document.querySelectorAll('h1').length", &[]), json!(1), "{page}");
    }
    browser.open(&server.address("/p/lantern"));
    browser.run("document.getElementById('help').click()", &[]);
    assert_eq!(violations(&browser, axe, rules), Vec::<String>::new(), "help {setup:?}");
    for request in browser.requests() {
        assert!(request.starts_with(&server.address("/")) || request.starts_with("data:"), "{request}");
    }
    let log: Vec<String> = browser.log().into_iter().filter(|line| !line.contains("status of 40")).collect();
    assert_eq!(log, Vec::<String>::new(), "{setup:?}");
}

/// C-2: axe finds no violation on any kind of page, light and dark, wide and narrow.
#[test]
fn pages_have_no_accessibility_violations_in_the_light_theme() {
    let (workspace, axe) = (Workspace::with_example(), axe());
    let server = workspace.serve(&[]);
    check(Setup::default(), &server, &axe);
    check(Setup { size: (320, 800), ..Setup::default() }, &server, &axe);
}

/// C-2, in the dark theme.
#[test]
fn pages_have_no_accessibility_violations_in_the_dark_theme() {
    let (workspace, axe) = (Workspace::with_example(), axe());
    let server = workspace.serve(&[]);
    check(Setup { dark: true, ..Setup::default() }, &server, &axe);
    check(Setup { dark: true, size: (320, 800), ..Setup::default() }, &server, &axe);
}

/// C-2: the check reports a picture without a text alternative, and pale text.
#[test]
fn the_accessibility_check_reports_a_violation() {
    let (workspace, axe) = (Workspace::with_example(), axe());
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/"));
    browser.run("document.querySelector('.icon img').removeAttribute('alt')", &[]);
    assert!(violations(&browser, &axe, ALL).iter().any(|found| found.starts_with("image-alt")));
    browser.run("document.body.className = 'pale'; const rules = new CSSStyleSheet(); rules.replaceSync('.pale * { color: #888 !important; background: #999 !important }'); document.adoptedStyleSheets = [rules]", &[]);
    assert!(violations(&browser, &axe, COLOURS).iter().any(|found| found.starts_with("color-contrast")));
}

/// C-4: the keyboard alone finds a package, opens its latest version, compares it, and copies its name.
#[test]
fn the_keyboard_alone_suffices() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
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
    // Shortcuts are inactive in fields, and when disabled.
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

/// C-8: the page turns no text into markup, even if a script tries.
#[test]
fn pages_reject_markup_from_scripts() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/"));
    let outcome = browser
        .run("try { document.body.innerHTML = '<b>x</b>'; return 'taken' } catch (error) { return error.name }", &[]);
    assert_eq!(outcome, json!("TypeError"));
}

/// C-9: the browser finds the same packages as the server, and the URL keeps the query.
#[test]
fn the_browser_ranks_like_the_server() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/"));
    let shared: Value = serde_json::from_str(include_str!("../../../site/tests/queries.json")).unwrap();
    let rows: Vec<site::summary::Row> = serde_json::from_value(shared["rows"].clone()).unwrap();
    let index = site::pages::list::index(&rows, &site::frame::CatalogFacts::default());
    for case in shared["queries"].as_array().unwrap() {
        let places =
            browser.run("return opmFind(arguments[0], arguments[1])", &[index["rows"].clone(), case["query"].clone()]);
        let names: Vec<&str> = places
            .as_array()
            .unwrap()
            .iter()
            .map(|workspace| rows[workspace.as_u64().unwrap() as usize].name.as_str())
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

/// C-9: random filters give the same order on the server and in the browser, and the counts of a plain recount.
#[test]
fn c9_random_filters_agree_everywhere() {
    let workspace = Workspace::new();
    crate::random::write(&workspace, "catalog", 6);
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/"));
    let index: Value = serde_json::from_str(&server.get("/-/d/index.json").body).unwrap();
    let rows = index["rows"].as_array().unwrap();
    let mut dice = crate::random::Dice(9);
    let facets = ["category", "capability", "year", "kube", "provider", "state"];
    let values = |row: &Value, facet: &str| -> Vec<String> {
        row["f"][facet].as_array().into_iter().flatten().map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    for round in 0..40 {
        let mut chosen: Vec<(&str, String)> = Vec::new();
        for _ in 0..dice.below(4) {
            let (row, facet) = (dice.pick(rows), *dice.pick(&facets));
            let all = values(row, facet);
            // The provider is a menu with one value.
            if all.is_empty() || facet == "provider" && chosen.iter().any(|(one, _)| *one == facet) {
                continue;
            }
            chosen.push((facet, dice.pick(&all).clone()));
        }
        let words = *dice.pick(&["", "", "made", "1", "image:made-1", "kind:thing"]);
        let encoded = |text: &str| text.replace(' ', "+").replace(',', "%2C");
        let mut query: Vec<String> =
            chosen.iter().map(|(facet, value)| format!("{facet}={}", encoded(value))).collect();
        query.push(format!("q={words}"));
        query.push(format!("sort={}", dice.pick(&["", "name", "date", "versions"])));
        let query = query.join("&");
        let page = server.get(&format!("/?{query}")).body;
        let shown: Vec<u64> = page
            .split("class=\"tile\" data-n=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        let found = browser.run("return opmFind(arguments[0], arguments[1])", &[index["rows"].clone(), json!(query)]);
        assert_eq!(json!(shown), found, "{round}: {query}");
        // The recount: a row counts for a value if it matches all other filters and the query.
        let fits = |row: &Value, but: &str| {
            facets.iter().filter(|facet| **facet != but).all(|facet| {
                let wanted: Vec<&String> =
                    chosen.iter().filter(|(one, _)| one == facet).map(|(_, value)| value).collect();
                wanted.is_empty() || values(row, facet).iter().any(|value| wanted.contains(&value))
            })
        };
        let by_words = browser
            .run("return opmFind(arguments[0], arguments[1])", &[index["rows"].clone(), json!(format!("q={words}"))]);
        let by_words: Vec<u64> = by_words.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        for facet in ["category", "capability"] {
            let block = page.split(&format!("data-facet=\"{facet}\"")).nth(1);
            let Some(block) = block.map(|rest| rest.split("</fieldset>").next().unwrap()) else { continue };
            for line in block.split("<label>").skip(1) {
                let value = line.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
                let count: usize = line.split("<small>").nth(1).unwrap().split('<').next().unwrap().parse().unwrap();
                let expected = by_words.iter().filter(|workspace| {
                    let row = &rows[**workspace as usize];
                    fits(row, facet) && values(row, facet).iter().any(|one| one == value)
                });
                assert_eq!(count, expected.count(), "{query}: {facet} {value}");
            }
        }
    }
}

/// The server searches descriptions if a query requests it.
#[test]
fn descriptions_are_searched_on_request() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let nothing = server.get("/?q=requests+plan").body;
    assert_eq!(nothing.matches("class=\"tile\"").count(), 0);
    assert!(nothing.contains("Search the whole descriptions"), "the page does not offer to search descriptions");
    assert_eq!(server.get("/?q=plan+in:description").body.matches("class=\"tile\"").count(), 1);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/"));
    browser.run("document.getElementById('q').focus()", &[]);
    browser.keys("plan in:description");
    browser.keys(ENTER);
    browser
        .wait("return location.search.includes('in%3Adescription') && document.querySelectorAll('.tile').length === 1");
}

/// C-24: screenshots of every kind of page for reviewers. Needs `OPM_SCREENSHOTS`, a directory.
#[test]
#[ignore = "needs a directory for pictures: OPM_SCREENSHOTS"]
fn screenshots_are_saved_for_reviewers() {
    let target = std::path::PathBuf::from(std::env::var_os("OPM_SCREENSHOTS").expect("OPM_SCREENSHOTS is a directory"));
    std::fs::create_dir_all(&target).unwrap();
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    for dark in [false, true] {
        let browser = Browser::start(Setup { dark, ..Setup::default() });
        for (number, page) in PAGES.iter().enumerate() {
            browser.open(&server.address(page));
            let picture = browser.screenshot();
            assert!(picture.starts_with(b"\x89PNG"), "{page}");
            let theme = if dark { "dark" } else { "light" };
            std::fs::write(target.join(format!("{number:02}-{theme}.png")), picture).unwrap();
        }
    }
}
