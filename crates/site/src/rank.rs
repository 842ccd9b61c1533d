//! Searches packages: words, filters, order. The script of the list does the same.

use std::collections::{BTreeMap, BTreeSet};

use fbc::spelling::percent;

use crate::csv::LEVELS;
use crate::date::Day;
use crate::summary::Row;

/// A query of the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageQuery {
    /// Words to search.
    pub words: String,
    /// Selected values, by facet.
    pub chosen: BTreeMap<&'static str, BTreeSet<String>>,
    /// The order.
    pub sort: Sort,
    /// Whether packages are shown as rows instead of tiles.
    pub rows: bool,
    /// Whether packages are shown that are only dependencies of others.
    pub all: bool,
}

/// The order of the list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// By relevance, then by name.
    #[default]
    Relevance,
    /// By name.
    Name,
    /// Newest first.
    Date,
    /// Most versions first.
    Versions,
}

/// The facets: parameter and heading.
pub(crate) const FACETS: [(&str, &str); 9] = [
    ("category", "Category"),
    ("capability", "Capability level"),
    ("mode", "Install mode"),
    ("feature", "Infrastructure"),
    ("arch", "Architecture"),
    ("year", "Year of the head"),
    ("kube", "Minimal Kubernetes"),
    ("state", "State"),
    ("provider", "Provider"),
];

impl PackageQuery {
    /// Parses the query of a URL; unknown parameters are ignored.
    pub fn read(query: &str) -> PackageQuery {
        let mut read = PackageQuery::default();
        for (key, value) in pairs(query) {
            if value.is_empty() || value.len() > 1000 {
                continue;
            }
            match key.as_str() {
                "q" => read.words = value,
                "sort" => {
                    read.sort = match value.as_str() {
                        "name" => Sort::Name,
                        "date" => Sort::Date,
                        "versions" => Sort::Versions,
                        _ => Sort::Relevance,
                    }
                }
                "view" => read.rows = value == "rows",
                "all" => read.all = value == "1",
                key => {
                    if let Some((facet, _)) = FACETS.iter().find(|(facet, _)| *facet == key) {
                        read.chosen.entry(facet).or_default().insert(value);
                    }
                }
            }
        }
        read
    }

    /// Returns whether words are searched in descriptions, too.
    pub fn in_descriptions(&self) -> bool {
        self.words.split_whitespace().any(|word| word.eq_ignore_ascii_case("in:description"))
    }

    /// Returns whether the query is empty.
    pub fn is_plain(&self) -> bool {
        *self == PackageQuery::default()
    }
}

/// Parses the pairs of a query.
pub fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').filter(|pair| !pair.is_empty()).filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((percent::decode_query(key)?, percent::decode_query(value)?))
    })
}

/// Returns the values of a facet that a package has.
pub fn values(row: &Row, facet: &str) -> Vec<String> {
    match facet {
        "category" if row.categories.is_empty() => vec!["Other".to_owned()],
        "category" => row.categories.clone(),
        "provider" => provider(&row.provider).into_iter().collect(),
        "capability" => match row.capability {
            0 => vec!["Unknown".to_owned()],
            level => vec![LEVELS[usize::from(level - 1).min(4)].to_owned()],
        },
        "mode" => row.modes.clone(),
        "feature" => row.features.clone(),
        "arch" => row.arches.clone(),
        "kube" => match row.kube.split('.').take(2).collect::<Vec<_>>().join(".") {
            kube if kube.is_empty() => Vec::new(),
            kube => vec![kube],
        },
        "year" => vec![Day::read(&row.date).map_or("Unknown".to_owned(), |day| day.year().to_string())],
        "state" => {
            let mut states = Vec::new();
            if row.deprecated {
                states.push("Deprecated".to_owned());
            }
            if !row.problems.is_empty() {
                states.push("Has problems".to_owned());
            }
            if row.heads > 1 {
                states.push("Channels differ".to_owned());
            }
            states
        }
        _ => Vec::new(),
    }
}

/// Returns the repository of an image: its name without tag and digest.
pub fn repository(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    match name[last..].find(':') {
        Some(colon) => &name[..last + colon],
        None => name,
    }
}

