//! T-29: the cost of a mirror against a baseline of existing tools: `skopeo copy`, a second registry, and `tar`.
//!
//! Both move the same images between the same registries in the same run, so the ratios are meaningful on any
//! machine.

mod broken;
mod images;
mod registry;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use self::images::{Images, Scale};
use self::registry::{CountingProxy, FileRegistry, Registry};
use super::measure::{Figures, once};
use super::serve;

/// The repository of all images.
const NAME: &str = "bench/image";
/// The number of concurrent copies of the baseline.
const COPIES: usize = 4;

/// A table built row by row.
struct Table(String);

impl Table {
    fn row(&mut self, goal: &str, what: &str, measured: &str, ratio: &str, wanted: &str) {
        let _ = writeln!(self.0, "| {goal} | {what} | {measured} | {ratio} | {wanted} |");
    }
}

/// The state of a benchmark.
struct Bench<'a> {
    binary: &'a Path,
    place: PathBuf,
    images: Images,
}

/// Measures and returns the table.
pub(super) fn table(binary: &Path, catalog: &Path, scratch: &Path, quick: bool, runs: usize) -> Result<String> {
    let place = scratch.join("mirror");
    if place.exists() {
        fs::remove_dir_all(&place).context("removing the files of an earlier run")?;
    }
    fs::create_dir_all(&place).context("creating a directory for the benchmark")?;
    let scale = if quick { Scale::TWENTIETH } else { Scale::FULL };
    let images = Images::make(&place.join("images"), scale)?;
    let mut table = Table(format!(
        "{} images of two platforms that share layers: {} of different blobs, {} referenced. {} cores.\n\n\
         | goal | task | measured | ratio | wanted |\n|---|---|---|---|---|\n",
        images.count,
        megabytes(images.different),
        megabytes(images.referenced),
        std::thread::available_parallelism().map_or(0, |cores| cores.get()),
    ));
    let bench = Bench { binary, place: place.clone(), images };
    bench.move_images(&mut table)?;
    bench.many_images(&mut table, quick)?;
    bench.large_catalog(&mut table, catalog, runs)?;
    fs::remove_dir_all(&place).context("removing the directory of the benchmark")?;
    Ok(table.0)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn shown(figures: &Figures) -> String {
    let cpu = figures.cpu.map_or(String::new(), |cpu| format!(", {:.2} s CPU", cpu.as_secs_f64()));
    let memory = figures.memory.map_or(String::new(), |bytes| format!(", {}", megabytes(bytes)));
    format!("{:.2} s{cpu}{memory}", figures.wall.as_secs_f64())
}

fn ratio(ours: Option<Duration>, theirs: Option<Duration>) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => format!("{:.2}", ours.as_secs_f64() / theirs.as_secs_f64().max(0.001)),
        _ => "unknown".to_owned(),
    }
}

fn ratios(ours: &Figures, theirs: &Figures) -> String {
    format!("{} × wall, {} × CPU", ratio(Some(ours.wall), Some(theirs.wall)), ratio(ours.cpu, theirs.cpu))
}

