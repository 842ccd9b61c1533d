//! Ways to read pages: without scripts, with assistive technology, narrow, enlarged, in print.

use serde_json::{Value, json};
use testkit::{Browser, Setup};

use crate::harness::{PAGES, Workspace, text_of};

/// C-1: without scripts every page shows all its text, links, tables and pictures, and filters are forms.
#[test]
fn c1_every_page_is_complete_without_scripts() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup { scripts: false, ..Setup::default() });
    for page in PAGES {
        browser.open(&server.address(page));
        let parts = browser.evaluate(
            "[document.querySelector('main').textContent, document.querySelectorAll('.tool, .copybtn, .sort').length]",
        );
        let shown = parts[0].as_str().unwrap().to_lowercase();
        assert!(!shown.contains("loading") && !shown.contains("being loaded"), "{page}");
        let sent = text_of(&server.get(page).body);
        let squeezed = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_lowercase();
        assert_eq!(squeezed(&shown), squeezed(&sent), "{page}: the browser shows other text than the server sends");
        assert_eq!(parts[1], json!(0), "{page}: elements that need scripts are in the page");
    }
    browser.open(&server.address("/p/lantern/graph"));
    assert_eq!(
        browser.evaluate(
            "document.querySelectorAll('svg.opm').length > 1 && document.querySelectorAll('.scroll table').length > 1"
        ),
        json!(true)
    );
    // Filters, search and the picker are forms.
    for (query, tiles) in [("category=Networking", 1), ("q=beacon", 1), ("state=Deprecated", 0), ("", 2)] {
        browser.open(&server.address(&format!("/?{query}")));
        assert_eq!(browser.evaluate("document.querySelectorAll('.tile').length"), json!(tiles), "{query}");
        assert_eq!(browser.evaluate("document.querySelectorAll('form.facets button[type=submit]').length"), json!(1));
    }
}

/// Returns roles and names of the accessibility tree, one per line.
fn tree(browser: &Browser) -> String {
    let found = browser.devtools("Accessibility.getFullAXTree", json!({}));
    let nodes = found["nodes"].as_array().unwrap();
    let by_id = |id: &Value| nodes.iter().find(|node| node["nodeId"] == *id);
    let mut out = String::new();
    let mut todo: Vec<(&Value, usize)> =
        nodes.iter().filter(|node| node["parentId"].is_null()).map(|node| (node, 0)).collect();
    while let Some((node, depth)) = todo.pop() {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let name = node["name"]["value"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        // A form without a name has no role; releases of the browser differ in whether they report it.
        let reported = node["ignored"] != true
            && (role != "form" || !name.is_empty())
            && !matches!(
                role,
                "none"
                    | "generic"
                    | "StaticText"
                    | "InlineTextBox"
                    | "LineBreak"
                    | "ListMarker"
                    | "paragraph"
                    | "code"
                    | "emphasis"
                    | "strong"
                    | "LayoutTable"
                    | "RootWebArea"
                    | "time"
                    | "SvgRoot"
            );
        if reported {
            // Relative times depend on the current day.
            let name = name.split(" (").next().unwrap_or_default();
            out.push_str(&format!("{}{role} {name}\n", "  ".repeat(depth)).replace(" \n", "\n"));
        }
        let children = node["childIds"].as_array().into_iter().flatten().filter_map(by_id);
        let children: Vec<&Value> = children.collect();
        todo.extend(children.into_iter().rev().map(|child| (child, depth + usize::from(reported))));
    }
    out
}

/// C-3: roles and names of the list, a package and a graph; one heading of the first level; landmarks.
#[test]
fn c3_the_accessibility_tree_matches_its_snapshot() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup::default());
    for (page, name) in [("/", "list"), ("/p/lantern", "package"), ("/p/lantern/graph", "graph")] {
        browser.open(&server.address(page));
        let levels = browser.run("return [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].filter(one => one.checkVisibility()).map(one => +one.tagName[1])", &[]);
        let levels: Vec<u64> = levels.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        assert_eq!((levels.first(), levels.iter().filter(|level| **level == 1).count()), (Some(&1), 1), "{page}");
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{page}: {levels:?}");
        let tree = tree(&browser);
        for landmark in ["banner", "main", "contentinfo", "navigation", "search"] {
            assert!(
                tree.lines().any(|line| line.trim_start().starts_with(landmark)),
                "{page} has no {landmark}: {tree}"
            );
        }
        insta::assert_snapshot!(name, tree);
    }
    assert!(
        tree(&browser).contains("listitem lantern.v1.0.0, version 1.0.0, upgrades to lantern.v1.1.0"),
        "entries are named by what they do"
    );
}

