//! M-4 and M-21: the files that clusters get.

use super::*;
use crate::lock::Lock;

fn image(source: &str, path: &str, role: Role) -> LockedImage {
    let (_, tag) = source.rsplit_once(':').unwrap();
    LockedImage {
        source: source.replace("SHA", &"0".repeat(64)),
        digest: format!("sha256:{}", "0".repeat(64)),
        media_type: String::new(),
        bytes: 0,
        platforms: Vec::new(),
        referrers: Vec::new(),
        path: path.into(),
        tag: tag.replace("SHA", "x"),
        role,
        used_by: Vec::new(),
    }
}

fn catalog(path: &str, tag: &str) -> LockedCatalog {
    LockedCatalog {
        source: format!("quay.io/{path}:{tag}"),
        path: path.into(),
        tag: tag.into(),
        name: path.replace('/', "-"),
        ..LockedCatalog::default()
    }
}

fn lock() -> Lock {
    Lock {
        catalogs: vec![catalog("ns/my.index", "v4.18")],
        images: vec![
            image("quay.io/ns/one@sha256:SHA", "ns/one", Role::Bundle),
            image("quay.io/ns/two:v1@sha256:SHA", "ns/two", Role::Related),
            image("docker.io/library/three:v1", "library/three", Role::Related),
            image("quay.io/alone:v1", "alone", Role::Additional),
            image("quay.io/ns/moved:v1", "else/where", Role::Additional),
        ],
        ..Lock::default()
    }
}

fn target(text: &str, most: Option<usize>) -> MirrorDestination {
    MirrorDestination::parse(text, most).unwrap()
}

