//! All pages as files.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use resolve::pool::Pool;

use crate::assets::ASSETS;
use crate::console::{Console, ConsoleStore, PageIndex, changes_data};
use crate::frame::{CatalogFacts, Page, PageContext, frame};
use crate::links::{Links, kind_path, package_path, version_path};
use crate::manifest::VersionManifest;
use crate::pages::changes::ComparedCatalog;
use crate::pages::images::ImageUses;
use crate::pages::package::Neighbours;
use crate::pages::problems::UnservedPackage;
use crate::pages::{about, changes, graph, images, install, kinds, list, package, path, problems, version, why, wrong};
use crate::rank::PackageQuery;
use crate::slim::slim;
use crate::summary::{PackageSummary, Row, VersionSummary};
use crate::text::{escaped, script_json};

/// Which versions get a page of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportedVersions {
    /// All of them.
    All,
    /// The heads of channels.
    Heads,
    /// The newest of each package, and the heads of channels.
    Newest(usize),
}

/// Returns the site map of the pages among these files, published below a URL.
pub fn sitemap<'a>(base: &str, files: impl IntoIterator<Item = &'a String>) -> String {
    let base = escaped(base.trim_end_matches('/'));
    let pages = files.into_iter().filter(|path| path.ends_with(".html"));
    let pages: String = pages.map(|page| format!("<url><loc>{base}/{page}</loc></url>\n")).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n{pages}</urlset>\n"
    )
}

impl ExportedVersions {
    /// Returns the bundles of a package that get a page.
    fn of(self, package: &PackageSummary) -> Vec<&VersionSummary> {
        let is_head =
            |bundle: &VersionSummary| package.detail.channels.iter().any(|channel| channel.head == bundle.name);
        let newest = match self {
            ExportedVersions::All => usize::MAX,
            ExportedVersions::Heads => 0,
            ExportedVersions::Newest(number) => number,
        };
        let bundles = package.detail.bundles.iter().enumerate();
        bundles.filter(|(place, bundle)| *place < newest || is_head(bundle)).map(|(_, bundle)| bundle).collect()
    }
}

/// Takes files: path and bytes.
pub trait Sink {
    /// Takes one.
    ///
    /// # Errors
    /// Fails when it cannot be kept.
    fn put(&mut self, path: &str, bytes: &[u8]) -> io::Result<()>;
}

/// An export of one catalog.
pub struct Export<'a> {
    store: &'a dyn ConsoleStore,
    index: Arc<PageIndex>,
    versions: ExportedVersions,
    facts: CatalogFacts,
    /// Pages of versions and kinds that there are.
    only: Arc<HashSet<String>>,
    images: ImageUses,
    /// Why clusters choose each package, in the order of the list.
    why: Vec<Result<why::WhyAnswer, why::AnswerError>>,
    /// The upgrades from every version of each package, in the same order.
    paths: Vec<Vec<path::ChannelPaths>>,
    /// Why packages cannot be installed, of those that cannot.
    blocked: HashMap<String, Vec<String>>,
    left_out: &'a [UnservedPackage],
    /// The catalog beside the one before it.
    compared: &'a [ComparedCatalog],
}

