use super::*;

fn raw(text: &str) -> Raw<'_> {
    Raw::parse(text, 100).unwrap()
}

#[test]
fn members_and_items_are_found_in_written_order() {
    let value = raw(r#" { "b" : [1, "two,]}", {"x":{}}] , "a":null,"b":false } "#);
    let members: Vec<String> = value.members().map(|(k, v)| format!("{k}={v:?}")).collect();
    assert_eq!(members, [r#"b=[1, "two,]}", {"x":{}}]"#, "a=null", "b=false"]);
    let items: Vec<&str> = value.members().next().unwrap().1.items().map(Raw::text).collect();
    assert_eq!(items, ["1", r#""two,]}""#, r#"{"x":{}}"#]);
    assert_eq!(raw("[]").items().count() + raw("{}").members().count() + raw("1").items().count(), 0);
}

#[test]
fn a_key_is_found_exactly_or_else_without_regard_to_case() {
    let value = raw(r#"{"Name":1,"name":2,"NAME":3,"x":4,"x":5,"Y":6}"#);
    let get = |name| value.get(name).map(Raw::text);
    assert_eq!((get("name"), get("x"), get("y"), get("z")), (Some("2"), Some("5"), Some("6"), None));
}

#[test]
fn escapes_are_resolved() {
    let text = r#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud83dx\ude00\ud800\u0041""#;
    assert_eq!(raw(text).as_str().unwrap(), "\"\\/\u{8}\u{c}\n\r\té😀\u{fffd}x\u{fffd}\u{fffd}A");
    assert_eq!(raw("1").as_str(), None);
}

proptest::proptest! {
    #[test]
    fn strings_are_parsed_like_serde_json(text in r#"([ -~é€😀]|\\u[0-9a-f]{4}|\\n){0,12}"#) {
        let quoted = format!("\"{text}\"");
        if let Ok(theirs) = serde_json::from_str::<String>(&quoted) {
            proptest::prop_assert_eq!(raw(&quoted).as_str().unwrap(), theirs);
        }
    }
}

#[test]
fn an_outline_has_the_long_values_of_the_outer_levels() {
    let long = "x".repeat(200);
    let text = format!(r#"[1, {{"a":["{long}",{{"b":{{"c":{{"d":["{long}"]}}}}}}],"e":"short","f":"{long}"}} ]"#);
    let mut spans = Vec::new();
    let range = super::super::check_indexed(&text, 0, 50, &mut spans).unwrap();
    let inner = Raw::from_indexed(&text, range, &spans).items().nth(1).unwrap();
    let outline = inner.outline();
    let again = Raw::from_indexed(inner.text(), 0..inner.text().len(), &outline);
    let found = |span: &LongValue| &inner.text()[span.start as usize..span.end as usize];
    let starts: Vec<&str> = outline.iter().map(|span| &found(span)[..5]).collect();
    assert_eq!(starts, ["{\"a\":", "[\"xxx", "\"xxxx", "{\"b\":", "{\"c\":", "{\"d\":", "\"xxxx"]);
    assert!(outline.iter().all(|span| Raw::parse(found(span), 50).is_ok()));
    let deep = |value: Raw<'_>| {
        let inside = value.get("a")?.items().nth(1)?.get("b")?.get("c")?.get("d")?.items().next()?;
        Some(inside.as_str()?.len() + value.get("f")?.as_str()?.len())
    };
    assert_eq!((deep(inner), deep(again)), (Some(400), Some(400)));
}
