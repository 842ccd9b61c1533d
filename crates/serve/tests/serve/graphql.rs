//! GraphQL queries over HTTP.

use std::fmt::Write;
use std::fs;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::harness::{Server, post};

const PATH: &str = "/catalogs/test/api/v1/graphql";

/// The introspection query of common GraphQL tools.
const INTROSPECTION: &str = "query IntrospectionQuery { __schema { description queryType { name } mutationType { name } \
    subscriptionType { name } types { ...FullType } directives { name description isRepeatable locations \
    args(includeDeprecated: true) { ...InputValue } } } } fragment FullType on __Type { kind name description \
    specifiedByURL fields(includeDeprecated: true) { name description args(includeDeprecated: true) { ...InputValue } \
    type { ...TypeRef } isDeprecated deprecationReason } inputFields(includeDeprecated: true) { ...InputValue } \
    interfaces { ...TypeRef } enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason } \
    possibleTypes { ...TypeRef } } fragment InputValue on __InputValue { name description type { ...TypeRef } \
    defaultValue isDeprecated deprecationReason } fragment TypeRef on __Type { kind name ofType { kind name ofType { \
    kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { \
    kind name ofType { kind name } } } } } } } } } }";

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    fbc::json::write_str(&mut out, text);
    String::from_utf8(out).unwrap()
}

/// Returns status and body.
async fn post_query(server: &Server, body: &str) -> (String, String) {
    let reply = post(server.http, PATH, body).await;
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    (head.lines().next().unwrap_or_default().replace("HTTP/1.1 ", ""), body.to_owned())
}

