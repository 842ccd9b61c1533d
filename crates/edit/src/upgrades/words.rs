//! Describes the upgrade status of clusters.

use fbc::spelling::shell::quoted;

use super::{ChannelReport, Fix, UpgradeOutcome, UpgradeRun, UpgradeStatus};

impl UpgradeOutcome {
    /// Describes the outcome, to be read after the name of the bundle.
    pub fn words(&self) -> String {
        let upgraded = |path: &UpgradeRun| match path.steps {
            1 => path.end.clone(),
            steps => format!("{} in {steps} steps", path.end),
        };
        let now = match &self.now {
            UpgradeStatus::Latest => "is the newest".to_owned(),
            UpgradeStatus::Upgraded(path) => format!("is upgraded to {}", upgraded(path)),
            UpgradeStatus::Stuck(None) => "is stuck: nothing upgrades it".to_owned(),
            UpgradeStatus::Stuck(Some(path)) => format!("is stuck at {}: nothing upgrades that", path.end),
            UpgradeStatus::HeldBack { path, by, why } => {
                let at = path.as_ref().map(|path| format!(" at {}", path.end)).unwrap_or_default();
                format!("stays{at}: {by} comes next, but cannot be installed: {why}")
            }
            UpgradeStatus::NoPath => {
                "has no path: it is not in the channel any more, and nothing upgrades it".to_owned()
            }
            UpgradeStatus::ChannelGone => {
                "cannot be upgraded: its channel is gone, and installing anything in its namespace fails".to_owned()
            }
            UpgradeStatus::PackageGone => "cannot be upgraded: its package is gone".to_owned(),
            UpgradeStatus::Broken(heads) => {
                format!("cannot be upgraded: the channel has not one head but {} ({})", heads.len(), heads.join(", "))
            }
        };
        match (self.is_regression(), &self.before) {
            (true, UpgradeStatus::Upgraded(path)) => format!("{now}; so far it is upgraded to {}", upgraded(path)),
            (true, _) => format!("{now}; so far it is the newest"),
            (false, before) if !before.is_good() && !self.now.is_good() => format!("{now}, as before"),
            _ => now,
        }
    }
}

impl ChannelReport {
    /// Describes the fix for the channel; commands refer to the catalog as `new`.
    pub fn advice(&self, new: &str) -> Option<String> {
        let edge = |bundle: &str| {
            format!(
                "opm edit set-edge {} {bundle} --package {} --channel {}",
                quoted(new),
                self.package,
                quoted(&self.channel)
            )
        };
        Some(match self.fix.as_ref()? {
            Fix::AddSkips { bundle, skips } => format!("{} --add-skip {}", edge(bundle), quoted(&skips.join(","))),
            Fix::SkipRange { bundle, range } => format!("{} --skip-range {}", edge(bundle), quoted(range)),
            Fix::KeepChannel => {
                format!("keep channel {:?} until nobody follows it; 'opm edit deprecate' warns them", self.channel)
            }
            Fix::KeepPackage => {
                format!("keep package {:?} until nobody runs it; 'opm edit deprecate' warns them", self.package)
            }
            Fix::OneHead => "give the channel one head; 'opm validate' shows more".to_owned(),
        })
    }
}

/// Counts the regressions.
pub fn regressions(reports: &[ChannelReport]) -> usize {
    reports.iter().flat_map(|report| &report.outcomes).filter(|outcome| outcome.is_regression()).count()
}
