//! Pages show the same results as commands.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::{Browser, Setup};

use crate::harness::{Server, Workspace, text_of};
use crate::random::{self, Dice, PACKAGES, VERSIONS, bundle, package};

fn random_catalog() -> (Workspace, Server) {
    let workspace = Workspace::new();
    random::write(&workspace, "catalog", VERSIONS);
    random::write(&workspace, "previous", VERSIONS / 2);
    let server = workspace.serve(&[]);
    (workspace, server)
}

/// Runs a command that prints JSON, and ignores its exit code.
fn command(workspace: &Workspace, arguments: &[&str]) -> Value {
    let output = workspace.opm(arguments).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the bundles of the steps on a path page, the installed one first.
fn steps(html: &str) -> Vec<String> {
    let list = html.split("<ol class=\"steps\">").nth(1).unwrap().split("</ol>").next().unwrap();
    let code = |item: &str| {
        item.split("<code").nth(1).and_then(|rest| rest.split('>').nth(1)?.split('<').next().map(str::to_owned))
    };
    list.split("<li").skip(1).map(|item| code(item).unwrap()).collect()
}

/// C-12: paths of 100 random versions match `opm upgrade-path`, with the same message for incomplete ones.
#[test]
fn c12_paths_match_the_command() {
    let (workspace, server) = random_catalog();
    let mut dice = Dice(12);
    let mut stuck = 0;
    for _ in 0..100 {
        // Half of them are among the latest, which the slower channel of most packages does not have.
        let from = if dice.below(2) == 0 { VERSIONS - 1 - dice.below(3) } else { dice.below(VERSIONS) };
        let number = dice.below(PACKAGES);
        let channel = *dice.pick(&["stable", "fast"]);
        let (name, from) = (package(number), bundle(number, from));
        let reported = command(
            &workspace,
            &["upgrade-path", "test=catalog", &name, "--from", &from, "--channel", channel, "-o", "json"],
        );
        let page = server.get(&format!("/p/{name}/path?from={from}&channel={channel}"));
        let mut expected = vec![from.clone()];
        expected.extend(names(&reported["steps"]));
        assert_eq!(steps(&page.body), expected, "{name} {from} {channel}");
        let arrived = reported["arrived"] == true;
        assert_eq!(page.body.contains("It does not get there"), !arrived, "{name} {from}");
        if !arrived {
            stuck += 1;
            let text = text_of(&page.body);
            for line in reported["explanation"].as_array().unwrap() {
                let line = line.as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(text.contains(&line), "{name} {from}: {line}");
            }
        }
    }
    assert!(stuck > 5, "only {stuck} paths are incomplete");
}

/// C-12: `opm why` and `opm resolve` match the page, for 100 random versions and for every package.
#[test]
fn c12_explanations_match_the_commands() {
    let (workspace, server) = random_catalog();
    let mut dice = Dice(13);
    let mut request: Vec<(String, String)> = (0..PACKAGES).map(|number| (package(number), String::new())).collect();
    for _ in 0..100 {
        let number = dice.below(PACKAGES);
        request.push((package(number), format!("1.{}.0", dice.below(VERSIONS))));
    }
    for (name, version) in request {
        let what = if version.is_empty() { name.clone() } else { format!("{name}={version}") };
        let reported = command(&workspace, &["why", "test=catalog", &what, "-o", "json"]);
        let page = server.get(&format!("/p/{name}/why?version={version}"));
        assert_eq!(page.status, 200, "{what}");
        let text = text_of(&page.body);
        for part in reported["answers"].as_array().unwrap() {
            let heading = part["summary"].as_str().unwrap().trim_end_matches(':');
            assert!(text.contains(heading), "{what}: {heading}\n{text}");
            for line in part["details"].as_array().unwrap() {
                let line = line.as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(text.contains(&line), "{what}: {line}");
            }
        }
        if version.is_empty() {
            continue;
        }
        let plan = command(&workspace, &["resolve", "test=catalog", "--install", &what, "-o", "json"]);
        let section = page.body.split("id=\"plan\"").nth(1).unwrap().split("</section>").next().unwrap();
        let section = text_of(section);
        match plan["resolved"] == true {
            true => names(&plan["bundles"]).iter().for_each(|name| assert!(section.contains(name), "{what}: {name}")),
            false => assert!(section.contains(plan["message"].as_str().unwrap()), "{what}: {section}"),
        }
    }
}

/// Installed operators affect the result, and invalid input is reported.
#[test]
fn installed_operators_affect_the_result() {
    let workspace = Workspace::with_example();
    let server = workspace.serve(&[]);
    let upgrade = server.get("/p/lantern/why?installed=lantern.v1.0.0").body;
    let upgrade = text_of(&upgrade);
    assert!(upgrade.contains("upgrade lantern.v1.0.0 to lantern.v1.1.0"), "{upgrade}");
    for (query, words) in [
        ("version=9.9.9", "has no version 9.9.9"),
        ("channel=none", "has no channel"),
        ("installed=nothing", "no package or bundle"),
        ("installed=%3D", "expected PACKAGE"),
    ] {
        let page = server.get(&format!("/p/lantern/why?{query}"));
        assert_eq!(page.status, 400, "{query}");
        assert!(text_of(&page.body).contains(words), "{query}: {}", text_of(&page.body));
    }
    let many = "lantern.v1.0.0+".repeat(60);
    assert!(server.get(&format!("/p/lantern/why?installed={many}")).body.contains("too many"));
}

/// C-12: the same head replaces and skips an entry, so versions that only lead to it are stranded. The package is not
/// served, and the page names the bundle and the missing edge. So does the path of a version that the channel does not
/// have.
#[test]
fn c12_a_stuck_version_names_the_missing_edge() {
    let workspace = Workspace::with_example();
    let mut text = format!("{}\n", json!({"schema": "olm.package", "name": "trap", "defaultChannel": "a"}));
    text += &format!(
        "{}\n",
        json!({"schema": "olm.channel", "package": "trap", "name": "a", "entries": [
        {"name": "trap.v1"}, {"name": "trap.v2", "replaces": "trap.v1"}, {"name": "trap.v3", "replaces": "trap.v2", "skips": ["trap.v2"]}]})
    );
    for version in 1..4 {
        text += &format!(
            "{}\n",
            json!({"schema": "olm.bundle", "package": "trap", "name": format!("trap.v{version}"), "image": "registry.test/trap:1",
            "properties": [{"type": "olm.package", "value": {"packageName": "trap", "version": format!("{version}.0.0")}}]})
        );
    }
    workspace.write("example/lantern.json", &crate::harness::example());
    workspace.write("catalog/trap.json", &text);
    let server = workspace.serve(&["--on-invalid", "quarantine"]);
    let page = server.get("/p/trap");
    assert_eq!(page.status, 404);
    let page = text_of(&page.body);
    assert!(page.contains("stranded bundles: trap.v1"), "{page}");
    // 2.0.0 is only in the fast channel.
    let page = text_of(&server.get("/p/lantern/path?from=2.0.0&channel=stable").body);
    let reported = command(
        &workspace,
        &["upgrade-path", "test=example", "lantern", "--from", "2.0.0", "--channel", "stable", "-o", "json"],
    );
    let lines = reported["explanation"].as_array().unwrap();
    assert!(!lines.is_empty());
    for line in lines {
        let line = line.as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(&line), "{line}: {page}");
    }
    assert!(page.contains("It does not get there") && page.contains("Channel fast leads on."), "{page}");
}

