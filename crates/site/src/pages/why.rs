//! Explains why clusters choose a package or a version, or not, and simulates a namespace.

use std::collections::HashMap;

use maud::{Markup, html};
use resolve::RequestError;
use resolve::input::{CatalogInput, ClusterNamespace};
use resolve::plan::{self, NamespacePlan, PlanConflict};
use resolve::pool::Pool;
use resolve::request::{self, InstallRequest};
use resolve::requirers::Requirers;
use resolve::why::{self, ReasonPart};

use super::{crumbs, hero, tabs};
use crate::frame::{ConsoleSection, Page, PageContext, block};
use crate::summary::PackageSummary;
use crate::text::t;

/// The maximum number of installed bundles.
const INSTALLED: usize = 50;

/// The parameters of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WhyParameters {
    /// Version or bundle; the package itself if empty.
    pub version: String,
    /// The channel; any if empty.
    pub channel: String,
    /// The installed bundles, or packages with versions.
    pub installed: String,
}

impl WhyParameters {
    /// Parses the query of a URL.
    pub fn read(query: &str) -> WhyParameters {
        let mut parameters = WhyParameters::default();
        for (key, value) in crate::rank::pairs(query) {
            match key.as_str() {
                "version" => parameters.version = value.trim().to_owned(),
                "channel" => parameters.channel = value,
                "installed" => parameters.installed = value.trim().to_owned(),
                _ => {}
            }
        }
        parameters
    }

    fn installed(&self) -> impl Iterator<Item = &str> {
        self.installed.split([' ', ',', '\n', '\r', '\t']).filter(|word| !word.is_empty())
    }

    fn request(&self, package: &str) -> InstallRequest {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut text = package.to_owned();
        if !self.channel.is_empty() {
            text += &format!("@{}", self.channel);
        }
        if !self.version.is_empty() {
            text += &format!("={}", self.version);
        }
        InstallRequest {
            text,
            package: package.to_owned(),
            channel: given(&self.channel),
            version: given(&self.version),
        }
    }
}

/// The answer.
#[derive(Debug, Clone, Default)]
pub struct WhyAnswer {
    /// The answer of `opm why`.
    pub parts: Vec<ReasonPart>,
    /// The answer of `opm resolve`, if a namespace is simulated.
    pub plan: Option<NamespacePlan>,
    /// The bundles in the answer, with their packages.
    named: HashMap<String, String>,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// It names something that does not exist.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The text for an installed bundle is not a request.
    #[error("{bundle}: {source}")]
    Installed {
        /// The text.
        bundle: String,
        /// Why.
        source: RequestError,
    },
    /// There are this many installed bundles.
    #[error("{0} bundles are too many: at most {INSTALLED} are supported here")]
    TooMany(usize),
}

/// Answers requests from a catalog.
pub struct Explainer<'a> {
    pool: Pool<'a>,
    requirers: Requirers<'a>,
    /// The packages of all bundles, by name.
    packages: HashMap<&'a str, &'a str>,
}

impl<'a> Explainer<'a> {
    /// Prepares for any number of requests.
    pub fn new(source: &'a [CatalogInput]) -> Explainer<'a> {
        let pool = Pool::new(source, "operators");
        let bundles = source.iter().flat_map(|source| &source.bundles);
        let packages = bundles.map(|bundle| (bundle.name.as_str(), bundle.package.as_str())).collect();
        Explainer { requirers: Requirers::of(&pool), pool, packages }
    }

    /// Answers one request.
    ///
    /// # Errors
    /// Fails when the request is invalid.
    pub fn answer(&self, package: &str, parameters: &WhyParameters) -> Result<WhyAnswer, AnswerError> {
        let pool = &self.pool;
        pool.reset_work();
        let parts = why::why(pool, &self.requirers, &parameters.request(package).resolve(pool))?;
        let plan = (!parameters.installed.is_empty() || !parameters.version.is_empty())
            .then(|| plan(pool, package, parameters));
        let mut answer = WhyAnswer { parts, plan: plan.transpose()?, named: HashMap::new() };
        let lines = answer.lines();
        let named = lines
            .iter()
            .flat_map(|line| words(line))
            .map(|(word, _)| word)
            .filter_map(|word| self.packages.get_key_value(word));
        answer.named = named.map(|(name, package)| ((*name).to_owned(), (*package).to_owned())).collect();
        Ok(answer)
    }
}

impl Explainer<'_> {
    /// Explains why a version cannot be installed in an empty namespace, in the words of `opm resolve`; empty if it
    /// can.
    pub fn blocked(&self, package: &str, channel: &str, bundle: &str) -> Vec<String> {
        self.pool.reset_work();
        let parameters =
            WhyParameters { channel: channel.to_owned(), version: bundle.to_owned(), installed: String::new() };
        match plan(&self.pool, package, &parameters) {
            Ok(NamespacePlan::Resolved(_)) => Vec::new(),
            Ok(NamespacePlan::Conflict(conflict)) => lines_of(&conflict),
            Err(error) => vec![error.to_string()],
        }
    }
}

