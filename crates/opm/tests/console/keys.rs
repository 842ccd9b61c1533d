//! Keys and buttons: suggestions, the list, tables, the two sides of a comparison.

use serde_json::json;
use testkit::{Browser, Setup};

use crate::harness::{Workspace, text_of};

const DOWN: &str = "\u{e015}";
const UP: &str = "\u{e013}";
const ENTER: &str = "\u{e007}";

/// Search on any page suggests packages, kinds, and versions of the package of the page.
#[test]
fn c_90_search_suggests_packages_kinds_and_versions() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup::default());
    let suggested = "return JSON.stringify([...document.querySelectorAll('#suggest a')].map(one => one.innerText.replace(/\\s+/g, ' ').trim()))";
    let types = |text: &str| {
        browser.run("const q = document.getElementById('q'); q.blur(); q.value = ''", &[]);
        browser.keys("/");
        browser.keys(text);
        browser.wait("return !document.getElementById('suggest').hidden");
    };
    browser.open(&server.address("/p/lantern/graph"));
    types("lam");
    browser.wait(&format!("return (() => {{ {suggested} }})().includes('Lamp kind')"));
    types("1.0");
    browser.wait(&format!(
        "return (() => {{ {suggested} }})() === '[\"1.0.1 version of this package\",\"1.0.0 version of this package\"]'"
    ));
    browser.keys(DOWN);
    browser.keys(ENTER);
    browser.wait("return location.pathname === '/p/lantern/v/lantern.v1.0.1'");
    types("lamp");
    browser.wait("return document.querySelectorAll('#suggest a').length >= 1");
    let place_of =
        "return [...document.querySelectorAll('#suggest a')].findIndex(one => one.innerText.includes('kind'))";
    let steps = browser.run(place_of, &[]).as_u64().unwrap() + 1;
    for _ in 0..steps {
        browser.keys(DOWN);
    }
    browser.keys(ENTER);
    browser.wait("return location.pathname === '/apis' && location.search === '?q=Lamp' && document.querySelectorAll('tbody tr').length === 1");
    assert_eq!(browser.log(), Vec::<String>::new());
}

/// `j`, `k` and the arrows move in the list, Enter opens; arrows scroll if the list has no focus.
#[test]
fn c_90_keys_move_in_the_list() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/"));
    let at = |name: &str| browser.wait(&format!("return document.activeElement.textContent === '{name}'"));
    browser.run("document.activeElement.blur()", &[]);
    browser.keys(DOWN);
    assert_eq!(browser.run("return document.activeElement === document.body", &[]), json!(true));
    browser.keys("j");
    at("Beacon");
    browser.keys(DOWN);
    at("Lantern");
    browser.keys(UP);
    at("Beacon");
    browser.keys("j");
    at("Lantern");
    browser.keys("k");
    at("Beacon");
    browser.keys(ENTER);
    browser.wait("return location.pathname === '/p/beacon'");
}

/// Tables of a graph are sorted by any column, in both directions, and back.
#[test]
fn c_62_tables_of_a_graph_are_sorted() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/p/lantern/graph"));
    let versions = "return [...document.querySelectorAll('.pair table')[0].tBodies[0].rows].map(row => row.cells[0].textContent).filter(Boolean).join(' ')";
    let sort = || {
        browser.run("document.querySelector('.pair table .sort').click(); return document.querySelector('.pair th').getAttribute('aria-sort')", &[])
    };
    assert_eq!(browser.run(versions, &[]), json!("1.1.0 1.0.1 1.0.0"));
    assert_eq!(sort(), json!("ascending"));
    assert_eq!(browser.run(versions, &[]), json!("1.0.0 1.0.1 1.1.0"));
    assert_eq!(sort(), json!("descending"));
    assert_eq!(browser.run(versions, &[]), json!("1.1.0 1.0.1 1.0.0"));
    assert_eq!(sort(), json!(null));
    assert_eq!(browser.run(versions, &[]), json!("1.1.0 1.0.1 1.0.0"));
    // The whole row moves, and the entry stays with its version.
    sort();
    let first = browser.run("return document.querySelector('.pair tbody th a').textContent", &[]);
    assert_eq!(first, json!("lantern.v1.0.0"));
}

