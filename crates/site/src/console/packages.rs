//! Pages of packages and versions.

use std::io;

use fbc::spelling::percent;
use resolve::upgrade_path::Crds;

use super::{ConsoleReply, Handler};
use crate::frame::frame;
use crate::manifest::VersionManifest;
use crate::names;
use crate::pages::package::Neighbours;
use crate::pages::{compare, graph, install, package, path, version, why, wrong};
use crate::summary::{PackageSummary, VersionSummary};

impl Handler<'_> {
    /// Finds the package of a path segment, or returns the answer for an unknown one.
    fn find(&self, part: &str) -> Result<PackageSummary, Option<ConsoleReply>> {
        let stem = part.strip_suffix(".html").unwrap_or(part);
        let row = self.index.row_at(part).or_else(|| self.index.row_at(stem));
        if let Some(row) = row {
            return self.index.package(self.store, &row.name).map_err(|error| {
                let page = wrong::invalid(&self.context, &format!("The package cannot be read: {error}"));
                Some(ConsoleReply::page(500, frame(&self.context, &page)))
            });
        }
        let decoded = percent::decode(stem).unwrap_or_default();
        if let Some(row) = self.index.rows.iter().find(|row| row.name == decoded) {
            let rest = self.request.path.splitn(3, '/').nth(2).map(|rest| format!("/{rest}")).unwrap_or_default();
            let query = if self.request.query.is_empty() { String::new() } else { format!("?{}", self.request.query) };
            return Err(Some(ConsoleReply::moved(format!("{}{rest}{query}", self.context.links.package(&row.name)))));
        }
        if let Some(one) = self.state.left_out.iter().find(|one| one.package == decoded) {
            let page = wrong::left_out(&self.context, &one.package, &one.reason);
            return Err(Some(ConsoleReply::page(404, frame(&self.context, &page))));
        }
        Err(self.unknown(&format!("There is no package {decoded:?} in this catalog.")))
    }

    pub(super) fn package(&self, part: &str) -> Option<ConsoleReply> {
        let package = match self.find(part) {
            Ok(package) => package,
            Err(answer) => return answer,
        };
        let needed_by = self.index.needed_by(&package.row.name);
        Some(self.shown(&package::page(&self.context, &package, &Neighbours { needed_by })))
    }

    /// Reads the blob of a bundle.
    pub(super) fn manifest(&self, package: &PackageSummary, bundle: &VersionSummary) -> io::Result<VersionManifest> {
        let blob = self.store.bundle(&package.row.name, &bundle.name)?;
        VersionManifest::read(&blob)
    }

    pub(super) fn version(&self, part: &str, bundle_part: &str) -> Option<ConsoleReply> {
        let package = match self.find(part) {
            Ok(package) => package,
            Err(answer) => return answer,
        };
        let stem = bundle_part.strip_suffix(".html").unwrap_or(bundle_part);
        let bundles = &package.detail.bundles;
        let found = bundles.iter().find(|bundle| names::part(&bundle.name) == bundle_part);
        let Some(bundle) = found.or_else(|| bundles.iter().find(|bundle| names::part(&bundle.name) == stem)) else {
            return self.other_version(&package, &percent::decode(stem).unwrap_or_default());
        };
        let manifest = self.manifest(&package, bundle);
        let before =
            package.before(&bundle.name).and_then(|before| Some((before, self.manifest(&package, before).ok()?)));
        let before = before.as_ref().map(|(bundle, manifest)| (*bundle, manifest));
        let blob = match &manifest {
            Ok(manifest) => version::BundleText::Read(manifest),
            Err(reason) => version::BundleText::Unread(reason.to_string()),
        };
        Some(self.shown(&version::page(&self.context, &package, bundle, &blob, before, None)))
    }

    /// Redirects a version number to the page of its bundle; suggests the newest otherwise.
    fn other_version(&self, package: &PackageSummary, name: &str) -> Option<ConsoleReply> {
        if let Some(found) = path::find(package, name) {
            return Some(ConsoleReply::moved(self.context.links.version(&package.row.name, &found)?));
        }
        if !self.request.html {
            return None;
        }
        let (links, row) = (&self.context.links, &package.row);
        let near = [
            (format!("{} {}, the newest", row.title(), row.version), links.version(&row.name, &row.head)?),
            (
                format!("The upgrade path from {name}"),
                format!("{}?from={}", links.of_package(&row.name, "path"), percent::encode(name)),
            ),
        ];
        let what = format!("Package {} has no version {name:?}; the catalog may have removed it.", row.name);
        Some(ConsoleReply::page(404, frame(&self.context, &wrong::unknown(&self.context, &what, &near))))
    }

    pub(super) fn of_package(&self, part: &str, page: &str) -> Option<ConsoleReply> {
        let package = match self.find(part) {
            Ok(package) => package,
            Err(answer) => return answer,
        };
        let page = page.strip_suffix(".html").unwrap_or(page);
        let context = &self.context;
        Some(match page {
            "graph" => {
                let v0 = self.parameter("olm").is_none_or(|olm| olm != "v1");
                self.shown(&graph::page(context, &package, v0, self.parameter("channel").as_deref()))
            }
            "path" => {
                let parameters = path::PathParameters::read(self.request.query);
                let answer = (!parameters.from.is_empty()).then(|| {
                    let objects = |name: &str| self.manifest(&package, package.bundle(name)?).ok();
                    let crds = |old: &str, new: &str| {
                        let (old, new) = (objects(old)?, objects(new)?);
                        let known = old.whole_csv().is_some() && new.whole_csv().is_some();
                        known.then(|| bundle::review::crd::refusals(old.objects.values(), new.objects.values()))
                    };
                    let crds = |old: &str, new: &str| Crds::from(crds(old, new));
                    let answer = path::answer(&self.index.source(self.store), &package, &parameters, &crds);
                    answer.map(|answer| self.with_permissions(&package, answer))
                });
                let status = if matches!(answer, Some(Err(_))) { 400 } else { 200 };
                ConsoleReply::page(
                    status,
                    frame(context, &path::page(context, &package, &parameters, answer.as_ref(), &[])),
                )
            }
            "why" => {
                let parameters = why::WhyParameters::read(self.request.query);
                let source = self.index.source(self.store);
                let answer = why::Explainer::new(&source).answer(&package.row.name, &parameters);
                let status = if answer.is_err() { 400 } else { 200 };
                ConsoleReply::page(status, frame(context, &why::page(context, &package, &parameters, &answer)))
            }
            "install" => {
                let parameters = install::InstallParameters::read(self.request.query);
                let (channel, bundle) = parameters.settle(&package);
                let source = self.index.source(self.store);
                let blocked = why::Explainer::new(&source).blocked(&package.row.name, channel, &bundle);
                let rivals = self.index.survey(self.store).rivals(&package, &bundle);
                self.shown(&install::page(context, &package, &parameters, &install::Risks { blocked, rivals }))
            }
            "compare" => self.compare(&package),
            _ => return self.unknown("Packages have no such page."),
        })
    }

    /// Adds the permissions that the end of a path has and its start lacks.
    fn with_permissions(&self, package: &PackageSummary, mut answer: path::PathAnswer) -> path::PathAnswer {
        let read = |name: &str| {
            let bundle = package.bundle(name)?;
            Some((bundle, self.manifest(package, bundle).ok()?))
        };
        let last = answer.path.steps.last().and_then(|step| read(&step.name));
        if let (Some((from, old)), Some((to, new))) = (read(&answer.path.from), last) {
            answer.gained = compare::gained((package, from, &old), (package, to, &new));
        }
        answer
    }

    /// Returns the two versions in the query, the older one first.
    pub(super) fn pair<'p>(&self, package: &'p PackageSummary) -> Option<(&'p VersionSummary, &'p VersionSummary)> {
        let named = |name: &str| self.parameter(name).and_then(|text| path::find(package, &text));
        let bundles = &package.detail.bundles;
        let place = |name: &str| bundles.iter().position(|bundle| bundle.name == name);
        let to = named("to").as_deref().and_then(place).or_else(|| place(&package.row.head)).unwrap_or_default();
        let from = named("from").as_deref().and_then(place).unwrap_or((to + 1).min(bundles.len().saturating_sub(1)));
        Some((bundles.get(to.max(from))?, bundles.get(to.min(from))?))
    }

    fn compare(&self, package: &PackageSummary) -> ConsoleReply {
        let Some((older, newer)) = self.pair(package) else {
            let page = wrong::invalid(&self.context, "The package has no versions.");
            return ConsoleReply::page(404, frame(&self.context, &page));
        };
        match (self.manifest(package, older), self.manifest(package, newer)) {
            (Ok(old), Ok(new)) => {
                let back = self.parameter("swap").is_some_and(|swap| swap == "1");
                self.shown(&compare::page(&self.context, package, (older, &old), (newer, &new), back))
            }
            (Err(reason), _) | (_, Err(reason)) => {
                let page = wrong::invalid(&self.context, &format!("The versions cannot be read: {reason}"));
                ConsoleReply::page(503, frame(&self.context, &page))
            }
        }
    }
}
