//! `opm verify`: checks an image against a signature policy and explains the result.

use std::io::{self, Write};
use std::path::PathBuf;

use fbc::fault::Fault;
use image::{Judgement, SignatureResult, Verification};
use source::PullSettings;

use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Check the signatures of an image against a policy
#[derive(clap::Args)]
#[command(
    long_about = "Check the signatures of an image against a policy.\n\n\
        opm shows the scope of the policy that applies to the image, the result of each requirement, and every signature \
        found: its signer, its subject, and why opm rejects it. The policy is ~/.config/containers/policy.json, or else \
        /etc/containers/policy.json; without a policy, all images are accepted. For a multi-platform image, the image of \
        this platform must be signed.\n\n\
        The command succeeds if the policy accepts the image. All commands that pull images make the same check first.",
    after_help = "Examples:\n  \
        opm verify quay.io/me/catalog:v1\n  \
        opm verify --policy policy.json -o json quay.io/me/catalog@sha256:...\n  \
        opm verify --platform linux/arm64 registry.example.com/catalog:v1"
)]
pub(crate) struct VerifyArgs {
    /// Image to check
    #[arg(value_name = "REF")]
    reference: String,
    /// Policy file to use instead of the user's or the system's
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &VerifyArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::with(PullSettings { policy: args.policy.clone(), ..images::settings(tls, &args.pull) });
    let client = images.client()?;
    let failed = |error: image::Error| {
        let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
        Failure::new(error.class(), format!("failed to check {:?}: {error}{help}", args.reference))
    };
    let location = client.locate(&args.reference).map_err(failed)?;
    let verification = client.verify(&location).map_err(failed)?;
    if args.output.is_json() {
        printer.json(&verification)?;
    } else {
        write_text(printer.data(), &verification)?;
    }
    if verification.accepted {
        return Ok(());
    }
    Err(Failure::message(format!("the policy rejects {}", verification.reference)))
}

fn write_text(out: &mut dyn Write, it: &Verification) -> io::Result<()> {
    line(out, "image", &it.reference)?;
    line(out, "digest", &it.digest.to_string())?;
    if it.manifest_digest != it.digest {
        line(out, "manifest", &format!("{}, of this platform", it.manifest_digest))?;
    }
    match (&it.policy, &it.scope) {
        (Some(file), Some(scope)) => {
            line(out, "policy", &file.display().to_string())?;
            line(out, "scope", scope)?;
        }
        _ => line(out, "policy", "none, so that all images are accepted")?,
    }
    for place in &it.searched {
        line(out, "searched", place)?;
    }
    for requirement in &it.requirements {
        write_requirement(out, requirement)?;
    }
    for note in &it.notes {
        line(out, "note", note)?;
    }
    line(out, "result", if it.accepted { "accepted" } else { "refused" })
}

fn write_requirement(out: &mut dyn Write, it: &Judgement) -> io::Result<()> {
    let outcome = match &it.reason {
        None => "fulfilled".to_owned(),
        Some(reason) => format!("not fulfilled: {reason}"),
    };
    line(out, "requirement", &format!("{}, {outcome}", it.requirement))?;
    it.signatures.iter().try_for_each(|signature| write_signature(out, signature))
}

fn write_signature(out: &mut dyn Write, it: &SignatureResult) -> io::Result<()> {
    let outcome = match &it.reason {
        None => "good".to_owned(),
        Some(reason) => format!("does not count: {reason}"),
    };
    line(out, "  signature", &format!("{}, {outcome}", it.kind))?;
    if let Some(signer) = &it.signer {
        // The signer of a rejected signature is only a claim.
        line(out, "  by", &if it.accepted { signer.clone() } else { format!("{signer}, as it says") })?;
    }
    if let Some(time) = &it.time {
        line(out, "  at", time)?;
    }
    if let (Some(digest), Some(identity)) = (&it.digest, &it.identity) {
        line(out, "  for", &format!("{digest} as {identity}"))?;
    }
    Ok(())
}

fn line(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "{:<14}{text}", format!("{name}:"))
}
