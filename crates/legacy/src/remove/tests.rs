use super::*;

#[test]
fn an_image_with_tag_and_digest_matches_either() {
    let recorded = "host:5000/foo:v1@sha256:abc";
    for (meant, same) in [
        ("host:5000/foo:v1", true),
        ("host:5000/foo@sha256:abc", true),
        ("host:5000/foo:v2", false),
        ("host:5000/foo@sha256:abd", false),
        ("host:5000/foo", false),
        ("other/foo:v1", false),
    ] {
        assert_eq!(is_same_image(recorded, meant), same, "{meant}");
    }
    assert!(!is_same_image("host:5000/foo@sha256:abc", "host"));
}