/// C-12: the page of changes matches `opm diff` and `opm check-upgrades`.
#[test]
fn c12_changes_match_the_commands() {
    let (workspace, server) = random_catalog();
    let diff = command(&workspace, &["diff", "previous", "catalog", "--changelog", "-o", "json"]);
    let lost = command(&workspace, &["check-upgrades", "previous", "catalog", "-o", "json"]);
    let data: Value = serde_json::from_str(&server.get("/-/d/changes.json").body).unwrap();
    assert_eq!(data[0]["changes"], diff);
    let bundles = lost["channels"].as_array().unwrap().iter().flat_map(|channel| {
        let lost = channel["bundles"].as_array().unwrap().iter().filter(|one| one["regression"] == true);
        lost.map(|one| (channel["channel"].as_str().unwrap(), one["name"].as_str().unwrap())).collect::<Vec<_>>()
    });
    let expected: BTreeSet<(&str, &str)> = bundles.collect();
    let stranded = data[0]["stranded"].as_array().unwrap();
    let found: BTreeSet<(&str, &str)> =
        stranded.iter().map(|one| (one["channel"].as_str().unwrap(), one["bundle"].as_str().unwrap())).collect();
    assert_eq!(found, expected);
    assert!(!expected.is_empty(), "the random catalogs strand no version");
    let page = text_of(&server.get("/changes").body);
    assert!(page.contains(&format!("{} of ", expected.len())), "{}", &page[..300]);
    for one in stranded {
        assert!(page.contains(one["words"].as_str().unwrap()), "{one}");
    }
    for package in diff["packages"].as_array().unwrap() {
        for bundle in package["bundles"].as_array().unwrap() {
            assert!(page.contains(bundle["name"].as_str().unwrap()), "{bundle}");
        }
    }
}

