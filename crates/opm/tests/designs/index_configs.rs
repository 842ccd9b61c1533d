//! Declarative configs of an index: the first design of file-based catalogs.

use crate::env::SMALL;
use crate::{Stage, names};

fn pushed() -> Option<Stage> {
    let stage = Stage::new()?;
    stage.env.file("first/etcd/etcd.json", SMALL.replace("foo", "etcd"));
    stage.ok("opm build first --data-only --use-http -t HOST/my-namespace/community-operators:latest --push");
    std::fs::remove_dir_all(stage.env.path("first")).unwrap();
    Some(stage)
}

#[test]
fn user_stories() {
    let Some(stage) = pushed() else { return };
    stage.ok("opm unpack --use-http HOST/my-namespace/community-operators");
    assert_eq!(names(&stage.env, "community-operators"), ["etcd"]);
    stage.ok("opm generate community-operators");
    let expected = "FROM quay.io/operator-framework/upstream-opm-builder\n\
        LABEL operators.operatorframework.io.index.configs.v1=/configs\n\
        ADD community-operators /configs\n\
        EXPOSE 50051\n\
        ENTRYPOINT [\"/bin/opm\"]\n\
        CMD [\"serve\",\"/configs\"]\n";
    assert_eq!(stage.env.read("index.Dockerfile"), expected);
    // The design runs it a second time, for another push.
    stage.ok("opm generate community-operators");
    stage.ok("opm validate community-operators/");
    let text = stage.env.read("community-operators/etcd/etcd.json").replace("defaultChannel: stable\n", "");
    stage.env.file("community-operators/etcd/etcd.json", text);
    assert!(!stage.run("opm validate community-operators/").status.success());
}

#[test]
fn inspecting_the_packages_inside_an_index() {
    let Some(stage) = pushed() else { return };
    stage.ok("opm unpack --use-http --image=HOST/my-namespace/community-operators");
    assert_eq!(names(&stage.env, "community-operators/etcd"), ["etcd.json"]);
}

#[test]
fn example_workflow() {
    let Some(stage) = pushed() else { return };
    stage.ok("opm unpack --use-http HOST/my-namespace/community-operators:latest");
    assert_eq!(names(&stage.env, "community-operators"), ["etcd"]);
}
