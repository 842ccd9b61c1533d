//! Flags of the commands that reach registries.

use std::path::PathBuf;

use image::Platform;

use crate::exit::{Failure, Outcome};
use crate::printer::Printer;

/// How registries are spoken to. Every command knows these flags, as users expect.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Registries")]
pub(crate) struct TlsFlags {
    /// Use plain HTTP for registries
    #[arg(long, global = true)]
    use_http: bool,
    /// Do not check the certificates of registries
    #[arg(long, global = true)]
    skip_tls_verify: bool,
    /// Use plain HTTP for registries
    #[arg(long, global = true, hide = true)]
    skip_tls: bool,
}

impl TlsFlags {
    /// Refuses flags that contradict each other; returns what to warn of.
    pub(crate) fn check(&self) -> Result<Option<&'static str>, Failure> {
        let clash = |text: &str| Err(Failure::message(format!("invalid flag combination: {text}")));
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

    /// Returns flags that check certificates, or do not.
    pub(crate) fn verifying(verify: bool) -> TlsFlags {
        TlsFlags { skip_tls_verify: !verify, ..TlsFlags::default() }
    }

    /// Returns whether registries are spoken to in plain HTTP.
    pub(crate) fn uses_http(&self) -> bool {
        self.use_http || self.skip_tls
    }

    /// Returns whether certificates are not checked.
    pub(crate) fn skips_verification(&self) -> bool {
        self.skip_tls_verify
    }
}

/// How images are pulled, by the commands that do.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Registries")]
pub(crate) struct PullFlags {
    /// File with certificates of authorities to trust for registries, beside the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Platform to take from an image for several: OS/ARCHITECTURE[/VARIANT]
    #[arg(long, value_name = "PLATFORM")]
    pub(crate) platform: Option<Platform>,
    /// Directory that pulled images are kept in; $OLM_CACHE_DIR/images if that is set
    #[arg(long, value_name = "DIR")]
    pub(crate) image_cache: Option<PathBuf>,
    /// Use images that were kept before, and no network
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Warns of flags that go away, and refuses those that contradict each other.
pub(crate) fn check_flags(tls: &TlsFlags, printer: &Printer) -> Outcome {
    if let Some(warning) = tls.check()? {
        printer.warning(warning);
    }
    Ok(())
}