/// C-12: comparisons match `opm diff --changelog`, for more than 100 versions.
#[test]
fn c12_comparisons_match_the_command() {
    let (workspace, server) = random_catalog();
    let diff = command(&workspace, &["diff", "previous", "catalog", "--changelog", "-o", "json"]);
    let mut compared = 0;
    for package in diff["packages"].as_array().unwrap() {
        for change in package["bundles"].as_array().unwrap() {
            let (Some(from), Some(to)) = (change["comparedWith"].as_str(), change["name"].as_str()) else { continue };
            let address = format!("/-/d/p/{}/compare.json?from={from}&to={to}", package["name"].as_str().unwrap());
            let page: Value = serde_json::from_str(&server.get(&address).body).unwrap();
            let lines = |title: &str| -> Vec<&Value> {
                let sections = page["sections"].as_array().unwrap();
                let section = sections.iter().find(|section| section["title"] == title).unwrap();
                section["lines"].as_array().unwrap().iter().collect()
            };
            let list = |name: &str| change[name].as_array().cloned().unwrap_or_default();
            let mut rights = 0;
            for permission in list("permissions") {
                for (what, side) in [("added", "added"), ("removed", "removed")] {
                    let verbs = permission["verbs"][side].as_array().unwrap();
                    if verbs.is_empty() {
                        continue;
                    }
                    rights += 1;
                    let verbs: Vec<&str> = verbs.iter().filter_map(Value::as_str).collect();
                    let start = format!(
                        "{}: {} {} (",
                        permission["scope"].as_str().unwrap(),
                        verbs.join(", "),
                        permission["resource"].as_str().unwrap()
                    );
                    let is_shown =
                        |line: &&Value| line["what"] == what && line["text"].as_str().unwrap().starts_with(&start);
                    assert!(lines("Permissions").iter().any(is_shown), "{to}: {start}");
                }
            }
            // The others are findings of `opm security`.
            let is_finding = |line: &&&Value| {
                let text = line["text"].as_str().unwrap();
                ["medium: ", "high: ", "critical: "].iter().any(|severity| text.starts_with(severity))
            };
            let findings = lines("Permissions").iter().filter(is_finding).count();
            assert_eq!(lines("Permissions").len() - findings, rights, "{to}");
            let fields: BTreeSet<String> = list("fields")
                .iter()
                .map(|field| format!("{} {}", field["crd"].as_str().unwrap(), field["path"].as_str().unwrap()))
                .collect();
            let shown: BTreeSet<String> = lines("CRD fields")
                .iter()
                .map(|line| line["text"].as_str().unwrap().split(' ').take(2).collect::<Vec<_>>().join(" "))
                .collect();
            assert_eq!(shown, fields, "{to}");
            for image in change["relatedImages"]["added"].as_array().into_iter().flatten() {
                let image = image["image"].as_str().unwrap();
                assert!(
                    lines("Images").iter().any(|line| line["text"].as_str().unwrap().ends_with(image)),
                    "{to}: {image}"
                );
            }
            compared += 1;
        }
    }
    assert!(compared >= 100, "{compared}");
    let markdown = server.get(&format!("/-/d/p/made-1/compare.md?from={}&to={}", bundle(1, 3), bundle(1, 4)));
    assert_eq!(markdown.header("content-type"), Some("text/markdown; charset=utf-8"));
    assert!(markdown.body.starts_with("# `made-1.v1.3.0` to `made-1.v1.4.0`"), "{}", markdown.body);
}

