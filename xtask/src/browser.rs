//! Provides a real browser for tests: Chromium, its headless shell and its driver from Debian, and axe, which
//! checks pages for accessibility.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::kube;
use crate::tools;
use crate::workspace::{Workspace, output};

/// The npm package of axe.
const AXE: &str = "axe-core@4.14.0";

/// Installs the browser, its driver and axe.
pub(crate) fn run(_: &Workspace, options: &[String]) -> Result<()> {
    ensure!(options.is_empty(), "browser takes no options");
    ensure_installed()
}

/// Installs the missing ones. axe is cached outside of the tree, once per machine.
pub(crate) fn ensure_installed() -> Result<()> {
    tools::ensure(&["chromium", "chromium-headless-shell", "chromedriver:chromium-driver"])?;
    let cache = kube::cache()?;
    let place = cache.join("axe.min.js");
    if place.is_file() {
        return Ok(());
    }
    tools::ensure(&["npm"])?;
    let scratch = cache.join(format!("axe-{}", std::process::id()));
    fs::create_dir_all(&scratch).with_context(|| format!("creating {}", scratch.display()))?;
    let packed =
        output(Command::new("npm").args(["pack", "--silent", AXE]).current_dir(&scratch)).context("downloading axe")?;
    output(Command::new("tar").args(["-xzf", packed.trim(), "package/axe.min.js"]).current_dir(&scratch))?;
    fs::rename(scratch.join("package/axe.min.js"), &place).context("caching axe")?;
    fs::remove_dir_all(&scratch).context("removing the downloaded package")
}
