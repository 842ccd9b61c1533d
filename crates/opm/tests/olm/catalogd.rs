//! catalogd compared with `opm serve --http`: the same image of `opm build`, and the responses of both.

use serde_json::{Value, json};
use testkit::{Response, plain_client, post, request};

use crate::stage::until;
use crate::stage_v1::StageV1;

/// Fields of all types, unknown kinds of blobs, and characters that other programs escape.
const ODD: &str = r#"{"schema":"example.com/odd","name":"odd","package":"lantern","z":1,"a":[true,null,1.5,-2,"<&> \u2028 é"],
"m":{"y":{},"x":[]},"big":1234567890}
{"schema":"example.com/odd","name":"odd"}
{"schema":"olm.bundle","name":"lantern.v9.9.9-none","package":"other"}
"#;

/// Sorts the lines of a response, which have no fixed order in catalogd.
fn sorted(mut response: Response) -> Response {
    let mut lines: Vec<&str> = response.body.split_inclusive('\n').collect();
    lines.sort_unstable();
    response.body = lines.concat();
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogd_serves_an_image_of_opm_like_opm() {
    let Some(stage) = StageV1::shared().await else { return };
    let env = &stage.stage.env;
    env.copy_of("examples/catalog");
    env.file("catalog/odd.json", ODD.lines().take(3).collect::<Vec<_>>().join("\n"));
    let catalog = stage.catalog("catalog", json!({})).await;
    let name = stage.name("catalog");
    let base = catalog["status"]["urls"]["base"].as_str().expect("an address");
    assert!(base.ends_with(&format!("/catalogs/{name}")), "{base}");
    assert!(catalog["status"]["resolvedSource"]["image"]["ref"].as_str().is_some_and(|text| text.contains("@sha256:")));
    let arguments = ["catalog", "--http", "127.0.0.1:0", "--http-catalog", &name];
    let (_server, address) = stage.stage.serve_with(&arguments, "serving HTTP").await;
    let (theirs, ours) = (stage.v1.catalogd(), plain_client(&address));
    let all = format!("/catalogs/{name}/api/v1/all");
    until("opm serves", || async { (request(&ours, "GET", &all).await.status == 200).then_some(()) }).await;
    let mut lines = 0;
    let mut differences = Vec::new();
    for (method, path) in [
        ("GET", "all"),
        ("GET", "all?schema=olm.bundle"),
        ("GET", "metas"),
        ("GET", "metas?schema=olm.package"),
        ("GET", "metas?schema=olm.channel"),
        ("GET", "metas?schema=olm.bundle"),
        ("GET", "metas?schema=olm.package&name=lantern"),
        ("GET", "metas?package=lantern"),
        ("GET", "metas?name=odd"),
        ("GET", "metas?schema=example.com/odd&package=lantern"),
        ("GET", "metas?schema=olm.channel&package=lantern&name=stable"),
        ("GET", "metas?schema=none"),
        ("GET", "metas?schema=&package=lantern"),
        ("GET", "metas?schema=olm.package&schema=olm.bundle"),
        ("GET", "metas?colour=red"),
        ("HEAD", "all"),
        ("HEAD", "metas?package=lantern"),
        ("POST", "all"),
        ("PUT", "metas"),
        ("GET", "none"),
        ("GET", ""),
        ("GET", "all/"),
    ] {
        let path = format!("/catalogs/{name}/api/v1/{path}");
        let (their, our) = (sorted(request(&theirs, method, &path).await), sorted(request(&ours, method, &path).await));
        lines += their.body.lines().count();
        if their != our {
            differences.push(format!("{method} {path}\ncatalogd: {their:?}\nopm: {our:?}"));
        }
    }
    for path in
        ["/catalogs/none/api/v1/all", "/catalogs/none/api/v1/metas", "/catalogs/No_Name/api/v1/all", "/catalogs/"]
    {
        let (their, our) = (request(&theirs, "GET", path).await, request(&ours, "GET", path).await);
        if their != our {
            differences.push(format!("GET {path}\ncatalogd: {their:?}\nopm: {our:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert!(lines > 40, "{lines}");
    stage.remove(&[], &["catalog"]).await;
}

/// Sorts lists, which catalogd returns in any order, and drops messages and positions of errors.
fn normalize(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(normalize);
            items.sort_by_cached_key(Value::to_string);
        }
        Value::Object(members) => {
            if members.contains_key("errors") {
                members.insert("errors".into(), true.into());
            }
            members.values_mut().for_each(normalize);
            members.sort_keys();
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogd_answers_graphql_like_opm() {
    let Some(stage) = StageV1::shared().await else { return };
    let env = &stage.stage.env;
    env.copy_of("examples/catalog");
    stage.catalog("catalog", json!({})).await;
    let name = stage.name("catalog");
    let arguments = ["catalog", "--http", "127.0.0.1:0", "--http-catalog", &name];
    let (_server, address) = stage.stage.serve_with(&arguments, "serving HTTP").await;
    let (theirs, ours) = (stage.v1.catalogd(), plain_client(&address));
    let all = format!("/catalogs/{name}/api/v1/all");
    until("opm serves", || async { (request(&ours, "GET", &all).await.status == 200).then_some(()) }).await;
    let path = format!("/catalogs/{name}/api/v1/graphql");
    let query = |text: &str| json!({"query": text}).to_string();
    let mut bodies: Vec<String> = [
        "{ summary { totalSchemas schemas { name totalObjects totalFields } } }",
        "{ olmpackages { name defaultChannel description } }",
        "{ olmbundles(limit: 100) { name package image } }",
        "{ olmbundles(limit: -1, offset: -1) { name } }",
        "{ olmbundles { name properties { type value } } }",
        // catalogd takes the fields of lists from their first object only, which varies.
        "{ olmchannels { name package entries { name } } }",
        "query Q { a: olmpackages { n: name __typename } ...F } fragment F on Query { summary { totalSchemas } }",
        "{ olmpackages { name @skip(if: true) schema @include(if: true) } }",
        "{ __type(name: \"OlmPackage\") { kind name fields { name type { kind name } } } }",
        "{ none { name } }",
        "{ olmpackages { none } }",
        "{ olmpackages }",
        "{ olmpackages(first: 1) { name } }",
        "{ olmpackages",
        "mutation { a }",
        "{a{a{a{a{a{a{a{a{a{a{a}}}}}}}}}}}",
    ]
    .map(query)
    .to_vec();
    bodies.extend(["x", "", "[]", "{}", "{\"query\": \"\"}", "{\"query\": 1}"].map(str::to_owned));
    bodies.push(query(&" ".repeat(100_001)));
    let mut differences = Vec::new();
    for body in &bodies {
        let shown = |response: Response| match serde_json::from_str::<Value>(&response.body) {
            Ok(mut json) => {
                normalize(&mut json);
                format!("{} {} {json}", response.status, response.content_type)
            }
            Err(_) => format!("{} {:?}", response.status, response.body),
        };
        let (their, our) = (shown(post(&theirs, &path, body).await), shown(post(&ours, &path, body).await));
        if their != our {
            differences.push(format!("{}\ncatalogd: {their}\nopm: {our}", &body[..body.len().min(200)]));
        }
    }
    let (their, our) = (request(&theirs, "GET", &path).await.status, request(&ours, "GET", &path).await.status);
    assert_eq!(their, our);
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    stage.remove(&[], &["catalog"]).await;
}
