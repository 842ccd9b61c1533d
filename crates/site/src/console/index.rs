//! The index of a catalog: its list, and facts that span all packages.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use resolve::input::CatalogInput;

use super::{Console, ConsoleStore};
use crate::frame::CatalogFacts;
use crate::icon::IconFormat;
use crate::links::kind_path;
use crate::names;
use crate::outline;
use crate::pages::images::{self, ImageUses};
use crate::pages::kinds::{self, ApiRow, ApiRows};
use crate::summary::{self, PackageSummary, Row};

/// How long computed data is cached after its last use.
const CACHE_TIME: Duration = Duration::from_secs(60);

/// The index of a catalog for its pages.
pub struct PageIndex {
    /// The facts that all pages show.
    pub facts: CatalogFacts,
    /// Its packages, by name.
    pub rows: Vec<Row>,
    /// Indexes of packages by their path segment.
    parts: HashMap<String, usize>,
    /// Packages by the digest of their icons.
    icons: HashMap<String, (usize, IconFormat)>,
    /// Reverse dependencies by package, with the requirement.
    needed: HashMap<String, Vec<(String, String)>>,
    survey: OnceLock<Survey>,
    source: Cached<Vec<CatalogInput>>,
    descriptions: Cached<Vec<String>>,
}

/// Facts that span all packages.
#[derive(Default)]
pub struct Survey {
    pub kinds: ApiRows,
    /// Kinds by the paths of their pages.
    paths: BTreeMap<String, (String, String)>,
}

impl Survey {
    fn add(&mut self, package: &PackageSummary) {
        kinds::add(&mut self.kinds, package);
    }

    fn finish(mut self) -> Survey {
        self.paths = self.kinds.keys().map(|key| (kind_path(&key.0, &key.1), key.clone())).collect();
        self
    }

    /// Returns the kinds that both a bundle and the heads of other packages provide, with those packages.
    pub(crate) fn rivals(&self, package: &PackageSummary, bundle: &str) -> Vec<(String, Vec<String>)> {
        let offered = package.bundle(bundle).map(|bundle| bundle.values(fbc::property::GVK)).unwrap_or_default();
        let mut found = BTreeMap::new();
        for value in offered {
            let (group, kind) = (crate::csv::text(&value["group"]), crate::csv::text(&value["kind"]));
            let version = crate::csv::text(&value["version"]);
            let Some(known) = self.kinds.get(&(group.clone(), kind.to_lowercase())) else { continue };
            let heads = known.offered.iter().filter(|(_, versions)| versions.get(&version) == Some(&true));
            let others: Vec<String> =
                heads.map(|(name, _)| name.clone()).filter(|name| *name != package.row.name).collect();
            if !others.is_empty() {
                found.insert(format!("{kind} {group}/{version}"), others);
            }
        }
        found.into_iter().collect()
    }

    /// Returns the kind whose page has this path.
    pub(crate) fn kind_at(&self, path: &str) -> Option<(&(String, String), &ApiRow)> {
        self.kinds.get_key_value(self.paths.get(path)?)
    }
}

impl PageIndex {
    /// Reads the list of a catalog.
    ///
    /// # Errors
    /// Fails when the page data cannot be read.
    pub fn read(console: &Console, store: &dyn ConsoleStore) -> io::Result<PageIndex> {
        let mut rows = Vec::new();
        for name in store.packages() {
            let bytes = store.summary(&name)?;
            let unreadable =
                || io::Error::new(io::ErrorKind::InvalidData, format!("the page data of package {name} is damaged"));
            rows.push(Row::read(&bytes).ok_or_else(unreadable)?);
        }
        let parts = rows.iter().enumerate().map(|(place, row)| (names::part(&row.name), place)).collect();
        let icons = rows
            .iter()
            .enumerate()
            .filter_map(|(place, row)| row.icon.as_ref().map(|icon| (icon.digest.clone(), (place, icon.format))))
            .collect();
        let mut needed: HashMap<String, Vec<(String, String)>> = HashMap::new();
        for row in &mut rows {
            for (name, words) in std::mem::take(&mut row.needs) {
                needed.entry(name).or_default().push((row.name.clone(), words));
            }
        }
        let facts = CatalogFacts {
            catalog: console.name.clone(),
            revision: store.revision(),
            packages: rows.len(),
            channels: rows.iter().map(|row| row.channels as usize).sum(),
            bundles: rows.iter().map(|row| row.versions as usize).sum(),
            problems: rows.iter().map(|row| row.problems.len()).sum(),
            image: console.image.clone(),
            changes: false,
        };
        Ok(PageIndex {
            facts,
            rows,
            parts,
            icons,
            needed,
            survey: OnceLock::new(),
            source: Cached::default(),
            descriptions: Cached::default(),
        })
    }

    /// Returns a package by its path segment.
    pub(crate) fn row_at(&self, part: &str) -> Option<&Row> {
        self.rows.get(*self.parts.get(part)?)
    }

    /// Returns the packages that require a package, with the requirement.
    pub(crate) fn needed_by(&self, name: &str) -> Vec<(String, String)> {
        self.needed.get(name).cloned().unwrap_or_default()
    }

    /// Returns the package with an icon.
    pub fn icon(&self, digest: &str) -> Option<(&Row, IconFormat)> {
        let (place, format) = self.icons.get(digest)?;
        Some((self.rows.get(*place)?, *format))
    }