/// Returns the name of a provider without its legal form.
pub fn provider(name: &str) -> Option<String> {
    let mut name = name.trim();
    loop {
        let before = name;
        name = name.trim_end_matches([',', '.', ' ']);
        for ending in [
            " inc",
            " llc",
            " ltd",
            " gmbh",
            " corporation",
            " corp",
            " co",
            " ag",
            " limited",
            " sas",
            " s.a",
            " bv",
            " b.v",
        ] {
            let cut = name.len().checked_sub(ending.len());
            if let Some(cut) = cut.filter(|cut| name.is_char_boundary(*cut))
                && name[cut..].eq_ignore_ascii_case(ending)
            {
                name = &name[..cut];
            }
        }
        if name == before {
            break;
        }
    }
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns how well a package matches words: lower is better, `None` is no match.
pub(crate) fn score(row: &Row, words: &str, description: &str) -> Option<u32> {
    let mut total = if row.deprecated { 100 } else { 0 };
    let lower = words.to_lowercase();
    for word in lower.split_whitespace() {
        let contains = |list: &[String], part: &str| list.iter().any(|one| one.to_lowercase().contains(part));
        let narrowed = word.split_once(':').and_then(|(key, part)| match key {
            "kind" => Some(contains(&row.kinds, part)),
            "provider" => Some(row.provider.to_lowercase().contains(part)),
            "category" => Some(contains(&row.categories, part)),
            "image" => Some(contains(&row.images, repository(part))),
            "is" => Some(part == "deprecated" && row.deprecated),
            "in" => Some(part == "description"),
            _ => None,
        });
        match narrowed {
            Some(true) => continue,
            Some(false) => return None,
            None => total += score_word(row, word).or_else(|| description.contains(word).then_some(7))?,
        }
    }
    Some(total)
}

fn score_word(row: &Row, word: &str) -> Option<u32> {
    let (name, title) = (row.name.to_lowercase(), row.title.to_lowercase());
    let names = [&name, &title];
    if names.iter().any(|one| *one == word) {
        return Some(0);
    }
    if names.iter().any(|one| one.starts_with(word)) {
        return Some(1);
    }
    let at_word = |text: &str| {
        let mut starts = text.match_indices(word);
        starts.any(|(at, _)| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
    };
    if names.iter().any(|one| at_word(one)) {
        return Some(2);
    }
    if names.iter().any(|one| one.contains(word)) {
        return Some(3);
    }
    if row.keywords.iter().chain(&row.kinds).any(|one| one.to_lowercase().contains(word)) {
        return Some(4);
    }
    if row.provider.to_lowercase().contains(word) {
        return Some(5);
    }
    row.summary.to_lowercase().contains(word).then_some(6)
}

/// The result of a query.
#[derive(Debug, Default)]
pub struct QueryResult {
    /// The indexes of the matching rows, in order.
    pub places: Vec<usize>,
    /// The number of rows per value of each facet, within all other filters.
    pub counts: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// The number of matching rows that are only dependencies of others.
    pub hidden: usize,
}

/// Runs a query.
pub fn find(rows: &[Row], query: &PackageQuery) -> QueryResult {
    find_in(rows, query, &[])
}

/// Runs a query that includes descriptions; they are in lower case, in the order of the rows.
pub fn find_in(rows: &[Row], query: &PackageQuery, descriptions: &[String]) -> QueryResult {
    let mut found = QueryResult::default();
    let mut fitting: Vec<(u32, usize)> = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        let description = descriptions.get(place).map(String::as_str).unwrap_or_default();
        let Some(score) = score(row, &query.words, description) else { continue };
        let misses: Vec<&str> =
            FACETS.iter().map(|(facet, _)| *facet).filter(|facet| !has(row, facet, query)).collect();
        if row.dependency && !query.all {
            found.hidden += usize::from(misses.is_empty());
            continue;
        }
        for (facet, _) in FACETS {
            if misses.iter().all(|missed| *missed == facet) {
                for value in values(row, facet) {
                    *found.counts.entry(facet).or_default().entry(value).or_default() += 1;
                }
            }
        }
        if misses.is_empty() {
            fitting.push((score, place));
        }
    }
    // Leading brackets and quotes of a title do not affect its position.
    let sorted_by = |title: &str| title.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let title = |place: &usize| (sorted_by(rows[*place].title()), &rows[*place].name);
    fitting.sort_by(|(a_score, a), (b_score, b)| {
        let by_title = || title(a).cmp(&title(b));
        match query.sort {
            Sort::Relevance => a_score.cmp(b_score).then_with(by_title),
            Sort::Name => by_title(),
            Sort::Date => Day::read(&rows[*b].date).cmp(&Day::read(&rows[*a].date)).then_with(by_title),
            Sort::Versions => rows[*b].versions.cmp(&rows[*a].versions).then_with(by_title),
        }
    });
    found.places = fitting.into_iter().map(|(_, place)| place).collect();
    found
}

fn has(row: &Row, facet: &str, query: &PackageQuery) -> bool {
    let Some(chosen) = query.chosen.get(facet).filter(|chosen| !chosen.is_empty()) else { return true };
    values(row, facet).iter().any(|value| chosen.contains(value))
}

/// Returns names at an edit distance of one from a word.
pub fn nearest<'a>(names: impl Iterator<Item = &'a str>, word: &str) -> Vec<&'a str> {
    let word = word.trim().to_lowercase();
    let mut near: Vec<(usize, &str)> = names
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let inside = word.len() > 2 && lower.contains(&word);
            let distance = if inside { 1 } else { distance(&lower, &word, 2)? };
            Some((distance, name))
        })
        .collect();
    near.sort();
    near.into_iter().take(5).map(|(_, name)| name).collect()
}