impl<'a> Export<'a> {
    /// Looks at everything that is to be written.
    ///
    /// # Errors
    /// Fails when the summary cannot be read.
    pub fn new(
        console: &Console,
        store: &'a dyn ConsoleStore,
        versions: ExportedVersions,
        left_out: &'a [UnservedPackage],
        compared: &'a [ComparedCatalog],
    ) -> io::Result<Export<'a>> {
        let index = console.index(store)?;
        let mut only = HashSet::new();
        let mut wanted = Vec::new();
        let (images, source) = index.gather(store, |package| {
            let name = &package.row.name;
            let (channel, bundle) = install::InstallParameters::default().settle(package);
            wanted.push((name.clone(), channel.to_owned(), bundle));
            only.extend(versions.of(package).into_iter().map(|bundle| version_path(name, &bundle.name)));
        });
        only.extend(index.survey(store).kinds.keys().map(|(group, kind)| kind_path(group, kind)));
        // What clusters see is given back before pages are made.
        let (why, paths, blocked) = {
            let pool = Pool::new(&source, "operators");
            let of_package = |row: &Row| Ok(path::all(&pool, &index.package(store, &row.name)?));
            let paths = index.rows.iter().map(of_package).collect::<io::Result<Vec<_>>>()?;
            let (explainer, parameters) = (why::Explainer::new(&source), why::WhyParameters::default());
            let answers = index.rows.iter().map(|row| explainer.answer(&row.name, &parameters)).collect();
            let blocked = wanted.into_iter().map(|(name, channel, bundle)| {
                let reasons = explainer.blocked(&name, &channel, &bundle);
                (name, reasons)
            });
            (answers, paths, blocked.filter(|(_, reasons)| !reasons.is_empty()).collect())
        };
        drop(source);
        let facts = CatalogFacts { changes: !compared.is_empty(), ..index.facts.clone() };
        Ok(Export {
            store,
            index,
            versions,
            only: Arc::new(only),
            why,
            paths,
            blocked,
            images,
            left_out,
            compared,
            facts,
        })
    }

    /// Returns how many packages there are.
    pub fn packages(&self) -> usize {
        self.index.rows.len()
    }

    /// Returns the digest of the catalog.
    pub fn revision(&self) -> &str {
        &self.index.facts.revision
    }

    fn page(&self, path: &str, make: impl FnOnce(&PageContext<'_>) -> Page, sink: &mut dyn Sink) -> io::Result<()> {
        let links = Links::at(path, true).only(&self.only);
        let context = PageContext { facts: &self.facts, links, notices: &[], preview: false };
        let html = frame(&context, &make(&context));
        sink.put(&format!("{path}.html"), slim(&html).as_bytes())
    }

    /// Writes what stands at the top.
    ///
    /// # Errors
    /// Fails when a file cannot be written.
    pub fn top(&self, sink: &mut dyn Sink) -> io::Result<()> {
        let (index, store) = (&self.index, self.store);
        for asset in ASSETS.iter() {
            sink.put(&format!("-/a/{}", asset.name), asset.text.as_bytes())?;
        }
        self.page("index", |context| list::page(context, &index.rows, &PackageQuery::default(), &[], 0), sink)?;
        let data = script_json(&list::index(&index.rows, &self.facts));
        sink.put("-/d/index.json", data.as_bytes())?;
        sink.put("-/d/index.js", format!("window.opmIndex = {data};\n").as_bytes())?;
        let survey = index.survey(store);
        self.page("apis", |context| kinds::all(context, &survey.kinds, ""), sink)?;
        let mut written = HashSet::new();
        for ((group, kind), found) in &survey.kinds {
            let path = kind_path(group, kind);
            if written.insert(path.clone()) {
                self.page(&path, |context| kinds::one(context, group, found), sink)?;
            }
        }
        let all = &self.images;
        self.page("images", |context| images::page(context, all, &images::ImagesParameters::default()), sink)?;
        sink.put("images.txt", images::text(all).as_bytes())?;
        sink.put("images.csv", images::csv(all).as_bytes())?;
        self.page("problems", |context| problems::page(context, &index.rows, self.left_out, None, None), sink)?;
        if !self.compared.is_empty() {
            self.page("changes", |context| changes::page(context, self.compared, &[], None), sink)?;
            let data = script_json(&changes_data(self.compared));
            sink.put("-/d/changes.json", data.as_bytes())?;
        }
        self.page("about", about::page, sink)?;
        self.page("404", |context| wrong::unknown(context, "There is no such page in this export.", &[]), sink)?;
        sink.put("robots.txt", b"User-agent: *\nAllow: /\n")
    }

    /// Writes the pages of one package.
    ///
    /// # Errors
    /// Fails when a file cannot be written, or the package not be read.
    pub fn package(&self, place: usize, sink: &mut dyn Sink) -> io::Result<()> {
        let Some(row) = self.index.rows.get(place) else { return Ok(()) };
        let package = self.index.package(self.store, &row.name)?;
        let start = package_path(&row.name);
        if let Some(icon) = &row.icon {
            sink.put(&format!("-/i/{}.{}", icon.digest, icon.format.extension()), &self.store.icon(&row.name)?)?;
        }
        let needed_by = self.index.needed_by(&row.name);
        self.page(&start, |context| package::page(context, &package, &Neighbours { needed_by }), sink)?;
        self.page(&format!("{start}/graph"), |context| graph::page(context, &package, true, None), sink)?;
        let (parameters, onward) = (path::PathParameters::default(), self.paths[place].as_slice());
        self.page(&format!("{start}/path"), |context| path::page(context, &package, &parameters, None, onward), sink)?;
        if let Some(answer) = self.why.get(place) {
            let parameters = why::WhyParameters::default();
            self.page(&format!("{start}/why"), |context| why::page(context, &package, &parameters, answer), sink)?;
        }
        let parameters = install::InstallParameters::default();
        let risks = install::Risks {
            blocked: self.blocked.get(&row.name).cloned().unwrap_or_default(),
            rivals: self.index.survey(self.store).rivals(&package, &parameters.settle(&package).1),
        };
        self.page(&format!("{start}/install"), |context| install::page(context, &package, &parameters, &risks), sink)?;
        sink.put(&format!("-/d/{start}.json"), script_json(&crate::console::package_data(&package)).as_bytes())?;
        self.version_pages(&package, sink)
    }

    fn version_pages(&self, package: &PackageSummary, sink: &mut dyn Sink) -> io::Result<()> {
        let read = |bundle: &VersionSummary| {
            let blob = self.store.bundle(&package.row.name, &bundle.name)?;
            VersionManifest::read(&blob)
        };
        let shared = version::SharedSections::default();
        // Newest first, so that what is read as "before" is the next one's own.
        let mut kept: Option<(String, io::Result<VersionManifest>)> = None;
        for bundle in self.versions.of(package) {
            let own = match kept.take() {
                Some((name, manifest)) if name == bundle.name => manifest,
                _ => read(bundle),
            };
            let before = package.before(&bundle.name).map(|before| (before, read(before)));
            let blob = match &own {
                Ok(manifest) => version::BundleText::Read(manifest),
                Err(reason) => version::BundleText::Unread(reason.to_string()),
            };
            let older = before.as_ref().and_then(|(bundle, manifest)| Some((*bundle, manifest.as_ref().ok()?)));
            let path = version_path(&package.row.name, &bundle.name);
            self.page(&path, |context| version::page(context, package, bundle, &blob, older, Some(&shared)), sink)?;
            kept = before.map(|(before, manifest)| (before.name.clone(), manifest));
        }
        Ok(())
    }
}