    /// Reads a package.
    pub fn package(&self, store: &dyn ConsoleStore, name: &str) -> io::Result<PackageSummary> {
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, format!("the page data of package {name} is damaged"));
        PackageSummary::read(&store.summary(name)?).ok_or_else(damaged)
    }

    fn each(&self, store: &dyn ConsoleStore, mut work: impl FnMut(&PackageSummary)) {
        for row in &self.rows {
            if let Ok(package) = self.package(store, &row.name) {
                work(&package);
            }
        }
    }

    /// Reads all packages on first use.
    pub fn survey(&self, store: &dyn ConsoleStore) -> &Survey {
        self.survey.get_or_init(|| {
            let mut survey = Survey::default();
            self.each(store, |package| survey.add(package));
            survey.finish()
        })
    }

    /// Reads every package once, for everything that an export needs of all of them.
    pub(crate) fn gather(
        &self,
        store: &dyn ConsoleStore,
        mut look: impl FnMut(&PackageSummary),
    ) -> (ImageUses, Vec<CatalogInput>) {
        let (mut survey, mut all, mut source) = (Survey::default(), ImageUses::new(), self.empty_source());
        self.each(store, |package| {
            look(package);
            survey.add(package);
            images::add(&mut all, package);
            outline::add_to_source(package, &mut source);
        });
        let _ = self.survey.set(survey.finish());
        (all, vec![source])
    }

    fn empty_source(&self) -> CatalogInput {
        CatalogInput { name: self.facts.catalog.clone(), namespace: "olm".to_owned(), ..CatalogInput::default() }
    }

    /// Collects the images of all packages.
    pub fn images(&self, store: &dyn ConsoleStore) -> ImageUses {
        let mut all = ImageUses::new();
        self.each(store, |package| images::add(&mut all, package));
        all
    }

    /// Returns the descriptions of all packages in lower case, in the order of the list.
    pub(crate) fn descriptions(&self, store: &dyn ConsoleStore) -> Arc<Vec<String>> {
        self.descriptions.get(|| {
            let read = |row: &Row| self.package(store, &row.name).map(|package| package.detail);
            let text =
                |detail: summary::Detail| format!("{}\n{}", detail.description, detail.head.description).to_lowercase();
            self.rows.iter().map(|row| read(row).map(text).unwrap_or_default()).collect()
        })
    }

    /// Returns the catalog as input of a resolution.
    pub fn source(&self, store: &dyn ConsoleStore) -> Arc<Vec<CatalogInput>> {
        self.source.get(|| {
            let mut source = self.empty_source();
            self.each(store, |package| outline::add_to_source(package, &mut source));
            vec![source]
        })
    }

    /// Drops data that was not used for a while, and returns whether there was any.
    pub fn tidy(&self) -> bool {
        self.source.tidy(CACHE_TIME) | self.descriptions.tidy(CACHE_TIME)
    }
}

/// A value that is computed on demand and cached for a while after its last use.
struct Cached<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Cached<T> {
    fn default() -> Cached<T> {
        Cached(Mutex::new(None))
    }
}

impl<T> Cached<T> {
    fn get(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (used, value) = cached.get_or_insert_with(|| (Instant::now(), Arc::new(make())));
        *used = Instant::now();
        Arc::clone(value)
    }

    fn tidy(&self, after: Duration) -> bool {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.take_if(|(used, _)| used.elapsed() >= after).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::{ConsoleRequest, ServerStatus};

    /// A catalog that records which packages are read.
    struct Recording(Vec<PackageSummary>, Mutex<Vec<String>>);

    impl ConsoleStore for Recording {
        fn revision(&self) -> String {
            "1".to_owned()
        }
        fn packages(&self) -> Vec<String> {
            self.0.iter().map(|package| package.row.name.clone()).collect()
        }
        fn summary(&self, package: &str) -> io::Result<Vec<u8>> {
            self.1.lock().unwrap().push(package.to_owned());
            Ok(self.0.iter().find(|one| one.row.name == package).unwrap().write())
        }
        fn icon(&self, _: &str) -> io::Result<Vec<u8>> {
            Ok(Vec::new())
        }
        fn bundle(&self, _: &str, _: &str) -> io::Result<String> {
            Err(io::Error::other("none"))
        }
    }

    #[test]
    fn cached_data_is_dropped_some_time_after_its_last_use() {
        let cached = Cached::default();
        assert!(!cached.tidy(Duration::ZERO), "the cache is empty");
        let value = cached.get(|| 1);
        assert!(!cached.tidy(CACHE_TIME) && Arc::strong_count(&value) == 2);
        assert!(cached.tidy(Duration::ZERO) && Arc::strong_count(&value) == 1);
        assert!(!cached.tidy(Duration::ZERO));
        assert_eq!(*cached.get(|| 2), 2);
    }

    /// The first page of a package is available as soon as the list is.
    #[test]
    fn the_page_of_a_package_reads_no_other() {
        let package = |name: &str, needs: &[(&str, &str)]| {
            let mut package = PackageSummary::default();
            package.row.name = name.to_owned();
            package.row.needs = needs.iter().map(|(name, how)| ((*name).to_owned(), (*how).to_owned())).collect();
            package
        };
        let packages = vec![package("beacon", &[("lantern", "package lantern >=1.0.0")]), package("lantern", &[])];
        let store = Recording(packages, Mutex::default());
        let console = Console::new("test", "", false);
        console.index(&store).unwrap();
        store.1.lock().unwrap().clear();
        let request = ConsoleRequest { path: "p/lantern", query: "", html: true };
        let answer = console.answer(&request, Some(&store), &ServerStatus::default()).unwrap();
        let page = String::from_utf8(answer.body).unwrap();
        assert!(page.contains("Needed by") && page.contains("package lantern &gt;=1.0.0"), "{page}");
        assert_eq!(*store.1.lock().unwrap(), ["lantern"]);
    }
}
