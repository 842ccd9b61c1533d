//! `opm crd-diff`: checks that CRDs can replace others.

use std::path::Path;

use bundle::{Finding, Severity};
use clap::builder::TypedValueParser;
use review::crd::{self, Change};
use serde_json::{Value, json};

use crate::bundles::Read;
use crate::catalog_bundles::{self, Given, Picks};
use crate::choice::choice;
use crate::exit::{Failure, Outcome, in_path};
use crate::findings::{self, Output};
use crate::images::{Images, PullFlags, TlsFlags};
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    Olm,
    Meaning,
}

fn rules() -> impl TypedValueParser<Value = Rules> {
    choice([("olm", Rules::Olm), ("meaning", Rules::Meaning)])
}

pub(crate) fn run(args: &CrdDiffArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let images = Images::new(tls, &args.pull);
    let changes = changes(args, &images, printer)?;
    let refused = |change: &Change| match args.crd_rules {
        Rules::Olm => change.blocks,
        Rules::Meaning => change.meaning >= Some(Severity::Error),
    };
    let passed = !changes.iter().any(refused);
    match args.output {
        Format::Crdify => {
            let json = crd::crdify(&changes);
            printer.data().write_all(format!("{json:#}\n").as_bytes())?;
        }
        Format::Findings(Output::Json) => {
            let json = json!({"passed": passed, "changes": as_json(&changes)});
            printer.data().write_all(format!("{json:#}\n").as_bytes())?;
        }
        Format::Findings(output) => {
            let mut found: Vec<Finding> = changes.iter().map(|change| finding(change, args.crd_rules)).collect();
            findings::sort(&mut found);
            findings::print(&found, passed, output, printer)?;
        }
    }
    if passed { Ok(()) } else { Err(Failure::Reported) }
}

fn as_json(changes: &[Change]) -> Vec<Value> {
    changes
        .iter()
        .map(|change| {
            json!({
                "id": change.id(), "crd": change.crd, "version": change.version, "path": change.path,
                "rule": change.rule, "message": change.words, "blocks": change.blocks,
                "olmSays": change.blocks.then(|| change.olm_message()),
                "meaning": change.meaning.map(|severity| severity.to_string()),
            })
        })
        .collect()
}

/// Compares the arguments.
fn changes(args: &CrdDiffArgs, images: &Images, printer: &Printer) -> Result<Vec<Change>, Failure> {
    if let (Some(old), Some(new)) = (file(&args.old)?, args.new.as_deref().map(file).transpose()?.flatten()) {
        return Ok(crd::compare_all(&old, &new));
    }
    let side = |reference: &str| match file(reference)? {
        Some(crds) => Ok(Side::Crds(crds)),
        None => catalog_bundles::open(reference, images, printer).map(Side::Given),
    };
    let old = side(&args.old)?;
    let new = args.new.as_deref().map(side).transpose()?;
    match (old, new) {
        (Side::Given(old @ Given::Catalog(_)), None) => compare(&old, None, args, printer),
        (Side::Given(old @ Given::Catalog(_)), Some(Side::Given(new))) => compare(&old, Some(&new), args, printer),
        (old, Some(new)) => Ok(crd::compare_all(&old.crds()?, &new.crds()?)),
        (_, None) => Err(Failure::Usage("NEW is required: the bundle, catalog or file to compare OLD with".into())),
    }
}

fn compare(
    old: &Given<'_>,
    new: Option<&Given<'_>>,
    args: &CrdDiffArgs,
    printer: &Printer,
) -> Result<Vec<Change>, Failure> {
    if new.is_none() && args.picks.from.is_none() {
        return Err(Failure::Usage("--from is required: the installed version".into()));
    }
    let pairs = catalog_bundles::pairs(old, new, &args.picks, printer)?;
    let both = pairs.iter().filter_map(|pair| Some((pair.old.as_ref()?, &pair.new)));
    Ok(both.flat_map(|(old, new)| crd::compare_all(&of_bundle(old), &of_bundle(new))).collect())
}

/// One side of a comparison.
enum Side<'a> {
    Crds(Vec<Value>),
    Given(Given<'a>),
}

impl Side<'_> {
    fn crds(&self) -> Result<Vec<Value>, Failure> {
        match self {
            Side::Crds(crds) => Ok(crds.clone()),
            Side::Given(Given::Bundle(read)) => Ok(of_bundle(read)),
            Side::Given(Given::Catalog(_)) => {
                Err(Failure::Usage("compare a catalog with another catalog, or use --package, --from and --to".into()))
            }
        }
    }
}

fn is_crd(value: &Value) -> bool {
    value.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition")
}

fn of_bundle(read: &Read) -> Vec<Value> {
    read.whole.objects.iter().map(|object| &object.value).filter(|value| is_crd(value)).cloned().collect()
}

/// Reads the CRDs of a file. Returns `None` for a catalog file or a reference that is not a file.
fn file(reference: &str) -> Result<Option<Vec<Value>>, Failure> {
    let path = Path::new(reference);
    if !path.is_file() || crate::source::is_database(path) {
        return Ok(None);
    }
    let text = std::fs::read(path).map_err(|error| in_path(path, &error))?;
    let objects = match bundle::objects_of(&text, reference, &limits::from_env()?) {
        Ok(objects) => objects,
        // Blobs have a schema where objects have a kind; loading the catalog reports its problems.
        Err(_) if String::from_utf8_lossy(&text).contains("schema") => return Ok(None),
        Err(error) => return Err(Failure::message(format!("{reference}: {error}"))),
    };
    let crds: Vec<Value> = objects.into_iter().map(|object| object.value).filter(is_crd).collect();
    if crds.is_empty() {
        return Err(Failure::message(format!("{reference}: contains no CustomResourceDefinition")));
    }
    Ok(Some(crds))
}

/// Converts a change to a finding: an error if OLM v1 refuses it or custom resources break.
pub(crate) fn olm_finding(change: &Change) -> Finding {
    finding(change, Rules::Olm)
}

fn finding(change: &Change, rules: Rules) -> Finding {
    let severity = match rules {
        Rules::Olm if change.blocks => Severity::Error,
        _ => change.meaning.unwrap_or(Severity::Info),
    };
    let place =
        if change.version.is_empty() { String::new() } else { format!("{}: {}: ", change.version, change.path) };
    let meaning = match change.meaning {
        Some(severity) if severity >= Severity::Error => "breaks custom resources",
        Some(_) => "deserves a look",
        None => "harms nobody",
    };
    let verdicts = match change.blocks {
        true => format!("OLM v1 refuses the upgrade; the change {meaning}"),
        false => format!("OLM v1 does not look at it; the change {meaning}"),
    };
    let words = format!("{place}{}: {} ({verdicts})", change.rule, change.words);
    Finding::new(change.id(), severity, words).about(format!("CustomResourceDefinition {}", change.crd))
}
