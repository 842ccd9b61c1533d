//! `opm registry doctor`: diagnoses how opm reaches an image.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use image::{ExplainedProblem, ExplainedSource, Explanation, Reference};

use crate::commands::build::reference;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Diagnose access to an image
#[derive(clap::Args)]
#[command(
    long_about = "Diagnose access to an image.\n\n\
        The report lists the settings, mirrors, proxies, certificates and credentials that apply to the image, with file \
        and key. The command then queries the registry and each mirror and shows their answers. It never prints secrets. \
        It fails if no location has the image.",
    after_help = "Examples:\n  \
        opm registry doctor quay.io/me/catalog:v1\n  \
        opm registry doctor --ca-file ca.crt -o json registry.example.com/catalog:v1"
)]
pub(crate) struct DoctorArgs {
    /// Image to check
    #[arg(value_name = "REF", value_parser = reference)]
    reference: Reference,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &DoctorArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let explanation = images.client()?.explain(&args.reference);
    if args.output.is_json() {
        printer.json(&explanation)?;
    } else {
        write_text(printer.data(), &explanation)?;
    }
    if explanation.is_reachable() {
        Ok(())
    } else {
        Err(Failure::world(format!("{} cannot be reached", args.reference)))
    }
}

fn write_text(out: &mut dyn Write, explanation: &Explanation) -> io::Result<()> {
    line(out, "image", &explanation.reference)?;
    let settings = match (explanation.registries_conf.as_slice(), &explanation.rule) {
        ([], _) => "none".to_owned(),
        (files, None) => format!("{}; none is about this image", paths(files)),
        (files, Some(rule)) => format!("{}; this image is meant in {}", paths(files), rule.display()),
    };
    line(out, "settings", &settings)?;
    let policy = explanation.policy.as_deref().map(Path::display);
    line(
        out,
        "policy",
        &policy.map_or_else(|| "none, so that all images are allowed".to_owned(), |it| it.to_string()),
    )?;
    if !explanation.signatures.is_empty() {
        let (kinds, reference) = (explanation.signatures.join(", "), &explanation.reference);
        line(out, "signatures", &format!("{kinds}; opm verify {reference} checks them"))?;
    }
    problem(out, explanation.problem.as_ref())?;
    for place in &explanation.places {
        writeln!(out)?;
        write_place(out, place)?;
    }
    Ok(())
}

fn write_place(out: &mut dyn Write, place: &ExplainedSource) -> io::Result<()> {
    line(out, if place.mirror { "mirror" } else { "registry" }, &place.reference)?;
    let plain = place.address.starts_with("http:");
    let checked = match (plain, place.verified) {
        (true, _) => "without TLS",
        (false, true) => "its certificate is checked",
        (false, false) => "its certificate is not checked",
    };
    line(out, "address", &format!("{}, {checked}", place.address))?;
    line(out, "proxy", place.proxy.as_deref().unwrap_or("none"))?;
    if !plain {
        let own = &place.certificates;
        let host = match &own.directory {
            None => format!("none for this host in {}", paths(&own.searched)),
            Some(directory) => {
                let ours = own.ours.as_ref().map(|path| format!("; we show {}", path.display())).unwrap_or_default();
                format!("{} for this host in {}{ours}", own.authorities.len(), directory.display())
            }
        };
        line(out, "certificates", &format!("{} known everywhere; {host}", own.roots))?;
    }
    let credentials = match &place.credentials {
        None => format!("none in {}", paths(&place.searched)),
        Some(used) => {
            let helper =
                used.helper.as_ref().map(|name| format!(", from docker-credential-{name}")).unwrap_or_default();
            format!("{} of {:?} in {}{helper}", used.kind, used.key, used.file.display())
        }
    };
    line(out, "credentials", &credentials)?;
    if let (Some(status), Some(asks_for)) = (place.status, &place.asks_for) {
        line(out, "answer", &format!("status {status}; it asks for {asks_for}"))?;
    }
    if let (Some(digest), Some(media_type)) = (&place.digest, &place.media_type) {
        line(out, "has", &format!("{digest}, {media_type}"))?;
    }
    problem(out, place.problem.as_ref())?;
    line(out, "time", &format!("{} ms", place.milliseconds))
}

fn problem(out: &mut dyn Write, problem: Option<&ExplainedProblem>) -> io::Result<()> {
    if let Some(problem) = problem {
        line(out, "problem", &problem.text)?;
        if let Some(help) = &problem.help {
            line(out, "help", help)?;
        }
    }
    Ok(())
}

fn line(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "{:<14}{text}", format!("{name}:"))
}

fn paths(paths: &[PathBuf]) -> String {
    let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    if all.is_empty() { "nothing".into() } else { all.join(", ") }
}
