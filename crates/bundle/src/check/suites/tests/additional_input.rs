//! Checks with additional input: registries, a file of categories, a suggested namespace.

use super::*;

#[test]
fn a_namespace_that_allows_its_pods_has_no_findings() {
    let template = |level: &str| {
        let label =
            format!("{{\"metadata\": {{\"labels\": {{\"pod-security.kubernetes.io/enforce\": \"{level}\"}}}}}}");
        good().replacen(
            "    support: x\n",
            &format!("    support: x\n    operatorframework.io/suggested-namespace-template: '{label}'\n"),
            1,
        )
    };
    assert_eq!(ids(&bundle(&template("baseline"))), BTreeSet::from(["images-certified-unknown"]));
    assert_eq!(ids(&bundle(&template("unknown"))), BTreeSet::from(["images-certified-unknown"]));
}

#[test]
fn custom_categories_replace_the_standard_ones() {
    let directory = bundle(&good().replacen("categories: Database", "categories: 'Cats, Dogs'", 1));
    let whole = read_whole(directory.path(), &Limits::default()).unwrap();
    let messages = |categories: &Categories| {
        let input = CheckInput { categories: Some(categories), ..CheckInput::new(&whole, (10, 10)) };
        let found = run_validators(&input, &["categories"]).list;
        found.into_iter().map(|finding| finding.message).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(messages(&Ok(vec!["Cats".into(), "Dogs".into()])), "");
    assert_eq!(
        messages(&Ok(vec!["Cats".into()])),
        r#"Error: Value : (foo.v1.2.3) csv.Metadata.Annotations["categories"] value " Dogs" is not in the set of custom categories"#
    );
    assert_eq!(
        messages(&Err(crate::CategoriesError {
            path: "x.json".into(),
            fault: std::io::Error::other("no such file").into()
        })),
        r#"Error: Value : (foo.v1.2.3) could not extract custom categories from categories "x.json": no such file"#
    );
}

#[test]
fn the_deprecated_validator_reports_its_deprecation() {
    let directory = bundle(&good());
    let whole = read_whole(directory.path(), &Limits::default()).unwrap();
    let found = run_validators(&CheckInput::new(&whole, (10, 10)), &["operatorhub"]).list;
    assert_eq!(found.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["hub-deprecated"]);
}

#[test]
fn missing_images_are_reported_if_registries_are_queried() {
    let directory = bundle(&good().replacen("containerImage: x", &format!("containerImage: '{DIGEST}'"), 1));
    let whole = read_whole(directory.path(), &Limits::default()).unwrap();
    let found = |platforms: &PlatformsOf<'_>| {
        let input = CheckInput { platforms: Some(platforms), ..CheckInput::new(&whole, (10, 10)) };
        let found = run_validators(&input, &["images"]).list;
        found.into_iter().map(|finding| format!("{} {}", finding.id, finding.message)).collect::<Vec<_>>()
    };
    assert_eq!(found(&|_| Ok(vec![("linux".into(), "amd64".into())])), Vec::<String>::new());
    assert_eq!(found(&|_| Ok(Vec::new())), [format!("image-exists {DIGEST} is for no platform")]);
    let missing = found(&|_| Err(crate::PlatformsError::new(std::io::Error::other("manifest unknown"))));
    assert_eq!(missing, [format!("image-exists {DIGEST} cannot be pulled: manifest unknown")]);
}
