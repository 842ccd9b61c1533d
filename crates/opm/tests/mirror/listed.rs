//! Lists of images to remove from a registry: writing, reading, and their limits.

use std::fs;

use crate::kit::Kit;

#[test]
fn images_to_remove_are_written_as_a_list_for_a_later_removal() {
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
    // A user tags one of them, and keeps another by its lock.
    kit.closed_copy("m/ns/alpha-bundle:v2.0.0", "m/ns/alpha-bundle:mine");
    let shown = kit.run(&crate::kit::mirror(&["prune", &to, "--list", "list.yaml"]));
    let messages = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(
        messages.contains("alpha-bundle:mine") && messages.contains("can be removed; --yes removes them"),
        "{messages}"
    );
    assert_eq!(kit.mirror(&["prune", &to, "--list", "list.yaml", "--keep", "alpha.json"]), "");
    kit.mirror(&["verify", &to, "--lock", "alpha.json"]);
    kit.mirror(&["prune", &to, "--list", "list.yaml", "--yes"]);
    assert!(kit.closed_digest("m/ns/alpha-bundle:v2.0.0").is_some());
    assert!(kit.mirror_fails(&["verify", &to, "--lock", "alpha.json"]).contains("package alpha"));
    kit.mirror(&["verify", &to, "--lock", "beta.json", "--deep"]);
    // Images that are not below the path are never removed.
    let error = kit.mirror_fails(&["prune", &format!("{}/other", kit.closed.host()), "--list", "list.yaml", "--yes"]);
    assert!(error.contains("nothing removed, because these images are not below"), "{error}");
}
