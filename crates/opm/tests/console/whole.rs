//! Tests that need much data or a complete build, on request.

use std::process::{Command, Stdio};

use bundle::review::facts::{PermissionRule, RightScope};
use serde_json::Value;
use site::manifest::VersionManifest;
use site::permissions::Permissions;

use crate::harness::{Server, Workspace, free_port};

/// C-13: permissions of real bundles. Needs `OPM_CONSOLE_BUNDLES`, a directory of 514 bundle directories.
#[test]
#[ignore = "needs real bundles: OPM_CONSOLE_BUNDLES"]
fn c13_permissions_of_real_bundles_are_as_counted() {
    let root = std::env::var("OPM_CONSOLE_BUNDLES").expect("OPM_CONSOLE_BUNDLES is a directory of bundles");
    let root = std::path::Path::new(&root);
    let manifests = crate::harness::files(root);
    let bundles: std::collections::BTreeSet<String> = manifests
        .iter()
        .filter_map(|path| Some(root.join(path.split_once("/manifests/")?.0).display().to_string()))
        .collect();
    let bundles: Vec<String> = bundles.into_iter().collect();
    let (mut read, mut cluster, mut secrets, mut everything, mut admins) = (0, 0, 0, 0, 0);
    for chunk in bundles.chunks(64) {
        let mut arguments = vec!["render", "-o", "json"];
        arguments.extend(chunk.iter().map(String::as_str));
        let output = Workspace::new().opm(&arguments).output().unwrap();
        for blob in serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>() {
            let manifest = VersionManifest::read(&blob.unwrap().to_string()).unwrap();
            let Some(permissions) = Permissions::of(&manifest) else { continue };
            read += 1;
            let wide: Vec<&PermissionRule> =
                permissions.rules.iter().filter(|rule| rule.scope == RightScope::Cluster).collect();
            cluster += usize::from(!wide.is_empty());
            secrets += usize::from(wide.iter().any(|rule| rule.resources.iter().any(|one| one == "secrets")));
            let star = |list: &[String]| list.iter().any(|one| one == "*");
            let all = |rule: &PermissionRule| star(&rule.groups) && star(&rule.resources) && star(&rule.verbs);
            everything += usize::from(wide.iter().any(|rule| all(rule)));
            // Bindings in the bundle can grant everything too: `opm security` counts 14.
            let concerns = permissions.concerns.unwrap();
            let is_admin = concerns.iter().any(|concern| concern.id == "rights-admin");
            assert!(is_admin || !wide.iter().any(|rule| all(rule)), "{manifest:?}");
            admins += usize::from(is_admin);
        }
    }
    // One CRD is the second document of its file; without it the counts are 513, 460, 379 and 10.
    assert_eq!((read, cluster, secrets, everything, admins), (514, 461, 380, 10, 14));
}

/// C-23: the program is installed from packed source without network and Node, and its console works.
///
/// This takes as long as a build. With `CARGO_TARGET_DIR` it reuses compiled dependencies.
#[test]
#[ignore = "builds the whole program"]
fn c23_installed_from_packed_source_the_console_works() {
    let workspace = Workspace::with_example();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut archive =
        Command::new("git").current_dir(&root).args(["archive", "HEAD"]).stdout(Stdio::piped()).spawn().unwrap();
    std::fs::create_dir(workspace.path("source")).unwrap();
    let unpacked = Command::new("tar")
        .args(["x", "-C"])
        .arg(workspace.path("source"))
        .stdin(archive.stdout.take().unwrap())
        .status()
        .unwrap();
    assert!(unpacked.success() && archive.wait().unwrap().success());
    // Programs named node and npm fail and report when something calls them.
    for name in ["node", "npm", "npx", "yarn", "esbuild"] {
        workspace.write(&format!("bin/{name}"), "#!/bin/sh\necho \"$0 was asked for\" >&2\nexit 9\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(workspace.path(&format!("bin/{name}")), mode).unwrap();
    }
    let path = format!("{}:{}", workspace.path("bin").display(), std::env::var("PATH").unwrap());
    let built = Command::new(env!("CARGO"))
        .current_dir(workspace.path("source"))
        .args(["install", "--path", "crates/opm", "--offline", "--locked", "--debug", "--root"])
        .arg(workspace.path("installed"))
        .env("PATH", path)
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(built.status.success() && !reported.contains("was asked for"), "{reported}");
    let port = free_port();
    let child = Command::new(workspace.path("installed/bin/opm"))
        .args([
            "serve",
            "catalog",
            "-t",
            "",
            "--address",
            "127.0.0.1",
            "--port",
            "0",
            "--http",
            &format!("127.0.0.1:{port}"),
        ])
        .current_dir(workspace.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server::of(child, port);
    let list = server.wait("/", |page| page.status == 200).body;
    let parts: Vec<&str> = list.split("-/a/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    for kind in [".js", ".css", ".svg"] {
        assert!(parts.iter().any(|part| part.ends_with(kind)), "{parts:?}");
    }
    for part in parts {
        let reply = server.get(&format!("/-/a/{part}"));
        assert!(reply.status == 200 && !reply.body.is_empty(), "{part}");
    }
    assert!(list.contains("p/lantern\""));
    for page in crate::harness::PAGES.iter().filter(|page| **page != "/changes") {
        server.wait(page, |reply| reply.status == 200);
    }
}
