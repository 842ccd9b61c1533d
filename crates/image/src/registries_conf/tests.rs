use super::*;

const HEX: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn conf(text: &str) -> RegistriesConf {
    let mut conf = RegistriesConf::default();
    conf.add(Path::new("registries.conf"), text).unwrap();
    conf
}

fn places(conf: &RegistriesConf, reference: &str) -> Vec<String> {
    let candidates = conf.candidates(&Reference::parse(reference).unwrap()).unwrap();
    candidates
        .into_iter()
        .map(|it| format!("{}{}", it.source.reference, if it.source.insecure { " insecure" } else { "" }))
        .collect()
}

#[test]
fn the_longest_prefix_is_replaced() {
    let conf = conf(
        r#"
            [[registry]]
            prefix = "a.test"
            location = "b.test/all"
            [[registry]]
            prefix = "a.test/deep/er"
            location = "c.test"
            insecure = true
            "#,
    );
    assert_eq!(places(&conf, "a.test/x:v1"), ["b.test/all/x:v1"]);
    assert_eq!(places(&conf, "a.test/deep/er/x:v1"), ["c.test/x:v1 insecure"]);
    assert_eq!(places(&conf, "a.test/deep/ers/x:v1"), ["b.test/all/deep/ers/x:v1"]);
    assert_eq!(places(&conf, "a.test:5000/x:v1"), ["a.test:5000/x:v1"]);
    assert_eq!(places(&conf, "other.test/x:v1"), ["other.test/x:v1"]);
}

#[test]
fn mirrors_are_first_if_they_apply() {
    let conf = conf(
        r#"
            [[registry]]
            location = "a.test"
            [[registry.mirror]]
            location = "m1.test/a"
            insecure = true
            [[registry.mirror]]
            location = "m2.test"
            pull-from-mirror = "digest-only"
            [[registry.mirror]]
            location = "m3.test"
            pull-from-mirror = "tag-only"
            [[registry]]
            location = "d.test"
            mirror-by-digest-only = true
            [[registry.mirror]]
            location = "m4.test"
            "#,
    );
    assert_eq!(places(&conf, "a.test/x:v1"), ["m1.test/a/x:v1 insecure", "m3.test/x:v1", "a.test/x:v1"]);
    let digest = format!("a.test/x@sha256:{HEX}");
    assert_eq!(
        places(&conf, &digest),
        [format!("m1.test/a/x@sha256:{HEX} insecure"), format!("m2.test/x@sha256:{HEX}"), digest.clone()]
    );
    assert_eq!(places(&conf, "d.test/x:v1"), ["d.test/x:v1"]);
    assert_eq!(places(&conf, &format!("d.test/x@sha256:{HEX}")).len(), 2);
}

#[test]
fn a_wildcard_matches_subdomains() {
    let conf = conf(
        r#"
            [[registry]]
            prefix = "*.example.com"
            insecure = true
            [[registry.mirror]]
            location = "mirror.test/all"
            "#,
    );
    assert_eq!(places(&conf, "a.b.example.com/x:v1"), ["mirror.test/all/x:v1", "a.b.example.com/x:v1 insecure"]);
    assert_eq!(places(&conf, "example.com/x:v1"), ["example.com/x:v1"]);
    assert_eq!(places(&conf, "other.test/a.example.com:v1"), ["other.test/a.example.com:v1"]);
}

#[test]
fn a_blocked_registry_gets_no_requests() {
    for text in
        ["[[registry]]\nlocation = \"bad.test\"\nblocked = true\n", "[registries.block]\nregistries = ['bad.test']\n"]
    {
        let error = conf(text).candidates(&Reference::parse("bad.test/x:v1").unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "registry bad.test is blocked in registries.conf");
    }
}

#[test]
fn the_first_version_of_the_format_is_parsed() {
    let conf = conf("[registries.search]\nregistries = ['s.test']\n[registries.insecure]\nregistries = ['i.test']\n");
    assert_eq!(places(&conf, "i.test/x:v1"), ["i.test/x:v1 insecure"]);
    assert_eq!(conf.full_names("etcd:v1"), ["s.test/etcd:v1"]);
}

#[test]
fn short_names_are_expanded() {
    let conf =
        conf("unqualified-search-registries = ['docker.io', 'q.test']\n[aliases]\n'etcd' = 'quay.test/x/etcd'\n");
    assert_eq!(conf.full_names("etcd:v1"), ["quay.test/x/etcd:v1"]);
    assert_eq!(conf.full_names(&format!("etcd@sha256:{HEX}")), [format!("quay.test/x/etcd@sha256:{HEX}")]);
    assert_eq!(conf.full_names("foo:v1"), ["docker.io/library/foo:v1", "q.test/foo:v1"]);
    assert!(RegistriesConf::default().full_names("foo:v1").is_empty());
}

#[test]
fn later_files_take_precedence() {
    let mut conf =
        conf("unqualified-search-registries = ['a.test']\n[[registry]]\nlocation = 'a.test'\nblocked = true\n");
    conf.add(Path::new("x.conf"), "unqualified-search-registries = []\n[[registry]]\nlocation = 'a.test'\n").unwrap();
    assert_eq!(places(&conf, "a.test/x:v1"), ["a.test/x:v1"]);
    assert!(conf.full_names("x").is_empty());
}

#[test]
fn invalid_settings_are_rejected() {
    for text in [
        "[[registry]]\n",
        "[[registry]]\nlocation = 'https://a.test'\n",
        "[[registry]]\nprefix = '*'\n",
        "[[registry]]\nlocation = 'a.test'\n[[registry.mirror]]\n",
        "[[registry]]\nlocation = 'a.test'\n[[registry.mirror]]\nlocation = 'b'\npull-from-mirror = 'no'\n",
        "registry = 3\n",
        "[",
    ] {
        assert!(RegistriesConf::default().add(Path::new("x"), text).is_err(), "{text}");
    }
}
