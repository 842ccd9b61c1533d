//! Upgrade paths as text.

use std::fmt::{self, Display, Formatter};

use super::{Ending, UpgradePath};

impl Display for UpgradePath {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let path = self;
        match &path.channel_reason {
            None => writeln!(out, "{}", path.from)?,
            Some(reason) => writeln!(out, "{}  (channel {}: {reason})", path.from, path.channel)?,
        }
        for step in &path.steps {
            writeln!(out, "-> {}  ({})", step.name, step.edge)?;
            for along in &step.along {
                writeln!(out, "     {}  ({})", along.action(), along.origin)?;
                if along.reasons.is_empty() {
                    out.write_str("       by its own Subscription\n")?;
                }
                for reason in &along.reasons {
                    writeln!(out, "       {reason}")?;
                }
            }
        }
        let at = path.steps.last().map_or(&path.from, |step| &step.name);
        let channel = &path.channel;
        match (path.end, &path.to) {
            (Ending::Latest, None) if path.v1 => {
                writeln!(out, "no edge of channel {channel} leads from {at} to a higher version")
            }
            (Ending::Latest, Some(to)) if path.v1 => {
                writeln!(out, "the cluster goes on to {at} of channel {channel}, and never runs {to}")
            }
            (Ending::Refused, _) => {
                let next = path.refused.as_deref().unwrap_or_default();
                writeln!(out, "stuck at {at}: OLM v1 refuses the upgrade to {next}")
            }
            (Ending::Latest, None) => writeln!(out, "{at} is the newest of channel {channel}"),
            (Ending::Latest, Some(to)) => {
                writeln!(out, "the cluster goes on to {at}, the newest of channel {channel}, and never runs {to}")
            }
            (Ending::Reached, _) => writeln!(out, "{at} is reached in {}", steps(path.steps.len())),
            (Ending::Stuck, _) => writeln!(out, "stuck at {at}, which is not the newest of channel {channel}:"),
            (Ending::Unknown, _) => writeln!(out, "{at} is as far as the path is known:"),
            (Ending::Blocked, _) if path.explanation.is_empty() => writeln!(out, "stuck at {at}"),
            (Ending::Blocked, _) => writeln!(out, "stuck at {at}: nothing in the namespace can be resolved"),
        }?;
        let said = if path.end == Ending::Refused { "OLM says:" } else { " " };
        for line in &path.explanation {
            writeln!(out, "{said} {line}")?;
        }
        if let Some(refusal) = &path.refusal {
            writeln!(out, "{}", refusal.said())?;
        }
        if path.not_compared > 0 {
            writeln!(
                out,
                "the CRDs of {} were not compared: the catalog does not contain the objects; use 'opm crd-diff'",
                steps(path.not_compared)
            )?;
        }
        for channel in &path.elsewhere {
            writeln!(out, "channel {channel} leads on: --channel {channel}")?;
        }
        Ok(())
    }
}

fn steps(number: usize) -> String {
    match number {
        0 => "no step".to_owned(),
        1 => "one step".to_owned(),
        _ => format!("{number} steps"),
    }
}
