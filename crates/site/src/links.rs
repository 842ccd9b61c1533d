//! Links between pages, always relative: they work below any path, on any host and from a directory.

use std::collections::HashSet;
use std::sync::Arc;

use crate::names;

/// Writes the links of one page.
#[derive(Debug, Clone)]
pub struct Links {
    /// The path of the page.
    here: String,
    /// The path from the page to the root.
    root: String,
    /// Whether pages are files.
    files: bool,
    /// The existing pages of versions and kinds, if an export has only some of them.
    only: Option<Arc<HashSet<String>>>,
}

impl Links {
    /// Returns the links of the page at `path`, relative to the root and without a leading slash.
    pub fn at(path: &str, files: bool) -> Links {
        let depth = path.matches('/').count();
        let root = if depth == 0 { "./".to_owned() } else { "../".repeat(depth) };
        Links { here: path.to_owned(), root, files, only: None }
    }

    /// Returns the shortest relative path to a target.
    fn to(&self, target: &str) -> String {
        let (here, there) = (self.here.as_bytes(), target.as_bytes());
        let same = here.iter().zip(there).take_while(|(a, b)| a == b).count();
        let shared = here[..same].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        format!("{}{}", "../".repeat(self.here[shared..].matches('/').count()), &target[shared..])
    }

    /// Restricts links to these pages of versions and kinds.
    pub fn only(mut self, paths: &Arc<HashSet<String>>) -> Links {
        self.only = Some(Arc::clone(paths));
        self
    }

    fn is_there(&self, path: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(path))
    }

    /// Returns whether pages are files.
    pub(crate) fn are_files(&self) -> bool {
        self.files
    }

    fn page(&self, path: &str) -> String {
        self.to(&format!("{path}{}", if self.files { ".html" } else { "" }))
    }

    /// Returns the link to the list of packages.
    pub fn list(&self) -> String {
        if self.files { self.to("index.html") } else { self.root.clone() }
    }

    /// Returns the link to a page at the root.
    pub fn top(&self, name: &str) -> String {
        self.page(name)
    }

    /// Returns the link to the page of a package.
    pub fn package(&self, package: &str) -> String {
        self.page(&package_path(package))
    }

    /// Returns the link to a page below that of a package: `graph`, `path`, `install`.
    pub fn of_package(&self, package: &str, page: &str) -> String {
        self.page(&format!("{}/{page}", package_path(package)))
    }

    /// Returns the link to the page of a version, if it exists: an export may have pages for heads only.
    pub fn version(&self, package: &str, bundle: &str) -> Option<String> {
        let path = version_path(package, bundle);
        self.is_there(&path).then(|| self.page(&path))
    }

    /// Returns the link to the page of a kind.
    pub fn kind(&self, group: &str, kind: &str) -> String {
        let path = kind_path(group, kind);
        if self.is_there(&path) { self.page(&path) } else { self.top("apis") }
    }

    /// Returns the link to a script, style, icon or data file.
    pub fn part(&self, path: &str) -> String {
        format!("{}-/{path}", self.root)
    }

    /// Returns the link to a file at the root.
    pub fn file(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }

    /// Returns the path from the page to the root.
    pub fn root(&self) -> &str {
        &self.root
    }
}

/// Returns the path of a package's page.
pub(crate) fn package_path(package: &str) -> String {
    format!("p/{}", names::part(package))
}

/// Returns the path of a version's page.
pub(crate) fn version_path(package: &str, bundle: &str) -> String {
    format!("{}/v/{}", package_path(package), names::part(bundle))
}

/// Returns the path of a kind's page.
pub(crate) fn kind_path(group: &str, kind: &str) -> String {
    format!("apis/{}/{}", names::group(group), names::kind(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_to_their_page() {
        let top = Links::at("", false);
        assert_eq!((top.list().as_str(), top.package("etcd").as_str()), ("./", "p/etcd"));
        let deep = Links::at("p/etcd/v/etcd.v1", true);
        assert_eq!(deep.list(), "../../../index.html");
        assert_eq!(deep.version("etcd", "Etcd.v2").as_deref(), Some("~45tcd.v2.html"));
        let only = Arc::new(HashSet::from([version_path("etcd", "etcd.v1")]));
        let heads = Links::at("p/etcd", true).only(&only);
        assert_eq!(heads.version("etcd", "etcd.v1").as_deref(), Some("etcd/v/etcd.v1.html"));
        assert_eq!(heads.version("etcd", "etcd.v0"), None);
        assert_eq!(deep.package("etcd"), "../../etcd.html");
        assert_eq!(deep.of_package("etc", "graph"), "../../etc/graph.html");
        let package = Links::at("p/etcd", false);
        assert_eq!(
            (package.package("etcd").as_str(), package.of_package("etcd", "why").as_str()),
            ("etcd", "etcd/why")
        );
        assert_eq!(deep.part("a/x.css"), "../../../-/a/x.css");
    }
}
