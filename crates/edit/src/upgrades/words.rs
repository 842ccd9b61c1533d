//! What becomes of clusters, in words.

use spelling::shell::quoted;

use super::{ChannelReport, Fate, Fix, Outcome, Way};

impl Outcome {
    /// Says what becomes of the bundle, to be read after its name.
    pub fn words(&self) -> String {
        let upgraded = |way: &Way| match way.steps {
            1 => way.end.clone(),
            steps => format!("{} in {steps} steps", way.end),
        };
        let now = match &self.now {
            Fate::Latest => "is the newest".to_owned(),
            Fate::Upgraded(way) => format!("is upgraded to {}", upgraded(way)),
            Fate::Stuck(None) => "is stuck: nothing upgrades it".to_owned(),
            Fate::Stuck(Some(way)) => format!("is stuck at {}: nothing upgrades that", way.end),
            Fate::HeldBack { way, by, why } => {
                let at = way.as_ref().map(|way| format!(" at {}", way.end)).unwrap_or_default();
                format!("stays{at}: {by} comes next, but cannot be installed: {why}")
            }
            Fate::NoPath => "has no path: it is not in the channel any more, and nothing upgrades it".to_owned(),
            Fate::ChannelGone => {
                "cannot be upgraded: its channel is gone, and installing anything in its namespace fails".to_owned()
            }
            Fate::PackageGone => "cannot be upgraded: its package is gone".to_owned(),
            Fate::Broken(heads) => {
                format!("cannot be upgraded: the channel has not one head but {} ({})", heads.len(), heads.join(", "))
            }
        };
        match (self.is_regression(), &self.before) {
            (true, Fate::Upgraded(way)) => format!("{now}; so far it is upgraded to {}", upgraded(way)),
            (true, _) => format!("{now}; so far it is the newest"),
            (false, before) if !before.is_good() && !self.now.is_good() => format!("{now}, as before"),
            _ => now,
        }
    }
}

impl ChannelReport {
    /// Says what fixes the channel of the catalog that is called `new` in commands.
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

/// Counts those who are worse off.
pub fn regressions(reports: &[ChannelReport]) -> usize {
    reports.iter().flat_map(|report| &report.outcomes).filter(|outcome| outcome.is_regression()).count()
}
