//! Called as `oc-mirror`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use crate::kit::{Kit, names};

fn oc_mirror(kit: &Kit, arguments: &[&str]) -> Output {
    let program = kit.path("oc-mirror");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_opm"), &program).unwrap();
    }
    Command::new(program)
        .args(arguments)
        .current_dir(kit.path(""))
        .env_clear()
        .env("HOME", kit.path("home"))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .unwrap()
}

#[test]
fn to_disk_from_disk_and_between_registries() {
    let Some(mut kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n");
    let plain = ["--v2", "--src-tls-verify=false", "--dest-tls-verify=false"];
    let place = format!("file://{}", kit.path("data").display());
    let run = |kit: &Kit, words: &[&str]| oc_mirror(kit, &[&plain[..], words].concat());
    let to = format!("docker://{}", kit.to());
    // A look first.
    let looked = run(&kit, &["-c", &file, "--dry-run", &place]);
    assert!(looked.status.success(), "{looked:?}");
    let mapping = kit.read("data/working-dir/dry-run/mapping.txt");
    assert!(
        mapping.contains(&format!("docker://{}/ns/alpha-bundle:v2.0.0=docker://ns/alpha-bundle:v2.0.0\n", kit.host)),
        "{mapping}"
    );
    assert_eq!(kit.read("data/working-dir/dry-run/missing.txt"), mapping);
    let stored = run(&kit, &["-c", &file, &place]);
    assert!(stored.status.success(), "{stored:?}");
    assert!(names(&kit.path("data")).iter().any(|name| name.ends_with("-0001.tar")));
    let between = run(&kit, &["-c", &file, "--workspace", &place, &format!("docker://{}/direct", kit.closed.host())]);
    assert!(between.status.success(), "{between:?}");
    // Some image is gone: 4 for operators.
    let digest = kit.digest_of("ns/alpha:v3").unwrap();
    fs::remove_file(kit.source.as_ref().unwrap().blob_file(&digest.hex())).unwrap();
    let other = format!("file://{}", kit.path("other").display());
    assert_eq!(run(&kit, &["-c", &file, &other]).status.code(), Some(4));
    drop(kit.source.take());
    let pushed = run(&kit, &["-c", &file, "--from", &place, &to]);
    assert!(pushed.status.success(), "{pushed:?}");
    assert!(names(&kit.path("data/working-dir/cluster-resources")).contains(&"cs-index-v1.yaml".to_owned()));
    assert_eq!(kit.closed_digest("m/ns/index:v1"), kit.closed_digest("direct/ns/index:v1"));
    for (words, expected) in [
        (&["--v2", "-c", "set.yaml", "docker://reg.test"][..], "--from file://DIR or --workspace"),
        (&["-c", "set.yaml", "file://x"], "say --v2"),
        (&["--v2", "-c", "set.yaml", "/x"], "expected file://DIR or docker://"),
    ] {
        let output = oc_mirror(&kit, words);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
}

#[test]
fn delete_lists_first_and_removes_what_the_list_names() {
    let Some(kit) = Kit::new() else { return };
    let file = kit.set("set.yaml", "    - name: alpha\n    - name: beta\n");
    kit.mirror(&["copy", &file, &kit.to()]);
    let delete = kit.read(&kit.set("d.yaml", "    - name: alpha\n"));
    let delete =
        delete.replace("ImageSetConfiguration", "DeleteImageSetConfiguration").replace("\nmirror:", "\ndelete:");
    fs::write(kit.path("delete.yaml"), delete).unwrap();
    let place = format!("file://{}", kit.path("data").display());
    let (to, plain) = (format!("docker://{}", kit.to()), ["--v2", "--src-tls-verify=false", "--dest-tls-verify=false"]);
    let run = |words: &[&str]| oc_mirror(&kit, &[&["delete"], &plain[..], words].concat());
    let made = run(&["--generate", "-c", "delete.yaml", "--workspace", &place, &to]);
    assert!(made.status.success(), "{made:?}");
    let list = kit.read("data/working-dir/delete/delete-images.yaml");
    assert!(list.starts_with("apiVersion: mirror.openshift.io/v2alpha1\nitems:\n- imageName: "), "{list}");
    assert!(list.contains("type: operatorBundle\n") && list.ends_with("kind: DeleteImageList\n"), "{list}");
    let removed = run(&["--delete-yaml-file", "data/working-dir/delete/delete-images.yaml", &to]);
    assert!(removed.status.success(), "{removed:?}");
    assert!(kit.closed_digest("m/ns/alpha-bundle:v2.0.0").is_none());
    assert!(kit.closed_digest("m/ns/beta-bundle:v0.1.0").is_some() && kit.closed_digest("m/ns/index:v1").is_some());
    let elsewhere = run(&["--delete-yaml-file", "data/working-dir/delete/delete-images.yaml", "docker://reg.test/x"]);
    assert!(String::from_utf8_lossy(&elsewhere.stderr).contains("not below reg.test/x"), "{elsewhere:?}");
}
