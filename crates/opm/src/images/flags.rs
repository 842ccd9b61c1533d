//! Registry flags.

use std::path::PathBuf;

use image::Platform;

use crate::exit::{Failure, Outcome};
use crate::printer::Printer;

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
pub(crate) fn check_flags(tls: &TlsFlags, printer: &Printer) -> Outcome {
    if let Some(warning) = tls.check()? {
        printer.warning(warning);
    }
    Ok(())
}