/// C-12: problems match the rules.
#[test]
fn c12_problems_match_validate() {
    let workspace = Workspace::with_example();
    let broken = json!({"schema": "olm.channel", "package": "beacon", "name": "x", "entries": [{"name": "none.v1"}]});
    workspace.write("catalog/wrong.json", &broken.to_string());
    let server = workspace.serve(&["--on-invalid", "quarantine"]);
    let output = workspace.opm(&["validate", "catalog"]).output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && reported.contains("none.v1"), "{reported}");
    let page = text_of(&server.get("/problems").body);
    assert!(page.contains("1 package not served") && page.contains("none.v1"), "{page}");
    let missing = server.get("/p/beacon");
    assert_eq!(missing.status, 404);
    assert!(text_of(&missing.body).contains("not served"));
}

/// C-11: selecting two entries of a graph shows the path of `opm upgrade-path`, for 200 random pairs; the table matches
/// the picture.
#[test]
fn c11_two_entries_show_the_path_of_the_command() {
    let (workspace, server) = random_catalog();
    let browser = Browser::start(Setup::default());
    let mut dice = Dice(11);
    let pick = "const [channel, from, to] = arguments;
        document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}));
        const card = [...document.querySelectorAll('details[data-channel]')].find(one => one.dataset.channel === channel);
        card.open = true;
        const click = (name) => [...card.querySelectorAll('.opm .e')].find(row => row.querySelector('.nam').textContent === name).dispatchEvent(new MouseEvent('click', {bubbles: true}));
        click(from); if (from !== to) click(to);
        return [document.querySelector('#way code').textContent.split(' → '), document.getElementById('way').textContent.includes('does not reach')]";
    for number in 0..5 {
        let name = package(number);
        browser.open(&server.address(&format!("/p/{name}/graph")));
        let data: Value = serde_json::from_str(&server.get(&format!("/-/d/p/{name}/graph.json")).body).unwrap();
        for _ in 0..8 {
            let channel = *dice.pick(&["stable", "fast"]);
            let entries = data.as_array().unwrap().iter().find(|one| one["name"] == channel).unwrap();
            let entries: Vec<String> = names(&entries["entries"]);
            let from = dice.pick(&entries).clone();
            let reported = command(
                &workspace,
                &["upgrade-path", "test=catalog", &name, "--from", &from, "--channel", channel, "-o", "json"],
            );
            let mut way = vec![from.clone()];
            way.extend(names(&reported["steps"]));
            for _ in 0..5 {
                let to = dice.pick(&entries).clone();
                let reached = way.iter().position(|one| *one == to);
                let expected: Vec<String> = way[..=reached.unwrap_or(way.len() - 1)]
                    .iter()
                    .map(|one| one.split_once(".v").unwrap().1.to_owned())
                    .collect();
                let shown = browser.run(pick, &[json!(channel), json!(from), json!(to)]);
                if from == to || expected.len() == 1 {
                    continue;
                }
                assert_eq!(shown, json!([expected, reached.is_none()]), "{name} {channel} {from} {to}");
            }
        }
        let table = "return [...document.querySelectorAll('details[data-channel]')].map(card => [
            [...card.querySelectorAll('.opm .e .nam')].map(one => one.textContent),
            [...card.querySelectorAll('table tbody th')].map(one => one.firstChild.textContent.trim())])";
        for card in browser.run(table, &[]).as_array().unwrap() {
            assert_eq!(card[0], card[1], "{name}");
            assert!(card[0].as_array().unwrap().len() >= VERSIONS - 4);
        }
    }
    assert_eq!(browser.log(), Vec::<String>::new());
}
