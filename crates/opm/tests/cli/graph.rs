use crate::env::{SMALL, TestEnv};

#[test]
fn a_graph_is_drawn_in_every_format() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let graph = |format: &str| env.stdout(&["alpha", "render-graph", "catalog", "-o", format]);
    assert!(graph("mermaid").starts_with("graph LR\n"));
    assert!(graph("svg").starts_with("<svg "));
    assert!(graph("dot").starts_with("digraph "));
    assert!(graph("html").starts_with("<!DOCTYPE html>"));
    for format in ["mermaid", "svg", "dot", "html", "text"] {
        for package in ["buoy", "lantern", "tide-gauge", "weather-vane"] {
            assert!(graph(format).contains(package), "{package} in {format}");
        }
        let one = env.stdout(&["alpha", "render-graph", "catalog", "-o", format, "-p", "buoy"]);
        assert!(one.contains("buoy-v1.0.0-2") && !one.contains("tide-gauge"), "{format}");
    }
}

#[test]
fn an_invalid_catalog_is_drawn_as_far_as_possible() {
    let env = TestEnv::new();
    env.file("catalog/c.yaml", SMALL.replace("- name: foo.v1.0.0\n", "- name: foo.v1.0.0\n  skipRange: nonsense\n"));
    insta::assert_snapshot!(env.opm(&["alpha", "render-graph", "catalog", "-o", "text"]), @r#"
    exit 0
    --- stdout
    foo
    └─ stable (default) · 1 entry · head 1.0.0
       ◉ 1.0.0  foo.v1.0.0  head  skipRange nonsense is not a range
    --- stderr
    warning: ignoring invalid SkipRange for package/edge "foo"/"foo.v1.0.0": Could not get version from string: "nonsense"
    "#);
    assert!(
        env.opm(&["alpha", "render-graph", "catalog", "--minimum-edge", "x"])
            .contains("unknown minimum edge name: \"x\"")
    );
    assert!(
        env.opm(&["alpha", "render-graph", "catalog", "-o", "png"])
            .contains("[possible values: mermaid, svg, dot, html, text]")
    );
}

#[test]
fn a_graph_is_text_unless_another_format_is_given() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let alpha = env.stdout(&["alpha", "render-graph", "catalog", "-p", "lantern", "-o", "text"]);
    assert_eq!(env.stdout(&["graph", "catalog", "-p", "lantern"]), alpha);
    let alpha = env.stdout(&["alpha", "render-graph", "catalog"]);
    assert_eq!(env.stdout(&["graph", "catalog", "-o", "mermaid"]), alpha);
    insta::assert_snapshot!(env.opm(&["graph", "catalog", "-p", "lantren"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: there is no package "lantren"
    help: did you mean "lantern"?
    "#);
}

#[test]
fn an_unknown_package_is_an_error() {
    let env = TestEnv::new();
    env.file("catalog/foo.yaml", crate::env::SMALL.replace("foo", "lantern"));
    for format in ["text", "svg", "dot", "html"] {
        let shown = env.opm(&["alpha", "render-graph", "catalog", "-p", "lanterm", "-o", format]);
        assert_eq!(
            shown,
            "exit 1\n--- stdout\n--- stderr\nerror: there is no package \"lanterm\"\nhelp: did you mean \"lantern\"?\n"
        );
    }
    // Scripts rely on the empty graph that older tools print.
    let shown = env.opm(&["alpha", "render-graph", "catalog", "-p", "lanterm"]);
    assert!(shown.starts_with("exit 0\n") && shown.contains("warning: there is no package \"lanterm\""), "{shown}");
}
