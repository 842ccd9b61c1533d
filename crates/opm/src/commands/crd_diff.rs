//! `opm crd-diff`: whether CRDs can replace others.

use std::path::Path;

use bundle::{Finding, Severity};
use clap::builder::TypedValueParser;
use review::crd::{self, Change};
use serde_json::{Value, json};

use crate::choice::choice;
use crate::exit::{Failure, Outcome, in_path};
use crate::findings::{self, Output};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{bundles, limits};

/// Tell whether the CRDs of a bundle can replace those of another
#[derive(clap::Args)]
#[command(
    long_about = "Tell whether the CRDs of a bundle can replace those of another.\n\n\
        Before an upgrade OLM v1 compares each CRD with the one on the cluster, and refuses changes that could break \
        custom resources. Every change is told with two verdicts: what OLM v1 does, in its words, and what the change \
        means. The exit code is 1 if one of them is an error by the rules that are asked for.",
    after_help = "Examples:\n  \
        opm crd-diff quay.io/me/foo-bundle:v1.0.0 ./bundle\n  \
        opm crd-diff old-crd.yaml new-crd.yaml\n  \
        opm crd-diff ./old ./new --crd-rules meaning -o markdown"
)]
pub(crate) struct CrdDiffArgs {
    /// Bundle (directory or image) or file with CRDs, as it is now
    #[arg(value_name = "OLD")]
    old: String,
    /// Bundle or file, as it will be
    #[arg(value_name = "NEW")]
    new: String,
    /// Whose verdict decides
    #[arg(long, value_name = "RULES", default_value = "olm", value_parser = rules())]
    crd_rules: Rules,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = findings::output())]
    output: Output,
    #[command(flatten)]
    pull: PullFlags,
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
    let (old, new) = (crds(&args.old, &images)?, crds(&args.new, &images)?);
    let changes = crd::compare_all(&old, &new);
    let refused = |change: &Change| match args.crd_rules {
        Rules::Olm => change.blocks,
        Rules::Meaning => change.meaning >= Some(Severity::Error),
    };
    let passed = !changes.iter().any(refused);
    if args.output == Output::Json {
        let changes: Vec<Value> = changes
            .iter()
            .map(|change| {
                json!({
                    "id": change.id(), "crd": change.crd, "version": change.version, "path": change.path,
                    "rule": change.rule, "message": change.words, "blocks": change.blocks,
                    "olmSays": change.blocks.then(|| change.olm_says()),
                    "meaning": change.meaning.map(|severity| severity.to_string()),
                })
            })
            .collect();
        let json = json!({"passed": passed, "changes": changes});
        printer.data().write_all(format!("{json:#}\n").as_bytes())?;
    } else {
        let mut found: Vec<Finding> = changes.iter().map(|change| finding(change, args.crd_rules)).collect();
        findings::sort(&mut found);
        findings::print(&found, passed, args.output, printer)?;
    }
    if passed { Ok(()) } else { Err(Failure::Told) }
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

/// Reads the CRDs of a bundle or a file.
fn crds(reference: &str, images: &Images) -> Result<Vec<Value>, Failure> {
    let path = Path::new(reference);
    let is_crd = |value: &Value| value.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition");
    if path.is_file() && !crate::source::is_database(path) {
        let text = std::fs::read(path).map_err(|error| in_path(path, &error))?;
        let objects = bundle::objects_of(&text, reference, &limits::from_env()?)
            .map_err(|error| Failure::message(format!("{reference}: {error}")))?;
        let crds: Vec<Value> = objects.into_iter().map(|object| object.value).filter(is_crd).collect();
        if crds.is_empty() {
            return Err(Failure::message(format!("{reference}: no CustomResourceDefinition in it")));
        }
        return Ok(crds);
    }
    let read = bundles::read(reference, images)?;
    Ok(read.whole.objects.into_iter().map(|object| object.value).filter(is_crd).collect())
}
