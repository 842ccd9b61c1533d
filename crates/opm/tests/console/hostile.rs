//! Catalogs that attack their readers.

use serde_json::{Value, json};
use testkit::{Browser, Setup};

use crate::harness::Workspace;

/// Known ways to run a script where text is expected.
const ATTACKS: &[&str] = &[
    "<script>window.pwned=1</script>",
    "<img src=x onerror=\"window.pwned=1\">",
    "<svg onload=\"window.pwned=1\">",
    "<svg><script>window.pwned=1</script></svg>",
    "<iframe srcdoc=\"<script>parent.pwned=1</script>\"></iframe>",
    "<math><mtext></p><script>window.pwned=1</script></mtext></math>",
    "<a href=\"javascript:window.pwned=1\">x</a>",
    "[x](javascript:window.pwned=1)",
    "[x](JaVaScRiPt:window.pwned=1)",
    "[x](java\tscript:window.pwned=1)",
    "[x](data:text/html,<script>window.pwned=1</script>)",
    "![x](javascript:window.pwned=1)",
    "![x](https://other.test/beacon.png)",
    "![x](x\"onerror=\"window.pwned=1)",
    "<https://other.test/\"onmouseover=\"window.pwned=1>",
    "<style>*{background:url(https://other.test/)}</style>",
    "<link rel=stylesheet href=https://other.test/>",
    "<meta http-equiv=refresh content=\"0;url=https://other.test/\">",
    "<base href=\"https://other.test/\">",
    "<form action=https://other.test/><input name=q></form>",
    "<object data=https://other.test/></object>",
    "<details open ontoggle=\"window.pwned=1\">x</details>",
    "<p id=main class=top style=\"position:fixed\">x</p>",
    "</textarea></title></script></style><script>window.pwned=1</script>",
    "<!--><script>window.pwned=1</script>-->",
    "<b onclick=window.pwned=1>x</b><plan>",
    "'\"><script>window.pwned=1</script>",
    "\u{202e}gpj.exe\u{0}\u{feff}\u{200b}",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
    "{{constructor.constructor('window.pwned=1')()}}",
    "``<script>window.pwned=1</script>``",
    "| a |\n|---|\n| <script>window.pwned=1</script> |",
];

/// Icons that are more than pictures, or broken.
const ICONS: &[&str] = &[
    "<svg xmlns='http://www.w3.org/2000/svg'><script>window.pwned=1;fetch('https://other.test/')</script></svg>",
    "<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'/>",
    "<svg xmlns='http://www.w3.org/2000/svg'><foreignObject><iframe xmlns='http://www.w3.org/1999/xhtml' src='https://other.test/'/></foreignObject></svg>",
    "<!DOCTYPE svg [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]><svg xmlns='http://www.w3.org/2000/svg'><text>&b;</text></svg>",
    "<svg xmlns='http://www.w3.org/2000/svg'><use href='https://other.test/x.svg#a'/></svg>",
    "<svg xmlns='http://www.w3.org/2000/svg'><style>@import 'https://other.test/x.css';</style></svg>",
    "<html><script>window.pwned=1</script></html>",
    "plain words",
];

