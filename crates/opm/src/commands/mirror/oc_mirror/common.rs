//! The common flags of all `oc-mirror` commands, and the registry settings that follow from them.

use std::path::PathBuf;
use std::time::Duration;

use source::RegistrySettings;

use crate::choice::InvalidValue;
use crate::commands::mirror::flags::MoveFlags;
use crate::exit::{CommandResult, Failure};
use crate::images::TlsFlags;

/// Common flags
#[derive(clap::Args)]
pub(super) struct Common {
    /// Use oc-mirror v2, the only supported version
    #[arg(long)]
    v2: bool,
    /// Verify the certificates of sources
    #[arg(long, value_name = "true|false", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    src_tls_verify: bool,
    /// Verify the certificate of the destination
    #[arg(long, value_name = "true|false", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    dest_tls_verify: bool,
    /// File with credentials for registries
    #[arg(long, value_name = "FILE")]
    authfile: Option<PathBuf>,
    /// Number of images to transfer concurrently
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(1..=10))]
    parallel_images: u8,
    /// Number of layers per image to transfer concurrently
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u8).range(1..=10))]
    parallel_layers: u8,
    /// Maximum number of retries per request
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(..=100))]
    retry_times: u32,
    /// Delay before a retry, such as 5s; 0 increases the delay with each retry
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = delay)]
    retry_delay: Duration,
    /// Signature policy file to use instead of the user's or the system's
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

fn delay(text: &str) -> Result<Duration, InvalidValue> {
    let wrong = || format!("{text:?}: expected a duration such as 5s, at most 10m");
    fbc::spelling::duration::parse(text)
        .filter(|delay| *delay <= Duration::from_secs(600))
        .ok_or_else(|| wrong().into())
}

impl Common {
    /// Refuses oc-mirror v1.
    pub(super) fn check(&self) -> CommandResult {
        match self.v2 {
            true => Ok(()),
            false => Err(Failure::message("only oc-mirror v2 is supported: add --v2")),
        }
    }

    /// Returns the registry flags for sources only.
    pub(super) fn source_side(&self) -> (TlsFlags, MoveFlags) {
        (TlsFlags::verifying(self.src_tls_verify), self.moving())
    }

    /// Returns the registry flags for the destination only.
    pub(super) fn destination_side(&self) -> (TlsFlags, MoveFlags) {
        (TlsFlags::verifying(self.dest_tls_verify), self.moving())
    }

    /// Returns the registry flags for both sides: each TLS flag applies to its own side only.
    pub(super) fn between(&self, destination: &str) -> (TlsFlags, MoveFlags) {
        let mut moving = self.moving();
        let host = destination.split('/').next().unwrap_or_default().to_owned();
        moving.settings.certificates.insert(host, self.dest_tls_verify);
        (TlsFlags::verifying(self.src_tls_verify), moving)
    }

    fn moving(&self) -> MoveFlags {
        let usual = image::Retries::default();
        let constant = !self.retry_delay.is_zero();
        let retries = image::Retries {
            count: self.retry_times,
            first_delay: if constant { self.retry_delay } else { usual.first_delay },
            max_delay: usual.max_delay.max(self.retry_delay),
            constant,
        };
        let settings = RegistrySettings {
            auth_file: self.authfile.clone(),
            retries: Some(retries),
            ..RegistrySettings::default()
        };
        let jobs = self.parallel_images.saturating_mul(self.parallel_layers).min(64);
        MoveFlags { jobs, policy: self.policy.clone(), settings, ..MoveFlags::default() }
    }
}
