//! The command lines of the designs that this program implements; tests are named after the headings of the designs.

#[path = "../cli/env.rs"]
#[expect(dead_code, reason = "shared with the other tests of whole commands")]
mod env;

mod bundle_images;
mod declarative_configs;
mod implicit_versions;
mod index_configs;
mod run_bundle;

use std::path::Path;
use std::process::Output;

use env::TestEnv;
use testkit::{DockerRegistry, RegistryPlan};

/// A registry, and an environment to run commands in.
struct Stage {
    registry: DockerRegistry,
    env: TestEnv,
}

impl Stage {
    /// Starts a registry; `None` if it is not installed.
    fn new() -> Option<Stage> {
        let registry = DockerRegistry::start(RegistryPlan::default())?;
        Some(Stage { registry, env: TestEnv::new() })
    }

    /// Runs a line of a design: `HOST` is the registry, and the first word is a name of the program.
    fn run(&self, line: &str) -> Output {
        run_in(&self.env, &line.replace("HOST", self.registry.host()))
    }

    /// Runs a line, which must succeed, and returns its output.
    fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", self.env.show(output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Pushes a bundle of package `etcd`.
    fn push_bundle(&self, name: &str, version: &str, channels: &str, default: &str) -> String {
        let env = &self.env;
        env.file(
            &format!("made/{version}/manifests/csv.yaml"),
            format!(
                "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  \
                 name: etcdoperator.v{version}\nspec:\n  version: {version}\n  displayName: etcd\n  \
                 installModes: [{{type: AllNamespaces, supported: true}}]\n"
            ),
        );
        let (directory, tag) = (format!("made/{version}/manifests"), format!("{}/{name}", self.registry.host()));
        let line = format!(
            "opm alpha bundle build --use-http --directory {directory} --package etcd --channels {channels} --default {default} \
             --tag {tag} --image-builder none --push"
        );
        self.ok(&line);
        tag
    }
}

/// Runs a line in an environment; the first word is a name of the program.
fn run_in(env: &TestEnv, line: &str) -> Output {
    let mut words = line.split_whitespace().map(|word| word.trim_matches('"'));
    let name = words.next().expect("a program");
    let link = env.path("bin").join(name);
    std::fs::create_dir_all(env.path("bin")).expect("a directory");
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_opm"), &link).expect("a link");
    }
    let mut command = std::process::Command::new(link);
    command.current_dir(env.path("")).env("HOME", env.path("home")).env_remove("KUBECONFIG").args(words);
    command.output().expect("the program runs")
}

fn names(env: &TestEnv, path: impl AsRef<Path>) -> Vec<String> {
    env.names(&path.as_ref().display().to_string())
}
