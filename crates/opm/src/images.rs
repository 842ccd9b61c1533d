//! Access to images: the flags, and what they mean.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::TypedValueParser;
use image::{Environment, ImageReferenceError, Platform, Reference};
use source::Fetcher;
use source::{ContainerTool, Images, PullSettings};

use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;
use crate::progress::Terminal;

/// TLS flags. Every command accepts them, like upstream opm.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Registries")]
pub(crate) struct TlsFlags {
    /// Use plain HTTP for registries
    #[arg(long, global = true)]
    use_http: bool,
    /// Do not verify the TLS certificates of registries
    #[arg(long, global = true)]
    skip_tls_verify: bool,
    /// Use plain HTTP for registries
    #[arg(long, global = true, hide = true)]
    skip_tls: bool,
}

impl TlsFlags {
    /// Refuses contradicting flags; returns a deprecation warning, if any.
    pub(crate) fn check(&self) -> Result<Option<&'static str>, Failure> {
        let clash = |text: &str| Err(Failure::usage(format!("invalid flag combination: {text}")));
        match (self.skip_tls, self.use_http, self.skip_tls_verify) {
            (true, true, _) => clash("cannot use --use-http with --skip-tls"),
            (true, _, true) => clash("cannot use --skip-tls-verify with --skip-tls"),
            (_, true, true) => clash("--use-http and --skip-tls-verify cannot both be true"),
            (true, _, _) => {
                Ok(Some("Flag --skip-tls has been deprecated, use --use-http and --skip-tls-verify instead"))
            }
            _ => Ok(None),
        }
    }

    /// Returns flags that verify certificates, or do not.
    pub(crate) fn verifying(verify: bool) -> TlsFlags {
        TlsFlags { skip_tls_verify: !verify, ..TlsFlags::default() }
    }

    /// Returns whether to use plain HTTP.
    pub(crate) fn uses_http(&self) -> bool {
        self.use_http || self.skip_tls
    }

    /// Returns whether to skip the verification of certificates.
    pub(crate) fn skips_verification(&self) -> bool {
        self.skip_tls_verify
    }
}

/// Flags of the commands that pull images.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Registries")]
pub(crate) struct PullFlags {
    /// File with additional CA certificates to trust for registries
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Platform to select from a multi-platform image: OS/ARCHITECTURE[/VARIANT]
    #[arg(long, value_name = "PLATFORM")]
    pub(crate) platform: Option<Platform>,
    /// Directory to cache pulled images in; defaults to $OLM_CACHE_DIR/images if set
    #[arg(long, value_name = "DIR")]
    pub(crate) image_cache: Option<PathBuf>,
    /// Use only cached images, without network access
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Warns about deprecated flags, and refuses contradicting ones.
pub(crate) fn check_flags(tls: &TlsFlags, printer: &Printer) -> CommandResult {
    if let Some(warning) = tls.check()? {
        printer.warning(warning);
    }
    Ok(())
}

/// Returns the settings that the flags stand for.
pub(crate) fn settings(tls: &TlsFlags, pull: &PullFlags) -> PullSettings {
    PullSettings {
        use_http: tls.uses_http(),
        skip_tls_verify: tls.skips_verification(),
        ca_file: pull.ca_file.clone(),
        platform: pull.platform.clone(),
        image_cache: pull.image_cache.clone(),
        offline: pull.offline,
        ..PullSettings::new(Environment::current())
    }
}

/// Prepares to pull images, and shows progress and warnings on the terminal.
pub(crate) fn with(settings: PullSettings) -> Images {
    let terminal = Terminal::default();
    let transfers = terminal.transfers();
    Images::new(settings, Arc::new(terminal), transfers)
}

/// Prepares to pull images as the flags say.
pub(crate) fn open(tls: &TlsFlags, pull: &PullFlags) -> Images {
    with(settings(tls, pull))
}

/// Prepares to fetch the bundles and databases of images, with a container tool or without.
pub(crate) fn fetcher(tls: &TlsFlags, pull: &PullFlags, tool: ContainerTool) -> Result<Fetcher, Failure> {
    if pull.ca_file.is_some() && tls.skips_verification() {
        return Err(Failure::usage("--skip-tls-verify must be false when --ca-file is set"));
    }
    if pull.ca_file.is_some() && tool != ContainerTool::None {
        let tool = tool.name();
        return Err(Failure::usage(format!(
            "--ca-file cannot be set with --container-tool={tool}; certificates must be configured specifically \
             for {tool}"
        )));
    }
    Ok(Fetcher::new(open(tls, pull), tool))
}

/// Parses the name of a container tool.
pub(crate) fn container_tool() -> impl TypedValueParser<Value = ContainerTool> {
    choice([("none", ContainerTool::None), ("docker", ContainerTool::Docker), ("podman", ContainerTool::Podman)])
}

/// Returns the default build tool: the first installed one, or opm itself.
pub(crate) fn installed_tool() -> ContainerTool {
    ContainerTool::detect(&std::env::var_os("PATH").unwrap_or_default())
}

/// Parses a reference for the index commands.
pub(crate) fn or_latest(text: &str) -> Result<String, Infallible> {
    Ok(latest(text))
}

/// Returns a reference for the index commands: without a tag, it means `:latest`.
///
/// Existing paths stay unchanged. The user of the value reports invalid references.
pub(crate) fn latest(text: &str) -> String {
    match Reference::parse(text) {
        Err(ImageReferenceError::NoVersion(name)) if !Path::new(text).exists() => format!("{name}:latest"),
        _ => text.to_owned(),
    }
}