/// The older version is on the left unless the user swaps them; descriptions are compared as text.
#[test]
fn c_73_a_comparison_can_be_swapped() {
    let workspace = Workspace::with_example();
    crate::random::write(&workspace, "catalog", 5);
    let server = workspace.serve(&[]);
    for address in ["/p/lantern/compare?from=1.0.1&to=1.1.0", "/p/lantern/compare?from=1.1.0&to=1.0.1"] {
        let page = server.get(address).body;
        let text = text_of(&page);
        assert!(text.starts_with("Compare 1.0.1 with 1.1.0") && text.contains("the older one first"), "{text}");
        assert!(text.contains("added cluster: get secrets (lantern)"), "{text}");
        let swap = page.split("id=\"swap\" href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
        let swapped = server.get(&format!("/p/lantern/{swap}")).body;
        let text = text_of(&swapped);
        assert!(text.starts_with("Compare 1.1.0 with 1.0.1") && text.contains("the newer one first"), "{text}");
        assert!(text.contains("removed cluster: get secrets (lantern)"), "{text}");
        let back =
            swapped.split("id=\"swap\" href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
        assert!(text_of(&server.get(&format!("/p/lantern/{back}")).body).starts_with("Compare 1.0.1 with 1.1.0"));
    }
    let differing = (0..4).find_map(|version| {
        let (from, to) = (crate::random::bundle(1, version), crate::random::bundle(1, version + 1));
        let page = server.get(&format!("/p/made-1/compare?from={from}&to={to}")).body;
        page.contains("<pre class=\"diff\"").then_some(page)
    });
    let page = differing.expect("some versions have other descriptions");
    let text = page.split("<pre class=\"diff\"").nth(1).unwrap().split("</pre>").next().unwrap();
    assert!(text.contains("<del>− Line ") && text.contains("<ins>+ Line "), "{text}");
}

/// Typing in a long list shows all matches, in order; results of an earlier key never reappear.
#[test]
fn typing_in_a_long_list_shows_all_matches() {
    let workspace = Workspace::new();
    for number in 0..150 {
        let name = format!("made-{number}");
        let blobs = [
            json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
            json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": [{"name": format!("{name}.v1.0.0")}]}),
            json!({"schema": "olm.bundle", "package": name, "name": format!("{name}.v1.0.0"), "image": "example.com/made:v1",
                "properties": [{"type": "olm.package", "value": {"packageName": name, "version": "1.0.0"}}]}),
        ];
        workspace.write(&format!("catalog/{name}.json"), &blobs.map(|blob| blob.to_string()).join("\n"));
    }
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup::default());
    browser.open(&server.address("/"));
    let in_order = "const shown = [...document.querySelectorAll('.tile')].map(tile => +tile.dataset.n);
        const rows = (await (await fetch('-/d/index.json')).json()).rows, query = 'q=' + document.getElementById('q').value;
        return JSON.stringify(shown) === JSON.stringify(opmFind(rows, query)) && shown.length;";
    let shown = |number: usize| {
        browser.wait(&format!("return document.querySelectorAll('.tile').length === {number}"));
        assert_eq!(browser.run(in_order, &[]), json!(number));
    };
    browser.run("document.getElementById('q').focus()", &[]);
    browser.keys("made");
    shown(150);
    browser.keys("-7");
    shown(11);
    // As fast as keys can come: matches of an earlier key may be appended after a paint.
    let type_fast = "const input = document.getElementById('q');
        for (const text of ['made', 'made-7', 'made', 'made-77']) { input.value = text; input.dispatchEvent(new Event('input')); }";
    browser.run(type_fast, &[]);
    shown(1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    shown(1);
    assert_eq!(browser.log(), Vec::<String>::new());
}