impl Bench<'_> {
    fn opm(&self, arguments: &[&str]) -> Result<Figures> {
        let arguments = [&["mirror", "--use-http"], arguments].concat();
        once(&self.place, self.binary, &arguments, &[])
    }

    fn shell(&self, script: &str) -> Result<Figures> {
        once(&self.place, Path::new("sh"), &["-e", "-c", script], &[])
    }

    fn size(&self, name: &str) -> Result<u64> {
        serve::size(&self.place.join(name))
    }

    fn set(&self, name: &str, host: &str, count: usize) -> Result<()> {
        let mut text =
            "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  additionalImages:\n"
                .to_owned();
        for number in 0..count {
            let _ = writeln!(text, "  - name: {host}/{NAME}:v{number}");
        }
        fs::write(self.place.join(name), text).with_context(|| format!("writing {name}"))
    }

    /// G-1, G-2, G-3 and G-5.
    fn move_images(&self, table: &mut Table) -> Result<()> {
        let source = Registry::start(&self.place.join("source"))?;
        let count = self.images.count;
        self.shell(&self.images.publish(source.host(), NAME))?;
        let proxy = CountingProxy::start(source.host())?;
        // The baseline, to disk: into a registry, and all of that into an archive.
        let cache = Registry::start(&self.place.join("cache"))?;
        let copies = |from: &str, to: &str| {
            format!(
                "seq 0 {} | xargs -P {COPIES} -I N skopeo copy --quiet --all --src-tls-verify=false \
                 --dest-tls-verify=false docker://{from}/{NAME}:vN docker://{to}/{NAME}:vN",
                count - 1
            )
        };
        let script = format!("{}\ntar -cf archive.tar -C cache data", copies(proxy.host(), cache.host()));
        let (before, _) = proxy.counted();
        let theirs = self.shell(&script)?;
        let their_bytes = proxy.counted().0 - before;
        let their_disk = self.size("cache/data")? + fs::metadata(self.place.join("archive.tar"))?.len();
        drop(cache);
        fs::remove_dir_all(self.place.join("cache"))?;
        // opm, to disk.
        self.set("set.yaml", proxy.host(), count)?;
        let (bytes, requests) = proxy.counted();
        let ours = self.opm(&["pull", "set.yaml", "set"])?;
        let (our_bytes, our_requests) = (proxy.counted().0 - bytes, proxy.counted().1 - requests);
        table.row("", "stand-in, to disk", &shown(&theirs), "", "");
        table.row("G-1", "`pull`", &shown(&ours), &ratios(&ours, &theirs), "0.5 × wall; 7 s CPU at full size");
        let different = self.images.different;
        let of = |bytes: u64| format!("{:.3} of the different blobs", bytes as f64 / different as f64);
        table.row("", "stand-in, bytes from the source", &megabytes(their_bytes), &of(their_bytes), "");
        table.row("G-2", "bytes from the source", &megabytes(our_bytes), &of(our_bytes), "1.00");
        let documents = (self.images.documents + self.images.blobs) as u64;
        table.row(
            "G-2",
            "requests to the source",
            &format!("{our_requests}"),
            &format!("{:.2} a manifest or blob", our_requests as f64 / documents as f64),
            "1, and those for signatures",
        );
        let requests = proxy.counted().1;
        let again = self.opm(&["pull", "set/mirror/lock.json", "set"])?;
        let asked = proxy.counted().1 - requests;
        table.row("G-2", "all there, with a lock", &shown(&again), &format!("{asked} requests"), "0.2 s, none");
        let disk = self.size("set")?;
        table.row("", "stand-in, disk on the connected side", &megabytes(their_disk), &of(their_disk), "");
        table.row("G-3", "disk on the connected side", &megabytes(disk), &of(disk), "1.00");
        table.row("G-4", "memory of `pull`", &memory(&ours), "", "100 MB");
        self.broken(table, &proxy, count, ours.wall)?;
        self.deltas(table, &proxy, count)?;
        drop((proxy, source));
        fs::remove_dir_all(self.place.join("source"))?;
        self.closed_side(table, count, different)
    }

    /// G-5: the cost of a set with two more images next to an existing one.
    fn deltas(&self, table: &mut Table, proxy: &CountingProxy, count: usize) -> Result<()> {
        self.set("less.yaml", proxy.host(), count - 2)?;
        self.opm(&["plan", "less.yaml", "--lock", "less.json"])?;
        self.opm(&["pull", "less.json", "less"])?;
        let new = self.size("set/blobs")? - self.size("less/blobs")?;
        self.opm(&["pull", "set/mirror/lock.json", "set", "--volumes", "4G", "--to", "delta", "--have", "less"])?;
        let delta = self.size("delta")?;
        let ratio = format!("{:.3} of the new blobs", delta as f64 / new as f64);
        table.row("G-5", "volumes for two new images", &megabytes(delta), &ratio, "1.01, and the documents");
        fs::remove_dir_all(self.place.join("less"))?;
        fs::remove_dir_all(self.place.join("delta"))?;
        Ok(())
    }

    /// From disk, on the disconnected side, without the source.
    fn closed_side(&self, table: &mut Table, count: usize, different: u64) -> Result<()> {
        self.opm(&["pull", "set/mirror/lock.json", "set", "--volumes", "4G", "--to", "usb", "--drain"])?;
        let (left, volumes) = (self.size("set/blobs")?, self.size("usb")?);
        let of = |bytes: u64| format!("{:.3} of the different blobs", bytes as f64 / different as f64);
        let drained = left + volumes;
        table.row("G-3", "disk with `--volumes --drain`", &megabytes(drained), &of(drained), "1.00");
        let closed = Registry::start(&self.place.join("closed"))?;
        let script = format!(
            "mkdir unpacked\ntar -xf archive.tar -C unpacked\n{}",
            Registry::script("unpacked/data", |cache| {
                format!(
                    "seq 0 {} | xargs -P {COPIES} -I N skopeo copy --quiet --all --src-tls-verify=false \
                     --dest-tls-verify=false docker://{cache}/{NAME}:vN docker://{}/theirs/{NAME}:vN",
                    count - 1,
                    closed.host()
                )
            })?
        );
        let theirs = self.shell(&script)?;
        let their_disk = self.size("unpacked")? + fs::metadata(self.place.join("archive.tar"))?.len();
        fs::remove_dir_all(self.place.join("unpacked"))?;
        fs::remove_file(self.place.join("archive.tar"))?;
        drop(closed);
        fs::remove_dir_all(self.place.join("closed"))?;
        let closed = Registry::start(&self.place.join("closed"))?;
        let to = format!("{}/ours", closed.host());
        let ours = self.opm(&["push", "usb", &to])?;
        table.row("", "stand-in, from disk", &shown(&theirs), "", "");
        table.row("G-1", "`push`", &shown(&ours), &ratios(&ours, &theirs), "0.5 × wall; 6 s CPU at full size");
        table.row("", "stand-in, disk on the closed side", &megabytes(their_disk), &of(their_disk), "");
        table.row("G-3", "disk on the closed side", &megabytes(volumes), &of(volumes), "1.00");
        table.row("G-4", "memory of `push`", &memory(&ours), "", "100 MB");
        let again = self.opm(&["push", "usb", &to])?;
        table.row("", "`push`, all there", &shown(&again), "", "");
        drop(closed);
        fs::remove_dir_all(self.place.join("closed"))?;
        fs::remove_dir_all(self.place.join("usb"))?;
        Ok(())
    }

    /// G-4: many small images.
    fn many_images(&self, table: &mut Table, quick: bool) -> Result<()> {
        let count = if quick { 1000 } else { 20_000 };
        let place = self.place.join("small");
        let small = images::many(&place, count)?;
        let server = FileRegistry::start(&place, small)?;
        self.set("small.yaml", server.host(), count)?;
        let pulled = self.opm(&["pull", "small.yaml", "many", "--without-referrers"])?;
        let task = format!("`pull` of {count} images of 1 kB");
        table.row("G-4", &task, &shown(&pulled), "", "150 MB for 20,000");
        drop(server);
        fs::remove_dir_all(self.place.join("many"))?;
        fs::remove_dir_all(place)?;
        Ok(())
    }

    /// G-4 and G-7: a large catalog.
    fn large_catalog(&self, table: &mut Table, catalog: &Path, runs: usize) -> Result<()> {
        let registry = Registry::start(&self.place.join("catalogs"))?;
        let name = format!("{}/bench/index:v1", registry.host());
        let catalog = catalog.to_str().context("a path is not UTF-8")?;
        let build = ["build", catalog, "--data-only", "-t", &name, "--push", "--use-http"];
        once(&self.place, self.binary, &build, &[])?;
        // Without images: only the catalog is measured.
        let text = format!(
            "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  operators:\n  - catalog: \
             {name}\n  blockedImages: [{{name: .}}]\n"
        );
        fs::write(self.place.join("heads.yaml"), text).context("writing heads.yaml")?;
        // Published catalogs have invalid references; their bundles are dropped.
        let choose = ["plan", "heads.yaml", "--choose-default", "--missing", "drop", "-o", "json"];
        let planned = self.opm(&choose)?;
        table.row(
            "G-4",
            "`plan` of the heads of the large catalog",
            &shown(&planned),
            "",
            "100 MB, 1 s and its download",
        );
        let pull = [&["pull", "heads.yaml", "heads"], &choose[2..5], &["--catalog-program", "none"]].concat();
        let pulled = self.opm(&pull)?;
        table.row("", "`pull` of these, with the image of the catalog", &shown(&pulled), "", "");
        let kept = self.place.join("heads/mirror/catalogs/index-v1");
        ensure!(kept.is_dir(), "the set has no catalog");
        let built = serve::build(self.binary, &kept, &self.place.join("heads-cache"), runs.min(3))?;
        table.row("G-7", "cache in the image of the catalog", &built, "", "2 s");
        let cached = ["--cache-dir", self.place.to_str().context("a path is not UTF-8")?];
        let cache = format!("{}/heads-cache", cached[1]);
        let started = serve::start(self.binary, &kept, &[cached[0], &cache], runs.min(3))?;
        table.row("G-7", "a pod of the catalog is ready", &started, "", "50 ms");
        Ok(())
    }
}

fn memory(figures: &Figures) -> String {
    figures.memory.map_or("unknown".to_owned(), megabytes)
}
