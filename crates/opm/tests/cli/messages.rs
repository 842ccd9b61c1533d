//! Messages about the world around a command: they name what failed, where, and the way out.

use std::fs::OpenOptions;
use std::time::{Duration, Instant};

use crate::env::TestEnv;

#[test]
fn a_full_output_is_not_a_full_temporary_folder() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let commands: [&[&str]; 4] = [
        &["list", "packages", "catalog"],
        &["list", "packages", "catalog", "-o", "json"],
        &["render", "catalog"],
        &["graph", "catalog"],
    ];
    for arguments in commands {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = env.command().args(arguments).stdout(full).output().unwrap();
        let code = output.status.code();
        assert!(code == Some(3) || arguments[0] == "render" && code == Some(1), "{arguments:?}: {code:?}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "error: writing to standard output: No space left on device (os error 28)\n",
            "{arguments:?}"
        );
    }
}

#[test]
fn a_missing_kubeconfig_is_named_with_the_way_out() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.opm(&["catalog", "list"]), @r"
    exit 3
    --- stdout
    --- stderr
    error: no cluster configured: kubeconfig [SCRATCH]/home/.kube/config does not exist
    help: name the kubeconfig of a cluster with --kubeconfig or KUBECONFIG; --context selects one of its contexts
    ");
    insta::assert_snapshot!(env.opm(&["catalog", "list", "--kubeconfig", "nowhere"]), @r"
    exit 3
    --- stdout
    --- stderr
    error: no cluster configured: kubeconfig nowhere does not exist
    help: name the kubeconfig of a cluster with --kubeconfig or KUBECONFIG; --context selects one of its contexts
    ");
    let output = env.command().args(["catalog", "list"]).env("KUBECONFIG", "nowhere").output().unwrap();
    insta::assert_snapshot!(env.show(output), @r"
    exit 3
    --- stdout
    --- stderr
    error: no cluster configured: kubeconfig nowhere (from KUBECONFIG) does not exist
    help: name the kubeconfig of a cluster with --kubeconfig or KUBECONFIG; --context selects one of its contexts
    ");
    insta::assert_snapshot!(env.opm(&["catalog", "list", "--kubeconfig", "."]), @r"
    exit 3
    --- stdout
    --- stderr
    error: kubeconfig . cannot be read: Is a directory (os error 21)
    ");
}

#[test]
fn an_unknown_context_leads_to_the_known_ones() {
    let env = TestEnv::new();
    let config = r"
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]
contexts: [{name: prod, context: {cluster: c}}, {name: staging, context: {cluster: c}}]
";
    env.file("config", config);
    let list = ["catalog", "list", "--kubeconfig", "config"];
    insta::assert_snapshot!(env.opm(&list), @r"
    exit 3
    --- stdout
    --- stderr
    error: kubeconfig config does not set current-context
    help: select one of its contexts with --context: prod, staging
    ");
    insta::assert_snapshot!(env.opm(&[&list[..], &["--context", "prid"]].concat()), @r#"
    exit 3
    --- stdout
    --- stderr
    error: kubeconfig config has no context "prid"
    help: did you mean "prod"? its contexts are: prod, staging
    "#);
    let output = env.command().args(["catalog", "list", "--context", "x"]).env("KUBECONFIG", "config").output();
    insta::assert_snapshot!(env.show(output.unwrap()), @r#"
    exit 3
    --- stdout
    --- stderr
    error: kubeconfig config has no context "x"
    help: its contexts are: prod, staging
    "#);
    env.file("config", "");
    insta::assert_snapshot!(env.opm(&list), @r"
    exit 3
    --- stdout
    --- stderr
    error: kubeconfig config has no contexts
    help: name the kubeconfig of a cluster with --kubeconfig or KUBECONFIG; --context selects one of its contexts
    ");
}

#[test]
fn an_invalid_kubeconfig_shows_no_secrets() {
    let env = TestEnv::new();
    env.file("config", "clusters: 5\nusers: [{name: a, user: {token: hidden}}]\n");
    insta::assert_snapshot!(env.opm(&["catalog", "list", "--kubeconfig", "config"]), @r"
    exit 3
    --- stdout
    --- stderr
    error: kubeconfig config is not valid: expected sequence start at line 1, column 11
    ");
}

/// Lists the catalogs of a cluster that does not answer, which must end soon.
fn unreachable(env: &TestEnv, server: &str) -> String {
    let config = format!(
        "clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\ncontexts: [{{name: prod, context: {{cluster: \
         c}}}}]\ncurrent-context: prod\n"
    );
    env.file("config", config);
    let start = Instant::now();
    let shown = env.opm(&["catalog", "list", "--kubeconfig", "config"]);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}: {shown}", start.elapsed());
    shown.replace(server, "[SERVER]")
}

#[test]
fn an_unreachable_api_server_is_named_within_seconds() {
    let env = TestEnv::new();
    insta::assert_snapshot!(unreachable(&env, &format!("http://127.0.0.1:{}", testkit::free_port())), @r#"
    exit 3
    --- stdout
    --- stderr
    error: catalogs: the API server [SERVER] (context "prod") cannot be reached: Connection refused (os error 111)
    help: start the cluster, or select another one with --context or --kubeconfig
    "#);
    let shown = unreachable(&env, "https://nowhere.invalid:6443");
    assert!(shown.contains("the API server [SERVER] (context \"prod\") cannot be reached: "), "{shown}");
}

#[test]
fn an_untrusted_api_server_is_named_with_the_issuer_of_its_certificate() {
    let plan = testkit::RegistryPlan { tls: true, ..testkit::RegistryPlan::default() };
    let Some(server) = testkit::DockerRegistry::start(plan) else { return };
    let env = TestEnv::new();
    insta::assert_snapshot!(unreachable(&env, &format!("https://{}", server.host())), @r#"
    exit 3
    --- stdout
    --- stderr
    error: catalogs: the API server [SERVER] (context "prod") cannot be reached: invalid peer certificate: UnknownIssuer
    help: the certificate of "CN=server" was issued by "CN=test authority"; certificate-authority of the kubeconfig must contain the authority of this cluster
    "#);
}
