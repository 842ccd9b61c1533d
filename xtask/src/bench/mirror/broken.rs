//! G-6: a pull that is killed repeatedly, and a missing image.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::registry::CountingProxy;
use super::{Bench, NAME, Table, megabytes};

/// When a pull is killed, as a fraction of a full pull.
const KILL_POINTS: [f64; 5] = [0.15, 0.3, 0.45, 0.6, 0.75];

impl Bench<'_> {
    fn start(&self, arguments: &[&str]) -> Result<Child> {
        let mut command = Command::new(self.binary);
        command.current_dir(&self.place).args(["mirror", "--use-http"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().context("starting the program")
    }

    /// Kills pulls and completes the last one; then drops a missing image.
    pub(super) fn broken(&self, table: &mut Table, proxy: &CountingProxy, count: usize, taken: Duration) -> Result<()> {
        let (before, _) = proxy.counted();
        let mut kills = 0;
        for moment in KILL_POINTS {
            let mut child = self.start(&["pull", "set.yaml", "killed"])?;
            std::thread::sleep(taken.mul_f64(moment));
            kills += usize::from(child.try_wait()?.is_none());
            child.kill().ok();
            child.wait()?;
        }
        self.opm(&["pull", "set.yaml", "killed"])?;
        let bytes = proxy.counted().0 - before;
        self.opm(&["verify", "killed"])?;
        let same =
            fs::read(self.place.join("killed/mirror/lock.json"))? == fs::read(self.place.join("set/mirror/lock.json"))?;
        ensure!(same, "a pull that was killed has another lock");
        fs::remove_dir_all(self.place.join("killed"))?;
        let different = self.images.different;
        table.row(
            "G-6",
            &format!("bytes of `pull`, killed {kills} times, and then to the end"),
            &megabytes(bytes),
            &format!("{:.3} of the different blobs", bytes as f64 / different as f64),
            "1.00, and 1 MiB for each connection that was killed",
        );
        // One more image, which does not exist.
        let text = fs::read_to_string(self.place.join("set.yaml"))?;
        let absent = format!("{text}  - name: {}/{NAME}:absent\n", proxy.host());
        fs::write(self.place.join("absent.yaml"), absent)?;
        let status = self.start(&["pull", "absent.yaml", "absent"])?.wait()?;
        ensure!(status.code() == Some(1), "a set that lacks an image is not whole, but the code is {status}");
        let there = self.size("absent/blobs")?;
        let dropped = self.opm(&["pull", "absent.yaml", "absent", "--missing", "drop"])?;
        self.opm(&["verify", "absent"])?;
        fs::remove_dir_all(self.place.join("absent"))?;
        table.row(
            "G-6",
            &format!("one of {} images missing", count + 1),
            &format!(
                "{} are there; one command leaves it out in {:.2} s",
                megabytes(there),
                dropped.wall.as_secs_f64()
            ),
            &format!("{:.3} of the different blobs", there as f64 / different as f64),
            "1.00: all others",
        );
        Ok(())
    }
}
