//! `opm crd-diff`: checks that CRDs can replace others.

use crate::picks::Picks;
use std::path::Path;

use bundle::Finding;
use bundle::review::crd::{self, Change, Rules};
use clap::builder::TypedValueParser;
use serde_json::{Value, json};
use source::Images;
use source::catalog_bundles::{self, BundleOrCatalog};

use crate::choice::choice;
use crate::exit::{Failure, Outcome, in_path};
use crate::findings::{self, Output};
use crate::images::{self, PullFlags, TlsFlags};
use crate::limits;
use crate::printer::Printer;

/// Check whether the CRDs of a bundle can replace those of another
#[derive(clap::Args)]
#[command(
    long_about = "Check whether the CRDs of a bundle can replace those of another.\n\n\
        Before an upgrade OLM v1 compares each CRD with the one on the cluster, and refuses changes that could break \
        custom resources. Each change gets two verdicts: what OLM v1 does, in its own words, and what the change means \
        for custom resources. The exit code is 1 if a change is an error under --crd-rules.",
    after_help = "Examples:\n  \
        opm crd-diff quay.io/me/foo-bundle:v1.0.0 ./bundle\n  \
        opm crd-diff old-crd.yaml new-crd.yaml\n  \
        opm crd-diff ./old ./new --crd-rules meaning -o markdown\n  \
        opm crd-diff my-catalog --package etcd --from 0.9.2 --to 0.9.4\n  \
        opm crd-diff old-crd.yaml new-crd.yaml -o crdify           # the JSON of crdify"
)]
pub(crate) struct CrdDiffArgs {
    /// Current bundle or catalog (directory, image or file), or file with CRDs
    #[arg(value_name = "OLD")]
    old: String,
    /// New bundle, catalog or file; omit it to compare two versions of one catalog
    #[arg(value_name = "NEW")]
    new: Option<String>,
    /// Verdict that decides the exit code
    #[arg(long, value_name = "RULES", default_value = "olm", value_parser = rules())]
    crd_rules: Rules,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = format())]
    output: Format,
    #[command(flatten)]
    picks: Picks,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// The JSON of crdify with the settings of OLM v1.
    Crdify,
    Findings(Output),
}

fn format() -> impl TypedValueParser<Value = Format> {
    choice([
        ("text", Format::Findings(Output::Text)),
        ("json", Format::Findings(Output::Json)),
        ("crdify", Format::Crdify),
        ("sarif", Format::Findings(Output::Sarif)),
        ("github", Format::Findings(Output::Github)),
        ("markdown", Format::Findings(Output::Markdown)),
    ])
}

fn rules() -> impl TypedValueParser<Value = Rules> {
    choice([("olm", Rules::Olm), ("meaning", Rules::Meaning)])
}

pub(crate) fn run(args: &CrdDiffArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let images = images::open(tls, &args.pull);
    let changes = changes(args, &images)?;
    let passed = !changes.iter().any(|change| change.is_refused(args.crd_rules));
    match args.output {
        Format::Crdify => {
            let json = crd::crdify(&changes);
            printer.data().write_all(format!("{json:#}\n").as_bytes())?;
        }
        Format::Findings(Output::Json) => {
            let json = json!({"passed": passed, "changes": changes.iter().map(Change::to_json).collect::<Vec<_>>()});
            printer.data().write_all(format!("{json:#}\n").as_bytes())?;
        }
        Format::Findings(output) => {
            let mut found: Vec<Finding> = changes.iter().map(|change| change.finding(args.crd_rules)).collect();
            findings::sort(&mut found);
            findings::print(&found, passed, output, printer)?;
        }
    }
    if passed { Ok(()) } else { Err(Failure::Reported) }
}

/// Compares the arguments.
fn changes(args: &CrdDiffArgs, images: &Images) -> Result<Vec<Change>, Failure> {
    if let (Some(old), Some(new)) = (file(&args.old)?, args.new.as_deref().map(file).transpose()?.flatten()) {
        return Ok(crd::compare(&old, &new));
    }
    let side = |reference: &str| match file(reference)? {
        Some(crds) => Ok::<_, Failure>(Side::Crds(crds)),
        None => Ok(Side::Opened(catalog_bundles::open(reference, images, &limits::from_env()?)?)),
    };
    let old = side(&args.old)?;
    let new = args.new.as_deref().map(side).transpose()?;
    match (old, new) {
        (Side::Opened(old @ BundleOrCatalog::Catalog(_)), None) => compare(&old, None, args),
        (Side::Opened(old @ BundleOrCatalog::Catalog(_)), Some(Side::Opened(new))) => compare(&old, Some(&new), args),
        (old, Some(new)) => Ok(crd::compare(old.objects()?, new.objects()?)),
        (_, None) => Err(Failure::usage("NEW is required: the bundle, catalog or file to compare OLD with")),
    }
}

fn compare(
    old: &BundleOrCatalog<'_>,
    new: Option<&BundleOrCatalog<'_>>,
    args: &CrdDiffArgs,
) -> Result<Vec<Change>, Failure> {
    if new.is_none() && args.picks.from.is_none() {
        return Err(Failure::usage("--from is required: the installed version"));
    }
    let pairs = catalog_bundles::pairs(old, new, &args.picks.picked())?;
    let both = pairs.iter().filter_map(|pair| Some((pair.old.as_ref()?, &pair.new)));
    Ok(both.flat_map(|(old, new)| crd::compare(old.whole.values(), new.whole.values())).collect())
}

/// One side of a comparison.
enum Side<'a> {
    Crds(Vec<Value>),
    Opened(BundleOrCatalog<'a>),
}

impl Side<'_> {
    fn objects(&self) -> Result<Vec<&Value>, Failure> {
        match self {
            Side::Crds(crds) => Ok(crds.iter().collect()),
            Side::Opened(BundleOrCatalog::Bundle(read)) => Ok(read.whole.values().collect()),
            Side::Opened(BundleOrCatalog::Catalog(_)) => {
                Err(Failure::usage("compare a catalog with another catalog, or use --package, --from and --to"))
            }
        }
    }
}

fn is_crd(value: &Value) -> bool {
    value.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition")
}

/// Reads the CRDs of a file. Returns `None` for a catalog file or a reference that is not a file.
fn file(reference: &str) -> Result<Option<Vec<Value>>, Failure> {
    let path = Path::new(reference);
    if !path.is_file() || source::is_database(path) {
        return Ok(None);
    }
    let text = std::fs::read(path).map_err(|error| in_path(path, &error))?;
    let limits = limits::from_env()?;
    let objects = match bundle::objects_of(&text, reference, &limits) {
        Ok(objects) => objects,
        // Loading the catalog reports its problems.
        Err(_) if has_blobs(&text, &limits) => return Ok(None),
        Err(error) => return Err(Failure::message(error).context(reference)),
    };
    let crds: Vec<Value> = objects.into_iter().map(|object| object.value).filter(is_crd).collect();
    if crds.is_empty() {
        return Err(Failure::message(format!("{reference}: contains no CustomResourceDefinition")));
    }
    Ok(Some(crds))
}

/// Returns whether a text is one of a catalog: its blobs have a schema where objects have a kind.
fn has_blobs(text: &[u8], limits: &fbc::Limits) -> bool {
    let documents = fbc::stream::documents(text, limits).unwrap_or_default();
    documents.iter().any(|document| document.raw().get("schema").is_some())
}