/// Computes what a cluster does when the version is requested beside the installed bundles.
fn plan(pool: &Pool<'_>, package: &str, parameters: &WhyParameters) -> Result<NamespacePlan, AnswerError> {
    let mut state = ClusterNamespace::default();
    let given: Vec<&str> = parameters.installed().collect();
    if given.len() > INSTALLED {
        return Err(AnswerError::TooMany(given.len()));
    }
    for word in given {
        let wanted =
            request::parse(word).map_err(|source| AnswerError::Installed { bundle: word.to_owned(), source })?;
        request::add_installed(&wanted, pool, &mut state)?;
    }
    let wanted = parameters.request(package);
    let subscribed = state.subscriptions.iter().any(|one| one.package == package);
    // Installed packages are upgraded; a version can be requested only for a package that is not installed.
    if !(subscribed && wanted.version.is_none() && wanted.channel.is_none()) {
        request::subscribe(&wanted, pool, &mut state)?;
    }
    Ok(plan::namespace(pool, &state))
}

/// Returns the explanation of a conflict, and the message of the cluster.
fn lines_of(conflict: &PlanConflict) -> Vec<String> {
    conflict.explanation.iter().cloned().chain([conflict.refusal.said()]).collect()
}

impl WhyAnswer {
    fn lines(&self) -> Vec<String> {
        let parts = self.parts.iter().flat_map(|part| std::iter::once(&part.heading).chain(&part.lines)).cloned();
        let steps = self.plan.iter().flat_map(|plan| match plan {
            NamespacePlan::Resolved(changes) => {
                let lines = changes.bundles.iter().flat_map(|step| std::iter::once(&step.name).chain(step.lines()));
                lines.cloned().collect()
            }
            NamespacePlan::Conflict(conflict) => lines_of(conflict),
        });
        parts.chain(steps).collect()
    }

    /// Shows a line, with links to the bundles it names.
    fn line(&self, context: &PageContext<'_>, line: &str) -> Markup {
        html! {
            @for (word, rest) in words(line) {
                @match self.named.get(word) {
                    Some(package) => a href=[context.links.version(package, word)] { (t(word)) },
                    None => (t(word)),
                }
                (t(rest))
            }
        }
    }
}

/// Splits a line into words, each with the separator behind it.
fn words(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let between = |c: char| c.is_whitespace() || ",;:()".contains(c);
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(between).unwrap_or(rest.len());
        let next = rest[end..].find(|c| !between(c)).map_or(rest.len(), |at| end + at);
        let found = (&rest[..end], &rest[end..next]);
        rest = &rest[next..];
        Some(found)
    })
}