fn packed(text: &str) -> String {
    let mut out = Vec::new();
    fbc::base64::encode(text.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

/// Writes a catalog with an attack in every string that a page may show.
fn hostile(workspace: &Workspace) {
    for (number, attack) in ATTACKS.iter().enumerate() {
        let name = format!("p{number}");
        let bundle = format!("{name}{attack}.v1");
        let long = "x".repeat(if number == 0 { 1 << 20 } else { 10 });
        let csv = json!({"kind": "ClusterServiceVersion", "apiVersion": "operators.coreos.com/v1alpha1",
            "metadata": {"name": bundle, "annotations": {"categories": attack, "capabilities": attack, "createdAt": attack, "description": attack,
                "containerImage": attack, "repository": attack, "support": attack, "alm-examples": attack,
                "operatorframework.io/suggested-namespace": attack}},
            "spec": {"displayName": attack, "description": format!("# {attack}\n\n{attack}\n\n- {attack}\n\n> {attack}\n\n{long}"),
                "provider": {"name": attack, "url": "javascript:window.pwned=1"}, "keywords": [attack], "version": "1.0.0",
                "links": [{"name": attack, "url": attack}, {"name": "x", "url": "javascript:window.pwned=1"}],
                "maintainers": [{"name": attack, "email": attack}], "minKubeVersion": attack, "maturity": attack,
                "installModes": [{"type": attack, "supported": true}],
                "icon": [{"base64data": packed(ICONS[number % ICONS.len()]), "mediatype": "image/svg+xml"}],
                "customresourcedefinitions": {"owned": [{"name": format!("x.{attack}"), "version": attack, "kind": attack, "displayName": attack, "description": attack,
                    "specDescriptors": [{"path": attack, "displayName": attack, "description": attack}]}]},
                "install": {"strategy": "deployment", "spec": {"clusterPermissions": [{"serviceAccountName": attack,
                    "rules": [{"apiGroups": [attack], "resources": [attack], "verbs": [attack], "resourceNames": [attack]}]}],
                    "deployments": [{"name": attack, "spec": {}}]}}}});
        let text: Vec<Value> = vec![
            json!({"schema": "olm.package", "name": name, "defaultChannel": attack, "description": attack}),
            json!({"schema": "olm.channel", "package": name, "name": attack, "entries": [{"name": bundle, "skips": [format!("old{attack}")]}]}),
            json!({"schema": "olm.bundle", "package": name, "name": bundle, "image": "registry.test/x:1",
                "relatedImages": [{"name": attack, "image": "registry.test/y:1"}],
                "properties": [{"type": "olm.package", "value": {"packageName": name, "version": "1.0.0"}},
                    {"type": "olm.gvk", "value": {"group": attack, "version": attack, "kind": attack}},
                    {"type": attack, "value": attack},
                    {"type": "olm.bundle.object", "value": {"data": packed(&csv.to_string())}}]}),
            json!({"schema": "olm.deprecations", "package": name, "entries": [
                {"reference": {"schema": "olm.package"}, "message": attack}, {"reference": {"schema": "olm.bundle", "name": bundle}, "message": attack}]}),
            json!({"schema": format!("custom{attack}"), "package": name, "name": attack, "value": attack}),
        ];
        let text: String = text.iter().map(|blob| format!("{blob}\n")).collect();
        workspace.write(&format!("catalog/{name}.json"), &text);
    }
}

/// Finds content that no page may have.
const FIND_ATTACKS: &str = "
    const find = page => {
        const bad = [];
        if (window.pwned) bad.push('pwned');
        for (const node of page.querySelectorAll('*')) {
            for (const attribute of node.attributes) {
                if (attribute.name.startsWith('on') || attribute.name === 'style' || attribute.name === 'srcdoc') bad.push(node.tagName + ' ' + attribute.name);
                if (/^\\s*(javascript|data:text|vbscript)/i.test(attribute.value) && ['href', 'src', 'action'].includes(attribute.name)) bad.push(attribute.value);
            }
            if (['IFRAME', 'OBJECT', 'EMBED', 'BASE', 'STYLE', 'MATH', 'MARQUEE'].includes(node.tagName.toUpperCase())) bad.push(node.tagName);
            if (node.tagName === 'SCRIPT' && !node.src && node.type !== 'application/json') bad.push('inline script');
        }
        const ids = [...page.querySelectorAll('[id]')].map(node => node.id);
        if (new Set(ids).size !== ids.length) bad.push('ids ' + ids.filter((id, i) => ids.indexOf(id) !== i).join(' '));
        return bad;
    };
";
/// Finds them in other pages, which are only parsed. A parsed page has at least a heading.
const FIND_IN_PARSED: &str = "
    const [pages, done] = arguments;
    const check = page => new Promise((resolve, reject) => {
        const request = new XMLHttpRequest();
        request.open('GET', page);
        request.responseType = 'document';
        request.onerror = () => reject(page);
        request.onload = () => {
            const bad = find(request.response);
            if (!request.response.querySelector('h1')) bad.push('no heading');
            resolve(bad.map(one => page + ': ' + one));
        };
        request.send();
    });
    Promise.all(pages.map(check)).then(found => done(found.flat()), error => done(['' + error]));
";

/// Returns content that the opened page may not have.
fn attacks(browser: &Browser) -> Value {
    browser.run(&format!("{FIND_ATTACKS}return find(document);"), &[])
}

/// C-5: no content of a hostile catalog runs, sends requests to other hosts or becomes markup.
#[test]
fn a_hostile_catalog_stays_text() {
    let workspace = Workspace::new();
    hostile(&workspace);
    let server = workspace.serve(&[]);
    let browser = Browser::start(Setup::default());
    let mut opened = vec![
        "/".to_owned(),
        "/apis".to_owned(),
        "/images".to_owned(),
        "/problems".to_owned(),
        "/?q=%3Cscript%3Ewindow.pwned%3D1%3C/script%3E".to_owned(),
    ];
    let mut parsed = Vec::new();
    for number in 0..ATTACKS.len() {
        for page in ["", "/graph", "/install", "/path", "/path?from=1.0.0", "/v/1.0.0"] {
            // Opening a page takes long. Every kind of page is opened with some attacks, and with each attack those that
            // show most and that scripts draw.
            let is_opened = matches!(page, "" | "/graph") || number % 4 == 0;
            if is_opened { &mut opened } else { &mut parsed }.push(format!("/p/p{number}{page}"));
        }
    }
    browser.requests();
    for page in &opened {
        browser.open(&server.address(page));
        assert_eq!(attacks(&browser), json!([]), "{page}");
    }
    let bad = browser.run_later(&format!("{FIND_ATTACKS}{FIND_IN_PARSED}"), &[json!(parsed)]);
    assert_eq!(bad, json!([]));
    for request in browser.requests() {
        assert!(request.starts_with(&server.address("/")) || request.starts_with("data:"), "{request}");
    }
    let log: Vec<String> =
        browser.log().into_iter().filter(|line| !line.contains("404") && !line.contains("400")).collect();
    assert_eq!(log, Vec::<String>::new());
    browser.open(&server.address("/p/p25"));
    let text = browser.run("return document.body.innerText", &[]);
    assert!(text.as_str().unwrap().contains("<plan>"), "placeholders are not readable");
}

/// Returns the smallest PNG, or one that claims this many pixels each way.
fn png(claim: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(claim.to_be_bytes());
    bytes.extend(claim.to_be_bytes());
    bytes.extend(b"\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\xdac\xf8\xff\xff?\0\x05\xfe\x02\xfe\xa75\x81\x84\0\0\0\0IEND\xaeB`\x82");
    bytes
}

fn packed_bytes(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    fbc::base64::encode(bytes, &mut out);
    String::from_utf8(out).unwrap()
}

/// Writes a catalog of one package for each icon.
fn with_icons(workspace: &Workspace) {
    let mut icons: Vec<Vec<u8>> = ICONS.iter().map(|icon| icon.as_bytes().to_vec()).collect();
    icons.extend([
        png(1),
        png(100_000),
        b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'><circle r='3'/></svg>".to_vec(),
        vec![b'x'; 600 << 10],
    ]);
    for (number, icon) in icons.iter().enumerate() {
        let (name, bundle) = (format!("icon{number}"), format!("icon{number}.v1"));
        let csv = json!({"displayName": name, "description": "x"});
        let text: Vec<Value> = vec![
            json!({"schema": "olm.package", "name": name, "defaultChannel": "a", "icon": {"base64data": packed_bytes(icon), "mediatype": "image/svg+xml"}}),
            json!({"schema": "olm.channel", "package": name, "name": "a", "entries": [{"name": bundle}]}),
            json!({"schema": "olm.bundle", "package": name, "name": bundle, "image": "registry.test/x:1", "properties": [
                {"type": "olm.package", "value": {"packageName": name, "version": "1.0.0"}}, {"type": "olm.csv.metadata", "value": csv}]}),
        ];
        workspace
            .write(&format!("catalog/{name}.json"), &text.iter().map(|blob| format!("{blob}\n")).collect::<String>());
    }
}

/// C-6: icons that are programs are replaced by letters, with a reason; icons that are pictures by content are shown,
/// whatever their name, and do nothing when opened by URL, on the server and on a host without headers.
#[test]
fn c6_a_hostile_icon_becomes_a_letter() {
    let workspace = Workspace::new();
    with_icons(&workspace);
    let server = workspace.serve(&[]);
    let list = server.get("/").body;
    let icons: std::collections::BTreeSet<String> =
        list.split("src=\"./-/i/").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect();
    assert_eq!(
        icons.iter().filter(|icon| icon.ends_with(".png")).count(),
        2,
        "a PNG that is called SVG is one: {icons:?}"
    );
    assert_eq!(icons.len(), 3, "{icons:?}");
    let problems = server.get("/problems").body;
    for reason in [
        "a disallowed element script",
        "an event handler onload",
        "a disallowed element foreignObject",
        "it defines entities",
        "an external resource",
        "it is not an SVG",
        "not an image",
        "more than 524288",
    ] {
        assert!(problems.contains(reason), "{reason}: {}", crate::harness::text_of(&problems));
    }
    workspace.run(&["site", "build", "catalog", "-o", "site"]);
    let host = crate::host::Host::start(&workspace.path("site"), "/");
    let browser = Browser::start(Setup::default());
    browser.requests();
    for icon in &icons {
        for address in [server.address(&format!("/-/i/{icon}")), host.address(&format!("-/i/{icon}"))] {
            browser.open(&address);
            assert_eq!(
                browser.run("return [window.pwned === undefined, document.scripts.length]", &[]),
                json!([true, 0]),
                "{address}"
            );
        }
    }
    for page in [
        server.address("/"),
        host.address("index.html"),
        format!("file://{}", workspace.path("site/index.html").display()),
    ] {
        browser.open(&page);
        assert_eq!(attacks(&browser), json!([]), "{page}");
    }
    for request in browser.requests() {
        let known = [server.address("/"), host.address(""), "data:".to_owned(), "file:".to_owned()];
        assert!(known.iter().any(|start| request.starts_with(start)), "{request}");
    }
    // No file of the export is a script from the catalog.
    for file in crate::harness::files(&workspace.path("site")) {
        assert!(
            !file.starts_with("-/i/")
                || !std::fs::read_to_string(workspace.path("site").join(&file))
                    .is_ok_and(|text| text.contains("script")),
            "{file}"
        );
    }
}
