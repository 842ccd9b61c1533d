use crate::env::TestEnv;

#[test]
fn a_directory_alone_gives_the_dockerfile_of_the_first_design() {
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
    assert!(env.opm(&["generate", "community-operators"]).contains("index.Dockerfile\": file already exists"));
}

#[test]
fn a_directory_given_by_dots_is_called_by_its_name() {
    let env = TestEnv::new();
    env.file("my-catalog/c.yaml", "");
    let output = env.command().current_dir(env.path("my-catalog")).args(["generate", "dockerfile", "."]).output();
    assert!(output.unwrap().status.success());
    assert!(env.read("my-catalog.Dockerfile").contains("ADD my-catalog /configs"));
}
