//! Plans as text.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use fbc::spelling::size::bytes;
use fbc::spelling::table::Table;
use image::Reference;

use super::PlanReport;
use crate::lock::Role;

impl Display for PlanReport {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let lock = &self.lock;
        for catalog in &lock.catalogs {
            let digest = catalog.digest.get(..19).unwrap_or(&catalog.digest);
            let whole = if catalog.whole { ", as it is" } else { "" };
            writeln!(out, "catalog {} ({digest}{whole})", catalog.source)?;
            if catalog.whole && catalog.packages.len() > 20 {
                writeln!(out, "  {} packages", catalog.packages.len())?;
                continue;
            }
            let rows = catalog.packages.iter().flat_map(|(name, package)| {
                package.channels.iter().map(move |(channel, bundles)| {
                    let default = if *channel == package.default_channel { " (default)" } else { "" };
                    vec![format!("  {name}"), format!("{channel}{default}"), bundles.join(" ")]
                })
            });
            let table = Table::new(&["  PACKAGE", "CHANNEL", "BUNDLES"], rows).text();
            out.write_str(&table)?;
        }
        let count = |role: Role| lock.images.iter().filter(|image| image.role == role).count();
        let different: BTreeSet<&String> = lock.images.iter().map(|image| &image.digest).collect();
        let hosts: BTreeSet<String> = lock
            .images
            .iter()
            .filter_map(|image| Some(Reference::parse(&image.source).ok()?.host().to_owned()))
            .collect();
        let signed = lock.images.iter().filter(|image| !image.referrers.is_empty()).count();
        writeln!(out, "bundles: {}", lock.bundles().len())?;
        writeln!(
            out,
            "images:  {} under {} names ({} bundles, {} related, {} additional); {signed} signed",
            different.len(),
            lock.images.len(),
            count(Role::Bundle),
            count(Role::Related),
            count(Role::Additional),
        )?;
        writeln!(out, "from:    {}", hosts.into_iter().collect::<Vec<_>>().join(", "))?;
        writeln!(
            out,
            "bytes:   {} in {} different blobs, {} to fetch",
            bytes(self.bytes),
            self.blobs,
            bytes(self.bytes_to_fetch)
        )?;
        if !lock.left_out.is_empty() {
            writeln!(out, "left out: {}", lock.left_out.len())?;
        }
        Ok(())
    }
}