/// Renders the page.
pub fn page(
    context: &PageContext<'_>,
    package: &PackageSummary,
    parameters: &WhyParameters,
    answer: &Result<WhyAnswer, AnswerError>,
) -> Page {
    let name = &package.row.name;
    let files = context.links.are_files();
    let body = html! {
        (hero(context, package, &format!("Why {}", package.title())))
        (tabs(context, package, "why"))
        @if files { p.soft.still { "To query versions, channels and namespaces, use a server, or run " code { "opm why" } " and " code { "opm resolve" } "." } }
        @else { (form(context, package, parameters)) }
        @match answer {
            Err(reason) => div.note.bad role="alert" { p { (t(&reason.to_string())) } },
            Ok(answer) => {
                @if let Some(plan) = &answer.plan { (namespace(context, answer, plan)) }
                @for part in &answer.parts {
                    section.section.why data-about=(part.key) {
                        @let first = part.heading.split(' ').next().unwrap_or_default().trim_end_matches(':');
                        h2.cap[first != name.as_str() && !answer.named.contains_key(first)] { (answer.line(context, part.heading.trim_end_matches(':'))) }
                        @if !part.lines.is_empty() { ul { @for line in &part.lines { li { (answer.line(context, line.trim())) } } } }
                    }
                }
                (block("The same in a shell", &commands(name, parameters)))
            },
        }
    };
    Page {
        title: format!("Why {}", package.title()),
        section: ConsoleSection::Packages,
        crumbs: crumbs(context, package, &[("Why", None)]),
        body,
        name: "why",
    }
}

fn commands(package: &str, parameters: &WhyParameters) -> String {
    let wanted = parameters.request(package).text;
    let mut lines = format!("opm why CATALOG {}", fbc::spelling::shell::quoted(&wanted));
    if !parameters.installed.is_empty() || !parameters.version.is_empty() {
        lines += &format!("\nopm resolve CATALOG --install {}", fbc::spelling::shell::quoted(&wanted));
        for word in parameters.installed().take(INSTALLED) {
            lines += &format!(" --installed {}", fbc::spelling::shell::quoted(word));
        }
    }
    lines
}

fn form(context: &PageContext<'_>, package: &PackageSummary, parameters: &WhyParameters) -> Markup {
    let detail = &package.detail;
    html! {
        form.form.live action=(context.links.of_package(&package.row.name, "why")) method="get" {
            label { "Version" input.field name="version" list="all" autocomplete="off" maxlength="200" value=(t(&parameters.version)) placeholder="any"; }
            label { "Channel"
                select.field name="channel" {
                    option value="" { "Any" }
                    @for channel in &detail.channels { option value=(t(&channel.name)) selected[channel.name == parameters.channel] { (t(&channel.name)) } }
                }
            }
            label { "Installed already" input.field.wide name="installed" autocomplete="off" maxlength="4000" value=(t(&parameters.installed)) placeholder="etcd.v0.9.2 prometheus=0.47.0"; }
            button.button.main type="submit" { "Ask" }
            datalist #all { @for bundle in &detail.bundles { option value=(t(&bundle.full_version())) {} } }
        }
    }
}

fn namespace(context: &PageContext<'_>, answer: &WhyAnswer, plan: &NamespacePlan) -> Markup {
    html! {
        section.section #plan {
            h2 { "What a cluster does" }
            @match plan {
                NamespacePlan::Resolved(changes) => {
                    @if changes.bundles.iter().all(|step| step.action == "keep") { p { "Nothing changes." } }
                    ol.steps { @for step in &changes.bundles {
                        li.end[step.action != "keep"] {
                            span.pill.head[step.action != "keep"] { (step.action) } " "
                            @if let Some(old) = step.upgraded() { code { (t(old)) } " to " }
                            (answer.line(context, &step.name))
                            @if !step.origin.is_empty() { " " span.soft.small { (t(&step.origin)) } }
                            @for reason in step.lines() { p.small.soft { (answer.line(context, reason.trim())) } }
                        }
                    } }
                },
                NamespacePlan::Conflict(conflict) => div.note.bad {
                    p { strong { "This cannot be resolved: nothing in the namespace would be installed or upgraded." } }
                    @for line in lines_of(conflict) { p { (answer.line(context, line.trim())) } }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_line_form_its_text() {
        for line in ["a b.v1.2 (c), d:", "", "  x", "one"] {
            let again: String = words(line).flat_map(|(word, rest)| [word, rest]).collect();
            assert_eq!(again, line);
        }
    }
}
