//! `opm bundle unpack`: unpacks a bundle image into a directory.

use std::fs;
use std::path::PathBuf;

use bundle::{BundleCheck, BundleDirectory, Finding};
use fbc::Members;

use super::validate::{is_error, is_warning};
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::tree::NewFiles;
use crate::{limits, tree};

/// Unpack a bundle image into a directory
#[derive(clap::Args)]
#[command(
    long_about = "Unpack a bundle image into a directory.\n\n\
        Writes manifests, metadata, tests and the other directories that the labels of the image name, without hidden \
        files and links. Checks the bundle first unless --skip-validation is given. Overwrites nothing: if one of the \
        files exists, opm writes none of them.",
    after_help = "Examples:\n  \
        opm bundle unpack quay.io/me/foo-bundle:v1.0.0 --out foo\n  \
        opm bundle unpack oci:layout --out foo --skip-validation"
)]
pub(super) struct UnpackArgs {
    /// Bundle image
    #[arg(value_name = "REF")]
    reference: String,
    /// Directory to write to
    #[arg(short, long, value_name = "DIR", default_value = "./")]
    out: PathBuf,
    /// Do not check the bundle
    #[arg(short = 'v', long)]
    skip_validation: bool,
    /// File with additional CA certificates to trust for registries
    #[arg(short = 'c', long, value_name = "FILE", help_heading = "Registries", conflicts_with = "ca_file")]
    root_ca: Option<PathBuf>,
    /// Print warnings and the digest of the image
    #[arg(short, long)]
    debug: bool,
    #[command(flatten)]
    pull: PullFlags,
}

pub(super) fn run(args: &UnpackArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let out = &args.out;
    match fs::metadata(out) {
        Ok(metadata) if !metadata.is_dir() => {
            return Err(Failure::usage(format!("out {} is not a directory", out.display())));
        }
        _ => {}
    }
    let mut pull = args.pull.clone();
    pull.ca_file = pull.ca_file.or(args.root_ca.clone());
    let images = images::open(tls, &pull);
    let fetched = images.fetch_one(&args.reference)?;
    let limits = limits::from_env()?;
    let root = images.unpack_to_temp(&fetched.image)?;
    if !args.skip_validation {
        let bundle = BundleDirectory::read(root.clone(), None, &limits);
        let findings =
            bundle::check(bundle, &BundleCheck::plain(&limits, fbc::spelling::calendar::today()), None)?.findings;
        refuse_invalid(&findings)?;
        if args.debug {
            let warnings = findings.iter().filter(|finding| is_warning(finding.severity));
            warnings.for_each(|finding| printer.warning(&finding.message));
        }
    }
    let mut members = Members::below(&root, &bundle::directories(&fetched.image.labels()), limits.files)?;
    tree::warn_of_unportable(&members.remove_unportable(&root)?, printer);
    let new = NewFiles::start(out)?;
    members.copy_to(new.path())?;
    new.finish()?;
    if args.debug {
        printer.report(&format!("unpacked {} ({}) to {}", args.reference, fetched.image.digest, out.display()));
    }
    Ok(())
}

/// Fails if findings prevent the installation of a bundle, with those about its format if there are any.
fn refuse_invalid(findings: &[Finding]) -> CommandResult {
    let is_format = |finding: &&Finding| matches!(finding.id, "bundle-format" | "dependency-rule");
    let (format, content): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().filter(|finding| is_error(finding.severity)).partition(is_format);
    let (what, errors) = if format.is_empty() { ("content", content) } else { ("format", format) };
    if errors.is_empty() {
        return Ok(());
    }
    let errors: Vec<&str> = errors.iter().map(|finding| finding.message.as_str()).collect();
    Err(Failure::message(format!("bundle {what} validation failed: Bundle validation errors: {}", errors.join(","))))
}
