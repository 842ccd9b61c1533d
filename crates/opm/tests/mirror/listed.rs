//! Lists of what goes from a registry: written, read, and never wider than they say.

use std::fs;

use crate::kit::Kit;

#[test]
fn what_would_go_is_written_as_a_list_that_removes_it_later() {
    let Some(kit) = Kit::new() else { return };
    let to = kit.to();
    let (alpha, beta) = (kit.set("alpha.yaml", "    - name: alpha\n"), kit.set("beta.yaml", "    - name: beta\n"));
    kit.mirror(&["copy", &alpha, &to, "--lock", "alpha.json"]);
    let text = kit.read(&beta).replace("    packages:", "    targetTag: beta\n    packages:");
    fs::write(kit.path(&beta), text).unwrap();
    kit.mirror(&["copy", &beta, &to, "--lock", "beta.json"]);
    let listed = kit.mirror(&["prune", &to, "--keep", "beta.json", "--write-list", "list.yaml"]);
    let list = kit.read("list.yaml");
    assert!(list.ends_with("kind: DeleteImageList\n") && list.contains("type: operatorBundle\n"), "{list}");
    assert_eq!(list.matches("imageReference: ").count(), listed.lines().count(), "{list}");
    // Somebody gives one of them a name of their own, and keeps another by its lock.
    kit.closed_copy("m/ns/alpha-bundle:v2.0.0", "m/ns/alpha-bundle:mine");
    let shown = kit.run(&crate::kit::mirror(&["prune", &to, "--list", "list.yaml"]));
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(said.contains("alpha-bundle:mine") && said.contains("can be removed; --yes removes them"), "{said}");
    assert_eq!(kit.mirror(&["prune", &to, "--list", "list.yaml", "--keep", "alpha.json"]), "");
    kit.mirror(&["verify", &to, "--lock", "alpha.json"]);
    kit.mirror(&["prune", &to, "--list", "list.yaml", "--yes"]);
    assert!(kit.closed_digest("m/ns/alpha-bundle:v2.0.0").is_some());
    assert!(kit.mirror_fails(&["verify", &to, "--lock", "alpha.json"]).contains("package alpha"));
    kit.mirror(&["verify", &to, "--lock", "beta.json", "--deep"]);
    // What is not below the path is no business of this command.
    let error = kit.mirror_fails(&["prune", &format!("{}/other", kit.closed.host()), "--list", "list.yaml", "--yes"]);
    assert!(error.contains("nothing removed, because these images are not below"), "{error}");
}
