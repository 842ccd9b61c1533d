//! Flags that all commands of `oc-mirror` have, and how registries are spoken to because of them.

use std::path::PathBuf;
use std::time::Duration;

use crate::commands::mirror::flags::MoveFlags;
use crate::exit::{Failure, Outcome};
use crate::images::TlsFlags;
use crate::registry_settings::RegistrySettings;

/// Flags of all its commands
#[derive(clap::Args)]
pub(super) struct Common {
    /// The second version, which is the only one here
    #[arg(long)]
    v2: bool,
    /// Check the certificates of sources
    #[arg(long, value_name = "true|false", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    src_tls_verify: bool,
    /// Check the certificate of the destination
    #[arg(long, value_name = "true|false", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    dest_tls_verify: bool,
    /// File with credentials for registries
    #[arg(long, value_name = "FILE")]
    authfile: Option<PathBuf>,
    /// How many images are on their way at a time
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(1..=10))]
    parallel_images: u8,
    /// How many layers of each
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u8).range(1..=10))]
    parallel_layers: u8,
    /// How often to retry a request
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(..=100))]
    retry_times: u32,
    /// How long to wait before a retry, such as 5s; 0 waits longer each time
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = delay)]
    retry_delay: Duration,
    /// Policy for signatures, in place of the user's or the system's
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

fn delay(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?}: expected a duration such as 5s, at most 10m");
    spelling::duration::parse(text).filter(|delay| *delay <= Duration::from_secs(600)).ok_or_else(wrong)
}

impl Common {
    /// Refuses the first version of the tool.
    pub(super) fn check(&self) -> Outcome {
        match self.v2 {
            true => Ok(()),
            false => Err(Failure::message("only the second version is here: say --v2")),
        }
    }

    /// Returns how sources are spoken to, and nobody else.
    pub(super) fn source_side(&self) -> (TlsFlags, MoveFlags) {
        (TlsFlags::verifying(self.src_tls_verify), self.moving())
    }

    /// Returns how the destination is spoken to, and nobody else.
    pub(super) fn destination_side(&self) -> (TlsFlags, MoveFlags) {
        (TlsFlags::verifying(self.dest_tls_verify), self.moving())
    }

    /// Returns how sources and a destination are spoken to: neither flag counts for the other side.
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