/// Returns the reply to a valid query.
async fn data(server: &Server, query: &str) -> String {
    let (status, body) = post_query(server, &format!("{{\"query\":{}}}", quoted(query))).await;
    assert_eq!(status, "200 OK", "{body}");
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_are_selected_by_schema_package_and_name() {
    let server = Server::start(|_| {}).await;
    assert_eq!(
        data(&server, "{ summary { totalSchemas schemas { name totalObjects totalFields } } }").await,
        r#"{"data":{"summary":{"totalSchemas":4,"schemas":[{"name":"custom.note","totalObjects":3,"totalFields":4},{"name":"olm.bundle","totalObjects":24,"totalFields":5},{"name":"olm.channel","totalObjects":3,"totalFields":4},{"name":"olm.package","totalObjects":3,"totalFields":4}]}}}"#
    );
    assert_eq!(
        data(&server, "{ olmpackages(limit: 2, offset: 1) { name defaultChannel __typename } }").await,
        r#"{"data":{"olmpackages":[{"name":"beta","defaultChannel":"stable","__typename":"OlmPackage"},{"name":"gamma","defaultChannel":"stable","__typename":"OlmPackage"}]}}"#
    );
    assert_eq!(
        data(&server, "{ olmbundles(package: \"alpha\", offset: 1, limit: 1) { name properties { type value } } }")
            .await
            .split("olm.gvk")
            .next()
            .unwrap(),
        r#"{"data":{"olmbundles":[{"name":"alpha.v1.0.0","properties":[{"type":"olm.package","value":"{\"packageName\":\"alpha\",\"version\":\"1.0.0\"}"},{"type":""#
    );
    let one = "{ olmpackages(package: \"beta\") { name } olmbundles(name: \"gamma.v0.0.0\") { package } \
               olmchannels(package: \"none\") { name } }";
    assert_eq!(
        data(&server, one).await,
        r#"{"data":{"olmpackages":[{"name":"beta"}],"olmbundles":[{"package":"gamma"}],"olmchannels":[]}}"#
    );
    let entries = "{ olmchannels(package: \"alpha\") { entries { name replaces } } }";
    assert!(data(&server, entries).await.contains(r#"{"name":"alpha.v0.0.0","replaces":null}"#));
    // Values outside of the limits are clamped.
    let all = data(&server, "{ olmbundles(limit: 100000, offset: -5) { name } }").await;
    assert_eq!(all.matches("\"name\"").count(), 24);
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_fragments_aliases_and_conditions_work() {
    let server = Server::start(|_| {}).await;
    let query = "query Other { summary { totalSchemas } } query Few($n: Int = 1, $p: String!, $more: Boolean!) { \
                 first: olmbundles(limit: $n, package: $p) { ...Names image @include(if: $more) } \
                 last: olmbundles(limit: 1, offset: 2, package: $p) { ... on OlmBundle { name } name } } \
                 fragment Names on OlmBundle { name package @skip(if: $more) }";
    let body = |variables: &str, operation: &str| {
        format!("{{\"query\":{},\"variables\":{variables},\"operationName\":{operation}}}", quoted(query))
    };
    let few = post_query(&server, &body(r#"{"p":"alpha","more":false}"#, "\"Few\"")).await;
    assert_eq!(
        few.1,
        r#"{"data":{"first":[{"name":"alpha.v0.0.0","package":"alpha"}],"last":[{"name":"alpha.v2.0.0"}]}}"#
    );
    let more = post_query(&server, &body(r#"{"p":"alpha","more":true,"n":2}"#, "\"Few\"")).await;
    assert_eq!(more.1.matches("\"image\"").count(), 2, "{more:?}");
    assert_eq!(post_query(&server, &body("null", "\"Other\"")).await.1, r#"{"data":{"summary":{"totalSchemas":4}}}"#);
    for (variables, operation, message) in [
        (r#"{"more":true}"#, "\"Few\"", r#"Variable \"$p\" of required type \"String!\" was not provided."#),
        (r#"{"p":1,"more":true}"#, "\"Few\"", r#"Variable \"$p\" got invalid value"#),
        (r#"{"p":"a","more":true,"n":"1"}"#, "\"Few\"", r#"Variable \"$n\" got invalid value"#),
        ("{}", "null", "Must provide operation name if query contains multiple operations."),
        ("{}", "\"None\"", r#"Unknown operation named \"None\"."#),
    ] {
        let (status, reply) = post_query(&server, &body(variables, operation)).await;
        assert!(status == "200 OK" && reply.starts_with("{\"data\":null,\"errors\":["), "{reply}");
        assert!(reply.contains(message), "{reply}");
    }
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_of_a_query_are_reported_with_their_position() {
    let server = Server::start(|_| {}).await;
    for (query, wanted) in [
        (
            "{ olmbundles {\n  nmae } }",
            r#""message":"Cannot query field \"nmae\" on type \"OlmBundle\".","locations":[{"line":2,"column":3}]"#,
        ),
        ("{ olmbundles", "Syntax Error: Unexpected <EOF>."),
        ("{ olmbundles }", "must have a sub selection"),
        ("{ summary { totalSchemas { x } } }", "must not have a selection"),
        ("{ olmbundles(first: 1) { name } }", r#"Unknown argument \"first\""#),
        ("{ olmbundles(limit: \"1\") { name } }", r#"Expected type \"Int\"."#),
        ("{ olmbundles(limit: 99999999999) { name } }", r#"Expected type \"Int\"."#),
        ("{ olmbundles(limit: $n) { name } }", r#"Variable \"$n\" is not defined."#),
        ("{ ...X }", r#"Unknown fragment \"X\"."#),
        ("{ ... on OlmBundle { name } }", "can never be of type"),
        ("{ olmbundles { ... on Nothing { name } } }", r#"Unknown type \"Nothing\"."#),
        ("{ olmbundles { name @lower } }", r#"Unknown directive \"lower\"."#),
        ("{ a: olmbundles { name } a: olmpackages { name } }", r#"Fields \"a\" conflict"#),
        ("{ a: olmbundles { name } a: olmbundles(limit: 1) { name } }", r#"Fields \"a\" conflict"#),
        ("mutation { x }", "Schema is not configured for mutations"),
        ("{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }", "within itself"),
        ("{ __type(name: \"__Type\") { ...F } } fragment F on __Type { ofType { ...F } }", "within itself"),
        ("type A { b: C }", "Syntax Error"),
    ] {
        let reply = data(&server, query).await;
        assert!(reply.starts_with("{\"data\":null,\"errors\":["), "{query}: {reply}");
        assert!(reply.contains(wanted), "{query}: {reply}");
    }
    for (body, message) in [
        ("x", "Invalid request body\n"),
        ("[]", "Invalid request body\n"),
        ("{\"query\":1}", "Invalid request body\n"),
        ("{\"query\":\"{a}\",\"variables\":[]}", "Invalid request body\n"),
        ("{}", "Query cannot be empty\n"),
        ("{\"query\":\"\"}", "Query cannot be empty\n"),
    ] {
        assert_eq!(post_query(&server, body).await, ("400 Bad Request".into(), message.into()), "{body}");
    }
    let get = server.get(PATH, "").await;
    assert!(get.starts_with("HTTP/1.1 405") && get.to_lowercase().contains("\r\nallow: post\r\n"), "{get}");
    assert!(post(server.http, "/catalogs/other/api/v1/graphql", "{}").await.starts_with("HTTP/1.1 404"));
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn introspection_describes_the_types() {
    let server = Server::start(|_| {}).await;
    let types = data(&server, INTROSPECTION).await;
    assert!(types.starts_with("{\"data\":{\"__schema\":{"), "{types}");
    assert!(types.contains(r#""kind":"OBJECT","name":"OlmBundleProperties""#), "{types}");
    assert!(types.contains(r#"{"name":"limit","description":"Maximum number of items to return","type":{"kind":"SCALAR","name":"Int","ofType":null},"defaultValue":"100""#));
    let one = "{ __type(name: \"OlmChannelEntries\") { kind name fields { name type { kind ofType { name } name } } } \
               none: __type(name: \"x\") { name } }";
    assert_eq!(
        data(&server, one).await,
        r#"{"data":{"__type":{"kind":"OBJECT","name":"OlmChannelEntries","fields":[{"name":"name","type":{"kind":"SCALAR","ofType":null,"name":"String"}},{"name":"replaces","type":{"kind":"SCALAR","ofType":null,"name":"String"}}]},"none":null}}"#
    );
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_value_of_a_field_determines_its_type() {
    let server = Server::start(|plan| {
        let yaml = "---\nschema: x.y\nname: one\npackage: alpha\nnumber: 1\npart: 1.5\nflag: true\nlist: [a, b]\n\
                    csv-description: text\nnested:\n- {skips: [v1, v2], deep: {a: 1}}\n- other\n\
                    ---\nschema: x.y\nname: two\npackage: alpha\nnumber: text\npart: 2\nflag: 1\nlist: none\n\
                    nested: 5\n---\nschema: x.y\nname: three\npackage: alpha\nnumber: 99999999999\nlist: [{a: 1}]\n";
        fs::create_dir_all(plan.directory.root.join("x")).unwrap();
        fs::write(plan.directory.root.join("x/x.yaml"), yaml).unwrap();
    })
    .await;
    assert_eq!(
        data(&server, "{ xys { name number part flag list csvDescription nested { skips deep } } }").await,
        r#"{"data":{"xys":[{"name":"one","number":1,"part":1.5,"flag":true,"list":["a","b"],"csvDescription":"text","nested":[{"skips":["v1","v2"],"deep":"{\"a\":1}"},null]},{"name":"two","number":null,"part":2,"flag":null,"list":null,"csvDescription":null,"nested":null},{"name":"three","number":null,"part":null,"flag":null,"list":["{\"a\":1}"],"csvDescription":null,"nested":null}]}}"#
    );
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicting_names_are_reported() {
    let server = Server::start(|plan| {
        let yaml = "---\nschema: a.b\nname: one\n---\nschema: a-b\nname: two\n";
        fs::create_dir_all(plan.directory.root.join("x")).unwrap();
        fs::write(plan.directory.root.join("x/x.yaml"), yaml).unwrap();
    })
    .await;
    let reply = data(&server, "{ summary { totalSchemas } }").await;
    assert!(reply.contains(r#"several schemas or fields that GraphQL would call \"AB\""#), "{reply}");
    assert!(server.get("/catalogs/test/api/v1/all", "").await.starts_with("HTTP/1.1 200"));
    assert!(server.end().await.1.is_ok());
}

/// Returns `{ a { a { ... } } }` with this many nested fields.
fn deep(levels: usize) -> String {
    let (open, close) = ("{a".repeat(levels), "}".repeat(levels));
    format!("{open}{close}")
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_queries_end_quickly() {
    let server = Server::start(|_| {}).await;
    let fields = |count: usize| format!("{{ summary {{ {} }} }}", "totalSchemas ".repeat(count));
    let aliases = |count: usize| {
        let all = (0..count).fold(String::new(), |mut all, number| {
            write!(all, "a{number}: summary {{ totalSchemas }} ").unwrap();
            all
        });
        format!("{{ {all} }}")
    };
    // One below each limit succeeds; one above fails.
    let (depth, field, alias) = ("maximum depth of 10", "maximum field count of 500", "maximum alias count of 50");
    assert!(data(&server, &deep(10)).await.contains("Cannot query field"));
    assert!(data(&server, &deep(11)).await.contains(depth));
    assert!(data(&server, &fields(499)).await.contains("\"totalSchemas\":4"));
    assert!(data(&server, &fields(500)).await.contains(field));
    assert!(data(&server, &aliases(50)).await.contains("\"a49\""));
    assert!(data(&server, &aliases(51)).await.contains(alias));
    let padded = |size: usize| format!("{{summary{{totalSchemas}}}}{}", " ".repeat(size - 23));
    assert!(data(&server, &padded(100_000)).await.contains("\"totalSchemas\":4"));
    let too_large = post_query(&server, &format!("{{\"query\":{}}}", quoted(&padded(100_001)))).await;
    assert_eq!(too_large, ("400 Bad Request".into(), "Query too large\n".into()));
    let body = format!("{{\"query\":\"{{a}}\",\"x\":\"{}\"}}", "x".repeat(1 << 20));
    assert_eq!(post_query(&server, &body).await, ("400 Bad Request".into(), "Invalid request body\n".into()));

    // Fragments that double, fragments in a long chain, and introspection of nested types.
    let mut doubling = "{ ...F0 } ".to_owned();
    for number in 0..60 {
        let next = number + 1;
        write!(doubling, "fragment F{number} on Query {{ ...F{next} ...F{next} }} ").unwrap();
    }
    doubling.push_str("fragment F60 on Query { summary { totalSchemas } }");
    let chain = (0..2000).rev().fold("{ summary { totalSchemas } } ".to_owned(), |mut all, number| {
        write!(all, "fragment F{number} on Query {{ ...F{} }} ", number + 1).unwrap();
        all
    });
    let mut wide = "{ __schema { types { ...T0 } } } ".to_owned();
    for number in 0..12 {
        let next = number + 1;
        write!(wide, "fragment T{number} on __Type {{ a{number}: fields {{ type {{ ...T{next} }} }} b{number}: fields {{ type {{ ...T{next} }} }} }} ").unwrap();
    }
    wide.push_str("fragment T12 on __Type { name }");
    let values = format!("{{ olmbundles(limit: {}1{}) {{ name }} }}", "[".repeat(20_000), "]".repeat(20_000));
    let spreads = format!("{{ {} }} fragment F on Query {{ summary {{ totalSchemas }} }}", "...F ".repeat(15_000));
    let large = "x".repeat(90_000);
    for query in [
        deep(20_000),
        doubling,
        chain,
        wide,
        values,
        spreads,
        format!("{{ {large} }}"),
        format!("{{ olmbundles(name: \"{large}\") {{ name }} }}"),
        "{".repeat(50_000),
        "#".repeat(90_000),
        "\"\"\"".repeat(30_000),
    ] {
        let start = Instant::now();
        let reply = data(&server, &query).await;
        assert!(reply.starts_with("{\"data\":"), "{reply}");
        assert!(start.elapsed() < Duration::from_secs(8), "{} took {:?}", &query[..30], start.elapsed());
    }
    let nested = format!("{{\"query\":\"{{a}}\",\"variables\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(post_query(&server, &nested).await.0, "400 Bad Request");
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_do_not_delay_others() {
    let server = Server::start(|_| {}).await;
    let port = server.http;
    let half = "{\"query\":\"{a}\",\"x\":\"".to_owned() + &"x".repeat(20 << 10);
    let mut slow: Vec<TcpStream> = Vec::new();
    for _ in 0..12 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head = format!("POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n{half}");
        stream.write_all(head.as_bytes()).unwrap();
        slow.push(stream);
    }
    // A short query gets its reply immediately, and unfinished requests are disconnected.
    assert!(data(&server, "{ summary { totalSchemas } }").await.contains("\"totalSchemas\":4"));
    let start = Instant::now();
    let ended = tokio::task::spawn_blocking(move || {
        slow.iter_mut()
            .map(|stream| {
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let mut reply = [0; 12];
                stream.read_exact(&mut reply).unwrap();
                String::from_utf8_lossy(&reply).into_owned()
            })
            .collect::<Vec<_>>()
    });
    let ended = ended.await.unwrap();
    assert_eq!(ended.iter().filter(|status| *status == "HTTP/1.1 503").count(), 4, "{ended:?}");
    assert_eq!(ended.iter().filter(|status| *status == "HTTP/1.1 408").count(), 8, "{ended:?}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    assert!(server.end().await.1.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_replies_arrive_completely() {
    let server =
        Server::start(|plan| crate::catalogs::write_large_package(&plan.directory.root, "large", 20, 200 << 10)).await;
    let query = "{ olmbundles(package: \"large\") { name properties { value } } }";
    let reply = data(&server, query).await;
    assert!(reply.len() > 20 * (200 << 10) && reply.ends_with("]}}"), "{} bytes", reply.len());
    assert_eq!(reply.matches("\"name\":\"large.v").count(), 20);
    // Replies above the limit are rejected, not truncated.
    let many = format!(
        "{{ {} }}",
        (0..20).fold(String::new(), |mut all, number| {
            write!(all, "a{number}: olmbundles(package: \"large\") {{ properties {{ value }} }} ").unwrap();
            all
        })
    );
    let refused = data(&server, &many).await;
    assert!(refused.contains("the answer is larger than 32 MiB"), "{} bytes", refused.len());
    assert!(server.end().await.1.is_ok());
}