#[test]
fn m4_the_objects_describe_all_mirrored_content() {
    let objects = make(&lock(), &target("reg.test:5000/m", None), &ResourceOptions::default()).unwrap();
    for _ in 0..10 {
        assert_eq!(
            make(&lock(), &target("reg.test:5000/m", None), &ResourceOptions::default()).unwrap().files,
            objects.files
        );
    }
    let names: Vec<&str> = objects.files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "cc-my-index-v4-18.yaml",
            "certs.d/docker.io/hosts.toml",
            "cs-my-index-v4-18.yaml",
            "idms-oc-mirror.yaml",
            "itms-oc-mirror.yaml",
            "registries.conf.d/50-mirror.conf",
        ]
    );
    insta::assert_snapshot!(objects.files["idms-oc-mirror.yaml"], @r"
    ---
    apiVersion: config.openshift.io/v1
    kind: ImageDigestMirrorSet
    metadata:
      annotations:
        createdBy: opm mirror
      name: idms-operator-0
    spec:
      imageDigestMirrors:
      - mirrors:
        - reg.test:5000/m/ns
        source: quay.io/ns
    ");
    insta::assert_snapshot!(objects.files["itms-oc-mirror.yaml"], @r"
    ---
    apiVersion: config.openshift.io/v1
    kind: ImageTagMirrorSet
    metadata:
      annotations:
        createdBy: opm mirror
      name: itms-generic-0
    spec:
      imageTagMirrors:
      - mirrors:
        - reg.test:5000/m
        source: quay.io
      - mirrors:
        - reg.test:5000/m/else/where
        source: quay.io/ns/moved
    ---
    apiVersion: config.openshift.io/v1
    kind: ImageTagMirrorSet
    metadata:
      annotations:
        createdBy: opm mirror
      name: itms-operator-0
    spec:
      imageTagMirrors:
      - mirrors:
        - reg.test:5000/m/library
        source: docker.io/library
      - mirrors:
        - reg.test:5000/m/ns
        source: quay.io/ns
    ");
    insta::assert_snapshot!(objects.files["cs-my-index-v4-18.yaml"], @r"
    ---
    apiVersion: operators.coreos.com/v1alpha1
    kind: CatalogSource
    metadata:
      annotations:
        createdBy: opm mirror
      name: cs-my-index-v4-18
      namespace: openshift-marketplace
    spec:
      image: reg.test:5000/m/ns/my.index:v4.18
      sourceType: grpc
    ");
    insta::assert_snapshot!(objects.files["cc-my-index-v4-18.yaml"], @r"
    ---
    apiVersion: olm.operatorframework.io/v1
    kind: ClusterCatalog
    metadata:
      annotations:
        createdBy: opm mirror
      name: cc-my-index-v4-18
    spec:
      priority: 0
      source:
        image:
          ref: reg.test:5000/m/ns/my.index:v4.18
        type: Image
    ");
    insta::assert_snapshot!(objects.files["certs.d/docker.io/hosts.toml"], @r#"
    server = "https://registry-1.docker.io"

    [host."https://reg.test:5000/v2/m"]
      capabilities = ["pull", "resolve"]
      override_path = true
    "#);
    assert_eq!(objects.notes.len(), 1, "{:?}", objects.notes);
}

#[test]
fn m4_deep_paths_are_listed_individually_and_names_have_limits() {
    let objects = make(&lock(), &target("reg.test/m", Some(2)), &ResourceOptions::default()).unwrap();
    assert!(objects.files["idms-oc-mirror.yaml"].contains("- reg.test/m/ns-one\n    source: quay.io/ns/one\n"));
    let named = |path: &str| {
        let lock = Lock { catalogs: vec![catalog(path, "v1")], ..Lock::default() };
        make(&lock, &target("reg.test", None), &ResourceOptions::default())
            .map(|objects| objects.files.into_keys().next().unwrap())
    };
    let long = "a".repeat(57);
    assert_eq!(named(&long).unwrap(), format!("cc-{long}-v1.yaml"));
    assert!(named(&"a".repeat(58)).unwrap_err().to_string().contains("clusters reject the name"));
    assert!(named("a_b").unwrap_err().to_string().contains("--catalog-name"));
    let apart = ResourceOptions {
        one_object_per_file: true,
        names: vec![("ns/my.index".into(), "mine".into())],
        ..ResourceOptions::default()
    };
    let objects = make(&lock(), &target("reg.test", None), &apart).unwrap();
    assert!(objects.files.contains_key("itms-generic-0.yaml") && objects.files.contains_key("cs-mine.yaml"));
}

#[test]
fn m21_names_of_conflicting_catalogs_contain_more_of_their_paths() {
    let lock = Lock { catalogs: vec![catalog("one/index", "v1"), catalog("two/index", "v1")], ..Lock::default() };
    let objects = make(&lock, &target("reg.test", None), &ResourceOptions::default()).unwrap();
    let names: Vec<&str> = objects.files.keys().map(String::as_str).collect();
    assert_eq!(names, ["cc-index-v1.yaml", "cc-two-index-v1.yaml", "cs-index-v1.yaml", "cs-two-index-v1.yaml"]);
    assert!(objects.notes[0].contains("two-index-v1"), "{:?}", objects.notes);
}

#[test]
fn m4_fields_of_a_template_are_preserved() {
    let template = json!({"kind": "CatalogSource", "spec": {
        "displayName": "Mine", "sourceType": "grpc", "priority": -200,
        "updateStrategy": {"registryPoll": {"interval": "1h30m"}},
    }});
    check_template(&template).unwrap();
    for bad in [
        json!({"kind": "Pod"}),
        json!({"kind": "CatalogSource", "spec": {"sourceType": "internal"}}),
        json!({"kind": "CatalogSource", "spec": {"configMap": "x"}}),
    ] {
        assert!(check_template(&bad).is_err(), "{bad}");
    }
    let catalog = LockedCatalog { template: Some(template), ..catalog("ns/index", "v1") };
    let objects = make(
        &Lock { catalogs: vec![catalog], ..Lock::default() },
        &target("reg.test", None),
        &ResourceOptions::default(),
    );
    let objects = objects.unwrap();
    let text = &objects.files["cs-index-v1.yaml"];
    assert!(text.contains("  displayName: Mine\n  image: reg.test/ns/index:v1\n  priority: -200\n"), "{text}");
    // A cache of the original does not match a rebuilt catalog.
    let extracting = json!({"kind": "CatalogSource", "spec": {
        "grpcPodConfig": {"extractContent": {"cacheDir": "/tmp/cache", "catalogDir": "/other"}},
    }});
    let of =
        |whole: bool| LockedCatalog { template: Some(extracting.clone()), whole, ..self::catalog("ns/index", "v1") };
    let extracted = |whole: bool| {
        let lock = Lock { catalogs: vec![of(whole)], ..Lock::default() };
        let objects = super::make(&lock, &target("reg.test", None), &ResourceOptions::default()).unwrap();
        (objects.files["cs-index-v1.yaml"].clone(), objects.notes)
    };
    let (text, notes) = extracted(false);
    assert!(text.contains("catalogDir: /configs\n") && !text.contains("cacheDir"), "{text}");
    assert!(notes[0].contains("extracted without a cache"), "{notes:?}");
    assert!(extracted(true).0.contains("cacheDir: /tmp/cache\n"));
    // An image without a program is extracted, unless the template does so already.
    let data_only = |template: Option<Value>| {
        let locked = LockedCatalog {
            extract_content: Some("/catalog".into()),
            whole: true,
            template,
            ..self::catalog("ns/index", "v1")
        };
        let lock = Lock { catalogs: vec![locked], ..Lock::default() };
        let objects = super::make(&lock, &target("reg.test", None), &ResourceOptions::default()).unwrap();
        objects.files["cs-index-v1.yaml"].clone()
    };
    let text = data_only(None);
    assert!(text.contains("  grpcPodConfig:\n    extractContent:\n      catalogDir: /catalog\n"), "{text}");
    let restricted =
        json!({"kind": "CatalogSource", "spec": {"grpcPodConfig": {"securityContextConfig": "restricted"}}});
    let text = data_only(Some(restricted));
    assert!(text.contains("catalogDir: /catalog\n") && text.contains("securityContextConfig: restricted\n"), "{text}");
    let text = data_only(Some(extracting.clone()));
    assert!(text.contains("cacheDir: /tmp/cache\n      catalogDir: /other\n"), "{text}");
    // A ClusterCatalog has no display name, but a priority and a poll interval.
    let text = &objects.files["cc-index-v1.yaml"];
    assert!(text.contains("  priority: -200\n") && text.contains("      pollIntervalMinutes: 90\n"), "{text}");
}
