//! The effects of a new catalog, as programs read them.

use schemars::JsonSchema;
use serde::Serialize;

use super::{ChannelReport, UpgradeOutcome, UpgradeStatus, regressions};

/// The effects on clusters when one catalog replaces another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeReport {
    /// The number of bundles that lose their upgrade.
    pub regressions: usize,
    /// The channels of the old catalog.
    pub channels: Vec<ChannelUpgrades>,
}

/// The effects on clusters that follow a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelUpgrades {
    pub package: String,
    pub channel: String,
    /// Every bundle that the old channel mentions, by name.
    pub bundles: Vec<BundleUpgrades>,
    /// How to fix the regressions.
    pub fix: Option<String>,
}

/// The effects on clusters that run a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleUpgrades {
    /// The bundle.
    pub name: String,
    /// Its version, if the old catalog contains it.
    pub version: Option<String>,
    /// What the old catalog offers.
    pub before: CatalogOffer,
    /// What the new catalog offers.
    pub now: CatalogOffer,
    /// Whether the bundle loses its upgrade.
    pub regression: bool,
}

/// What a catalog offers to a cluster that runs a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogOffer {
    /// The kind of the status.
    pub result: &'static str,
    /// The next bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The last bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The number of upgrades.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// The bundle that comes next but cannot be installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_back_by: Option<String>,
    /// The reason why it cannot be installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl UpgradeReport {
    /// Creates the report; fixes refer to the new catalog as `new`.
    pub fn new(reports: &[ChannelReport], new: &str) -> UpgradeReport {
        let channel = |report: &ChannelReport| ChannelUpgrades {
            package: report.package.clone(),
            channel: report.channel.clone(),
            bundles: report.outcomes.iter().map(BundleUpgrades::new).collect(),
            fix: report.advice(new),
        };
        UpgradeReport { regressions: regressions(reports), channels: reports.iter().map(channel).collect() }
    }
}

impl BundleUpgrades {
    fn new(outcome: &UpgradeOutcome) -> BundleUpgrades {
        BundleUpgrades {
            name: outcome.bundle.clone(),
            version: outcome.version.as_ref().map(ToString::to_string),
            before: CatalogOffer::new(&outcome.before),
            now: CatalogOffer::new(&outcome.now),
            regression: outcome.is_regression(),
        }
    }
}

impl CatalogOffer {
    fn new(status: &UpgradeStatus) -> CatalogOffer {
        let result = match status {
            UpgradeStatus::Latest => "latest",
            UpgradeStatus::Upgraded(_) => "upgraded",
            UpgradeStatus::Stuck(_) => "stuck",
            UpgradeStatus::HeldBack { .. } => "held-back",
            UpgradeStatus::NoPath => "no-path",
            UpgradeStatus::ChannelGone => "channel-gone",
            UpgradeStatus::PackageGone => "package-gone",
            UpgradeStatus::Broken(_) => "channel-broken",
        };
        let path = status.path().cloned();
        let (held_back_by, reason) = match status {
            UpgradeStatus::HeldBack { by, why, .. } => (Some(by.clone()), Some(why.clone())),
            _ => (None, None),
        };
        let steps = path.as_ref().map(|path| path.steps);
        let (next, destination) = path.map(|path| (path.next, path.end)).unzip();
        CatalogOffer { result, next, destination, steps, held_back_by, reason }
    }
}