/// Returns the edit distance, up to `most`.
fn distance(a: &str, b: &str, most: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(before + 1);
        }
    }
    row.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, title: &str, provider: &str, keywords: &[&str], summary: &str) -> Row {
        Row {
            name: name.into(),
            title: title.into(),
            provider: provider.into(),
            keywords: keywords.iter().map(|word| (*word).to_owned()).collect(),
            summary: summary.into(),
            ..Row::default()
        }
    }

    /// C-9: the order of results; the script is tested with the same file.
    #[test]
    fn queries_give_the_recorded_order() {
        let shared: serde_json::Value = serde_json::from_str(include_str!("../tests/queries.json")).unwrap();
        let rows: Vec<Row> = serde_json::from_value(shared["rows"].clone()).unwrap();
        for case in shared["queries"].as_array().unwrap() {
            let query = PackageQuery::read(case["query"].as_str().unwrap());
            let names: Vec<&str> = find(&rows, &query).places.iter().map(|place| rows[*place].name.as_str()).collect();
            let expected: Vec<&str> =
                case["order"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
            assert_eq!(names, expected, "{}", case["query"]);
        }
    }

    #[test]
    fn counts_follow_the_other_filters() {
        let mut a = row("a", "", "X Inc.", &[], "");
        a.categories = vec!["Database".into()];
        let mut b = row("b", "", "X, LLC", &[], "");
        b.categories = vec!["Storage".into()];
        let found = find(&[a, b], &PackageQuery::read("category=Database"));
        assert_eq!(found.places, [0]);
        assert_eq!(found.counts["category"], BTreeMap::from([("Database".into(), 1), ("Storage".into(), 1)]));
        assert_eq!(found.counts["provider"], BTreeMap::from([("X".into(), 1)]));
    }

    #[test]
    fn descriptions_are_searched_on_request() {
        let rows = [row("a", "", "", &[], "tree"), row("b", "", "", &[], "")];
        let texts = ["nothing".to_owned(), "grows a tree in the end".to_owned()];
        let query = PackageQuery::read("q=tree+in:description");
        assert!(query.in_descriptions());
        assert_eq!(find_in(&rows, &query, &texts).places, [0, 1]);
        assert_eq!(find(&rows, &PackageQuery::read("q=tree")).places, [0]);
    }

    #[test]
    fn repositories_have_neither_tag_nor_digest() {
        for (image, name) in [
            ("quay.io/x/y:v1@sha256:00", "quay.io/x/y"),
            ("localhost:5000/y", "localhost:5000/y"),
            ("y:latest", "y"),
            ("", ""),
        ] {
            assert_eq!(repository(image), name);
        }
    }

    #[test]
    fn similar_names_are_offered() {
        assert_eq!(nearest(["etcd", "redis", "mysql"].into_iter(), "ectd"), ["etcd"]);
        assert_eq!(nearest(["etcd"].into_iter(), "zzzzzz"), Vec::<&str>::new());
    }
}
