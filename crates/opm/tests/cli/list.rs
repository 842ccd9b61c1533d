use crate::env::TestEnv;

#[test]
fn packages_are_listed_with_their_display_names() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    insta::assert_snapshot!(env.stdout(&["list", "packages", "catalog"]), @r"
    NAME          DISPLAY NAME  DEFAULT CHANNEL  CHANNELS  BUNDLES  DEPRECATION
    buoy          Buoy          stable           1         2        
    lantern       Lantern       stable           2         5        
    tide-gauge    Tide Gauge    v0               1         5        
    weather-vane  Weather Vane  fair             2         2
    ");
}

#[test]
fn bundles_are_listed_newest_first() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    insta::assert_snapshot!(env.stdout(&["list", "bundles", "catalog", "buoy", "-o", "csv"]).replace('\r', ""), @r"
    package,channel,bundle,version,head,replaces,skips,skipRange,image,deprecation
    buoy,stable,buoy-v1.0.0-2,1.0.0-2,true,buoy-v1.0.0-1,,,registry.example.com/harbour/buoy-bundle:v1.0.0-2,
    buoy,stable,buoy-v1.0.0-1,1.0.0-1,false,,,,registry.example.com/harbour/buoy-bundle:v1.0.0-1,
    ");
    insta::assert_snapshot!(env.stdout(&["list", "channels", "catalog", "weather-vane", "-o", "yaml"]), @r"
    - channel: fair
      default: true
      deprecation: null
      entries: 2
      head: weather-vane.v0.9.4
      package: weather-vane
    - channel: stormy
      default: false
      deprecation: null
      entries: 1
      head: weather-vane.v0.9.4
      package: weather-vane
    ");
    let rows: serde_json::Value =
        serde_json::from_str(&env.stdout(&["list", "bundles", "catalog", "lantern", "-o", "json"])).unwrap();
    assert_eq!(rows[0]["version"], "2.0.0-rc.1");
    assert_eq!(rows[3]["skips"], serde_json::json!([]));
}

#[test]
fn an_unknown_package_is_reported() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    insta::assert_snapshot!(env.opm(&["list", "bundles", "catalog", "lamp"]), @r#"
    exit 1
    --- stdout
    --- stderr
    error: package "lamp" not found
    "#);
}

#[test]
fn bundles_fit_into_a_line() {
    let env = TestEnv::new();
    env.copy_of("examples/catalog");
    let table = env.stdout(&["list", "bundles", "catalog", "lantern"]);
    insta::assert_snapshot!(table, @r"
    CHANNEL    VERSION     BUNDLE               REPLACES  NOTE
    candidate  2.0.0-rc.1  lantern.v2.0.0-rc.1  v1.2.0    head
    candidate  1.2.0       lantern.v1.2.0       v1.1.1    >=1.0.0 <1.2.0
    candidate  1.1.1       lantern.v1.1.1       v1.0.0    skips 1
    candidate  1.1.0       lantern.v1.1.0       v1.0.0    deprecated
    candidate  1.0.0       lantern.v1.0.0                 deprecated
    stable     1.2.0       lantern.v1.2.0       v1.1.1    head, >=1.0.0 <1.2.0
    stable     1.1.1       lantern.v1.1.1       v1.0.0    skips 1
    stable     1.0.0       lantern.v1.0.0                 deprecated
    ");
    assert!(table.lines().all(|line| line.chars().count() <= 80));
    assert_eq!(env.stdout(&["list", "bundles", "catalog", "-p", "lantern"]), table);
    // The name `lantern.v1.0.0` does not contain the package `lan`.
    let text = std::fs::read_to_string(env.path("catalog/lantern/catalog.yaml")).unwrap();
    env.file(
        "other/catalog.yaml",
        text.replace("package: lantern", "package: lan")
            .replace("name: lantern\n", "name: lan\n")
            .replace("packageName: lantern", "packageName: lan"),
    );
    let table = env.stdout(&["list", "bundles", "other", "lan"]);
    assert!(table.contains(" lantern.v1.1.1  "), "{table}");
    let wide = env.stdout(&["list", "bundles", "catalog", "lantern", "-o", "wide"]);
    assert!(wide.starts_with("PACKAGE") && wide.contains("registry.example.com/"), "{wide}");
}
