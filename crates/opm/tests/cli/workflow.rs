//! The workflow that reviews catalogs; tests run its steps like a runner.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::env::{TestEnv, project};

/// A repository with the example catalog on its main branch, and another branch checked out.
struct Repository {
    env: TestEnv,
}

impl Repository {
    fn new() -> Repository {
        let env = TestEnv::new();
        env.copy_of("examples/catalog");
        fs::create_dir_all(env.path("repository")).unwrap();
        fs::rename(env.path("catalog"), env.path("repository/catalog")).unwrap();
        fs::create_dir_all(env.path("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_opm"), env.path("bin/opm")).unwrap();
        // A script replaces the code host.
        env.file("bin/gh", "#!/bin/sh\necho \"$@\" > ../gh-arguments\ncp ../comment.md ../posted.md\n");
        fs::set_permissions(env.path("bin/gh"), fs::Permissions::from_mode(0o755)).unwrap();
        let repository = Repository { env };
        let setup = "git init -q -b main . && git add . && git commit -q -m before && git branch -q origin-main && \
                     git update-ref refs/remotes/origin/main HEAD && git checkout -q -b change";
        assert_eq!(repository.run(setup), (true, String::new()));
        repository
    }

    /// Runs a script as a step of the workflow; returns whether it passed, and its output.
    fn run(&self, script: &str) -> (bool, String) {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("bash")
            .args(["-e", "-o", "pipefail", "-c", script])
            .current_dir(self.env.path("repository"))
            .env("PATH", format!("{}:{path}", self.env.path("bin").display()))
            .env("HOME", self.env.path("home"))
            .env("CATALOG", "catalog")
            .env("GITHUB_BASE_REF", "main")
            .env("NUMBER", "7")
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "somebody")))
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "somebody@example.com")))
            .env_remove("GIT_DIR")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Runs the scripts of all steps until one fails; returns the name of the failed step and its output.
    fn review(&self) -> Result<(), (String, String)> {
        for (name, script) in steps() {
            let (passed, text) = self.run(&script);
            if !passed {
                return Err((name, text));
            }
        }
        Ok(())
    }

    fn change(&self, from: &str, to: &str) {
        let path = "repository/catalog/lantern/catalog.yaml";
        let text = self.env.read(path);
        assert!(text.contains(from));
        self.env.file(path, text.replacen(from, to, 1));
    }
}

/// Returns the names and scripts of the steps.
fn steps() -> Vec<(String, String)> {
    let text = fs::read_to_string(project("examples/github/review-catalog.yaml")).unwrap();
    let documents = fbc::stream::documents(text.as_bytes(), &fbc::Limits::default()).unwrap();
    let workflow: serde_json::Value = serde_json::from_str(&documents[0]).unwrap();
    let steps = workflow["jobs"]["review"]["steps"].as_array().unwrap().clone();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    steps.iter().filter_map(|step| Some((text(&step["name"])?, text(&step["run"])?))).collect()
}

#[test]
fn a_valid_change_passes_and_is_described() {
    let repository = Repository::new();
    repository.change("lantern-bundle:v1.0.0", "lantern-bundle:v1.0.0-1");
    assert_eq!(repository.review(), Ok(()));
    assert_eq!(
        repository.env.read("gh-arguments"),
        "pr comment 7 --body-file ../comment.md --edit-last --create-if-none\n"
    );
    let posted = repository.env.read("posted.md");
    assert!(posted.starts_with("### What this changes in the catalog\n"), "{posted}");
    assert!(posted.contains("lantern-bundle:v1.0.0-1"), "{posted}");
}

#[test]
fn a_problem_is_annotated_at_its_line() {
    let repository = Repository::new();
    repository.change("  # 1.1.0 failed", "  skipRange: older\n  # 1.1.0 failed");
    let (step, text) = repository.review().unwrap_err();
    assert_eq!(step, "problems at their lines");
    assert!(text.contains("::error file=catalog/lantern/catalog.yaml,line="), "{text}");
}

#[test]
fn a_change_that_strands_a_version_fails() {
    let repository = Repository::new();
    // No upgrade leads from 1.1.0 any more, which clusters may have installed from the other channel.
    repository.change(
        "  replaces: lantern.v1.1.1\n  skipRange: \">=1.0.0 <1.2.0\"\n---\n",
        "  replaces: lantern.v1.0.0\n  skips: [lantern.v1.1.1]\n---\n",
    );
    let (step, text) = repository.review().unwrap_err();
    assert_eq!(step, "no version is stranded");
    assert!(text.contains("lantern.v1.1.0"), "{text}");
    assert!(repository.env.read("posted.md").contains("lantern"));
}

#[test]
fn the_first_catalog_of_a_repository_is_reviewed() {
    let repository = Repository::new();
    let empty =
        "git update-ref refs/remotes/origin/main $(git commit-tree $(git hash-object -t tree /dev/null) -m empty)";
    assert_eq!(repository.run(empty), (true, String::new()));
    assert_eq!(repository.review(), Ok(()));
    assert!(repository.env.read("posted.md").contains("tide-gauge"));
}
