//! Catalogs and namespaces in a compact notation.

use catalog::needs::BundleNeeds;
use fbc::blob::ChannelEntry;
use fbc::json::Raw;
use fbc::version::Version;

use crate::input::{CandidateBundle, CandidateChannel, CatalogInput, ClusterNamespace, NamespaceSubscription};
use crate::pool::Pool;
use crate::resolver::{self, Resolution, SolutionItem};

/// Parses catalogs and a namespace from lines like these:
///
/// ```text
/// catalog cat 10
/// a/stable*: a.v1; a.v2 r=a.v1 s=a.v0 R=>=1.0.0_<2.0.0 gives=Foo needs=Foo needs=f:>=1.0.0 not={"gvk":...}
/// sub a @stable start=a.v1 installed=a.v1
/// csv a.v1
/// ```
///
/// The star marks the default channel. A CSV that is in a catalog gets its properties. `c=` holds an `olm.constraint`.
pub(crate) fn read(lines: &str) -> (Vec<CatalogInput>, ClusterNamespace) {
    let mut sources: Vec<CatalogInput> = Vec::new();
    let mut state = ClusterNamespace::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        match words.next().unwrap() {
            "catalog" => {
                let name = words.next().unwrap().to_owned();
                let priority = words.next().map_or(0, |word| word.parse().unwrap());
                let namespace = words.next().unwrap_or("olm").to_owned();
                sources.push(CatalogInput { name, priority, namespace, ..CatalogInput::default() });
            }
            "sub" => {
                let package = words.next().unwrap().to_owned();
                let mut request = NamespaceSubscription {
                    name: format!("{package}-sub"),
                    package,
                    ..NamespaceSubscription::default()
                };
                request.source = (sources[0].name.clone(), sources[0].namespace.clone());
                for word in words {
                    match word.split_once('=') {
                        Some(("start", name)) => request.starting_csv = Some(name.to_owned()),
                        Some(("installed", name)) => request.installed = Some(name.to_owned()),
                        Some(("name", name)) => request.name = name.to_owned(),
                        Some(("from", name)) => request.source.0 = name.to_owned(),
                        _ => request.channel = Some(word.trim_start_matches('@').to_owned()),
                    }
                }
                state.subscriptions.push(request);
            }
            "csv" => {
                let name = words.next().unwrap();
                let bundles = sources.iter().flat_map(|source| &source.bundles);
                let known = bundles.into_iter().find(|bundle| bundle.name == name).cloned();
                state.installed.push(known.unwrap_or_else(|| bundle(name, &words.collect::<Vec<_>>())));
            }
            channel => {
                let (place, entries) = line.split_once(": ").unwrap_or((channel.trim_end_matches(':'), ""));
                let (package, name) = place.split_once('/').unwrap();
                let mut channel = CandidateChannel {
                    package: package.to_owned(),
                    name: name.trim_end_matches('*').to_owned(),
                    default: name.ends_with('*'),
                    ..CandidateChannel::default()
                };
                let source = sources.last_mut().unwrap();
                source.packages.insert(package.to_owned(), None);
                for text in entries.split("; ").filter(|text| !text.is_empty()) {
                    let mut words = text.split_whitespace();
                    let name = words.next().unwrap();
                    let words: Vec<&str> = words.collect();
                    let value = |key: &'static str| words.iter().filter_map(move |word| word.strip_prefix(key));
                    channel.entries.push(ChannelEntry {
                        name: name.into(),
                        replaces: value("r=").next().unwrap_or_default().into(),
                        skips: value("s=").flat_map(|list| list.split(',')).map(Into::into).collect(),
                        skip_range: value("R=").next().unwrap_or_default().replace('_', " ").into(),
                    });
                    if !source.bundles.iter().any(|known| known.name == name && known.package == package) {
                        source.bundles.push(bundle(name, &words));
                    }
                }
                source.channels.push(channel);
            }
        }
    }
    (sources, state)
}

/// Creates a bundle from its name and words like `gives=Foo needs=f:>=1.0.0`.
fn bundle(name: &str, words: &[&str]) -> CandidateBundle {
    let (package, version) = name.split_once(".v").unwrap_or((name, "1"));
    let version = Version::parse_tolerant(version).unwrap();
    let mut properties =
        vec![format!(r#"{{"type":"olm.package","value":{{"packageName":"{package}","version":"{version}"}}}}"#)];
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let api = format!(r#"{{"group":"g","version":"v1","kind":"{value}"}}"#);
        let (kind, value) = match (key, value.split_once(':')) {
            ("gives", _) => ("olm.gvk", api),
            ("needs", None) => ("olm.gvk.required", api),
            ("needs", Some((package, range))) => (
                "olm.package.required",
                format!(r#"{{"packageName":"{package}","versionRange":"{}"}}"#, range.replace('_', " ")),
            ),
            ("label", _) => ("olm.label", format!(r#"{{"label":"{value}"}}"#)),
            ("wants-label", _) => ("olm.label.required", format!(r#"{{"label":"{value}"}}"#)),
            ("c", _) => ("olm.constraint", value.replace('~', " ")),
            ("deprecated", _) => ("olm.deprecated", "{}".to_owned()),
            ("r" | "s" | "R", _) => continue,
            _ => panic!("{word}"),
        };
        properties.push(format!(r#"{{"type":"{kind}","value":{value}}}"#));
    }
    let properties = format!("[{}]", properties.join(","));
    let list = Raw::parse(&properties, 100).expect(&properties);
    let facts = BundleNeeds::of(list.items().map(|property| (property.get_str("type"), property.get("value"))));
    CandidateBundle {
        package: package.to_owned(),
        name: name.to_owned(),
        version: Some(version),
        facts,
        properties: properties.into(),
        ..CandidateBundle::default()
    }
}

/// Summarizes a result: the names of new bundles, and with `=` those that stay.
pub(crate) fn shown(lines: &str) -> String {
    let (sources, state) = read(lines);
    let pool = Pool::new(&sources, "here");
    match resolver::resolve(&pool, &state) {
        Resolution::Solved(chosen) => {
            let mut names: Vec<String> = chosen
                .iter()
                .map(|chosen| match chosen.item {
                    SolutionItem::Member(node) => pool.member(node).bundle.name.clone(),
                    SolutionItem::Installed(place) => format!("={}", state.installed[place].name),
                })
                .collect();
            names.sort();
            names.join(" ")
        }
        Resolution::Unsatisfiable(conflict) => conflict.message(),
        Resolution::Error(message) => format!("error: {message}"),
    }
}
