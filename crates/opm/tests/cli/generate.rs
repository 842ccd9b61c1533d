use crate::env::TestEnv;

#[test]
fn a_directory_argument_generates_the_dockerfile_of_the_first_design() {
    let env = TestEnv::new();
    env.file("community-operators/c.yaml", "");
    insta::assert_snapshot!(env.opm(&["generate", "community-operators"]), @r"
    exit 0
    --- stdout
    --- stderr
    ");
    insta::assert_snapshot!(env.read("index.Dockerfile"), @r#"
    FROM quay.io/operator-framework/upstream-opm-builder
    LABEL operators.operatorframework.io.index.configs.v1=/configs
    ADD community-operators /configs
    EXPOSE 50051
    ENTRYPOINT ["/bin/opm"]
    CMD ["serve","/configs"]
    "#);
}

#[test]
fn only_a_dockerfile_of_the_first_design_is_replaced() {
    let env = TestEnv::new();
    env.file("one/c.yaml", "").file("two/c.yaml", "");
    env.stdout(&["generate", "one"]);
    env.stdout(&["generate", "two"]);
    assert!(env.read("index.Dockerfile").contains("ADD two /configs\n"));
    for mine in ["FROM scratch\n".to_owned(), env.read("index.Dockerfile") + "USER 1001\n"] {
        env.file("index.Dockerfile", &mine);
        assert!(env.opm(&["generate", "one"]).contains("index.Dockerfile\": file already exists"));
        assert_eq!(env.read("index.Dockerfile"), mine);
    }
    assert_eq!(env.names("."), ["index.Dockerfile", "one", "two"]);
}

#[test]
fn added_directories_must_be_in_the_build_context() {
    let env = TestEnv::new();
    env.file("a/b/cfg/c.yaml", "").file("work/x", "");
    let added = || {
        let text = env.read("index.Dockerfile");
        text.lines().find_map(|line| line.strip_prefix("ADD ")).unwrap().to_owned()
    };
    let absolute = env.path("a/b/cfg").display().to_string();
    for (given, expected) in [
        ("a/b/cfg", "a/b/cfg"),
        ("./a/b/cfg/", "a/b/cfg"),
        ("a/../a/b/cfg", "a/b/cfg"),
        (&absolute, "a/b/cfg"),
        (".", "."),
    ] {
        env.stdout(&["generate", given]);
        assert_eq!(added(), format!("{expected} /configs"), "{given}");
    }
    let outside = env.command().current_dir(env.path("work")).args(["generate", "../a/b/cfg"]).output().unwrap();
    assert!(env.show(outside).contains("\"../a/b/cfg\" is outside the build context [SCRATCH]/work"));
    assert_eq!(env.names("work"), ["x"]);
}

#[test]
fn a_directory_given_as_dots_appears_by_its_name() {
    let env = TestEnv::new();
    env.file("my-catalog/c.yaml", "");
    let output = env.command().current_dir(env.path("my-catalog")).args(["generate", "dockerfile", "."]).output();
    assert!(output.unwrap().status.success());
    assert!(env.read("my-catalog.Dockerfile").contains("ADD my-catalog /configs"));
}

#[test]
fn files_that_do_not_belong_to_the_catalog_are_named() {
    let env = TestEnv::new();
    let package = r#"{"schema": "olm.package", "name": "a", "defaultChannel": "b"}"#;
    env.file("clean/c.json", package);
    insta::assert_snapshot!(env.opm(&["generate", "dockerfile", "clean"]), @r"
    exit 0
    --- stdout
    --- stderr
    ");
    // Without blobs, there is nothing to compare with.
    env.file("other/.git/config", "").file("other/c.yaml", "");
    assert!(env.opm(&["generate", "dockerfile", "other"]).ends_with("--- stderr\n"));
    env.file("full/c.json", package).file("full/.git/config", "").file("full/.git/HEAD", "");
    env.file("full/.indexignore", "*.md\n").file("full/README.md", "").file("full/docs/a.md", "");
    insta::assert_snapshot!(env.opm(&["generate", "dockerfile", "full"]), @r"
    exit 0
    --- stdout
    --- stderr
    warning: the Dockerfile adds all of full, also what does not belong to the catalog: .git, README.md, docs/a.md; exclude it in a .dockerignore file, or use 'opm build full', which leaves it out
    ");
    env.file("full/docs/b.md", "");
    insta::assert_snapshot!(env.opm(&["generate", "full"]), @r"
    exit 0
    --- stdout
    --- stderr
    warning: the Dockerfile adds all of full, also what does not belong to the catalog: .git, README.md, docs/a.md and 1 more; exclude it in a .dockerignore file, or use 'opm build full', which leaves it out
    ");
    assert!(env.read("full.Dockerfile").contains("ADD full /configs\n"));
}