/// Finds elements whose text is clipped, or wider than its box.
const CLIPPED: &str = "return [...document.querySelectorAll('main *, header *, footer *')].filter(one => {
        if (!one.checkVisibility() || one.closest('.vh, .skip, svg, .scroll, pre, .graph, .legend, .what, select, input, option, code')) return false;
        const style = getComputedStyle(one);
        const hides = (way) => way === 'hidden' || way === 'clip';
        const cut = hides(style.overflowX) && one.scrollWidth > one.clientWidth + 1 || hides(style.overflowY) && one.scrollHeight > one.clientHeight + 2;
        return cut && one.textContent.trim() && style.display !== 'inline';
    }).map(one => one.tagName + '.' + one.className + ' ' + one.textContent.trim().slice(0, 40))";
const WIDE: &str = "return document.documentElement.scrollWidth > window.innerWidth";

fn check_layout(browser: &Browser, page: &str, how: &str) {
    assert_eq!(browser.run(WIDE, &[]), json!(false), "{page} scrolls sideways {how}");
    assert_eq!(browser.run(CLIPPED, &[]), json!([]), "{page} cuts text {how}");
}

/// C-22: narrow, with wide text spacing, enlarged, in forced colours: no text is clipped and no page scrolls sideways.
#[test]
fn c22_pages_adapt_to_how_they_are_read() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup { size: (320, 800), ..Setup::default() });
    let spaced = "const sheet = new CSSStyleSheet(); sheet.replaceSync('*{line-height:1.5!important;letter-spacing:.12em!important;word-spacing:.16em!important} p{margin-bottom:2em!important}'); document.adoptedStyleSheets = [sheet];";
    for page in PAGES {
        browser.open(&server.address(page));
        check_layout(&browser, page, "at 320 px");
        browser.run(spaced, &[]);
        check_layout(&browser, page, "with text spacing");
    }
    // 200 % zoom of 1350 pixels.
    browser.devtools(
        "Emulation.setDeviceMetricsOverride",
        json!({"width": 675, "height": 450, "deviceScaleFactor": 2, "mobile": false}),
    );
    for page in PAGES {
        browser.open(&server.address(page));
        check_layout(&browser, page, "at 200 %");
    }
    let features =
        json!([{"name": "forced-colors", "value": "active"}, {"name": "prefers-reduced-motion", "value": "reduce"}]);
    browser.devtools("Emulation.setEmulatedMedia", json!({"media": "", "features": features}));
    for page in PAGES {
        browser.open(&server.address(page));
        check_layout(&browser, page, "in forced colours");
        let moving = "return [...document.querySelectorAll('*')].filter(one => { const style = getComputedStyle(one); return [style.animationDuration, style.transitionDuration].some(time => time.split(',').some(one => parseFloat(one) > 0.01)) }).length";
        assert_eq!(browser.run(moving, &[]), json!(0), "{page} has animations despite reduced motion");
    }
}

/// C-22: in print and on narrow screens the table replaces the picture.
#[test]
fn c22_the_table_replaces_the_graph() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup { size: (320, 800), ..Setup::default() });
    browser.open(&server.address("/p/lantern/graph"));
    let shown = "return ['.graph', '.scroll table'].map(query => document.querySelector(query).checkVisibility())";
    assert_eq!(browser.run(shown, &[]), json!([false, true]));
    browser.devtools(
        "Emulation.setDeviceMetricsOverride",
        json!({"width": 1350, "height": 800, "deviceScaleFactor": 1, "mobile": false}),
    );
    assert_eq!(browser.run(shown, &[]), json!([true, true]));
    browser.devtools("Emulation.setEmulatedMedia", json!({"media": "print"}));
    assert_eq!(browser.run(shown, &[]), json!([false, true]));
    for page in ["/", "/p/lantern", "/p/lantern/graph", "/p/lantern/v/lantern.v1.1.0"] {
        browser.open(&server.address(page));
        let printed = browser.devtools("Page.printToPDF", json!({}));
        // "JVBERi" is "%PDF" in base64.
        assert!(
            printed["data"].as_str().is_some_and(|data| data.starts_with("JVBER") && data.len() > 10_000),
            "{page}"
        );
    }
}
